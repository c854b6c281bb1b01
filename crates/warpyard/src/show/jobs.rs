//! `ps`: one line for each job.

use super::why::ordinal;
use super::{Align, Cell, Paint, Screen, Table};
use crate::input::find_by_name;
use crate::usage_error::UsageError;
use nix::sys::signal::Signal;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{JobView, Outcome, State, Timestamp};

/// A column that `ps -o` can be asked for.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    heading: &'static str,
    align: Align,
    cell: fn(&JobView, &Screen) -> Cell,
}

/// The columns there are where none are named.
const USUAL: [&str; 9] = ["id", "name", "user", "state", "priority", "gpus", "time", "start", "why"];

/// A moment that may not have come.
fn moment(at: Option<Timestamp>, screen: &Screen) -> Cell {
    at.map(|at| screen.clock(at)).unwrap_or_default().into()
}

macro_rules! columns {
    ($($name:literal $heading:literal $align:ident $about:literal $cell:expr;)*) => {
        /// Every column.
        pub(crate) const COLUMNS: &[Column] = &[
            $(Column { name: $name, about: $about, heading: $heading, align: Align::$align, cell: $cell },)*
        ];
    };
}

columns! {
    "id" "ID" Right "job number" |job, _| (&job.job).into();
    "name" "NAME" Left "job name" |job, _| (&job.name).into();
    "user" "USER" Left "owner" |job, _| (&job.user).into();
    "project" "PROJECT" Left "project" |job, _| job.project.as_deref().unwrap_or_default().into();
    "state" "ST" Left "state, or outcome once it has ended" |job, _| state(job);
    "priority" "PRI" Right "priority; larger is more urgent" |job, _| job.priority.to_string().into();
    "gpus" "GPUS" Right "largest number of GPUs a task of it requests" |job, _| job.gpus.to_string().into();
    "time" "WAIT/RUN" Right "how long it has waited or run" |job, screen| wait_or_run(job, screen).into();
    "position" "POS" Right "position in the queue" |job, _| {
        job.position.map(|position| position.to_string()).unwrap_or_default().into()
    };
    "submitted" "SUBMITTED" Left "when it was submitted" |job, screen| moment(Some(job.submitted_at), screen);
    "started" "STARTED" Left "when its first task started" |job, screen| moment(job.started_at, screen);
    "ended" "ENDED" Left "when its last task ended" |job, screen| moment(job.ended_at, screen);
    "start" "START" Left "expected start, or when it started" |job, screen| start(job, screen).into();
    "tasks" "TASKS" Left "progress of a job of several tasks" |job, _| progress(job).into();
    "exit" "EXIT" Right "exit code of its only task, or the signal that ended it" |job, _| exit(job).into();
    "command" "COMMAND" Left "command with secrets masked; of your own jobs only" |job, _| command(job).into();
    "why" "WHY" Left "why it waits, how far it is, or why it ended" |job, _| remark(job).into();
}

/// The columns a list of names asks for; with a `+` before it, beside the usual ones.
pub(crate) fn chosen(names: Option<&str>) -> Result<Vec<&'static Column>, UsageError> {
    let (usual, named) = match names {
        None => (true, ""),
        Some(names) => names.strip_prefix('+').map_or((false, names), |more| (true, more)),
    };
    let usual = USUAL.into_iter().filter(|_| usual);
    let named = named.split(',').map(str::trim).filter(|name| !name.is_empty());
    let all = usual.chain(named).map(|name| find_by_name("column", name, COLUMNS, |column| column.name));
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    // `-o ,` names none, and a table of nothing helps nobody.
    if all.is_empty() { chosen(None) } else { Ok(all) }
}

/// The table of jobs.
pub(crate) fn table(jobs: &[JobView], columns: &[&Column], screen: &Screen) -> String {
    page(jobs, columns, screen, &mut None)
}

/// A page of it, with columns as wide as on those before.
pub(crate) fn page(
    jobs: &[JobView],
    columns: &[&Column],
    screen: &Screen,
    widths: &mut Option<Vec<usize>>,
) -> String {
    let headings: Vec<_> = columns.iter().map(|column| (column.heading, column.align)).collect();
    let mut table = Table::new(headings);
    for job in jobs {
        table.row_of(columns.iter().map(|column| (column.cell)(job, screen)).collect());
    }
    table.render_page(screen, widths)
}

/// What the only task of a job exited with, or the signal that ended it.
fn exit(job: &JobView) -> String {
    let [task] = job.tasks.as_slice() else { return String::new() };
    match (task.signal, task.exit_code) {
        (Some(number), _) => {
            Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
        }
        (None, Some(code)) => code.to_string(),
        (None, None) => String::new(),
    }
}

