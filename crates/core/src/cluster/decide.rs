//! Turning commands into events. Every choice that later code must not make again (whether a task is tried once more,
//! which number a job gets) is made here and written into the event.

use super::Cluster;
use super::job::{Job, Live, Node, Phase};
use crate::command::{Code, Command, MemoryUse, Rejected, Standing, Target};
use crate::event::{By, End, Env, Event, How, Outcome, StopWhy, Then, Usage, What, WorkerInfo};
use crate::ids::{AttemptId, DeviceId, EnvId, JobId, NodeId, TaskId, WorkerId};
use crate::index::Ranges;
use crate::pool::{Charge, DeviceState, Placement};
use crate::shares::{Allocation, NoTarget, Speed};
use crate::small::SmallMap;
use crate::spec::{Boundary, JobSpec, Needs, OnLost, Preempt, SubmitKey, TaskSpec};
use crate::time::{Span, Time};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a task may lose its machine before it is given up.
const LOSSES_BORNE: u32 = 10;

/// What a command makes happen: nearly always one thing.
pub(crate) type Whats = SmallVec<[What; 1]>;

pub(crate) type Decision = Result<Whats, Rejected>;

impl Cluster {
    /// What a command makes happen, or why it is refused. Nothing changes until the events are applied.
    pub fn decide(&self, command: Command, now: Time) -> Result<SmallVec<[Event; 1]>, Rejected> {
        let whats = self.decide_what(command, now)?;
        Ok(whats.into_iter().map(|what| Event { at: now, what }).collect())
    }

    /// The same, for whoever says when.
    pub(crate) fn decide_what(&self, command: Command, now: Time) -> Decision {
        match command {
            Command::Submit { user, env, spec } => self.submit(user, env, spec, now),
            Command::Cancel(target) => self.cancel(target),
            Command::EndIdle(attempt, lasted) => Ok(self.end_idle(attempt, lasted)),
            Command::Hold(job) => match self.known(job)? {
                Job { held: true, .. } => {
                    Err(Rejected::new(Code::AlreadyHeld, format!("job {job} is held already")))
                }
                Job { finished: Some(_), .. } => Err(already_done(job)),
                _ => Ok(smallvec![What::JobHeld { job, held: true }]),
            },
            Command::Release(job) => match self.known(job)?.held {
                true => Ok(smallvec![What::JobHeld { job, held: false }]),
                // What is given back when a claim is released is its devices.
                false if self.claimed(job).is_ok() => self.cancel(Target::Job(job)),
                false => Err(Rejected::new(Code::NotHeld, format!("job {job} is not held"))),
            },
            Command::SetPriority(job, priority) => match self.known(job)? {
                Job { finished: Some(_), .. } => Err(already_done(job)),
                _ => Ok(smallvec![What::JobPriority { job, priority }]),
            },
            Command::Retry { job, failed_only } => self.retry(job, failed_only),
            Command::Pause(job) => self.pause(job),
            Command::Resume(job) => self.resume(job),
            Command::Drain { worker, drained } => match self.worker(worker) {
                None => Err(Rejected::new(Code::NoSuchWorker, format!("there is no worker {worker}"))),
                Some(w) if w.drained == drained => Ok(Whats::new()),
                Some(_) => Ok(smallvec![What::WorkerDrained { worker, drained }]),
            },
            Command::Adopt { user, spec, devices } => self.adopt(user, spec, &devices),
            Command::Heard(job) => self.claimed(job).map(|_| Whats::new()),
            Command::Extend { job, by } => self.extend(job, by, now),
            Command::SetPolicy(policy) => Ok(smallvec![What::PolicySet { policy }]),
            Command::SetLimits(limits) => Ok(match *self.limits() == limits {
                true => smallvec![],
                false => smallvec![What::LimitsSet { limits }],
            }),
            Command::TellGroups { user, groups } => Ok(match self.groups_of(&user) == groups {
                true => smallvec![],
                false => smallvec![What::GroupsTold { user, groups }],
            }),
            Command::SetSpeeds { speeds, costs } => self.set_speeds(speeds, costs),
            Command::Progress { attempt, steps } => Ok(self.progress(attempt, steps)),
            Command::SetTarget(found) => Ok(self.set_target(found)),
            Command::Join(info) => Ok(self.join(info)),
            Command::Report { worker, attempts, devices } => Ok(self.report(worker, attempts, devices)),
            Command::MeasuredMemory { worker, used } => Ok(self.charge_used(worker, &used)),
            Command::GiveUp(worker) => Ok(self.give_up(worker, now)),
            Command::Forget(job) => match self.known(job)?.finished {
                Some(_) => Ok(smallvec![What::JobForgotten { job }]),
                None => Err(Rejected::new(Code::NotDone, format!("job {job} has not ended"))),
            },
        }
    }

