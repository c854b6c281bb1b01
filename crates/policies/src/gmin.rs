//! Least loaded device: in order of arrival, each fitting task goes to the device with the least load.
//!
//! The global minimum rule of D. Sengupta et al., *Scheduling Multi-tenant Cloud Workloads on Accelerator-based
//! Systems* (SC 2014). The load of a device is the number of tasks on it, or the memory allocated to them.

use crate::fifo::ArrivalOrder;
use warpyard_core::PolicyDef;
use warpyard_core::ordered::{BackfillRule, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, word};

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "gmin",
    summary: "order of arrival, each on the least loaded device",
    group: PolicyGroup::Arrival,
    when: "for tasks that share GPUs and should spread over all of them",
    source: "Sengupta et al., Scheduling Multi-tenant Cloud Workloads on Accelerator-based Systems, SC 2014",
    params: &[word(
        "load",
        &["tasks", "memory"],
        "what loads a device: tasks on it, or memory they were given",
    )],
    build: |p| {
        let fit = if p.word("load") == "memory" { Fit::Worst } else { Fit::Spread };
        Box::new(Ordered::new(ArrivalOrder, BackfillRule::Anyone).fit(fit))
    },
};
