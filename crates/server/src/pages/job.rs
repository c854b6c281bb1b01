//! The page of one job: its graph, tasks, attempts over time, requested against used resources, output, and in words
//! why it waits or how it ended.

use super::format::{
    TimeSpan, escape, escape_truncated, format_devices, format_size, format_span, percent, timestamp,
};
use super::graph::{self, Graph, Item};
use super::palette::Person;
use super::rows::Badge;
use super::table::encoded;
use super::{Chrome, Frame, PageError, html};
use crate::app::{AppState, CallerExtension};
use crate::caller::Caller;
use crate::model_admission::estimate_view;
use crate::output_tail;
use crate::replica::Reader;
use crate::store::AttemptRow;
use crate::summary::first_open;
use crate::{outcome_text, select, views, why};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use std::collections::BTreeMap;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{
    JobView, Outcome, ProgramView, StartRange, State as TaskState, TaskView, Timestamp,
};
use warpyard_core::command::TaskSelector;
use warpyard_core::spec::TaskSpec;
use warpyard_core::{JobId, NodeId, TaskId, Time};
use warpyard_worker::agent::Layout;

/// The most attempts on the timeline.
const ATTEMPTS: usize = 16;

/// The most attempts that are read from the history.
const ATTEMPTS_READ: u32 = 200;

/// The most tasks in the list.
const TASKS: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub(super) struct JobQuery {
    /// The task whose output is shown.
    task: Option<String>,
    index: Option<u32>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    chrome: Chrome,
    job: String,
    name: String,
    user: Person,
    project: String,
    priority: i64,
    badge: Badge,
    submitted: TimeSpan,
    ran: Option<TimeSpan>,
    /// The time until the first running task reaches its timeout.
    left: Option<TimeSpan>,
    ended: Option<TimeSpan>,
    done: u64,
    total: u64,
    /// Why it waits or how it ended, one sentence each.
    reasons: Vec<String>,
    went_wrong: bool,
    expected: Option<TimeSpan>,
    /// Why no start can be predicted, or what a wide range depends on.
    expected_reason: String,
    /// The deadline, and whether it was missed.
    deadline: String,
    graph: Option<Graph>,
    tasks: Vec<TaskRow>,
    more_tasks: usize,
    attempts: Vec<AttemptBar>,
    more_attempts: usize,
    usage: Vec<UsageRow>,
    /// The programs of its tasks with their environments; empty for others' jobs.
    runs: Vec<Program>,
    log: Option<LogExcerpt>,
    can: AllowedActions,
}

/// The actions that the caller may take on the job in its present state.
struct AllowedActions {
    attach: bool,
    cancel: bool,
    retry: bool,
    run_again: bool,
    clone: bool,
    hold: bool,
    release: bool,
    pause: bool,
    resume: bool,
    prioritise: bool,
}

/// The program of a task.
struct Program {
    task: String,
    command: String,
    workdir: String,
    env: Vec<(String, String)>,
    /// The environment it inherited at submission.
    inherited: Vec<(String, String)>,
}

/// A row of the list of tasks.
struct TaskRow {
    name: String,
    badge: Badge,
    counts: String,
    needs: String,
    /// Where the memory request comes from, if its model was estimated.
    estimate: String,
    why: String,
}

/// An attempt on the timeline.
struct AttemptBar {
    task: String,
    number: u32,
    place: String,
    badge: Badge,
    x: f64,
    width: f64,
    took: Option<TimeSpan>,
    how: String,
}

/// A requested resource and how much of it was used.
struct UsageRow {
    task: String,
    what: &'static str,
    asked: String,
    used: String,
    meter: Option<f64>,
    over: bool,
}

/// The end of an attempt's output.
struct LogExcerpt {
    task: String,
    number: u32,
    key: String,
    from: String,
    whole: String,
    live: bool,
    text: String,
    cut: bool,
}

