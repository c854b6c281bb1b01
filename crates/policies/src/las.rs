//! Least attained service: the task with the least device time goes first, and preempts those with more.
//!
//! Needs no lengths: short tasks end before they are demoted, long ones are demoted and fill what is left. Service is
//! running time times devices. It is not compared directly, or equal tasks would alternate forever, but by levels: a
//! task is demoted after `quantum` device-seconds, then after `factor` times as much, and so on; within a level the
//! order of submission counts and nothing is preempted. The discretised form is from J. Gu et al., *Tiresias: A GPU
//! Cluster Manager for Distributed Deep Learning* (NSDI 2019). A plan while something waits costs what runs.

use crate::{FIT, preemption};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, number, word};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Span, Time};

/// Lowest level.
const LOWEST: u32 = 40;

struct Las {
    quantum: f64,
    factor: f64,
}

impl Las {
    /// Level of a task with this service, and the service at which it is demoted to the next.
    fn level(&self, attained: f64) -> (u32, f64) {
        let (mut level, mut until) = (0, self.quantum);
        while attained >= until && level < LOWEST {
            level += 1;
            until *= self.factor;
        }
        (level, until)
    }
}

fn devices(task: &ReadyTask<'_>) -> f64 {
    f64::from(task.spec.needs.gpus.max(1))
}

fn attained(task: &ReadyTask<'_>) -> f64 {
    task.ran.secs() * devices(task)
}

impl Order for Las {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::ascending(f64::from(self.level(attained(task)).0)).then(task.job.submitted.secs())
    }

    fn formula(&self) -> &'static str {
        "(L, t): the smallest level L goes first, then the earliest submission t; L grows with s = ran · GPUs in seconds"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        let (ran, devices, attained) = (task.ran.secs(), devices(task), attained(task));
        let (level, until) = self.level(attained);
        let t = task.job.submitted.secs();
        format!("s = {ran:.0}·{devices} = {attained:.0} < {until:.0}, so L = {level}, t = {t:.0}")
    }

    /// Before all waiting tasks of its level, so that only better levels preempt it.
    fn running_key(&self, task: &ReadyTask<'_>) -> Key {
        Key::ascending(f64::from(self.level(attained(task)).0))
    }

    fn key_grows_after(&self, task: &ReadyTask<'_>) -> Option<Span> {
        let (level, until) = self.level(attained(task));
        let after = (until - attained(task)) / devices(task);
        (level < LOWEST).then(|| Span::from_secs(after) + Span(1))
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "las",
    summary: "least attained service first; preempts what has had more",
    group: PolicyGroup::RunTime,
    when: "for unknown run times, where tasks can be preempted",
    source: "Gu et al., Tiresias: A GPU Cluster Manager for Distributed Deep Learning, NSDI 2019",
    params: &[
        number("quantum", 600.0, "device-seconds after which a task sinks to the second level"),
        number("factor", 4.0, "how many times as much each further level takes"),
        word("granularity", &["item", "batch", "job"], preemption::HELP),
        BackfillRule::PARAM,
        FIT,
    ],
    build: |p| {
        let order = Las { quantum: p.number("quantum").max(1e-3), factor: p.number("factor").max(1.1) };
        let policy = Ordered::new(order, BackfillRule::from_word(p.word("behind")));
        preemption::build(policy.fit(Fit::from_word(p.word("fit"))), p.word("granularity"))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_takes_a_factor_longer() {
        let las = Las { quantum: 10.0, factor: 4.0 };
        let levels = [0.0, 9.9, 10.0, 39.9, 40.0, 160.0].map(|attained| las.level(attained).0);
        assert_eq!(levels, [0, 0, 1, 1, 2, 3]);
        assert_eq!(las.level(12.0).1, 40.0);
    }
}
