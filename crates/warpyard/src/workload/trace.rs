//! Traces in files, of whatever format: all jobs, or everything that is wrong with them by line.

use crate::exit::note;
use crate::input::read_file;
use crate::usage_error::UsageError;
use crate::workload::{ImportOptions, read_text};
use crate::workload::{is_log, read_log};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use warpyard_api::text::escape_controls;
use warpyard_core::Time;
use warpyard_sim::workload::format::own;
use warpyard_sim::workload::{Location, ParsedTrace, RowError, TraceJob};

/// Bad rows told at most.
const MOST_TOLD: usize = 10;

/// A trace that was read.
#[derive(Clone)]
pub(crate) struct Trace {
    pub(crate) file: String,
    /// Each job with where it is, in order of submission.
    pub(crate) jobs: Arc<[(Location, TraceJob)]>,
}

/// Reads a trace to be simulated: a row that cannot be read is an error, because figures without it would be of another
/// workload.
pub(crate) fn read_trace(file: &str, open: &ImportOptions) -> Result<Trace, UsageError> {
    let reading = match is_log(file) {
        true => own::read(&read_log(Path::new(file), Time(0))?),
        false => read_text(file, &read_file(file)?, None, open)?.1,
    };
    if !reading.bad.is_empty() {
        let rows = describe_bad_rows(&reading.bad);
        return Err(UsageError::BadTrace { file: file.to_owned(), rows });
    }
    print_notes(&reading);
    if reading.notes.iter().any(|said| said.contains("--")) {
        note("note: these are options of `warpyard trace import`, which makes a trace to simulate");
    }
    if reading.jobs.is_empty() {
        return Err(UsageError::NoJobs(file.to_owned()));
    }
    Ok(Trace { file: file.to_owned(), jobs: reading.jobs.into() })
}

/// Prints notes on assumptions and omissions to standard error.
pub(crate) fn print_notes(reading: &ParsedTrace) {
    for said in &reading.notes {
        note(&format!("note: {}", escape_controls(said)));
    }
    for (what, rows) in &reading.left_out {
        note(&format!("left out: {rows} × {what}"));
    }
}

/// The first bad rows, how many there are, and on which lines the others.
pub(crate) fn describe_bad_rows(bad: &[RowError]) -> String {
    if let [one] = bad {
        return escape_controls(&one.to_string()).into_owned();
    }
    let mut out = format!("{} bad rows", bad.len());
    for row in bad.iter().take(MOST_TOLD) {
        write!(out, "\n  {}", escape_controls(&row.to_string())).expect("a string takes all");
    }
    if bad.len() > MOST_TOLD {
        let rest = bad[MOST_TOLD..].iter().map(|row| row.place.line());
        write!(out, "\n  … and {} more, on lines {}", bad.len() - MOST_TOLD, ranges(rest))
            .expect("a string takes all");
    }
    out
}

/// Numbers in order, neighbours put together: `3-5, 9`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number == *last || number == *last + 1 => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let told = ranges.iter().map(|(from, to)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    });
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_row_is_told_by_its_line() {
        let row =
            |line| RowError { place: Location::Line(line), why: warpyard_sim::workload::RowProblem::NoTasks };
        let bad: Vec<_> = (2..=13).chain([15, 20, 21]).map(row).collect();
        let text = describe_bad_rows(&bad);
        assert!(text.starts_with("15 bad rows\n  line 2: "), "{text}");
        assert!(text.ends_with("\n  … and 5 more, on lines 12-13, 15, 20-21"), "{text}");
    }
}