pub(super) async fn page(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(asked): Query<JobQuery>,
) -> Result<Response, PageError> {
    let (forecasts, layout, frame) = (app.forecasts.clone(), app.layout.clone(), Frame::of(&app, &headers));
    let selector = select::parse(&id, &who)?;
    let look = move |f: &Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector)?;
        let view = job_view(f, number, &who)?;
        let waiting =
            first_open(f.cluster(), TaskSelector::Job(number)).filter(|_| view.state == TaskState::Ready);
        let forecast = waiting.map(|task| (task, forecasts.latest_for(task)));
        let expected = forecast.as_ref().and_then(|(task, forecast)| forecast.of(*task));
        let expected = expected.map(|start| start.shown(|_| false));
        let mut attempts = f.history().attempts_lately(number, ATTEMPTS_READ)?;
        attempts.sort_by_key(|a| (a.placed, a.attempt));
        views::as_seen_by(&who, &mut attempts);
        let mine = who.owns(&view.user);
        Ok::<_, PageError>(JobPage::of(f, number, view, &attempts, expected, &asked, frame, &layout, mine))
    };
    Ok(html(StatusCode::OK, &app.engine.read(look).await??))
}

fn job_view(f: &Reader<'_>, number: JobId, who: &Caller) -> Result<JobView, PageError> {
    if let Some(job) = f.cluster().job(number) {
        return Ok(views::listed(f, job, None, who));
    }
    match f.history().job(number)? {
        Some(row) => Ok(views::remembered(&row, &[])),
        None => Err(select::unknown_job(number.0).into()),
    }
}

impl JobPage {
    #[expect(clippy::too_many_arguments, reason = "all of it is what one page shows, gathered once")]
    fn of(
        f: &Reader<'_>,
        id: JobId,
        view: JobView,
        attempts: &[AttemptRow],
        expected: Option<(Option<StartRange>, Option<String>)>,
        asked: &JobQuery,
        frame: Frame,
        layout: &Layout,
        mine: bool,
    ) -> JobPage {
        let at = f.now();
        let now = timestamp(at);
        let job = f.cluster().job(id);
        let specs = job.map(|j| &j.spec.tasks[..]).unwrap_or_default();
        let went_wrong = view.outcome.is_some_and(|o| o != Outcome::Succeeded);
        let started = view.started_at;
        let (range, reason) = expected.unwrap_or_default();
        JobPage {
            job: id.to_string(),
            name: escape(&view.name),
            user: frame.colours.person(&view.user, 60),
            project: escape(view.project.as_deref().unwrap_or_default()),
            priority: view.priority,
            badge: Badge::of(view.state, view.outcome),
            submitted: TimeSpan::since(view.submitted_at, now),
            ran: started.map(|s| match view.ended_at {
                Some(e) => TimeSpan::lasted(s, e),
                None => TimeSpan::since(s, now),
            }),
            left: time_left(attempts).map(|end| TimeSpan::until(timestamp(end), now)),
            ended: view.ended_at.map(|e| TimeSpan::since(e, now)),
            done: view.counts.done,
            total: view.counts.total(),
            reasons: reasons(f, id, &view, attempts, at),
            went_wrong,
            expected: range.map(|range| TimeSpan::range(range, now)),
            deadline: deadline(&view, now),
            expected_reason: escape(reason.as_deref().unwrap_or_default()),
            graph: graph::draw(&graph_items(&view, specs)),
            more_tasks: view.tasks.len().saturating_sub(TASKS),
            tasks: view
                .tasks
                .iter()
                .take(TASKS)
                .enumerate()
                .map(|(i, t)| task_row(t, specs.get(i)))
                .collect(),
            more_attempts: attempts.len().saturating_sub(ATTEMPTS),
            attempts: attempt_bars(&attempts[attempts.len().saturating_sub(ATTEMPTS)..], now),
            usage: usage(specs, attempts),
            runs: if mine { programs(f, id) } else { vec![] },
            can: allowed_actions(&view, mine, job.is_some()),
            log: chosen_attempt(attempts, asked).filter(|_| mine).map(|row| log_excerpt(row, layout)),
            chrome: Chrome::of(f, format!("{} {}", id, escape(&view.name)), "job", frame),
        }
    }
}

fn deadline(view: &JobView, now: Timestamp) -> String {
    let Some(due) = view.deadline else { return String::new() };
    let end = view.ended_at.unwrap_or(now);
    let apart = format_span((end.as_millis() - due.as_millis()).abs());
    match (view.deadline_missed, view.ended_at) {
        (Some(true), _) => format!("missed by {apart}"),
        (_, Some(_)) => "met".into(),
        (_, None) => format!("in {apart}"),
    }
}

