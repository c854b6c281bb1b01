//! Time shares: known speeds of profiles by device type, the target allocation in force, and how much time each task
//! is owed and has had. Part of the state, so that a restart continues with it; solving for a target, and turning it
//! into rounds, is up to policies.

use crate::ids::TaskId;
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Speed of a profile on a number of devices of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Name of the profile.
    pub profile: String,
    /// Number of devices.
    pub gpus: u16,
    /// Device type; case does not matter.
    pub kind: String,
    /// Steps per second; 0 means that it cannot run there.
    pub steps_per_second: f64,
    /// Whether it was measured, rather than declared.
    #[serde(default)]
    pub measured: bool,
    /// Profile that shares the devices; none if the profile runs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// Target allocation: the share of time of each task on each device type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Policy that requested it, with its parameters.
    pub policy: String,
    /// Digest of the solver's input: other tasks, speeds or devices have another one.
    pub question: u64,
    /// Device types, in the order of every row.
    pub kinds: Vec<String>,
    /// Rows by task, in order.
    pub rows: Vec<Row>,
    /// Co-located pairs of tasks, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairRow>,
}

/// Share of time of two co-located tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRow {
    /// The two tasks, the smaller id first.
    pub tasks: [TaskId; 2],
    /// Share of time on each type.
    pub shares: Vec<f64>,
}

/// Row of a target: the share of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Task.
    pub task: TaskId,
    /// Share of time on each type.
    pub shares: Vec<f64>,
    /// Steps left when it was solved.
    #[serde(default)]
    pub left: f64,
    /// Steps per second alone on its fair part of the cluster.
    #[serde(default)]
    pub alone: f64,
    /// Seconds its steps so far would have taken alone.
    #[serde(default)]
    pub isolated_s: f64,
}

/// Failure of a solver to find a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolveFailure {
    /// Policy that requested it, with its parameters.
    pub policy: String,
    /// Digest of the solver's input.
    pub question: u64,
    /// Cause.
    pub why: String,
}

/// Known speeds, and the target allocation in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Speeds by profile, number of devices and type.
    speeds: BTreeMap<String, BTreeMap<u16, BTreeMap<String, SpeedEstimate>>>,
    /// Speeds of co-located profiles, by partner as well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    beside: BTreeMap<String, BTreeMap<u16, BTreeMap<String, SpeedsByPartner>>>,
    /// Number of changes of the speeds.
    revision: u64,
    /// Cost of a device-hour by type.
    costs: BTreeMap<String, f64>,
    in_force: Option<ActiveTarget>,
    failed: Option<SolveFailure>,
    round_until: Option<Time>,
}

/// Speeds by the co-located profile.
type SpeedsByPartner = BTreeMap<String, SpeedEstimate>;

/// Speed, and whether it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedEstimate {
    /// Steps per second.
    pub steps_per_second: f64,
    /// Whether it was measured, rather than declared.
    pub measured: bool,
}

/// Target in force: since when, and what earlier targets left owed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ActiveTarget {
    since: Time,
    target: Arc<Allocation>,
    /// Account of each row of the target.
    accounts: Vec<ShareAccount>,
    /// Accounts of pairs, in order: those of the target, and those that had time together before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<PairAccount>,
}

/// Account of a pair: time owed and had, by type of the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PairAccount {
    tasks: [TaskId; 2],
    /// Time owed by earlier targets.
    owed: Vec<Span>,
    /// Time had, up to their last separation.
    had: Vec<Span>,
}

/// Balance of a pair that has, or had, a share of time together.
#[derive(Clone, Debug, PartialEq)]
pub struct PairBalance {
    /// The two tasks, the smaller id first.
    pub tasks: [TaskId; 2],
    /// Share of time on each type of the target; 0 where the target has none for them.
    pub shares: Vec<f64>,
    /// Time owed up to now.
    pub owed: Vec<Span>,
    /// Time had, up to their last separation.
    pub had: Vec<Span>,
}

/// Account of a task: time owed and had, by type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ShareAccount {
    /// Time owed by earlier targets.
    owed: Vec<Span>,
    /// Time had before it was first owed any.
    before: Vec<Span>,
}

impl Shares {
    /// Speed of a profile on a type, if known.
    pub fn speed(&self, profile: &str, gpus: u16, kind: &str) -> Option<SpeedEstimate> {
        self.speeds.get(profile)?.get(&gpus)?.get(&kind.to_ascii_lowercase()).copied()
    }

