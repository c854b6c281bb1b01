//! `warpyard worker`: a worker of a server on another machine. The agent is the one that runs inside a server; its link, the
//! shipping of logs and the machine's socket are here. It only dials out.

mod https_link;
mod log_shipper;
mod membership;

pub use membership::MembershipError;

use crate::data::{DataDir, DataError};
use crate::forwarder::{self, Forwarder, ForwarderError};
use https_link::HttpsLink;
use log_shipper::LogShipper;
use membership::Membership;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use warpyard_api::client::{ClientError, SYSTEM_SOCKET};
use warpyard_api::token::JoinToken;
use warpyard_api::wire::WorkerSettings;
use warpyard_core::{JobId, Span};
use warpyard_worker::accounts::is_root;
use warpyard_worker::agent::{
    Agent, AgentError, AgentHandle, DeviceRules, Generation, Layout, Lineage, Settings, prune_logs,
};
use warpyard_worker::inherited::InheritedSettings;
use warpyard_worker::probe::{self, Choice, ProbeError, ProbePaths};

/// How often the worker examines everything and sends a full report, unless its lease is short: three in a row may be lost
/// before it is shown as silent.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(5);

/// How many full reports are sent within a lease at least.
const REPORTS_PER_LEASE: u32 = 6;

/// How long output that the server would not take is kept.
const UNSHIPPED_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// How `worker` was called.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// The join token, where it has yet to join.
    pub join: Option<JoinToken>,
    /// Its name; the machine's unless given.
    pub name: Option<String>,
    /// Labels by which jobs select it.
    pub labels: BTreeMap<String, String>,
    /// The GPUs; found by itself unless given.
    pub gpus: Option<String>,
    /// Thousandths of a processor offered; all unless given.
    pub cpus: Option<u32>,
    /// The socket for this machine's users; the usual one unless given.
    pub socket: Option<PathBuf>,
    /// The program and arguments that become the spawner.
    pub spawner: (PathBuf, Vec<String>),
}

