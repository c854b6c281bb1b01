//! The turn: commands become events, a plan becomes events, all of them become durable, and only then is anything said.
//! The live server and the simulator both run exactly this; they differ in where commands come from and what the store
//! is.

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

/// The cluster, the policy in force, and what ties them together.
pub struct Engine {
    cluster: Cluster,
    policy: Box<dyn Policy>,
    policies: &'static [PolicyDef],
    /// The epoch its events are appended under.
    epoch: Epoch,
    /// When each worker with a lease is given up. Not state: leases start afresh when the engine does.
    leases: BTreeMap<WorkerId, Time>,
    /// When each claim whose holder must be heard of is given up; afresh in the same way.
    claims: BTreeMap<JobId, Time>,
    /// Which reports count. Not state either.
    inbox: Inbox,
    wake_at: Option<Time>,
    /// Whether it has planned at all since it was made.
    planned: bool,
    /// Whether an errand is under way. Not state: after a restart it is run again.
    errand_out: bool,
}

/// What a turn made happen. Everything in it is durable.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// For each command, what it did, or why it was refused.
    pub answers: Vec<Result<CommandOutcome, Rejection>>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Jobs whose last task ended.
    pub finished: Vec<JobId>,
    /// Parts of the plan that could not be carried out.
    pub stale: Vec<Rejection>,
}

impl TurnOutcome {
    fn clear(&mut self) {
        let TurnOutcome { answers, events, finished, stale } = self;
        answers.clear();
        events.clear();
        finished.clear();
        stale.clear();
    }
}

/// What a command did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The job it made.
    pub job: Option<JobId>,
    /// How many tasks it changed.
    pub tasks: u64,
    /// For each of several commands, how many tasks it changed, or why it was refused.
    pub each: Vec<Result<u64, Rejection>>,
}

