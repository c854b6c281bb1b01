//! Jobs, tasks and attempts as the interface shows them; devices, workers and policies are in `machine`.

mod machine;

use crate::caller::Caller;
use crate::replica::Reader;
use crate::store::{AttemptRow, JobRow};
use crate::summary::{add, overall, worst};
use crate::{model_admission, outcome_text, why};
use std::collections::BTreeMap;
use warpyard_api::quantity::{ArraySpec, Micros};
use warpyard_api::secrets::{mask_command, mask_value};
use warpyard_api::wire::{
    AttemptView, FailureReason, HistoryRow, JobView, MemoryOveruse, Outcome, OutcomeCounts, ProgramView,
    SnapshotView, State, StateCounts, TaskView, TerminalView, Timestamp,
};
use warpyard_core::cluster::Job;
use warpyard_core::command::TaskSelector;
use warpyard_core::spec::TaskSpec;
use warpyard_core::{AttemptId, Cluster, JobId, NodeId, Span, TaskId, TaskState, Time};

pub(crate) use machine::{gpus, policies, workers};

pub(crate) use crate::summary::{
    held_back, is_blocked, may_be_in_line, needs, outcome, outcome_of_word, standing, state, tally,
    task_name, time,
};

/// How the reason begins of what is held because it was lost.
const HELD_BY_LOSS: &str = "held: its last attempt was lost";

/// How many tasks of an array are shown at once when it is expanded.
pub(crate) const TASKS_PER_PAGE: usize = 1_000;

/// Whose a job is, whether memory still holds it or only the tables do.
pub(crate) fn user_of(f: &Reader<'_>, job: JobId) -> String {
    match f.cluster().job(job) {
        Some(job) => job.user.clone(),
        None => f.history().job(job).ok().flatten().map(|row| row.user).unwrap_or_default(),
    }
}

/// A job in a list, as someone may see it: no attempts, arrays folded.
pub(crate) fn listed(f: &Reader<'_>, job: &Job, position: Option<u64>, who: &Caller) -> JobView {
    let mut view = folded(f, job, TaskSelector::Job(job.id), who);
    view.position = position;
    let nodes = (0..job.nodes.len() as u32).map(|node| NodeId { job: job.id, node });
    view.tasks = nodes.map(|node| listed_task(f, job, node, who)).collect();
    explain_hold(&mut view);
    view.started_at = first_start(f, job);
    if view.counts.total() <= FAILURES_LOOKED_AT {
        describe_end(f, &mut view, job.id, None, who);
    }
    view
}

/// Of jobs in a list, how many tasks one may have for its failures to be looked at.
const FAILURES_LOOKED_AT: u64 = 10_000;

/// How the tasks of a job, or one of them, ended that did not succeed, as someone may see it.
pub(crate) fn failures(
    f: &Reader<'_>,
    job: JobId,
    task: Option<TaskId>,
    who: &Caller,
) -> Option<outcome_text::Failures> {
    let mut groups = f.history().failures(job, task).unwrap_or_default();
    for (_, row) in &mut groups {
        as_seen_by(who, std::slice::from_mut(row));
    }
    outcome_text::Failures::of(groups)
}

/// Says of a job that is over, and did not succeed, how it ended; gives the attempt to look at.
pub(crate) fn describe_end(
    f: &Reader<'_>,
    view: &mut JobView,
    job: JobId,
    task: Option<TaskId>,
    who: &Caller,
) -> Option<AttemptId> {
    view.outcome.filter(|outcome| *outcome != Outcome::Succeeded)?;
    let only_task = view.counts.total() == 1;
    match failures(f, job, task, who) {
        Some(failures) => {
            view.why = Some(failures.words(only_task));
            view.log_of = (!only_task).then(|| failures.name());
            failures.example.started.map(|_| failures.example.attempt)
        }
        None => {
            let waited = view.outcome == Some(Outcome::Cancelled);
            let before = waited.then(|| "was cancelled before it started".to_owned());
            view.why = view.why.take().or(before.filter(|_| only_task));
            None
        }
    }
}

