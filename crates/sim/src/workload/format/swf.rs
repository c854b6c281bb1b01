//! The Standard Workload Format: 18 numbers a line, `;` begins a comment, -1 is unknown. It knows processors, not GPUs;
//! how many processors stand for a GPU is said when it is read.

use crate::workload::reading::bad;
use crate::workload::{Location, ParsedTrace, RowProblem, TraceJob, TraceTask};
use std::collections::BTreeMap;
use std::io::{self, Write};

const FIELDS: usize = 18;

/// Whether a text looks like it: the first line that is no comment has 18 numbers.
pub fn looks_like(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(';'));
    first.is_some_and(|line| {
        line.split_whitespace().count() == FIELDS && line.split_whitespace().all(|n| n.parse::<f64>().is_ok())
    })
}

/// Reads a workload, taking so many processors for a GPU.
pub fn read(text: &str, processors_per_gpu: u32) -> ParsedTrace {
    let mut reading = ParsedTrace::default();
    let mut chained = 0u64;
    let rows = (1..).zip(text.lines()).map(|(line, text)| (line, text.trim()));
    for (line, text) in rows.filter(|(_, text)| !text.is_empty() && !text.starts_with(';')) {
        match row(text, processors_per_gpu.max(1)) {
            Ok(Row::Job(job, follows)) => {
                chained += u64::from(follows);
                reading.enter(Location::Line(line), Ok(job));
            }
            Ok(Row::NeverRan) => reading.leave_out("a job that never ran"),
            Err(why) => reading.enter(Location::Line(line), Err(why)),
        }
    }
    reading.notes.push(match processors_per_gpu {
        0 | 1 => "a processor is taken for a GPU; --processors-per-gpu says otherwise".to_owned(),
        n => format!("{n} processors are taken for a GPU"),
    });
    if chained > 0 {
        reading.notes.push(format!(
            "jobs that name one before them, and are submitted when they were all the same: {chained}"
        ));
    }
    reading.count_from_the_first();
    reading
}

enum Row {
    Job(TraceJob, bool),
    NeverRan,
}

fn row(text: &str, processors_per_gpu: u32) -> Result<Row, RowProblem> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS {
        return Err(RowProblem::Columns { found: fields.len(), wanted: FIELDS });
    }
    let known = |at: usize, column| -> Result<Option<f64>, RowProblem> {
        let number: f64 = fields[at].parse().map_err(|_| bad(column, fields[at], "a number"))?;
        if number == -1.0 {
            return Ok(None);
        }
        if number.is_finite() && number >= 0.0 {
            Ok(Some(number))
        } else {
            Err(bad(column, fields[at], "a number that is not negative, or -1"))
        }
    };
    let submitted = known(1, "submit time")?.ok_or(RowProblem::Missing("submit time"))?;
    let runs = known(3, "run time")?;
    let status = known(10, "status")?;
    let Some(runs) = runs.filter(|runs| *runs > 0.0 || status == Some(1.0)) else { return Ok(Row::NeverRan) };
    let (asked, allocated) = (known(7, "requested processors")?, known(4, "allocated processors")?);
    let processors = asked.or(allocated).ok_or(RowProblem::Missing("processors"))?;
    let gpus = (processors / f64::from(processors_per_gpu)).ceil();
    if gpus > f64::from(u16::MAX) {
        return Err(bad("processors", fields[7], "a number of GPUs a server could have"));
    }
    let memory = known(9, "requested memory")?.or(known(6, "used memory")?).unwrap_or(0.0);
    let user = known(11, "user")?;
    let task = TraceTask {
        runs,
        timeout: known(8, "requested time")?.filter(|seconds| *seconds > 0.0),
        gpus: gpus as u16,
        memory: (memory * 1024.0 * processors) as u64,
        exit: i32::from(status == Some(0.0)),
        ..TraceTask::default()
    };
    let user = user.map_or_else(String::new, |user| format!("user{user}"));
    let job = TraceJob { id: fields[0].to_owned(), ..TraceJob::single(submitted, 0, user, task) };
    Ok(Row::Job(job, known(16, "preceding job")?.is_some()))
}

/// What was lost by writing jobs that say more than the format can.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DroppedFields {
    /// Edges between tasks, which become jobs of their own.
    pub edges: u64,
    /// Priorities other than 0.
    pub priorities: u64,
    /// Tasks of which something else cannot be said: GPU memory and types, processors, guesses, ways to give way, steps,
    /// weights and deadlines.
    pub needs: u64,
}

