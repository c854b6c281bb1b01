//! Backfilling: priority, then arrival; the first task that cannot start gets a reservation, and later tasks start
//! only if they do not delay it.
//!
//! The reservation is at the earliest time at which the head of the queue fits if every running task ends when
//! expected. A later task is backfilled if it ends before that time, or does not use the reserved devices. A single
//! reservation is EASY backfilling: D. Lifka, *The ANL/IBM SP Scheduling System* (1995). With `reserve =
//! "conservative"` each of the first `depth` tasks gets one, and no task is ever delayed by a later one: A. W. Mu'alem
//! and D. G. Feitelson, *Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2
//! with Backfilling* (2001). Such a plan costs running tasks times reservations, so the depth bounds it.

use crate::FIT;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, number, word};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

/// Order by priority, then submission.
pub(crate) struct PriorityOrder;

impl Order for PriorityOrder {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::urgent(task.job.priority)
    }

    fn formula(&self) -> &'static str {
        "(p, t): the largest priority p goes first, then the earliest submission t"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        format!("p = {}, t = {:.0}", task.job.priority, task.job.submitted.secs())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "backfill",
    summary: "priority, then arrival; short tasks fill gaps without delaying the first in the queue",
    group: PolicyGroup::Arrival,
    when: "the default, for tasks of mixed sizes: small ones use GPUs that a large one waits for",
    source: "EASY backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995",
    params: &[
        word(
            "reserve",
            &["easy", "conservative"],
            "which queued tasks have a reservation: the first, or each of the first depth",
        ),
        number("depth", 50.0, "how many queued tasks have a reservation, with reserve=conservative"),
        FIT,
    ],
    build: |p| {
        let behind = match p.word("reserve") {
            // A depth of 0 would reserve for nobody, and the head of the queue could starve.
            "conservative" => BackfillRule::ReserveAll { depth: p.number("depth").max(1.0) as u32 },
            _ => BackfillRule::Reserve,
        };
        Box::new(Ordered::new(PriorityOrder, behind).fit(Fit::from_word(p.word("fit"))))
    },
};
