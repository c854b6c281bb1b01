//! The server of a run: the engine, what was asked of it and not answered yet, and its clock. A new one is made from the
//! disk whenever one died.

use super::Broken;
use super::disk::{Disk, Stop};
use std::collections::{BTreeMap, VecDeque};
use warpyard_core::command::Standing;
use warpyard_core::engine::{Engine, Turned};
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::DeviceState;
use warpyard_core::{AttemptId, Cluster, Command, Epoch, JobId, PolicyDef, Time, WorkerId};

pub(super) struct Server {
    pub(super) engine: Engine,
    /// Counts servers; what an earlier one was to do is void.
    pub(super) number: u32,
    inbox: Vec<Asked>,
    /// The last moment it saw: its clock does not go back while it lives.
    last: Time,
    /// Counts turns, so that only the latest deadline counts.
    pub(super) turns: u64,
    /// Whether a turn is to come for what is in the inbox.
    pub(super) stirred: bool,
    /// How each worker is reached, and when the latest report heard of it was sent.
    pub(super) mail: BTreeMap<WorkerId, Address>,
    /// Ended jobs in memory, the first ended first.
    ended: VecDeque<JobId>,
}

/// An agent, and when its latest report that was heard was sent.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) machine: usize,
    pub(super) session: u32,
    pub(super) sent: Time,
}

/// Something asked of the server.
#[derive(Clone)]
pub(super) enum Asked {
    ByPeople(Command),
    ByWorker(Up),
}

/// What an agent tells: what the worker is, and all it has.
#[derive(Clone)]
pub(super) struct Up {
    pub(super) from: Address,
    pub(super) info: WorkerInfo,
    pub(super) attempts: BTreeMap<AttemptId, Standing>,
    pub(super) devices: BTreeMap<String, DeviceState>,
}

/// A turn that was kept.
pub(super) struct Said {
    pub(super) commands: Vec<Command>,
    pub(super) turned: Turned,
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

    pub(super) fn hear(&mut self, asked: Asked) {
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
    ) -> Result<Said, (Stop, Vec<Command>)> {
        let now = self.clock(system);
        self.turns += 1;
        self.stirred = false;
        let (mut commands, mut heard) = (Vec::new(), Vec::new());
        for asked in std::mem::take(&mut self.inbox) {
            match asked {
                Asked::ByPeople(command) => commands.push(command),
                Asked::ByWorker(up) => {
                    let known = self.engine.cluster().worker_named(&up.info.name);
                    if known.is_some_and(|worker| !self.hear_from(worker, up.from)) {
                        continue;
                    }
                    commands.push(Command::Join(up.info));
                    if let Some(worker) = known {
                        let (attempts, devices) = (up.attempts.into_iter().collect(), up.devices);
                        commands.push(Command::Report { worker, attempts, devices });
                    }
                    heard.push(up.from);
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
                Ok(Said { commands, turned, heard })
            }
            Err(stop) => Err((stop, commands)),
        }
    }

    /// Notes where the latest session of a worker is, which is the one that is told things; says whether this report is not
    /// older than another that was heard, as messages may come out of order.
    fn hear_from(&mut self, worker: WorkerId, from: Address) -> bool {
        let address = self.mail.entry(worker).or_insert(from);
        let news = (from.session, from.sent) >= (address.session, address.sent);
        if news {
            *address = from;
        }
        news
    }

    /// A plan that was made and carried out in one turn is not stale.
    pub(super) fn a_plan_fits(turned: &Turned) -> Result<(), Broken> {
        match turned.stale.first() {
            Some(stale) => {
                super::ledger::broken("a plan fits the state it was made from", || stale.to_string())
            }
            None => Ok(()),
        }
    }
}
