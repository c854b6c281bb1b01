//! The server of a run: the engine, what was asked of it and not answered yet, and its clock. A new one is made from the
//! disk whenever one died.

use super::Violation;
use super::disk::{Disk, StoreFailure};
use std::collections::{BTreeMap, VecDeque};
use warpyard_core::engine::{Engine, TurnOutcome};
use warpyard_core::protocol::{Report, ReportId};
use warpyard_core::{Cluster, Command, Epoch, JobId, PolicyDef, Time, WorkerId};

pub(super) struct Server {
    pub(super) engine: Engine,
    /// Counts servers; what an earlier one was to do is void.
    pub(super) number: u32,
    inbox: Vec<Request>,
    /// The last moment it saw: its clock does not go back while it lives.
    last: Time,
    /// Counts turns, so that only the latest deadline counts.
    pub(super) turns: u64,
    /// Whether a turn is to come for what is in the inbox.
    pub(super) stirred: bool,
    /// Where the agent of each worker is that sent the latest report.
    pub(super) mail: BTreeMap<WorkerId, Address>,
    /// Ended jobs in memory, the first ended first.
    ended: VecDeque<JobId>,
}

/// An agent.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) machine: usize,
    pub(super) session: u32,
}

/// Something asked of the server.
#[derive(Clone)]
pub(super) enum Request {
    ByPeople(Command),
    ByWorker(WorkerReport),
}

/// A report, and who sent it.
#[derive(Clone)]
pub(super) struct WorkerReport {
    pub(super) from: Address,
    /// The worker's name.
    pub(super) name: String,
    pub(super) report: Box<Report>,
}

/// A turn that was kept.
pub(super) struct CommittedTurn {
    pub(super) commands: Vec<Command>,
    pub(super) turned: TurnOutcome,
    /// Workers that spoke.
    pub(super) heard: Vec<Address>,
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
            stirred: false,
            mail: BTreeMap::new(),
            ended,
        }
    }

    pub(super) fn hear(&mut self, asked: Request) {
        self.inbox.push(asked);
    }

    /// The clock, which stands still rather than go back.
    pub(super) fn clock(&mut self, system: Time) -> Time {
        self.last = self.last.max(system);
        self.last
    }

    /// One turn with all that is in the inbox. On failure gives the commands that may or may not have been carried out.
    pub(super) fn turn(
        &mut self,
        system: Time,
        disk: &mut Disk,
        ended_kept: usize,
    ) -> Result<CommittedTurn, (StoreFailure, Vec<Command>)> {
        let now = self.clock(system);
        self.turns += 1;
        self.stirred = false;
        let (mut commands, mut heard): (Vec<Command>, Vec<(Address, String, ReportId)>) = Default::default();
        for asked in std::mem::take(&mut self.inbox) {
            match asked {
                Request::ByPeople(command) => commands.push(command),
                Request::ByWorker(WorkerReport { from, name, report }) => {
                    let id = report.id;
                    match (self.engine.cluster().worker_named(&name), &report.info) {
                        (Some(worker), _) => commands.push(Command::Receive { worker, report }),
                        (None, Some(info)) => commands.push(Command::Join(info.clone())),
                        (None, None) => continue,
                    }
                    heard.push((from, name, id));
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
                let heard = heard.into_iter().filter(|(from, name, id)| self.hear_from(*from, name, *id));
                let heard = heard.map(|(from, ..)| from).collect();
                Ok(CommittedTurn { commands, turned, heard })
            }
            Err(stop) => Err((stop, commands)),
        }
    }

    /// Notes where the agent is that sent a report, if the engine took it in; says whether it is to be answered.
    fn hear_from(&mut self, from: Address, name: &str, id: ReportId) -> bool {
        let Some(worker) = self.engine.cluster().worker_named(name) else { return false };
        match self.engine.inbox().latest(worker) {
            None => true,
            Some(latest) if latest == id => {
                self.mail.insert(worker, from);
                true
            }
            Some(_) => false,
        }
    }

    /// A plan that was made and carried out in one turn is not stale.
    pub(super) fn a_plan_fits(turned: &TurnOutcome) -> Result<(), Violation> {
        match turned.stale.first() {
            Some(stale) => {
                super::ledger::violation("a plan fits the state it was made from", || stale.to_string())
            }
            None => Ok(()),
        }
    }
}
