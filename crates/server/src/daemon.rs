//! `warpyard up`: the engine, its disk, the interface and the in-process worker, from start to clean end.

mod cleanup;
mod local_worker;
mod port_tls;
mod recovered;
mod tcp_listener;

pub(crate) use local_worker::host_capacity;
pub(crate) use recovered::build_engine;
pub(crate) use tcp_listener::bind;

use crate::app::{App, AppParts, LOG_CAP};
use crate::auth::Authenticator;
use crate::caller::{Caller, Sharing};
use crate::catch_up::ReplicaError;
use crate::config::{Config, EstimateConfig, TlsMode};
use crate::consistency::ConsistencyError;
use crate::convert::Defaults;
use crate::data::{DataDir, DataError};
use crate::enforcement;
use crate::engine::{CommandError, EngineHandle};
use crate::estimate_command::{self, EstimateCommand};
use crate::hosts::Hosts;
use crate::http::watch_claims;
use crate::idle_gpus;
use crate::model_admission::DEFAULT_SHARE;
use crate::remote_workers::{self, RemoteWorkers};
use crate::repairs::Repairs;
use crate::router::router;
use crate::serve::{Limits, serve};
use crate::store::LogError;
use crate::tls::{ServerTls, TlsError};
use crate::tokens::{TokenFileError, Tokens};
use crate::unix_listener::{BindError, SocketListener};
use crate::usage_samples;
use recovered::Recovered;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use warpyard_api::client::SYSTEM_SOCKET;
use warpyard_api::quantity::Micros;
use warpyard_api::token::Fingerprint;
use warpyard_core::{Command, PolicyChoice, PolicyDef, Rejection, Span};
use warpyard_policies::POLICIES;
use warpyard_worker::accounts::{Account, is_root, own_uid};
use warpyard_worker::agent::{AgentError, AgentHandle};
use warpyard_worker::inherited::{InheritedSettings, open_file_limit};
use warpyard_worker::probe::ProbeError;

/// The group whose members may do everything, unless another is named.
const ADMINS: &str = "warpyard-admins";

/// After how long an idle GPU is pointed out, unless something else is said.
const IDLE_AFTER: Duration = Duration::from_secs(30 * 60);

/// The longest grace period a task may ask for, unless another is configured.
const MAX_GRACE: Span = Span(10 * 60 * 1_000_000);

/// The shortest lease of workers on other machines.
const SHORTEST_LEASE: Span = Span(1_000_000);

/// How `up` was called; what is absent comes from the configuration, or a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// The configuration file's content.
    pub config: Config,
    /// Where to listen.
    pub listen: Option<String>,
    /// Whether the port speaks TLS.
    pub tls: Option<TlsMode>,
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
    /// How long workers of other machines may be silent before they are given up.
    pub lease: Option<Micros>,
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
    /// The tokens and keys.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
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
    /// TLS of the port.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A certificate without its key, or a key without its certificate.
    #[error(
        "the configuration names {0} under [tls] and not the other: a certificate of your own has both cert and key"
    )]
    HalfTls(&'static str),
    /// The lease of workers.
    #[error(
        "a lease of {0} is too short: a worker that is delayed for a moment would be given up; 1s is the least"
    )]
    Lease(Micros),
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
    /// The fingerprint of the CA by which others know the server, where it speaks TLS.
    pub ca: Option<String>,
    /// Whether tokens travel in the clear over a network.
    pub exposed: bool,
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
    let policy = chosen_policy(&options)?;
    let lease = lease(&options)?;
    let Recovered { engine, log, replicator, layout, repairs, clock, replayed } =
        Recovered::from(&data, &options)?;
    let tokens = Tokens::open(data.path(), clock.clone())?;
    let notices = replicator.notices();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(DaemonError::Runtime)?;
    let sockets = Sockets::bind(&options, &data, sharing.is_some(), &runtime)?;

    let (stop, stopped) = mpsc::unbounded_channel();
    let engine_ended = stop.clone();
    let (engine, threads) = EngineHandle::start(engine, log, replicator, move || {
        let _ending_already = engine_ended.send(false);
    });
    let agent = match options.no_worker {
        true => None,
        false => Some(local_worker::start(&options, &layout, &engine, runtime.handle(), &repairs)?),
    };
    let hosts = Hosts::new(&options.config.hosts, &host_name(), sockets.address);
    let auth = Authenticator::kept(token, sockets.address, hosts, data.path(), clock);
    let auth = auth.with_tls(sockets.tls.is_some());
    let login = auth.link(Caller::Owner).map_err(DaemonError::Runtime)?;
    let base = AppParts { engine: engine.clone(), auth, tokens, notices, layout, url: sockets.url(), stop };
    let mut app = app(base, &options, sharing, agent.as_ref(), &repairs);
    app.remote = Arc::new(RemoteWorkers::with_lease(lease));
    app.reached = port_tls::reached(&options, sockets.address, sockets.tls.as_ref());
    let app = Arc::new(app);
    let report = runtime.block_on(async {
        set_policy(&engine, policy).await?;
        set_limits(&engine, app.quotas.limits.clone()).await?;
        watch_claims(&app).await.map_err(|e| DaemonError::Runtime(io::Error::other(e)))?;
        data.announce(&sockets.url(), sockets.ca().map(|(print, _)| *print))?;
        ready_report(&app, &sockets, login, agent.as_ref(), replayed).await
    })?;
    ready(&report);
    cleanup::start(app.layout.clone(), &options, &engine, runtime.handle().clone());
    start_watching(&app, &options.config, &runtime);
    let serving = sockets.serve(&app, limits, &runtime);
    let kill = runtime.block_on(asked_to_end(stopped, serving.port));
    // It goes on answering until all is done, so that a client that asked for the end can tell when that is.
    if let Some(agent) = agent {
        agent.leave(kill);
    }
    drop(serving.shared);
    engine.stop();
    let ended = threads.join();
    data.withdraw();
    drop(data);
    runtime.shutdown_background();
    Ok(ended?)
}

