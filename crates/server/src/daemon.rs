//! `warpyard up`: the engine, its disk, the interface and the worker inside, from start to clean end.

use crate::auth::Authenticator;
use crate::caller::{Caller, Sharing};
use crate::catch_up::ReplicaError;
use crate::clock::Clock;
use crate::config::Config;
use crate::consistency::{self, ConsistencyError};
use crate::convert::Defaults;
use crate::data::{DataDir, DataError};
use crate::enforcement;
use crate::engine::{CommandError, EngineHandle};
use crate::hosts::Hosts;
use crate::http::{self, App, Base, watch_claims};
use crate::idle_gpus;
use crate::repairs::Repairs;
use crate::replicator::Replicator;
use crate::serve::{BACKLOG, Limits, serve};
use crate::store::{HistoryError, HistoryStore, Log, LogError, SqliteHistory};
use crate::unix_listener::{BindError, SocketListener};
use crate::usage_samples;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use warpyard_api::client::SYSTEM_SOCKET;
use warpyard_api::quantity::Micros;
use warpyard_core::cluster::Job;
use warpyard_core::engine::Engine;
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::Report;
use warpyard_core::{Cluster, Command, LogStore, PolicyChoice, PolicyDef, Rejection, Span, WorkerId};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_snapshot::Store;
use warpyard_worker::accounts::{Account, is_root, own_uid};
use warpyard_worker::agent::{
    Agent, AgentError, AgentHandle, Deliver, DeviceRules, Layout, Link, Settings, WorkPruner, prune_logs,
    snapshots_dir, work_dir,
};
use warpyard_worker::inherited::{InheritedSettings, open_file_limit};
use warpyard_worker::probe::{self, Choice, ProbeError, ProbePaths, Thresholds};

/// How often the worker inside looks at everything even if nothing seems to happen.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(1);

/// The group whose members may do everything, unless another is named.
const ADMINS: &str = "warpyard-admins";

/// After how long an idle GPU is pointed out, unless something else is said.
const IDLE_AFTER: Duration = Duration::from_secs(30 * 60);

/// The longest grace period a task may ask for, unless another is configured.
const MAX_GRACE: Span = Span(10 * 60 * 1_000_000);

/// How long a snapshot may be there before a job has it.
const SNAPSHOT_YOUNG: Duration = Duration::from_secs(3600);

/// How often old output is removed.
const TIDY_EVERY: Duration = Duration::from_secs(3600);

/// How soon again where more was found than is removed at once.
const TIDY_AGAIN: Duration = Duration::from_secs(5);

/// How `up` was called; what is absent comes from the configuration, or a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// The configuration file's content.
    pub config: Config,
    /// Where to listen.
    pub listen: Option<String>,
    /// Whether to serve everyone on this machine, each as themselves.
    pub shared: bool,
    /// Where they find the server.
    pub socket: Option<PathBuf>,
    /// The policy to put in force.
    pub policy: Option<String>,
    /// The GPUs.
    pub gpus: Option<String>,
    /// Thousandths of a processor offered.
    pub cpus: Option<u32>,
    /// How much of each GPU's memory may be shared out, in bytes.
    pub gpu_budget: Option<u64>,
    /// How many tasks may share a GPU.
    pub tasks_per_gpu: Option<u16>,
    /// Whether to leave out the worker inside.
    pub no_worker: bool,
    /// The program and arguments that become the spawner.
    pub spawner: (PathBuf, Vec<String>),
}