/// What the first task runs, and how many others there are.
fn command(job: &JobView) -> String {
    match job.runs.as_slice() {
        [] => String::new(),
        [only] => only.command.clone(),
        [first, more @ ..] => format!("{} (and {} more)", first.command, more.len()),
    }
}

/// The state in a word: how it ended once it has, and that it is held where it is.
pub(super) fn state(job: &JobView) -> Cell {
    match (job.outcome, job.state) {
        (Some(outcome), State::Done) => Cell::new(outcome.word(), Paint::of_outcome(outcome)),
        (_, State::Ready | State::Blocked) if job.held => Cell::new("held", Paint::Yellow),
        (_, state) => Cell::new(state.word(), Paint::of_state(state)),
    }
}

/// How long it has waited, runs or ran.
fn wait_or_run(job: &JobView, screen: &Screen) -> String {
    match (job.started_at, job.ended_at) {
        (Some(started), ended) => screen.between(started, ended),
        (None, ended) => screen.between(job.submitted_at, ended),
    }
}

/// When it will likely start, or did where that is over.
fn start(job: &JobView, screen: &Screen) -> String {
    match (job.expected_start, job.started_at) {
        (Some(range), None) => screen.range(range),
        (None, None) if job.expected_start_reason.is_some() => "unknown".to_owned(),
        (_, Some(started)) if job.state == State::Done => screen.clock(started),
        _ => String::new(),
    }
}

/// Why it waits, or how far it is.
fn remark(job: &JobView) -> String {
    let progress = progress(job);
    let place = job.position.filter(|_| job.state == State::Ready).map(ordinal);
    let why = match (place, &job.why) {
        (Some(place), Some(why)) => Some(format!("{place}: {why}")),
        (place, why) => place.or_else(|| why.clone()),
    };
    match (&why, progress.is_empty()) {
        (Some(why), true) => why.clone(),
        (Some(why), false) if job.state < State::Running => format!("{why}; {progress}"),
        (Some(why), false) if job.state == State::Done => format!("{progress}; {why}"),
        (_, false) => progress,
        (None, true) => String::new(),
    }
}

/// How far a job of several tasks is: "37/100 done, 8 running, 2 failed"; nothing for a job of one.
pub(crate) fn progress(job: &JobView) -> String {
    let total = job.counts.total();
    if total <= 1 {
        return String::new();
    }
    let (counts, mut outcomes) = (job.counts, job.outcomes);
    let mut parts = vec![format!("{}/{total} done", counts.done)];
    for (count, word) in [(counts.running, "running"), (counts.paused, "paused")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Succeeded) {
        let count = *outcomes.of(outcome);
        if count > 0 {
            parts.push(format!("{count} {}", outcome.word()));
        }
    }
    parts.join(", ")
}

