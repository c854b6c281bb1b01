//! `sim`: the figures of one simulation.

use super::{Align, Paint, Screen, Table, counted, figure, format_span_secs, percent, took};
use std::fmt::Write;
use warpyard_api::text::escape_controls;
use warpyard_sim::SimReport;

/// Turnaround weighted by priority above the lowest, which is nothing where all are equal.
fn weighted(seconds: f64) -> String {
    if seconds == 0.0 { "- (all priorities are equal)".to_owned() } else { format!("{} s", figure(seconds)) }
}

/// The figures in words, then how times are spread.
pub(crate) fn text(report: &SimReport, screen: &Screen) -> String {
    let rejected =
        if report.rejected > 0 { format!(", {} rejected", report.rejected) } else { String::new() };
    let others = match report.jobs - report.finished - report.rejected {
        0 => String::new(),
        others => format!(", {others} not successful"),
    };
    let mut out = format!(
        "{}: {}, {} finished{others}{rejected}\n",
        screen.paint(&escape_controls(&report.policy), Paint::Bold),
        counted(report.jobs, "job"),
        report.finished
    );
    let speed = figure((report.events as f64 / report.wall_seconds.max(1e-9)).round());
    let lines = [
        ("makespan", format_span_secs(report.makespan)),
        ("utilisation", percent(report.utilisation)),
        ("weighted turnaround", weighted(report.weighted_turnaround)),
        ("preemptions", figure(report.preemptions as f64)),
        ("restarts", figure(report.restarts as f64)),
        (
            "simulated",
            format!(
                "{} in {} ({speed} a second)",
                counted(report.events, "event"),
                took(report.wall_seconds)
            ),
        ),
    ];
    for (label, value) in lines {
        writeln!(out, "  {label:<19}  {value}").expect("a string takes all");
    }
    out.push('\n');
    let right = |heading| (heading, Align::Right);
    let mut table = Table::new([
        ("SECONDS", Align::Left),
        right("MEAN"),
        right("P50"),
        right("P95"),
        right("P99"),
        right("MAX"),
    ]);
    let spreads = [("wait", report.wait), ("response", report.response), ("completion", report.completion)];
    for (name, spread) in spreads {
        let [mean, p50, p95, p99, max] =
            [spread.average, spread.p50, spread.p95, spread.p99, spread.max].map(|s| format!("{s:.1}"));
        table.row([name.into(), mean.into(), p50.into(), p95.into(), p99.into(), max.into()]);
    }
    out.push_str(&table.render(screen));
    out
}
