//! The agent's thread.

mod finding;
mod launching;

use super::devices::{OnDevices, Watch};
use super::handle::{
    AgentError, AgentHandle, Link, Nudge, Repaired, Settings, listen, spawn_listener, stop_listening,
};
use super::keep::{self, Layout};
use super::mine::{Is, Mine, end_of};
use super::reaper::Reaper;
use super::records;
use crate::hold;
use crate::probe::Gpu;
use crate::supervise::{AttemptDir, Bounds, Found, RecordError, Sighting, Spawner, Want, boot_id};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use warpyard_core::event::{End, How, Usage, WorkerInfo};
use warpyard_core::protocol::{Assignment, Report, Standing};
use warpyard_core::reconcile::{Action, reconcile};
use warpyard_core::{AttemptId, Span};

/// How many ended attempts' records may wait to be removed.
const RETIRED_KEPT: usize = 20_000;

/// How many are removed at once when there is time.
const RETIRE_AT_ONCE: usize = 500;

/// How long nothing must have happened for there to be time.
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// How long an attempt may take to begin before it is launched again, which is safe: a directory starts at most once.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);

/// Why attempts are gone that died with the machine.
const RESTARTED: &str = "the machine restarted";

/// The agent's thread.
pub struct Agent<L> {
    settings: Settled,
    link: L,
    nudges: Receiver<Nudge>,
    reaper: Reaper,
    spawner: Spawner,
    poke: PathBuf,
    devices: Watch,
    assigned: BTreeMap<AttemptId, Assignment>,
    mine: BTreeMap<AttemptId, Mine>,
    /// Who supervises what was seen running, for when its records are gone.
    supervisors: BTreeMap<AttemptId, Sighting>,
    /// Attempts whose records can go when there is time: on some file systems removing slows down what is made next.
    retired: VecDeque<AttemptDir>,
    /// Attempts that still run and belong to no job of this log, as after a log was lost: they are ended, and nothing begins
    /// before they are gone, for they may be on any device.
    strangers: Vec<AttemptDir>,
    /// What changed since the last report.
    news: BTreeSet<AttemptId>,
    /// How much the server knew when it last spoke; until it did, nobody knows what is wanted, or whose devices are in use.
    heard: Option<u64>,
    leaving: Option<(bool, Sender<()>)>,
    /// Whether people were told that the file system in memory is full.
    told_full: bool,
    /// Whether the machine was restarted, and the server has not spoken since.
    restarted: bool,
}

/// What of the settings is needed once devices were found.
struct Settled {
    layout: Layout,
    log_cap: u64,
    shared_at: Option<PathBuf>,
    every: Duration,
    bounds: Bounds,
    max_grace: Span,
    /// This program, which also holds devices for claims.
    program: PathBuf,
    repaired: Repaired,
}