/// When a job's first attempt began; only the tables remember, once that attempt is over.
fn first_start(f: &Reader<'_>, job: &Job) -> Option<Timestamp> {
    if never_tried(job) {
        return None;
    }
    f.history().first_start(job.id).ok().flatten().map(time)
}

/// Whether the tables know nothing of a job: in a long queue that is nearly every one.
fn never_tried(job: &Job) -> bool {
    job.nodes.iter().all(|node| node.live.is_empty() && node.done.total() == 0)
}

/// A job (or part of it) whole, as someone may see it: with attempts, and arrays unfolded from a task on if asked.
pub(crate) fn whole(
    f: &Reader<'_>,
    job: &Job,
    target: TaskSelector,
    expand_from: Option<u64>,
    who: &Caller,
) -> JobView {
    let mut view = folded(f, job, target, who);
    let from = expand_from.unwrap_or(0);
    let unfold = expand_from.is_some() || matches!(target, TaskSelector::Task(_));
    let mut shown = Vec::new();
    let mut seen = 0u64;
    'page: for n in nodes_of(job, target) {
        let spec = &job.spec.tasks[n as usize];
        let node = NodeId { job: job.id, node: n };
        if spec.array.is_some() && !unfold {
            shown.push(folded_task(f, job, node));
            continue;
        }
        for index in target.positions(node, spec.len()) {
            seen += 1;
            if seen <= from {
                continue;
            }
            if shown.len() >= TASKS_PER_PAGE {
                view.next = Some((seen - 1).to_string());
                break 'page;
            }
            shown.push(task(f, job, node.task(index), who));
        }
    }
    view.started_at = first_start(f, job);
    view.tasks = shown;
    explain_hold(&mut view);
    view
}

fn nodes_of(job: &Job, target: TaskSelector) -> Vec<u32> {
    match target {
        TaskSelector::Job(_) => (0..job.nodes.len() as u32).collect(),
        TaskSelector::Node(n) | TaskSelector::Range { node: n, .. } => vec![n.node],
        TaskSelector::Task(t) => vec![t.node],
    }
}

fn folded(f: &Reader<'_>, job: &Job, target: TaskSelector, who: &Caller) -> JobView {
    let cluster = f.cluster();
    let mut sums = <(StateCounts, OutcomeCounts)>::default();
    let nodes = nodes_of(job, target);
    match target {
        TaskSelector::Task(t) => add(&mut sums, one(cluster, t)),
        _ => nodes.iter().for_each(|&n| add(&mut sums, tally(job, &job.nodes[n as usize]))),
    }
    let (counts, outcomes) = sums;
    let state = overall(counts);
    let gpus = nodes.iter().map(|&n| u32::from(job.spec.tasks[n as usize].needs.gpus)).max().unwrap_or(0);
    let due = job.spec.deadline.map(|deadline| job.submitted + deadline);
    let many = job.nodes.len() > 1 || job.spec.tasks[0].array.is_some();
    JobView {
        job: job.id.to_string(),
        name: job.spec.name.clone(),
        state,
        outcome: (state == State::Done).then(|| worst(outcomes)),
        user: job.user.clone(),
        priority: job.priority,
        project: job.spec.project.clone(),
        held: job.held,
        submitted_at: time(job.submitted),
        started_at: None,
        ended_at: job.finished.map(time),
        gpus,
        counts,
        outcomes,
        position: None,
        expected_start: None,
        expected_start_reason: None,
        deadline: due.map(time),
        deadline_missed: due.map(|due| job.finished.unwrap_or(f.now()) > due),
        log_tail: vec![],
        log_of: None,
        snapshot: job.spec.snapshot.as_ref().filter(|_| who.owns(&job.user)).map(|kept| SnapshotView {
            snapshot: kept.id.clone(),
            from: kept.from.clone(),
            files: kept.files,
            bytes: kept.bytes,
        }),
        why: if many && state == State::Running {
            Some(progress(counts))
        } else {
            why::of_job(cluster, job, f.now())
        },
        over_request: over_request(cluster, job, target),
        notes: vec![],
        runs: vec![],
        tasks: vec![],
        next: None,
    }
}