    /// The job that a submission with this key made already, as long as it is known; refuses the key if that was
    /// something else.
    pub fn submitted_before(&self, user: &str, key: Option<&SubmitKey>) -> Result<Option<JobId>, Rejected> {
        let Some(key) = key else { return Ok(None) };
        let Some(&id) = self.derived.keys.get(&(user.to_owned(), key.name.clone())) else { return Ok(None) };
        match self.job(id).and_then(|job| job.spec.key.as_deref()) {
            Some(before) if before.digest == key.digest => Ok(Some(id)),
            _ => {
                let message = format!("this idempotency key was used before for another job, {id}");
                Err(Rejected::new(Code::KeyUsed, message).at("idempotency_key"))
            }
        }
    }

    fn submit(&self, user: String, env: Option<Arc<Env>>, mut spec: Arc<JobSpec>, now: Time) -> Decision {
        for (i, after) in spec.after.iter().enumerate() {
            if self.job(after.job).is_none() {
                let message = format!("there is no job {} to wait for", after.job);
                return Err(Rejected::new(Code::NoSuchDependency, message)
                    .at(format!("after[{i}]"))
                    .help("a job that ended long ago is no longer known; leave it out"));
            }
        }
        self.feasible(&spec)?;
        self.within_limits(&user, &mut spec, now)?;
        let mut events = Whats::new();
        if let Some(vars) = env {
            let kept = self.derived.env_ids.get(&vars).copied();
            Arc::make_mut(&mut spec).env = Some(kept.unwrap_or_else(|| {
                let env = EnvId(self.next_env);
                events.push(What::EnvKept { env, vars });
                env
            }));
        }
        events.push(What::JobSubmitted { job: JobId(self.next_job), user, spec });
        Ok(events)
    }

    /// The device was someone else's until now, and is the claim's from here on.
    fn adopt(&self, user: String, spec: JobSpec, devices: &[DeviceId]) -> Decision {
        let (Some(first), Some(task)) = (devices.first(), spec.tasks.first()) else {
            return Err(Rejected::new(Code::NoSuchDevice, "the process uses no device"));
        };
        let worker = first.worker;
        let taken = |device: &DeviceId| {
            self.pool().worker(worker).is_none_or(|w| w.is_given(device.index)) || device.worker != worker
        };
        if let Some(device) = devices.iter().find(|d| taken(d)) {
            let message = format!("device {} is given to others already", device.index);
            return Err(Rejected::new(Code::DeviceTaken, message));
        }
        let charges = devices.iter().map(|d| (d.index, Charge::Whole)).collect();
        let Needs { cpus, memory, .. } = task.needs;
        let placement = Placement { worker, devices: charges, cpus, memory };
        let job = JobId(self.next_job);
        let attempt = TaskId { job, node: 0, index: 0 }.attempt(1);
        let mut events: Whats = devices
            .iter()
            .map(|&device| What::DeviceChanged { device, state: DeviceState::Usable })
            .collect();
        events.push(What::JobSubmitted { job, user, spec: Arc::new(spec) });
        events.push(What::Placed { attempt, placement });
        Ok(events)
    }

    fn extend(&self, id: JobId, by: Span, now: Time) -> Decision {
        let job = self.claimed(id)?;
        if job.finished.is_some() {
            return Err(already_done(id));
        }
        let Some(until) = job.until else {
            let message = format!("claim {id} was not granted for a time, so there is none to extend");
            return Err(Rejected::new(Code::Claims, message));
        };
        let until = until.max(now) + by;
        self.may_extend(job, until, now)?;
        Ok(smallvec![What::ClaimExtended { job: id, until }])
    }

