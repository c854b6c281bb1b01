//! The hybrid scheduler's two experiments: a task that asks for a busy GPU queues for it or is scheduled elsewhere, and a GPU
//! with as many tasks as it may have sends the next one on. What was published is where each task went; so is what we give.

use super::Row;
use crate::workload::cluster;
use crate::{RunModel, Setup, Sim};
use warpyard_core::spec::{JobSpec, Needs, TaskSpec, WaitMode, default_grace};
use warpyard_core::{DeviceId, Rejection, Span, TaskId, Time, WorkerId};
use warpyard_policies::POLICIES;

const GIB: u64 = 1 << 30;
/// How long the task that keeps GPU 0 busy runs, in seconds.
const BUSY: f64 = 60.0;

/// Two GPUs of 16 GiB, each of which takes at most so many tasks.
struct Experiment {
    sim: Sim,
}

impl Experiment {
    fn new(limit: Option<u16>) -> Result<Experiment, Rejection> {
        let mut workers = cluster("2xV100:16GiB").expect("a cluster of two");
        workers[0].devices.iter_mut().for_each(|device| device.limit = limit);
        let setup = Setup { workers, policy: "hybrid".parse()?, ..Setup::default() };
        Ok(Experiment { sim: Sim::new(setup, POLICIES)? })
    }

    /// Submits a task that asks for GPU 0.
    fn ask_for_gpu_0(&mut self, gib: u64, seconds: f64, wait_mode: WaitMode) -> Result<TaskId, Rejection> {
        let preferred = vec![DeviceId { worker: WorkerId(0), index: 0 }];
        let needs = Needs { gpus: 1, gpu_memory: Some(gib * GIB), preferred, wait_mode, ..Needs::default() };
        let task = TaskSpec { name: "task".into(), needs, grace: default_grace(), ..TaskSpec::default() };
        let spec = JobSpec { name: "task".into(), tasks: vec![task], ..JobSpec::default() };
        let job = self.sim.submit("ann", spec, RunModel::Constant(Span::from_secs(seconds)))?;
        Ok(TaskId { job, node: 0, index: 0 })
    }

    /// The GPU a task is on now; none while it waits.
    fn gpu_of(&self, task: TaskId) -> Option<f64> {
        let (attempt, _) = self.sim.cluster().view().attempt(task)?;
        attempt.placement.devices.first().map(|(index, _)| f64::from(*index))
    }
}

/// The rows: on which GPU each task went, or when it started.
pub fn hybrid() -> Result<Vec<Row>, Rejection> {
    let mut rows = Vec::new();
    let mut note = |row: &str, published: f64, ours: Option<f64>| {
        let ours = ours.unwrap_or(f64::NAN);
        let verdict = if ours == published { "holds" } else { "it went elsewhere" }.to_owned();
        rows.push(Row {
            row: row.to_owned(),
            published: Some(published),
            ours,
            low: ours,
            high: ours,
            verdict,
        });
    };

    let mut one = Experiment::new(None)?;
    one.ask_for_gpu_0(10, BUSY, WaitMode::Queue)?;
    let shares = one.ask_for_gpu_0(4, BUSY, WaitMode::Queue)?;
    note("GPU 0 busy, queue, memory fits: GPU", 0.0, one.gpu_of(shares));
    let waits = one.ask_for_gpu_0(8, 10.0, WaitMode::Queue)?;
    let waiting = if one.gpu_of(waits).is_none() { 1.0 } else { 0.0 };
    note("GPU 0 busy, queue, memory does not fit: waits", 1.0, Some(waiting));
    let scheduled = one.ask_for_gpu_0(8, BUSY, WaitMode::Schedule)?;
    note("GPU 0 busy, schedule: GPU", 1.0, one.gpu_of(scheduled));
    one.sim.run_until(Time::from_secs(BUSY));
    note("GPU 0 free again, queue: GPU", 0.0, one.gpu_of(waits));
    let started = one.sim.record(waits).and_then(|record| record.started).map(Time::secs);
    note("GPU 0 free again, queue: started (s)", BUSY, started);

    let mut two = Experiment::new(Some(3))?;
    for number in ["first", "second", "third"] {
        let task = two.ask_for_gpu_0(2, BUSY, WaitMode::Schedule)?;
        note(&format!("at most 3 tasks a GPU, {number} asks for GPU 0: GPU"), 0.0, two.gpu_of(task));
    }
    let fourth = two.ask_for_gpu_0(2, BUSY, WaitMode::Schedule)?;
    note("at most 3 tasks a GPU, fourth asks for GPU 0: GPU", 1.0, two.gpu_of(fourth));
    Ok(rows)
}
