//! Recorder: builds a recording from the events of a log. Submissions are events already; the commands of users and the changes
//! of machines are inferred from the events they caused, and run models from the course of every attempt.

use super::attempts::AttemptHistory;
use super::{Recording, RecordingSummary};
use crate::contention::{ContentionTracker, DoubleCounted};
use crate::{Arrival, Record, RunModel, TimedInput};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use warpyard_core::command::TaskSelector;
use warpyard_core::event::{Disposition, EventKind, RequestedBy, StopReason};
use warpyard_core::index::Ranges;
use warpyard_core::limits::Limits;
use warpyard_core::small::SmallMap;
use warpyard_core::spec::JobSpec;
use warpyard_core::{Cluster, Command, Event, JobId, NodeId, PolicyChoice, TaskId, Time};

/// Recorder that is fed the events of a log in order.
pub struct Recorder {
    state: Cluster,
    /// Whether the log is complete from its first event, so that the state is exact.
    complete: bool,
    since: Time,
    begun: bool,
    /// Whether any event was observed.
    any: bool,
    last: Time,
    attempts: AttemptHistory,
    /// Submitted jobs.
    jobs: BTreeMap<JobId, Arc<JobSpec>>,
    inputs: Vec<TimedInput>,
    records: BTreeMap<TaskId, Record>,
    contention: ContentionTracker,
    /// State after all events so far.
    now: Cluster,
    summary: RecordingSummary,
}

impl Recorder {
    /// Recorder of the history since a moment, from a complete log that began with this policy.
    pub fn from_the_beginning(policy: PolicyChoice, since: Time) -> Recorder {
        Recorder::new(Cluster::new(policy), true, since)
    }

    /// Recorder of the history since a moment, from a pruned log: `later` is a state after its beginning, whose workers and
    /// policy are assumed to have been there all along.
    pub fn from_what_is_left(later: &Cluster, since: Time) -> Recorder {
        let mut state = Cluster::new(later.policy().clone());
        for (_, worker) in later.workers() {
            let joined = state.decide(Command::Join(worker.info.clone()), Time(0)).unwrap_or_default();
            joined.iter().for_each(|event| drop(state.apply(event)));
        }
        Recorder::new(state, false, since)
    }

    fn new(state: Cluster, complete: bool, since: Time) -> Recorder {
        Recorder {
            now: state.clone(),
            state,
            complete,
            since,
            begun: false,
            any: false,
            last: since,
            attempts: AttemptHistory::default(),
            jobs: BTreeMap::new(),
            inputs: Vec::new(),
            records: BTreeMap::new(),
            contention: ContentionTracker::default(),
            summary: RecordingSummary::default(),
        }
    }

    /// Observes one event.
    pub fn enter(&mut self, event: &Event) {
        let event: &Event = &without_environment(event);
        if !self.begun && event.at >= self.since {
            if !self.any {
                self.since = event.at;
            }
            self.begin();
        }
        self.any = true;
        self.last = event.at;
        if !self.known(event) {
            self.summary.unknown += u64::from(matches!(event.what, EventKind::Placed { .. }));
            return;
        }
        if self.begun {
            self.record(event);
        }
        self.track_attempts(event);
        let finished = self.now.apply(event).finished;
        for job in finished.into_iter().filter_map(|job| self.now.job(job)) {
            let (from, to) = (JobId(job.id.0), JobId(job.id.0 + 1));
            let first = |job| TaskId { job, node: 0, index: 0 };
            for record in self.records.range_mut(first(from)..first(to)).map(|(_, record)| record) {
                record.close(job, event.at);
            }
        }
    }