    fn claimed(&self, id: JobId) -> Result<&Job, Rejected> {
        let job = self.known(id)?;
        match job.spec.claim() {
            Some(_) => Ok(job),
            None => Err(Rejected::new(Code::Claims, format!("job {id} is not a claim"))),
        }
    }

    /// Children come before their parents, so that none of them is skipped by a parent's end on the way.
    fn cancel(&self, target: Target) -> Decision {
        let job = self.known(target.job())?;
        self.check_target(job, target)?;
        let mut events = Whats::new();
        for node in children_first(&job.spec) {
            let id = NodeId { job: job.id, node };
            let state = &job.nodes[node as usize];
            let waiting: Ranges = match target {
                Target::Task(t) => {
                    let waits =
                        t.node == node && (state.fresh.contains(t.index) || state.again.contains(&t.index));
                    waits.then_some(t.index).into_iter().collect()
                }
                _ if target.contains(id.task(0)) => {
                    let mut all = state.fresh.clone();
                    for &i in &state.again {
                        all.insert(i);
                    }
                    all
                }
                _ => Ranges::default(),
            };
            if !waiting.is_empty() {
                events.push(What::Cancelled { node: id, tasks: waiting });
            }
            for (&i, live) in state.live.iter().filter(|(i, _)| target.contains(id.task(**i))) {
                let asked =
                    matches!(live.phase, Phase::Stopping { why: StopWhy::Cancelled | StopWhy::Idle(_), .. });
                if live.attempt().is_some() && !asked {
                    let attempt = id.task(i).attempt(live.attempts);
                    events.push(What::StopAsked { attempt, why: StopWhy::Cancelled });
                }
            }
        }
        let over = job.finished.is_some() || self.is_over(job, target);
        if events.is_empty() && over { Err(already_done(job.id)) } else { Ok(events) }
    }

    /// Nothing for an attempt that is over, or is asked to end already.
    fn end_idle(&self, attempt: AttemptId, lasted: Span) -> Whats {
        let TaskId { job, node, index } = attempt.task;
        let live = self.job(job).and_then(|job| job.nodes.get(node as usize)?.live.get(&index));
        let running = live.filter(|live| live.attempts == attempt.number && live.attempt().is_some());
        match running.map(|live| &live.phase) {
            None | Some(Phase::Stopping { why: StopWhy::Cancelled | StopWhy::Idle(_), .. }) => Whats::new(),
            Some(_) => smallvec![What::StopAsked { attempt, why: StopWhy::Idle(lasted) }],
        }
    }

    fn check_target(&self, job: &Job, target: Target) -> Result<(), Rejected> {
        let missing = |what: String| Rejected::new(Code::NoSuchTask, what);
        let (node, index) = match target {
            Target::Job(_) => return Ok(()),
            Target::Node(n) => (n.node, 0),
            Target::Task(t) => (t.node, t.index),
        };
        let (_, spec) =
            job.node(node).ok_or_else(|| missing(format!("job {} has no task number {node}", job.id)))?;
        if index >= spec.len() {
            return Err(missing(format!("task {} of job {} has no such index", spec.name, job.id)));
        }
        Ok(())
    }

    fn is_over(&self, job: &Job, target: Target) -> bool {
        match target {
            Target::Job(_) => job.finished.is_some(),
            Target::Node(n) => job.nodes[n.node as usize].is_done(),
            Target::Task(t) => job.nodes[t.node as usize].done.of(t.index).is_some(),
        }
    }

    fn retry(&self, id: JobId, failed_only: bool) -> Decision {
        let job = self.known(id)?;
        let Some(outcome) = job.outcome() else {
            return Err(Rejected::new(Code::NotDone, format!("job {id} has not ended yet"))
                .help("wait for it, or cancel it first"));
        };
        if failed_only && outcome == Outcome::Succeeded {
            return Err(Rejected::new(Code::NothingToRetry, format!("nothing of job {id} failed")));
        }
        if job.spec.claim().is_some() {
            return Err(Rejected::new(Code::Claims, format!("claim {id} is over; claim anew")));
        }
        let kept = |node: &Node| if failed_only { node.done.count(Outcome::Succeeded) } else { 0 };
        self.may_wait(&job.user, job.nodes.iter().map(|node| node.done.total() - kept(node)).sum())?;
        let mut events = smallvec![What::Retried { job: id, failed_only }];
        if job.held {
            events.push(What::JobHeld { job: id, held: false });
        }
        Ok(events)
    }

