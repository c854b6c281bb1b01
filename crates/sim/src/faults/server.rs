//! Simulated server: the engine, its unanswered requests and its clock. After a crash a new one is made from the disk.

use super::Violation;
use super::disk::{Disk, StoreFailure};
use std::collections::{BTreeMap, VecDeque};
use warpyard_core::engine::{Engine, TurnOutcome};
use warpyard_core::protocol::Report;
use warpyard_core::{Cluster, Command, Epoch, JobId, PolicyDef, Time, WorkerId};

/// Server process.
pub(super) struct Server {
    pub(super) engine: Engine,
    /// Number of this server process; timers of earlier ones are void.
    pub(super) number: u32,
    inbox: Vec<Request>,
    /// Latest time it saw: its clock never goes back within a process.
    last: Time,
    /// Number of turns; a deadline timer set in an earlier turn is void.
    pub(super) turns: u64,
    /// Whether a turn is scheduled for the requests in the inbox.
    pub(super) turn_scheduled: bool,
    /// Address of the latest agent that was heard of each worker.
    pub(super) addresses: BTreeMap<WorkerId, Address>,
    /// Finished jobs in memory, oldest first.
    ended: VecDeque<JobId>,
}

/// Address of an agent process.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) machine: usize,
    /// Number of the agent process.
    pub(super) agent: u32,
}

/// Request to the server.
#[derive(Clone)]
pub(super) enum Request {
    User(Command),
    Worker(WorkerReport),
}

/// Report and its sender.
#[derive(Clone)]
pub(super) struct WorkerReport {
    pub(super) from: Address,
    /// The worker's name.
    pub(super) name: String,
    pub(super) report: Box<Report>,
}

/// Turn whose events are committed.
pub(super) struct CommittedTurn {
    pub(super) commands: Vec<Command>,
    pub(super) turned: TurnOutcome,
}

impl Server {
    pub(super) fn new(
        cluster: Cluster,
        policies: &'static [PolicyDef],
        epoch: Epoch,
        number: u32,
        now: Time,
    ) -> Server {
        let ended = cluster.jobs().iter().filter(|j| j.finished.is_some()).map(|j| j.id).collect();
        let mut engine =
            Engine::new(cluster, policies, now).expect("a policy that was in force can be built");
        engine.write_as(epoch);
        Server {
            engine,
            number,
            inbox: Vec::new(),
            last: now,
            turns: 0,
            turn_scheduled: false,
            addresses: BTreeMap::new(),
            ended,
        }
    }

    pub(super) fn hear(&mut self, asked: Request) {
        self.inbox.push(asked);
    }

    /// Monotonic clock: it stops rather than go back.
    pub(super) fn clock(&mut self, system: Time) -> Time {
        self.last = self.last.max(system);
        self.last
    }

    /// Takes one turn with all requests. On failure returns the commands that may or may not have been executed.
    pub(super) fn turn(
        &mut self,
        system: Time,
        disk: &mut Disk,
        ended_kept: usize,
    ) -> Result<CommittedTurn, (StoreFailure, Vec<Command>)> {
        let now = self.clock(system);
        self.turns += 1;
        self.turn_scheduled = false;
        let (mut commands, mut heard): (Vec<Command>, Vec<(Address, String)>) = Default::default();
        for asked in std::mem::take(&mut self.inbox) {
            match asked {
                Request::User(command) => commands.push(command),
                Request::Worker(WorkerReport { from, name, report }) => {
                    match (self.engine.cluster().worker_named(&name), &report.info) {
                        (Some(worker), _) => commands.push(Command::Receive { worker, report }),
                        (None, Some(info)) => commands.push(Command::Join(info.clone())),
                        (None, None) => continue,
                    }
                    heard.push((from, name));
                }
            }
        }
        let over = self.ended.len().saturating_sub(ended_kept);
        commands.extend(self.ended.drain(..over).map(Command::Forget));
        match self.engine.turn(commands.clone(), now, disk) {
            Ok(turned) => {
                self.ended
                    .retain(|job| self.engine.cluster().job(*job).is_some_and(|j| j.finished.is_some()));
                self.ended.extend(turned.finished.iter().copied());
                for (from, name) in heard {
                    self.note_address(from, &name);
                }
                Ok(CommittedTurn { commands, turned })
            }
            Err(stop) => Err((stop, commands)),
        }
    }

    /// Notes the address of an agent, unless its report was overtaken by one of a later process, as a live server knows each
    /// agent by its latest connection.
    fn note_address(&mut self, from: Address, name: &str) {
        if let Some(worker) = self.engine.cluster().worker_named(name) {
            let known = self.addresses.entry(worker).or_insert(from);
            if known.agent < from.agent {
                *known = from;
            }
        }
    }

    /// Rule: a plan made and carried out in one turn is not stale.
    pub(super) fn a_plan_fits(turned: &TurnOutcome) -> Result<(), Violation> {
        match turned.stale.first() {
            Some(stale) => {
                super::ledger::violation("a plan fits the state it was made from", || stale.to_string())
            }
            None => Ok(()),
        }
    }
}
