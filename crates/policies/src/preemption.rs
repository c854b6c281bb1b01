//! Preemption granularity: the parameter of policies under which running tasks are preempted by more urgent ones.
//!
//! Only tasks that allow it are preempted: `preempt = "freeze"` suspends in place and keeps the memory, `preempt =
//! "requeue"` saves, exits and runs again later.

use warpyard_core::Policy;
use warpyard_core::ordered::{Order, Ordered};
use warpyard_core::spec::Boundary;

pub(crate) const HELP: &str = "when a running task that allows it is preempted by a more urgent one: after its item, after its batch, or never (job)";

/// Policy that preempts at the given granularity. A boundary is a promise of the program: preemption waits for it, so
/// a task loses no work beyond its current item or batch.
pub(crate) fn build<O: Order + 'static>(policy: Ordered<O>, granularity: &str) -> Box<dyn Policy> {
    Box::new(match granularity {
        "item" => policy.preempting(Boundary::Item),
        "batch" => policy.preempting(Boundary::Batch),
        // `job`: a task runs to its end, which is no preemption at all.
        _ => policy,
    })
}
