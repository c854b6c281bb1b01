//! `sim --faults`: what held, or the story of what did not.

use super::{Paint, Screen, counted};
use crate::commands::faults::FaultsReport;
use std::fmt::Write;

/// What was done and, if a rule was broken, what led there and how to have it again.
pub(crate) fn text(report: &FaultsReport, screen: &Screen) -> String {
    let mut out = String::new();
    if let Some(failure) = &report.failure {
        for line in &failure.run_log {
            writeln!(out, "{line}").expect("a string takes all");
        }
        let broken = format!("seed {}, step {}: broken: {}", failure.seed, failure.step, failure.rule);
        writeln!(out, "\n{}\n    {}", screen.paint(&broken, Paint::Bold), failure.what)
            .expect("a string takes all");
    }
    if let Some(again) = &report.reproduce {
        writeln!(out, "again with: {again}").expect("a string takes all");
    } else {
        let held = &report.held;
        writeln!(
            out,
            "{} held: {}, all rules checked after each; {}, {}, {}, {}",
            counted(report.runs, "run"),
            counted(held.steps, "step"),
            counted(held.jobs, "job"),
            counted(held.events, "event"),
            counted(held.restarts, "restart"),
            counted(held.faults, "trouble"),
        )
        .expect("a string takes all");
    }
    out
}
