//! `ps`: one line for each job.

use super::why::ordinal;
use super::{Align, Cell, Paint, Screen, Table};
use warpyard_api::text::shown;
use warpyard_api::wire::{JobView, Outcome, State};

/// The table of jobs.
pub(crate) fn table(jobs: &[JobView], screen: &Screen) -> String {
    let mut table = Table::new([
        ("ID", Align::Right),
        ("NAME", Align::Left),
        ("USER", Align::Left),
        ("ST", Align::Left),
        ("PRI", Align::Right),
        ("GPUS", Align::Right),
        ("WAIT/RUN", Align::Right),
        ("START", Align::Left),
        ("WHY", Align::Left),
    ]);
    for job in jobs {
        table.row([
            (&job.job).into(),
            (&job.name).into(),
            (&job.user).into(),
            state(job),
            job.priority.to_string().into(),
            job.gpus.to_string().into(),
            wait_or_run(job, screen).into(),
            start(job, screen).into(),
            remark(job).into(),
        ]);
    }
    table.render(screen)
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
    let title = format!("{} {}", shown(&job.job), shown(&job.name));
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
        insta::assert_snapshot!(table(&several(), &Screen::for_tests(None)), @r"
         ID  NAME        USER  ST         PRI  GPUS  WAIT/RUN  START         WHY
        412  train       ann   ready        0     2    3m 12s  14:20–14:35   4th: 2 GPUs on one worker
        408  sweep       bob   running      3     1   12m 40s                37/100 done, 8 running, 2 failed
          9  train       ann   held         0     2    3m 12s
         10  x\u{1b}[2J  ann   timed-out    0     2    1h 30m  Nov 14 12:00  ran into its timeout of 1h30m
        ");
    }

    #[test]
    fn ps_fits_the_terminal() {
        insta::assert_snapshot!(table(&several(), &Screen::for_tests(Some(80))), @r"
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