impl<L: Link + 'static> Agent<L> {
    /// Finds what an earlier agent left, presents the worker to the server (`join`), and goes on in a thread of its own.
    pub fn start(
        settings: Settings,
        join: impl FnOnce(&WorkerInfo) -> Result<L, AgentError>,
    ) -> Result<AgentHandle, AgentError> {
        let Settings {
            name,
            layout,
            spawner,
            probe,
            rules,
            cpus,
            memory,
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
        let attempts = records::prepare(&data, shared_at.is_some()).map_err(unusable(&data))?;
        let restarted = records::machine_restarted(&data).map_err(unusable(&data))?;
        let devices = Watch::new(probe, rules)?;
        let info = WorkerInfo { name, devices: devices.infos(), cpus, memory, lease };
        let link = join(&info)?;
        let (poke, poked) = listen(&data).map_err(unusable(&data))?;
        let (nudges, receiver) = unbounded();
        spawn_listener(poked, nudges.clone());
        let reaper = Reaper::start(nudges.clone());
        let mut spawner_process = Spawner::start(&spawner.0, spawner.1)?;
        let bounds = confine(Bounds::find(max_processes), devices.seen().gpus(), &mut spawner_process);
        let mut agent = Agent {
            settings: Settled {
                layout,
                repaired,
                log_cap,
                shared_at,
                bounds,
                max_grace,
                every,
                program: spawner.0,
            },
            link,
            nudges: receiver,
            reaper,
            spawner: spawner_process,
            poke,
            devices,
            assigned: BTreeMap::new(),
            mine: BTreeMap::new(),
            supervisors: BTreeMap::new(),
            retired: VecDeque::new(),
            strangers: Vec::new(),
            news: BTreeSet::new(),
            heard: None,
            leaving: None,
            told_full: false,
            restarted,
        };
        agent.find_again(&attempts)?;
        let on_disk = keep::overflow_dir(agent.settings.layout.data());
        if on_disk.exists() {
            agent.find_again(&on_disk)?;
        }
        let (devices, bounds) = (agent.devices.shown(), agent.settings.bounds.clone());
        let thread = thread::Builder::new().name("agent".into()).spawn(move || agent.run());
        let thread = thread.expect("a thread can be started");
        Ok(AgentHandle { nudges, devices, info, bounds, _thread: thread })
    }

    /// Notes how an attempt is that was not known to be here.
    fn note(&mut self, id: AttemptId, dir: AttemptDir, is: Is) {
        let assigned = self.assigned.get(&id);
        let (uuids, holds_for) = assigned.map(|a| (a.devices.clone(), a.holds_for)).unwrap_or_default();
        self.mine.insert(id, Mine { dir, is, uuids, holds_for });
        self.news.insert(id);
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
        for dir in self.retired.drain(..now) {
            if let Err(e) = keep::retire(dir.path()) {
                tell(format_args!("cannot remove {}: {e}", dir.path().display()));
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
            Nudge::Reaped(id) => self.reaped(id),
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
        let local = self.mine.iter().map(|(&id, mine)| (id, mine.is.local()));
        for action in reconcile(&desired, local) {
            self.carry_out(action);
        }
        // What is missing from now on did not go with the machine.
        self.restarted = false;
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Launch(_) if self.leaving.is_some() || !self.strangers.is_empty() => {}
            Action::Launch(id) => self.launch(id),
            Action::Freeze(id) => self.want(id, Want::Freeze),
            Action::Thaw(id) => self.want(id, Want::Run),
            Action::Stop(id) => self.want(id, self.stop(id)),
            Action::ReportLost(id) => {
                let why = if self.restarted { RESTARTED } else { "nothing of it is left on the worker" };
                self.over(id, How::Lost(why.into()));
            }
            Action::ReportStopped(id) => self.over(id, How::Stopped),
            // While leaving, what is over may not have been told yet.
            Action::Forget(_) if self.leaving.is_some() => {}
            Action::Forget(id) => {
                self.retired.extend(self.mine.remove(&id).map(|mine| mine.dir));
                self.supervisors.remove(&id);
                self.devices.take_peak(id);
            }
        }
    }

    /// That an attempt is to end, in the time it was promised for that.
    fn stop(&self, id: AttemptId) -> Want {
        let grace = self.assigned.get(&id).map_or_else(warpyard_core::spec::default_grace, |a| a.grace);
        Want::Stop { grace_ms: grace.min(self.settings.max_grace).0 / 1000 }
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

    fn look_at(&mut self, id: AttemptId) {
        let Some(mine) = self.mine.get(&id).filter(|m| !matches!(m.is, Is::Over(_))) else { return };
        let dir = mine.dir.clone();
        let begun = !matches!(mine.is, Is::Beginning(_));
        let seen = dir.look().and_then(|found| match found {
            Found::NotStarted if begun => Ok(Some(self.restore(id, &dir))),
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
            Err(e) if e.is_damage() => {
                let is = self.give_up(id, &dir, &e);
                self.note(id, dir, is);
            }
            Err(e) => tell(format_args!("cannot read how attempt {id} is: {e}")),
        }
    }

    fn see(&mut self, id: AttemptId, dir: &AttemptDir, found: Found) -> Result<Is, RecordError> {
        Ok(match found {
            Found::NotStarted => unreachable!("callers leave out what has not started"),
            Found::Running(running) => {
                self.supervisors.insert(id, running.supervisor);
                Is::Running
            }
            Found::Frozen(running) => {
                self.supervisors.insert(id, running.supervisor);
                Is::Frozen
            }
            Found::Exited(exit) => Is::Over(end_of(&exit, self.devices.take_peak(id))),
            // Of an earlier boot nothing can be left.
            Found::Died(running) if running.boot != boot_id() => lost(RESTARTED),
            Found::Died(running) => {
                self.reaper.take(id, dir, running)?;
                // Until nothing is left of it its devices are in use.
                Is::Running
            }
        })
    }

    /// Makes the directory of an attempt again that was removed while it ran, and has its supervisor take it. Without a
    /// supervisor the attempt is lost.
    fn restore(&self, id: AttemptId, dir: &AttemptDir) -> Is {
        let Some(supervisor) = self.supervisors.get(&id).filter(|supervisor| supervisor.is_alive()) else {
            return lost("its records were removed");
        };
        let told = std::fs::create_dir_all(dir.path()).and_then(|()| supervisor.signal(libc::SIGUSR1));
        if let Err(e) = told {
            tell(format_args!("cannot restore the records of attempt {id}: {e}"));
        }
        Is::Running
    }

    /// Notes the end of an attempt whose supervisor was killed.
    fn reaped(&mut self, id: AttemptId) {
        self.reaper.done(id);
        if let Some(mine) = self.mine.get_mut(&id) {
            mine.is = lost("its supervisor was killed");
            self.news.insert(id);
        }
    }

    /// Looks at everything, poked or not.
    fn look_around(&mut self) {
        let all: Vec<_> = self.mine.keys().copied().collect();
        for id in all {
            self.look_at(id);
        }
        self.end_strangers();
        let stuck = |m: &Mine| matches!(m.is, Is::Beginning(at) if at.elapsed() > BEGINS_WITHIN);
        self.mine.retain(|_, mine| !stuck(mine));
        if self.spawner.has_died() {
            match self.spawner.restart() {
                Ok(()) => self.launch_again(),
                Err(e) => tell(format_args!("cannot start the spawner again: {e}")),
            }
        }
        if self.heard.is_some() {
            self.devices.look(&on_devices(&self.mine));
        }
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
        let devices = self.devices.seen().states().clone();
        let used = if all { self.devices.memory_used() } else { BTreeMap::new() };
        self.link.report(Report { info: None, attempts, devices, used });
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
        records::give_back(self.settings.layout.data());
        stop_listening(self.settings.layout.data(), &self.poke);
        if let Some((_, left)) = self.leaving.take() {
            let _nobody_waits = left.send(());
        }
    }
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

/// An attempt whose end was not recorded.
fn lost(why: &str) -> Is {
    Is::Over(End { how: How::Lost(why.into()), usage: Usage::default() })
}

/// Our attempts that have devices, and their processes.
fn on_devices(mine: &BTreeMap<AttemptId, Mine>) -> Vec<OnDevices<'_>> {
    let with_devices = mine.iter().filter(|(_, m)| !m.uuids.is_empty() && !matches!(m.is, Is::Over(_)));
    let processes = |mine: &Mine| mine.dir.running().ok().flatten().map(|r| r.processes());
    let pids = |mine: &Mine| match mine.holds_for {
        Some(held) => hold::family(held),
        None => processes(mine).unwrap_or_default().into_iter().map(|p| p as u32).collect(),
    };
    let on = with_devices.map(|(&attempt, mine)| OnDevices { attempt, uuids: &mine.uuids, pids: pids(mine) });
    on.collect()
}

fn tell(what: std::fmt::Arguments<'_>) {
    tracing::warn!("{what}");
}
