//! The agent's thread: carries what the core's [`Agent`](agent::Agent) puts out to executor and link, and what they and the
//! device probe say back to it. It decides nothing about attempts.

use super::devices::{OnDevices, Watch};
use super::executor::Executor;
use super::handle::{AgentError, AgentHandle, Link, Nudge, Settings, listen, spawn_listener, stop_listening};
use super::process::{Machine, ProcessExecutor};
use super::reaper::Reaper;
use super::records;
use crate::claim_holder;
use crate::probe::Gpu;
use crate::supervise::{Bounds, Deadlines, DeadlinesFile, Spawner, boot_time};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use warpyard_core::agent::{self, Input, LaunchRefusal, LeaseDeadlines, Observation, Output};
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::{Assignment, Assignments, AttemptStatus};
use warpyard_core::spec::ClaimHolder;
use warpyard_core::{AttemptId, Span, Time};

/// How long nothing must have happened for there to be time for tidying up.
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// How long an attempt may take to begin before it is launched again.
const LAUNCH_TIMEOUT: Span = Span(20_000_000);

/// The agent's thread.
pub struct Agent<L> {
    agent: agent::Agent,
    executor: ProcessExecutor,
    link: L,
    devices: Watch,
    nudges: Receiver<Nudge>,
    /// When the agent is to be told that its timer fired.
    timer: Option<Time>,
    /// The latest assignments, for launching.
    assigned: BTreeMap<AttemptId, Assignment>,
    /// The event they are as of; none until the server has spoken, and until then nobody knows whose devices are in use.
    as_of: Option<u64>,
    /// The latest assignments that came and were not taken up yet.
    pending: Option<Assignments>,
    /// Devices of attempts that are assigned or still here.
    granted: BTreeMap<AttemptId, Granted>,
    /// Where supervisors find the deadlines of the lease; none without a lease.
    deadlines: Option<DeadlinesFile>,
    /// The deadlines written last.
    written: Option<LeaseDeadlines>,
    left: Option<Sender<()>>,
    data: PathBuf,
    poke: PathBuf,
    /// How often everything is looked at.
    every: Duration,
}

/// What an attempt was granted.
struct Granted {
    uuids: Vec<String>,
    /// The process a claim is for, which with its descendants is ours to the devices.
    holds_for: Option<ClaimHolder>,
}

