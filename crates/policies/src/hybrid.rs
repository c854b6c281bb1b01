//! First in, first out, then by availability: the queue is scanned in order of arrival, and whatever fits starts.
//!
//! Which devices a task may use, names and waits for is stated in the task (`gpu_scope`, `gpu_preferred`, `wait_mode`)
//! and means the same under every policy; this one is where the combination comes from: a hybrid GPU scheduler in
//! which a task either queues for a named device or is scheduled on any free one. No reservation: a large task can be
//! overtaken as long as small ones keep fitting.

use crate::FIT;
use crate::fifo::ArrivalOrder;
use warpyard_core::PolicyDef;
use warpyard_core::ordered::{BackfillRule, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "hybrid",
    summary: "order of arrival, then whatever fits what is available",
    group: PolicyGroup::Arrival,
    when: "for people who name the GPUs they want, while others take what is left",
    source: "hybrid queue-or-schedule GPU sharing",
    params: &[FIT],
    build: |p| Box::new(Ordered::new(ArrivalOrder, BackfillRule::Anyone).fit(Fit::from_word(p.word("fit")))),
};