/// Writes jobs, each task as a job of its own; a GPU becomes a processor. Gives what could not be written.
pub fn write(mut to: impl Write, jobs: impl Iterator<Item = TraceJob>) -> io::Result<DroppedFields> {
    let mut dropped = DroppedFields::default();
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    writeln!(to, "; Version: 2.2\n; Note: a processor is a GPU; times in seconds; -1 is unknown")?;
    let mut number = 0u64;
    for job in jobs {
        let next = users.len() + 1;
        let user = *users.entry(job.user.clone()).or_insert(next);
        dropped.priorities += u64::from(job.priority != 0);
        for task in &job.tasks {
            number += 1;
            dropped.edges += task.after.len() as u64;
            dropped.needs += u64::from(says_more(&job, task));
            let timeout = task.timeout.map_or(-1.0, |seconds| seconds);
            let memory = match task.memory {
                0 => -1.0,
                bytes => bytes as f64 / 1024.0 / f64::from(task.gpus.max(1)),
            };
            let (submitted, runs, gpus) = (job.submitted, task.runs, task.gpus);
            let status = i32::from(task.exit == 0);
            writeln!(
                to,
                "{number} {submitted} -1 {runs} {gpus} -1 -1 {gpus} {timeout} {memory} {status} {user} -1 -1 -1 -1 -1 -1"
            )?;
        }
    }
    Ok(dropped)
}

/// Whether anything is said of a task that has no column. Memory is counted by processor, which a task without GPUs has none
/// of there.
fn says_more(job: &TraceJob, task: &TraceTask) -> bool {
    let kept = TraceTask {
        name: task.name.clone(),
        after: task.after.clone(),
        runs: task.runs,
        timeout: task.timeout,
        gpus: task.gpus,
        memory: if task.gpus > 0 { task.memory } else { 0 },
        exit: task.exit,
        ..TraceTask::default()
    };
    *task != kept || job.weight.is_some() || job.deadline.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of the archive's logs, with a comment, an unknown, a cancelled job and a bad line.
    const LOG: &str = "\
; Version: 2
; Computer: a machine
  1 100 5 60 8 -1 -1 8 120 -1 1 3 1 -1 1 -1 -1 -1
  2 160 -1 0 -1 -1 -1 4 120 -1 5 3 1 -1 1 -1 -1 -1
  3 130 0 30 4 -1 2048 -1 -1 -1 0 4 1 -1 1 -1 1 10

  4 one 0 30 4 -1 -1 4 -1 -1 1 4 1 -1 1 -1 -1 -1
  5 7
";

    #[test]
    fn comments_unknowns_and_bad_lines_are_told_apart() {
        let reading = read(LOG, 4);
        let jobs: Vec<_> = reading.jobs.iter().map(|(_, job)| job).collect();
        assert_eq!((jobs[0].submitted, jobs[1].submitted), (0.0, 30.0));
        assert_eq!((jobs[0].tasks[0].gpus, jobs[0].tasks[0].timeout), (2, Some(120.0)));
        assert_eq!((jobs[1].tasks[0].timeout, jobs[1].tasks[0].exit), (None, 1));
        assert_eq!(jobs[1].tasks[0].memory, 2048 * 1024 * 4, "of each processor, in kilobytes");
        assert_eq!(reading.left_out["a job that never ran"], 1);
        let bad: Vec<_> = reading.bad.iter().map(ToString::to_string).collect();
        assert_eq!(bad, ["line 7: submit time: 'one' is not a number", "line 8: 2 columns instead of 18"]);
        assert!(looks_like(LOG) && !looks_like("submitted,runs\n"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let task =
            TraceTask { runs: 12.5, timeout: Some(20.0), gpus: 2, memory: 4096, ..TraceTask::default() };
        let job = TraceJob { id: "1".into(), ..TraceJob::single(0.0, 0, "user1", task) };
        let mut text = Vec::new();
        let dropped = write(&mut text, [job.clone()].into_iter()).unwrap();
        assert_eq!(dropped, DroppedFields::default());
        assert_eq!(read(std::str::from_utf8(&text).unwrap(), 1).jobs[0].1, job);
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let task = TraceTask { runs: 1.0, gpus: 1, ..TraceTask::default() };
        let more = [
            TraceTask { cpus: 4000, ..task.clone() },
            TraceTask { steps: Some(7), ..task.clone() },
            TraceTask { preempt: warpyard_core::spec::Preempt::Requeue, ..task.clone() },
            TraceTask { gpus: 0, memory: 4096, ..task.clone() },
        ];
        let jobs = more.map(|task| TraceJob::single(0.0, 0, "ann", task));
        let weighty = TraceJob { weight: Some(2.0), ..TraceJob::single(0.0, 3, "ann", task) };
        let dropped = write(Vec::new(), jobs.into_iter().chain([weighty])).unwrap();
        assert_eq!(dropped, DroppedFields { edges: 0, priorities: 1, needs: 5 });
    }
}
