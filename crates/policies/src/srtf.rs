//! Shortest remaining time first: what will be done soonest goes first, and what has longer to go gives way to it.
//!
//! The length is the task's own guess, else its timeout, else a year; what remains is that less what it has run. Least
//! mean completion time on one machine where interrupting costs nothing (L. E. Schrage, *A Proof of the Optimality of the
//! Shortest Remaining Processing Time Discipline*, 1968). Nobody gives way for less than what going on again costs. What
//! runs only comes closer to its end, so two tasks never take turns. A plan while something waits costs what runs.

use crate::{FIT, expected_words, giving_way};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{Behind, Order, Ordered};
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

    fn numbers(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        expected_words(task)
    }

    fn kept_running(&self, task: &ReadyTask<'_>) -> Key {
        Key::ascending((task.expected() - task.spec.resume_time).secs())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "srtf",
    summary: "shortest remaining time first; preempts what has longer to go",
    group: PolicyGroup::RunTime,
    when: "for the shortest mean wait where run times are known and tasks can be preempted",
    source: "Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline, 1968",
    params: &[word("granularity", &["item", "batch", "job"], giving_way::HELP), Behind::PARAM, FIT],
    build: |p| {
        let policy = Ordered::new(Srtf, Behind::from_word(p.word("behind")));
        giving_way::build(policy.fit(Fit::from_word(p.word("fit"))), p.word("granularity"))
    },
};
