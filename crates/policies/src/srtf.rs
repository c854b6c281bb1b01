//! Shortest remaining time first: the task that will end soonest goes first, and preempts those with longer to go.
//!
//! The length is the task's own estimate, otherwise its timeout, otherwise a year; the remaining time is that minus
//! what it has run. Minimises the mean completion time on one machine where preemption is free (L. E. Schrage, *A
//! Proof of the Optimality of the Shortest Remaining Processing Time Discipline*, 1968). No task is preempted for a
//! gain smaller than its cost of resuming. The remaining time of a running task only shrinks, so two tasks never
//! alternate. A plan while something waits costs what runs.

use crate::{FIT, expected_words, preemption};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, word};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

struct Srtf;

impl Order for Srtf {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::ascending(task.expected().secs())
    }

    fn formula(&self) -> &'static str {
        "T = expected − saved, the running time that remains in seconds; the smallest T goes first"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        expected_words(task)
    }

    fn running_key(&self, task: &ReadyTask<'_>) -> Key {
        Key::ascending((task.expected() - task.spec.resume_time).secs())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "srtf",
    summary: "shortest remaining time first; preempts what has longer to go",
    group: PolicyGroup::RunTime,
    when: "for the shortest mean wait where run times are known and tasks can be preempted",
    source: "Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline, 1968",
    params: &[word("granularity", &["item", "batch", "job"], preemption::HELP), BackfillRule::PARAM, FIT],
    build: |p| {
        let policy = Ordered::new(Srtf, BackfillRule::from_word(p.word("behind")));
        preemption::build(policy.fit(Fit::from_word(p.word("fit"))), p.word("granularity"))
    },
};