fn allowed_actions(view: &JobView, mine: bool, known: bool) -> AllowedActions {
    let open = mine && view.state != TaskState::Done;
    AllowedActions {
        attach: open && view.tasks.iter().any(|task| task.terminal.is_some()),
        cancel: open,
        retry: mine && view.outcome.is_some_and(|o| o != Outcome::Succeeded),
        // A job that is only in the history cannot be run again.
        run_again: mine && known && !open,
        clone: mine && known,
        hold: open && !view.held,
        release: open && view.held,
        pause: open && view.counts.running > 0,
        resume: open && view.counts.paused > 0,
        prioritise: open,
    }
}

/// When the first running attempt reaches its timeout.
fn time_left(attempts: &[AttemptRow]) -> Option<Time> {
    let running = attempts.iter().filter(|row| row.ended.is_none());
    running.filter_map(|row| Some(Time(row.started?.0 + row.timeout?.0))).min()
}

/// The most variables of an environment that are shown.
const VARIABLES: usize = 200;

/// The most tasks whose programs are shown.
const RUNS: usize = 12;

fn programs(f: &Reader<'_>, id: JobId) -> Vec<Program> {
    let Some(job) = f.cluster().job(id) else { return vec![] };
    let some = |env: &BTreeMap<String, String>| {
        env.iter().take(VARIABLES).map(|(name, value)| (escape(name), escape_truncated(value, 400))).collect()
    };
    let run = |run: &ProgramView| Program {
        task: escape(&run.task),
        // A shell command is shown as it was written.
        command: escape_truncated(run.command.strip_prefix("sh -c ").unwrap_or(&run.command), 4_000),
        workdir: escape(run.workdir.as_deref().unwrap_or_default()),
        env: some(&run.env),
        inherited: some(&run.inherited),
    };
    let mut all: Vec<_> =
        views::runs(f.cluster(), job, TaskSelector::Job(id)).iter().take(RUNS).map(run).collect();
    // A directory that all tasks share is shown once.
    for i in (1..all.len()).rev() {
        if all[i].workdir == all[0].workdir {
            all[i].workdir.clear();
        }
    }
    all
}

fn graph_items(view: &JobView, specs: &[TaskSpec]) -> Vec<Item> {
    let item = |(task, spec): (&TaskView, &TaskSpec)| Item {
        name: escape(&task.name),
        badge: Badge::of(task.state, task.outcome),
        done: task.counts.map(|c| (c.done, c.total())),
        after: spec.after.iter().map(|a| a.node as usize).collect(),
    };
    view.tasks.iter().zip(specs).map(item).collect()
}

fn task_row(task: &TaskView, spec: Option<&TaskSpec>) -> TaskRow {
    let counts = task.counts.map(|mut counts| {
        // Ended tasks are counted by outcome instead.
        let open = TaskState::ALL.into_iter().rev().filter(|s| *s != TaskState::Done);
        let open = open.map(|s| (*counts.of(s), s.word().to_owned())).collect::<Vec<_>>();
        let ended = task
            .outcomes
            .into_iter()
            .flat_map(|mut outcomes| Outcome::ALL.map(|o| (*outcomes.of(o), Badge::ended(o).label())));
        let parts = ended.chain(open).filter(|(n, _)| *n > 0).collect::<Vec<_>>();
        match &parts[..] {
            [(n, _)] => format!("{n} tasks"),
            several => several.iter().map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", "),
        }
    });
    let needs = spec.map(|s| escape(&why::needs_in_words(s))).unwrap_or_default();
    // A task that only waits for room would repeat its needs here.
    let why = escape(task.why.as_deref().filter(|why| *why != needs).unwrap_or_default());
    let badge = Badge::of(task.state, task.outcome);
    let estimate = spec.and_then(estimate_view).map(|estimate| estimate.text).unwrap_or_default();
    TaskRow { name: escape(&task.name), badge, counts: counts.unwrap_or_default(), needs, estimate, why }
}

