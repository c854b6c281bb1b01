//! Shortest expected run time first.
//!
//! The length is the task's own estimate, otherwise its timeout, otherwise a year. Minimises the mean waiting time
//! among all non-preemptive orders on one machine (W. E. Smith, *Various optimizers for single-stage production*,
//! 1956), but a long task waits as long as shorter ones keep arriving. Priorities are ignored.

use crate::{FIT, expected_words};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

struct ShortestExpected;

impl Order for ShortestExpected {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::ascending(task.expected().secs())
    }

    fn formula(&self) -> &'static str {
        "T, the expected running time in seconds; the smallest T goes first"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        expected_words(task)
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "sjf",
    summary: "shortest expected run time first",
    group: PolicyGroup::RunTime,
    when: "for the shortest mean wait where run times are known; long tasks may starve",
    source: "Smith, Various optimizers for single-stage production, 1956",
    params: &[BackfillRule::PARAM, FIT],
    build: |p| {
        let behind = BackfillRule::from_word(p.word("behind"));
        Box::new(Ordered::new(ShortestExpected, behind).fit(Fit::from_word(p.word("fit"))))
    },
};
