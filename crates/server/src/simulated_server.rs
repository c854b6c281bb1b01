//! A simulation behind the same interface and pages as the live server: the replicator is fed with simulated events, and the
//! process's clock goes as fast as the simulation does. Nothing is kept; jobs come from the workload alone.

use crate::app::{App, AppParts};
use crate::auth::Authenticator;
use crate::caller::Caller;
use crate::change_feed::ChangeFeed;
use crate::clock::Clock;
use crate::daemon::{DaemonError, ReadyReport, asked_to_end, bind, build_engine, host_name};
use crate::data::DataDir;
use crate::engine::{EngineHandle, SimulatedEngine};
use crate::hosts::Hosts;
use crate::replicator::Replicator;
use crate::router::router;
use crate::serve::{Limits, serve};
use crate::simulation::Simulation;
use crate::store::{Log, SqliteHistory};
use crate::tokens::Tokens;
use crate::unix_listener::SocketListener;
use crate::usage_samples;
use std::cell::{Cell, RefCell};
use std::iter;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use warpyard_core::command::Code;
use warpyard_core::engine::CommandOutcome;
use warpyard_core::{Cluster, Command, Rejection, Span, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{Arrival, Setup, Sim};
use warpyard_worker::agent::{Layout, Lineage};
use warpyard_worker::inherited::{InheritedSettings, open_file_limit};

/// How often the simulation is brought up to the clock.
const EVERY: Duration = Duration::from_millis(40);

/// How often it is sampled for the charts; its own time passes much faster.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// Makes the jobs to come; moments in them count from the beginning of the simulation.
pub type Workload = Box<dyn FnOnce() -> Box<dyn Iterator<Item = Arrival>> + Send>;

/// A simulation to server.
pub struct SimulatedServer {
    /// The workers, the policy and how long starts take.
    pub setup: Setup,
    /// What is asked before anything else, such as how fast profiles are.
    pub first: Option<Command>,
    /// The jobs to come.
    pub workload: Workload,
    /// How many seconds of it pass in one.
    pub speed: f64,
    /// Where to listen; a free port of this machine unless said.
    pub listen: Option<String>,
    /// Where to keep what pages ask for while it is shown.
    pub data: PathBuf,
}

/// Shows a simulation until asked to end. `ready` is called once it answers.
pub fn run(server: SimulatedServer, ready: impl FnOnce(&ReadyReport)) -> Result<(), DaemonError> {
    InheritedSettings::override_for_server();
    let limits = Limits::within(open_file_limit());
    let data = DataDir::take(&server.data)?;
    let clock = Clock::paced(server.speed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(DaemonError::Runtime)?;
    let listener = runtime.block_on(bind(server.listen.unwrap_or_else(|| "127.0.0.1:0".into())))?;
    let address = listener.local_addr().map_err(DaemonError::Runtime)?;
    let url = format!("http://{address}");
    let own_socket = SocketListener::of_data(data.path(), runtime.handle())?;
    // The policy is built and refused here, where someone hears of it, before it is built where it is used.
    let sim = Sim::new(server.setup.clone(), POLICIES).map_err(DaemonError::Policy)?;
    let (cluster, gpus) = (sim.cluster().clone(), server.setup.workers.iter().map(|w| w.devices.len()).sum());
    drop(sim);
    let (policy, cpus) = (cluster.policy().to_string(), server.setup.workers.iter().map(|w| w.cpus).sum());
    let replicator = replicator(cluster, &data, &clock)?;
    let notices = replicator.notices();
    let (stop, stopped) = mpsc::unbounded_channel();
    let broke = stop.clone();
    let (setup, first, workload) = (server.setup, server.first, server.workload);
    let simulation = Simulation { began: clock.now(), clock: clock.clone(), over: Arc::default() };
    let (played, notices_of_it) = (simulation.clone(), notices.clone());
    let (engine, threads) = EngineHandle::simulated(
        replicator,
        move || {
            let _ending_already = broke.send(false);
        },
        move |engine| run_simulation(&engine, setup, first, workload, &played, &notices_of_it),
    );
    let auth =
        Authenticator::new(data.token()?, address, Hosts::new(&[], &host_name(), address), clock.clone());
    let login = auth.link(Caller::Owner).map_err(DaemonError::Runtime)?;
    let base = AppParts {
        engine: engine.clone(),
        auth,
        tokens: Tokens::in_memory(clock),
        notices,
        layout: Layout::new(data.path(), Lineage::of_one(None)),
        url: url.clone(),
        stop,
    };
    let app = Arc::new(App { simulation: Some(simulation), ..App::new(base) });
    data.announce(&url, None)?;
    ready(&ReadyReport {
        url,
        ca: None,
        exposed: false,
        socket: None,
        login,
        data: data.path().to_owned(),
        policy,
        devices: None,
        gpus,
        cpus,
        replayed: 0,
        running: 0,
        unenforced: Vec::new(),
        repairs: vec![],
    });
    runtime.spawn(usage_samples::sample_periodically(engine.clone(), None, SAMPLE_EVERY));
    let router = router(app);
    let _own_socket = own_socket.serve(router.clone(), limits.of_one_user(), runtime.handle());
    let serving = runtime.spawn(serve(listener, None, router, limits));
    runtime.block_on(asked_to_end(stopped, serving));
    engine.stop();
    let ended = threads.join();
    drop(data);
    runtime.shutdown_background();
    Ok(ended?)
}

fn replicator(cluster: Cluster, data: &DataDir, clock: &Clock) -> Result<Replicator, DaemonError> {
    let path = data.path().join("log.db");
    let log = Log::open(&path)?;
    let history = SqliteHistory::open(&data.path().join("history.db"))?;
    Ok(Replicator::new(
        build_engine(cluster, clock)?,
        Box::new(history),
        &log,
        path,
        Span(u64::MAX / 4),
        clock.clone(),
    )?)
}

/// Plays the engine's part: brings the simulation up to the clock again and again, and tells what happened. When all is
/// over the clock stops, so that what came of it can be looked at.
fn run_simulation(
    engine: &SimulatedEngine,
    setup: Setup,
    first: Option<Command>,
    workload: Workload,
    simulation: &Simulation,
    notices: &ChangeFeed,
) {
    let began = simulation.began;
    let mut sim = Sim::new(setup, POLICIES).expect("a policy that was built before");
    let happened = Rc::new(RefCell::new(Vec::new()));
    let kept = happened.clone();
    sim.watch(move |event| kept.borrow_mut().push(event.clone()));
    if let Some(first) = first {
        sim.execute(first).expect("what is asked first was read and checked");
    }
    let later = move |arrival: Arrival| Arrival { at: began + arrival.at.since(Time(0)), ..arrival };
    let all_came = Rc::new(Cell::new(false));
    let last = all_came.clone();
    sim.feed(workload().map(later).chain(iter::from_fn(move || {
        last.set(true);
        None
    })));
    loop {
        sim.run_until(simulation.clock.now());
        let events = happened.take();
        if !events.is_empty() {
            engine.publish(events);
        }
        let over = all_came.get() && sim.cluster().jobs().iter().all(|job| job.finished.is_some());
        if over != simulation.over.swap(over, Ordering::Relaxed) && over {
            simulation.clock.change_pace(None, Some(true));
            notices.refresh();
        }
        let running = engine.execute_commands(EVERY, |command| {
            let answer = execute(&mut sim, command);
            engine.publish(happened.take());
            answer
        });
        if !running {
            break;
        }
    }
}

/// People may do to it what they may do to the real one, except give it work.
fn execute(sim: &mut Sim, command: Command) -> Result<CommandOutcome, Rejection> {
    match command {
        Command::Submit { .. }
        | Command::Join(_)
        | Command::Receive { .. }
        | Command::Report { .. }
        | Command::MeasuredMemory { .. }
        | Command::Forget(_) => {
            let message = "this is a simulation; its jobs and machines are those it was given";
            Err(Rejection::new(Code::RefusedByPolicy, message))
        }
        command => sim.execute(command),
    }
}