/// Why a job waits, or how it ended.
fn reasons(f: &Reader<'_>, id: JobId, view: &JobView, attempts: &[AttemptRow], now: Time) -> Vec<String> {
    let cluster = f.cluster();
    let mut said = Vec::new();
    if view.held {
        said.push(format!("It is held; `warpyard release {id}` lets it go on."));
    }
    match (view.state, view.outcome) {
        (TaskState::Done, Some(Outcome::Succeeded)) => said.push("Every task succeeded.".into()),
        (TaskState::Done, _) => {
            let many = view.counts.total() > 3;
            said.extend(
                view.why
                    .clone()
                    .filter(|_| many)
                    .map(|why| format!("Of {} tasks, {why}.", view.counts.total())),
            );
            let bad = attempts.iter().rev().filter(|a| a.outcome.as_deref() != Some("succeeded"));
            let bad = bad.filter(|a| is_last(a, attempts));
            for row in bad.take(3) {
                said.push(format!("{} {}.", attempt_name(row), how_ended(row)));
            }
            let skipped = view.tasks.iter().filter(|t| t.outcome == Some(Outcome::Skipped)).take(3);
            said.extend(skipped.map(|t| match &t.why {
                Some(why) => format!("{} never ran, because {why}.", t.name),
                None => format!("{} never ran.", t.name),
            }));
            if said.is_empty() {
                let word = view.outcome.map_or("over", Outcome::word);
                said.push(format!("It is {word}."));
            }
        }
        (TaskState::Running, _) => said.extend(view.why.clone().map(|w| format!("{w}."))),
        _ => {
            let open = first_open(cluster, TaskSelector::Job(id));
            if let Some(answer) = open.and_then(|task| why::explain(f, task, now)) {
                said.push(format!("Waiting: {}.", answer.text.join("; ")));
                if let Some(place) = answer.position {
                    said.push(format!("Position {place} in the queue."));
                }
                let ahead = answer.ahead.iter().map(|a| format!("{} of {} ({})", a.task, a.user, a.because));
                let ahead: Vec<_> = ahead.collect();
                if !ahead.is_empty() {
                    said.push(format!("Ahead of it: {}.", ahead.join(", ")));
                }
            }
        }
    }
    said.iter().map(|s| escape(s)).collect()
}

/// Whether it is the last attempt of its task.
fn is_last(row: &AttemptRow, among: &[AttemptRow]) -> bool {
    let after = |a: &AttemptRow| a.attempt.task == row.attempt.task && a.attempt.number > row.attempt.number;
    !among.iter().any(after)
}

pub(super) fn attempt_name(row: &AttemptRow) -> String {
    match row.array_index {
        Some(index) => format!("{}[{index}]", row.task_name),
        None => row.task_name.clone(),
    }
}

/// How an attempt ended, or that it has not, as the end of a sentence.
pub(super) fn how_ended(row: &AttemptRow) -> String {
    let under_way = if row.started.is_none() { "starting" } else { "running" };
    outcome_text::words(row).unwrap_or_else(|| under_way.to_owned())
}

fn badge_of(row: &AttemptRow) -> Badge {
    match row.outcome.as_deref() {
        None if row.started.is_none() => Badge::of(TaskState::Placed, None),
        None => Badge::of(TaskState::Running, None),
        Some(word) => match views::outcome_of_word(word) {
            Some(outcome) => Badge::ended(outcome),
            None => Badge { word: "requeued", mark: "↺" },
        },
    }
}

fn attempt_bars(attempts: &[AttemptRow], now: Timestamp) -> Vec<AttemptBar> {
    let begin = attempts.iter().map(|a| a.placed).min().unwrap_or_default();
    let last = attempts.iter().map(|a| a.ended.map_or(now, timestamp)).max().unwrap_or(now);
    let whole = (last.as_millis() - timestamp(begin).as_millis()).max(1) as u64;
    let bar = |row: &AttemptRow| {
        let from = row.started.unwrap_or(row.placed);
        let to = row.ended.map_or(now, timestamp);
        let lead = (timestamp(from).as_millis() - timestamp(begin).as_millis()).max(0) as u64;
        let took = (to.as_millis() - timestamp(from).as_millis()).max(0) as u64;
        let x = percent(lead, whole).min(99.0);
        AttemptBar {
            task: escape(&attempt_name(row)),
            number: row.attempt.number,
            place: format_devices([(row.worker.clone(), row.devices.clone())]),
            badge: badge_of(row),
            x,
            width: percent(took, whole).clamp(1.0, 100.0 - x),
            took: row.started.map(|s| match row.ended {
                Some(e) => TimeSpan::lasted(timestamp(s), timestamp(e)),
                None => TimeSpan::since(timestamp(s), now),
            }),
            how: escape(&how_ended(row)),
        }
    };
    attempts.iter().map(bar).collect()
}

