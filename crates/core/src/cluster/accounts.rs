//! Usage accounts of users, for fair-share policies.
//!
//! Usage is in device-seconds and decays: after a half-life it counts half. It grows while an attempt is placed and
//! not paused. An account is updated only when what its user holds changes, so an event costs one look-up.

use super::job::Attempt;
use crate::ids::WorkerId;
use crate::policy::PolicyChoice;
use crate::pool::{Placement, Pool, Resources};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Half-life of usage in seconds if the policy sets none: a week.
pub const HALF_LIFE: f64 = 7.0 * 24.0 * 3600.0;

/// Name of the policy parameter that sets the half-life; 0 means no decay.
pub const HALF_LIFE_PARAM: &str = "half_life";

/// Usage account of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Device-seconds, as they counted at `at`.
    used: f64,
    at: Time,
    /// Resources the user's attempts hold, paused ones included.
    #[serde(skip)]
    held: Resources,
    /// Millionths of a device in use by attempts that are not paused.
    #[serde(skip)]
    rate: u64,
}

impl Account {
    /// Resources the user's attempts hold.
    pub fn held(&self) -> Resources {
        self.held
    }

    /// Time of the last update; in the future only if the clock was set back since.
    pub fn at(&self) -> Time {
        self.at
    }

    /// Number of devices in use now.
    pub fn rate(&self) -> f64 {
        self.rate as f64 / Resources::DEVICE as f64
    }

    /// Device-seconds with decay, at a time.
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

/// Accounts of all users there ever were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Accounts(BTreeMap<String, Account>);

impl Accounts {
    pub(super) fn get(&self, user: &str) -> Option<&Account> {
        self.0.get(user)
    }

    /// Records that an attempt was placed.
    pub(super) fn placed(&mut self, user: &str, pool: &Pool, p: &Placement, now: Time, half_life: f64) {
        let held = Resources::of(pool, p);
        self.change(user, now, half_life, |account| {
            account.held += held;
            account.rate += rate_of(pool, p, held);
        });
    }

    /// Records that an attempt ended.
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

    /// Records that an attempt paused or resumed.
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

    /// Records that the device memory charged for an attempt changed.
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

    /// Updates all accounts, before the half-life changes or devices change under what is allocated on them.
    pub(super) fn settle_all(&mut self, now: Time, half_life: f64) {
        self.0.values_mut().for_each(|account| account.settle(now, half_life));
    }

    /// Recounts what users hold from their attempts, each with whether it is paused. A user without an account, as in
    /// a snapshot older than accounts, gets one that begins with their first attempt.
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

/// Rate at which an attempt uses devices, in millionths of one; for an attempt without devices, its share of the
/// worker's CPUs.
pub(crate) fn rate_of(pool: &Pool, p: &Placement, held: Resources) -> u64 {
    match p.devices.is_empty() {
        false => held.devices,
        true => u64::from(p.cpus) * Resources::DEVICE / processors(pool, p.worker),
    }
}

fn processors(pool: &Pool, worker: WorkerId) -> u64 {
    pool.worker(worker).map_or(1, |w| u64::from(w.cpus()).max(1))
}

/// Half-life that a policy sets.
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