impl Engine {
    /// An engine that goes on from a state, with the policy that state names.
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
            errand_out: false,
        };
        engine.policy.observe(engine.cluster.view(), &Effects::default());
        let leased: Vec<_> = engine.cluster.workers().filter(|(_, w)| w.online).map(|(id, _)| id).collect();
        for worker in leased {
            engine.renew_lease(worker, now);
        }
        let claims: Vec<_> =
            engine.cluster.jobs().iter().filter(|j| j.spec.claim().is_some()).map(|j| j.id).collect();
        for job in claims {
            engine.heard_of(job, now);
        }
        Ok(engine)
    }

    /// Appends under an epoch from now on: the one its log was claimed with.
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

    /// The reports that were taken in.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What a worker should have, with the latest of its reports acknowledged.
    pub fn assignments(&self, worker: WorkerId) -> Assignments {
        let (received, send_all) = (self.inbox.latest(worker), self.inbox.has_gap(worker));
        Assignments { received, send_all, ..self.cluster.assignments(worker) }
    }

    /// One turn. Everything acknowledged in the result was kept by the store first; if that fails, the engine must be
    /// thrown away and started again from what the store has.
    pub fn turn<S: Store>(
        &mut self,
        batch: Vec<Command>,
        now: Time,
        store: &mut S,
    ) -> Result<TurnOutcome, S::Error> {
        let mut turned = TurnOutcome::default();
        self.turn_into(batch, now, store, &mut turned)?;
        Ok(turned)
    }

    /// The same, with what it made happen put in place of what an earlier turn did, for who turns all the time.
    pub fn turn_into<S: Store>(
        &mut self,
        batch: impl IntoIterator<Item = Command>,
        now: Time,
        store: &mut S,
        turned: &mut TurnOutcome,
    ) -> Result<(), S::Error> {
        turned.clear();
        for command in batch {
            let answer = self.execute(command, now, turned); // 1. decide and apply each command, in order
            turned.answers.push(answer);
        }
        while let Some(worker) = self.silent_worker(now) {
            self.leases.remove(&worker);
            self.execute(Command::GiveUp(worker), now, turned).expect("a silent worker can be given up");
        }
        while let Some(job) = self.lapsed_claim(now) {
            self.claims.remove(&job);
            self.execute(Command::Cancel(TaskSelector::Job(job)), now, turned)
                .expect("a claim in force can end");
        }
        while let Some((_, task)) = self.cluster.next_retry().filter(|(at, _)| *at <= now) {
            let event = Event { at: now, what: EventKind::RetryDue { task } };
            self.apply_event(&event, turned);
            turned.events.push(event);
        }
        if self.worth_planning(&turned.events, now) {
            self.plan(now, turned); // 2. what should start, pause, stop: admitted, applied
        }
        if !turned.events.is_empty() {
            let before = self.cluster.seq() - turned.events.len() as u64;
            store.append(self.epoch, before, &turned.events)?; // 3. durable
        }
        Ok(()) // 4. only now may anything be said
    }

    /// Work for whoever drives the engine to have done beside it, if there is any and none is under way; the command that
    /// comes of it must be given to a later turn, also where it failed.
    pub fn errand(&mut self, now: Time) -> Option<BackgroundSolve> {
        if self.errand_out {
            return None;
        }
        let errand = self.policy.errand(self.cluster.view(), now)?;
        self.errand_out = true;
        Some(errand)
    }

    /// When a turn is due even if nothing is asked.
    pub fn next_deadline(&self) -> Option<Time> {
        let lapse = self.cluster.next_lapse().map(|(at, _)| at);
        let retry = self.cluster.next_retry().map(|(at, _)| at);
        let lapse = lapse.into_iter().chain(retry).min();
        if self.leases.is_empty() && self.claims.is_empty() {
            return lapse.into_iter().chain(self.wake_at).min();
        }
        self.leases.values().chain(self.claims.values()).copied().chain(lapse).chain(self.wake_at).min()
    }

    /// Applies events that were decided elsewhere: recovery, and copies that follow another engine.
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
        turned: &mut TurnOutcome,
    ) -> Result<CommandOutcome, Rejection> {
        if let Command::Several(commands) = command {
            let each =
                commands.into_iter().map(|one| self.execute(one, now, turned).map(|answer| answer.tasks));
            let each: Vec<_> = each.collect();
            let tasks = each.iter().flatten().sum();
            return Ok(CommandOutcome { job: None, tasks, each });
        }
        if let Command::Receive { worker, report } = command {
            self.receive(worker, report, now, turned);
            return Ok(CommandOutcome::default());
        }
        match &command {
            Command::Report { worker, .. } => self.renew_lease(*worker, now),
            Command::SetPolicy(choice) => self.check_policy(choice)?,
            Command::SetTarget(_) => self.errand_out = false,
            Command::Submit { user, spec, .. } => {
                // Sent again, because its answer was lost or was not waited for: the answer is the same.
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
        let decided = self.cluster.decide_what(command, now)?;
        if let Some(job) = heard {
            self.heard_of(job, now);
        }
        let mut answer = CommandOutcome::default();
        for what in decided {
            let event = Event { at: now, what };
            match &event.what {
                EventKind::JobSubmitted { job, .. } => answer.job = Some(*job),
                EventKind::WorkerLost { worker } => drop(self.leases.remove(worker)),
                _ => {}
            }
            answer.tasks += tasks_changed(&self.cluster, &event.what);
            self.apply_event(&event, turned);
            match event.what {
                EventKind::WorkerJoined { worker, .. } => self.renew_lease(worker, now),
                EventKind::JobSubmitted { job, .. } => self.heard_of(job, now),
                _ => {}
            }
            turned.events.push(event);
        }
        Ok(answer)
    }

    /// Takes a report in, unless it is late or doubled: then it says nothing, not even that its worker is there.
    fn receive(&mut self, worker: WorkerId, report: Box<Report>, now: Time, turned: &mut TurnOutcome) {
        if self.inbox.accept(worker, &report) {
            // A part that is refused, such as draining a worker that is not known, stops none of the others.
            report.execute(worker, |part| drop(self.execute(part, now, turned)));
        }
    }

    fn check_policy(&self, choice: &PolicyChoice) -> Result<(), Rejection> {
        PolicyDef::checked(self.policies, choice).map(drop)
    }

    /// Whether a plan could differ from the last one: not where nothing happened, processes started where they were placed,
    /// or ended jobs left the memory.
    fn worth_planning(&mut self, events: &[Event], now: Time) -> bool {
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

    fn plan(&mut self, now: Time, turned: &mut TurnOutcome) {
        let plan = self.policy.plan(self.cluster.view(), now);
        let (events, stale) =
            if plan.is_empty() { Default::default() } else { self.cluster.admit(&plan, now) };
        // One of which nothing comes would be made again as it is.
        let again = (plan.again && !events.is_empty()).then_some(now);
        self.wake_at = plan.wake_at.into_iter().chain(again).chain(self.cluster.next_opening(now)).min();
        for event in events {
            self.apply_event(&event, turned);
            turned.events.push(event);
        }
        turned.stale.extend(stale);
    }

    fn apply_event(&mut self, event: &Event, turned: &mut TurnOutcome) {
        let effects = self.follow(event);
        if let EventKind::Placed { attempt, .. } = event.what {
            self.watched_from_here(attempt.task.job);
        }
        for job in &effects.finished {
            self.claims.remove(job);
        }
        turned.finished.extend(effects.finished);
    }

    fn renew_lease(&mut self, worker: WorkerId, now: Time) {
        let lease = self.cluster.worker(worker).filter(|w| w.online).and_then(|w| w.info.lease);
        match lease {
            Some(lease) => self.leases.insert(worker, now + lease),
            None => self.leases.remove(&worker),
        };
    }

    /// Notes that whoever holds a claim is still there, as long as that must be told.
    fn heard_of(&mut self, id: JobId, now: Time) {
        let Some(job) = self.cluster.job(id).filter(|job| job.finished.is_none()) else { return };
        let Some(claim) = job.spec.claim() else { return };
        let granted = job.nodes.iter().flat_map(|n| n.live.values()).any(|live| live.attempt().is_some());
        if claim.process.is_none() || !granted {
            self.claims.insert(id, now + claim.lease);
        }
    }

    /// From its grant on, a claim for a process ends with that process, and its holder need not say anything.
    fn watched_from_here(&mut self, id: JobId) {
        let watched = |job: &Job| job.spec.claim().is_some_and(|claim| claim.process.is_some());
        if !self.claims.is_empty() && self.cluster.job(id).is_some_and(watched) {
            self.claims.remove(&id);
        }
    }

    fn lapsed_claim(&self, now: Time) -> Option<JobId> {
        let over = self.cluster.next_lapse().filter(|(at, _)| *at <= now).map(|(_, job)| job);
        over.or_else(|| self.claims.iter().find(|(_, until)| **until <= now).map(|(&job, _)| job))
    }

    fn silent_worker(&self, now: Time) -> Option<WorkerId> {
        self.leases.iter().find(|(_, until)| **until <= now).map(|(&worker, _)| worker)
    }
}

/// How many tasks an event is about to change.
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
