//! Decisions: turns commands into events. Every choice that must not be made again at replay (whether a task is
//! retried, which number a job gets) is made here and written into the event.

use super::Cluster;
use super::job::{Job, Node, Phase, StartedTask};
use crate::command::{AttemptStatus, Code, Command, MemoryUse, Rejection, TaskSelector};
use crate::event::{
    Disposition, End, EndReason, Env, Event, EventKind, Outcome, RequestedBy, StopReason, Usage, WorkerInfo,
};
use crate::ids::{AttemptId, DeviceId, EnvId, JobId, NodeId, TaskId, WorkerId};
use crate::index::Ranges;
use crate::pool::{Charge, DeviceState, Placement};
use crate::shares::{Allocation, SolveFailure, Speed};
use crate::small::SmallMap;
use crate::spec::{Boundary, JobSpec, Needs, OnLost, Preempt, SubmitKey, TaskSpec};
use crate::time::{Span, Time};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Times a task may be lost with its worker before it ends as lost.
const MAX_LOSSES: u32 = 10;

/// Events of one command: nearly always a single one.
pub(crate) type EventKinds = SmallVec<[EventKind; 1]>;

pub(crate) type Decision = Result<EventKinds, Rejection>;

impl Cluster {
    /// Events of a command, or its rejection. Nothing changes until the events are applied.
    pub fn decide(&self, command: Command, now: Time) -> Result<SmallVec<[Event; 1]>, Rejection> {
        let kinds = self.decide_kinds(command, now)?;
        Ok(kinds.into_iter().map(|what| Event { at: now, what }).collect())
    }

    /// Events of a command without a time, for callers that stamp them.
    pub(crate) fn decide_kinds(&self, command: Command, now: Time) -> Decision {
        match command {
            Command::Submit { user, env, spec } => self.submit(user, env, spec, now),
            Command::Cancel(target) => self.cancel(target, StopReason::Cancelled),
            Command::Kill(target) => self.cancel(target, StopReason::Killed),
            Command::EndIdle(attempt, lasted) => Ok(self.end_idle(attempt, lasted)),
            Command::Hold(target) => self.hold(target),
            Command::Release(target) => self.release(target),
            Command::SetPriority(job, priority) => match self.require_job(job)? {
                Job { finished: Some(_), .. } => Err(job_already_ended(job)),
                _ => Ok(smallvec![EventKind::JobPriority { job, priority }]),
            },
            Command::Retry { target: TaskSelector::Job(job), failed_only } => self.retry(job, failed_only),
            Command::Retry { target, failed_only } => self.retry_tasks(target, failed_only),
            Command::Pause(target) => self.pause(target),
            Command::Resume(target) => self.resume(target),
            Command::Several(commands) => Ok(self.decide_in_order(commands, now)),
            Command::Drain { worker, drained, reason } => match self.worker(worker) {
                None => Err(Rejection::new(Code::NoSuchWorker, format!("there is no worker {worker}"))),
                // A drained worker may still be found to be unable to start anything.
                Some(w) if w.drained == drained && (reason.is_none() || w.drain_reason == reason) => {
                    Ok(EventKinds::new())
                }
                Some(_) => Ok(smallvec![EventKind::WorkerDrained { worker, drained, reason }]),
            },
            Command::Adopt { user, spec, devices } => self.adopt(user, spec, &devices),
            Command::Heard(job) => self.require_claim(job).map(|_| EventKinds::new()),
            Command::Extend { job, by } => self.extend(job, by, now),
            Command::SetPolicy(policy) => Ok(smallvec![EventKind::PolicySet { policy }]),
            Command::SetLimits(limits) => Ok(match *self.limits() == limits {
                true => smallvec![],
                false => smallvec![EventKind::LimitsSet { limits }],
            }),
            Command::TellGroups { user, groups } => Ok(match self.groups_of(&user) == groups {
                true => smallvec![],
                false => smallvec![EventKind::GroupsTold { user, groups }],
            }),
            Command::SetSpeeds { speeds, costs } => self.set_speeds(speeds, costs),
            Command::Progress { attempt, steps } => Ok(self.progress(attempt, steps)),
            Command::SetTarget(found) => Ok(self.set_target(found)),
            Command::Join(info) => Ok(self.join(info)),
            Command::Receive { worker, report } => {
                let mut parts = Vec::new();
                report.execute(worker, |part| parts.push(part));
                Ok(self.decide_in_order(parts, now))
            }
            Command::Report { worker, attempts, devices } => Ok(self.report(worker, attempts, devices, now)),
            Command::MeasuredMemory { worker, used } => Ok(self.charge_used(worker, &used)),
            Command::GiveUp(worker) => Ok(self.lose_worker(worker, now)),
            Command::Forget(job) => match self.require_job(job)?.finished {
                Some(_) => Ok(smallvec![EventKind::JobForgotten { job }]),
                None => Err(Rejection::new(Code::NotDone, format!("job {job} has not ended"))),
            },
        }
    }

