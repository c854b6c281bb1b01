//! The worker inside the server's process: its settings, its link to the engine, and its start.

use super::{DaemonError, Options, host_name, idle_after, log_cap, max_grace, socket_path};
use crate::engine::{CommandError, EngineHandle};
use crate::repairs::Repairs;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::Report;
use warpyard_core::{Command, WorkerId};
use warpyard_worker::agent::{Agent, AgentError, AgentHandle, Deliver, DeviceRules, Layout, Link, Settings};
use warpyard_worker::probe::{self, Choice, ProbePaths, Thresholds};

/// How often the worker examines everything even without a notification.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(1);

/// A link inside one process: reports are commands, and assignments function calls.
struct InProcessLink {
    engine: EngineHandle,
    runtime: Handle,
    worker: Option<WorkerId>,
}

impl Link for InProcessLink {
    fn join(&mut self, info: &WorkerInfo, deliver: Deliver) -> Result<(), AgentError> {
        let joined = self.runtime.block_on(join(&self.engine, info));
        let worker = joined.map_err(|e| AgentError::NotTaken(e.to_string()))?;
        self.engine.deliver_to(worker, deliver);
        self.worker = Some(worker);
        Ok(())
    }

    fn report(&self, report: Report) {
        if let Some(worker) = self.worker {
            self.engine.tell(Command::Receive { worker, report: Box::new(report) });
        }
    }
}

/// Starts the worker and connects it to the engine.
pub(super) fn start(
    options: &Options,
    layout: &Layout,
    engine: &EngineHandle,
    runtime: &Handle,
    repairs: &Arc<Repairs>,
) -> Result<AgentHandle, DaemonError> {
    let config = &options.config;
    let gpus = options.gpus.as_ref().or(config.gpus.as_ref()).map_or("auto", String::as_str);
    let choice: Choice = gpus.parse().map_err(|e| DaemonError::Gpus(format!("{e}")))?;
    let places = ProbePaths { nvml_library: config.nvml_library.clone(), ..ProbePaths::default() };
    let usual = Thresholds::default();
    let repairs = repairs.clone();
    let (all_cpus, all_memory) = host_capacity();
    let settings = Settings {
        name: host_name(),
        layout: layout.clone(),
        spawner: options.spawner.clone(),
        probe: probe::find(&choice, &places)?,
        rules: DeviceRules {
            budget: options.gpu_budget.or(config.gpu_budget.map(|b| b.0)),
            limit: options.tasks_per_gpu.or(config.tasks_per_gpu),
            overcommit: config.overcommit,
            thresholds: Thresholds {
                utilisation_percent: config.busy_utilisation_percent.unwrap_or(usual.utilisation_percent),
                memory_bytes: config.busy_memory.map_or(usual.memory_bytes, |b| b.0),
            },
            idle_after: Some(idle_after(config)),
        },
        cpus: options.cpus.or(config.cpus.map(|c| c.0)).unwrap_or(all_cpus),
        memory: config.memory.map_or(all_memory, |m| m.0),
        lease: None,
        shared_at: (options.shared || config.shared).then(|| socket_path(options)),
        log_cap: log_cap(config),
        labels: Default::default(),
        max_processes: config.max_processes,
        max_grace: max_grace(config),
        every: LOOK_AROUND_EVERY,
        repaired: Box::new(move |what| repairs.note(what)),
    };
    let link = InProcessLink { engine: engine.clone(), runtime: runtime.clone(), worker: None };
    Ok(Agent::start(settings, link)?)
}

async fn join(engine: &EngineHandle, info: &WorkerInfo) -> Result<WorkerId, CommandError> {
    engine.command(Command::Join(info.clone())).await?;
    let name = info.name.clone();
    let worker = engine.read(move |f| f.cluster().worker_named(&name)).await?;
    Ok(worker.expect("a worker that joined is known"))
}

/// What the whole machine has: thousandths of a processor, and bytes of memory.
pub(crate) fn host_capacity() -> (u32, u64) {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32) * 1000;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = total.and_then(|t| t.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    (cpus, kib.unwrap_or(0) * 1024)
}
