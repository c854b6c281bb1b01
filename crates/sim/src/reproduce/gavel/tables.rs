//! Rows and panels made from the results of the runs.

use super::runs::RunResult;
use super::{
    ERRORS, Figure, LENGTHS, LOADS, PRICES, PUBLISHED_IMPROVEMENT, Panel, REFERENCE, RESTARTS, VARIANTS,
};
use crate::reproduce::{Row, Verdict};
use warpyard_allocate::TypeAwareness;

fn hours(seconds: f64) -> f64 {
    seconds / 3600.0
}

fn completion_hours(run: &RunResult) -> f64 {
    hours(run.outcome.average_completion_s())
}

/// Mean, minimum and maximum of a figure over runs.
fn summarise(runs: &[RunResult], figure: impl Fn(&RunResult) -> f64) -> (f64, f64, f64) {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.iter().sum::<f64>() / values.len() as f64, least, most)
}

fn single(row: String, value: f64) -> Row {
    Row::unpublished(row, (value, value, value))
}

/// The trace `gen150_single`, beside the results of Gavel's simulator on it.
pub(super) fn on_gen150(results: &[RunResult]) -> Vec<Row> {
    let rows = REFERENCE.iter().zip(results).map(|(&(goal, types, figure, reference), run)| {
        let (what, ours) = match figure {
            Figure::Average => ("average completion", completion_hours(run)),
            Figure::Makespan => ("makespan", hours(run.outcome.makespan_s)),
        };
        let blind = if types == TypeAwareness::Blind { " blind to types" } else { "" };
        let row = single(format!("generated trace gen150: {goal}{blind}, {what} (h)"), ours);
        Row { reference: Some(reference), ..row }
    });
    rows.collect()
}

/// Average completion time and solve time by arrival rate.
pub(super) fn by_load(results: &[RunResult], traces: usize, rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let mut completion: Vec<(String, Vec<(f64, f64)>)> =
        VARIANTS.map(|(name, ..)| (name.to_owned(), Vec::new())).into();
    let mut solving = completion.clone();
    let mut solve_rows = Vec::new();
    let mut largest = 0.0_f64;
    for (load, runs) in LOADS.iter().zip(results.chunks(VARIANTS.len() * traces)) {
        let mut means = Vec::new();
        for (variant, (runs, (name, ..))) in runs.chunks(traces).zip(VARIANTS).enumerate() {
            let figures = summarise(runs, completion_hours);
            let times = summarise(runs, RunResult::solving_ms);
            rows.push(Row::unpublished(
                format!("{load} jobs an hour, {name}: average completion (h)"),
                figures,
            ));
            solve_rows.push(Row::unpublished(format!("{load} jobs an hour, {name}: a solve (ms)"), times));
            completion[variant].1.push((*load, figures.0));
            solving[variant].1.push((*load, times.0));
            means.push(figures.0);
        }
        // The first two variants are aware and blind, both without sharing.
        largest = largest.max(means[1] / means[0]);
    }
    rows.push(Row {
        published: Some(PUBLISHED_IMPROVEMENT),
        verdict: Verdict::of(largest >= PUBLISHED_IMPROVEMENT, || {
            "smaller than the paper's largest, which is on its own traces and 108 GPUs".to_owned()
        }),
        ..single("blind over aware, average completion, largest over the loads".to_owned(), largest)
    });
    rows.extend(solve_rows);
    let axis = "jobs an hour";
    panels.push(Panel {
        title: "average completion (h)",
        across: axis,
        by_factors: false,
        lines: completion,
    });
    panels.push(Panel { title: "time of a solve (ms)", across: axis, by_factors: false, lines: solving });
}

/// Average completion time by round length and restart cost.
pub(super) fn by_length(results: &[RunResult], rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> =
        RESTARTS.map(|cost| (format!("restart {cost} s"), Vec::new())).into();
    for (length, runs) in LENGTHS.iter().zip(results.chunks(RESTARTS.len())) {
        for ((cost, run), (_, line)) in RESTARTS.iter().zip(runs).zip(&mut lines) {
            let ours = completion_hours(run);
            rows.push(single(
                format!("rounds of {length} s, restarts of {cost} s: average completion (h)"),
                ours,
            ));
            line.push((*length, ours));
        }
    }
    let (title, across) = ("average completion (h)", "a round's length (s)");
    panels.push(Panel { title, across, by_factors: true, lines });
}

/// Average completion time by relative error of the reported speeds.
pub(super) fn by_error(results: &[RunResult], traces: usize, rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let mut line = Vec::new();
    for (error, runs) in ERRORS.iter().zip(results.chunks(traces)) {
        let ours = summarise(runs, completion_hours);
        rows.push(Row::unpublished(
            format!("speeds wrong by up to {:.0} %: average completion (h)", error * 100.0),
            ours,
        ));
        line.push((error * 100.0, ours.0));
    }
    panels.push(Panel {
        title: "average completion (h)",
        across: "speeds wrong by up to (%)",
        by_factors: false,
        lines: vec![("max-min".to_owned(), line)],
    });
}

/// Restarts, delivered share and average completion time with restart costs ignored and priced in.
pub(super) fn by_price(results: &[RunResult], rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let names = ["ignored", "counted"];
    let mut restarts: Vec<(String, Vec<(f64, f64)>)> =
        names.map(|name| (format!("price {name}"), Vec::new())).into();
    let mut delivered = restarts.clone();
    for (price, runs) in PRICES.iter().zip(results.chunks(names.len())) {
        for (number, (name, run)) in names.iter().zip(runs).enumerate() {
            let about = format!("restarts of {price} s, price {name}");
            let (count, part) = (run.outcome.restarts as f64, run.outcome.delivered_p10());
            rows.push(single(format!("{about}: restarts"), count));
            rows.push(single(format!("{about}: share of the target that nine jobs in ten received"), part));
            rows.push(single(format!("{about}: average completion (h)"), completion_hours(run)));
            restarts[number].1.push((*price, count));
            delivered[number].1.push((*price, part));
        }
    }
    let across = "what a restart costs (s)";
    panels.push(Panel { title: "restarts", across, by_factors: true, lines: restarts });
    let title = "share of the target that nine jobs in ten received";
    panels.push(Panel { title, across, by_factors: true, lines: delivered });
}
