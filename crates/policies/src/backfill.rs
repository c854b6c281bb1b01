//! Priority, then arrival; the first that cannot start keeps a reservation, and others run behind it only if they do not
//! delay it.
//!
//! The reservation is for the earliest moment at which the head of the line fits if everything running ends when it is
//! expected to. A task behind it starts if it ends before that moment, or leaves the reserved place alone. A single
//! reservation is EASY backfilling: D. Lifka, *The ANL/IBM SP Scheduling System* (1995). With `reserve = "conservative"`
//! each of the first `depth` in line keeps one, and nobody is ever delayed by someone behind: A. W. Mu'alem and
//! D. G. Feitelson, *Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
//! Backfilling* (2001). Such a plan costs what runs times the places kept, so the depth bounds it.

use crate::FIT;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{Behind, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, number, word};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

/// The more urgent first, then the order of submission.
pub(crate) struct Urgency;

impl Order for Urgency {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::urgent(task.job.priority)
    }

    fn formula(&self) -> &'static str {
        "(p, t): the largest priority p goes first, then the earliest submission t"
    }

    fn numbers(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        format!("p = {}, t = {:.0}", task.job.priority, task.job.submitted.secs())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "backfill",
    summary: "priority, then arrival; short tasks fill gaps without delaying the first in line",
    group: PolicyGroup::Arrival,
    when: "the default, for tasks of mixed sizes: small ones use GPUs that a large one waits for",
    source: "EASY backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995",
    params: &[
        word(
            "reserve",
            &["easy", "conservative"],
            "for whom a place is kept: the first in line, or each of many",
        ),
        number("depth", 50.0, "for how many in line a place is kept, with reserve=conservative"),
        FIT,
    ],
    build: |p| {
        let behind = match p.word("reserve") {
            "conservative" => Behind::ReserveAll { depth: p.number("depth").max(1.0) as u32 },
            _ => Behind::Reserve,
        };
        Box::new(Ordered::new(Urgency, behind).fit(Fit::from_word(p.word("fit"))))
    },
};
