//! The simulated world of a run: takes one due event after another and checks all rules after each.

mod fault_injection;
mod serving;

use super::acknowledged::Acknowledged;
use super::bugs::InjectedBug;
use super::disk::{AppendFault, Disk};
use super::ledger::{Ledger, violation};
use super::level::{FaultRates, Level};
use super::machine::{Machine, MachineEffects, MachineTimer};
use super::run_log::RunLog;
use super::server::{Address, Request, Server, WorkerReport};
use super::users::{AttemptScript, Users};
use super::{RunStats, Violation, invariants};
use crate::random::Random;
use std::collections::BTreeMap;
use warpyard_core::command::TaskSelector;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::protocol::{Assignment, Assignments};
use warpyard_core::{Cluster, Command, Epoch, PolicyChoice, Span, TaskId, Time};
use warpyard_policies::POLICIES;

/// Initial time of the server's clock, large enough for it to jump back.
const EPOCH: u64 = 1_700_000_000_000_000;

/// Number of steps after which a run counts as livelocked.
const MAX_STEPS: u64 = 300_000;

/// Time after the end of the faults by which everything must have finished.
const LIVENESS_LIMIT: Span = Span(20_000_000_000);

/// World of a run.
pub(super) struct World {
    random: Random,
    rates: FaultRates,
    bug: InjectedBug,
    now: Time,
    step: u64,
    queue: BTreeMap<(Time, u64), WorldEvent>,
    scheduled: u64,
    /// When the faults stop.
    faults_until: Time,
    /// Whether the faults have stopped.
    calm: bool,
    disk: Disk,
    first_policy: PolicyChoice,
    server: Option<Server>,
    servers: u32,
    /// Offset of the server's clock, in microseconds.
    clock_offset: i64,
    /// When it last jumped forward.
    jumped: Time,
    /// Reference state: all committed events applied in order.
    committed: Cluster,
    /// Whether that state has changed in this step.
    changed: bool,
    machines: Vec<Machine>,
    users: Users,
    ledger: Ledger,
    acknowledged: Acknowledged,
    ended_kept: usize,
    stats: RunStats,
    run_log: RunLog,
}

/// Event of the world.
enum WorldEvent {
    /// A message reaches the server.
    Request(Request),
    /// The server takes a turn, for its inbox or because of a deadline.
    Turn {
        server: u32,
        deadline_of: Option<u64>,
    },
    /// The server starts again.
    ServerStarts,
    /// Assignments reach an agent.
    Assignments {
        to: Address,
        assignments: Assignments,
    },
    /// Timer of a machine.
    OnMachine {
        machine: usize,
        boot: u32,
        due: MachineTimer,
    },
    /// An agent probes its devices and reports.
    Probe(usize),
    AgentStarts(usize),
    MachineStarts(usize),
    Healed(usize),
    DeviceReturns {
        machine: usize,
        index: usize,
    },
    Fault,
    /// A user sends a request.
    User,
    /// A state snapshot is saved.
    Snapshot,
    /// The faults stop.
    Calm,
    /// After the faults: holds are released, infeasible jobs cancelled and workers undrained, so that everything can finish.
    Release,
}