    /// Completes the recording.
    pub fn finish(mut self) -> Recording {
        if !self.begun {
            self.begin();
        }
        let there_before: Vec<(JobId, Arc<JobSpec>)> = self
            .state
            .jobs()
            .iter()
            .filter(|job| job.finished.is_none())
            .map(|job| (job.id, job.spec.clone()))
            .collect();
        // Tasks that never ran, or were cut short, are given the mean length of the others.
        let usual = self.attempts.mean_length();
        self.attempts.close(self.last);
        let before =
            there_before.iter().map(|(job, spec)| (*job, Arc::new(self.attempts.of(*job, spec, usual))));
        let before: BTreeMap<_, _> = before.collect();
        for input in &mut self.inputs {
            if let TimedInput::Submission(arrival, Some(number)) = input {
                let spec = &self.jobs[number];
                arrival.runs = RunModel::Recorded(Arc::new(self.attempts.of(*number, spec, usual)));
            }
        }
        let over = |job: &JobId| self.now.job(*job).is_none_or(|job| job.finished.is_some());
        let ended: BTreeSet<JobId> = self.jobs.keys().filter(|job| over(job)).copied().collect();
        self.summary.jobs = self.jobs.len() as u64;
        self.summary.initial = there_before.len() as u64;
        self.summary.unfinished = (self.jobs.len() - ended.len()) as u64;
        Recording {
            from: self.since,
            to: self.last,
            state: self.state,
            inputs: self.inputs.into(),
            initial: before,
            records: self.records.into_values().collect(),
            finished: ended,
            summary: self.summary,
        }
    }

    /// Begins the recorded part at the current state.
    fn begin(&mut self) {
        self.begun = true;
        self.state = self.now.clone();
        self.contention = ContentionTracker::on(self.now.workers().map(|(_, worker)| &worker.info));
        self.attempts.count_from(self.since);
    }

    /// Whether the state contains the event's job; always true of a complete log.
    fn known(&self, event: &Event) -> bool {
        let comes = matches!(event.what, EventKind::JobSubmitted { .. });
        self.complete || comes || event.what.job().is_none_or(|job| self.now.job(job).is_some())
    }

    /// Tracks the attempts, including those from before the recorded part.
    fn track_attempts(&mut self, event: &Event) {
        match &event.what {
            EventKind::Placed { attempt, .. } => self.attempts.placed(*attempt, event.at),
            EventKind::Started { attempt } => self.attempts.started(*attempt, event.at),
            EventKind::Paused { attempt } => self.attempts.paused(*attempt, event.at),
            EventKind::Resumed { attempt } => self.attempts.resumed(*attempt, event.at),
            EventKind::StopAsked { attempt, .. } => self.attempts.asked_to_stop(*attempt, event.at),
            EventKind::Ended { attempt, end, .. } => {
                self.attempts.ended(*attempt, end, event.at);
            }
            _ => {}
        }
    }

    /// Records submissions, commands and the fate of tasks.
    fn record(&mut self, event: &Event) {
        let at = event.at;
        let mut counted = DoubleCounted::new();
        self.contention.observe(event, &mut counted);
        for (task, seconds) in counted {
            let record = self.records.get_mut(&task);
            record.into_iter().for_each(|record| record.gpu_seconds -= seconds);
        }
        match &event.what {
            EventKind::JobSubmitted { job, user, spec } => self.record_submission(*job, user, spec, at),
            EventKind::Placed { attempt, placement } => {
                let ready = self
                    .now
                    .job(attempt.task.job)
                    .map(|job| job.nodes[attempt.task.node as usize].ready_since);
                if let Some(record) = self.records.get_mut(&attempt.task) {
                    record.attempts += 1;
                    record.devices = placement.devices.len() as u16;
                    record.ready = ready;
                }
            }
            EventKind::Started { attempt } => {
                if let Some(record) = self.records.get_mut(&attempt.task) {
                    record.started.get_or_insert(at);
                }
            }
            EventKind::Paused { attempt } | EventKind::StopAsked { attempt, why: StopReason::Requeued } => {
                if let Some(record) = self.records.get_mut(&attempt.task) {
                    record.preemptions += 1;
                }
            }
            EventKind::Ended { attempt, end, then } => {
                if let Some(record) = self.records.get_mut(&attempt.task) {
                    record.ran += end.usage.ran;
                    record.gpu_seconds += end.usage.ran.secs() * f64::from(record.devices);
                    if let Disposition::Done(outcome) = then {
                        (record.ended, record.outcome) = (Some(at), Some(*outcome));
                    }
                }
            }
            _ => {}
        }
        self.infer_command(event);
    }