/// Where a server listens: a TCP port, a Unix socket in its data directory and, where the machine is shared, one for all.
struct Sockets {
    port: TcpListener,
    address: SocketAddr,
    tls: Option<ServerTls>,
    own: SocketListener,
    shared: Option<(PathBuf, SocketListener)>,
}

/// Sockets that are served.
struct Serving {
    port: JoinHandle<()>,
    /// Removes its file when it is dropped.
    shared: Option<SocketListener>,
    _own: SocketListener,
}

impl Sockets {
    fn bind(
        options: &Options,
        data: &DataDir,
        is_shared: bool,
        runtime: &Runtime,
    ) -> Result<Sockets, DaemonError> {
        let port = runtime.block_on(tcp_listener::listen(options))?;
        let address = port.local_addr().map_err(DaemonError::Runtime)?;
        let own = SocketListener::of_data(data.path(), runtime.handle())?;
        let shared = match is_shared {
            false => None,
            true => {
                let path = socket_path(options);
                let listener = SocketListener::open(&path, runtime.handle())?;
                Some((path, listener))
            }
        };
        let tls = port_tls::of(options, data.path(), address)?;
        Ok(Sockets { port, address, tls, own, shared })
    }

    fn url(&self) -> String {
        format!("{}://{}", port_tls::scheme(self.tls.as_ref()), self.address)
    }

    fn ca(&self) -> Option<&(Fingerprint, String)> {
        self.tls.as_ref().and_then(ServerTls::ca)
    }

    fn serve(self, app: &Arc<App>, limits: Limits, runtime: &Runtime) -> Serving {
        let router = router(app.clone());
        Serving {
            _own: self.own.serve(router.clone(), limits.of_one_user(), runtime.handle()),
            shared: self.shared.map(|(_, socket)| socket.serve(router.clone(), limits, runtime.handle())),
            port: runtime.spawn(serve(self.port, self.tls.as_ref().map(ServerTls::acceptor), router, limits)),
        }
    }
}