    /// Job that an earlier submission with this idempotency key made, while it is in memory. Rejects a key that was
    /// used for a different submission.
    pub fn submitted_before(&self, user: &str, key: Option<&SubmitKey>) -> Result<Option<JobId>, Rejection> {
        let Some(key) = key else { return Ok(None) };
        let Some(&id) = self.derived.keys.get(&(user.to_owned(), key.name.clone())) else { return Ok(None) };
        match self.job(id).and_then(|job| job.spec.key.as_deref()) {
            Some(before) if before.digest == key.digest => Ok(Some(id)),
            _ => {
                let message = format!("this idempotency key was used before for another job, {id}");
                Err(Rejection::new(Code::KeyUsed, message).at("idempotency_key"))
            }
        }
    }

    fn submit(&self, user: String, env: Option<Arc<Env>>, mut spec: Arc<JobSpec>, now: Time) -> Decision {
        for (i, after) in spec.after.iter().enumerate() {
            if self.job(after.job).is_none() {
                let message = format!("there is no job {} to wait for", after.job);
                return Err(Rejection::new(Code::NoSuchDependency, message)
                    .at(format!("after[{i}]"))
                    .help("a job that ended long ago is no longer known; leave it out"));
            }
        }
        self.feasible(&spec)?;
        self.within_limits(&user, env.as_ref(), &mut spec, now)?;
        let mut events = EventKinds::new();
        // Equal environments are stored once: a sweep submits thousands of jobs with the same one.
        if let Some(vars) = env {
            let kept = self.derived.env_ids.get(&vars).copied();
            Arc::make_mut(&mut spec).env = Some(kept.unwrap_or_else(|| {
                let env = EnvId(self.next_env);
                events.push(EventKind::EnvKept { env, vars });
                env
            }));
        }
        events.push(EventKind::JobSubmitted { job: JobId(self.next_job), user, spec });
        Ok(events)
    }

    /// Grants a claim devices that its process uses already. They were foreign until now.
    fn adopt(&self, user: String, spec: JobSpec, devices: &[DeviceId]) -> Decision {
        let (Some(first), Some(task)) = (devices.first(), spec.tasks.first()) else {
            return Err(Rejection::new(Code::NoSuchDevice, "the process uses no device"));
        };
        let worker = first.worker;
        let taken = |device: &DeviceId| {
            self.pool().worker(worker).is_none_or(|w| w.is_given(device.index)) || device.worker != worker
        };
        if let Some(device) = devices.iter().find(|d| taken(d)) {
            let message = format!("device {} is already allocated", device.index);
            return Err(Rejection::new(Code::DeviceTaken, message));
        }
        let charges = devices.iter().map(|d| (d.index, Charge::Whole)).collect();
        let Needs { cpus, memory, .. } = task.needs;
        let placement = Placement { worker, devices: charges, cpus, memory };
        let job = JobId(self.next_job);
        let attempt = TaskId { job, node: 0, index: 0 }.attempt(1);
        // The device was reported as foreign because of this very process.
        let mut events: EventKinds = devices
            .iter()
            .map(|&device| EventKind::DeviceChanged { device, state: DeviceState::Usable })
            .collect();
        events.push(EventKind::JobSubmitted { job, user, spec: Arc::new(spec) });
        events.push(EventKind::Placed { attempt, placement });
        Ok(events)
    }

    fn extend(&self, id: JobId, by: Span, now: Time) -> Decision {
        let job = self.require_claim(id)?;
        if job.finished.is_some() {
            return Err(job_already_ended(id));
        }
        let Some(until) = job.until else {
            let message = format!("claim {id} has no end to extend: it was granted without a time limit");
            return Err(Rejection::new(Code::Claims, message));
        };
        // An extension counts from now if the claim's time is up but its end is not applied yet.
        let until = until.max(now) + by;
        self.may_extend(job, until, now)?;
        Ok(smallvec![EventKind::ClaimExtended { job: id, until }])
    }

    fn require_claim(&self, id: JobId) -> Result<&Job, Rejection> {
        let job = self.require_job(id)?;
        match job.spec.claim() {
            Some(_) => Ok(job),
            None => Err(Rejection::new(Code::Claims, format!("job {id} is not a claim"))),
        }
    }