    fn record_submission(&mut self, job: JobId, user: &str, spec: &Arc<JobSpec>, at: Time) {
        for (node, task) in (0..).zip(&spec.tasks) {
            for index in 0..task.len() {
                let id = TaskId { job, node, index };
                self.records.insert(id, Record::new(id, spec.priority, at));
            }
        }
        self.jobs.insert(job, spec.clone());
        let runs = RunModel::Constant(warpyard_core::Span::ZERO);
        let arrival = Arrival { at, user: user.to_owned(), spec: spec.clone(), runs };
        self.inputs.push(TimedInput::Submission(arrival, Some(job)));
    }

    /// Infers the command from outside that caused an event, if one did. One command can cause several events: a pause holds the
    /// job and pauses its attempts, so the later event replaces the command inferred from the earlier one.
    fn infer_command(&mut self, event: &Event) {
        let at = event.at;
        let (command, user_commands) = match &event.what {
            EventKind::PolicySet { policy } => {
                self.summary.policy_changes.push(policy.to_string());
                self.inputs.push(TimedInput::Command(at, Command::SetPolicy(policy.clone())));
                return;
            }
            EventKind::LimitsSet { limits } => (Command::SetLimits(without_refusals(limits)), false),
            EventKind::GroupsTold { user, groups } => {
                (Command::TellGroups { user: user.clone(), groups: groups.clone() }, false)
            }
            EventKind::WorkerJoined { info, .. } => {
                let mut info = info.clone();
                info.lease = None;
                (Command::Join(info), false)
            }
            EventKind::WorkerLost { worker } => (Command::GiveUp(*worker), false),
            EventKind::WorkerDrained { worker, drained, reason } => {
                let (worker, drained, reason) = (*worker, *drained, reason.clone());
                (Command::Drain { worker, drained, reason }, false)
            }
            EventKind::DeviceChanged { device, state } => {
                let Some(worker) = self.now.worker(device.worker) else { return };
                let Some(info) = worker.info.devices.get(usize::from(device.index)) else { return };
                let devices = BTreeMap::from([(info.uuid.clone(), *state)]);
                (Command::Report { worker: device.worker, attempts: SmallMap::new(), devices }, false)
            }
            EventKind::MemoryCharged { attempt, device, bytes } => {
                let Some((placed, _)) = self.now.view().attempt(attempt.task) else { return };
                let worker = placed.placement.worker;
                let Some(info) =
                    self.now.worker(worker).and_then(|w| w.info.devices.get(usize::from(*device)))
                else {
                    return;
                };
                let used = BTreeMap::from([(*attempt, BTreeMap::from([(info.uuid.clone(), *bytes)]))]);
                (Command::MeasuredMemory { worker, used }, false)
            }
            EventKind::JobHeld { job, held: true } => (Command::Hold((*job).into()), true),
            EventKind::JobHeld { job, held: false } => (Command::Release((*job).into()), true),
            EventKind::TasksHeld { node, tasks, held: true } => (each(*node, tasks, Command::Hold), true),
            EventKind::TasksHeld { node, tasks, held: false } => (each(*node, tasks, Command::Release), true),
            EventKind::TasksRetried { node, tasks } => {
                (each(*node, tasks, |target| Command::Retry { target, failed_only: false }), true)
            }
            EventKind::RetryDue { task } => {
                let node = self.now.job(task.job).and_then(|job| job.nodes.get(task.node as usize));
                let until = node.and_then(|node| node.live.get(&task.index)?.not_before);
                // A retry that is due on time happens by itself again; an early one was requested.
                if until.is_none_or(|until| until <= at) {
                    return;
                }
                (Command::Retry { target: TaskSelector::Task(*task), failed_only: false }, true)
            }
            EventKind::JobPriority { job, priority } => (Command::SetPriority(*job, *priority), true),
            EventKind::Retried { job, failed_only } => {
                (Command::Retry { target: (*job).into(), failed_only: *failed_only }, true)
            }
            EventKind::Cancelled { node, tasks } => (each(*node, tasks, Command::Cancel), true),
            EventKind::StopAsked {
                attempt,
                why: StopReason::Cancelled | StopReason::Killed | StopReason::Idle(_),
            } => (Command::Cancel(TaskSelector::Task(attempt.task)), true),
            EventKind::StopAsked { attempt, why: StopReason::Requeued } => {
                self.merge_into_pause(at, attempt.task);
                return;
            }
            EventKind::PauseAsked { attempt, by: RequestedBy::User, .. } => {
                let task = attempt.task;
                if !self.merge_into_pause(at, task) {
                    self.summary.user_commands += 1;
                    // Pausing a held job leaves it held, so the command named the job; otherwise it named this task.
                    let held = self.now.job(task.job).is_some_and(|job| job.held);
                    let target = if held { TaskSelector::Job(task.job) } else { TaskSelector::Task(task) };
                    self.inputs.push(TimedInput::Command(at, Command::Pause(target)));
                }
                return;
            }
            EventKind::ResumeAsked { attempt } => {
                if let Some(target) = self.last_target(at, attempt.task, released) {
                    self.replace_last(at, Command::Resume(target));
                }
                return;
            }
            _ => return,
        };
        // A retry also releases a hold: that release is not a command of its own.
        let retried = |command: &Command| match command {
            Command::Retry { target, .. } => Some(TaskSelector::Job(target.job())),
            other => released(other),
        };
        if let Some(target) = released(&command)
            && self.last_target(at, TaskId { job: target.job(), node: 0, index: 0 }, retried)
                == Some(TaskSelector::Job(target.job()))
        {
            return;
        }
        if user_commands {
            self.summary.user_commands += 1;
        } else {
            self.summary.machine_changes += 1;
        }
        self.inputs.push(TimedInput::Command(at, command));
    }