impl<L: Link + 'static> Agent<L> {
    /// Presents the worker to the server, finds what an earlier agent left, and goes on in a thread of its own.
    pub fn start(settings: Settings, mut link: L) -> Result<AgentHandle, AgentError> {
        let Settings {
            name,
            layout,
            spawner,
            probe,
            rules,
            cpus,
            memory,
            labels,
            lease,
            log_cap,
            shared_at,
            max_processes,
            max_grace,
            every,
            repaired,
        } = settings;
        let data = layout.data().to_owned();
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source| AgentError::Io { path, source }
        };
        records::prepare(&data, shared_at.is_some()).map_err(unusable(&data))?;
        let machine_restarted = records::machine_restarted(&data).map_err(unusable(&data))?;
        let session = records::next_session(&data);
        let deadlines = lease.map(|_| DeadlinesFile::open(&data)).transpose().map_err(unusable(&data))?;
        let devices = Watch::new(probe, rules)?;
        let info = WorkerInfo { name, devices: devices.infos(), cpus, memory, lease, labels };
        let (nudges, receiver) = unbounded();
        let inbox = nudges.clone();
        // It only fails when the agent has left, and then nothing should be here any more.
        link.join(&info, Box::new(move |all| drop(inbox.send(Nudge::Assigned(all)))))?;
        let (poke, poked) = listen(&data).map_err(unusable(&data))?;
        spawn_listener(poked, nudges.clone());
        let reaper = Reaper::start(nudges.clone());
        let mut process = Spawner::start(&spawner.0, spawner.1)?;
        let bounds = confine(Bounds::find(max_processes), devices.seen().gpus(), &mut process);
        let machine = Machine {
            layout,
            log_cap,
            shared_at,
            bounds: bounds.clone(),
            max_grace,
            deadlines: deadlines.as_ref().map(|file| file.path().to_owned()),
            program: spawner.0,
            repaired,
            poke: poke.clone(),
        };
        let mut executor = ProcessExecutor::new(machine, process, reaper);
        let launch_timeout = Some(LAUNCH_TIMEOUT);
        let earlier = deadlines.as_ref().and_then(|file| Deadlines::read(file.path()));
        let confirmed = earlier.map(|earlier| Time(earlier.confirmed.as_micros() as u64));
        let settings = agent::Settings { session, lease, launch_timeout, machine_restarted, confirmed };
        let mut agent = agent::Agent::new(settings, now());
        for found in executor.find()? {
            agent.step(Input::Found(found), now());
        }
        let shown = devices.shown();
        let mut agent = Agent {
            agent,
            executor,
            link,
            devices,
            nudges: receiver,
            timer: None,
            assigned: BTreeMap::new(),
            as_of: None,
            pending: None,
            granted: BTreeMap::new(),
            deadlines,
            written: None,
            left: None,
            data,
            poke,
            every,
        };
        agent.write_deadlines();
        // Damage is dealt with, and told, before anyone hears that the worker is there.
        agent.carry_out();
        let thread = thread::Builder::new().name("agent".into()).spawn(move || agent.run());
        let thread = thread.expect("a thread can be started");
        Ok(AgentHandle { nudges, devices: shown, info, bounds, _thread: thread })
    }

    fn run(mut self) {
        let mut looked = Instant::now() - self.every;
        let mut last_nudge = Instant::now();
        loop {
            let first = self.nudges.recv_timeout(self.wait(looked));
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
            if let Some(assignments) = self.pending.take() {
                self.assign(assignments);
            }
            // Before anything is launched under them.
            self.write_deadlines();
            if self.timer.take_if(|at| *at <= now()).is_some() {
                self.step(Input::Timer);
            }
            self.carry_out();
            if looked.elapsed() >= self.every {
                looked = Instant::now();
                self.look_around();
                self.executor.tidy(last_nudge.elapsed() >= IDLE_AFTER);
            }
            if let Some(report) = self.agent.report(now()) {
                self.link.report(report);
            }
            if self.agent.may_leave() {
                return self.leave();
            }
        }
    }

    /// Writes the deadlines of the lease for supervisors, if they have changed.
    fn write_deadlines(&mut self) {
        let (Some(file), deadlines) = (&self.deadlines, self.agent.deadlines()) else { return };
        let Some(new) = deadlines.filter(|_| deadlines != self.written) else { return };
        let since_boot = |time: Time| Duration::from_micros(time.0);
        let LeaseDeadlines { confirmed, stop_at, kill_at } = new;
        let written = file.write(Deadlines {
            confirmed: since_boot(confirmed),
            stop_at: since_boot(stop_at),
            kill_at: since_boot(kill_at),
        });
        match written {
            Ok(()) => self.written = Some(new),
            Err(e) => tell(format_args!(
                "cannot tell supervisors of the renewed lease, and they may end attempts: {e}"
            )),
        }
    }

    /// How long nothing needs to be done.
    fn wait(&self, looked: Instant) -> Duration {
        let look = self.every.saturating_sub(looked.elapsed());
        let timer = self.timer.map(|at| Duration::from_micros(at.since(now()).0));
        timer.map_or(look, |timer| timer.min(look))
    }

    fn step(&mut self, input: Input) {
        self.agent.step(input, now());
    }

    fn take(&mut self, nudge: Nudge) {
        match nudge {
            // Assignments are complete, so of those that came together only the latest count: nothing is launched that was
            // cancelled while the agent was busy.
            Nudge::Assigned(new) => {
                let latest = match self.pending.take() {
                    None => new,
                    Some(old) => {
                        let send_all = old.send_all || new.send_all;
                        let later = if old.as_of > new.as_of { old } else { new };
                        Assignments { send_all, ..later }
                    }
                };
                self.pending = Some(latest);
            }
            Nudge::Poked(key) => {
                if let Ok(id) = key.parse() {
                    self.look_at(id);
                }
            }
            Nudge::Reaped(id) => {
                let seen = self.executor.reaped(id);
                self.see(id, seen);
            }
            Nudge::Leave { kill, left } => {
                self.left = Some(left);
                self.step(Input::Leave { kill });
            }
        }
    }

    fn assign(&mut self, assignments: Assignments) {
        self.agent.assign(&assignments, now());
        if Some(assignments.as_of) < self.as_of {
            return;
        }
        self.as_of = Some(assignments.as_of);
        for Assignment { attempt, devices, holds_for, .. } in &assignments.attempts {
            let granted = Granted { uuids: devices.clone(), holds_for: *holds_for };
            self.granted.insert(*attempt, granted);
        }
        self.assigned = assignments.attempts.into_iter().map(|a| (a.attempt, a)).collect();
        let (agent, assigned) = (&self.agent, &self.assigned);
        self.granted.retain(|id, _| assigned.contains_key(id) || agent.state(*id).is_some());
    }

    /// Carries out all that the agent puts out.
    fn carry_out(&mut self) {
        while let Some(output) = self.agent.next_output() {
            match output {
                Output::Launch(id) => self.launch(id),
                Output::Freeze(id) => self.executor.freeze(id),
                Output::Thaw(id) => self.executor.thaw(id),
                Output::Stop { attempt, grace, cause } => self.executor.stop(attempt, grace, cause),
                // It is told when it says how far it is.
                Output::Yield(_) => {}
                Output::CallOff(id) => {
                    if let Some(seen) = self.executor.call_off(id) {
                        self.see(id, seen);
                    }
                }
                Output::Discard { attempt, why } => {
                    self.executor.discard(attempt, &why);
                    self.see(attempt, Observation::NotStarted);
                }
                Output::Retire(id) => {
                    self.executor.retire(id);
                    self.devices.take_peak(id);
                }
                Output::StopForeign { record, grace } => {
                    if self.executor.stop_foreign(record, grace) {
                        self.step(Input::ForeignGone(record));
                    }
                }
                Output::RetireForeign(record) => self.executor.retire_foreign(record),
                Output::SetTimer(at) => self.timer = Some(at),
            }
        }
    }

    /// Has an attempt started, if nothing of it has begun and nobody else uses its devices.
    fn launch(&mut self, id: AttemptId) {
        let Some(assignment) = self.assigned.get(&id).filter(|a| a.work.is_some()).cloned() else { return };
        match self.executor.examine(id) {
            Some(Observation::NotStarted) => {}
            // Not to be taken for someone else on its own devices.
            Some(begun) => return self.see(id, begun),
            None => return,
        }
        let in_use = {
            let mut ours = on_devices(&self.agent, &self.executor, &self.granted);
            // What a claim is for may be on the device already.
            ours.retain(|one| one.attempt != id);
            ours.extend(assignment.holds_for.map(|held| OnDevices {
                attempt: id,
                uuids: &assignment.devices,
                pids: claim_holder::process_tree(held),
            }));
            self.devices.check(&assignment.devices, &ours).map(str::to_owned)
        };
        let states = self.devices.seen().states().clone();
        self.step(Input::Devices(states));
        if let Some(uuid) = in_use {
            return self.step(Input::Refused(id, LaunchRefusal::DeviceInUse(uuid)));
        }
        // Launches that a dying spawner lost are asked for when the agent next looks around: asked for here, a spawner that dies
        // at once would keep this going for ever.
        if let Err(refusal) = self.executor.launch(&assignment, self.devices.seen()) {
            if let LaunchRefusal::Broken(why) = &refusal {
                tell(format_args!("cannot launch attempt {id}: {why}"));
            }
            self.step(Input::Refused(id, refusal));
        }
    }

    /// Tells the agent how an attempt is that it takes for alive.
    fn look_at(&mut self, id: AttemptId) {
        let alive = self.agent.state(id).is_some_and(|state| !state.is_ended());
        if alive && let Some(seen) = self.executor.observe(id) {
            self.see(id, seen);
        }
    }

    fn see(&mut self, id: AttemptId, mut seen: Observation) {
        if let Observation::Status(AttemptStatus::Over(end)) = &mut seen {
            end.usage.peak_gpu_memory = self.devices.take_peak(id);
        }
        self.step(Input::Seen(id, seen));
    }

    /// Looks at everything, poked or not.
    fn look_around(&mut self) {
        let all: Vec<_> = self.agent.attempts().map(|(id, _)| id).collect();
        for id in all {
            self.look_at(id);
        }
        if self.executor.launches_lost() {
            self.step(Input::LaunchesLost);
        }
        if self.as_of.is_some() {
            self.devices.look(&on_devices(&self.agent, &self.executor, &self.granted));
        }
        let states = self.devices.seen().states().clone();
        self.step(Input::Devices(states));
        let used = self.devices.memory_used();
        self.step(Input::MemoryUsed(used));
        self.step(Input::Scanned);
        self.carry_out();
    }

    /// Puts away what there is time for, and tells whoever waits that the agent has left.
    fn leave(mut self) {
        self.executor.leave(self.every);
        records::give_back(&self.data);
        stop_listening(&self.data, &self.poke);
        if let Some(left) = self.left {
            let _nobody_waits = left.send(());
        }
    }
}