    /// Decides each command on the state that the commands before it leave; a rejected command changes nothing. Works
    /// on a copy of the state; the engine applies as it goes and needs none.
    fn decide_in_order(&self, commands: Vec<Command>, now: Time) -> EventKinds {
        let (mut next, mut events) = (self.clone(), EventKinds::new());
        for command in commands {
            for what in next.decide_kinds(command, now).unwrap_or_default() {
                let event = Event { at: now, what };
                next.apply(&event);
                events.push(event.what);
            }
        }
        events
    }

    /// Cancels tasks. Children come before their parents, so that no child is skipped by its parent's end on the way.
    fn cancel(&self, target: TaskSelector, why: StopReason) -> Decision {
        let job = self.require_job(target.job())?;
        self.check_target(job, target)?;
        let mut events = EventKinds::new();
        for (id, state, selected) in selected_nodes(job, target) {
            let waiting = waiting_tasks(state, &selected);
            if !waiting.is_empty() {
                events.push(EventKind::Cancelled { node: id, tasks: waiting });
            }
            for (i, live) in state.live_within(selected) {
                // A second stop request is a no-op, unless it takes the grace period back.
                let asked = match live.phase {
                    Phase::Stopping { why: before, .. } => {
                        before == StopReason::Killed || before.gives_up() && why != StopReason::Killed
                    }
                    _ => false,
                };
                if live.attempt().is_some() && !asked {
                    let attempt = id.task(i).attempt(live.attempts);
                    events.push(EventKind::StopAsked { attempt, why });
                }
            }
        }
        let over = job.finished.is_some() || all_ended(job, target);
        if events.is_empty() && over { Err(already_ended(job, target)) } else { Ok(events) }
    }

    fn hold(&self, target: TaskSelector) -> Decision {
        let job = self.require_job(target.job())?;
        self.check_target(job, target)?;
        if let TaskSelector::Job(id) = target {
            return match job {
                Job { held: true, .. } => {
                    Err(Rejection::new(Code::AlreadyHeld, format!("job {id} is already held")))
                }
                Job { finished: Some(_), .. } => Err(job_already_ended(id)),
                _ => Ok(smallvec![EventKind::JobHeld { job: id, held: true }]),
            };
        }
        if all_ended(job, target) {
            return Err(already_ended(job, target));
        }
        let events = hold_tasks(job, target);
        if events.is_empty() {
            let message = format!("{} is already held", describe(job, target));
            return Err(Rejection::new(Code::AlreadyHeld, message));
        }
        Ok(events)
    }

    /// Releasing a job releases all of its tasks, also those that were held one by one.
    fn release(&self, target: TaskSelector) -> Decision {
        let job = self.require_job(target.job())?;
        self.check_target(job, target)?;
        let events = release_tasks(job, target);
        if !events.is_empty() {
            return Ok(events);
        }
        // Releasing a claim gives its devices back.
        if job.spec.claim().is_some() {
            return self.cancel(TaskSelector::Job(job.id), StopReason::Cancelled);
        }
        let refused = Rejection::new(Code::NotHeld, format!("{} is not held", describe(job, target)));
        Err(match job.held {
            true => refused.help(format!("all of job {} is held: `warpyard release {}`", job.id, job.id)),
            false => refused,
        })
    }

    /// Stop request for an idle attempt; none if it has ended or is stopping already.
    fn end_idle(&self, attempt: AttemptId, lasted: Span) -> EventKinds {
        let TaskId { job, node, index } = attempt.task;
        let live = self.job(job).and_then(|job| job.nodes.get(node as usize)?.live.get(&index));
        let running = live.filter(|live| live.attempts == attempt.number && live.attempt().is_some());
        match running.map(|live| &live.phase) {
            None => EventKinds::new(),
            Some(Phase::Stopping { why, .. }) if why.gives_up() => EventKinds::new(),
            Some(_) => smallvec![EventKind::StopAsked { attempt, why: StopReason::Idle(lasted) }],
        }
    }

    fn check_target(&self, job: &Job, target: TaskSelector) -> Result<(), Rejection> {
        let missing = |what: String| Rejection::new(Code::NoSuchTask, what);
        let Some(NodeId { node, .. }) = target.node() else { return Ok(()) };
        let (_, spec) =
            job.node(node).ok_or_else(|| missing(format!("job {} has no task number {node}", job.id)))?;
        if target.positions(NodeId { job: job.id, node }, spec.len()).is_empty() {
            return Err(missing(format!("task {} of job {} has no such index", spec.name, job.id)));
        }
        Ok(())
    }

