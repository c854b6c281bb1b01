//! From the events of a log to a recording: who came when, what people asked for, and how every attempt went.

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

/// Takes the events of a log in order.
pub struct Recorder {
    state: Cluster,
    /// Whether the state is right: it is where the log begins at the very beginning.
    whole: bool,
    since: Time,
    begun: bool,
    /// Whether there was an event at all.
    any: bool,
    last: Time,
    attempts: AttemptHistory,
    /// Jobs that came.
    jobs: BTreeMap<JobId, Arc<JobSpec>>,
    coming: Vec<TimedInput>,
    records: BTreeMap<TaskId, Record>,
    contention: ContentionTracker,
    /// Where tasks have become ready, by the state that follows all events.
    now: Cluster,
    told: RecordingSummary,
}

impl Recorder {
    /// Records what happened from a moment on, from a log that begins at the very beginning, under this policy.
    pub fn from_the_beginning(policy: PolicyChoice, since: Time) -> Recorder {
        Recorder::new(Cluster::new(policy), true, since)
    }

    /// Records what happened from a moment on, from a log whose beginning is gone: `later` is a state from after it, of
    /// which workers and policy are taken to have been so all along.
    pub fn from_what_is_left(later: &Cluster, since: Time) -> Recorder {
        let mut state = Cluster::new(later.policy().clone());
        for (_, worker) in later.workers() {
            let joined = state.decide(Command::Join(worker.info.clone()), Time(0)).unwrap_or_default();
            joined.iter().for_each(|event| drop(state.apply(event)));
        }
        Recorder::new(state, false, since)
    }

    fn new(state: Cluster, whole: bool, since: Time) -> Recorder {
        Recorder {
            now: state.clone(),
            state,
            whole,
            since,
            begun: false,
            any: false,
            last: since,
            attempts: AttemptHistory::default(),
            jobs: BTreeMap::new(),
            coming: Vec::new(),
            records: BTreeMap::new(),
            contention: ContentionTracker::default(),
            told: RecordingSummary::default(),
        }
    }

