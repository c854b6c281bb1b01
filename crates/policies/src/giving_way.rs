//! The parameter of policies in which the less urgent give way to the more urgent.
//!
//! Only tasks that allow it do: `preempt = "freeze"` stands still in place and keeps its memory, `preempt = "requeue"` saves,
//! ends, and runs again later.

use warpyard_core::Policy;
use warpyard_core::ordered::{Order, Ordered};
use warpyard_core::spec::Boundary;

pub(crate) const HELP: &str = "when a task that allows it gives way to a more urgent one: after its item, its batch, or its job (never before it ends)";

/// A policy that gives way at that granularity.
pub(crate) fn build<O: Order + 'static>(policy: Ordered<O>, granularity: &str) -> Box<dyn Policy> {
    Box::new(match granularity {
        "item" => policy.giving_way(Boundary::Item),
        "batch" => policy.giving_way(Boundary::Batch),
        _ => policy,
    })
}