    /// Known speeds of a profile in steps per second, on all types.
    pub fn speeds_of(&self, profile: &str, gpus: u16) -> impl Iterator<Item = f64> + '_ {
        let by_kind = self.speeds.get(profile).and_then(|by_gpus| by_gpus.get(&gpus));
        by_kind.into_iter().flatten().map(|(_, known)| known.steps_per_second)
    }

    /// All known speeds: profile, devices, type, speed.
    pub fn speeds(&self) -> impl Iterator<Item = (&str, u16, &str, SpeedEstimate)> + '_ {
        self.speeds.iter().flat_map(|(profile, by_gpus)| {
            by_gpus.iter().flat_map(move |(&gpus, by_kind)| {
                by_kind.iter().map(move |(kind, &known)| (profile.as_str(), gpus, kind.as_str(), known))
            })
        })
    }

    /// Speed of a profile on a type beside another, if known.
    pub fn speed_beside(&self, profile: &str, other: &str, gpus: u16, kind: &str) -> Option<SpeedEstimate> {
        let by_kind = self.beside.get(profile)?.get(&gpus)?;
        by_kind.get(&kind.to_ascii_lowercase())?.get(other).copied()
    }

    /// Fraction of its speed that a profile keeps on a type beside another, if its speed alone is known: as measured
    /// or declared, or its mean over other partners if the two were never tried together.
    pub fn kept_beside(&self, profile: &str, other: &str, gpus: u16, kind: &str) -> Option<f64> {
        let alone = self.speed(profile, gpus, kind)?.steps_per_second;
        let known = self.speed_beside(profile, other, gpus, kind).map(|known| known.steps_per_second);
        let mean = || {
            let tried = self.speeds_by_partner(profile, gpus, kind)?;
            Some(tried.values().map(|known| known.steps_per_second).sum::<f64>() / tried.len() as f64)
        };
        let beside = known.or_else(mean)?;
        (alone > 0.0).then(|| beside / alone)
    }

    /// Whether two profiles may be co-located on a type: they are known to make progress there together, or were
    /// never tried together and each makes progress beside every partner it was tried with. A profile that failed
    /// beside one partner may fail beside others, and those should not pay for finding out.
    pub fn may_colocate(&self, one: &str, other: &str, gpus: u16, kind: &str) -> bool {
        let colocates = |profile| self.progresses_beside_all(profile, gpus, kind);
        self.progress_together(one, other, gpus, kind).unwrap_or_else(|| colocates(one) && colocates(other))
    }

    /// All pairs of profiles, in both orders, that may be co-located on a type.
    pub fn colocatable_pairs(&self, gpus: u16, kind: &str) -> Vec<(&str, &str)> {
        let profiles = self.beside.keys().map(String::as_str);
        let there = profiles.filter(|profile| self.speeds_by_partner(profile, gpus, kind).is_some());
        let there: Vec<(&str, bool)> =
            there.map(|p| (p, self.progresses_beside_all(p, gpus, kind))).collect();
        let all = there.iter().flat_map(|&one| there.iter().map(move |&other| (one, other)));
        let may_colocate = all.filter(|&((one, colocates), (other, too))| {
            self.progress_together(one, other, gpus, kind).unwrap_or(colocates && too)
        });
        may_colocate.map(|((one, _), (other, _))| (one, other)).collect()
    }

    /// Whether two profiles make progress together, if they were tried.
    fn progress_together(&self, one: &str, other: &str, gpus: u16, kind: &str) -> Option<bool> {
        let progresses = |a, b| Some(self.speed_beside(a, b, gpus, kind)?.steps_per_second > 0.0);
        match (progresses(one, other), progresses(other, one)) {
            (Some(a), Some(b)) => Some(a || b),
            (Some(false), None) | (None, Some(false)) => Some(false),
            _ => None,
        }
    }

    fn progresses_beside_all(&self, profile: &str, gpus: u16, kind: &str) -> bool {
        let tried = self.speeds_by_partner(profile, gpus, kind);
        tried.is_some_and(|tried| tried.values().all(|known| known.steps_per_second > 0.0))
    }

    fn speeds_by_partner(&self, profile: &str, gpus: u16, kind: &str) -> Option<&SpeedsByPartner> {
        let by_kind = self.beside.get(profile)?.get(&gpus)?;
        by_kind.get(&kind.to_ascii_lowercase()).filter(|tried| !tried.is_empty())
    }

    /// All known speeds of co-located profiles: profile, devices, type, partner, speed.
    pub fn speeds_beside(&self) -> impl Iterator<Item = (&str, u16, &str, &str, SpeedEstimate)> + '_ {
        self.beside.iter().flat_map(|(profile, by_gpus)| {
            by_gpus.iter().flat_map(move |(&gpus, by_kind)| {
                by_kind.iter().flat_map(move |(kind, by_other)| {
                    by_other.iter().map(move |(other, &known)| (&**profile, gpus, &**kind, &**other, known))
                })
            })
        })
    }

    /// Whether any speed of co-located profiles is known.
    pub fn knows_pairs(&self) -> bool {
        !self.beside.is_empty()
    }

    /// Revision of the speeds: equal revisions, equal speeds.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Cost of a device-hour of a type, if set.
    pub fn cost_per_hour(&self, kind: &str) -> Option<f64> {
        self.costs.get(&kind.to_ascii_lowercase()).copied()
    }

    /// Costs of a device-hour by type, where set.
    pub fn costs(&self) -> impl Iterator<Item = (&str, f64)> + '_ {
        self.costs.iter().map(|(kind, cost)| (kind.as_str(), *cost))
    }

    /// Target allocation in force.
    pub fn target(&self) -> Option<&Arc<Allocation>> {
        self.in_force.as_ref().map(|f| &f.target)
    }

    /// Why there is no newer target, if the solver failed.
    pub fn failed(&self) -> Option<&SolveFailure> {
        self.failed.as_ref()
    }

    /// End of the current round.
    pub fn round_until(&self) -> Option<Time> {
        self.round_until
    }

    /// Row of a task in the target in force.
    pub fn row(&self, task: TaskId) -> Option<&Row> {
        let force = self.in_force.as_ref()?;
        force.at(task).map(|i| &force.target.rows[i])
    }

    /// Time a task is owed on each type of the target up to now, and the time it had before it was owed any.
    pub fn promised(&self, task: TaskId, now: Time) -> Option<(Vec<Span>, &[Span])> {
        let force = self.in_force.as_ref()?;
        let i = force.at(task)?;
        Some((force.owed(i, now), &force.accounts[i].before))
    }

    /// Pairs that have, or had, a share of time together.
    pub fn pairs(&self, now: Time) -> impl Iterator<Item = PairBalance> + '_ {
        let force = self.in_force.iter();
        force.flat_map(move |force| force.pairs.iter().map(move |pair| force.together(pair, now)))
    }

    /// Records the time two tasks shared devices of a type.
    pub(crate) fn record_colocation(&mut self, one: TaskId, other: TaskId, kind: &str, after: Span) {
        let Some(force) = &mut self.in_force else { return };
        let Some(j) = force.target.kinds.iter().position(|k| k == kind) else { return };
        if force.at(one).is_none() || force.at(other).is_none() {
            return;
        }
        let tasks = [one.min(other), one.max(other)];
        let at = force.pairs.binary_search_by_key(&tasks, |pair| pair.tasks).unwrap_or_else(|at| {
            force.pairs.insert(at, PairAccount::new(tasks, force.target.kinds.len()));
            at
        });
        force.pairs[at].had[j] += after;
    }

    pub(crate) fn set_speeds(&mut self, speeds: &[Speed], costs: &BTreeMap<String, f64>) {
        for Speed { profile, gpus, kind, steps_per_second, measured, beside } in speeds {
            let known = SpeedEstimate { steps_per_second: *steps_per_second, measured: *measured };
            let kind = kind.to_ascii_lowercase();
            match beside {
                None => {
                    let by_gpus = self.speeds.entry(profile.clone()).or_default();
                    by_gpus.entry(*gpus).or_default().insert(kind, known);
                }
                Some(other) => {
                    let by_gpus = self.beside.entry(profile.clone()).or_default();
                    let by_kind = by_gpus.entry(*gpus).or_default();
                    by_kind.entry(kind).or_default().insert(other.clone(), known);
                }
            }
        }
        self.costs.extend(costs.iter().map(|(kind, cost)| (kind.to_ascii_lowercase(), *cost)));
        self.revision += 1;
    }

    /// Puts a target in force. `had` is the time a task has had devices of a type alone.
    pub(crate) fn set_target(
        &mut self,
        target: Arc<Allocation>,
        at: Time,
        had: impl Fn(TaskId, &str) -> Span,
    ) {
        let old = self.in_force.take();
        let account = |row: &Row| match old.as_ref().and_then(|old| Some((old, old.at(row.task)?))) {
            Some((old, i)) => old.carried_over(i, at, &target.kinds, |kind| had(row.task, kind)),
            None => ShareAccount {
                owed: vec![Span::ZERO; target.kinds.len()],
                before: target.kinds.iter().map(|kind| had(row.task, kind)).collect(),
            },
        };
        let accounts = target.rows.iter().map(account).collect();
        let pairs = old.as_ref().map_or_else(Vec::new, |old| old.pairs_carried_over(at, &target));
        let mut force = ActiveTarget { since: at, target, accounts, pairs };
        force.add_pair_accounts();
        self.in_force = Some(force);
        self.failed = None;
    }

    pub(crate) fn set_failed(&mut self, failed: SolveFailure) {
        self.failed = Some(failed);
    }

    pub(crate) fn begin_round(&mut self, until: Time) {
        self.round_until = Some(until);
    }

    /// Drops the target: another policy has other targets.
    pub(crate) fn drop_target(&mut self) {
        (self.in_force, self.failed, self.round_until) = (None, None, None);
    }
}

