//! `show`: one job in full, its tasks and their attempts.

use super::history::{gpu_time, outcome, place, size};
use super::time::format_span_secs;
use super::{Align, Cell, Paint, Screen, Table, jobs, why};
use std::fmt::Write;
use warpyard_api::quantity::ByteSize;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{JobView, Outcome, ProgramView, State, TaskView};

/// The whole answer.
pub(crate) fn text(job: &JobView, screen: &Screen) -> String {
    let mut out = head(job, screen);
    out.push('\n');
    out.push_str(&tasks(&job.tasks, screen));
    if job.runs.len() > 1 {
        out.push('\n');
        out.push_str(&runs(&job.runs, screen));
    }
    // Nothing is known of them once a job has left the server's memory.
    if job.tasks.len() > 1 && job.tasks.iter().any(|task| task.needs.is_some()) {
        out.push('\n');
        out.push_str(&limits(&job.tasks, screen));
    }
    out.push_str(&estimates(&job.tasks));
    let attempts = attempts(&job.tasks, screen);
    if !attempts.is_empty() {
        out.push('\n');
        out.push_str(&attempts);
    }
    if !job.log_tail.is_empty() {
        out.push('\n');
        out.push_str(&why::tail(&job.log_tail, job.log_of.as_ref().unwrap_or(&job.job)));
    }
    out
}

/// What each task needs and how long it may run, where there are several.
fn limits(tasks: &[TaskView], screen: &Screen) -> String {
    let mut table = Table::new([
        ("TASK", Align::Left),
        ("NEEDS", Align::Left),
        ("TIMEOUT", Align::Right),
        ("LEFT", Align::Right),
        ("RETRIES", Align::Right),
    ]);
    // The tasks of an array need the same; of those that also have as much time left, one row says so.
    let alike = |a: &TaskView, b: &TaskView| a.name == b.name && a.time_left_seconds == b.time_left_seconds;
    for group in tasks.chunk_by(alike) {
        let task = &group[0];
        let seconds = |seconds: Option<f64>| seconds.map_or("-".to_owned(), format_span_secs);
        let label = match group.last().filter(|_| group.len() > 1).and_then(|last| task.index.zip(last.index))
        {
            Some((first, last)) => format!("{}[{first}…{last}]", task.name),
            None => label(task),
        };
        table.row([
            label.into(),
            task.needs.as_ref().map(why::needs).unwrap_or_default().into(),
            seconds(task.timeout_seconds).into(),
            seconds(task.time_left_seconds).into(),
            task.retries.map(|retries| retries.to_string()).unwrap_or_default().into(),
        ]);
    }
    table.render(screen)
}