    fn pause(&self, id: JobId) -> Decision {
        let job = self.known(id)?;
        if job.finished.is_some() {
            return Err(already_done(id));
        }
        if job.spec.claim().is_some() {
            let message = format!("job {id} is a claim: what it is for is not ours to pause");
            return Err(Rejected::new(Code::Claims, message));
        }
        let mut events = Whats::new();
        if !job.held {
            events.push(What::JobHeld { job: id, held: true });
        }
        for (attempt, live, spec) in under_way(job) {
            match &live.phase {
                Phase::Running(_) if spec.preempt == Preempt::Requeue => {
                    events.push(What::StopAsked { attempt, why: StopWhy::Requeued });
                }
                Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a) if a.pause != Some(By::User) => {
                    let (by, at) = (By::User, Boundary::Any);
                    events.push(What::PauseAsked { attempt, by, at });
                }
                _ => {}
            }
        }
        Ok(events)
    }

    fn resume(&self, id: JobId) -> Decision {
        let job = self.known(id)?;
        let mut events = Whats::new();
        if job.held {
            events.push(What::JobHeld { job: id, held: false });
        }
        for (attempt, live, _) in under_way(job) {
            match &live.phase {
                Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a) if a.pause == Some(By::User) => {
                    events.push(What::ResumeAsked { attempt });
                }
                _ => {}
            }
        }
        if events.is_empty() {
            return Err(Rejected::new(Code::NotHeld, format!("job {id} is not paused")));
        }
        Ok(events)
    }

    /// What is said again changes nothing; what someone said gives way to what was measured, not the other way.
    fn set_speeds(&self, mut speeds: Vec<Speed>, mut costs: BTreeMap<String, f64>) -> Decision {
        for speed in &speeds {
            if !(speed.steps_per_second.is_finite() && speed.steps_per_second >= 0.0) {
                let Speed { profile, kind, steps_per_second, .. } = speed;
                let message =
                    format!("{steps_per_second} steps a second of '{profile}' on {kind} are no speed");
                return Err(Rejected::new(Code::BadSpeed, message)
                    .at("throughputs")
                    .help("a speed is 0 or more; 0 says that it cannot run there"));
            }
        }
        if let Some((kind, cost)) = costs.iter().find(|(_, cost)| !(cost.is_finite() && **cost > 0.0)) {
            let message = format!("{cost} an hour of {kind} is no cost");
            return Err(Rejected::new(Code::BadSpeed, message).at("costs").help("a cost is above 0"));
        }
        let known = |new: &Speed| match &new.beside {
            None => self.shares.speed(&new.profile, new.gpus, &new.kind),
            Some(other) => self.shares.speed_beside(&new.profile, other, new.gpus, &new.kind),
        };
        speeds.retain(|new| match known(new) {
            Some(old) if old.measured && !new.measured => false,
            Some(old) => (old.steps_per_second, old.measured) != (new.steps_per_second, new.measured),
            None => true,
        });
        costs.retain(|kind, cost| self.shares.cost_per_hour(kind) != Some(*cost));
        let nothing = speeds.is_empty() && costs.is_empty();
        Ok(if nothing { Whats::new() } else { smallvec![What::SpeedsSet { speeds, costs }] })
    }

    fn progress(&self, attempt: AttemptId, steps: u64) -> Whats {
        match self.current(attempt) {
            Some(live) if live.steps != Some(steps) => {
                smallvec![What::Progressed { task: attempt.task, steps }]
            }
            _ => Whats::new(),
        }
    }

    fn set_target(&self, found: Result<Allocation, NoTarget>) -> Whats {
        let asked_by = self.policy.to_string();
        match found {
            Ok(mut target) if target.policy == asked_by => {
                target.rows.retain(|row| self.job(row.task.job).is_some_and(|job| job.finished.is_none()));
                smallvec![What::TargetSet { target: Arc::new(target) }]
            }
            Err(failed) if failed.policy == asked_by => smallvec![What::TargetFailed { failed }],
            _ => Whats::new(),
        }
    }

    fn join(&self, mut info: WorkerInfo) -> Whats {
        let known = self.worker_named(&info.name);
        let worker = known.unwrap_or(WorkerId(self.workers.len() as u32));
        if let Some(old) = known.and_then(|w| self.worker(w)) {
            let mut devices = old.info.devices.clone();
            devices.iter_mut().for_each(|d| d.state = DeviceState::Gone);
            for new in std::mem::take(&mut info.devices) {
                match devices.iter_mut().find(|d| d.uuid == new.uuid) {
                    Some(slot) => *slot = new,
                    None => devices.push(new),
                }
            }
            info.devices = devices;
            if old.info == info && old.online {
                return Whats::new();
            }
        }
        smallvec![What::WorkerJoined { worker, info }]
    }

    fn report(
        &self,
        worker: WorkerId,
        attempts: SmallMap<AttemptId, Standing>,
        devices: BTreeMap<String, DeviceState>,
    ) -> Whats {
        let mut events = Whats::new();
        let known = self.worker(worker).filter(|_| !devices.is_empty());
        for (i, info) in known.into_iter().flat_map(|w| w.info.devices.iter().enumerate()) {
            if let Some(&state) = devices.get(&info.uuid).filter(|state| **state != info.state) {
                events.push(What::DeviceChanged { device: DeviceId { worker, index: i as u16 }, state });
            }
        }
        for (attempt, standing) in attempts {
            let live = self.current(attempt);
            if let Some(live) = live.filter(|l| l.attempt().is_some_and(|a| a.placement.worker == worker)) {
                self.stands(attempt, live, standing, &mut events);
            }
        }
        events
    }

    /// Shared devices are charged the larger of requested and used memory. An attempt, or a device of its, that was not
    /// measured keeps its charge: absence is not evidence.
    fn charge_used(&self, worker: WorkerId, used: &MemoryUse) -> Whats {
        let mut events = Whats::new();
        for (&attempt, used) in used {
            let Some(placed) = self.current(attempt).and_then(Live::attempt) else { continue };
            let Some(state) = self.worker(worker).filter(|_| placed.placement.worker == worker) else {
                continue;
            };
            let Some(requested) = self.requested_memory(attempt.task) else { continue };
            for &(device, charge) in &placed.placement.devices {
                let info = &state.info.devices[usize::from(device)];
                if let (Charge::Share(charged), Some(&used)) = (charge, used.get(&info.uuid))
                    && let Some(bytes) = info.recharge(requested, charged, used)
                {
                    events.push(What::MemoryCharged { attempt, device, bytes });
                }
            }
        }
        events
    }

    fn stands(&self, attempt: AttemptId, live: &Live, standing: Standing, events: &mut Whats) {
        let began = !matches!(
            &standing,
            Standing::Over(End { how: How::NotStarted(_) | How::Declined(_) | How::Lost(_), .. })
        );
        let placed = matches!(live.phase, Phase::Placed(_));
        if placed && began {
            events.push(What::Started { attempt });
        }
        match (standing, &live.phase) {
            (Standing::Running, Phase::Paused(_)) => events.push(What::Resumed { attempt }),
            (Standing::Frozen, Phase::Placed(_) | Phase::Running(_)) => events.push(What::Paused { attempt }),
            (Standing::Over(end), _) => events.push(self.over(attempt, live, end)),
            _ => {}
        }
    }

    fn over(&self, attempt: AttemptId, live: &Live, end: End) -> What {
        let job = self.job(attempt.task.job).expect("a current attempt has a job");
        let then = then(live, &job.spec.tasks[attempt.task.node as usize], &end.how);
        What::Ended { attempt, end, then }
    }

    fn give_up(&self, worker: WorkerId, now: Time) -> Whats {
        let Some(state) = self.worker(worker).filter(|w| w.online) else { return Whats::new() };
        let mut events = smallvec![What::WorkerLost { worker }];
        for &task in state.tasks() {
            let job = self.job(task.job).expect("a worker's task has a job");
            let live = &job.nodes[task.node as usize].live[&task.index];
            if job.spec.tasks[task.node as usize].on_lost == OnLost::Rerun {
                let ran = live.attempt().map_or(Span::ZERO, |a| match live.phase {
                    Phase::Running(_) => a.ran + now.since(a.since),
                    _ => a.ran,
                });
                let end = End {
                    how: How::Lost(format!("worker {} went silent", state.info.name)),
                    usage: Usage { ran, ..Usage::default() },
                };
                events.push(self.over(task.attempt(live.attempts), live, end));
            }
        }
        events
    }

    fn known(&self, job: JobId) -> Result<&Job, Rejected> {
        self.job(job).ok_or_else(|| {
            Rejected::new(Code::NoSuchJob, format!("there is no job {job}"))
                .help("`warpyard ps` lists the jobs there are, `warpyard history` those that ended")
        })
    }
}