impl World {
    pub(super) fn new(seed: u64, level: Level, bug: InjectedBug, run_log: RunLog) -> World {
        let mut random = Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ level as u64);
        let users = Users::new(seed, POLICIES);
        let first_policy = users.policy(&mut random);
        let mut disk = Disk::default();
        bug.inject_disk(&mut disk);
        let empty = || bug.inject(Cluster::new(first_policy.clone()));
        let machines: Vec<_> =
            (0..1 + random.below(4)).map(|i| Machine::new(worker(&mut random, i), bug)).collect();
        let mut world = World {
            rates: level.rates(),
            bug,
            now: Time(0),
            step: 0,
            queue: BTreeMap::new(),
            scheduled: 0,
            faults_until: Time::from_secs(10f64.powf(1.0 + random.unit() * 1.5)),
            calm: false,
            disk,
            server: Some(Server::new(empty(), POLICIES, Epoch::default(), 0, Time(EPOCH))),
            servers: 0,
            clock_offset: 0,
            jumped: Time(0),
            committed: empty(),
            changed: false,
            machines,
            users,
            ledger: Ledger::default(),
            acknowledged: Acknowledged::default(),
            ended_kept: random.below(12) as usize,
            stats: RunStats::default(),
            run_log,
            first_policy,
            random,
        };
        for machine in 0..world.machines.len() {
            world.schedule(Span(1000 * machine as u64), WorldEvent::Probe(machine));
        }
        world.schedule(Span::from_secs(0.5), WorldEvent::User);
        world.schedule(Span::from_secs(1.0), WorldEvent::Fault);
        world.schedule(Span::from_secs(2.0), WorldEvent::Snapshot);
        world.schedule(world.faults_until.since(Time(0)), WorldEvent::Calm);
        world
    }

    pub(super) fn step(&self) -> u64 {
        self.step
    }

    pub(super) fn run_log(&self) -> &RunLog {
        &self.run_log
    }

    /// Runs until everything has finished.
    pub(super) fn run(&mut self) -> Result<RunStats, Violation> {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            (self.now, self.step, self.changed) = (at, self.step + 1, false);
            self.handle(event)?;
            self.check()?;
            if self.calm && self.has_finished() {
                self.stats.steps = self.step;
                self.stats.events = self.ledger.events;
                return Ok(self.stats);
            }
            if self.calm && self.now > self.faults_until + LIVENESS_LIMIT || self.step > MAX_STEPS {
                break;
            }
        }
        violation("once faults stop, everything finishes", || self.describe_unfinished())
    }

    /// Description of everything unfinished, with wait reasons.
    fn describe_unfinished(&self) -> String {
        let mut waits = vec![format!("policy {}, {} s", self.committed.policy(), self.now.secs())];
        for (m, machine) in self.machines.iter().enumerate().filter(|(_, m)| !m.is_idle()) {
            let processes: Vec<_> = machine.processes().map(|id| id.to_string()).collect();
            waits.push(format!("m{m} still has something, processes [{}]", processes.join(" ")));
        }
        for job in self.committed.jobs().iter().filter(|j| j.finished.is_none()) {
            for (n, node) in job.nodes.iter().enumerate().filter(|(_, n)| !n.is_done()) {
                let index = node.first_open().unwrap_or_default();
                let task = TaskId { job: job.id, node: n as u32, index };
                let why = self.server.as_ref().map(|s| {
                    s.engine.policy().explain(self.committed.view(), task, self.system_clock()).reason
                });
                let state = self.committed.state(task).map_or("unknown", |s| s.word());
                waits.push(format!("{}.{n}.{index} is {state}: {why:?}", job.id));
            }
        }
        waits.join("\n    ")
    }

    fn has_finished(&self) -> bool {
        self.committed.jobs().iter().all(|j| j.finished.is_some())
            && self.machines.iter().all(Machine::is_idle)
    }

    fn check(&mut self) -> Result<(), Violation> {
        if self.changed {
            invariants::of_the_state(&self.committed)?;
            self.ledger.done_stays_done(&self.committed)?;
            self.ledger.what_started_has_begun()?;
            self.acknowledged.check(&self.committed, &self.users)?;
            if let Some(server) = &mut self.server {
                let now = server.clock(Time((EPOCH + self.now.0).saturating_add_signed(self.clock_offset)));
                let cluster = server.engine.cluster();
                invariants::same("the store amounts to the state", cluster, &self.committed)?;
                if self.step.is_multiple_of(8) {
                    invariants::a_fresh_policy_sees_the_same(cluster, server.engine.policy(), POLICIES, now)?;
                }
            }
        }
        invariants::of_the_machines(&self.machines, &self.ledger, &self.committed, self.now)
    }

    fn handle(&mut self, event: WorldEvent) -> Result<(), Violation> {
        match event {
            WorldEvent::Request(asked) => self.hear(asked),
            WorldEvent::Turn { server, deadline_of } => return self.turn(server, deadline_of),
            WorldEvent::ServerStarts => return self.start_server(),
            WorldEvent::Assignments { to, assignments } => return self.deliver_assignments(to, &assignments),
            WorldEvent::OnMachine { machine, boot, due } => {
                if self.machines[machine].boot == boot {
                    return self.on(machine, |m, now, scripts, effects| m.fire(now, &due, scripts, effects));
                }
            }
            WorldEvent::Probe(machine) => {
                self.on(machine, |m, now, scripts, effects| m.probe(now, scripts, effects))?;
                self.report(machine);
                let every = if self.calm { 8.0 } else { 1.0 + 3.0 * self.random.unit() };
                self.schedule(Span::from_secs(every), WorldEvent::Probe(machine));
            }
            WorldEvent::AgentStarts(machine) => {
                self.line(|| format!("m{machine}: the agent restarts"));
                self.leave_foreign(machine)?;
                self.machines[machine].start_agent(self.now, false);
                self.report(machine);
            }
            WorldEvent::MachineStarts(machine) => {
                self.line(|| format!("m{machine}: the machine restarts"));
                self.machines[machine].come_up(self.now);
                self.report(machine);
            }
            WorldEvent::Healed(machine) => {
                self.line(|| format!("m{machine}: the network is restored"));
                self.machines[machine].cut = false;
            }
            WorldEvent::DeviceReturns { machine, index } => {
                self.line(|| format!("m{machine}: device {index} is usable again"));
                self.machines[machine].device(index).state = DeviceState::Usable;
            }
            WorldEvent::Fault => self.inject_fault()?,
            WorldEvent::User => self.send_user_request(),
            WorldEvent::Snapshot => self.snapshot(),
            WorldEvent::Calm => self.stop_faults()?,
            WorldEvent::Release => self.release_all(),
        }
        Ok(())
    }

    // ---- the machines

    /// Has a machine act, and handles the effects.
    fn on(
        &mut self,
        machine: usize,
        act: impl FnOnce(&mut Machine, Time, &dyn Fn(&Assignment) -> AttemptScript, &mut MachineEffects),
    ) -> Result<(), Violation> {
        let mut effects = MachineEffects::default();
        let launch_lost = if self.calm { 0.0 } else { self.rates.lost / 2.0 };
        let users = &self.users;
        act(&mut self.machines[machine], self.now, &|a| users.script(a, launch_lost), &mut effects);
        let boot = self.machines[machine].boot;
        for (at, due) in effects.timers {
            self.schedule(at.since(self.now), WorldEvent::OnMachine { machine, boot, due });
        }
        for attempt in effects.started {
            self.line(|| format!("m{machine}: the process of {attempt} begins"));
            self.ledger.began(attempt, machine, boot)?;
            if self.machines[machine].has_foreign() {
                return violation("nothing begins beside what another log left", || {
                    format!("{attempt} began on m{machine}")
                });
            }
            if self.ledger.is_over(attempt) {
                if !self.ledger.ran_twice(attempt) && !self.was_unwatched(machine) {
                    return violation("only what is in force begins", || {
                        format!("{attempt} began after it had ended")
                    });
                }
                self.ledger.stray(attempt);
            }
        }
        for (attempt, how) in effects.ended {
            self.line(|| format!("m{machine}: the process of {attempt} ends: {how:?}"));
            self.ledger.ended(attempt, how);
        }
        if effects.news && (self.calm || self.random.unit() >= self.rates.lost) {
            self.report(machine);
        }
        Ok(())
    }

    fn deliver_assignments(&mut self, to: Address, word: &Assignments) -> Result<(), Violation> {
        if self.machines[to.machine].agent_number != to.agent {
            return Ok(());
        }
        self.line(|| {
            let all: Vec<_> = word.attempts.iter().map(|a| format!("{}:{:?}", a.attempt, a.want)).collect();
            format!("m{}: told [{}]", to.machine, all.join(" "))
        });
        self.on(to.machine, |m, now, scripts, effects| m.receive(now, word, scripts, effects))
    }

    fn report(&mut self, machine: usize) {
        let m = &mut self.machines[machine];
        let Some(report) = m.report(self.now).map(Box::new) else { return };
        let up = WorkerReport {
            from: Address { machine, agent: m.agent_number },
            name: m.info.name.clone(),
            report,
        };
        self.send(Some(machine), || WorldEvent::Request(Request::Worker(up.clone())));
    }

    // ---- messages

    /// Sends a message, which may be lost, duplicated or overtaken.
    fn send(&mut self, machine: Option<usize>, message: impl Fn() -> WorldEvent) {
        if machine.is_some_and(|m| self.machines[m].cut) {
            return;
        }
        let copies = match self.random.unit() {
            x if x < self.rates.lost => 0,
            x if x < self.rates.lost + self.rates.duplicated => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let mut takes = self.random.exponential(0.01);
            if self.random.unit() < self.rates.delayed {
                takes += self.random.exponential(4.0);
            }
            self.schedule(Span::from_secs(takes), message());
        }
    }

    // ---- users

    fn send_user_request(&mut self) {
        if self.calm {
            return;
        }
        let command = self.users.next_request(&mut self.random, &self.committed);
        self.line(|| format!("user request: {}", describe_command(&command)));
        self.send(None, || WorldEvent::Request(Request::User(command.clone())));
        let next =
            Span::from_secs(self.random.exponential(if self.users.job_count() < 4 { 1.0 } else { 4.0 }));
        self.schedule(next, WorldEvent::User);
    }

    /// Ends the faults: everything that is down restarts, and every device is usable again.
    fn stop_faults(&mut self) -> Result<(), Violation> {
        self.line(|| "the faults stop".to_owned());
        (self.calm, self.rates, self.disk.next) = (true, FaultRates::NONE, AppendFault::None);
        if self.server.is_none() {
            self.start_server()?;
        }
        for machine in &mut self.machines {
            machine.cut = false;
            machine.come_up(self.now);
            machine.info.devices.append(&mut machine.removed_devices);
            machine.info.devices.iter_mut().for_each(|d| d.state = DeviceState::Usable);
        }
        self.schedule(Span(1000), WorldEvent::Release);
        Ok(())
    }

    fn release_all(&mut self) {
        let unfinished = self.committed.jobs().iter().filter(|j| j.finished.is_none());
        // A job accepted before any worker had joined may be infeasible on the workers there are.
        let unfinished = unfinished.map(|job| match self.committed.feasible(&job.spec) {
            Ok(()) => Command::Resume(job.id.into()),
            Err(_) => Command::Cancel(TaskSelector::Job(job.id)),
        });
        let drained = self.committed.workers().filter(|(_, w)| w.drained);
        let undrain = drained.map(|(worker, _)| Command::Drain { worker, drained: false, reason: None });
        for command in unfinished.chain(undrain).collect::<Vec<_>>() {
            self.hear(Request::User(command));
        }
        self.schedule(Span::from_secs(30.0), WorldEvent::Release);
    }

    // ---- time

    fn schedule(&mut self, after: Span, event: WorldEvent) {
        self.scheduled += 1;
        self.queue.insert((self.now + after, self.scheduled), event);
    }

    fn line(&mut self, what: impl FnOnce() -> String) {
        self.run_log.line(self.step, self.now, what);
    }
}

