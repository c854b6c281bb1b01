//! Everything starts on arrival, spread over the devices, with no regard for what fits.
//!
//! The naive baseline: what happens on a shared machine without a scheduler. How much a device takes is a property of
//! the device, so that this policy over-commits only those marked so (and any in a simulation that marks them); on the
//! rest it starts whatever fits.

use crate::fifo::Arrival;
use warpyard_core::PolicyDef;
use warpyard_core::ordered::{Behind, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "all-at-once",
    summary: "starts everything on arrival; overcommits devices that allow it",
    group: PolicyGroup::Arrival,
    when: "a baseline: what happens without a scheduler",
    source: "a shared machine without a scheduler",
    params: &[],
    build: |_| Box::new(Ordered::new(Arrival, Behind::Anyone).fit(Fit::Spread)),
};
