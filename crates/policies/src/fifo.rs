//! First come, first served, strictly: while the head of the queue cannot start, nothing behind it does.
//!
//! The oldest discipline and the baseline of every comparison. Nothing starves, but one large task at the head leaves
//! devices idle that small ones behind it could use. Priorities and lengths are ignored.

use crate::FIT;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

/// Order of submission; also used by `hybrid`, `gmin` and `all-at-once`.
pub(crate) struct ArrivalOrder;

impl Order for ArrivalOrder {
    fn key(&self, _: &ReadyTask<'_>) -> Key {
        Key::ARRIVAL
    }

    fn formula(&self) -> &'static str {
        "t, the time of submission; the earliest goes first"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        format!("t = {:.0}", task.job.submitted.secs())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "fifo",
    summary: "strict order of arrival; nobody overtakes",
    group: PolicyGroup::Arrival,
    when: "for strict order of arrival, where nobody overtakes even if GPUs stand idle",
    source: "first come, first served",
    params: &[FIT],
    build: |p| Box::new(Ordered::new(ArrivalOrder, BackfillRule::Nobody).fit(Fit::from_word(p.word("fit")))),
};
