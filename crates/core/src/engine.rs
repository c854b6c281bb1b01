//! The engine's turn: commands become events, a plan becomes events, all of them become durable, and only then are they
//! acknowledged or published. The live server and the simulator both run exactly this; they differ in the source of
//! commands and in the store.

use crate::cluster::{Cluster, Effects, Job, Node};
use crate::command::{Command, Rejection, TaskSelector};
use crate::event::{Event, EventKind, Outcome};
use crate::ids::{JobId, WorkerId};
use crate::inbox::Inbox;
use crate::policy::{BackgroundSolve, Policy, PolicyChoice, PolicyDef};
use crate::protocol::{Assignments, Report};
use crate::store::{Epoch, Store};
use crate::time::Time;
use std::collections::BTreeMap;

/// Engine: the cluster, the policy in force, and the timers that belong to neither.
pub struct Engine {
    cluster: Cluster,
    policy: Box<dyn Policy>,
    policies: &'static [PolicyDef],
    /// Epoch that events are appended under.
    epoch: Epoch,
    /// Lease expiry by worker. Not part of the state: leases start afresh when the engine does.
    leases: BTreeMap<WorkerId, Time>,
    /// Lease expiry by claim, for claims whose holder has to renew; not part of the state either.
    claims: BTreeMap<JobId, Time>,
    /// Latest report of each worker; not part of the state either.
    inbox: Inbox,
    wake_at: Option<Time>,
    /// Whether it has planned since it was built.
    planned: bool,
    /// Whether a background solve is running. Not part of the state: after a restart it runs again.
    solving: bool,
}

/// Outcome of a turn. Everything in it is durable.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// Outcome of each command, or its rejection.
    pub answers: Vec<Result<CommandOutcome, Rejection>>,
    /// Events, in order.
    pub events: Vec<Event>,
    /// Jobs whose last task ended.
    pub finished: Vec<JobId>,
    /// Rejected parts of the plan.
    pub stale: Vec<Rejection>,
    /// Workers to be sent their assignments whatever else happened: those that sent a full report, and those that have to
    /// send one. The answer renews an idle worker's lease, repeats assignments that were lost, and tells an agent whose report
    /// was dropped as late that its session is not the latest. Deltas are not answered: they are many, and a full report
    /// follows soon.
    pub to_acknowledge: Vec<WorkerId>,
}

impl TurnOutcome {
    fn clear(&mut self) {
        let TurnOutcome { answers, events, finished, stale, to_acknowledge } = self;
        answers.clear();
        events.clear();
        finished.clear();
        stale.clear();
        to_acknowledge.clear();
    }
}

/// Outcome of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Job that was submitted.
    pub job: Option<JobId>,
    /// Number of tasks that changed.
    pub tasks: u64,
    /// For each of several commands, the number of tasks that changed, or its rejection.
    pub each: Vec<Result<u64, Rejection>>,
}

impl Engine {
    /// Engine that continues from a state, with the policy the state names.
    pub fn new(cluster: Cluster, policies: &'static [PolicyDef], now: Time) -> Result<Engine, Rejection> {
        let policy = PolicyDef::build_from(policies, cluster.policy())?;
        let mut engine = Engine {
            cluster,
            policy,
            policies,
            epoch: Epoch::default(),
            leases: BTreeMap::new(),
            claims: BTreeMap::new(),
            inbox: Inbox::default(),
            wake_at: None,
            planned: false,
            solving: false,
        };
        engine.policy.observe(engine.cluster.view(), &Effects::default());
        let leased: Vec<_> = engine.cluster.workers().filter(|(_, w)| w.online).map(|(id, _)| id).collect();
        for worker in leased {
            engine.renew_lease(worker, now);
        }
        let claims: Vec<_> =
            engine.cluster.jobs().iter().filter(|j| j.spec.claim().is_some()).map(|j| j.id).collect();
        for job in claims {
            engine.renew_claim(job, now);
        }
        Ok(engine)
    }

