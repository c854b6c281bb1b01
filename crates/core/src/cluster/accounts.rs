//! What each user has, and has had of late: for policies that share out fairly.
//!
//! Use is in device-seconds and fades: after a half-life, a parameter of the policy in force, it counts half. It grows
//! while an attempt has its place and does not stand still. Every account is brought up to date when what its user has
//! changes, and at no other time, so an event costs one look-up.

use super::job::Attempt;
use crate::ids::WorkerId;
use crate::policy::PolicyChoice;
use crate::pool::{Placement, Pool, Resources};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The half-life of use in seconds where the policy names none: a week.
pub const HALF_LIFE: f64 = 7.0 * 24.0 * 3600.0;

/// The parameter by which a policy names another; 0 never forgets.
pub const HALF_LIFE_PARAM: &str = "half_life";

/// What a user has, and has had of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Device-seconds, as they counted at `at`.
    used: f64,
    at: Time,
    /// What the user's attempts have of the machines, those that stand still included.
    #[serde(skip)]
    held: Resources,
    /// Millionths of a device in use by those that do not.
    #[serde(skip)]
    rate: u64,
}

impl Account {
    /// What the user's attempts have of the machines.
    pub fn held(&self) -> Resources {
        self.held
    }

    /// When it was last brought up to date: later than now only if the clock was set back since.
    pub fn at(&self) -> Time {
        self.at
    }

    /// Devices in use now.
    pub fn rate(&self) -> f64 {
        self.rate as f64 / Resources::DEVICE as f64
    }

    /// Device-seconds as they count at a moment.
    pub fn used(&self, now: Time, half_life: f64) -> f64 {
        let passed = now.since(self.at).secs();
        if half_life <= 0.0 {
            return self.used + self.rate() * passed;
        }
        let kept = (-passed / half_life).exp2();
        self.used * kept + self.rate() * half_life / std::f64::consts::LN_2 * (1.0 - kept)
    }

    fn settle(&mut self, now: Time, half_life: f64) {
        self.used = self.used(now, half_life);
        self.at = self.at.max(now);
    }
}

/// The accounts of all users there ever were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Accounts(BTreeMap<String, Account>);

impl Accounts {
    pub(super) fn get(&self, user: &str) -> Option<&Account> {
        self.0.get(user)
    }

    /// An attempt was given its place.
    pub(super) fn placed(&mut self, user: &str, pool: &Pool, p: &Placement, now: Time, half_life: f64) {
        let held = Resources::of(pool, p);
        self.change(user, now, half_life, |account| {
            account.held += held;
            account.rate += rate_of(pool, p, held);
        });
    }

    /// An attempt gave it back.
    pub(super) fn ended(
        &mut self,
        user: &str,
        pool: &Pool,
        p: &Placement,
        still: bool,
        now: Time,
        half: f64,
    ) {
        let held = Resources::of(pool, p);
        self.change(user, now, half, |account| {
            account.held -= held;
            if !still {
                account.rate -= rate_of(pool, p, held);
            }
        });
    }

    /// An attempt began to stand still, or went on.
    pub(super) fn still(
        &mut self,
        user: &str,
        pool: &Pool,
        p: &Placement,
        still: bool,
        now: Time,
        half: f64,
    ) {
        let rate = rate_of(pool, p, Resources::of(pool, p));
        self.change(user, now, half, |account| match still {
            true => account.rate -= rate,
            false => account.rate += rate,
        });
    }

    /// An attempt is charged another amount of device memory.
    pub(super) fn recharged(
        &mut self,
        user: &str,
        pool: &Pool,
        (before, after): (&Placement, &Placement),
        still: bool,
        now: Time,
        half: f64,
    ) {
        let (was, is) = (Resources::of(pool, before), Resources::of(pool, after));
        self.change(user, now, half, |account| {
            account.held -= was;
            account.held += is;
            if !still {
                account.rate -= rate_of(pool, before, was);
                account.rate += rate_of(pool, after, is);
            }
        });
    }

    /// From here on use fades otherwise, or what devices are changed under what was given of them.
    pub(super) fn settle_all(&mut self, now: Time, half_life: f64) {
        self.0.values_mut().for_each(|account| account.settle(now, half_life));
    }

    /// Counts again what is held, from the attempts there are: whose, and whether each stands still. A user without an
    /// account, as in a snapshot older than accounts, has one from when the first of them began.
    pub(super) fn recount<'a>(
        &mut self,
        pool: &Pool,
        attempts: impl Iterator<Item = (&'a str, &'a Attempt, bool)>,
    ) {
        for account in self.0.values_mut() {
            (account.held, account.rate) = (Resources::default(), 0);
        }
        for (user, attempt, still) in attempts {
            let new = Account { at: attempt.since, ..Account::default() };
            let account = self.0.entry(user.to_owned()).or_insert(new);
            let held = Resources::of(pool, &attempt.placement);
            account.held += held;
            account.rate += if still { 0 } else { rate_of(pool, &attempt.placement, held) };
        }
    }

    fn change(&mut self, user: &str, now: Time, half_life: f64, change: impl FnOnce(&mut Account)) {
        let account = match self.0.get_mut(user) {
            Some(account) => account,
            None => self.0.entry(user.to_owned()).or_insert(Account { at: now, ..Account::default() }),
        };
        account.settle(now, half_life);
        change(account);
    }
}

/// How fast an attempt that has so much uses devices, in millionths of one; without any, the share of its machine's
/// processors.
pub(crate) fn rate_of(pool: &Pool, p: &Placement, held: Resources) -> u64 {
    match p.devices.is_empty() {
        false => held.devices,
        true => u64::from(p.cpus) * Resources::DEVICE / processors(pool, p.worker),
    }
}

fn processors(pool: &Pool, worker: WorkerId) -> u64 {
    pool.worker(worker).map_or(1, |w| u64::from(w.cpus()).max(1))
}

/// The half-life a policy names.
pub(super) fn half_life(policy: &PolicyChoice) -> f64 {
    let named = policy.params.get(HALF_LIFE_PARAM).and_then(|text| text.parse().ok());
    named.filter(|h: &f64| h.is_finite() && *h >= 0.0).unwrap_or(HALF_LIFE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_used_does_not_depend_on_how_often_it_is_settled(
            rate in 0u64..4_000_000, half_life in 1.0f64..1e6, steps in prop::collection::vec(0u64..1_000_000_000, 1..20),
        ) {
            let mut often = Account { rate, ..Account::default() };
            let once = often;
            let mut now = Time(0);
            for step in steps {
                now = Time(now.0 + step);
                often.settle(now, half_life);
            }
            let (often, once) = (often.used(now, half_life), once.used(now, half_life));
            prop_assert!((often - once).abs() <= 1e-9 * once.max(1.0), "{} is not {}", often, once);
        }
    }

    #[test]
    fn after_a_half_life_half_counts() {
        let account = Account { used: 80.0, ..Account::default() };
        assert_eq!(account.used(Time::from_secs(100.0), 100.0), 40.0);
        assert_eq!(account.used(Time::from_secs(100.0), 0.0), 80.0, "0 never forgets");
    }
}