/// Why the server could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The log, or what is derived from it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log and the rest of the data directory do not belong together.
    #[error(transparent)]
    Consistency(#[from] ConsistencyError),
    /// The derived tables.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The worker inside.
    #[error("cannot start the worker")]
    Agent(#[from] AgentError),
    /// The devices.
    #[error("cannot look for GPUs")]
    Probe(#[from] ProbeError),
    /// The devices as they were described.
    #[error("{0}")]
    Gpus(String),
    /// The policy.
    #[error("{}", refused(.0))]
    Policy(Rejection),
    /// The address.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// A Unix socket.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// Serving others needs to become them.
    #[error("only root can serve everyone on this machine: without --shared the server serves you alone")]
    NotRoot,
    /// The runtime.
    #[error("cannot run the server")]
    Runtime(#[source] io::Error),
}

fn refused(why: &Rejection) -> String {
    match &why.help {
        Some(help) => format!("{why}; {help}"),
        None => why.to_string(),
    }
}

/// What a person is told when the server is up.
#[derive(Clone, Debug)]
pub struct ReadyReport {
    /// Where it listens.
    pub url: String,
    /// Where people of this machine find it, where it is shared.
    pub socket: Option<PathBuf>,
    /// An address that lets whoever opens it first into the pages, for ten minutes.
    pub login: String,
    /// Where its data is.
    pub data: PathBuf,
    /// The policy in force.
    pub policy: String,
    /// What was found of GPUs, in a line.
    pub devices: Option<String>,
    /// How many GPUs there are.
    pub gpus: usize,
    /// Thousandths of a processor offered.
    pub cpus: u32,
    /// How many events were read on top of a snapshot.
    pub replayed: u64,
    /// How many attempts were found again.
    pub running: usize,
    /// Limits that are not enforced here, and why.
    pub unenforced: Vec<String>,
    /// Damage that was found and dealt with.
    pub repairs: Vec<String>,
}

/// Runs the server until it is asked to end. `ready` is called once it answers.
pub fn run(mut options: Options, ready: impl FnOnce(&ReadyReport)) -> Result<(), DaemonError> {
    options.spawner.1.extend(InheritedSettings::override_for_server().to_args());
    let limits = Limits::within(open_file_limit());
    let sharing = sharing(&options)?;
    let data = DataDir::take(&options.data)?;
    if sharing.is_some() {
        data.must_be_closed()?;
    }
    let token = data.token()?;
    let choice = chosen_policy(&options)?;
    let log_path = data.path().join("log.db");
    let mut log = Log::open(&log_path)?;
    // Claimed before it is read: nothing that an earlier writer appends can come between the state and the first turn.
    let epoch = log.claim()?;
    // A policy that was chosen is set below, as an event, so that the log says which one ran from the beginning.
    let loaded = log.load(&default_policy())?;
    let keep = options.config.keep_events.map_or(Span(30 * 24 * 3600 * 1_000_000), |k| Span(k.0));
    let clock = Clock::continuing(log.last_at()?);
    let repairs = Arc::new(Repairs::kept_in(data.path(), clock.clone()));
    loaded.repairs.iter().for_each(|repair| repairs.note(repair.clone()));
    let lineage = log.lineage().expect("a log that was loaded has an id").clone();
    let layout = Layout::new(data.path(), lineage);
    let replicator = replicator(&loaded.cluster, &log, &layout, keep, &repairs, &clock)?;
    let notices = replicator.notices();
    let mut engine = build(loaded.cluster, &clock)?;
    engine.write_as(epoch);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(DaemonError::Runtime)?;
    let listener = runtime.block_on(listen(&options))?;
    let address = listener.local_addr().map_err(DaemonError::Runtime)?;
    let url = format!("http://{address}");
    let own_socket = SocketListener::of_data(data.path(), runtime.handle())?;
    let socket = sharing.is_some().then(|| socket_path(&options));
    let shared_socket =
        socket.as_ref().map(|path| SocketListener::open(path, runtime.handle())).transpose()?;

    let (stop, stopped) = mpsc::unbounded_channel();
    let broke = stop.clone();
    let (engine, threads) = EngineHandle::start(engine, log, replicator, move || {
        let _ending_already = broke.send(false);
    });
    let agent = match options.no_worker {
        true => None,
        false => Some(start_worker(&options, &layout, &engine, &runtime, &repairs)?),
    };
    let hosts = Hosts::new(&options.config.hosts, &host_name(), address);
    let auth = Authenticator::kept(token, address, hosts, data.path(), clock);
    let login = auth.link(Caller::Owner).map_err(DaemonError::Runtime)?;
    let base = Base { engine: engine.clone(), auth, notices, layout, url: url.clone(), stop };
    let mut app = App {
        defaults: defaults(&options.config),
        watched: agent.as_ref().map(AgentHandle::devices),
        bounds: agent.as_ref().map(|agent| agent.bounds().clone()),
        limits: Arc::new(options.config.limits.limits(options.shared || options.config.shared)),
        sharing,
        account: Account::by_uid(own_uid()).ok().flatten(),
        repairs: repairs.clone(),
        ..App::new(base)
    };
    if let Some(limit) = options.config.snapshot_limit {
        app.snapshot_limit = limit.0;
    }
    let app = Arc::new(app);
    runtime.block_on(async {
        set_policy(&engine, choice).await?;
        set_limits(&engine, app.limits.clone()).await?;
        watch_claims(&app).await.map_err(|e| DaemonError::Runtime(io::Error::other(e)))?;
        data.announce(&url)?;
        let state = engine.read(|f| (f.cluster().policy().to_string(), f.cluster().view().active())).await;
        let (policy, running) = state.map_err(|e| DaemonError::Runtime(io::Error::other(e)))?;
        ready(&ReadyReport {
            url: url.clone(),
            socket,
            login,
            data: data.path().to_owned(),
            policy,
            devices: agent
                .as_ref()
                .map(|a| a.devices().lock().expect("nobody panics here").describe().to_owned()),
            gpus: agent.as_ref().map_or(0, |a| a.info().devices.len()),
            cpus: agent.as_ref().map_or(0, |a| a.info().cpus),
            replayed: loaded.replayed,
            running,
            unenforced: enforcement::of(app.bounds.as_ref(), app.watched.as_ref())
                .map(enforcement::unenforced)
                .unwrap_or_default(),
            repairs: repairs.announce(),
        });
        Ok::<_, DaemonError>(())
    })?;
    tidy(app.layout.clone(), &options, &engine, runtime.handle().clone());
    let router = http::router(app.clone());
    let _own_socket = own_socket.serve(router.clone(), limits.of_one_user(), &runtime);
    let shared_socket = shared_socket.map(|socket| socket.serve(router.clone(), limits, &runtime));
    runtime.spawn(usage_samples::take(engine.clone(), app.watched.clone(), usage_samples::EVERY));
    if let Some(watched) = app.watched.clone() {
        let release = options.config.idle_release.map(|after| Duration::from_micros(after.0));
        runtime.spawn(idle_gpus::watch(engine.clone(), watched, idle_after(&options.config), release));
    }
    let serving = runtime.spawn(serve(listener, router, limits));
    let kill = runtime.block_on(asked_to_end(stopped, serving));
    // It goes on answering until all is done, so that whoever asked for the end can tell when that is.
    if let Some(agent) = agent {
        agent.leave(kill);
    }
    drop(shared_socket);
    engine.stop();
    let ended = threads.join();
    data.withdraw();
    drop(data);
    runtime.shutdown_background();
    Ok(ended?)
}

/// How the machine is shared, if it is.
fn sharing(options: &Options) -> Result<Option<Sharing>, DaemonError> {
    let config = &options.config;
    if !(options.shared || config.shared) {
        return Ok(None);
    }
    if !is_root() {
        return Err(DaemonError::NotRoot);
    }
    let admins = config.admins.clone().unwrap_or_else(|| ADMINS.to_owned());
    Ok(Some(Sharing { admins, private: config.private }))
}

fn socket_path(options: &Options) -> PathBuf {
    let named = options.socket.clone().or_else(|| options.config.socket.clone());
    let path = named.unwrap_or_else(|| SYSTEM_SOCKET.into());
    // Tasks are told it, and begin elsewhere.
    std::path::absolute(&path).unwrap_or(path)
}

fn chosen_policy(options: &Options) -> Result<Option<PolicyChoice>, DaemonError> {
    let Some(text) = options.policy.as_ref().or(options.config.policy.as_ref()) else { return Ok(None) };
    let choice: PolicyChoice = text.parse().map_err(DaemonError::Policy)?;
    PolicyDef::build_from(POLICIES, &choice).map_err(DaemonError::Policy)?;
    Ok(Some(choice))
}

pub(crate) fn build(cluster: Cluster, clock: &Clock) -> Result<Engine, DaemonError> {
    Engine::new(cluster, POLICIES, clock.now()).map_err(DaemonError::Policy)
}

/// A replicator at a state, its tables caught up with the log. Damaged tables are made again; a log that they are ahead of is
/// refused.
fn replicator(
    cluster: &Cluster,
    log: &Log,
    layout: &Layout,
    keep: Span,
    repairs: &Arc<Repairs>,
    clock: &Clock,
) -> Result<Replicator, DaemonError> {
    let path = layout.data().join("history.db");
    let checked = |history: Box<dyn HistoryStore>| {
        consistency::check(log, cluster, &*history, layout)?;
        let engine = build(cluster.clone(), clock)?;
        Ok(Replicator::new(engine, history, log, log.path().to_owned(), keep, clock.clone())?)
    };
    let (history, set_aside) = SqliteHistory::open_or_set_aside(&path)?;
    set_aside.into_iter().for_each(|repair| repairs.note(repair));
    let replicator = match checked(Box::new(history)) {
        Err(
            DaemonError::Replica(ReplicaError::History(e @ HistoryError::Damaged(_)))
            | DaemonError::Consistency(ConsistencyError::History(e @ HistoryError::Damaged(_))),
        ) => {
            let aside = SqliteHistory::set_aside(&path, &e.to_string()).map_err(DaemonError::Runtime)?;
            repairs.note(aside);
            checked(Box::new(SqliteHistory::open(&path)?))?
        }
        made => made?,
    };
    replicator.note_repairs_in(repairs.clone());
    Ok(replicator)
}

async fn listen(options: &Options) -> Result<TcpListener, DaemonError> {
    let address = options.listen.clone().or_else(|| options.config.listen.clone());
    listen_on(address.unwrap_or_else(|| "127.0.0.1:7700".into())).await
}

pub(crate) async fn listen_on(address: String) -> Result<TcpListener, DaemonError> {
    let bind = |at: SocketAddr| {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(BACKLOG)
    };
    let bound = async {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for at in tokio::net::lookup_host(&address).await? {
            match bind(at) {
                Ok(listener) => return Ok(listener),
                Err(e) => failed = e,
            }
        }
        Err(failed)
    };
    bound.await.map_err(|source| DaemonError::Listen { address: address.clone(), source })
}

/// The link of the worker inside the server's process: reports are commands, and assignments function calls.
struct InProcessLink {
    engine: EngineHandle,
    runtime: tokio::runtime::Handle,
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

/// Starts the worker inside and ties it to the engine.
fn start_worker(
    options: &Options,
    layout: &Layout,
    engine: &EngineHandle,
    runtime: &tokio::runtime::Runtime,
    repairs: &Arc<Repairs>,
) -> Result<AgentHandle, DaemonError> {
    let config = &options.config;
    let gpus = options.gpus.as_ref().or(config.gpus.as_ref()).map_or("auto", String::as_str);
    let choice: Choice = gpus.parse().map_err(|e| DaemonError::Gpus(format!("{e}")))?;
    let places = ProbePaths { nvml_library: config.nvml_library.clone(), ..ProbePaths::default() };
    let usual = Thresholds::default();
    let repairs = repairs.clone();
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
        cpus: options.cpus.or(config.cpus.map(|c| c.0)).unwrap_or_else(all_cpus),
        memory: config.memory.map_or_else(all_memory, |m| m.0),
        lease: None,
        shared_at: (options.shared || config.shared).then(|| socket_path(options)),
        log_cap: config.log_cap.map_or(64 << 20, |c| c.0),
        max_processes: config.max_processes,
        max_grace: max_grace(config),
        every: LOOK_AROUND_EVERY,
        repaired: Box::new(move |what| repairs.note(what)),
    };
    let link = InProcessLink { engine: engine.clone(), runtime: runtime.handle().clone(), worker: None };
    Ok(Agent::start(settings, link)?)
}

async fn join(engine: &EngineHandle, info: &WorkerInfo) -> Result<WorkerId, CommandError> {
    engine.command(Command::Join(info.clone())).await?;
    let name = info.name.clone();
    let worker = engine.read(move |f| f.cluster().worker_named(&name)).await?;
    Ok(worker.expect("a worker that joined is known"))
}

/// Puts the policy in force that was asked for, if another is.
async fn set_policy(engine: &EngineHandle, choice: Option<PolicyChoice>) -> Result<(), DaemonError> {
    let Some(choice) = choice else { return Ok(()) };
    let stopped = |e: CommandError| DaemonError::Runtime(io::Error::other(e));
    let in_force = engine.read(|f| f.cluster().policy().clone()).await.map_err(|e| stopped(e.into()))?;
    if in_force != choice {
        engine.command(Command::SetPolicy(choice)).await.map_err(stopped)?;
    }
    Ok(())
}

/// Puts the limits in force that the configuration names, or none.
async fn set_limits(
    engine: &EngineHandle,
    limits: Arc<warpyard_core::limits::Limits>,
) -> Result<(), DaemonError> {
    let set = engine.command(Command::SetLimits(limits)).await;
    set.map(drop).map_err(|e| DaemonError::Runtime(io::Error::other(e)))
}

/// Waits until someone asks for the end, or nobody is answered any more; says whether running tasks should end too.
pub(crate) async fn asked_to_end(
    mut stopped: mpsc::UnboundedReceiver<bool>,
    serving: JoinHandle<()>,
) -> bool {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok());
    tokio::select! {
        Some(kill) = stopped.recv() => kill,
        () = caught(&mut interrupt) => false,
        () = caught(&mut terminate) => false,
        _ = serving => false,
    }
}

async fn caught(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Removes old output, and snapshots no job needs, beside everything else, now and once an hour.
fn tidy(layout: Layout, options: &Options, engine: &EngineHandle, runtime: Handle) {
    let age = Duration::from_micros(options.config.log_age.map_or(30 * 24 * 3600 * 1_000_000, |a| a.0));
    let work = work_dir(layout.data(), options.shared || options.config.shared);
    let (data, log) = (layout.data().to_owned(), layout.lineage().current().log.clone());
    let engine = engine.clone();
    let mut pruner = WorkPruner::new(options.spawner.0.clone());
    let tidy = move || {
        loop {
            if let Err(e) = prune_logs(&data, age, engine.clock().file_time()) {
                tracing::warn!("old output cannot be removed: {e}");
            }
            let Ok(needed) = runtime.block_on(engine.read(move |f| with_snapshots(f, age))) else { return };
            let ids = needed.values().cloned().collect();
            if let Err(e) =
                Store::prune(&snapshots_dir(&data), &ids, engine.clock().file_time() - SNAPSHOT_YOUNG)
            {
                tracing::warn!("old snapshots cannot be removed: {e}");
            }
            let old = engine.clock().file_time() - age;
            let pruned = pruner.prune(&work, log.as_ref(), old, |job| needed.contains_key(&job));
            let more = pruned.unwrap_or_else(|e| {
                tracing::warn!("{} cannot be looked through: {e}", work.display());
                false
            });
            std::thread::sleep(if more { TIDY_AGAIN } else { TIDY_EVERY });
        }
    };
    std::thread::Builder::new().name("tidy".into()).spawn(tidy).expect("a thread can be started");
}

/// Jobs that may still run in their snapshot, and which that is.
fn with_snapshots(f: &crate::replica::Reader<'_>, age: Duration) -> BTreeMap<u64, String> {
    let age = Span(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    let open = |job: &&Job| job.finished.is_none_or(|at| at + age > f.now());
    let jobs = f.cluster().jobs().iter().filter(open);
    jobs.filter_map(|job| Some((job.id.0, job.spec.snapshot.as_ref()?.id.clone()))).collect()
}

/// What tasks are given that say nothing.
fn defaults(config: &Config) -> Defaults {
    let span = |time: Option<Micros>| time.map(|time| Span(time.0));
    Defaults {
        timeout: span(config.default_timeout),
        idle: span(config.session_idle),
        longest_idle: span(config.session_idle_most),
        longest_grace: Some(max_grace(config)),
        ..Defaults::default()
    }
}

/// The longest grace period a task may have.
fn max_grace(config: &Config) -> Span {
    config.max_grace.map_or(MAX_GRACE, |most| Span(most.0))
}

/// After how long it is pointed out that nothing is done with a GPU.
fn idle_after(config: &Config) -> Duration {
    config.idle_after.map_or(IDLE_AFTER, |after| Duration::from_micros(after.0))
}

pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "local".into(),
        name => name.to_owned(),
    }
}

fn all_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32) * 1000
}

fn all_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = total.and_then(|t| t.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