    fn retry(&self, id: JobId, failed_only: bool) -> Decision {
        let job = self.require_job(id)?;
        let Some(outcome) = job.outcome() else {
            // A task in backoff is tried now: whoever asks has repaired the cause.
            let due = self.retries_due(job, TaskSelector::Job(id));
            if !due.is_empty() {
                return Ok(due);
            }
            return Err(Rejection::new(Code::NotDone, format!("job {id} has not ended yet"))
                .help("wait for it, or cancel it first"));
        };
        if failed_only && outcome == Outcome::Succeeded {
            return Err(Rejection::new(Code::NothingToRetry, format!("nothing of job {id} failed")));
        }
        if job.spec.claim().is_some() {
            return Err(Rejection::new(Code::Claims, format!("claim {id} has ended; make a new claim")));
        }
        let kept = |node: &Node| if failed_only { node.done.count(Outcome::Succeeded) } else { 0 };
        self.may_wait(&job.user, job.nodes.iter().map(|node| node.done.total() - kept(node)).sum())?;
        let mut events = smallvec![EventKind::Retried { job: id, failed_only }];
        if job.held {
            events.push(EventKind::JobHeld { job: id, held: false });
        }
        Ok(events)
    }

    /// Retry events for selected tasks that are in backoff.
    fn retries_due(&self, job: &Job, target: TaskSelector) -> EventKinds {
        let nodes = selected_nodes(job, target);
        let due = nodes.flat_map(|(id, state, selected)| {
            let put_off = state.live_within(selected).filter(|(_, live)| live.not_before.is_some());
            put_off.map(move |(i, _)| EventKind::RetryDue { task: id.task(i) })
        });
        due.collect()
    }

    /// Runs some tasks of a node again. The node's dependents must have ended, or not have started; its dependencies
    /// must have ended as required.
    fn retry_tasks(&self, target: TaskSelector, failed_only: bool) -> Decision {
        let job = self.require_job(target.job())?;
        self.check_target(job, target)?;
        let Some(id) = target.node() else { return self.retry(target.job(), failed_only) };
        if job.spec.claim().is_some() {
            return Err(Rejection::new(
                Code::Claims,
                format!("claim {} has ended; make a new claim", job.id),
            ));
        }
        let due = self.retries_due(job, target);
        if !due.is_empty() {
            return Ok(due);
        }
        let tasks = retryable_tasks(job, target, id, failed_only)?;
        check_retry_dependencies(job, target, id)?;
        self.may_wait(&job.user, tasks.len())?;
        let mut events = smallvec![EventKind::TasksRetried { node: id, tasks }];
        // A finished job may still be held, and would then not start what it was asked to run again.
        if job.held && job.finished.is_some() {
            events.push(EventKind::JobHeld { job: job.id, held: false });
        }
        Ok(events)
    }

