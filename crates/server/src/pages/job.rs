//! One job: its graph, its tasks, its attempts over time, what it asked for against what it used, what it printed, and
//! in words why it waits or how it ended.

use super::graph::{self, Graph, Item};
use super::palette::Person;
use super::rows::Badge;
use super::table::encoded;
use super::words::{Moment, format_span, moment, percent, places, short_text, size, text};
use super::{Chrome, Frame, NoPage, html, log};
use crate::caller::Caller;
use crate::http::jobs::first_open;
use crate::http::{By, Shared};
use crate::replica::Reader;
use crate::store::AttemptRow;
use crate::{outcome_text, select, views, why};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use std::collections::BTreeMap;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{JobView, Outcome, ProgramView, StartRange, State as Standing, TaskView, Timestamp};
use warpyard_core::command::TaskSelector;
use warpyard_core::spec::TaskSpec;
use warpyard_core::{JobId, NodeId, TaskId, Time};
use warpyard_worker::agent::Layout;

/// How many attempts the page draws.
const ATTEMPTS: usize = 16;

/// How many it looks at.
const LOOKED_AT: u32 = 200;

/// How many tasks it lists.
const TASKS: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    /// Whose output is wanted.
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
    submitted: Moment,
    ran: Option<Moment>,
    /// Until the first running task reaches its timeout.
    left: Option<Moment>,
    ended: Option<Moment>,
    done: u64,
    total: u64,
    /// Why it waits, or how it ended, a sentence each.
    reasons: Vec<String>,
    went_wrong: bool,
    expected: Option<Moment>,
    /// Why no start can be named, or what it hinges on.
    expected_reason: String,
    /// When it is due, and whether that was missed.
    deadline: String,
    graph: Option<Graph>,
    tasks: Vec<Line>,
    more_tasks: usize,
    attempts: Vec<Bar>,
    more_attempts: usize,
    usage: Vec<Asking>,
    /// What tasks run, and in what environment; nothing of others' jobs.
    runs: Vec<Runs>,
    log: Option<Printed>,
    can: Can,
}

/// What can be done to a job as it is.
struct Can {
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

/// What a task runs.
struct Runs {
    task: String,
    command: String,
    workdir: String,
    env: Vec<(String, String)>,
    /// What it has of the environment it was submitted from.
    inherited: Vec<(String, String)>,
}

/// A task in the list.
struct Line {
    name: String,
    badge: Badge,
    counts: String,
    needs: String,
    why: String,
}

/// An attempt on the timeline.
struct Bar {
    task: String,
    number: u32,
    place: String,
    badge: Badge,
    x: f64,
    width: f64,
    took: Option<Moment>,
    how: String,
}

/// Something asked for, and what was used of it.
struct Asking {
    task: String,
    what: &'static str,
    asked: String,
    used: String,
    meter: Option<f64>,
    over: bool,
}

/// The end of a log.
struct Printed {
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
    State(app): Shared,
    Extension(who): By,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, NoPage> {
    let (forecasts, layout, frame) = (app.forecasts.clone(), app.layout.clone(), Frame::of(&app, &headers));
    let selector = select::parse(&id, &who)?;
    let look = move |f: &Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector)?;
        let view = whole(f, number, &who)?;
        let waiting =
            first_open(f.cluster(), TaskSelector::Job(number)).filter(|_| view.state == Standing::Ready);
        let forecast = waiting.map(|task| (task, forecasts.latest_for(task)));
        let expected = forecast.as_ref().and_then(|(task, forecast)| forecast.of(*task));
        let expected = expected.map(|start| start.told(|_| false));
        let mut attempts = f.history().attempts_lately(number, LOOKED_AT)?;
        attempts.sort_by_key(|a| (a.placed, a.attempt));
        views::as_seen_by(&who, &mut attempts);
        let mine = who.owns(&view.user);
        Ok::<_, NoPage>(JobPage::of(f, number, view, &attempts, expected, &asked, frame, &layout, mine))
    };
    Ok(html(StatusCode::OK, &app.engine.read(look).await??))
}

