//! Fair share: the user who has used least of late goes next.
//!
//! Use is in device-seconds and fades: what was used a half-life ago counts half. It grows while something of the user's
//! runs, so the order among users changes by itself; the moment it next does is known in closed form, and planned for.
//! One user's own tasks go by priority, then arrival. The decayed usage of J. Kay and P. Lauder, *A Fair Share Scheduler*
//! (1988), as batch schedulers apply it to users.

use crate::FIT;
use crate::backfill::Urgency;
use warpyard_core::cluster::{HALF_LIFE, HALF_LIFE_PARAM, ReadyTask, View};
use warpyard_core::ordered::{Behind, Given, Order, Ordered, Turns};
use warpyard_core::place::Fit;
use warpyard_core::policy::{PolicyGroup, number};
use warpyard_core::queue::Key;
use warpyard_core::{PolicyDef, Span, Time};

struct FairShare {
    /// In seconds; 0 never forgets. The accounts fade by it, because it is a parameter of the policy in force.
    half_life: f64,
}

impl Order for FairShare {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Urgency.key(task)
    }

    fn formula(&self) -> &'static str {
        "U, what the user has used in GPU-seconds, halved with every half-life; the smallest U goes first, then (p, t)"
    }

    fn numbers(&self, task: &ReadyTask<'_>, view: View<'_>, now: Time) -> String {
        format!("U = {:.0}, {}", view.used(&task.job.user, now), Urgency.numbers(task, view, now))
    }

    fn turns(&self) -> Option<&dyn Turns> {
        Some(self)
    }
}

impl Turns for FairShare {
    fn rank(&self, view: View<'_>, user: &str, _: Given, now: Time) -> f64 {
        view.used(user, now)
    }

    /// The first moment at which someone's use overtakes that of the user right after them.
    fn changes_at(&self, view: View<'_>, users: &[(&str, Given)], now: Time) -> Option<Time> {
        // No use grows until a clock that was set back has caught up.
        let now = users.iter().map(|(user, _)| view.account(user).at()).fold(now, Time::max);
        let course =
            |&(user, given): &(&str, Given)| (view.used(user, now), view.account(user).rate() + given.rate);
        let courses: Vec<_> = users.iter().map(course).collect();
        let meetings = courses.windows(2).filter_map(|pair| self.meeting(pair[0], pair[1]));
        let first = meetings.min_by(f64::total_cmp)?;
        Some(now + Span::from_secs(first).max(Span(1)))
    }
}

impl FairShare {
    /// After how many seconds a use of which less was had, but which grows faster, has caught up with another.
    fn meeting(&self, (less, fast): (f64, f64), (more, slow): (f64, f64)) -> Option<f64> {
        let (gap, gain) = (more - less, fast - slow);
        if gain <= 0.0 || gap < 0.0 {
            return None;
        }
        if self.half_life <= 0.0 {
            return Some(gap / gain);
        }
        // Both fade alike, so only the difference matters: gap · 2^(−t/h) = gain · h/ln 2 · (1 − 2^(−t/h)).
        let steady = gain * self.half_life / std::f64::consts::LN_2;
        Some(self.half_life * (1.0 + gap / steady).log2())
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "fair-share",
    summary: "the user who has used least of late goes next",
    group: PolicyGroup::Users,
    when: "for letting users who used little lately go first",
    source: "Kay and Lauder, A Fair Share Scheduler, 1988",
    params: &[
        number(HALF_LIFE_PARAM, HALF_LIFE, "seconds after which what was used counts half; 0 never forgets"),
        Behind::PARAM,
        FIT,
    ],
    build: |p| {
        let behind = Behind::from_word(p.word("behind"));
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
        assert_eq!(never.meeting((10.0, 2.0), (40.0, 0.5)), Some(20.0));
        assert_eq!(never.meeting((10.0, 1.0), (40.0, 1.0)), None);
        let fading = FairShare { half_life: 100.0 };
        let at = fading.meeting((10.0, 2.0), (40.0, 0.5)).unwrap();
        let used = |used: f64, rate: f64| {
            let kept = (-at / 100.0f64).exp2();
            used * kept + rate * 100.0 / std::f64::consts::LN_2 * (1.0 - kept)
        };
        assert!((used(10.0, 2.0) - used(40.0, 0.5)).abs() < 1e-9);
    }
}
