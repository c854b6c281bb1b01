//! Weighted shortest job first: by priority class and then length, or by weight divided by length.
//!
//! `by = "class"` never lets a length outweigh a priority; `by = "ratio"` is Smith's rule, which minimises the
//! weighted sum of completion times on one machine (W. E. Smith, *Various optimizers for single-stage production*,
//! 1956). Since a priority may be any integer, the weight of priority p is 1 + p, and 1 / (1 − p) below zero. With
//! `granularity` other than `job` a running task that allows it is preempted by a better one after its batch or item,
//! and the length is its remaining time.

use crate::{FIT, expected_words, preemption};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, word};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

enum Wsjf {
    ByClass,
    ByRatio,
}

impl Order for Wsjf {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        let length = task.expected().secs();
        match self {
            Wsjf::ByClass => Key::urgent(task.job.priority).then(length),
            Wsjf::ByRatio => Key::ascending(length / weight(task.job.priority)),
        }
    }

    fn formula(&self) -> &'static str {
        match self {
            Wsjf::ByClass => {
                "(p, T): the largest priority p goes first, then the smallest T, the expected seconds"
            }
            Wsjf::ByRatio => {
                "R = T / w, T the expected seconds, w = 1 + p (1 / (1 − p) below 0); the smallest R first"
            }
        }
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        let (priority, length) = (task.job.priority, task.expected().secs());
        match self {
            Wsjf::ByClass => format!("p = {priority}, {}", expected_words(task)),
            Wsjf::ByRatio => {
                let weight = weight(priority);
                format!("R = {length:.0} / {weight} = {:.1}", length / weight)
            }
        }
    }
}

/// Weight of a priority: positive and increasing over all integers.
fn weight(priority: i64) -> f64 {
    let p = priority as f64;
    if p >= 0.0 { 1.0 + p } else { 1.0 / (1.0 - p) }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "wsjf",
    summary: "priority class first, then shortest; or weight divided by length",
    group: PolicyGroup::RunTime,
    when: "for tasks that differ in importance as well as in length",
    source: "Smith, Various optimizers for single-stage production, 1956",
    params: &[
        word("by", &["class", "ratio"], "priority before length, or weight divided by length"),
        word("granularity", &["job", "batch", "item"], preemption::HELP),
        BackfillRule::PARAM,
        FIT,
    ],
    build: |p| {
        let order = if p.word("by") == "ratio" { Wsjf::ByRatio } else { Wsjf::ByClass };
        let behind = BackfillRule::from_word(p.word("behind"));
        let policy = Ordered::new(order, behind).fit(Fit::from_word(p.word("fit")));
        preemption::build(policy, p.word("granularity"))
    },
};
