//! The server's part of a run: requests, turns, acknowledgements, crashes and restarts.

use super::{EPOCH, World, WorldEvent};
use crate::faults::disk::StoreFailure;
use crate::faults::fault::duration;
use crate::faults::ledger::violation;
use crate::faults::run_log::describe;
use crate::faults::server::{Address, CommittedTurn, Request, Server};
use crate::faults::{Violation, invariants};
use warpyard_core::agent::Agent;
use warpyard_core::event::EndReason;
use warpyard_core::{AttemptId, EventKind, LogStore, Span, Time, WorkerId};
use warpyard_policies::POLICIES;

impl World {
    pub(super) fn system_clock(&self) -> Time {
        Time((EPOCH + self.now.0).saturating_add_signed(self.clock_offset))
    }

    pub(super) fn hear(&mut self, asked: Request) {
        let pause = Span(self.random.below(20_000));
        let Some(server) = &mut self.server else { return };
        server.hear(asked);
        if !std::mem::replace(&mut server.turn_scheduled, true) {
            let number = server.number;
            self.schedule(pause, WorldEvent::Turn { server: number, deadline_of: None });
        }
    }

    pub(super) fn turn(&mut self, number: u32, deadline_of: Option<u64>) -> Result<(), Violation> {
        let system = self.system_clock();
        let Some(server) = self.server.as_mut().filter(|s| s.number == number) else { return Ok(()) };
        if deadline_of.is_some_and(|turn| turn != server.turns) {
            return Ok(());
        }
        let turned = server.turn(system, &mut self.disk, self.ended_kept);
        self.observe_commits()?;
        match turned {
            Ok(turn) => {
                self.publish(turn)?;
                self.wait_for_deadline();
            }
            Err((stop, commands)) => {
                assert_ne!(stop, StoreFailure::Fenced, "the only server there is writes under its own epoch");
                let committed = stop == StoreFailure::Unacknowledged;
                self.line(|| {
                    format!(
                        "server crashes in its turn, batch {}",
                        if committed { "committed, not acknowledged" } else { "not committed" }
                    )
                });
                if committed {
                    commands.iter().for_each(|c| self.acknowledged.supersede(c));
                }
                self.crash_server();
            }
        }
        Ok(())
    }

    /// Applies newly committed events to the reference state and checks the rules about them.
    fn observe_commits(&mut self) -> Result<(), Violation> {
        for event in std::mem::take(&mut self.disk.fresh) {
            self.line(|| format!("  {}", describe(&event)));
            self.changed = true;
            self.ledger.enter(&self.committed, &event)?;
            self.committed.apply(&event);
            if let EventKind::Ended { attempt, end, .. } = &event.what {
                self.an_ended_attempt_has_no_process(*attempt, &end.how)?;
                self.ledger.an_end_that_happened_is_told(*attempt, &end.how, |m| self.machines[m].boot)?;
            }
            self.stats.jobs += u64::from(matches!(event.what, EventKind::JobSubmitted { .. }));
        }
        Ok(())
    }

    /// An attempt that has ended has no process, unless the process is a stray, which the worker ends once it is connected.
    fn an_ended_attempt_has_no_process(
        &mut self,
        attempt: AttemptId,
        how: &EndReason,
    ) -> Result<(), Violation> {
        let Some(at) = self.machines.iter().position(|m| m.processes().any(|id| id == attempt)) else {
            return Ok(());
        };
        let given_up = matches!(how, EndReason::Lost(_));
        if self.ledger.ran_twice(attempt) || given_up && self.was_unwatched(at) {
            self.ledger.stray(attempt);
            return Ok(());
        }
        violation("an ended attempt has no process", || {
            format!("{attempt} ended by {how:?}, and its process goes on on m{at}")
        })
    }

    /// Whether no agent could have ended an attempt before its lease expired: there was none, or the clock jumped.
    pub(super) fn was_unwatched(&self, machine: usize) -> bool {
        let m = &self.machines[machine];
        let lease_misjudged = |agent: &Agent| agent.confirmed().is_some_and(|at| self.jumped >= at);
        m.unwatched || m.agent.as_ref().is_none_or(lease_misjudged)
    }

    fn publish(&mut self, turn: CommittedTurn) -> Result<(), Violation> {
        let CommittedTurn { commands, turned } = turn;
        Server::a_plan_fits(&turned)?;
        for (command, answer) in commands.iter().zip(&turned.answers) {
            if let Ok(answer) = answer {
                self.acknowledged.acknowledge(command, answer);
            }
        }
        let server = self.server.as_ref().expect("it has just turned");
        let to_notify = server.engine.workers_to_notify(&turned);
        let address = |worker: WorkerId| Some((*server.addresses.get(&worker)?, worker));
        let message = |(to, worker): (Address, WorkerId)| (to, server.engine.assignments(worker));
        let messages: Vec<_> = to_notify.filter_map(address).map(message).collect();
        for (to, word) in messages {
            self.send(Some(to.machine), || WorldEvent::Assignments { to, assignments: word.clone() });
        }
        Ok(())
    }

    fn wait_for_deadline(&mut self) {
        let system = self.system_clock();
        let server = self.server.as_ref().expect("it has just turned");
        if let Some(at) = server.engine.next_deadline() {
            let (number, turns) = (server.number, server.turns);
            // One microsecond later, because a timer never fires early.
            let wait = at.since(system) + Span(1);
            self.schedule(wait, WorldEvent::Turn { server: number, deadline_of: Some(turns) });
        }
    }

    pub(super) fn crash_server(&mut self) {
        self.server = None;
        let down = if self.calm { Span(1000) } else { duration(&mut self.random) };
        self.schedule(down, WorldEvent::ServerStarts);
    }

    pub(super) fn start_server(&mut self) -> Result<(), Violation> {
        if self.server.is_some() {
            return Ok(());
        }
        self.line(|| "server restarts from its disk".to_owned());
        let epoch = self.disk.claim().expect("a disk can be claimed");
        let cluster = self.disk.load_cluster(&self.first_policy).expect("a disk can be read");
        let cluster = self.bug.inject(cluster);
        self.acknowledged.check(&cluster, &self.users)?;
        invariants::same("a snapshot and the rest are the state", &cluster, &self.committed)?;
        self.servers += 1;
        self.stats.restarts += 1;
        self.server = Some(Server::new(cluster, POLICIES, epoch, self.servers, self.system_clock()));
        self.changed = true;
        self.wait_for_deadline();
        Ok(())
    }

    pub(super) fn snapshot(&mut self) {
        if self.calm {
            return;
        }
        if self.random.unit() < 0.5 {
            self.line(|| "a snapshot is taken".to_owned());
            self.disk.save_snapshot(&self.committed, self.now).expect("a snapshot can be kept");
            self.disk.prune(self.now, u32::MAX).expect("a disk can be pruned");
        }
        let next = Span::from_secs(self.random.exponential(8.0));
        self.schedule(next, WorldEvent::Snapshot);
    }
}