/// How a job ended, in a line.
pub(crate) fn ended(job: &JobView, screen: &Screen) -> String {
    let title = format!("{} {}", escape_controls(&job.job), escape_controls(&job.name));
    match (job.outcome, job.started_at, job.ended_at) {
        (Some(outcome), Some(started), Some(ended)) => {
            format!("{title}  {} after {}\n", outcome.word(), screen.between(started, Some(ended)))
        }
        (Some(outcome), _, _) => format!("{title}  {}\n", outcome.word()),
        (None, _, _) => format!("{title}  still {}\n", job.state.word()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A job of one waiting task, with some fields changed.
    pub(crate) fn job(changes: Value) -> JobView {
        let mut job = json!({
            "job": "412", "name": "train", "state": "ready", "outcome": null, "user": "ann", "priority": 0,
            "project": null, "held": false, "submitted_at": "2026-11-15T14:00:00.000Z", "started_at": null,
            "ended_at": null, "gpus": 2, "counts": counts(json!({"ready": 1})), "outcomes": outcomes(json!({})),
            "why": null, "tasks": [],
        });
        merge(&mut job, changes);
        serde_json::from_value(job).expect("a job")
    }

    pub(crate) fn counts(changes: Value) -> Value {
        let mut counts = json!({"blocked": 0, "ready": 0, "placed": 0, "running": 0, "paused": 0, "stopping": 0,
                                "done": 0});
        merge(&mut counts, changes);
        counts
    }

    pub(crate) fn outcomes(changes: Value) -> Value {
        let mut outcomes = json!({"succeeded": 0, "failed": 0, "timed-out": 0, "cancelled": 0, "lost": 0,
                                  "skipped": 0});
        merge(&mut outcomes, changes);
        outcomes
    }

    pub(crate) fn merge(into: &mut Value, changes: Value) {
        let Value::Object(changes) = changes else { panic!("{changes}") };
        into.as_object_mut().expect("an object").extend(changes);
    }

    fn several() -> Vec<JobView> {
        vec![
            job(json!({"why": "2 GPUs on one worker", "position": 4,
                "expected_start": {"low": "2026-11-15T14:20:00Z", "high": "2026-11-15T14:35:00Z", "of": 0.8}})),
            job(
                json!({"job": "408", "name": "sweep", "user": "bob", "state": "running", "priority": 3, "gpus": 1,
                "started_at": "2026-11-15T13:50:32Z",
                "counts": counts(json!({"done": 37, "running": 8, "ready": 55})),
                "outcomes": outcomes(json!({"succeeded": 35, "failed": 2}))}),
            ),
            job(json!({"job": "9", "held": true})),
            job(json!({"job": "10", "name": "x\u{1b}[2J", "state": "done", "outcome": "timed-out",
                "started_at": "2026-11-14T12:00:00Z", "ended_at": "2026-11-14T13:30:00Z",
                "why": "ran into its timeout of 1h30m"})),
        ]
    }

    #[test]
    fn ps_looks_like_squeue() {
        insta::assert_snapshot!(table(&several(), &chosen(None).unwrap(), &Screen::for_tests(None)), @r"
         ID  NAME        USER  ST         PRI  GPUS  WAIT/RUN  START         WHY
        412  train       ann   ready        0     2    3m 12s  14:20–14:35   4th: 2 GPUs on one worker
        408  sweep       bob   running      3     1   12m 40s                37/100 done, 8 running, 2 failed
          9  train       ann   held         0     2    3m 12s
         10  x\u{1b}[2J  ann   timed-out    0     2    1h 30m  Nov 14 12:00  ran into its timeout of 1h30m
        ");
    }

    #[test]
    fn columns_can_be_chosen() {
        let failed =
            job(json!({"state": "done", "outcome": "failed", "runs": [{"task": "train", "command": "./a"}],
            "tasks": [{"name": "train", "index": null, "state": "done", "outcome": "failed", "exit_code": 3,
                       "why": null}]}));
        let killed = job(json!({"job": "9", "state": "done", "outcome": "failed",
            "runs": [{"task": "a", "command": "./a"}, {"task": "b", "command": "./b"}, {"task": "c", "command": "./c"}],
            "tasks": [{"name": "train", "index": null, "state": "done", "outcome": "failed", "exit_code": null,
                       "signal": 9, "why": null}]}));
        let columns = chosen(Some("id,exit,command")).unwrap();
        insta::assert_snapshot!(table(&[failed, killed], &columns, &Screen::for_tests(None)), @"
         ID     EXIT  COMMAND
        412        3  ./a
          9  SIGKILL  ./a (and 2 more)
        ");
        let names = |text| chosen(Some(text)).unwrap().iter().map(|c| c.name).collect::<Vec<_>>();
        assert_eq!(names("+exit"), [&USUAL[..], &["exit"]].concat());
        let wrong = chosen(Some("id,exti")).err().expect("no such column").to_string();
        assert!(wrong.starts_with("no column is called 'exti'; did you mean 'exit'?"), "{wrong}");
    }

    #[test]
    fn ps_fits_the_terminal() {
        insta::assert_snapshot!(table(&several(), &chosen(None).unwrap(), &Screen::for_tests(Some(80))), @r"
         ID  NAME        USER  ST         PRI  GPUS  WAIT/RUN  START         WHY
        412  train       ann   ready        0     2    3m 12s  14:20–14:35   4th: 2 GPU…
        408  sweep       bob   running      3     1   12m 40s                37/100 don…
          9  train       ann   held         0     2    3m 12s
         10  x\u{1b}[2J  ann   timed-out    0     2    1h 30m  Nov 14 12:00  ran into i…
        ");
    }

    #[test]
    fn each_end_is_said() {
        let failed = job(json!({"state": "done", "outcome": "failed", "started_at": "2026-11-15T14:00:00Z",
                               "ended_at": "2026-11-15T14:01:05Z"}));
        let screen = Screen::for_tests(None);
        assert_eq!(ended(&failed, &screen), "412 train  failed after 1m 05s\n");
        assert_eq!(ended(&job(json!({})), &screen), "412 train  still ready\n");
    }
}