fn describe_command(command: &Command) -> String {
    match command {
        Command::Submit { user, spec, .. } => {
            let nodes: Vec<_> =
                spec.tasks.iter().map(|t| format!("{}x{} GPUs", t.len(), t.needs.gpus)).collect();
            format!("{user} submits {} ({})", spec.name, nodes.join(", "))
        }
        Command::SetPolicy(choice) => format!("policy {choice}"),
        other => format!("{other:?}"),
    }
}

fn worker(random: &mut Random, number: u64) -> WorkerInfo {
    let kinds = [("V100", 16u64 << 30), ("K80", 12 << 30), ("A100", 40 << 30)];
    let (kind, memory) = kinds[random.below(3) as usize];
    let limit = (random.unit() < 0.3).then(|| 1 + random.below(3) as u16);
    let device = |i: u64| DeviceInfo {
        uuid: format!("GPU-{number}-{i}"),
        kind: kind.to_owned(),
        memory,
        budget: memory - (memory >> 3),
        limit,
        overcommit: false,
        state: DeviceState::Usable,
    };
    WorkerInfo {
        name: format!("m{number}"),
        devices: (0..1 + random.below(4)).map(device).collect(),
        cpus: 4_000 + 1_000 * random.below(8) as u32,
        memory: 8 << 30,
        // The first is sometimes the one inside the server, which has no lease.
        lease: (number > 0 || random.unit() < 0.5).then(|| Span::from_secs(12.0 + 12.0 * random.unit())),
        ..WorkerInfo::default()
    }
}
