//! First come, first served, strictly: while the first in line cannot start, nobody behind it does.
//!
//! The oldest discipline there is and the baseline of every comparison. Nothing starves, but one large task at the head
//! leaves devices idle that small ones behind it could use. Priorities and lengths are ignored.

use crate::FIT;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{Behind, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

/// The order of submission; `hybrid` and `all-at-once` stand on it too.
pub(crate) struct Arrival;

impl Order for Arrival {
    fn key(&self, _: &ReadyTask<'_>) -> Key {
        Key::ARRIVAL
    }

    fn formula(&self) -> &'static str {
        "t, the time of submission; the earliest goes first"
    }

    fn numbers(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
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
    build: |p| Box::new(Ordered::new(Arrival, Behind::Nobody).fit(Fit::from_word(p.word("fit")))),
};
