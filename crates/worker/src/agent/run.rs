//! The agent's thread.

use super::devices::{DeviceRules, OnDevices, Watched};
use super::{begin, keep, records};
use crate::hold;
use crate::people::Person;
use crate::probe::{Probe, ProbeError};
use crate::supervise::{
    AttemptDir, Bounds, Cause, Delivery, Exit, Found, LaunchError, PokeListener, RecordError, Spawner,
    Status, Want, scan,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use warpyard_core::event::{End, How, Usage, WorkerInfo};
use warpyard_core::protocol::{Assignment, Assignments, Report, Standing};
use warpyard_core::reconcile::{Action, Local, reconcile};
use warpyard_core::spec::Held;
use warpyard_core::{AttemptId, Span};

/// How many ended attempts' records may wait to be removed.
const RETIRED_KEPT: usize = 20_000;

/// How many are removed at once when there is time.
const RETIRE_AT_ONCE: usize = 500;

/// How long nothing must have happened for there to be time.
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// How long an attempt may take to begin before it is launched again, which is safe: a directory starts at most once.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);

/// How the agent reaches the server. Telling never waits for an answer: what was not heard is told again.
pub trait Link: Send {
    /// Tells the server what there is.
    fn report(&self, report: Report);
}

/// What an agent is told about its machine.
pub struct Settings {
    /// The worker's name.
    pub name: String,
    /// Where attempts and logs live.
    pub data: PathBuf,
    /// The program that becomes the spawner, and its arguments.
    pub spawner: (PathBuf, Vec<String>),
    /// Finds devices.
    pub probe: Box<dyn Probe>,
    /// How devices are offered.
    pub rules: DeviceRules,
    /// Thousandths of a processor offered.
    pub cpus: u32,
    /// Main memory offered, in bytes.
    pub memory: u64,
    /// How long the server bears its silence.
    pub lease: Option<Span>,
    /// How much of each output is kept.
    pub log_cap: u64,
    /// Whether each task runs as the user it belongs to, and none as root; otherwise all run as the worker.
    pub as_their_users: bool,
    /// How many processes and threads a task may have, if that was said.
    pub max_processes: Option<u64>,
    /// How often everything is looked at and told again even if nothing seems to happen.
    pub every: Duration,
}

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Devices could not be found.
    #[error("cannot find the devices")]
    Probe(#[from] ProbeError),
    /// The spawner could not be started.
    #[error(transparent)]
    Spawner(#[from] LaunchError),
    /// What an earlier agent left could not be read.
    #[error("cannot read what runs here")]
    Records(#[from] RecordError),
    /// The server did not take it.
    #[error("the server did not take the worker: {0}")]
    NotTaken(String),
    /// A directory or socket could not be made.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

enum Nudge {
    Assigned(Assignments),
    Poked(String),
    Leave { kill: bool, left: Sender<()> },
}

/// A running agent.
pub struct AgentHandle {
    nudges: Sender<Nudge>,
    devices: Arc<Mutex<Watched>>,
    info: WorkerInfo,
    bounds: Bounds,
    _thread: JoinHandle<()>,
}

impl AgentHandle {
    /// What the worker is, for the server to know it.
    pub fn info(&self) -> &WorkerInfo {
        &self.info
    }

    /// Says what should be here.
    pub fn assign(&self, assignments: Assignments) {
        // It only fails when the agent has left, and then nothing should be here any more.
        let _left = self.nudges.send(Nudge::Assigned(assignments));
    }

    /// A way to say what should be here from elsewhere.
    pub fn assigner(&self) -> impl Fn(Assignments) + Send + use<> {
        let nudges = self.nudges.clone();
        move |assignments| {
            let _left = nudges.send(Nudge::Assigned(assignments));
        }
    }

    /// How tasks are kept from having too many processes.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The devices and their last readings.
    pub fn devices(&self) -> Arc<Mutex<Watched>> {
        self.devices.clone()
    }

    /// Ends the agent: what runs goes on, or, with `kill`, is ended and waited for first.
    pub fn leave(&self, kill: bool) {
        let (left, wait) = unbounded();
        if self.nudges.send(Nudge::Leave { kill, left }).is_ok() {
            let _gone = wait.recv();
        }
    }
}

/// An attempt that is here.
struct Mine {
    dir: AttemptDir,
    is: Is,
    uuids: Vec<String>,
    /// The process a claim is for, which with its descendants is ours to the devices.
    holds_for: Option<Held>,
}

enum Is {
    /// Launched then; whether its process runs is not known yet.
    Beginning(Instant),
    Running,
    Frozen,
    Over(End),
}

impl Is {
    fn local(&self) -> Local {
        match self {
            Is::Beginning(_) => Local::Beginning,
            Is::Running => Local::Running,
            Is::Frozen => Local::Frozen,
            Is::Over(_) => Local::Over,
        }
    }
}

/// The agent's thread.
pub struct Agent<L> {
    settings: Settled,
    link: L,
    nudges: Receiver<Nudge>,
    spawner: Spawner,
    poke: PathBuf,
    devices: Arc<Mutex<Watched>>,
    assigned: BTreeMap<AttemptId, Assignment>,
    mine: BTreeMap<AttemptId, Mine>,
    /// Attempts whose records can go when there is time: on some file systems removing slows down what is made next.
    retired: VecDeque<AttemptId>,
    /// What changed since the last report.
    news: BTreeSet<AttemptId>,
    /// How much the server knew when it last spoke; until it did, nobody knows what is wanted, or whose devices are in use.
    heard: Option<u64>,
    leaving: Option<(bool, Sender<()>)>,
}

/// What of the settings is needed once devices were found.
struct Settled {
    data: PathBuf,
    log_cap: u64,
    as_their_users: bool,
    every: Duration,
    bounds: Bounds,
    /// This program, which also holds devices for claims.
    program: PathBuf,
}

impl<L: Link + 'static> Agent<L> {
    /// Finds what an earlier agent left, presents the worker to the server (`join`), and goes on in a thread of its own.
    pub fn start(
        settings: Settings,
        join: impl FnOnce(&WorkerInfo) -> Result<L, AgentError>,
    ) -> Result<AgentHandle, AgentError> {
        let Settings {
            name,
            data,
            spawner,
            probe,
            rules,
            cpus,
            memory,
            lease,
            log_cap,
            as_their_users,
            max_processes,
            every,
        } = settings;
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source| AgentError::Io { path, source }
        };
        let attempts = records::prepare(&data).map_err(unusable(&data))?;
        let devices = Watched::new(probe, rules)?;
        let info = WorkerInfo { name, devices: devices.infos(), cpus, memory, lease };
        let link = join(&info)?;
        let (poke, poked) = listen(&data).map_err(unusable(&data))?;
        let (nudges, receiver) = unbounded();
        spawn_listener(poked, nudges.clone());
        let mut agent = Agent {
            settings: Settled {
                data,
                log_cap,
                as_their_users,
                bounds: Bounds::find(max_processes),
                every,
                program: spawner.0.clone(),
            },
            link,
            nudges: receiver,
            spawner: Spawner::start(spawner.0, spawner.1)?,
            poke,
            devices: Arc::new(Mutex::new(devices)),
            assigned: BTreeMap::new(),
            mine: BTreeMap::new(),
            retired: VecDeque::new(),
            news: BTreeSet::new(),
            heard: None,
            leaving: None,
        };
        agent.find_again(&attempts)?;
        let (devices, bounds) = (agent.devices.clone(), agent.settings.bounds.clone());
        let thread = thread::Builder::new().name("agent".into()).spawn(move || agent.run());
        let thread = thread.expect("a thread can be started");
        Ok(AgentHandle { nudges, devices, info, bounds, _thread: thread })
    }

    fn find_again(&mut self, attempts: &Path) -> Result<(), AgentError> {
        for (dir, found) in scan(attempts)? {
            let name = dir.path().file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let Ok(id) = name.parse::<AttemptId>() else { continue };
            // What no supervisor took may be launched again: the directory starts at most once.
            if found != Found::NotStarted {
                let is = self.see(id, &dir, found)?;
                self.mine.insert(id, Mine { dir, is, uuids: Vec::new(), holds_for: None });
                self.news.insert(id);
            }
        }
        Ok(())
    }

    fn run(mut self) {
        let mut looked = Instant::now() - self.settings.every;
        let mut last_nudge = Instant::now();
        loop {
            let first = self.nudges.recv_timeout(self.settings.every.saturating_sub(looked.elapsed()));
            match first {
                Ok(nudge) => {
                    last_nudge = Instant::now();
                    self.take(nudge);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(nudge) = self.nudges.try_recv() {
                self.take(nudge);
            }
            self.act();
            let due = looked.elapsed() >= self.settings.every;
            if due {
                looked = Instant::now();
                self.look_around();
                self.tidy(last_nudge.elapsed() >= IDLE_AFTER);
            }
            self.report(due);
            if self.may_leave() {
                self.leave();
                return;
            }
        }
    }

    /// Removes records nobody needs: a few when nothing else is going on, all but the latest however busy it is.
    fn tidy(&mut self, idle: bool) {
        let over = self.retired.len().saturating_sub(RETIRED_KEPT);
        let now = if idle { over.max(RETIRE_AT_ONCE).min(self.retired.len()) } else { over };
        for id in self.retired.drain(..now) {
            if let Err(e) = keep::retire(&self.settings.data, id) {
                tell(format_args!("cannot put away attempt {id}: {e}"));
            }
        }
    }

    fn take(&mut self, nudge: Nudge) {
        match nudge {
            Nudge::Assigned(late) if Some(late.as_of) < self.heard => {}
            Nudge::Assigned(all) => {
                self.heard = Some(all.as_of);
                self.assigned = all.attempts.into_iter().map(|a| (a.attempt, a)).collect();
                for (id, assignment) in &self.assigned {
                    if let Some(mine) = self.mine.get_mut(id) {
                        mine.uuids.clone_from(&assignment.devices);
                        mine.holds_for = assignment.holds_for;
                    }
                }
            }
            Nudge::Poked(key) => {
                if let Ok(id) = key.parse() {
                    self.look_at(id);
                }
            }
            Nudge::Leave { kill, left } => self.leaving = Some((kill, left)),
        }
    }

    /// Makes what is here what should be.
    fn act(&mut self) {
        let desired: Vec<_> = match &self.leaving {
            Some((true, _)) => Vec::new(),
            // What an earlier agent left is not unwanted just because nobody has spoken yet.
            _ if self.heard.is_none() => return,
            _ => self.assigned.values().map(Assignment::desired).collect(),
        };
        let local = self.mine.iter().map(|(&id, mine)| (id, mine.is.local())).collect();
        for action in reconcile(&desired, &local) {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Launch(_) if self.leaving.is_some() => {}
            Action::Launch(id) => self.launch(id),
            Action::Freeze(id) => self.want(id, Want::Freeze),
            Action::Thaw(id) => self.want(id, Want::Run),
            Action::Stop(id) => {
                let grace =
                    self.assigned.get(&id).map_or_else(warpyard_core::spec::default_grace, |a| a.grace);
                let grace_ms = grace.0 / 1000;
                self.want(id, Want::Stop { grace_ms });
            }
            Action::ReportLost(id) => self.over(id, How::Lost("nothing of it is left on the worker".into())),
            Action::ReportStopped(id) => self.over(id, How::Stopped),
            // While leaving, what is over may not have been told yet.
            Action::Forget(_) if self.leaving.is_some() => {}
            Action::Forget(id) => {
                self.mine.remove(&id);
                self.lock().take_peak(id);
                self.retired.push_back(id);
            }
        }
    }

    fn launch(&mut self, id: AttemptId) {
        let Some(Assignment { work: Some(work), devices: uuids, grace, holds_for, .. }) =
            self.assigned.get(&id).cloned()
        else {
            return;
        };
        let taken = {
            let mut ours = self.on_devices();
            // What a claim is for may be on the device already.
            ours.extend(holds_for.map(|held| OnDevices {
                attempt: id,
                uuids: &uuids,
                pids: hold::family(held),
            }));
            self.lock().check(&uuids, &ours).map(str::to_owned)
        };
        if let Some(uuid) = taken {
            return self.over(id, How::Declined(format!("{uuid} is in use by someone else")));
        }
        let person = match self.settings.as_their_users.then(|| Person::to_run_as(&work.user)).transpose() {
            Ok(person) => person,
            Err(why) => return self.over(id, How::NotStarted(why.to_string())),
        };
        let mut launch = {
            let devices = self.lock();
            let gpus: Vec<_> = devices.gpus().iter().filter(|g| uuids.contains(&g.uuid)).collect();
            let at = begin::Place {
                data: &self.settings.data,
                program: &self.settings.program,
                person: person.as_ref(),
            };
            begin::launch(at, id, &work, &gpus, devices.vendor())
        };
        if work.claim.is_none() {
            begin::bound(&mut launch, &self.settings.bounds);
        }
        launch.grace_ms = grace.0.div_ceil(1000);
        launch.log_cap_bytes =
            work.log_size.map_or(self.settings.log_cap, |size| size.min(self.settings.log_cap));
        launch.poke = Some(self.poke.clone());
        let dir = AttemptDir::new(launch.dir.clone());
        // An earlier agent may have called it off and died before the server heard of that.
        if dir.want().is_ok_and(|want| matches!(want, Some(Want::Stop { .. })))
            && let Err(e) = dir.write_want(Want::Run)
        {
            tell(format_args!("cannot say that attempt {id} is wanted again: {e}"));
        }
        match self.spawner.launch(&launch) {
            Ok(delivery) => {
                let is = Is::Beginning(Instant::now());
                self.mine.insert(id, Mine { dir, is, uuids, holds_for });
                if delivery == Delivery::SentToNewSpawner {
                    self.launch_again();
                }
            }
            Err(e) => self.over(id, How::Declined(format!("the worker cannot start anything: {e}"))),
        }
    }

    /// A spawner died: what it had not begun is not known to be lost, and beginning it twice is impossible.
    fn launch_again(&mut self) {
        let beginning: Vec<_> = self.mine.iter().filter(|(_, m)| matches!(m.is, Is::Beginning(_))).collect();
        let lost: Vec<_> = beginning.into_iter().map(|(&id, _)| id).collect();
        for id in lost {
            self.mine.remove(&id);
        }
    }

    fn want(&mut self, id: AttemptId, want: Want) {
        let Some(mine) = self.mine.get(&id) else { return };
        let unchanged = mine.dir.want().is_ok_and(|w| w == Some(want));
        if unchanged && !matches!(mine.is, Is::Beginning(_)) {
            return;
        }
        if let Err(e) = mine.dir.write_want(want) {
            tell(format_args!("cannot say what is wanted of attempt {id}: {e}"));
        }
    }

    /// Notes an end that no process of ours had.
    fn over(&mut self, id: AttemptId, how: How) {
        let dir = AttemptDir::new(keep::attempt_dir(&self.settings.data, id));
        // Should a launch still be on its way, it must find that it is not wanted any more.
        let refused = std::fs::create_dir_all(dir.path()).map_err(|e| e.to_string());
        let refused =
            refused.and_then(|()| dir.write_want(Want::Stop { grace_ms: 0 }).map_err(|e| e.to_string()));
        if let Err(e) = refused {
            tell(format_args!("cannot call attempt {id} off: {e}"));
        }
        let is = Is::Over(End { how, usage: Usage::default() });
        self.mine.insert(id, Mine { dir, is, uuids: Vec::new(), holds_for: None });
        self.news.insert(id);
    }

    fn look_at(&mut self, id: AttemptId) {
        let Some(mine) = self.mine.get(&id).filter(|m| !matches!(m.is, Is::Over(_))) else { return };
        let dir = mine.dir.clone();
        let seen = dir.look().and_then(|found| match found {
            Found::NotStarted => Ok(None),
            found => self.see(id, &dir, found).map(Some),
        });
        match seen {
            Ok(None) => {}
            Ok(Some(is)) => {
                let mine = self.mine.get_mut(&id).expect("seen above");
                if mine.is.local() != is.local() {
                    self.news.insert(id);
                }
                mine.is = is;
            }
            Err(e) => tell(format_args!("cannot read how attempt {id} is: {e}")),
        }
    }

    fn see(&mut self, id: AttemptId, dir: &AttemptDir, found: Found) -> Result<Is, RecordError> {
        Ok(match found {
            Found::NotStarted => unreachable!("callers leave out what has not started"),
            Found::Running(_) => Is::Running,
            Found::Frozen(_) => Is::Frozen,
            Found::Exited(exit) => Is::Over(end_of(&exit, self.lock().take_peak(id))),
            Found::Died(running) => {
                dir.end_leftovers(&running)?;
                let how = How::Lost("its supervisor was killed, or the machine restarted".into());
                Is::Over(End { how, usage: Usage::default() })
            }
        })
    }

    /// Looks at everything, poked or not.
    fn look_around(&mut self) {
        let all: Vec<_> = self.mine.keys().copied().collect();
        for id in all {
            self.look_at(id);
        }
        let stuck = |m: &Mine| matches!(m.is, Is::Beginning(at) if at.elapsed() > BEGINS_WITHIN);
        self.mine.retain(|_, mine| !stuck(mine));
        if self.spawner.has_died() {
            match self.spawner.restart() {
                Ok(()) => self.launch_again(),
                Err(e) => tell(format_args!("cannot start the spawner again: {e}")),
            }
        }
        if self.heard.is_some() {
            let ours = self.on_devices();
            self.lock().look(&ours);
        }
    }

    fn on_devices(&self) -> Vec<OnDevices<'_>> {
        let with_devices =
            self.mine.iter().filter(|(_, m)| !m.uuids.is_empty() && !matches!(m.is, Is::Over(_)));
        let processes = |mine: &Mine| mine.dir.running().ok().flatten().map(|r| r.processes());
        let pids = |mine: &Mine| match mine.holds_for {
            Some(held) => hold::family(held),
            None => processes(mine).unwrap_or_default().into_iter().map(|p| p as u32).collect(),
        };
        let on =
            with_devices.map(|(&attempt, mine)| OnDevices { attempt, uuids: &mine.uuids, pids: pids(mine) });
        on.collect()
    }

    fn report(&mut self, all: bool) {
        if self.news.is_empty() && !all {
            return;
        }
        let told = |(&id, mine): (&AttemptId, &Mine)| {
            let standing = match &mine.is {
                Is::Beginning(_) => return None,
                Is::Running => Standing::Running,
                Is::Frozen => Standing::Frozen,
                Is::Over(end) => Standing::Over(end.clone()),
            };
            (all || self.news.contains(&id)).then_some((id, standing))
        };
        let attempts = self.mine.iter().filter_map(told).collect();
        let devices = self.lock().states().clone();
        self.link.report(Report { info: None, attempts, devices });
        self.news.clear();
    }

    fn may_leave(&self) -> bool {
        match self.leaving {
            None => false,
            Some((kill, _)) => !kill || self.mine.values().all(|m| matches!(m.is, Is::Over(_))),
        }
    }

    /// Puts away what there is time for, and tells whoever waits that the agent has left.
    fn leave(&mut self) {
        let begun = Instant::now();
        while !self.retired.is_empty() && begun.elapsed() < self.settings.every {
            self.tidy(true);
        }
        records::give_back(&self.settings.data);
        if let Some((_, left)) = self.leaving.take() {
            let _nobody_waits = left.send(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.devices.lock().expect("nobody panics while looking at devices")
    }
}

/// How an attempt ended, in the words of the log.
fn end_of(exit: &Exit, peak_gpu_memory: Option<u64>) -> End {
    let how = match (&exit.cause, exit.status) {
        (Cause::TimedOut, _) => How::TimedOut,
        (Cause::Crowded { processes }, _) => How::Crowded(*processes),
        (Cause::Idle { limit_ms }, _) => How::Idle(Span(limit_ms * 1000)),
        (Cause::Stopped, _) => How::Stopped,
        (Cause::FailedToStart { message }, _) => How::NotStarted(message.clone()),
        (Cause::Exited, Some(Status::Code(code))) => How::Exited(code),
        (Cause::Exited, Some(Status::Signal(signal))) => How::Signalled(signal),
        (Cause::Exited, None) => How::Lost("its exit was not recorded".into()),
    };
    let usage = Usage {
        ran: Span(exit.running_us),
        cpu: Span(exit.usage.cpu_us),
        peak_rss: Some(exit.usage.peak_rss_bytes).filter(|b| *b > 0),
        peak_gpu_memory,
    };
    End { how, usage }
}

/// A socket's path has at most 107 bytes; where the data directory's is longer, the socket goes elsewhere.
fn listen(data: &Path) -> io::Result<(PathBuf, PokeListener)> {
    let near = data.join("pokes");
    let path = match near.as_os_str().len() {
        0..=100 => near,
        _ => std::env::temp_dir().join(format!("warpyard-pokes-{}", std::process::id())),
    };
    Ok((path.clone(), PokeListener::bind(path)?))
}

fn spawn_listener(listener: PokeListener, nudges: Sender<Nudge>) {
    let listen = move || {
        while let Ok(key) = listener.recv() {
            if nudges.send(Nudge::Poked(key)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("pokes".into()).spawn(listen).expect("a thread can be started");
}

fn tell(what: std::fmt::Arguments<'_>) {
    eprintln!("warpyard worker: {what}");
}