/// The estimate of each task that has one, where there are several tasks.
fn estimates(tasks: &[TaskView]) -> String {
    let several = tasks.len() > 1;
    let alike = |a: &TaskView, b: &TaskView| a.name == b.name;
    let estimated = tasks
        .chunk_by(alike)
        .filter(|_| several)
        .filter_map(|group| Some((group[0].name.as_str(), group[0].needs.as_ref()?.estimate.as_ref()?)));
    let lines = estimated.map(|(name, estimate)| {
        format!("  {}: {}\n", escape_controls(name), escape_controls(&estimate.text))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nestimates\n{lines}") }
}

/// When a job is due, and whether it is late.
fn deadline(job: &JobView, screen: &Screen) -> Option<String> {
    let due = job.deadline?;
    let late = match (job.deadline_missed, job.ended_at) {
        (Some(true), Some(ended)) => format!("missed by {}", screen.between(due, Some(ended))),
        (Some(true), None) => format!("missed {} ago", screen.since(due)),
        (_, Some(_)) => "met".to_owned(),
        (_, None) => format!("in {}", screen.between(screen.now, Some(due))),
    };
    Some(format!("{} ({late})", screen.clock_exact(due)))
}

/// What is to be said of the job as a whole.
fn head(job: &JobView, screen: &Screen) -> String {
    let title = format!("{} {}", escape_controls(&job.job), escape_controls(&job.name));
    let mut out = format!("{}\n", screen.paint(&title, Paint::Bold));
    let mut line = |label: &str, value: &str| {
        writeln!(out, "  {label:<10} {}", escape_controls(value)).expect("a string takes all");
    };
    let word = match (job.outcome, job.held) {
        (Some(outcome), _) => outcome.word().to_owned(),
        (None, true) => format!("{}, held", job.state.word()),
        (None, false) => job.state.word().to_owned(),
    };
    line("state", &word);
    let progress = jobs::progress(job);
    if !progress.is_empty() {
        line("progress", &progress);
    }
    line("user", &job.user);
    if let Some(project) = &job.project {
        line("project", project);
    }
    line("priority", &job.priority.to_string());
    if let Some(kept) = &job.snapshot {
        let id: String = kept.snapshot.chars().take(12).collect();
        let size = ByteSize(kept.bytes).rounded();
        line("snapshot", &format!("{id} of {} ({} files, {size})", kept.from, kept.files));
    }
    // A claim runs nothing.
    if let [run] = &job.runs[..]
        && !run.command.is_empty()
    {
        line("command", &run.command);
        run.workdir.iter().for_each(|dir| line("workdir", dir));
        run.model.iter().for_each(|model| line("model", model));
        if !run.env.is_empty() {
            line("env", &sets(run));
        }
    }
    if let Some(terminal) = job.tasks.iter().find_map(|task| task.terminal) {
        let way = if job.state < State::Done {
            format!("`warpyard attach {}`", job.job)
        } else {
            "gone".to_owned()
        };
        let idle = terminal.idle.map(|idle| format!("; ended when idle for {idle}")).unwrap_or_default();
        line("terminal", &format!("{way}{idle}"));
    }
    if let [task] = &job.tasks[..] {
        let needs = task.needs.as_ref().map(why::needs).unwrap_or_default();
        if !needs.is_empty() {
            line("needs", &needs);
        }
        if let Some(estimate) = task.needs.as_ref().and_then(|needs| needs.estimate.as_ref()) {
            line("estimate", &estimate.text);
            if let Some(expected) = estimate.expected_seconds {
                line("expected", &format!("{} by the estimate", format_span_secs(expected)));
            }
        }
        match (task.timeout_seconds, task.time_left_seconds) {
            (Some(limit), Some(left)) => {
                line("timeout", &format!("{}, {} left", format_span_secs(limit), format_span_secs(left)));
            }
            (Some(limit), None) => line("timeout", &format_span_secs(limit)),
            (None, _) if job.state < State::Done => line("timeout", "none"),
            (None, _) => {}
        }
        if let Some(retries @ 1..) = task.retries {
            let used = task.attempts.as_ref().map_or(0, |attempts| attempts.len().saturating_sub(1));
            line("retries", &format!("{retries}, {used} used"));
        }
    }
    if let Some(due) = deadline(job, screen) {
        line("deadline", &due);
    }
    line("submitted", &screen.clock_and_age(job.submitted_at));
    if let Some(started) = job.started_at {
        line("started", &screen.clock_and_age(started));
    }
    if let Some(ended) = job.ended_at {
        let ran = job.started_at.map(|started| format!(", ran {}", screen.between(started, Some(ended))));
        line("ended", &format!("{}{}", screen.clock_and_age(ended), ran.unwrap_or_default()));
    }
    if let Some(position) = job.position {
        line("position", &position.to_string());
    }
    match (job.expected_start, &job.expected_start_reason) {
        (Some(range), None) => line("starts", &screen.range(range)),
        (Some(range), Some(reason)) => line("starts", &format!("{}; {reason}", screen.range(range))),
        (None, Some(reason)) => line("starts", reason),
        (None, None) => {}
    }
    for over in &job.over_request {
        let [charged, requested] =
            [over.charged_bytes, over.requested_bytes].map(|bytes| ByteSize(bytes).rounded());
        line("over", &format!("{} uses {charged} of {}, requested {requested}", over.task, over.gpu));
    }
    job.notes.iter().for_each(|note| line("note", note));
    // While some of it runs, the progress above says as much.
    let told = !progress.is_empty() && State::Running <= job.state && job.state < State::Done;
    if let (Some(why), false) = (&job.why, told) {
        line("why", why);
    }
    out
}

/// The variables set for a task.
fn sets(run: &ProgramView) -> String {
    run.env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// What each task runs, where there are several.
fn runs(runs: &[ProgramView], screen: &Screen) -> String {
    let with_env = runs.iter().any(|run| !run.env.is_empty());
    let env = with_env.then_some(("ENV", Align::Left));
    let columns = [("TASK", Align::Left)].into_iter().chain(env).chain([("COMMAND", Align::Left)]);
    let mut table = Table::new(columns.collect::<Vec<_>>());
    for run in runs {
        let env = with_env.then(|| Cell::from(sets(run)));
        let cells = [Cell::from(run.task.as_str())].into_iter().chain(env);
        table.row_of(cells.chain([Cell::from(run.command.as_str())]).collect());
    }
    table.render(screen)
}

/// The table of tasks, an array in one line.
pub(crate) fn tasks(tasks: &[TaskView], screen: &Screen) -> String {
    let mut table = Table::new([
        ("TASK", Align::Left),
        ("ST", Align::Left),
        ("EXIT", Align::Right),
        ("TRIES", Align::Right),
        ("WHY", Align::Left),
    ]);
    for task in tasks {
        table.row([
            label(task).into(),
            state(task),
            exit(task.exit_code, task.signal).into(),
            task.attempts.as_ref().map(|attempts| attempts.len().to_string()).unwrap_or_default().into(),
            remark(task).into(),
        ]);
    }
    table.render(screen)
}

/// The table of attempts; empty where there are none.
pub(crate) fn attempts(tasks: &[TaskView], screen: &Screen) -> String {
    let mut table = Table::new([
        ("ATTEMPT", Align::Left),
        ("ON", Align::Left),
        ("STARTED", Align::Left),
        ("RAN", Align::Right),
        ("GPU TIME", Align::Right),
        ("PEAK GPU", Align::Right),
        ("PEAK RSS", Align::Right),
        ("OUTCOME", Align::Left),
    ]);
    let all: Vec<_> =
        tasks.iter().flat_map(|task| task.attempts.iter().flatten().map(move |a| (task, a))).collect();
    if all.is_empty() {
        return String::new();
    }
    for (task, attempt) in all {
        let started = attempt.started_at;
        table.row([
            format!("{} #{}", label(task), attempt.number).into(),
            place(attempt).into(),
            started.map(|started| screen.clock_exact(started)).unwrap_or_default().into(),
            started.map(|started| screen.between(started, attempt.ended_at)).unwrap_or_default().into(),
            gpu_time(attempt).into(),
            size(attempt.peak_gpu_memory_bytes).into(),
            size(attempt.peak_rss_bytes).into(),
            outcome(attempt),
        ]);
    }
    table.render(screen)
}

fn label(task: &TaskView) -> String {
    match (task.index, &task.array) {
        (Some(index), _) => format!("{}[{index}]", task.name),
        (None, Some(array)) => format!("{}[{array}]", task.name),
        (None, None) => task.name.clone(),
    }
}

fn state(task: &TaskView) -> Cell {
    match (task.outcome, task.state) {
        (Some(outcome), State::Done) => Cell::new(outcome.word(), Paint::of_outcome(outcome)),
        (_, state) => Cell::new(state.word(), Paint::of_state(state)),
    }
}

fn exit(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => String::new(),
    }
}

/// Why a task waits, or where the tasks of an array are.
fn remark(task: &TaskView) -> String {
    let mut parts = Vec::new();
    if let Some(mut counts) = task.counts {
        for state in State::ALL.into_iter().filter(|state| *state != State::Done) {
            let count = *counts.of(state);
            if count > 0 {
                parts.push(format!("{count} {}", state.word()));
            }
        }
    }
    if let Some(mut outcomes) = task.outcomes {
        for outcome in Outcome::ALL {
            let count = *outcomes.of(outcome);
            if count > 0 {
                parts.push(format!("{count} {}", outcome.word()));
            }
        }
    }
    let counts = parts.join(", ");
    match &task.why {
        Some(why) if counts.is_empty() => why.clone(),
        Some(why) => format!("{counts}; {why}"),
        None => counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::jobs::tests::{counts, job, outcomes};
    use serde_json::json;

    #[test]
    fn a_job_is_shown_with_its_tasks_and_attempts() {
        let attempt = json!({"number": 1, "worker": "gpu1", "devices": ["gpu1/0"],
            "started_at": "2026-11-15T14:01:00Z", "ended_at": "2026-11-15T14:02:30Z", "outcome": "failed",
            "exit_code": 3, "peak_gpu_memory_bytes": null, "peak_rss_bytes": 104857600, "cpu_seconds": 1.0,
            "gpu_seconds": 90.0});
        let job = job(json!({
            "name": "flow", "state": "running", "why": "4/12 done, 1 running", "project": "vision", "started_at": "2026-11-15T14:01:00Z",
            "counts": counts(json!({"done": 4, "running": 1, "ready": 6, "blocked": 1})),
            "outcomes": outcomes(json!({"succeeded": 3, "failed": 1})),
            "tasks": [
                {"name": "prep", "index": null, "state": "done", "outcome": "failed", "exit_code": 3,
                 "attempts": [attempt], "why": "exited with 3"},
                {"name": "sweep", "index": null, "state": "running", "outcome": null, "exit_code": null, "why": null,
                 "array": "1-10%2", "counts": counts(json!({"done": 3, "running": 1, "ready": 6})),
                 "outcomes": outcomes(json!({"succeeded": 3}))},
                {"name": "sum", "index": null, "state": "blocked", "outcome": null, "exit_code": null, "attempts": [],
                 "why": "waits for sweep"},
            ],
        }));
        insta::assert_snapshot!(text(&job, &Screen::for_tests(None)), @"
        412 flow
          state      running
          progress   4/12 done, 1 running, 1 failed
          user       ann
          project    vision
          priority   0
          submitted  14:00:00 (3m 12s ago)
          started    14:01:00 (2m 12s ago)

        TASK           ST       EXIT  TRIES  WHY
        prep           failed      3      1  exited with 3
        sweep[1-10%2]  running               6 ready, 1 running, 3 succeeded
        sum            blocked            0  waits for sweep

        ATTEMPT  ON      STARTED      RAN  GPU TIME  PEAK GPU  PEAK RSS  OUTCOME
        prep #1  gpu1/0  14:01:00  1m 30s    1m 30s         -   100 MiB  failed (exit 3)
        ");
    }
}