/// Why a worker could not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerDaemonError {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its membership.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The event logs the server named.
    #[error(
        "the server at {0} named event logs that this version does not understand; update the older of the two"
    )]
    Logs(String),
    /// Tasks of a shared server run as their users.
    #[error("the server is shared, so tasks run as their users: run the worker as root")]
    NotRoot,
    /// The devices.
    #[error("cannot look for GPUs")]
    Probe(#[from] ProbeError),
    /// The devices as they were described.
    #[error("{0}")]
    Gpus(String),
    /// The agent.
    #[error("cannot start the worker")]
    Agent(#[from] AgentError),
    /// The socket for this machine's users.
    #[error(transparent)]
    Forwarder(#[from] ForwarderError),
    /// The runtime.
    #[error("cannot run the worker")]
    Runtime(#[source] io::Error),
}

/// What a person is told when the worker has started.
#[derive(Clone, Debug)]
pub struct WorkerReadyReport {
    /// The worker's name.
    pub name: String,
    /// The server's address.
    pub server: String,
    /// Where its data is.
    pub data: PathBuf,
    /// What was found of GPUs, in a line.
    pub devices: String,
    /// How many GPUs there are.
    pub gpus: usize,
    /// Thousandths of a processor offered.
    pub cpus: u32,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Where this machine's users reach the server, if the worker may vouch for them.
    pub socket: Option<PathBuf>,
}

/// Why the agent has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Someone asked for it.
    Asked,
    /// The server's jobs are numbered by another event log.
    AnotherLog,
}

/// Runs a worker until it is asked to end; attempts continue. `ready` is called once the agent runs.
pub fn run(mut options: Options, mut ready: impl FnMut(&WorkerReadyReport)) -> Result<(), WorkerDaemonError> {
    options.spawner.1.extend(InheritedSettings::override_for_server().to_args());
    let data = DataDir::lock(&options.data)?;
    let logs = data.path().join("logs");
    let make_logs = fs::DirBuilder::new().recursive(true).mode(0o700).create(&logs);
    make_logs.map_err(|source| DataError::Io { path: logs, source })?;
    let name = options.name.clone();
    let mut member = Membership::take(data.path(), options.join.as_ref(), || {
        name.unwrap_or_else(crate::daemon::host_name)
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(WorkerDaemonError::Runtime)?;
    loop {
        let settings = member.refresh(data.path())?;
        let session = Session::start(&options, data.path(), &member, &settings, &runtime)?;
        ready(&session.report);
        let stop = runtime.block_on(stopped(session.stops));
        session.agent.leave(false);
        if stop == Stop::Asked {
            break;
        }
        tracing::warn!(
            "the server's jobs are numbered by another event log: starting again with its settings"
        );
    }
    runtime.shutdown_background();
    Ok(())
}

/// A run of the agent under the same settings.
struct Session {
    agent: AgentHandle,
    stops: mpsc::UnboundedReceiver<Stop>,
    report: WorkerReadyReport,
    /// Forwards requests of this machine's users for as long as it lives.
    _forwarder: Option<Forwarder>,
}

impl Session {
    fn start(
        options: &Options,
        data: &Path,
        member: &Membership,
        settings: &WorkerSettings,
        runtime: &Runtime,
    ) -> Result<Session, WorkerDaemonError> {
        if settings.shared && !is_root() {
            return Err(WorkerDaemonError::NotRoot);
        }
        let layout = layout(data, settings).ok_or_else(|| WorkerDaemonError::Logs(member.server.clone()))?;
        if let Err(e) = prune_logs(data, UNSHIPPED_KEPT, SystemTime::now()) {
            tracing::warn!("old output cannot be removed: {e}");
        }
        let socket = member.vouch.then(|| options.socket.clone().unwrap_or_else(|| SYSTEM_SOCKET.into()));
        let forwarder = socket
            .clone()
            .map(|socket| forwarder::start(socket, member.target(), runtime.handle()))
            .transpose()?;
        let shipper = LogShipper::start(member.client()?, layout.clone(), runtime.handle());
        let (stop, stops) = mpsc::unbounded_channel();
        let log = layout.lineage().current().log.as_ref().map(ToString::to_string);
        // It only fails when the worker stops anyway.
        let another_log = move || stop.send(Stop::AnotherLog).unwrap_or_default();
        let link = HttpsLink::new(member.client()?, log, shipper, another_log);
        let agent = Agent::start(agent_settings(options, member, settings, layout, socket.clone())?, link)?;
        let info = agent.info();
        let watched = agent.devices();
        let watched = watched.lock().expect("nothing panics while holding the devices");
        let report = WorkerReadyReport {
            name: info.name.clone(),
            server: member.server.clone(),
            data: data.to_owned(),
            devices: watched.describe().to_owned(),
            gpus: info.devices.len(),
            cpus: info.cpus,
            labels: info.labels.clone(),
            socket,
        };
        drop(watched);
        Ok(Session { agent, stops, report, _forwarder: forwarder })
    }
}

/// The paths of jobs that the server's logs numbered; none where it names no log, or one that is no log's id.
fn layout(data: &Path, settings: &WorkerSettings) -> Option<Layout> {
    let generations = settings.logs.iter().map(|generation| {
        let log = generation.log.as_ref().map(|log| log.parse()).transpose().ok()?;
        Some(Generation { log, first_job: JobId(generation.first_job) })
    });
    Some(Layout::new(data, Lineage::from_generations(generations.collect::<Option<_>>()?)?))
}

fn agent_settings(
    options: &Options,
    member: &Membership,
    settings: &WorkerSettings,
    layout: Layout,
    socket: Option<PathBuf>,
) -> Result<Settings, WorkerDaemonError> {
    let gpus = options.gpus.as_deref().unwrap_or("auto");
    let choice: Choice = gpus.parse().map_err(|e| WorkerDaemonError::Gpus(format!("{e}")))?;
    let (cpus, memory) = crate::daemon::host_capacity();
    let shared_at = settings.shared.then(|| socket.unwrap_or_else(|| SYSTEM_SOCKET.into()));
    Ok(Settings {
        name: member.name.clone(),
        layout,
        spawner: options.spawner.clone(),
        probe: probe::find(&choice, &ProbePaths::default())?,
        rules: DeviceRules::default(),
        cpus: options.cpus.unwrap_or(cpus),
        memory,
        labels: options.labels.clone(),
        lease: Some(Span(settings.lease.0)),
        log_cap: settings.log_cap,
        shared_at,
        max_processes: None,
        max_grace: Span(settings.max_grace.0),
        every: LOOK_AROUND_EVERY.min(Duration::from_micros(settings.lease.0) / REPORTS_PER_LEASE),
        repaired: Box::new(|what| tracing::warn!("{what}")),
    })
}

/// Waits until the agent has to stop.
async fn stopped(mut stops: mpsc::UnboundedReceiver<Stop>) -> Stop {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return stops.recv().await.unwrap_or(Stop::Asked);
    };
    tokio::select! {
        stop = stops.recv() => stop.unwrap_or(Stop::Asked),
        _ = interrupt.recv() => Stop::Asked,
        _ = terminate.recv() => Stop::Asked,
    }
}
