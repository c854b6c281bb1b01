//! Highest priority first, one task at a time on the whole cluster, whatever its length.
//!
//! The behaviour of a single model server without concurrency; the first baseline of the model scheduling experiment.
//! Safe, because nothing ever shares a device, and slow for the same reason.

use crate::backfill::PriorityOrder;
use warpyard_core::PolicyDef;
use warpyard_core::ordered::{BackfillRule, Ordered};
use warpyard_core::policy::PolicyGroup;

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "priority-serial",
    summary: "highest priority first, one task at a time",
    group: PolicyGroup::Arrival,
    when: "for inference on one GPU, where two tasks at once would slow each other down",
    source: "serial execution by priority, the usual baseline for inference on one GPU",
    params: &[],
    build: |_| Box::new(Ordered::new(PriorityOrder, BackfillRule::Nobody).at_most(1)),
};
