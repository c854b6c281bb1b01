//! Durations of the Philly trace: a JSON list of `[seconds, GPUs]`. It has no times of submission; how far apart jobs
//! come is said when it is read.

use crate::random::Random;
use crate::workload::reading::{bad, entries};
use crate::workload::{ParsedTrace, RowProblem, TraceError, TraceJob, TraceTask};

/// Whether a text looks like it.
pub fn looks_like(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix('[').map(str::trim_start);
    rest.is_some_and(|rest| rest.starts_with('['))
}

/// Reads durations, submitted a mean `gap` of seconds apart (exponential), all at once if that is 0.
pub fn read(text: &str, gap: f64, seed: u64) -> Result<ParsedTrace, TraceError> {
    let pairs = entries(text)?;
    let mut reading = ParsedTrace::default();
    let (mut random, mut at) = (Random::new(seed), 0.0);
    for (place, pair) in pairs {
        if gap > 0.0 {
            at += random.exponential(gap);
        }
        reading.enter(place, job(pair, at));
    }
    if gap == 0.0 {
        reading
            .notes
            .push("it has no times of submission: all come at once; --spread TIME spreads them".to_owned());
    }
    Ok(reading)
}

fn job(pair: &str, submitted: f64) -> Result<TraceJob, RowProblem> {
    let wrong = || bad("pair", pair, "[seconds, GPUs]");
    let (runs, gpus): (f64, u16) = serde_json::from_str(pair).map_err(|_| wrong())?;
    if !(runs.is_finite() && runs >= 0.0) {
        return Err(wrong());
    }
    let task = TraceTask { runs, gpus, ..TraceTask::default() };
    Ok(TraceJob::single(submitted, 0, "", task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_jobs_and_what_is_none_is_told_by_its_place() {
        let reading = read("[[60.5, 1], [10, 8],\n[1], [5, -1], \"x\"]", 10.0, 1).unwrap();
        assert_eq!(reading.jobs.len(), 2);
        assert!(reading.jobs[1].1.submitted > reading.jobs[0].1.submitted);
        assert_eq!((reading.jobs[1].1.tasks[0].runs, reading.jobs[1].1.tasks[0].gpus), (10.0, 8));
        let bad: Vec<_> = reading.bad.iter().map(ToString::to_string).collect();
        assert_eq!(bad[0], "line 2, entry 3: pair: '[1]' is not [seconds, GPUs]");
        assert_eq!(bad.len(), 3);
    }
}