/// Where tasks of a job use more GPU memory than they requested, the first hundred of them.
fn over_request(cluster: &Cluster, job: &Job, target: TaskSelector) -> Vec<MemoryOveruse> {
    let nodes = nodes_of(job, target).into_iter().map(|node| NodeId { job: job.id, node });
    let shared = nodes.filter(|node| job.spec.tasks[node.node as usize].needs.gpu_memory.is_some());
    let tasks = shared.flat_map(|node| job.nodes[node.node as usize].live.keys().map(move |&i| node.task(i)));
    let over = |task: TaskId| {
        let requested_bytes = job.spec.tasks[task.node as usize].needs.gpu_memory?;
        let worker = cluster.view().attempt(task)?.0.placement.worker;
        let name = cluster.view().worker_name(worker);
        Some(cluster.over_request(task).map(move |(device, charged_bytes)| MemoryOveruse {
            task: task_name(cluster, task),
            gpu: format!("{name}/{device}"),
            requested_bytes,
            charged_bytes,
        }))
    };
    tasks.filter(|task| target.contains(*task)).filter_map(over).flatten().take(100).collect()
}

/// What tasks run, without their surroundings: for a list.
pub(crate) fn commands(job: &Job) -> Vec<ProgramView> {
    let run = |task: &TaskSpec| ProgramView {
        task: task.name.clone(),
        command: mask_command(&task.program.command),
        workdir: None,
        model: None,
        env: BTreeMap::new(),
        inherited: BTreeMap::new(),
    };
    job.spec.tasks.iter().map(run).collect()
}

/// Programs of the selected tasks, for callers that may see them. The inherited environment is given with the first alone,
/// since all tasks of a job have the same.
pub(crate) fn runs(cluster: &Cluster, job: &Job, target: TaskSelector) -> Vec<ProgramView> {
    let masked = |(name, value): (&String, &String)| (name.clone(), mask_value(name, value));
    let all = |env: &BTreeMap<String, String>| env.iter().map(masked).collect();
    let run = |node: u32| {
        let task = &job.spec.tasks[node as usize];
        ProgramView {
            task: task.name.clone(),
            command: mask_command(&task.program.command),
            workdir: task.program.workdir.clone(),
            model: task.model.as_deref().and_then(model_admission::model_in_words),
            env: all(&task.program.env),
            inherited: BTreeMap::new(),
        }
    };
    let mut runs: Vec<_> = nodes_of(job, target).into_iter().map(run).collect();
    if let (Some(first), Some(env)) = (runs.first_mut(), job.spec.env.and_then(|env| cluster.env(env))) {
        first.inherited = all(env);
    }
    runs
}

fn progress(counts: StateCounts) -> String {
    let now = counts.running + counts.placed;
    format!("{}/{} done, {now} running", counts.done, counts.total())
}

fn one(cluster: &Cluster, task: TaskId) -> (StateCounts, OutcomeCounts) {
    let mut sums = <(StateCounts, OutcomeCounts)>::default();
    if let Some(is) = cluster.state(task) {
        *sums.0.of(state(is)) += 1;
        if let TaskState::Done(ended) = is {
            *sums.1.of(outcome(ended)) += 1;
        }
    }
    sums
}

pub(crate) fn folded_task(f: &Reader<'_>, job: &Job, node: NodeId) -> TaskView {
    let cluster = f.cluster();
    let spec = &job.spec.tasks[node.node as usize];
    let (counts, outcomes) = tally(job, &job.nodes[node.node as usize]);
    let state = overall(counts);
    let array = spec.array.as_ref().and_then(|a| ArraySpec::new(a.ranges.iter().copied(), a.at_once).ok());
    let is_array = array.is_some();
    TaskView {
        name: spec.name.clone(),
        index: None,
        state,
        outcome: (state == State::Done).then(|| worst(outcomes)),
        exit_code: None,
        signal: None,
        reason: None,
        attempts: None,
        why: why::of_node(cluster, job, node, f.now()),
        array,
        counts: is_array.then_some(counts),
        outcomes: is_array.then_some(outcomes),
        terminal: terminal(spec),
        needs: Some(needs(cluster, spec)),
        timeout_seconds: spec.timeout.map(Span::secs),
        time_left_seconds: None,
        retries: Some(spec.retries),
    }
}