    fn pause(&self, target: TaskSelector) -> Decision {
        let job = self.require_job(target.job())?;
        self.check_target(job, target)?;
        let id = job.id;
        if job.finished.is_some() || all_ended(job, target) {
            return Err(already_ended(job, target));
        }
        if job.spec.claim().is_some() {
            let message =
                format!("job {id} is a claim: warpyard did not start its process and cannot pause it");
            return Err(Rejection::new(Code::Claims, message));
        }
        let mut events = match target {
            TaskSelector::Job(_) if job.held => EventKinds::new(),
            TaskSelector::Job(_) => smallvec![EventKind::JobHeld { job: id, held: true }],
            _ => hold_tasks(job, target),
        };
        for (attempt, live, spec) in selected_attempts(job, target) {
            // A requeue task saves and exits, which frees its devices; anything else that runs is frozen in place.
            match &live.phase {
                Phase::Running(_) if spec.preempt == Preempt::Requeue => {
                    events.push(EventKind::StopAsked { attempt, why: StopReason::Requeued });
                }
                Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a)
                    if a.pause != Some(RequestedBy::User) =>
                {
                    let (by, at) = (RequestedBy::User, Boundary::Any);
                    events.push(EventKind::PauseAsked { attempt, by, at });
                }
                _ => {}
            }
        }
        Ok(events)
    }

    fn resume(&self, target: TaskSelector) -> Decision {
        let job = self.require_job(target.job())?;
        self.check_target(job, target)?;
        let mut events = release_tasks(job, target);
        for (attempt, live, _) in selected_attempts(job, target) {
            match &live.phase {
                Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a)
                    if a.pause == Some(RequestedBy::User) =>
                {
                    events.push(EventKind::ResumeAsked { attempt });
                }
                _ => {}
            }
        }
        if events.is_empty() {
            let message = format!("{} is not paused", describe(job, target));
            return Err(Rejection::new(Code::NotHeld, message));
        }
        Ok(events)
    }

    /// Records speeds and costs that changed. A measured speed replaces a declared one, never the reverse.
    fn set_speeds(&self, mut speeds: Vec<Speed>, mut costs: BTreeMap<String, f64>) -> Decision {
        for speed in &speeds {
            if !(speed.steps_per_second.is_finite() && speed.steps_per_second >= 0.0) {
                let Speed { profile, kind, steps_per_second, .. } = speed;
                let message = format!(
                    "{steps_per_second} steps per second for '{profile}' on {kind} is not a valid speed"
                );
                return Err(Rejection::new(Code::BadSpeed, message)
                    .at("throughputs")
                    .help("a speed is 0 or more; 0 means that it cannot run there"));
            }
        }
        if let Some((kind, cost)) = costs.iter().find(|(_, cost)| !(cost.is_finite() && **cost > 0.0)) {
            let message = format!("{cost} per hour of {kind} is not a valid cost");
            return Err(Rejection::new(Code::BadSpeed, message).at("costs").help("a cost is greater than 0"));
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
        Ok(if nothing { EventKinds::new() } else { smallvec![EventKind::SpeedsSet { speeds, costs }] })
    }

    fn progress(&self, attempt: AttemptId, steps: u64) -> EventKinds {
        match self.current(attempt) {
            Some(live) if live.steps != Some(steps) => {
                smallvec![EventKind::Progressed { task: attempt.task, steps }]
            }
            _ => EventKinds::new(),
        }
    }

    fn set_target(&self, found: Result<Allocation, SolveFailure>) -> EventKinds {
        // The solver ran in the background: its result may be for a policy that is no longer in force.
        let asked_by = self.policy.to_string();
        match found {
            Ok(mut target) if target.policy == asked_by => {
                // Jobs that ended while it was solved get no share.
                target.rows.retain(|row| self.job(row.task.job).is_some_and(|job| job.finished.is_none()));
                smallvec![EventKind::TargetSet { target: Arc::new(target) }]
            }
            Err(failed) if failed.policy == asked_by => smallvec![EventKind::TargetFailed { failed }],
            _ => EventKinds::new(),
        }
    }

    fn join(&self, mut info: WorkerInfo) -> EventKinds {
        let known = self.worker_named(&info.name);
        let worker = known.unwrap_or(WorkerId(self.workers.len() as u32));
        if let Some(old) = known.and_then(|w| self.worker(w)) {
            // Placements in the log name devices by index: a known device keeps its index, a missing one stays as gone.
            let mut devices = old.info.devices.clone();
            devices.iter_mut().for_each(|d| d.state = DeviceState::Gone);
            for new in std::mem::take(&mut info.devices) {
                match devices.iter_mut().find(|d| d.uuid == new.uuid) {
                    Some(slot) => *slot = new,
                    None => devices.push(new),
                }
            }
            info.devices = devices;
            // A worker that was offline has to be recorded as back even if its description is the same.
            if old.info == info && old.online {
                return EventKinds::new();
            }
        }
        smallvec![EventKind::WorkerJoined { worker, info }]
    }

    fn report(
        &self,
        worker: WorkerId,
        attempts: SmallMap<AttemptId, AttemptStatus>,
        devices: BTreeMap<String, DeviceState>,
        now: Time,
    ) -> EventKinds {
        let mut events = EventKinds::new();
        let known = self.worker(worker).filter(|_| !devices.is_empty());
        for (i, info) in known.into_iter().flat_map(|w| w.info.devices.iter().enumerate()) {
            if let Some(&state) = devices.get(&info.uuid).filter(|state| **state != info.state) {
                events.push(EventKind::DeviceChanged { device: DeviceId { worker, index: i as u16 }, state });
            }
        }
        for (attempt, status) in attempts {
            let live = self.current(attempt);
            // Fencing: only the latest attempt counts, and only from the worker it was placed on.
            if let Some(live) = live.filter(|l| l.attempt().is_some_and(|a| a.placement.worker == worker)) {
                self.record_status(attempt, live, status, now, &mut events);
            }
        }
        events
    }

    /// Charges for shared devices that changed: the larger of requested and measured memory. An attempt or device
    /// that was not measured keeps its charge: absence is not evidence.
    fn charge_used(&self, worker: WorkerId, used: &MemoryUse) -> EventKinds {
        let mut events = EventKinds::new();
        for (&attempt, used) in used {
            let Some(placed) = self.current(attempt).and_then(StartedTask::attempt) else { continue };
            let Some(state) = self.worker(worker).filter(|_| placed.placement.worker == worker) else {
                continue;
            };
            let Some(requested) = self.requested_memory(attempt.task) else { continue };
            for &(device, charge) in &placed.placement.devices {
                let info = &state.info.devices[usize::from(device)];
                if let (Charge::Share(charged), Some(&used)) = (charge, used.get(&info.uuid))
                    && let Some(bytes) = info.recharge(requested, charged, used)
                {
                    events.push(EventKind::MemoryCharged { attempt, device, bytes });
                }
            }
        }
        events
    }

    fn record_status(
        &self,
        attempt: AttemptId,
        live: &StartedTask,
        status: AttemptStatus,
        now: Time,
        events: &mut EventKinds,
    ) {
        // An attempt may end before any report shows it running: it started all the same. One that never ran did not.
        let began = !matches!(
            &status,
            AttemptStatus::Over(End {
                how: EndReason::NotStarted(_) | EndReason::Declined(_) | EndReason::Lost(_),
                ..
            })
        );
        let placed = matches!(live.phase, Phase::Placed(_));
        if placed && began {
            events.push(EventKind::Started { attempt });
        }
        match (status, &live.phase) {
            (AttemptStatus::Running, Phase::Paused(_)) => events.push(EventKind::Resumed { attempt }),
            (AttemptStatus::Frozen, Phase::Placed(_) | Phase::Running(_)) => {
                events.push(EventKind::Paused { attempt })
            }
            (AttemptStatus::Over(end), _) => events.push(self.attempt_ended(attempt, live, end, now)),
            _ => {}
        }
    }

    fn attempt_ended(&self, attempt: AttemptId, live: &StartedTask, end: End, now: Time) -> EventKind {
        let job = self.job(attempt.task.job).expect("a current attempt has a job");
        let then = disposition(live, &job.spec.tasks[attempt.task.node as usize], &end.how, now);
        EventKind::Ended { attempt, end, then }
    }

    fn lose_worker(&self, worker: WorkerId, now: Time) -> EventKinds {
        let Some(state) = self.worker(worker).filter(|w| w.online) else { return EventKinds::new() };
        let mut events = smallvec![EventKind::WorkerLost { worker }];
        for &task in state.tasks() {
            let job = self.job(task.job).expect("a worker's task has a job");
            let live = &job.nodes[task.node as usize].live[&task.index];
            // With `hold`, the attempt stays assigned: it is taken back if the worker returns.
            if job.spec.tasks[task.node as usize].on_lost == OnLost::Rerun {
                let ran = live.attempt().map_or(Span::ZERO, |a| match live.phase {
                    Phase::Running(_) => a.ran + now.since(a.since),
                    _ => a.ran,
                });
                let end = End {
                    how: EndReason::Lost(format!("worker {} stopped responding", state.info.name)),
                    usage: Usage { ran, ..Usage::default() },
                };
                events.push(self.attempt_ended(task.attempt(live.attempts), live, end, now));
            }
        }
        events
    }

    fn require_job(&self, job: JobId) -> Result<&Job, Rejection> {
        self.job(job).ok_or_else(|| {
            Rejection::new(Code::NoSuchJob, format!("there is no job {job}"))
                .help("`warpyard ps` lists current jobs, `warpyard history` ended ones")
        })
    }
}

