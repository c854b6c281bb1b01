//! `limits`: the limits of a user, and how much of each is in use.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::{Align, Screen, Table};
use clap::Args;
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::wire::LimitView;

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub(crate) struct Limits {}

impl Limits {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let limits = context.client()?.limits()?;
        context.answer(limits.as_slice(), table)
    }
}

fn table(limits: &[LimitView], screen: &Screen) -> String {
    if limits.is_empty() {
        return "no limits are set\n".to_owned();
    }
    let columns =
        [("WHO", Align::Left), ("LIMIT", Align::Left), ("MAXIMUM", Align::Right), ("IN USE", Align::Right)];
    let mut table = Table::new(columns);
    for limit in limits {
        let of = if limit.together { format!("{} together", limit.of) } else { limit.of.clone() };
        let has = limit.has.map_or_else(String::new, |has| amount(limit, has));
        table.row([of.into(), named(limit).into(), amount(limit, limit.most).into(), has.into()]);
    }
    table.render(screen)
}

fn named(limit: &LimitView) -> String {
    match (limit.limit.as_str(), limit.window_s) {
        ("gpus", _) => "GPUs at once".to_owned(),
        ("running", _) => "tasks running".to_owned(),
        ("queued", _) => "tasks waiting".to_owned(),
        ("timeout_s", _) => "timeout".to_owned(),
        ("grace_s", _) => "grace period".to_owned(),
        ("gpu_hours", Some(window)) => format!("GPU-hours in {}", seconds(window)),
        ("log_bytes", _) => "log of a task".to_owned(),
        ("priority", _) => "priority".to_owned(),
        ("submission_bytes", _) => "size of a submission".to_owned(),
        ("jobs_bytes", _) => "size of jobs and environments".to_owned(),
        ("snapshots", _) => "snapshots".to_owned(),
        ("snapshots_bytes", _) => "size of snapshots".to_owned(),
        ("requests", _) => "requests at once".to_owned(),
        (other, _) => other.to_owned(),
    }
}

fn amount(limit: &LimitView, value: f64) -> String {
    match limit.limit.as_str() {
        "timeout_s" | "grace_s" => seconds(value),
        "log_bytes" | "submission_bytes" | "jobs_bytes" | "snapshots_bytes" => {
            ByteSize(value as u64).rounded()
        }
        "gpu_hours" => format!("{value:.1}"),
        _ => format!("{value}"),
    }
}

fn seconds(value: f64) -> String {
    Micros((value * 1e6).round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(of: &str, together: bool, limit: &str, most: f64, has: Option<f64>) -> LimitView {
        let window_s = (limit == "gpu_hours").then_some(604_800.0);
        LimitView { of: of.into(), together, limit: limit.into(), most, has, window_s }
    }

    #[test]
    fn what_one_may_have_stands_beside_what_one_has() {
        let limits = [
            limit("ann", false, "gpus", 2.0, Some(1.0)),
            limit("ann", false, "timeout_s", 86_400.0, None),
            limit("ann", false, "log_bytes", 1_048_576.0, None),
            limit("lab", true, "gpu_hours", 100.0, Some(12.25)),
        ];
        insta::assert_snapshot!(table(&limits, &Screen::for_tests(None)), @"
        WHO           LIMIT            MAXIMUM  IN USE
        ann           GPUs at once           2       1
        ann           timeout               1d
        ann           log of a task      1 MiB
        lab together  GPU-hours in 7d    100.0    12.2
        ");
    }
}