/// Requested resources of tasks beside the peak use of their attempts.
fn usage(specs: &[TaskSpec], attempts: &[AttemptRow]) -> Vec<UsageRow> {
    let mut all = Vec::new();
    for (node, spec) in specs.iter().enumerate().take(12) {
        let rows = || attempts.iter().filter(|a| a.attempt.task.node as usize == node && a.ended.is_some());
        // The usage of a lost attempt is unknown.
        let rows = || rows().filter(|a| a.outcome.as_deref() != Some("lost"));
        let mut add = |what, asked: Option<(String, f64)>, used: Option<(String, f64)>| {
            let Some((used, amount)) = used else { return };
            let share =
                asked.as_ref().filter(|(_, limit)| *limit > 0.0).map(|(_, limit)| amount / limit * 100.0);
            all.push(UsageRow {
                task: escape(&spec.name),
                what,
                asked: asked.map_or_else(|| "not set".into(), |(words, _)| words),
                used,
                meter: share.map(|s| (s * 10.0).round().min(1000.0) / 10.0),
                over: share.is_some_and(|s| s > 100.0),
            });
        };
        let bytes = |b: u64| (format_size(b), b as f64);
        let peak = rows().filter_map(|a| a.peak_gpu_memory).max().filter(|b| *b > 0);
        add("GPU memory", spec.needs.gpu_memory.map(bytes), peak.map(bytes));
        let rss = rows().filter_map(|a| a.peak_rss).max();
        add("memory", Some(spec.needs.memory).filter(|m| *m > 0).map(bytes), rss.map(bytes));
        let time = |t: warpyard_core::Span| (format_span((t.0 / 1000) as i64), t.secs());
        add("time", spec.timeout.map(time), rows().map(|a| a.ran).max().map(time));
        // A very short attempt has no meaningful CPU rate: most of it is its start.
        let used_cpus = rows().filter(|a| a.ran.secs() >= 1.0).map(|a| a.cpu.secs() / a.ran.secs());
        let used_cpus = used_cpus.max_by(f64::total_cmp).map(|c| (format!("{c:.2} CPUs"), c));
        let asked_cpus = Some(spec.needs.cpus).filter(|c| *c > 0);
        add("CPUs", asked_cpus.map(|c| (format!("{} CPUs", MilliCpus(c)), f64::from(c) / 1000.0)), used_cpus);
    }
    all
}

/// The attempt whose output is shown: of the requested task, else one that failed, else one that is running, else the
/// last.
fn chosen_attempt<'a>(attempts: &'a [AttemptRow], asked: &JobQuery) -> Option<&'a AttemptRow> {
    let fits = |a: &&AttemptRow| {
        asked.task.as_ref().is_none_or(|t| *t == a.task_name)
            && asked.index.is_none_or(|i| a.array_index == Some(i))
    };
    let mine = || attempts.iter().rev().filter(fits);
    let wrong = |a: &&AttemptRow| {
        matches!(a.outcome.as_deref(), Some("failed" | "timed-out" | "lost")) && is_last(a, attempts)
    };
    let runs = |a: &&AttemptRow| a.ended.is_none();
    mine().find(runs).or_else(|| mine().find(wrong)).or_else(|| mine().next())
}

fn log_excerpt(row: &AttemptRow, layout: &Layout) -> LogExcerpt {
    let TaskId { job, node, index } = row.attempt.task;
    let (number, live) = (row.attempt.number, row.ended.is_none());
    let piece = output_tail::tail(layout, row.attempt).unwrap_or(output_tail::Piece {
        text: String::new(),
        next: 0,
        cut: false,
    });
    let spec = NodeId { job, node };
    let index_part = row.array_index.map(|i| format!("&index={i}")).unwrap_or_default();
    LogExcerpt {
        task: escape(&attempt_name(row)),
        number,
        key: format!("{}-{index}-{number}-{live}", spec.node),
        from: format!("/jobs/{job}/log?node={node}&position={index}&attempt={number}&from={}", piece.next),
        whole: format!("/v1/jobs/{job}/logs?task={}{index_part}&attempt={number}", encoded(&row.task_name)),
        live,
        text: piece.text,
        cut: piece.cut,
    }
}