/// How much of its time an attempt that runs has left.
fn time_left(cluster: &Cluster, id: TaskId, now: Time) -> Option<f64> {
    let (attempt, spec) = cluster.view().attempt(id)?;
    let running = !matches!(cluster.state(id), Some(TaskState::Paused(_)));
    let lately = if attempt.started.is_some() && running { now.since(attempt.since) } else { Span::ZERO };
    Some((spec.timeout? - attempt.ran - lately).secs())
}

/// A task without its attempts, or an array folded.
fn listed_task(f: &Reader<'_>, job: &Job, node: NodeId, who: &Caller) -> TaskView {
    match job.spec.tasks[node.node as usize].array {
        Some(_) => folded_task(f, job, node),
        None => TaskView { attempts: None, ..task(f, job, node.task(0), who) },
    }
}

fn task(f: &Reader<'_>, job: &Job, id: TaskId, who: &Caller) -> TaskView {
    let mut rows = match never_tried(job) {
        true => Vec::new(),
        false => f.history().attempts_of(id.job, Some(id)).unwrap_or_default(),
    };
    as_seen_by(who, &mut rows);
    let cluster = f.cluster();
    let spec = &job.spec.tasks[id.node as usize];
    let is = cluster.state(id).expect("a job's task has a state");
    let attempts: Vec<_> = rows.iter().map(attempt).collect();
    let last = attempts.last();
    TaskView {
        name: spec.name.clone(),
        index: spec.array.as_ref().and_then(|a| a.value(id.index)),
        state: state(is),
        outcome: match is {
            TaskState::Done(ended) => Some(outcome(ended)),
            _ => None,
        },
        exit_code: last.and_then(|a| a.exit_code),
        signal: last.and_then(|a| a.signal),
        reason: last.and_then(|a| a.reason),
        why: held_by_loss(job, &rows).or_else(|| why::of_task(cluster, id, f.now())).or_else(|| {
            rows.last().filter(|_| matches!(is, TaskState::Done(_))).and_then(outcome_text::failure)
        }),
        attempts: Some(attempts),
        array: None,
        counts: None,
        outcomes: None,
        terminal: terminal(spec),
        needs: Some(needs(cluster, spec)),
        timeout_seconds: spec.timeout.map(Span::secs),
        time_left_seconds: time_left(cluster, id, f.now()),
        retries: Some(spec.retries),
    }
}

/// Leaves out of others' attempts why they did not start, for that names what they were to run, and where.
pub(crate) fn as_seen_by(who: &Caller, rows: &mut [AttemptRow]) {
    let lost = |row: &AttemptRow| row.outcome.as_deref() == Some(Outcome::Lost.word());
    // Its supervisor may have been seen running before the program turned out not to be there.
    let not_started = |row: &AttemptRow| {
        row.reason == Some(FailureReason::NotStarted) || (row.started.is_none() && !lost(row))
    };
    for row in rows.iter_mut().filter(|row| not_started(row) && !who.owns(&row.user)) {
        row.detail = None;
    }
}

/// What is to be known of a task that waits for someone's hand because it was lost.
fn held_by_loss(job: &Job, rows: &[AttemptRow]) -> Option<String> {
    let last = rows.last().filter(|row| job.held && row.outcome.as_deref() == Some(Outcome::Lost.word()))?;
    let how = last.detail.as_deref().map(|how| format!(" ({how})")).unwrap_or_default();
    Some(format!("{HELD_BY_LOSS}{how}; `warpyard release {}` lets it run again", job.id))
}

/// The same of a task by itself.
pub(crate) fn held_since_lost(f: &Reader<'_>, task: TaskId) -> Option<String> {
    let job = f.cluster().job(task.job).filter(|job| job.held)?;
    let rows = f.history().attempts_of(task.job, Some(task)).unwrap_or_default();
    held_by_loss(job, &rows)
}

