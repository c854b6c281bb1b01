//! Traces in CSV: one job of one task a line, times in seconds. Bad rows are told with their line, never dropped.

use crate::{Arrival, Runs};
use std::io::{self, BufRead, Write};
use warpyard_core::spec::{JobSpec, Needs, TaskSpec, default_grace};
use warpyard_core::{Span, Time};

/// One job of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    /// When it was submitted, in seconds from the beginning.
    pub submitted: f64,
    /// How long it really runs, in seconds.
    pub runs: f64,
    /// How long it promises to run at most, in seconds.
    pub timeout: Option<f64>,
    /// How many GPUs it wants.
    pub gpus: u16,
    /// Bytes on each of them; none wants them whole.
    pub gpu_memory: Option<u64>,
    /// Larger is more urgent.
    pub priority: i64,
    /// Whose it is.
    pub user: String,
}

/// A row that is none.
#[derive(Debug, thiserror::Error)]
pub enum BadRow {
    /// The file cannot be read.
    #[error("line {line}: cannot be read")]
    Unreadable {
        /// Where.
        line: usize,
        /// Why.
        source: io::Error,
    },
    /// The first line does not name the columns.
    #[error("line 1: the columns must be {HEADER}")]
    Header,
    /// A row has too few or too many columns.
    #[error("line {line}: {found} columns instead of {wanted}", wanted = HEADER.split(',').count())]
    Columns {
        /// Where.
        line: usize,
        /// How many it has.
        found: usize,
    },
    /// A column holds something else than it should.
    #[error("line {line}: {column}: '{text}' is not a number in its range")]
    Value {
        /// Where.
        line: usize,
        /// In which column.
        column: &'static str,
        /// What stands there.
        text: String,
    },
}

const HEADER: &str = "submitted,runs,timeout,gpus,gpu_memory,priority,user";

/// Reads a trace: each row, or what is wrong with it. Fields that may be absent are left empty.
pub fn read(from: impl BufRead) -> impl Iterator<Item = Result<TraceJob, BadRow>> {
    let rows = from.lines().enumerate().map(|(i, text)| (i + 1, text));
    rows.filter_map(|(line, text)| match text {
        Err(source) => Some(Err(BadRow::Unreadable { line, source })),
        Ok(text) if line == 1 => (text.trim() != HEADER).then_some(Err(BadRow::Header)),
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => Some(row(line, &text)),
    })
}

/// Writes a trace that reads back as it was.
pub fn write(mut to: impl Write, jobs: impl Iterator<Item = TraceJob>) -> io::Result<()> {
    writeln!(to, "{HEADER}")?;
    for TraceJob { submitted, runs, timeout, gpus, gpu_memory, priority, user } in jobs {
        let timeout = timeout.map_or_else(String::new, |t| t.to_string());
        let memory = gpu_memory.map_or_else(String::new, |m| m.to_string());
        writeln!(to, "{submitted},{runs},{timeout},{gpus},{memory},{priority},{user}")?;
    }
    Ok(())
}

fn row(line: usize, text: &str) -> Result<TraceJob, BadRow> {
    let columns: Vec<&str> = text.split(',').map(str::trim).collect();
    let [submitted, runs, timeout, gpus, gpu_memory, priority, user] = columns[..] else {
        return Err(BadRow::Columns { line, found: columns.len() });
    };
    let bad = |column, text: &str| BadRow::Value { line, column, text: text.to_owned() };
    let seconds = |column, text: &str| {
        text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0).ok_or_else(|| bad(column, text))
    };
    let present = |text: &'_ str| !text.is_empty();
    Ok(TraceJob {
        submitted: seconds("submitted", submitted)?,
        runs: seconds("runs", runs)?,
        timeout: present(timeout).then(|| seconds("timeout", timeout)).transpose()?,
        gpus: gpus.parse().map_err(|_| bad("gpus", gpus))?,
        gpu_memory: match present(gpu_memory) {
            true => Some(gpu_memory.parse().map_err(|_| bad("gpu_memory", gpu_memory))?),
            false => None,
        },
        priority: priority.parse().map_err(|_| bad("priority", priority))?,
        user: user.to_owned(),
    })
}

impl From<TraceJob> for Arrival {
    fn from(job: TraceJob) -> Arrival {
        let needs = Needs { gpus: job.gpus, gpu_memory: job.gpu_memory, ..Needs::default() };
        let timeout = job.timeout.map(Span::from_secs);
        let task =
            TaskSpec { name: "task".into(), needs, timeout, grace: default_grace(), ..TaskSpec::default() };
        Arrival {
            at: Time::from_secs(job.submitted),
            user: job.user,
            spec: JobSpec {
                name: "job".into(),
                priority: job.priority,
                tasks: vec![task],
                ..JobSpec::default()
            },
            runs: Runs::For(Span::from_secs(job.runs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Generator;

    #[test]
    fn a_trace_reads_back_as_it_was_written() {
        let jobs: Vec<_> = Generator { jobs: 200, ..Generator::default() }.generate(3).collect();
        let mut text = Vec::new();
        write(&mut text, jobs.iter().cloned()).unwrap();
        let read: Vec<_> = read(&text[..]).map(Result::unwrap).collect();
        assert_eq!(read, jobs);
    }

    #[test]
    fn bad_rows_are_told_with_their_line() {
        let text = format!("{HEADER}\n0,10,,1,,0,ann\n1,ten,,1,,0,ann\n2,10,1\n");
        let rows: Vec<_> = read(text.as_bytes()).map(|r| r.map(drop).map_err(|e| e.to_string())).collect();
        assert_eq!(rows[0], Ok(()));
        assert_eq!(rows[1], Err("line 3: runs: 'ten' is not a number in its range".into()));
        assert_eq!(rows[2], Err("line 4: 3 columns instead of 7".into()));
    }
}
