//! A simulation behind the same interface and pages as the live server: the follower is fed with simulated events, and the
//! process's clock goes as fast as the simulation does. Nothing is kept; jobs come from the workload alone.

use crate::clock::{change_pace, set_pace, system_now};
use crate::data::DataDir;
use crate::door::Door;
use crate::events::Notices;
use crate::follower::Follower;
use crate::hosts::Hosts;
use crate::http::{App, Base};
use crate::live::{Live, Stage};
use crate::pages::Doors;
use crate::samples;
use crate::serve::{Limits, serve};
use crate::store::{History, Log};
use crate::up::{Ready, UpError, asked_to_end, build, host_name, listen_on};
use crate::who::Caller;
use std::cell::{Cell, RefCell};
use std::iter;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use warpyard_core::command::Code;
use warpyard_core::engine::Answer;
use warpyard_core::{Cluster, Command, Rejected, Span, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{Arrival, Setup, Sim};
use warpyard_worker::agent::{Layout, Lineage};
use warpyard_worker::inherit::{Inherited, open_files};

/// How often the simulation is brought up to the clock.
const EVERY: Duration = Duration::from_millis(40);

/// How often it is sampled for the charts; its own time passes much faster.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// Makes the jobs to come; moments in them count from the beginning of the simulation.
pub type Workload = Box<dyn FnOnce() -> Box<dyn Iterator<Item = Arrival>> + Send>;

/// A simulation to show.
pub struct Show {
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

/// What is known of the simulation that is shown, beside what any server knows.
#[derive(Clone)]
pub(crate) struct Simulation {
    /// When it began, by its own clock.
    pub(crate) began: Time,
    over: Arc<AtomicBool>,
}

impl Simulation {
    /// Whether every job has come and ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Shows a simulation until asked to end. `ready` is called once it answers.
pub fn show(show: Show, ready: impl FnOnce(&Ready)) -> Result<(), UpError> {
    Inherited::replace();
    let limits = Limits::within(open_files());
    let data = DataDir::take(&show.data)?;
    let began = set_pace(show.speed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(UpError::Runtime)?;
    let listener = runtime.block_on(listen_on(show.listen.unwrap_or_else(|| "127.0.0.1:0".into())))?;
    let address = listener.local_addr().map_err(UpError::Runtime)?;
    let url = format!("http://{address}");
    let own_door = Door::of_data(data.path(), runtime.handle())?;
    // The policy is built and refused here, where someone hears of it, before it is built where it is used.
    let sim = Sim::new(show.setup.clone(), POLICIES).map_err(UpError::Policy)?;
    let (cluster, gpus) = (sim.cluster().clone(), show.setup.workers.iter().map(|w| w.devices.len()).sum());
    drop(sim);
    let (policy, cpus) = (cluster.policy().to_string(), show.setup.workers.iter().map(|w| w.cpus).sum());
    let follower = follower(cluster, &data)?;
    let notices = follower.notices();
    let (stop, stopped) = mpsc::unbounded_channel();
    let broke = stop.clone();
    let (setup, first, workload) = (show.setup, show.first, show.workload);
    let simulation = Simulation { began, over: Arc::default() };
    let (played, notices_of_it) = (simulation.clone(), notices.clone());
    let (live, threads) = Live::staged(
        follower,
        move || {
            let _ending_already = broke.send(false);
        },
        move |stage| play(&stage, setup, first, workload, &played, &notices_of_it),
    );
    let doors = Doors::new(data.token()?, address, Hosts::new(&[], &host_name(), address));
    let login = doors.link(Caller::Owner).map_err(UpError::Runtime)?;
    let base = Base {
        live: live.clone(),
        doors,
        notices,
        layout: Layout::new(data.path(), Lineage::of_one(None)),
        url: url.clone(),
        stop,
    };
    let app = Arc::new(App { simulation: Some(simulation), ..App::new(base) });
    data.announce(&url)?;
    ready(&Ready {
        url,
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
    runtime.spawn(samples::take(live.clone(), None, SAMPLE_EVERY));
    let _own_door = own_door.serve(app.clone(), limits.of_one_user(), &runtime);
    let serving = runtime.spawn(serve(listener, app, limits));
    runtime.block_on(asked_to_end(stopped, serving));
    live.stop();
    let ended = threads.join();
    drop(data);
    runtime.shutdown_background();
    Ok(ended?)
}

fn follower(cluster: Cluster, data: &DataDir) -> Result<Follower, UpError> {
    let path = data.path().join("log.db");
    let log = Log::open(&path)?;
    let history = History::open(&data.path().join("history.db"))?;
    Ok(Follower::new(build(cluster)?, history, &log, path, Span(u64::MAX / 4))?)
}

/// Plays the engine's part: brings the simulation up to the clock again and again, and tells what happened. When all is
/// over the clock stops, so that what came of it can be looked at.
fn play(
    stage: &Stage,
    setup: Setup,
    first: Option<Command>,
    workload: Workload,
    simulation: &Simulation,
    notices: &Notices,
) {
    let began = simulation.began;
    let mut sim = Sim::new(setup, POLICIES).expect("a policy that was built before");
    let happened = Rc::new(RefCell::new(Vec::new()));
    let kept = happened.clone();
    sim.watch(move |event| kept.borrow_mut().push(event.clone()));
    if let Some(first) = first {
        sim.ask(first).expect("what is asked first was read and checked");
    }
    let later = move |arrival: Arrival| Arrival { at: began + arrival.at.since(Time(0)), ..arrival };
    let all_came = Rc::new(Cell::new(false));
    let last = all_came.clone();
    sim.feed(workload().map(later).chain(iter::from_fn(move || {
        last.set(true);
        None
    })));
    loop {
        sim.run_until(system_now());
        let events = happened.take();
        if !events.is_empty() {
            stage.publish(events);
        }
        let over = all_came.get() && sim.cluster().jobs().iter().all(|job| job.finished.is_some());
        if over != simulation.over.swap(over, Ordering::Relaxed) && over {
            change_pace(None, Some(true));
            notices.look_again();
        }
        let go_on = stage.attend(EVERY, |command| {
            let answer = obey(&mut sim, command);
            stage.publish(happened.take());
            answer
        });
        if !go_on {
            break;
        }
    }
}

/// People may do to it what they may do to the real one, except give it work.
fn obey(sim: &mut Sim, command: Command) -> Result<Answer, Rejected> {
    match command {
        Command::Submit { .. }
        | Command::Join(_)
        | Command::Receive { .. }
        | Command::Report { .. }
        | Command::MeasuredMemory { .. }
        | Command::Forget(_) => {
            let message = "this is a simulation; its jobs and machines are those it was given";
            Err(Rejected::new(Code::RefusedByPolicy, message))
        }
        command => sim.ask(command),
    }
}