    /// Takes one event.
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
            self.told.unknown += u64::from(matches!(event.what, EventKind::Placed { .. }));
            return;
        }
        if self.begun {
            self.note(event);
        }
        self.follow(event);
        let finished = self.now.apply(event).finished;
        for job in finished.into_iter().filter_map(|job| self.now.job(job)) {
            let (from, to) = (JobId(job.id.0), JobId(job.id.0 + 1));
            let first = |job| TaskId { job, node: 0, index: 0 };
            for record in self.records.range_mut(first(from)..first(to)).map(|(_, record)| record) {
                record.close(job, event.at);
            }
        }
    }

    /// What was recorded.
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
        let usual = self.attempts.mean_length();
        self.attempts.close(self.last);
        let before =
            there_before.iter().map(|(job, spec)| (*job, Arc::new(self.attempts.of(*job, spec, usual))));
        let before: BTreeMap<_, _> = before.collect();
        for coming in &mut self.coming {
            if let TimedInput::Submission(arrival, Some(number)) = coming {
                let spec = &self.jobs[number];
                arrival.runs = RunModel::Recorded(Arc::new(self.attempts.of(*number, spec, usual)));
            }
        }
        let over = |job: &JobId| self.now.job(*job).is_none_or(|job| job.finished.is_some());
        let ended: BTreeSet<JobId> = self.jobs.keys().filter(|job| over(job)).copied().collect();
        self.told.jobs = self.jobs.len() as u64;
        self.told.there_before = there_before.len() as u64;
        self.told.unfinished = (self.jobs.len() - ended.len()) as u64;
        Recording {
            from: self.since,
            to: self.last,
            state: self.state,
            coming: self.coming.into(),
            before,
            records: self.records.into_values().collect(),
            ended,
            told: self.told,
        }
    }

    /// From here on it is recorded.
    fn begin(&mut self) {
        self.begun = true;
        self.state = self.now.clone();
        self.contention = ContentionTracker::on(self.now.workers().map(|(_, worker)| &worker.info));
        self.attempts.count_from(self.since);
    }

    /// Whether the state knows what an event is about; it always does where the log is whole.
    fn known(&self, event: &Event) -> bool {
        let comes = matches!(event.what, EventKind::JobSubmitted { .. });
        self.whole || comes || event.what.job().is_none_or(|job| self.now.job(job).is_some())
    }

    /// How attempts go, before the beginning too.
    fn follow(&mut self, event: &Event) {
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

    /// What came, what was asked for, and what became of tasks.
    fn note(&mut self, event: &Event) {
        let at = event.at;
        let mut counted = DoubleCounted::new();
        self.contention.observe(event, &mut counted);
        for (task, seconds) in counted {
            let record = self.records.get_mut(&task);
            record.into_iter().for_each(|record| record.gpu_seconds -= seconds);
        }
        match &event.what {
            EventKind::JobSubmitted { job, user, spec } => self.came(*job, user, spec, at),
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
        self.asked(event);
    }

    fn came(&mut self, job: JobId, user: &str, spec: &Arc<JobSpec>, at: Time) {
        for (node, task) in (0..).zip(&spec.tasks) {
            for index in 0..task.len() {
                let id = TaskId { job, node, index };
                self.records.insert(id, Record::new(id, spec.priority, at));
            }
        }
        self.jobs.insert(job, spec.clone());
        let runs = RunModel::Constant(warpyard_core::Span::ZERO);
        let arrival = Arrival { at, user: user.to_owned(), spec: spec.clone(), runs };
        self.coming.push(TimedInput::Submission(arrival, Some(job)));
    }

    /// The command behind an event, where one from outside is.
    fn asked(&mut self, event: &Event) {
        let at = event.at;
        let (command, by_people) = match &event.what {
            EventKind::PolicySet { policy } => {
                self.told.policy_changes.push(policy.to_string());
                self.coming.push(TimedInput::Command(at, Command::SetPolicy(policy.clone())));
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
            EventKind::WorkerDrained { worker, drained } => {
                (Command::Drain { worker: *worker, drained: *drained }, false)
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
                // Before its time only if someone asked for it; otherwise it comes by itself again.
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
                self.was_a_pause(at, attempt.task);
                return;
            }
            EventKind::PauseAsked { attempt, by: RequestedBy::User, .. } => {
                let task = attempt.task;
                if !self.was_a_pause(at, task) {
                    self.told.by_people += 1;
                    // What was held before stays so; then it is the job that is paused, or this one task.
                    let held = self.now.job(task.job).is_some_and(|job| job.held);
                    let target = if held { TaskSelector::Job(task.job) } else { TaskSelector::Task(task) };
                    self.coming.push(TimedInput::Command(at, Command::Pause(target)));
                }
                return;
            }
            EventKind::ResumeAsked { attempt } => {
                if let Some(target) = self.last_of(at, attempt.task, released) {
                    self.replace_last(at, Command::Resume(target));
                }
                return;
            }
            _ => return,
        };
        // A retry also lets go of what was held.
        let retried = |command: &Command| match command {
            Command::Retry { target, .. } => Some(TaskSelector::Job(target.job())),
            other => released(other),
        };
        if let Some(target) = released(&command)
            && self.last_of(at, TaskId { job: target.job(), node: 0, index: 0 }, retried)
                == Some(TaskSelector::Job(target.job()))
        {
            return;
        }
        if by_people {
            self.told.by_people += 1;
        } else {
            self.told.of_machines += 1;
        }
        self.coming.push(TimedInput::Command(at, command));
    }

    /// Holding a job and making its attempts stand still in one moment is what pausing it does.
    fn was_a_pause(&mut self, at: Time, task: TaskId) -> bool {
        let held = |command: &Command| match command {
            Command::Hold(target) | Command::Pause(target) => Some(*target),
            _ => None,
        };
        let target = self.last_of(at, task, held);
        if let Some(target) = target {
            self.replace_last(at, Command::Pause(target));
        }
        target.is_some()
    }

    /// The target of the last command, where that came in this moment, is of a certain kind and means a task.
    fn last_of(
        &self,
        at: Time,
        task: TaskId,
        kind: impl Fn(&Command) -> Option<TaskSelector>,
    ) -> Option<TaskSelector> {
        match self.coming.last() {
            Some(TimedInput::Command(when, last)) if *when == at => {
                kind(last).filter(|target| target.contains(task))
            }
            _ => None,
        }
    }

    fn replace_last(&mut self, at: Time, command: Command) {
        self.coming.pop();
        self.coming.push(TimedInput::Command(at, command));
    }
}

/// A command about tasks of a node: one, or several for what are several ranges.
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

/// What a command lets go on.
fn released(command: &Command) -> Option<TaskSelector> {
    match command {
        Command::Release(target) | Command::Resume(target) => Some(*target),
        _ => None,
    }
}

/// A submission without its environment, which is of no use where nothing runs and may have been kept before what is left
/// of a log.
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

/// Limits without how many tasks may wait: what was taken then is taken again, however long the line is now.
fn without_refusals(limits: &Limits) -> Arc<Limits> {
    let mut limits = limits.clone();
    let groups = limits.groups.values_mut().flat_map(|group| [&mut group.each, &mut group.together]);
    for caps in limits.users.values_mut().chain(groups).chain([&mut limits.everyone]) {
        (caps.queued, caps.jobs_size) = (None, None);
    }
    Arc::new(limits)
}