impl ActiveTarget {
    fn at(&self, task: TaskId) -> Option<usize> {
        self.target.rows.binary_search_by_key(&task, |row| row.task).ok()
    }

    fn owed(&self, i: usize, now: Time) -> Vec<Span> {
        self.owed_until(&self.accounts[i].owed, &self.target.rows[i].shares, now)
    }

    /// Time owed before, plus what the shares since then add.
    fn owed_until(&self, owed: &[Span], shares: &[f64], now: Time) -> Vec<Span> {
        let held = now.since(self.since).secs();
        owed.iter().zip(shares).map(|(owed, share)| *owed + Span::from_secs(share * held)).collect()
    }

    fn together(&self, pair: &PairAccount, now: Time) -> PairBalance {
        let rows = &self.target.pairs;
        let row = rows.binary_search_by_key(&pair.tasks, |row| row.tasks).ok().map(|i| &rows[i]);
        let shares = row.map_or_else(|| vec![0.0; pair.owed.len()], |row| row.shares.clone());
        let owed = self.owed_until(&pair.owed, &shares, now);
        PairBalance { tasks: pair.tasks, shares, owed, had: pair.had.clone() }
    }

    /// Adds an account for every pair of the target.
    fn add_pair_accounts(&mut self) {
        let kinds = self.target.kinds.len();
        let known = |tasks: &[TaskId; 2], pairs: &[PairAccount]| {
            pairs.binary_search_by_key(tasks, |pair| pair.tasks).is_ok()
        };
        let rows = self.target.pairs.iter().map(|row| row.tasks);
        let fresh: Vec<_> = rows.filter(|tasks| !known(tasks, &self.pairs)).collect();
        self.pairs.extend(fresh.into_iter().map(|tasks| PairAccount::new(tasks, kinds)));
        self.pairs.sort_by_key(|pair| pair.tasks);
    }

