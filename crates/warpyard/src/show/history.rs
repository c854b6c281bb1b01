//! `history`: attempts that ended, with what they used.

use super::time::format_span_secs;
use super::{Align, Cell, Paint, Screen, Table};
use warpyard_api::quantity::ByteSize;
use warpyard_api::wire::{AttemptView, HistoryRow, Outcome};

/// The table of attempts.
pub(crate) fn table(rows: &[HistoryRow], screen: &Screen) -> String {
    let mut table = Table::new([
        ("ID", Align::Right),
        ("NAME", Align::Left),
        ("USER", Align::Left),
        ("ATTEMPT", Align::Right),
        ("ENDED", Align::Left),
        ("RAN", Align::Right),
        ("GPU TIME", Align::Right),
        ("PEAK GPU", Align::Right),
        ("PEAK RSS", Align::Right),
        ("ON", Align::Left),
        ("OUTCOME", Align::Left),
    ]);
    for row in rows {
        let attempt = &row.attempt;
        let ran = attempt.started_at.map(|started| screen.between(started, attempt.ended_at));
        table.row([
            task_id(row).into(),
            (&row.name).into(),
            (&row.user).into(),
            attempt.number.to_string().into(),
            attempt.ended_at.map(|ended| screen.clock(ended)).unwrap_or_default().into(),
            ran.unwrap_or_default().into(),
            gpu_time(attempt).into(),
            size(attempt.peak_gpu_memory_bytes).into(),
            size(attempt.peak_rss_bytes).into(),
            place(attempt).into(),
            outcome(attempt),
        ]);
    }
    table.render(screen)
}

/// The task as it is selected; without its name where that is the job's.
fn task_id(row: &HistoryRow) -> String {
    let name = if row.task == row.name { String::new() } else { format!(".{}", row.task) };
    let index = row.index.map(|index| format!("[{index}]")).unwrap_or_default();
    format!("{}{name}{index}", row.job)
}

pub(super) fn size(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| ByteSize(bytes).rounded())
}

/// GPU time is accounted when an attempt ends.
pub(super) fn gpu_time(attempt: &AttemptView) -> String {
    attempt.ended_at.map_or("-".to_owned(), |_| format_span_secs(attempt.gpu_seconds))
}

/// Where an attempt ran: its devices, or only the worker.
pub(super) fn place(attempt: &AttemptView) -> String {
    if attempt.devices.is_empty() { attempt.worker.clone() } else { attempt.devices.join(",") }
}

/// How an attempt ended: its outcome and the reason, or else its exit code or signal.
pub(super) fn outcome(attempt: &AttemptView) -> Cell {
    let Some(outcome) = attempt.outcome else { return "".into() };
    let text = match (&attempt.why, attempt.exit_code, attempt.signal) {
        (Some(why), ..) => {
            reason_with_outcome(outcome, why).unwrap_or_else(|| format!("{}: {why}", outcome.word()))
        }
        (None, _, Some(signal)) => format!("{} (signal {signal})", outcome.word()),
        (None, Some(code), None) if code != 0 => format!("{} (exit {code})", outcome.word()),
        (None, ..) => outcome.word().to_owned(),
    };
    Cell::new(text, Paint::of_outcome(outcome))
}

/// The reason alone where it says the outcome already: "timed out after 2h", "cancelled before it started".
pub(crate) fn reason_with_outcome(outcome: Outcome, why: &str) -> Option<String> {
    let why = why.strip_prefix("was ").unwrap_or(why);
    why.starts_with(&outcome.word().replace('-', " ")).then(|| why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn history_says_what_was_used() {
        let rows: Vec<HistoryRow> = serde_json::from_value(json!([
            {"job": "412", "name": "train", "task": "train", "index": null, "user": "ann", "project": null,
             "priority": 0, "submitted_at": "2026-11-15T13:00:00Z", "timeout_seconds": 600.0,
             "attempt": {"number": 2, "worker": "gpu1", "devices": ["gpu1/0", "gpu1/1"],
                "started_at": "2026-11-15T13:01:00Z", "ended_at": "2026-11-15T13:04:12Z", "outcome": "failed",
                "exit_code": 3, "peak_gpu_memory_bytes": 6u64 << 30, "peak_rss_bytes": 734003200,
                "cpu_seconds": 12.5, "gpu_seconds": 384.0}},
            {"job": "413", "name": "flow", "task": "prep", "index": 7, "user": "bob", "project": null,
             "priority": 0, "submitted_at": "2026-11-15T13:00:00Z", "timeout_seconds": null,
             "attempt": {"number": 1, "worker": "gpu2", "devices": [], "started_at": "2026-11-14T13:01:00Z",
                "ended_at": "2026-11-14T13:01:01Z", "outcome": "timed-out", "exit_code": null, "signal": 9,
                "peak_gpu_memory_bytes": null, "peak_rss_bytes": null, "cpu_seconds": null, "gpu_seconds": 0.0}},
        ]))
        .unwrap();
        insta::assert_snapshot!(table(&rows, &Screen::for_tests(None)), @"
                 ID  NAME   USER  ATTEMPT  ENDED            RAN  GPU TIME  PEAK GPU  PEAK RSS  ON             OUTCOME
                412  train  ann         2  13:04         3m 12s    6m 24s     6 GiB   700 MiB  gpu1/0,gpu1/1  failed (exit 3)
        413.prep[7]  flow   bob         1  Nov 14 13:01      1s        0s         -         -  gpu2           timed-out (signal 9)
        ");
    }
}