fn whole(f: &Reader<'_>, number: JobId, who: &Caller) -> Result<JobView, NoPage> {
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
        asked: &Asked,
        frame: Frame,
        layout: &Layout,
        mine: bool,
    ) -> JobPage {
        let at = f.now();
        let now = moment(at);
        let job = f.cluster().job(id);
        let specs = job.map(|j| &j.spec.tasks[..]).unwrap_or_default();
        let went_wrong = view.outcome.is_some_and(|o| o != Outcome::Succeeded);
        let started = view.started_at;
        let (range, reason) = expected.unwrap_or_default();
        JobPage {
            job: id.to_string(),
            name: text(&view.name),
            user: frame.colours.person(&view.user, 60),
            project: text(view.project.as_deref().unwrap_or_default()),
            priority: view.priority,
            badge: Badge::of(view.state, view.outcome),
            submitted: Moment::since(view.submitted_at, now),
            ran: started.map(|s| match view.ended_at {
                Some(e) => Moment::lasted(s, e),
                None => Moment::since(s, now),
            }),
            left: time_left(attempts).map(|end| Moment::until(moment(end), now)),
            ended: view.ended_at.map(|e| Moment::since(e, now)),
            done: view.counts.done,
            total: view.counts.total(),
            reasons: reasons(f, id, &view, attempts, at),
            went_wrong,
            expected: range.map(|range| Moment::range(range, now)),
            deadline: deadline(&view, now),
            expected_reason: text(reason.as_deref().unwrap_or_default()),
            graph: graph::draw(&items(&view, specs)),
            more_tasks: view.tasks.len().saturating_sub(TASKS),
            tasks: view.tasks.iter().take(TASKS).enumerate().map(|(i, t)| line(t, specs.get(i))).collect(),
            more_attempts: attempts.len().saturating_sub(ATTEMPTS),
            attempts: bars(&attempts[attempts.len().saturating_sub(ATTEMPTS)..], now),
            usage: usage(specs, attempts),
            runs: if mine { runs(f, id) } else { vec![] },
            can: can(&view, mine, job.is_some()),
            log: chosen(attempts, asked).filter(|_| mine).map(|row| printed(row, layout)),
            chrome: Chrome::of(f, format!("{} {}", id, text(&view.name)), "job", frame),
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

fn can(view: &JobView, mine: bool, known: bool) -> Can {
    let open = mine && view.state != Standing::Done;
    Can {
        attach: open && view.tasks.iter().any(|task| task.terminal.is_some()),
        cancel: open,
        retry: mine && view.outcome.is_some_and(|o| o != Outcome::Succeeded),
        // What is no longer in memory cannot be run again from there.
        run_again: mine && known && !open,
        clone: mine && known,
        hold: open && !view.held,
        release: open && view.held,
        pause: open && view.counts.running > 0,
        resume: open && view.counts.paused > 0,
        prioritise: open,
    }
}

/// When the first of the running attempts reaches its timeout.
fn time_left(attempts: &[AttemptRow]) -> Option<Time> {
    let running = attempts.iter().filter(|row| row.ended.is_none());
    running.filter_map(|row| Some(Time(row.started?.0 + row.timeout?.0))).min()
}

/// How many variables of an environment are shown.
const VARIABLES: usize = 200;

/// How many tasks are shown with what they run.
const RUNS: usize = 12;

fn runs(f: &Reader<'_>, id: JobId) -> Vec<Runs> {
    let Some(job) = f.cluster().job(id) else { return vec![] };
    let some = |env: &BTreeMap<String, String>| {
        env.iter().take(VARIABLES).map(|(name, value)| (text(name), short_text(value, 400))).collect()
    };
    let run = |run: &ProgramView| Runs {
        task: text(&run.task),
        // A line for the shell is shown as it was written.
        command: short_text(run.command.strip_prefix("sh -c ").unwrap_or(&run.command), 4_000),
        workdir: text(run.workdir.as_deref().unwrap_or_default()),
        env: some(&run.env),
        inherited: some(&run.inherited),
    };
    let mut all: Vec<_> =
        views::runs(f.cluster(), job, TaskSelector::Job(id)).iter().take(RUNS).map(run).collect();
    // A directory that all share is told once.
    for i in (1..all.len()).rev() {
        if all[i].workdir == all[0].workdir {
            all[i].workdir.clear();
        }
    }
    all
}

fn items(view: &JobView, specs: &[TaskSpec]) -> Vec<Item> {
    let item = |(task, spec): (&TaskView, &TaskSpec)| Item {
        name: text(&task.name),
        badge: Badge::of(task.state, task.outcome),
        done: task.counts.map(|c| (c.done, c.total())),
        after: spec.after.iter().map(|a| a.node as usize).collect(),
    };
    view.tasks.iter().zip(specs).map(item).collect()
}

fn line(task: &TaskView, spec: Option<&TaskSpec>) -> Line {
    let counts = task.counts.map(|mut counts| {
        // Those that are over are told by how they ended.
        let open = Standing::ALL.into_iter().rev().filter(|s| *s != Standing::Done);
        let open = open.map(|s| (*counts.of(s), s.word().to_owned())).collect::<Vec<_>>();
        let ended = task
            .outcomes
            .into_iter()
            .flat_map(|mut outcomes| Outcome::ALL.map(|o| (*outcomes.of(o), Badge::ended(o).said())));
        let parts = ended.chain(open).filter(|(n, _)| *n > 0).collect::<Vec<_>>();
        match &parts[..] {
            [(n, _)] => format!("{n} tasks"),
            several => several.iter().map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", "),
        }
    });
    let needs = spec.map(|s| text(&why::needs_in_words(s))).unwrap_or_default();
    // What only waits for room is said to need what it needs; once is enough.
    let why = text(task.why.as_deref().filter(|why| *why != needs).unwrap_or_default());
    let badge = Badge::of(task.state, task.outcome);
    Line { name: text(&task.name), badge, counts: counts.unwrap_or_default(), needs, why }
}

/// Why a job waits, or how it ended.
fn reasons(f: &Reader<'_>, id: JobId, view: &JobView, attempts: &[AttemptRow], now: Time) -> Vec<String> {
    let cluster = f.cluster();
    let mut said = Vec::new();
    if view.held {
        said.push(format!("It is held; `warpyard release {id}` lets it go on."));
    }
    match (view.state, view.outcome) {
        (Standing::Done, Some(Outcome::Succeeded)) => said.push("Every task succeeded.".into()),
        (Standing::Done, _) => {
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
        (Standing::Running, _) => said.extend(view.why.clone().map(|w| format!("{w}."))),
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
    said.iter().map(|s| text(s)).collect()
}

/// Whether no other try of the same task came after.
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

/// How an attempt ended, or that it has not, as the rest of a sentence.
pub(super) fn how_ended(row: &AttemptRow) -> String {
    let under_way = if row.started.is_none() { "starting" } else { "running" };
    outcome_text::words(row).unwrap_or_else(|| under_way.to_owned())
}

fn badge_of(row: &AttemptRow) -> Badge {
    match row.outcome.as_deref() {
        None if row.started.is_none() => Badge::of(Standing::Placed, None),
        None => Badge::of(Standing::Running, None),
        Some(word) => match views::outcome_of_word(word) {
            Some(outcome) => Badge::ended(outcome),
            None => Badge { word: "requeued", mark: "↺" },
        },
    }
}

fn bars(attempts: &[AttemptRow], now: Timestamp) -> Vec<Bar> {
    let begin = attempts.iter().map(|a| a.placed).min().unwrap_or_default();
    let last = attempts.iter().map(|a| a.ended.map_or(now, moment)).max().unwrap_or(now);
    let whole = (last.as_millis() - moment(begin).as_millis()).max(1) as u64;
    let bar = |row: &AttemptRow| {
        let from = row.started.unwrap_or(row.placed);
        let to = row.ended.map_or(now, moment);
        let lead = (moment(from).as_millis() - moment(begin).as_millis()).max(0) as u64;
        let took = (to.as_millis() - moment(from).as_millis()).max(0) as u64;
        let x = percent(lead, whole).min(99.0);
        Bar {
            task: text(&attempt_name(row)),
            number: row.attempt.number,
            place: places([(row.worker.clone(), row.devices.clone())]),
            badge: badge_of(row),
            x,
            width: percent(took, whole).clamp(1.0, 100.0 - x),
            took: row.started.map(|s| match row.ended {
                Some(e) => Moment::lasted(moment(s), moment(e)),
                None => Moment::since(moment(s), now),
            }),
            how: text(&how_ended(row)),
        }
    };
    attempts.iter().map(bar).collect()
}

/// What tasks asked for beside the most any of their attempts used.
fn usage(specs: &[TaskSpec], attempts: &[AttemptRow]) -> Vec<Asking> {
    let mut all = Vec::new();
    for (node, spec) in specs.iter().enumerate().take(12) {
        let rows = || attempts.iter().filter(|a| a.attempt.task.node as usize == node && a.ended.is_some());
        // Nobody knows what a lost one used.
        let rows = || rows().filter(|a| a.outcome.as_deref() != Some("lost"));
        let mut add = |what, asked: Option<(String, f64)>, used: Option<(String, f64)>| {
            let Some((used, amount)) = used else { return };
            let share =
                asked.as_ref().filter(|(_, limit)| *limit > 0.0).map(|(_, limit)| amount / limit * 100.0);
            all.push(Asking {
                task: text(&spec.name),
                what,
                asked: asked.map_or_else(|| "not set".into(), |(words, _)| words),
                used,
                meter: share.map(|s| (s * 10.0).round().min(1000.0) / 10.0),
                over: share.is_some_and(|s| s > 100.0),
            });
        };
        let bytes = |b: u64| (size(b), b as f64);
        let peak = rows().filter_map(|a| a.peak_gpu_memory).max().filter(|b| *b > 0);
        add("GPU memory", spec.needs.gpu_memory.map(bytes), peak.map(bytes));
        let rss = rows().filter_map(|a| a.peak_rss).max();
        add("memory", Some(spec.needs.memory).filter(|m| *m > 0).map(bytes), rss.map(bytes));
        let time = |t: warpyard_core::Span| (format_span((t.0 / 1000) as i64), t.secs());
        add("time", spec.timeout.map(time), rows().map(|a| a.ran).max().map(time));
        // What was over in no time has no rate worth telling: getting it started is most of what it used.
        let used_cpus = rows().filter(|a| a.ran.secs() >= 1.0).map(|a| a.cpu.secs() / a.ran.secs());
        let used_cpus = used_cpus.max_by(f64::total_cmp).map(|c| (format!("{c:.2} CPUs"), c));
        let asked_cpus = Some(spec.needs.cpus).filter(|c| *c > 0);
        add("CPUs", asked_cpus.map(|c| (format!("{} CPUs", MilliCpus(c)), f64::from(c) / 1000.0)), used_cpus);
    }
    all
}

/// The attempt whose output is shown: of the task that was asked for, else one that went wrong, else one that runs,
/// else the last.
fn chosen<'a>(attempts: &'a [AttemptRow], asked: &Asked) -> Option<&'a AttemptRow> {
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

fn printed(row: &AttemptRow, layout: &Layout) -> Printed {
    let TaskId { job, node, index } = row.attempt.task;
    let (number, live) = (row.attempt.number, row.ended.is_none());
    let piece =
        log::tail(layout, row.attempt).unwrap_or(log::Piece { text: String::new(), next: 0, cut: false });
    let spec = NodeId { job, node };
    let index_part = row.array_index.map(|i| format!("&index={i}")).unwrap_or_default();
    Printed {
        task: text(&attempt_name(row)),
        number,
        key: format!("{}-{index}-{number}-{live}", spec.node),
        from: format!("/jobs/{job}/log?node={node}&position={index}&attempt={number}&from={}", piece.next),
        whole: format!("/v1/jobs/{job}/logs?task={}{index_part}&attempt={number}", encoded(&row.task_name)),
        live,
        text: piece.text,
        cut: piece.cut,
    }
}
