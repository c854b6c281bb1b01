//! Gavel's traces: tab-separated job type, command, directory, argument, data flag, steps, GPUs, weight, deadline and
//! arrival. They say how many steps a job has; how fast a step is on the GPUs meant is said when they are read.

use crate::workload::reading::{bad, seconds, whole};
use warpyard_core::spec::Preempt;

use crate::workload::{Location, ParsedTrace, RowProblem, TraceJob, TraceTask};

const FIELDS: usize = 10;

/// Whether a text looks like it.
pub fn looks_like(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| line.contains("(batch size") && line.split('\t').count() == FIELDS)
}

/// Reads jobs. `speed` gives the steps a second of a job type on so many GPUs, where that was measured.
pub fn read(text: &str, speed: impl Fn(&str, u32) -> Option<f64>) -> ParsedTrace {
    let mut reading = ParsedTrace::default();
    let rows = (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty());
    for (line, text) in rows {
        reading.enter(Location::Line(line), row(text, &speed));
    }
    reading.notes.push(
        "a job runs for its steps over its speed, has so many times that until its deadline, and saves and exits when asked"
            .to_owned(),
    );
    reading.count_from_the_first();
    reading
}

fn row(text: &str, speed: impl Fn(&str, u32) -> Option<f64>) -> Result<TraceJob, RowProblem> {
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    let [kind, _, _, _, _, steps, gpus, weight, slack, arrival] = fields[..] else {
        return Err(RowProblem::Columns { found: fields.len(), wanted: FIELDS });
    };
    let (steps, gpus): (u64, u16) = (whole("total_steps", steps)?, whole("scale_factor", gpus)?);
    let speed = speed(kind, u32::from(gpus)).filter(|speed| *speed > 0.0);
    let speed = speed.ok_or_else(|| bad("job_type", kind, "measured on that GPU type and number of GPUs"))?;
    let weight: f64 = weight.parse().map_err(|_| bad("weight", weight, "a number above 0"))?;
    if !(weight.is_finite() && weight > 0.0) {
        return Err(bad("weight", &weight.to_string(), "a number above 0"));
    }
    // How many times its own length it may take; −1 where it may take for ever.
    let slack: f64 = slack.parse().map_err(|_| bad("SLO", slack, "a number"))?;
    let runs = steps as f64 / speed;
    let task = TraceTask {
        runs,
        gpus,
        profile: Some(kind.to_owned()),
        steps: Some(steps),
        preempt: Preempt::Requeue,
        ..TraceTask::default()
    };
    let job = TraceJob::single(seconds("arrival", arrival)?, 0, "", task);
    let deadline = (slack > 0.0).then_some(slack * runs);
    Ok(TraceJob { weight: (weight != 1.0).then_some(weight), deadline, ..job })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_for_its_steps_over_its_speed() {
        let row = |kind, steps, gpus, slack| {
            format!("{kind}\tpython3 x\tdir\t-n\t1\t{steps}\t{gpus}\t1\t{slack}\t5.5\n")
        };
        let text = [
            row("A (batch size 1)", "100", 2, "1.2"),
            row("B (batch size 1)", "100", 1, "-1.000000"),
            row("A (batch size 1)", "x", 1, "-1.000000"),
        ];
        let reading = read(&text.concat(), |kind, gpus| (kind.starts_with('A') && gpus == 2).then_some(4.0));
        assert!(looks_like(&text.concat()));
        assert_eq!((reading.jobs.len(), reading.jobs[0].1.tasks[0].runs), (1, 25.0));
        assert_eq!(reading.jobs[0].1.deadline, Some(30.0), "from its own submission, not from the beginning");
        let bad: Vec<_> = reading.bad.iter().map(ToString::to_string).collect();
        assert_eq!(
            bad[0],
            "line 2: job_type: 'B (batch size 1)' is not measured on that GPU type and number of GPUs"
        );
        assert_eq!(bad[1], "line 3: total_steps: 'x' is not a whole number in its range");
    }
}
