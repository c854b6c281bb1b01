//! `estimate`: what a model takes, what to request for it, and how long it is on each type of GPU.

use super::{Paint, Screen, counted, figure};
use std::fmt::Write;
use warpyard_api::quantity::ByteSize;
use warpyard_api::text::escape_controls;
use warpyard_estimate::{Estimate, GPUS, Method, Mode, Request};

/// The model an estimate is about, and what was asked of it.
pub(crate) struct EstimateSubject<'a> {
    pub(crate) name: &'a str,
    pub(crate) request: &'a Request,
}

/// An estimate for people.
pub(crate) fn text(estimate: &Estimate, asked: &EstimateSubject<'_>, screen: &Screen) -> String {
    let mut out = String::new();
    let mut line =
        |label: &str, text: String| writeln!(out, "  {label:<12}{text}").expect("a string takes all");
    let request = asked.request;
    let size = |bytes: u64| ByteSize(bytes).rounded();
    let mut weights = format!("{} parameters, {}", count(estimate.parameters), size(estimate.weights_bytes));
    if estimate.operators > 0 {
        write!(weights, "; {}", counted(estimate.operators as u64, "operator")).expect("a string takes all");
    }
    line("model", weights);
    let arithmetic = if estimate.operators > 0 { "a forward pass" } else { "a token" };
    line("arithmetic", format!("{} multiply-adds for {arithmetic}", count(estimate.macs)));
    let peak = |bytes: Option<u64>, without: &str| bytes.map_or(without.to_owned(), size);
    line(
        "inference",
        peak(
            estimate.inference_peak_bytes,
            "not known: the file has weights alone, without their architecture",
        ),
    );
    let training = peak(estimate.training_peak_bytes, "not known: the file has no graph");
    let with = estimate
        .training_peak_bytes
        .map(|_| format!(" with {}", request.training.optimizer))
        .unwrap_or_default();
    line("training", training + &with);
    line("context", format!("{} (assumed)", size(estimate.context_bytes)));
    line("float count", size(estimate.float_count_bytes));
    let mode = if request.mode == Mode::Train { "training" } else { "inference" };
    let rule = match request.method {
        Method::Replay => "context and a margin for 95 % of jobs included",
        Method::FloatCount => "the float count and the context",
    };
    let bound = screen.paint(&size(estimate.upper_bytes), Paint::Bold).into_owned();
    line("request", format!("{bound} for {mode}: {rule}"));
    if let Some(gpu) = request.gpu.filter(|gpu| estimate.upper_bytes > gpu.memory) {
        line("", format!("more than the {} of a {}", size(gpu.memory), gpu.name));
    }
    let largest: Vec<String> = estimate
        .largest
        .iter()
        .take(3)
        .map(|tensor| format!("{} {}", escape_controls(&tensor.name), size(tensor.bytes)))
        .collect();
    line("largest", largest.join(", "));
    if !estimate.unknown_operators.is_empty() {
        let names: Vec<_> = estimate.unknown_operators.iter().map(|name| escape_controls(name)).collect();
        line("unknown", format!("{}; bounded by the size of all they touch", names.join(", ")));
    }
    line("run time", seconds(estimate, request));
    let heading = screen.paint(asked.name, Paint::Bold);
    format!("{heading}  {}\n{out}", estimate.format)
}

/// Run time on the type asked for, or on a few that people have.
fn seconds(estimate: &Estimate, request: &Request) -> String {
    const SHOWN: [&str; 4] = ["T4", "RTX3060", "V100-16GB", "A100-40GB"];
    let wanted = |name: &str| request.gpu.map_or(SHOWN.contains(&name), |gpu| gpu.name == name);
    let of = GPUS
        .iter()
        .filter(|gpu| wanted(gpu.name))
        .filter_map(|gpu| Some((gpu.name, estimate.seconds_by_gpu.get(gpu.name)?)));
    let each: Vec<String> =
        of.map(|(name, seconds)| format!("{name} {} ms", figure(seconds * 1e3))).collect();
    let what = if request.mode == Mode::Train { "a step" } else { "a pass" };
    format!("{} for {what} at nominal rates: relative, not calibrated", each.join(", "))
}

/// A large number as people say it: 25.6 M.
fn count(number: u64) -> String {
    let steps = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match steps.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, letter)) => format!("{:.1} {letter}", number as f64 / unit as f64),
        None => number.to_string(),
    }
}
