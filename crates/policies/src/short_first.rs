//! Short tasks first, without starving long ones.
//!
//! P = αp − βT − γt, with p the priority, T the timeout set by the user and t the submission time, both in seconds;
//! the largest P goes first. A short timeout starts early and is enforced; old submissions eventually outrank short
//! ones because t is fixed at submission. With α = 3600, β = 0, γ = 1 a priority level is worth one hour's wait. From
//! *GPU Scheduling for Short Tasks in Private Cloud* (2019), equation 1.
//!
//! Optionally reserves some GPUs for tasks with a short timeout, so that a test always starts soon, and rejects long
//! timeouts while there are few GPUs.

use crate::FIT;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::command::Code;
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::{Fit, acceptable};
use warpyard_core::policy::{Params, PolicyGroup, number};
use warpyard_core::pool::{DeviceInfo, DeviceState, charge_for};
use warpyard_core::queue::Key;
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};
use warpyard_core::{DeviceId, PolicyDef, Rejection, Span, Time};

/// Class of tasks with a short timeout: may use every device.
const SHORT: u8 = 0;
/// Class of the other tasks: may not use reserved devices.
const LONG: u8 = 1;

struct ShortFirst {
    alpha: f64,
    beta: f64,
    gamma: f64,
    /// Devices reserved for short tasks.
    keep: usize,
    /// Longest timeout that counts as short.
    short: Span,
    /// Longest timeout accepted while there are fewer devices than `few`.
    limit: Span,
    few: usize,
}

impl ShortFirst {
    fn from(p: &Params) -> ShortFirst {
        ShortFirst {
            alpha: p.number("alpha"),
            beta: p.number("beta"),
            gamma: p.number("gamma"),
            keep: p.number("keep") as usize,
            short: Span::from_secs(p.number("short")),
            limit: Span::from_secs(p.number("limit")),
            few: p.number("few") as usize,
        }
    }

    fn is_short(&self, task: &TaskSpec) -> bool {
        timeout(task) <= self.short
    }

    /// Devices reserved for short tasks: the last usable ones.
    fn reserved_devices(&self, view: View<'_>) -> Vec<DeviceId> {
        if self.keep == 0 {
            return Vec::new();
        }
        let open = view.pool().workers().filter(|(_, w)| w.is_open());
        let mut usable: Vec<_> = open
            .flat_map(|(worker, w)| {
                let usable = w.devices().filter(|(_, info, _)| info.state == DeviceState::Usable);
                usable.map(move |(index, ..)| DeviceId { worker, index })
            })
            .collect();
        usable.split_off(usable.len().saturating_sub(self.keep))
    }

    /// Whether some idle worker could hold a long task without the reserved devices.
    fn could_start(&self, view: View<'_>, needs: &Needs) -> bool {
        // A long task that only fits on reserved devices would wait forever; it is rejected instead.
        let reserved = self.reserved_devices(view);
        view.pool().workers().any(|(worker, w)| {
            let suits = |index: u16, info: &DeviceInfo| {
                let id = DeviceId { worker, index };
                acceptable(needs, id, info) && charge_for(info, needs).is_some() && !reserved.contains(&id)
            };
            let devices = w.devices().filter(|&(index, info, _)| suits(index, info)).count();
            let host = w.cpus() >= needs.cpus && w.memory() >= needs.memory;
            host && devices >= usize::from(needs.gpus)
        })
    }
}

/// Timeout of a task; a year without one.
fn timeout(task: &TaskSpec) -> Span {
    task.timeout.unwrap_or(Span::UNKNOWN)
}

impl Order for ShortFirst {
    /// Fixed once a task is ready, so the queue stays sorted without ever being re-sorted.
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        let (priority, submitted) = (task.job.priority as f64, task.job.submitted.secs());
        Key::descending(self.alpha * priority - self.beta * task.timeout().secs() - self.gamma * submitted)
    }

    fn formula(&self) -> &'static str {
        "P = α·p − β·T + γ·w, of priority p, timeout T and time w since submission in seconds; the largest P goes first"
    }

    /// Submission time relative to now, which shifts every key alike: a readable number in place of seconds since
    /// 1970.
    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, now: Time) -> String {
        let ShortFirst { alpha, beta, gamma, .. } = self;
        let (p, length, w) = (task.job.priority, task.timeout().secs(), now.since(task.job.submitted).secs());
        let total = alpha * p as f64 - beta * length + gamma * w;
        format!("P = {alpha:e}·{p} − {beta}·{length:.0} + {gamma}·{w:.0} = {total:.0}")
    }

    fn class(&self, task: &ReadyTask<'_>) -> u8 {
        if self.keep == 0 || self.is_short(task.spec) { SHORT } else { LONG }
    }

    fn withheld(&self, view: View<'_>, class: u8) -> Vec<DeviceId> {
        if class == LONG { self.reserved_devices(view) } else { Vec::new() }
    }

    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        let refuse = |i: usize, field: &str, why: String| {
            Err(Rejection::new(Code::RefusedByPolicy, why).at(format!("tasks[{i}].{field}")))
        };
        let exist: usize = view.pool().workers().map(|(_, w)| w.devices().count()).sum();
        for (i, task) in job.tasks.iter().enumerate() {
            if exist < self.few && timeout(task) > self.limit {
                let (limit, few) = (self.limit.secs(), self.few);
                let why = format!(
                    "with fewer than {few} GPUs the policy takes no timeout above {limit} s (there are {exist})"
                );
                return refuse(i, "timeout", why);
            }
            let long = self.keep > 0 && task.needs.gpus > 0 && !self.is_short(task);
            if long && exist > 0 && !self.could_start(view, &task.needs) {
                let why = format!(
                    "the policy keeps {} GPUs for timeouts of at most {} s, which leaves too few",
                    self.keep,
                    self.short.secs()
                );
                return refuse(i, "gpus", why);
            }
        }
        Ok(())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "short-first",
    summary: "shortest timeout first, ageing by submission time",
    group: PolicyGroup::RunTime,
    when: "for short tasks to start soon without starving long ones, where timeouts are honest",
    source: "GPU Scheduling for Short Tasks in Private Cloud, 2019, equation 1",
    params: &[
        number("alpha", 1e9, "weight of a priority level; the default outweighs everything else"),
        number("beta", 1.0, "weight of the timeout, per second"),
        number("gamma", 1.0, "weight of the moment of submission, per second"),
        number("keep", 0.0, "GPUs kept for short tasks"),
        number("short", 600.0, "longest timeout that counts as short, in seconds"),
        number("limit", 31_536_000.0, "longest timeout taken while there are few GPUs, in seconds"),
        number("few", 0.0, "how many GPUs there must be before any timeout is taken"),
        BackfillRule::PARAM,
        FIT,
    ],
    build: |p| {
        let behind = BackfillRule::from_word(p.word("behind"));
        Box::new(Ordered::new(ShortFirst::from(p), behind).fit(Fit::from_word(p.word("fit"))))
    },
};
