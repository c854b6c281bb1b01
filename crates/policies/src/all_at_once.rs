//! No scheduling: every task starts on arrival, spread over the devices, whether it fits or not.
//!
//! The naive baseline: a shared machine without a scheduler. How much a device accepts is a property of the device, so
//! this policy over-commits only devices marked so (and any in a simulation that marks them); on the others it starts
//! what fits.

use crate::fifo::ArrivalOrder;
use warpyard_core::PolicyDef;
use warpyard_core::ordered::{BackfillRule, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "all-at-once",
    summary: "starts everything on arrival; overcommits devices that allow it",
    group: PolicyGroup::Arrival,
    when: "a baseline: what happens without a scheduler",
    source: "a shared machine without a scheduler",
    params: &[],
    build: |_| Box::new(Ordered::new(ArrivalOrder, BackfillRule::Anyone).fit(Fit::Spread)),
};
