//! Traces in files: all rows, or everything that is wrong with them by line.

use super::text_of;
use crate::wrong::Wrong;
use std::sync::Arc;
use warpyard_sim::workload::{BadRow, TraceJob, read};

/// Bad rows told at most.
const MOST_TOLD: usize = 20;

/// A trace that was read.
#[derive(Clone)]
pub(crate) struct Trace {
    pub(crate) file: String,
    /// Each job with the line it is on, in order of submission.
    pub(crate) jobs: Arc<[(usize, TraceJob)]>,
}

/// Reads a trace.
pub(crate) fn read_trace(file: &str) -> Result<Trace, Wrong> {
    let text = text_of(file)?;
    let (mut jobs, mut bad) = (Vec::new(), Vec::new());
    if text.trim().is_empty() {
        bad.push(BadRow::Header);
    }
    let mut lines = (1..).zip(text.lines()).skip(1).filter(|(_, line)| !line.trim().is_empty());
    for row in read(text.as_bytes()) {
        if let Err(header @ BadRow::Header) = row {
            bad.push(header);
            break; // Under other headings every row means something else.
        }
        let (line, _) = lines.next().expect("a row is a line that is not blank");
        match row {
            Ok(job) => jobs.push((line, job)),
            Err(row) => bad.push(row),
        }
    }
    if !bad.is_empty() {
        return Err(Wrong::BadTrace { file: file.to_owned(), rows: told(&bad) });
    }
    jobs.sort_by(|(_, a), (_, b)| a.submitted.total_cmp(&b.submitted));
    Ok(Trace { file: file.to_owned(), jobs: jobs.into() })
}

fn told(bad: &[BadRow]) -> String {
    if let [one] = bad {
        return one.to_string();
    }
    let mut out = format!("{} bad rows", bad.len());
    for row in bad.iter().take(MOST_TOLD) {
        out.push_str(&format!("\n  {row}"));
    }
    if bad.len() > MOST_TOLD {
        out.push_str("\n  …");
    }
    out
}
