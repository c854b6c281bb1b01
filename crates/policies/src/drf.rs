//! Dominant resource fairness: the user with the smallest dominant share goes next.
//!
//! A user's dominant share is the largest of their parts of all GPUs, all processors and all main memory; of a shared GPU
//! the part of its memory counts. Whoever needs mostly processors and whoever needs mostly GPUs end up with equal
//! dominant shares, nobody gains by asking for more than they need, and nobody would rather have another's share. From
//! A. Ghodsi et al., *Dominant Resource Fairness* (NSDI 2011), there for tasks that can be divided at will; here a task
//! that does not fit is overtaken as the `behind` parameter says. One user's own tasks go by priority, then arrival.

use crate::FIT;
use crate::backfill::Urgency;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{Behind, Given, Order, Ordered, Turns};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Time};

struct Drf;

impl Order for Drf {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Urgency.key(task)
    }

    fn formula(&self) -> &'static str {
        "S = max(GPUs, CPUs, memory of the user, each as a part of all); the smallest S goes first, then (p, t)"
    }

    fn numbers(&self, task: &ReadyTask<'_>, view: View<'_>, now: Time) -> String {
        let (held, all) = (view.account(&task.job.user).held(), view.pool().total());
        let part = |mine: u64, all: u64| if all == 0 { 0.0 } else { 100.0 * mine as f64 / all as f64 };
        format!(
            "S = max({:.0} %, {:.0} %, {:.0} %) = {:.0} %, {}",
            part(held.devices, all.devices),
            part(held.cpus, all.cpus),
            part(held.memory, all.memory),
            100.0 * held.dominant(all),
            Urgency.numbers(task, view, now)
        )
    }

    fn turns(&self) -> Option<&dyn Turns> {
        Some(self)
    }
}

impl Turns for Drf {
    /// Changes with what is given and taken back, never by itself.
    fn rank(&self, view: View<'_>, user: &str, given: Given, _: Time) -> f64 {
        let mut held = view.account(user).held();
        held += given.held;
        held.dominant(view.pool().total())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "drf",
    summary: "dominant resource fairness: the user with the smallest dominant share goes next",
    group: PolicyGroup::Users,
    when: "for users who need different amounts of GPU, CPU and memory and should have equal shares",
    source: "Ghodsi et al., Dominant Resource Fairness, NSDI 2011",
    params: &[Behind::PARAM, FIT],
    build: |p| {
        let behind = Behind::from_word(p.word("behind"));
        Box::new(Ordered::new(Drf, behind).fit(Fit::from_word(p.word("fit"))))
    },
};