fn already_done(job: JobId) -> Rejected {
    Rejected::new(Code::AlreadyDone, format!("job {job} has ended already"))
}

/// What becomes of a task whose attempt ended this way.
fn then(live: &Live, spec: &TaskSpec, how: &How) -> Then {
    let again_if = |allowed: bool, otherwise: Outcome| {
        if allowed { Then::Again } else { Then::Done(otherwise) }
    };
    let tries_left = live.failures < spec.retries;
    let asked = match live.phase {
        Phase::Stopping { why, .. } => Some(why),
        _ => None,
    };
    match (how, asked) {
        (How::Exited(0), _) => Then::Done(Outcome::Succeeded),
        // Letting go is how a claim ends well; and what holds it cannot be run elsewhere.
        (How::Stopped, _) if spec.claim.is_some() => Then::Done(Outcome::Succeeded),
        (How::Lost(_), _) if spec.claim.is_some() => Then::Done(Outcome::Lost),
        (_, Some(StopWhy::Cancelled | StopWhy::Idle(_))) | (How::Stopped, None) => {
            Then::Done(Outcome::Cancelled)
        }
        (How::Declined(_), _) => Then::Again,
        (How::Lost(_), _) if spec.on_lost == OnLost::Hold => Then::Hold,
        (How::Lost(_), _) => again_if(live.losses < LOSSES_BORNE, Outcome::Lost),
        (_, Some(StopWhy::Requeued)) => Then::Again,
        // Another try would make as many.
        (How::Crowded(_), None) => Then::Done(Outcome::Failed),
        // Nobody was there, and another try would find nobody either.
        (How::Idle(_), None) => Then::Done(Outcome::TimedOut),
        (How::TimedOut, None) => again_if(spec.retry_on_timeout && tries_left, Outcome::TimedOut),
        (How::Exited(_) | How::Signalled(_) | How::OutOfMemory(_) | How::NotStarted(_), None) => {
            again_if(tries_left, Outcome::Failed)
        }
    }
}