/// A job that is held for what became of one of its tasks says so itself.
fn explain_hold(view: &mut JobView) {
    let says = |task: &TaskView| task.why.clone().filter(|why| why.starts_with(HELD_BY_LOSS));
    view.why = view.tasks.iter().find_map(says).or_else(|| view.why.take());
}

fn terminal(spec: &TaskSpec) -> Option<TerminalView> {
    spec.terminal.map(|terminal| TerminalView { idle: terminal.idle.map(|idle| Micros(idle.0)) })
}

pub(crate) fn attempt(row: &AttemptRow) -> AttemptView {
    AttemptView {
        number: row.attempt.number,
        worker: row.worker.clone(),
        devices: row.devices.iter().map(|d| format!("{}/{d}", row.worker)).collect(),
        started_at: row.started.map(time),
        ended_at: row.ended.map(time),
        outcome: row.outcome.as_deref().and_then(outcome_of_word),
        reason: row.reason,
        why: outcome_text::failure(row),
        exit_code: row.exit_code,
        signal: row.signal,
        peak_gpu_memory_bytes: row.peak_gpu_memory,
        peak_rss_bytes: row.peak_rss,
        cpu_seconds: row.ended.map(|_| row.cpu.secs()),
        gpu_seconds: row.gpu_seconds(),
    }
}

pub(crate) fn history_row(row: &AttemptRow, job: Option<&JobRow>) -> HistoryRow {
    HistoryRow {
        job: row.attempt.task.job.to_string(),
        name: row.job_name.clone(),
        task: row.task_name.clone(),
        index: row.array_index,
        user: row.user.clone(),
        project: job.and_then(|j| j.project.clone()),
        priority: job.map_or(0, |j| j.priority),
        submitted_at: time(job.map_or(row.placed, |j| j.submitted)),
        timeout_seconds: row.timeout.map(|t| t.secs()),
        attempt: attempt(row),
    }
}

/// A job that memory no longer holds, from the derived tables.
pub(crate) fn remembered(row: &JobRow, attempts: &[AttemptRow]) -> JobView {
    let mut by_task: BTreeMap<(u32, u32), Vec<&AttemptRow>> = BTreeMap::new();
    for a in attempts {
        by_task.entry((a.attempt.task.node, a.attempt.task.index)).or_default().push(a);
    }
    let ended = row.outcome.as_deref().and_then(outcome_of_word);
    let tasks = by_task.values().map(|rows| {
        let last = rows.last().expect("a group has a row");
        TaskView {
            name: last.task_name.clone(),
            index: last.array_index,
            state: State::Done,
            outcome: last.outcome.as_deref().and_then(outcome_of_word),
            exit_code: last.exit_code,
            signal: last.signal,
            reason: last.reason,
            attempts: Some(rows.iter().map(|r| attempt(r)).collect()),
            why: outcome_text::failure(last),
            array: None,
            counts: None,
            outcomes: None,
            terminal: None,
            needs: None,
            timeout_seconds: last.timeout.map(Span::secs),
            time_left_seconds: None,
            retries: None,
        }
    });
    let tasks: Vec<_> = tasks.collect();
    let mut outcomes = OutcomeCounts::default();
    for ended in tasks.iter().filter_map(|task| task.outcome) {
        *outcomes.of(ended) += 1;
    }
    JobView {
        job: row.job.to_string(),
        name: row.name.clone(),
        state: State::Done,
        outcome: ended,
        user: row.user.clone(),
        priority: row.priority,
        project: row.project.clone(),
        held: false,
        submitted_at: time(row.submitted),
        started_at: attempts.iter().filter_map(|a| a.started).min().map(time),
        ended_at: row.finished.map(time),
        gpus: attempts.iter().map(|a| a.devices.len() as u32).max().unwrap_or(0),
        counts: StateCounts { done: row.tasks, ..StateCounts::default() },
        outcomes,
        position: None,
        expected_start: None,
        expected_start_reason: None,
        deadline: None,
        deadline_missed: None,
        log_tail: vec![],
        log_of: None,
        snapshot: None,
        why: None,
        over_request: vec![],
        notes: vec![],
        runs: vec![],
        tasks,
        next: None,
    }
}