/// The state that requests share, as configured.
fn app(
    base: AppParts,
    options: &Options,
    sharing: Option<Sharing>,
    agent: Option<&AgentHandle>,
    repairs: &Arc<Repairs>,
) -> App {
    let config = &options.config;
    let mut app = App {
        defaults: defaults(config),
        estimate_command: estimate_command(config),
        bound_share: config.estimate.share.map_or(DEFAULT_SHARE, |share| share.0),
        watched: agent.map(AgentHandle::devices),
        log_cap: log_cap(config),
        local_worker: agent.map(|agent| agent.info().name.clone()),
        bounds: agent.map(|agent| agent.bounds().clone()),
        sharing,
        vouching: config.workers.vouch.clone(),
        account: Account::by_uid(own_uid()).ok().flatten(),
        repairs: repairs.clone(),
        ..App::new(base)
    };
    app.quotas.limits = Arc::new(config.limits.limits(options.shared || config.shared));
    if let Some(limit) = config.snapshot_limit {
        app.quotas.snapshot_limit = limit.0;
    }
    app
}

async fn ready_report(
    app: &App,
    sockets: &Sockets,
    login: String,
    agent: Option<&AgentHandle>,
    replayed: u64,
) -> Result<ReadyReport, DaemonError> {
    let state = app.engine.read(|f| (f.cluster().policy().to_string(), f.cluster().view().active())).await;
    let (policy, running) = state.map_err(|e| DaemonError::Runtime(io::Error::other(e)))?;
    let describe = |agent: &AgentHandle| {
        agent.devices().lock().expect("nothing panics while holding the devices").describe().to_owned()
    };
    Ok(ReadyReport {
        url: sockets.url(),
        ca: sockets.ca().map(|(print, _)| print.to_string()),
        exposed: sockets.tls.is_none() && !sockets.address.ip().to_canonical().is_loopback(),
        socket: sockets.shared.as_ref().map(|(path, _)| path.clone()),
        login,
        data: app.data.clone(),
        policy,
        devices: agent.map(describe),
        gpus: agent.map_or(0, |agent| agent.info().devices.len()),
        cpus: agent.map_or(0, |agent| agent.info().cpus),
        replayed,
        running,
        unenforced: enforcement::of(app.bounds.as_ref(), app.watched.as_ref())
            .map(enforcement::unenforced)
            .unwrap_or_default(),
        repairs: app.repairs.announce(),
    })
}

/// Starts the tasks that take samples of utilisation and look for idle GPUs.
fn start_watching(app: &App, config: &Config, runtime: &Runtime) {
    runtime.spawn(usage_samples::sample_periodically(
        app.engine.clone(),
        app.watched.clone(),
        usage_samples::EVERY,
    ));
    if let Some(watched) = app.watched.clone() {
        let release = config.idle_release.map(|after| Duration::from_micros(after.0));
        runtime.spawn(idle_gpus::watch(app.engine.clone(), watched, idle_after(config), release));
    }
}

/// The Unix socket of a shared machine.
fn socket_path(options: &Options) -> PathBuf {
    let named = options.socket.clone().or_else(|| options.config.socket.clone());
    let path = named.unwrap_or_else(|| SYSTEM_SOCKET.into());
    // Tasks are told it, and begin elsewhere.
    std::path::absolute(&path).unwrap_or(path)
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

fn chosen_policy(options: &Options) -> Result<Option<PolicyChoice>, DaemonError> {
    let Some(text) = options.policy.as_ref().or(options.config.policy.as_ref()) else { return Ok(None) };
    let choice: PolicyChoice = text.parse().map_err(DaemonError::Policy)?;
    PolicyDef::build_from(POLICIES, &choice).map_err(DaemonError::Policy)?;
    Ok(Some(choice))
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

/// The command that estimates models, if there is one.
fn estimate_command(config: &Config) -> Option<EstimateCommand> {
    let EstimateConfig { command, timeout, .. } = &config.estimate;
    let timeout = timeout.map_or(estimate_command::TIMEOUT, |timeout| Duration::from_micros(timeout.0));
    (!command.is_empty()).then(|| EstimateCommand::new(command.clone(), timeout))
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

/// How long workers of other machines may be silent before they are given up.
fn lease(options: &Options) -> Result<Span, DaemonError> {
    let configured = options.lease.or(options.config.workers.lease);
    let lease = configured.map_or(remote_workers::LEASE, |lease| Span(lease.0));
    if lease < SHORTEST_LEASE { Err(DaemonError::Lease(Micros(lease.0))) } else { Ok(lease) }
}

/// The most bytes of each output that are kept.
fn log_cap(config: &Config) -> u64 {
    config.log_cap.map_or(LOG_CAP, |cap| cap.0)
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