fn job_already_ended(job: JobId) -> Rejection {
    Rejection::new(Code::AlreadyDone, format!("job {job} has already ended"))
}

fn already_ended(job: &Job, target: TaskSelector) -> Rejection {
    Rejection::new(Code::AlreadyDone, format!("{} has already ended", describe(job, target)))
}

/// Selection as people write it: `job 412`, `412.train`, `412.train[3]`, `412.train[3-5]`.
fn describe(job: &Job, target: TaskSelector) -> String {
    let Some((id, spec)) = target.node().and_then(|id| Some((id, job.node(id.node)?.1))) else {
        return format!("job {}", job.id);
    };
    let value = |at: u32| spec.array.as_ref().and_then(|array| array.value(at)).unwrap_or(at);
    let selected = target.positions(id, spec.len());
    let which = match target {
        TaskSelector::Task(task) if spec.array.is_some() => format!("[{}]", value(task.index)),
        TaskSelector::Range { .. } if !selected.is_empty() => {
            format!("[{}-{}]", value(selected.start), value(selected.end - 1))
        }
        _ => String::new(),
    };
    format!("{}.{}{which}", job.id, spec.name)
}

fn all_ended(job: &Job, target: TaskSelector) -> bool {
    let Some(id) = target.node() else { return job.finished.is_some() };
    let node = &job.nodes[id.node as usize];
    let selected = target.positions(id, job.spec.tasks[id.node as usize].len());
    let ended: u64 = node.done.0.values().map(|ended| ended.within(selected.clone()).len()).sum();
    ended == selected.len() as u64
}

