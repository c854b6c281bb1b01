//! Fair share: the user with the least recent GPU usage goes next.
//!
//! Usage is in device-seconds and decays: what was used a half-life ago counts half. It grows while a user's tasks
//! run, so the order among users changes with time; the next change is known in closed form, and a plan is scheduled
//! for it. Tasks of one user go by priority, then arrival. The decayed usage of J. Kay and P. Lauder, *A Fair Share
//! Scheduler* (1988), as batch schedulers apply it to users.

use crate::FIT;
use crate::backfill::PriorityOrder;
use warpyard_core::cluster::{HALF_LIFE, HALF_LIFE_PARAM, ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Grant, Order, Ordered, UserOrder};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, number};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Span, Time};

struct FairShare {
    /// Half-life in seconds; 0 never decays. The accounts decay by it, because it is a parameter of the policy in
    /// force.
    half_life: f64,
}

impl Order for FairShare {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        PriorityOrder.key(task)
    }

    fn formula(&self) -> &'static str {
        "U, what the user has used in GPU-seconds, halved with every half-life; the smallest U goes first, then (p, t)"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, view: View<'_>, now: Time) -> String {
        format!(
            "U = {:.0}, {}",
            view.used(&task.job.user, now),
            PriorityOrder.formula_values(task, view, now)
        )
    }

    fn user_order(&self) -> Option<&dyn UserOrder> {
        Some(self)
    }
}

impl UserOrder for FairShare {
    fn rank(&self, view: View<'_>, user: &str, _: Grant, now: Time) -> f64 {
        view.used(user, now)
    }

    /// First time at which a user's usage overtakes that of the next user.
    fn changes_at(&self, view: View<'_>, users: &[(&str, Grant)], now: Time) -> Option<Time> {
        // After the clock was set back no usage grows until it has caught up with the accounts.
        let now = users.iter().map(|(user, _)| view.account(user).at()).fold(now, Time::max);
        let usage_line =
            |&(user, given): &(&str, Grant)| (view.used(user, now), view.account(user).rate() + given.rate);
        let usage_lines: Vec<_> = users.iter().map(usage_line).collect();
        // Only neighbours can cross first: users are sorted by usage.
        let crossings = usage_lines.windows(2).filter_map(|pair| self.crossing(pair[0], pair[1]));
        let first = crossings.min_by(f64::total_cmp)?;
        Some(now + Span::from_secs(first).max(Span(1)))
    }
}

impl FairShare {
    /// Seconds until the lower but faster growing of two usages reaches the other.
    fn crossing(&self, (less, fast): (f64, f64), (more, slow): (f64, f64)) -> Option<f64> {
        let (gap, gain) = (more - less, fast - slow);
        if gain <= 0.0 || gap < 0.0 {
            return None;
        }
        if self.half_life <= 0.0 {
            return Some(gap / gain);
        }
        // Both decay alike, so only the difference matters: gap · 2^(−t/h) = gain · h/ln 2 · (1 − 2^(−t/h)).
        let steady = gain * self.half_life / std::f64::consts::LN_2;
        Some(self.half_life * (1.0 + gap / steady).log2())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "fair-share",
    summary: "the user with the least recent GPU use goes next",
    group: PolicyGroup::Users,
    when: "for users to have equal shares over time: who used little lately goes first",
    source: "Kay and Lauder, A Fair Share Scheduler, 1988",
    params: &[
        number(HALF_LIFE_PARAM, HALF_LIFE, "half-life of past use in seconds; 0 never forgets"),
        BackfillRule::PARAM,
        FIT,
    ],
    build: |p| {
        let behind = BackfillRule::from_word(p.word("behind"));
        let order = FairShare { half_life: p.number(HALF_LIFE_PARAM).max(0.0) };
        Box::new(Ordered::new(order, behind).fit(Fit::from_word(p.word("fit"))))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_meet_when_the_faster_has_caught_up() {
        let never = FairShare { half_life: 0.0 };
        assert_eq!(never.crossing((10.0, 2.0), (40.0, 0.5)), Some(20.0));
        assert_eq!(never.crossing((10.0, 1.0), (40.0, 1.0)), None);
        let fading = FairShare { half_life: 100.0 };
        let at = fading.crossing((10.0, 2.0), (40.0, 0.5)).unwrap();
        let used = |used: f64, rate: f64| {
            let kept = (-at / 100.0f64).exp2();
            used * kept + rate * 100.0 / std::f64::consts::LN_2 * (1.0 - kept)
        };
        assert!((used(10.0, 2.0) - used(40.0, 0.5)).abs() < 1e-9);
    }
}
