//! Traces in JSON: a list of jobs, or one job a line.

use crate::workload::reading::entries;
use crate::workload::{Location, ParsedTrace, RowProblem, TraceError, TraceJob};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Reads one job a line.
pub fn read_lines(text: &str) -> ParsedTrace {
    let mut reading = ParsedTrace::default();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let job = serde_json::from_str(text).map_err(RowProblem::from);
        reading.enter(Location::Line(line), job.and_then(checked));
    }
    reading
}

/// Reads a list of jobs.
pub fn read_list(text: &str) -> Result<ParsedTrace, TraceError> {
    let mut reading = ParsedTrace::default();
    for (place, text) in entries(text)? {
        let job = serde_json::from_str(text).map_err(RowProblem::from);
        reading.enter(place, job.and_then(checked));
    }
    Ok(reading)
}

/// Writes one job a line.
pub fn write_lines(mut to: impl Write, jobs: impl Iterator<Item = TraceJob>) -> io::Result<()> {
    for job in jobs {
        serde_json::to_writer(&mut to, &job)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes a list of jobs.
pub fn write_list(mut to: impl Write, jobs: impl Iterator<Item = TraceJob>) -> io::Result<()> {
    let mut before = "[\n";
    for job in jobs {
        to.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut to, &job)?;
        before = ",\n";
    }
    to.write_all(if before == "[\n" { b"[]\n" } else { b"\n]\n" })
}

/// A job whose tasks have names of their own and wait only for those before them.
fn checked(job: TraceJob) -> Result<TraceJob, RowProblem> {
    if job.tasks.is_empty() {
        return Err(RowProblem::NoTasks);
    }
    let positive = |column, value: f64| match value.is_finite() && value >= 0.0 {
        true => Ok(()),
        false => Err(crate::workload::reading::bad(column, &value.to_string(), "a number of seconds")),
    };
    positive("submitted", job.submitted)?;
    let mut names = BTreeSet::new();
    for (at, task) in job.tasks.iter().enumerate() {
        positive("runs", task.runs)?;
        positive("timeout", task.timeout.unwrap_or(0.0))?;
        positive("expected", task.expected.unwrap_or(0.0))?;
        if !names.insert(&task.name) {
            return Err(RowProblem::SameName(task.name.clone()));
        }
        if let Some(later) = task.after.iter().find(|after| after.node as usize >= at) {
            return Err(RowProblem::NoSuchTask(later.node.to_string()));
        }
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_for_itself_is_no_job() {
        let text = r#"{"submitted":0,"tasks":[{"runs":1,"after":[{"node":0,"on":"ok"}]}]}
{"submitted":0,"tasks":[]}
{"submitted":1,"tasks":[{"runs":"ten"}]}
{"submitted":1,"tasks":[{"runs":-1}]}
{"submitted":1,"tasks":[{"runs":1}]}"#;
        let reading = read_lines(text);
        assert_eq!(reading.jobs.len(), 1);
        let bad: Vec<_> = reading.bad.iter().map(|bad| bad.place).collect();
        assert_eq!(bad, [1, 2, 3, 4].map(Location::Line));
        let listed = format!("[\n{}\n]", text.replace('\n', ",\n"));
        let reading = read_list(&listed).unwrap();
        assert_eq!(reading.jobs.len(), 1, "the others are told, not the end of all");
        let bad: Vec<_> = reading.bad.iter().map(|bad| bad.place.line()).collect();
        assert_eq!(bad, [2, 3, 4, 5]);
    }
}
