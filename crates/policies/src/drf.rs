//! Dominant resource fairness: the user with the smallest dominant share goes next.
//!
//! A user's dominant share is the largest of their fractions of all GPUs, all processors and all main memory; a shared
//! GPU counts by the fraction of its memory. Users with different needs end up with equal dominant shares, no user
//! gains by requesting more than needed (strategy-proof), and none would prefer another's share (envy-free). From A.
//! Ghodsi et al., *Dominant Resource Fairness* (NSDI 2011), there for divisible tasks; here a task that does not fit
//! is overtaken as the `behind` parameter says. Tasks of one user go by priority, then arrival.

use crate::FIT;
use crate::backfill::PriorityOrder;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Grant, Order, Ordered, UserOrder};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

struct Drf;

impl Order for Drf {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        PriorityOrder.key(task)
    }

    fn formula(&self) -> &'static str {
        "S = max(GPUs, CPUs, memory of the user, each as a part of all); the smallest S goes first, then (p, t)"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, view: View<'_>, now: Time) -> String {
        let (held, all) = (view.account(&task.job.user).held(), view.pool().total());
        let part = |mine: u64, all: u64| if all == 0 { 0.0 } else { 100.0 * mine as f64 / all as f64 };
        format!(
            "S = max({:.0} %, {:.0} %, {:.0} %) = {:.0} %, {}",
            part(held.devices, all.devices),
            part(held.cpus, all.cpus),
            part(held.memory, all.memory),
            100.0 * held.dominant(all),
            PriorityOrder.formula_values(task, view, now)
        )
    }

    fn user_order(&self) -> Option<&dyn UserOrder> {
        Some(self)
    }
}

impl UserOrder for Drf {
    /// Dominant share with this plan's grants included. It changes only by grants and releases, never with time alone.
    fn rank(&self, view: View<'_>, user: &str, given: Grant, _: Time) -> f64 {
        let mut held = view.account(user).held();
        held += given.resources;
        held.dominant(view.pool().total())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "drf",
    summary: "dominant resource fairness: the user with the smallest dominant share goes next",
    group: PolicyGroup::Users,
    when: "for users who need different amounts of GPU, CPU and memory and should have equal shares",
    source: "Ghodsi et al., Dominant Resource Fairness, NSDI 2011",
    params: &[BackfillRule::PARAM, FIT],
    build: |p| {
        let behind = BackfillRule::from_word(p.word("behind"));
        Box::new(Ordered::new(Drf, behind).fit(Fit::from_word(p.word("fit"))))
    },
};