    /// Sets the epoch to append under: the one the log was claimed with.
    pub fn write_as(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// The state.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The policy in force.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Inbox of worker reports.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Assignments of a worker, acknowledging its latest report.
    pub fn assignments(&self, worker: WorkerId) -> Assignments {
        let (received, send_all) = (self.inbox.latest(worker), self.inbox.has_gap(worker));
        Assignments { received, send_all, ..self.cluster.assignments(worker) }
    }

    /// Workers to be sent their assignments after a turn: all of them if an event changed what a worker should run, otherwise
    /// those that [`TurnOutcome::to_acknowledge`] names.
    pub fn workers_to_notify(&self, outcome: &TurnOutcome) -> impl Iterator<Item = WorkerId> {
        let all = outcome.events.iter().any(|event| event.what.concerns_workers());
        let every = self.cluster.workers().map(|(id, _)| id);
        every.filter(move |id| all || outcome.to_acknowledge.contains(id))
    }

    /// Takes one turn. Everything in the outcome is in the store; if appending fails, the engine must be discarded and
    /// rebuilt from the store.
    pub fn turn<S: Store>(
        &mut self,
        batch: Vec<Command>,
        now: Time,
        store: &mut S,
    ) -> Result<TurnOutcome, S::Error> {
        let mut outcome = TurnOutcome::default();
        self.turn_into(batch, now, store, &mut outcome)?;
        Ok(outcome)
    }

    /// Like [`Engine::turn`], but reuses the buffers of an earlier outcome.
    pub fn turn_into<S: Store>(
        &mut self,
        batch: impl IntoIterator<Item = Command>,
        now: Time,
        store: &mut S,
        outcome: &mut TurnOutcome,
    ) -> Result<(), S::Error> {
        outcome.clear();
        for command in batch {
            let result = self.execute(command, now, outcome); // 1. decide and apply each command, in order
            outcome.answers.push(result);
        }
        // Deadlines come after the commands: a report in this batch renews the lease that would have expired.
        while let Some(worker) = self.expired_worker(now) {
            self.leases.remove(&worker);
            self.execute(Command::GiveUp(worker), now, outcome)
                .expect("a worker whose lease expired can be lost");
        }
        while let Some(job) = self.expired_claim(now) {
            self.claims.remove(&job);
            self.execute(Command::Cancel(TaskSelector::Job(job)), now, outcome)
                .expect("a claim in force can be cancelled");
        }
        while let Some((_, task)) = self.cluster.next_retry().filter(|(at, _)| *at <= now) {
            let event = Event { at: now, what: EventKind::RetryDue { task } };
            self.apply_event(&event, outcome);
            outcome.events.push(event);
        }
        if self.needs_planning(&outcome.events, now) {
            self.plan(now, outcome); // 2. what should start, pause, stop: admitted, applied
        }
        if !outcome.events.is_empty() {
            let before = self.cluster.seq() - outcome.events.len() as u64;
            store.append(self.epoch, before, &outcome.events)?; // 3. durable
        }
        Ok(()) // 4. only now may anything be acknowledged
    }

    /// Solver run for the engine's driver to do in the background, if there is one and none is running. The command
    /// it returns must be given to a later turn, also if the solver failed.
    pub fn background_solve(&mut self, now: Time) -> Option<BackgroundSolve> {
        if self.solving {
            return None;
        }
        let solve = self.policy.background_solve(self.cluster.view(), now)?;
        self.solving = true;
        Some(solve)
    }

    /// Time at which a turn is due even without commands: an expiring lease or claim, a retry, or the policy's
    /// wake-up.
    pub fn next_deadline(&self) -> Option<Time> {
        let lapse = self.cluster.next_lapse().map(|(at, _)| at);
        let retry = self.cluster.next_retry().map(|(at, _)| at);
        let lapse = lapse.into_iter().chain(retry).min();
        if self.leases.is_empty() && self.claims.is_empty() {
            return lapse.into_iter().chain(self.wake_at).min();
        }
        self.leases.values().chain(self.claims.values()).copied().chain(lapse).chain(self.wake_at).min()
    }

    /// Applies an event that was decided elsewhere: for recovery, and for read replicas.
    pub fn follow(&mut self, event: &Event) -> Effects {
        let effects = self.cluster.apply(event);
        if effects.policy {
            self.policy = PolicyDef::build_from(self.policies, self.cluster.policy())
                .expect("a policy that was put in force can be built");
        }
        self.policy.observe(self.cluster.view(), &effects);
        effects
    }

    fn execute(
        &mut self,
        command: Command,
        now: Time,
        outcome: &mut TurnOutcome,
    ) -> Result<CommandOutcome, Rejection> {
        if let Command::Several(commands) = command {
            let each =
                commands.into_iter().map(|one| self.execute(one, now, outcome).map(|result| result.tasks));
            let each: Vec<_> = each.collect();
            let tasks = each.iter().flatten().sum();
            return Ok(CommandOutcome { job: None, tasks, each });
        }
        if let Command::Receive { worker, report } = command {
            self.receive(worker, report, now, outcome);
            return Ok(CommandOutcome::default());
        }
        match &command {
            Command::Report { worker, .. } => self.renew_lease(*worker, now),
            Command::SetPolicy(choice) => self.check_policy(choice)?,
            Command::SetTarget(_) => self.solving = false,
            Command::Submit { user, spec, .. } => {
                // Submitted again, because the response was lost: the response is the same.
                if let Some(job) = self.cluster.submitted_before(user, spec.key.as_deref())? {
                    return Ok(CommandOutcome { job: Some(job), ..CommandOutcome::default() });
                }
                self.policy.accept(self.cluster.view(), spec)?;
            }
            Command::Join(info) => {
                if let Some(worker) = self.cluster.worker_named(&info.name) {
                    self.renew_lease(worker, now);
                }
            }
            _ => {}
        }
        let heard = if let Command::Heard(job) = command { Some(job) } else { None };
        let decided = self.cluster.decide_kinds(command, now)?;
        if let Some(job) = heard {
            self.renew_claim(job, now);
        }
        let mut result = CommandOutcome::default();
        for what in decided {
            let event = Event { at: now, what };
            match &event.what {
                EventKind::JobSubmitted { job, .. } => result.job = Some(*job),
                EventKind::WorkerLost { worker } => drop(self.leases.remove(worker)),
                _ => {}
            }
            result.tasks += tasks_changed(&self.cluster, &event.what);
            self.apply_event(&event, outcome);
            match event.what {
                EventKind::WorkerJoined { worker, .. } => self.renew_lease(worker, now),
                EventKind::JobSubmitted { job, .. } => self.renew_claim(job, now),
                _ => {}
            }
            outcome.events.push(event);
        }
        Ok(result)
    }

    /// Executes a report, unless it is late or duplicate: such a report proves nothing, not even that its worker is
    /// alive.
    fn receive(&mut self, worker: WorkerId, report: Box<Report>, now: Time, outcome: &mut TurnOutcome) {
        let accepted = self.inbox.accept(worker, &report);
        if report.base.is_none() || self.inbox.has_gap(worker) {
            outcome.to_acknowledge.push(worker);
        }
        if accepted {
            // A rejected part, such as draining an unknown worker, does not stop the others.
            report.execute(worker, |part| drop(self.execute(part, now, outcome)));
        }
    }

    fn check_policy(&self, choice: &PolicyChoice) -> Result<(), Rejection> {
        PolicyDef::checked(self.policies, choice).map(drop)
    }

    /// Whether a plan could differ from the last one. It cannot if nothing happened, if processes started where they
    /// were placed, or if ended jobs were evicted.
    fn needs_planning(&mut self, events: &[Event], now: Time) -> bool {
        let due = !self.planned || self.wake_at.is_some_and(|at| at <= now);
        self.planned = true;
        let matters = |event: &Event| match event.what {
            // A start changes nothing about what is free. But a task can be preempted only once it runs, and a more urgent
            // one may have arrived while it was starting.
            EventKind::Started { attempt, .. } => self.cluster.view().is_preemptible(attempt.task),
            EventKind::JobForgotten { .. } => false,
            _ => true,
        };
        due || events.iter().any(matters)
    }

    fn plan(&mut self, now: Time, outcome: &mut TurnOutcome) {
        let plan = self.policy.plan(self.cluster.view(), now);
        let (events, stale) =
            if plan.is_empty() { Default::default() } else { self.cluster.admit(&plan, now) };
        // Planning again after a plan without events would only repeat it.
        let again = (plan.again && !events.is_empty()).then_some(now);
        self.wake_at = plan.wake_at.into_iter().chain(again).chain(self.cluster.next_opening(now)).min();
        for event in events {
            self.apply_event(&event, outcome);
            outcome.events.push(event);
        }
        outcome.stale.extend(stale);
    }

    fn apply_event(&mut self, event: &Event, outcome: &mut TurnOutcome) {
        let effects = self.follow(event);
        if let EventKind::Placed { attempt, .. } = event.what {
            self.stop_renewing_if_watched(attempt.task.job);
        }
        for job in &effects.finished {
            self.claims.remove(job);
        }
        outcome.finished.extend(effects.finished);
    }

    fn renew_lease(&mut self, worker: WorkerId, now: Time) {
        let lease = self.cluster.worker(worker).filter(|w| w.online).and_then(|w| w.info.lease);
        match lease {
            Some(lease) => self.leases.insert(worker, now + lease),
            None => self.leases.remove(&worker),
        };
    }

    /// Renews the lease of a claim, unless its process is watched instead.
    fn renew_claim(&mut self, id: JobId, now: Time) {
        let Some(job) = self.cluster.job(id).filter(|job| job.finished.is_none()) else { return };
        let Some(claim) = job.spec.claim() else { return };
        let granted = job.nodes.iter().flat_map(|n| n.live.values()).any(|live| live.attempt().is_some());
        if claim.process.is_none() || !granted {
            self.claims.insert(id, now + claim.lease);
        }
    }

    /// Once granted, a claim for a process ends with that process, and its holder need not renew a lease.
    fn stop_renewing_if_watched(&mut self, id: JobId) {
        let watched = |job: &Job| job.spec.claim().is_some_and(|claim| claim.process.is_some());
        if !self.claims.is_empty() && self.cluster.job(id).is_some_and(watched) {
            self.claims.remove(&id);
        }
    }

    fn expired_claim(&self, now: Time) -> Option<JobId> {
        let over = self.cluster.next_lapse().filter(|(at, _)| *at <= now).map(|(_, job)| job);
        over.or_else(|| self.claims.iter().find(|(_, until)| **until <= now).map(|(&job, _)| job))
    }

    fn expired_worker(&self, now: Time) -> Option<WorkerId> {
        self.leases.iter().find(|(_, until)| **until <= now).map(|(&worker, _)| worker)
    }
}

/// Number of tasks that an event is about to change.
fn tasks_changed(cluster: &Cluster, what: &EventKind) -> u64 {
    let nodes = |job: &JobId| cluster.job(*job).map(|j| &j.nodes[..]).unwrap_or_default();
    match what {
        EventKind::JobSubmitted { spec, .. } => spec.tasks.iter().map(|t| u64::from(t.len())).sum(),
        EventKind::JobHeld { job, .. } | EventKind::JobPriority { job, .. } => {
            nodes(job).iter().map(Node::waiting).sum()
        }
        EventKind::TasksHeld { node, tasks, .. } => {
            let running = nodes(&node.job)[node.node as usize].live.iter();
            let running = running.filter(|(i, live)| live.attempt().is_some() && tasks.contains(**i));
            tasks.len() - running.count() as u64
        }
        EventKind::TasksRetried { tasks, .. } => tasks.len(),
        EventKind::RetryDue { .. } => 1,
        EventKind::Retried { job, failed_only } => {
            let kept = |n: &Node| if *failed_only { n.done.count(Outcome::Succeeded) } else { 0 };
            nodes(job).iter().map(|n| n.done.total() - kept(n)).sum()
        }
        EventKind::Cancelled { tasks, .. } => tasks.len(),
        EventKind::PauseAsked { .. } | EventKind::ResumeAsked { .. } | EventKind::StopAsked { .. } => 1,
        _ => 0,
    }
}