/// Selected tasks of a node that have ended and can run again.
fn retryable_tasks(
    job: &Job,
    target: TaskSelector,
    id: NodeId,
    failed_only: bool,
) -> Result<Ranges, Rejection> {
    let node = &job.nodes[id.node as usize];
    let selected = target.positions(id, job.spec.tasks[id.node as usize].len());
    let mut tasks = Ranges::default();
    // Skipped tasks are left out: they run again when the dependency that skipped them does.
    for outcome in Outcome::ALL {
        if outcome != Outcome::Skipped
            && !(failed_only && outcome == Outcome::Succeeded)
            && let Some(ended) = node.done.0.get(&outcome)
        {
            tasks.insert_all(&ended.within(selected.clone()));
        }
    }
    if !tasks.is_empty() {
        return Ok(tasks);
    }
    let name = describe(job, target);
    let skipped = node.done.0.get(&Outcome::Skipped);
    Err(match skipped.is_some_and(|skipped| !skipped.within(selected).is_empty()) {
        true => Rejection::new(Code::NothingToRetry, format!("{name} was skipped and never ran"))
            .help(format!("retry what it depends on, or the whole job: `warpyard retry {}`", job.id)),
        false if all_ended(job, target) => {
            Rejection::new(Code::NothingToRetry, format!("nothing of {name} failed"))
        }
        false => Rejection::new(Code::NotDone, format!("{name} has not ended yet"))
            .help("wait for it, or cancel it first"),
    })
}

/// Rejects a retry of tasks whose dependencies have not ended as required, or whose dependents have started.
fn check_retry_dependencies(job: &Job, target: TaskSelector, id: NodeId) -> Result<(), Rejection> {
    let name = describe(job, target);
    let after = &job.spec.tasks[id.node as usize].after;
    if let Some(dep) = after.iter().find(|d| job.nodes[d.node as usize].satisfies(d.on) != Some(true)) {
        let parent = &job.spec.tasks[dep.node as usize].name;
        let message = format!("{name} depends on {parent}, which has not ended as it should");
        return Err(Rejection::new(Code::DependsOnOthers, message).help(format!("retry {parent} first")));
    }
    // A dependent that has started would use results that are about to be replaced.
    let started = |n: &u32| {
        let child = &job.nodes[*n as usize];
        !child.is_done() && (!child.live.is_empty() || child.done.total() > 0)
    };
    let children = job.children.get(id.node as usize).into_iter().flatten();
    if let Some(child) = children.map(|(n, _)| *n).find(started) {
        let child = &job.spec.tasks[child as usize].name;
        let message = format!("{child} depends on {name} and has already started");
        return Err(Rejection::new(Code::DependsOnOthers, message)
            .help(format!("wait for {child}, or cancel it first")));
    }
    Ok(())
}

/// Nodes of a selection, each before its dependencies, with the selected positions.
fn selected_nodes(job: &Job, target: TaskSelector) -> impl Iterator<Item = (NodeId, &Node, Range<u32>)> + '_ {
    let nodes = match target.node() {
        None => children_first(&job.spec),
        Some(node) => vec![node.node],
    };
    nodes.into_iter().map(move |node| {
        let id = NodeId { job: job.id, node };
        let selected = target.positions(id, job.spec.tasks[node as usize].len());
        (id, &job.nodes[node as usize], selected)
    })
}

/// Selected tasks that are neither on a worker nor done.
fn waiting_tasks(node: &Node, selected: &Range<u32>) -> Ranges {
    let mut waiting = node.fresh.within(selected.clone());
    waiting.insert_all(&node.held.within(selected.clone()));
    for (i, live) in node.live_within(selected.clone()) {
        match live.attempt() {
            None => waiting.insert(i),
            Some(_) => waiting.remove(i),
        };
    }
    waiting
}