    /// Accounts of pairs under a new target, as far as both tasks have a share in it.
    fn pairs_carried_over(&self, at: Time, target: &Allocation) -> Vec<PairAccount> {
        let there = |task: &TaskId| target.rows.binary_search_by_key(task, |row| row.task).is_ok();
        let place = |kind: &String| self.target.kinds.iter().position(|k| k == kind);
        let places: Vec<Option<usize>> = target.kinds.iter().map(place).collect();
        let mapped = |spans: &[Span]| {
            let at = |place: &Option<usize>| place.map_or(Span::ZERO, |j| spans[j]);
            places.iter().map(at).collect()
        };
        let carried = |pair: &PairAccount| {
            let PairBalance { tasks, owed, had, .. } = self.together(pair, at);
            PairAccount { tasks, owed: mapped(&owed), had: mapped(&had) }
        };
        self.pairs.iter().filter(|pair| pair.tasks.iter().all(there)).map(carried).collect()
    }

    /// Account of a row under new types: nothing is owed on types that are new.
    fn carried_over(&self, i: usize, at: Time, kinds: &[String], had: impl Fn(&str) -> Span) -> ShareAccount {
        let owed = self.owed(i, at);
        let place = |kind: &String| self.target.kinds.iter().position(|k| k == kind);
        ShareAccount {
            owed: kinds.iter().map(|kind| place(kind).map_or(Span::ZERO, |j| owed[j])).collect(),
            before: kinds
                .iter()
                .map(|kind| place(kind).map_or_else(|| had(kind), |j| self.accounts[i].before[j]))
                .collect(),
        }
    }
}

impl PairAccount {
    fn new(tasks: [TaskId; 2], kinds: usize) -> PairAccount {
        PairAccount { tasks, owed: vec![Span::ZERO; kinds], had: vec![Span::ZERO; kinds] }
    }
}