/// Time of the agent: since the machine booted, by a clock that nobody sets and that runs on while the machine is
/// suspended, because the server's does so too: after a suspension the lease may have expired.
fn now() -> Time {
    Time(boot_time().as_micros() as u64)
}

/// Our attempts that have devices, and their processes.
fn on_devices<'a>(
    agent: &agent::Agent,
    executor: &impl Executor,
    granted: &'a BTreeMap<AttemptId, Granted>,
) -> Vec<OnDevices<'a>> {
    let alive = agent.attempts().filter(|(_, state)| !state.is_ended());
    let granted = alive.filter_map(|(id, _)| Some((id, granted.get(&id)?)));
    let with_devices = granted.filter(|(_, granted)| !granted.uuids.is_empty());
    let pids = |id: AttemptId, granted: &Granted| match granted.holds_for {
        Some(held) => claim_holder::process_tree(held),
        None => executor.processes(id),
    };
    let on = with_devices.map(|(attempt, granted)| OnDevices {
        attempt,
        uuids: &granted.uuids,
        pids: pids(attempt, granted),
    });
    on.collect()
}

/// Closes the nodes of all GPUs to everything the spawner forks, so that only a task that is granted one needs a cgroup of its
/// own for that. Says in the bounds where it cannot be done.
fn confine(mut bounds: Bounds, gpus: &[Gpu], spawner: &mut Spawner) -> Bounds {
    let nodes: Vec<_> = gpus.iter().flat_map(|gpu| gpu.nodes.iter().copied()).collect();
    bounds.devices = match bounds.devices {
        Ok(_) if nodes.is_empty() => Err("the GPUs here have no device nodes".into()),
        Ok(parent) => parent.close_to(spawner, &nodes).map(|()| parent).map_err(|e| e.to_string()),
        Err(why) => Err(why),
    };
    bounds
}

pub(super) fn tell(what: std::fmt::Arguments<'_>) {
    tracing::warn!("{what}");
}