    /// Turns a hold inferred at this moment into the pause that it was part of; returns whether there was one.
    fn merge_into_pause(&mut self, at: Time, task: TaskId) -> bool {
        let held = |command: &Command| match command {
            Command::Hold(target) | Command::Pause(target) => Some(*target),
            _ => None,
        };
        let target = self.last_target(at, task, held);
        if let Some(target) = target {
            self.replace_last(at, Command::Pause(target));
        }
        target.is_some()
    }

    /// Target of the last inferred command, if it is of this moment, of a certain kind and contains the task.
    fn last_target(
        &self,
        at: Time,
        task: TaskId,
        kind: impl Fn(&Command) -> Option<TaskSelector>,
    ) -> Option<TaskSelector> {
        match self.inputs.last() {
            Some(TimedInput::Command(when, last)) if *when == at => {
                kind(last).filter(|target| target.contains(task))
            }
            _ => None,
        }
    }

    fn replace_last(&mut self, at: Time, command: Command) {
        self.inputs.pop();
        self.inputs.push(TimedInput::Command(at, command));
    }
}

/// Command about tasks of a node; one per range.
fn each(node: NodeId, tasks: &Ranges, command: impl Fn(TaskSelector) -> Command) -> Command {
    let targets = tasks.ranges().map(|Range { start, end }| match end - start {
        1 => TaskSelector::Task(node.task(start)),
        _ => TaskSelector::Range { node, start, end },
    });
    let mut commands: Vec<_> = targets.map(command).collect();
    match commands.len() {
        1 => commands.remove(0),
        _ => Command::Several(commands),
    }
}

/// Target that a command releases.
fn released(command: &Command) -> Option<TaskSelector> {
    match command {
        Command::Release(target) | Command::Resume(target) => Some(*target),
        _ => None,
    }
}

/// Submission without its environment: nothing runs here, and the environment may be stored in a pruned part of the log.
fn without_environment(event: &Event) -> Cow<'_, Event> {
    match &event.what {
        EventKind::JobSubmitted { job, user, spec } if spec.env.is_some() => {
            let spec = Arc::new(JobSpec { env: None, ..JobSpec::clone(spec) });
            let what = EventKind::JobSubmitted { job: *job, user: user.clone(), spec };
            Cow::Owned(Event { at: event.at, what })
        }
        _ => Cow::Borrowed(event),
    }
}

/// Limits without those on queue length: a recorded submission is accepted again, however long the simulated queue is.
fn without_refusals(limits: &Limits) -> Arc<Limits> {
    let mut limits = limits.clone();
    let groups = limits.groups.values_mut().flat_map(|group| [&mut group.each, &mut group.together]);
    for caps in limits.users.values_mut().chain(groups).chain([&mut limits.everyone]) {
        (caps.queued, caps.jobs_size) = (None, None);
    }
    Arc::new(limits)
}
