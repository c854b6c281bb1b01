//! Traces in files, of whatever format: all jobs, or everything that is wrong with them by line.

use super::formats::{Open, read_text};
use super::text_of;
use crate::wrong::Wrong;
use std::fmt::Write;
use std::sync::Arc;
use warpyard_api::text::shown;
use warpyard_sim::workload::{BadRow, Place, TraceJob};

/// Bad rows told at most.
const MOST_TOLD: usize = 10;

/// A trace that was read.
#[derive(Clone)]
pub(crate) struct Trace {
    pub(crate) file: String,
    /// Each job with where it is, in order of submission.
    pub(crate) jobs: Arc<[(Place, TraceJob)]>,
}

/// Reads a trace to be simulated: a row that cannot be read is an error, because figures without it would be of another
/// workload.
pub(crate) fn read_trace(file: &str, open: &Open) -> Result<Trace, Wrong> {
    let (_, reading) = read_text(file, &text_of(file)?, None, open)?;
    if !reading.bad.is_empty() {
        let rows = told(&reading.bad);
        return Err(Wrong::BadTrace { file: file.to_owned(), rows });
    }
    Ok(Trace { file: file.to_owned(), jobs: reading.jobs.into() })
}

/// The first bad rows, and how many there are.
pub(crate) fn told(bad: &[BadRow]) -> String {
    if let [one] = bad {
        return shown(&one.to_string()).into_owned();
    }
    let mut out = format!("{} bad rows", bad.len());
    for row in bad.iter().take(MOST_TOLD) {
        write!(out, "\n  {}", shown(&row.to_string())).expect("a string takes all");
    }
    if bad.len() > MOST_TOLD {
        write!(out, "\n  … and {} more", bad.len() - MOST_TOLD).expect("a string takes all");
    }
    out
}