/// Every attempt of a job that is on a worker.
fn under_way(job: &Job) -> impl Iterator<Item = (AttemptId, &Live, &TaskSpec)> + '_ {
    job.nodes.iter().enumerate().flat_map(move |(n, node)| {
        let on_worker = node.live.iter().filter(|(_, live)| live.attempt().is_some());
        on_worker.map(move |(&index, live)| {
            let task = TaskId { job: job.id, node: n as u32, index };
            (task.attempt(live.attempts), &**live, &job.spec.tasks[n])
        })
    })
}

/// The nodes of a job, each before those it depends on.
fn children_first(spec: &JobSpec) -> Vec<u32> {
    let mut waits_for = vec![0u32; spec.tasks.len()];
    for dep in spec.tasks.iter().flat_map(|t| &t.after) {
        waits_for[dep.node as usize] += 1;
    }
    let mut order: Vec<u32> = (0..spec.tasks.len() as u32).filter(|&n| waits_for[n as usize] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for dep in &spec.tasks[order[next] as usize].after {
            waits_for[dep.node as usize] -= 1;
            if waits_for[dep.node as usize] == 0 {
                order.push(dep.node);
            }
        }
        next += 1;
    }
    assert_eq!(order.len(), spec.tasks.len(), "a job that was accepted has no cycle");
    order
}