/// Hold events for selected tasks that are neither done nor held: running ones are not tried again.
fn hold_tasks(job: &Job, target: TaskSelector) -> EventKinds {
    let nodes = selected_nodes(job, target).filter_map(|(node, state, selected)| {
        let mut tasks = state.fresh.within(selected.clone());
        for (i, _) in state.live_within(selected).filter(|(i, _)| !state.held.contains(*i)) {
            tasks.insert(i);
        }
        (!tasks.is_empty()).then_some(EventKind::TasksHeld { node, tasks, held: true })
    });
    nodes.collect()
}

/// Release events for selected tasks that are held, and for the job if it is selected whole.
fn release_tasks(job: &Job, target: TaskSelector) -> EventKinds {
    let whole = job.held && matches!(target, TaskSelector::Job(_));
    let nodes = selected_nodes(job, target).filter_map(|(node, state, selected)| {
        let tasks = state.held.within(selected);
        (!tasks.is_empty()).then_some(EventKind::TasksHeld { node, tasks, held: false })
    });
    whole.then_some(EventKind::JobHeld { job: job.id, held: false }).into_iter().chain(nodes).collect()
}

/// Delay before a task is tried again after this many failures: none after the first, then one second, doubling up to
/// five minutes. A task that fails at once would otherwise start hundreds of times a second while it has retries.
fn backoff(failures: u32) -> Option<Span> {
    const FIRST: u64 = 1_000_000;
    const LONGEST: u64 = 300_000_000;
    let doubled = failures.checked_sub(2)?;
    Some(Span((FIRST << doubled.min(9)).min(LONGEST)))
}

/// Disposition of a task whose attempt ended for this reason.
fn disposition(live: &StartedTask, spec: &TaskSpec, how: &EndReason, now: Time) -> Disposition {
    let again_if = |allowed: bool, otherwise: Outcome| {
        if allowed { Disposition::Again } else { Disposition::Done(otherwise) }
    };
    let retry_if = |allowed: bool, otherwise: Outcome| match backoff(live.failures + 1) {
        Some(wait) if allowed => Disposition::Later(now + wait),
        _ => again_if(allowed, otherwise),
    };
    let tries_left = live.failures < spec.retries;
    let asked = match live.phase {
        Phase::Stopping { why, .. } => Some(why),
        _ => None,
    };
    // The order matters: a success counts even if a stop was requested, and a user's cancellation wins over whatever
    // failure it provoked.
    match (how, asked) {
        (EndReason::Exited(0), _) => Disposition::Done(Outcome::Succeeded),
        // Being stopped is how a claim ends well; and the process that holds it cannot run elsewhere.
        (EndReason::Stopped, _) if spec.claim.is_some() => Disposition::Done(Outcome::Succeeded),
        (EndReason::Lost(_), _) if spec.claim.is_some() => Disposition::Done(Outcome::Lost),
        (_, Some(why)) if why.gives_up() => Disposition::Done(Outcome::Cancelled),
        (EndReason::Stopped, None) => Disposition::Done(Outcome::Cancelled),
        // The worker could not take the attempt: not a failure of the task, so it uses up no retry.
        (EndReason::Declined(_), _) => Disposition::Again,
        (EndReason::Lost(_), _) if spec.on_lost == OnLost::Hold => Disposition::Hold,
        (EndReason::Lost(_), _) => again_if(live.losses < MAX_LOSSES, Outcome::Lost),
        // Preempted: it saved and exited, however that looked, and runs again later.
        (_, Some(_)) => Disposition::Again,
        // Another attempt would create as many processes.
        (EndReason::Crowded(_), None) => Disposition::Done(Outcome::Failed),
        // Nobody used the terminal, and another attempt would find nobody either.
        (EndReason::Idle(_), None) => Disposition::Done(Outcome::TimedOut),
        (EndReason::TimedOut, None) => retry_if(spec.retry_on_timeout && tries_left, Outcome::TimedOut),
        (
            EndReason::Exited(_)
            | EndReason::Signalled(_)
            | EndReason::OutOfMemory(_)
            | EndReason::NotStarted(_),
            None,
        ) => retry_if(tries_left, Outcome::Failed),
    }
}

/// Attempts of the selected tasks that are on a worker.
fn selected_attempts(
    job: &Job,
    target: TaskSelector,
) -> impl Iterator<Item = (AttemptId, &StartedTask, &TaskSpec)> + '_ {
    selected_nodes(job, target).flat_map(move |(id, node, selected)| {
        let on_worker = node.live_within(selected).filter(|(_, live)| live.attempt().is_some());
        on_worker.map(move |(i, live)| {
            (id.task(i).attempt(live.attempts), live, &job.spec.tasks[id.node as usize])
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
