//! Shares of time: what is known of how fast profiles run on types of device, the target allocation in force, and how
//! much of its time each task was promised and has had. Kept as part of the state, so that a restart goes on with it;
//! how a target is found, and what a round makes of it, is the policies' business.

use crate::ids::TaskId;
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How fast a profile runs on a number of devices of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The profile's name.
    pub profile: String,
    /// Devices it runs on at once.
    pub gpus: u16,
    /// The type of device; case does not matter.
    pub kind: String,
    /// Steps a second; 0 says that it cannot run there.
    pub steps_per_second: f64,
    /// Whether a run of it was measured, rather than someone having said so.
    #[serde(default)]
    pub measured: bool,
    /// The profile it shares those devices with; alone, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// What should be aimed at: for each task its share of time on each type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// The policy that asked for it, with its parameters.
    pub policy: String,
    /// A number for the question it answers: other tasks, speeds or devices make another question.
    pub question: u64,
    /// The types, in the order of every row.
    pub kinds: Vec<String>,
    /// The tasks, in order.
    pub rows: Vec<Row>,
    /// Tasks that should share devices for some of their time, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairRow>,
}

/// What two tasks should get together, on the same devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRow {
    /// Which, the smaller first.
    pub tasks: [TaskId; 2],
    /// Their share of time on each type.
    pub shares: Vec<f64>,
}

/// What one task should get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which.
    pub task: TaskId,
    /// Its share of time on each type.
    pub shares: Vec<f64>,
    /// Steps it had left.
    #[serde(default)]
    pub left: f64,
    /// Steps a second it would have alone on its part of the cluster.
    #[serde(default)]
    pub alone: f64,
    /// Seconds it would have needed alone for what it had done.
    #[serde(default)]
    pub isolated_s: f64,
}

/// A target that could not be found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolveFailure {
    /// The policy that asked for it, with its parameters.
    pub policy: String,
    /// The question without an answer.
    pub question: u64,
    /// Why.
    pub why: String,
}

/// What is known of speeds, and the target in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// By profile, number of devices and type.
    speeds: BTreeMap<String, BTreeMap<u16, BTreeMap<String, SpeedEstimate>>>,
    /// The same beside another profile, by that too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    beside: BTreeMap<String, BTreeMap<u16, BTreeMap<String, SpeedsByPartner>>>,
    /// How often that changed.
    revision: u64,
    /// What an hour of a device of a type costs.
    costs: BTreeMap<String, f64>,
    in_force: Option<ActiveTarget>,
    failed: Option<SolveFailure>,
    round_until: Option<Time>,
}

/// Speeds by the profile that devices are shared with.
type SpeedsByPartner = BTreeMap<String, SpeedEstimate>;

/// A speed, and whether it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedEstimate {
    /// Steps a second.
    pub steps_per_second: f64,
    /// Whether a run was measured.
    pub measured: bool,
}

/// A target, since when it holds, and what was promised before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ActiveTarget {
    since: Time,
    target: Arc<Allocation>,
    /// For each row of the target.
    accounts: Vec<ShareAccount>,
    /// For pairs of tasks of the target, in order: those of it, and those that had something together before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<PairAccount>,
}

/// What two tasks were promised together and had, per type of the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PairAccount {
    tasks: [TaskId; 2],
    /// Promised by targets that no longer hold.
    owed: Vec<Span>,
    /// Had, up to when they last parted.
    had: Vec<Span>,
}

/// How two tasks stand that have, or had, a share of time together.
#[derive(Clone, Debug, PartialEq)]
pub struct PairBalance {
    /// Which, the smaller first.
    pub tasks: [TaskId; 2],
    /// Their share of time on each type of the target; nothing where the target has none for them.
    pub shares: Vec<f64>,
    /// What they were promised up to now.
    pub owed: Vec<Span>,
    /// What they had, up to when they last parted.
    pub had: Vec<Span>,
}

/// What a task was promised and had, per type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ShareAccount {
    /// Promised by targets that no longer hold.
    owed: Vec<Span>,
    /// Had before it was first promised anything.
    before: Vec<Span>,
}

impl Shares {
    /// How fast a profile is on a type, if anyone knows.
    pub fn speed(&self, profile: &str, gpus: u16, kind: &str) -> Option<SpeedEstimate> {
        self.speeds.get(profile)?.get(&gpus)?.get(&kind.to_ascii_lowercase()).copied()
    }

    /// Steps a second of a profile on every type of which anyone knows.
    pub fn speeds_of(&self, profile: &str, gpus: u16) -> impl Iterator<Item = f64> + '_ {
        let by_kind = self.speeds.get(profile).and_then(|by_gpus| by_gpus.get(&gpus));
        by_kind.into_iter().flatten().map(|(_, known)| known.steps_per_second)
    }

    /// Everything known of speeds: profile, devices, type, speed.
    pub fn speeds(&self) -> impl Iterator<Item = (&str, u16, &str, SpeedEstimate)> + '_ {
        self.speeds.iter().flat_map(|(profile, by_gpus)| {
            by_gpus.iter().flat_map(move |(&gpus, by_kind)| {
                by_kind.iter().map(move |(kind, &known)| (profile.as_str(), gpus, kind.as_str(), known))
            })
        })
    }

    /// How fast a profile is on a type beside another, if anyone knows.
    pub fn speed_beside(&self, profile: &str, other: &str, gpus: u16, kind: &str) -> Option<SpeedEstimate> {
        let by_kind = self.beside.get(profile)?.get(&gpus)?;
        by_kind.get(&kind.to_ascii_lowercase())?.get(other).copied()
    }

    /// The part of its speed that a profile keeps on a type beside another, where anyone knows how fast it is alone: as
    /// measured or said, and as beside others on the mean where nobody has tried the two.
    pub fn kept_beside(&self, profile: &str, other: &str, gpus: u16, kind: &str) -> Option<f64> {
        let alone = self.speed(profile, gpus, kind)?.steps_per_second;
        let known = self.speed_beside(profile, other, gpus, kind).map(|known| known.steps_per_second);
        let mean = || {
            let tried = self.tried_beside(profile, gpus, kind)?;
            Some(tried.values().map(|known| known.steps_per_second).sum::<f64>() / tried.len() as f64)
        };
        let beside = known.or_else(mean)?;
        (alone > 0.0).then(|| beside / alone)
    }

    /// Whether two profiles may be put on the same devices of a type: they are known to get anywhere there, or nobody has
    /// tried the two and both get on with everyone they were tried beside. Who was found not to fit beside someone may not
    /// fit beside others either, so that is not found out at their cost.
    pub fn get_on(&self, one: &str, other: &str, gpus: u16, kind: &str) -> bool {
        let sociable = |profile| self.is_sociable(profile, gpus, kind);
        self.seen_together(one, other, gpus, kind).unwrap_or_else(|| sociable(one) && sociable(other))
    }

    /// Every two profiles, in both orders, of which [`Shares::get_on`] holds on a type.
    pub fn that_get_on(&self, gpus: u16, kind: &str) -> Vec<(&str, &str)> {
        let profiles = self.beside.keys().map(String::as_str);
        let there = profiles.filter(|profile| self.tried_beside(profile, gpus, kind).is_some());
        let there: Vec<(&str, bool)> = there.map(|p| (p, self.is_sociable(p, gpus, kind))).collect();
        let all = there.iter().flat_map(|&one| there.iter().map(move |&other| (one, other)));
        let get_on = all.filter(|&((one, sociable), (other, too))| {
            self.seen_together(one, other, gpus, kind).unwrap_or(sociable && too)
        });
        get_on.map(|((one, _), (other, _))| (one, other)).collect()
    }

    /// Whether two were seen to get anywhere together, if anyone has tried.
    fn seen_together(&self, one: &str, other: &str, gpus: u16, kind: &str) -> Option<bool> {
        let gets_anywhere = |a, b| Some(self.speed_beside(a, b, gpus, kind)?.steps_per_second > 0.0);
        match (gets_anywhere(one, other), gets_anywhere(other, one)) {
            (Some(a), Some(b)) => Some(a || b),
            (Some(false), None) | (None, Some(false)) => Some(false),
            _ => None,
        }
    }

    fn is_sociable(&self, profile: &str, gpus: u16, kind: &str) -> bool {
        let tried = self.tried_beside(profile, gpus, kind);
        tried.is_some_and(|tried| tried.values().all(|known| known.steps_per_second > 0.0))
    }

    fn tried_beside(&self, profile: &str, gpus: u16, kind: &str) -> Option<&SpeedsByPartner> {
        let by_kind = self.beside.get(profile)?.get(&gpus)?;
        by_kind.get(&kind.to_ascii_lowercase()).filter(|tried| !tried.is_empty())
    }

    /// Everything known of speeds beside others: profile, devices, type, the other, speed.
    pub fn speeds_beside(&self) -> impl Iterator<Item = (&str, u16, &str, &str, SpeedEstimate)> + '_ {
        self.beside.iter().flat_map(|(profile, by_gpus)| {
            by_gpus.iter().flat_map(move |(&gpus, by_kind)| {
                by_kind.iter().flat_map(move |(kind, by_other)| {
                    by_other.iter().map(move |(other, &known)| (&**profile, gpus, &**kind, &**other, known))
                })
            })
        })
    }

    /// Whether anything is known of speeds beside others.
    pub fn knows_pairs(&self) -> bool {
        !self.beside.is_empty()
    }

    /// How often speeds changed: the same number, the same speeds.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What an hour of a type costs, if anyone said.
    pub fn cost_per_hour(&self, kind: &str) -> Option<f64> {
        self.costs.get(&kind.to_ascii_lowercase()).copied()
    }

    /// What an hour of each type costs, where anyone said.
    pub fn costs(&self) -> impl Iterator<Item = (&str, f64)> + '_ {
        self.costs.iter().map(|(kind, cost)| (kind.as_str(), *cost))
    }

    /// The target in force.
    pub fn target(&self) -> Option<&Arc<Allocation>> {
        self.in_force.as_ref().map(|f| &f.target)
    }

    /// Why there is no newer target, if finding one failed.
    pub fn failed(&self) -> Option<&SolveFailure> {
        self.failed.as_ref()
    }

    /// When the round that runs ends.
    pub fn round_until(&self) -> Option<Time> {
        self.round_until
    }

    /// A task's row in the target in force.
    pub fn row(&self, task: TaskId) -> Option<&Row> {
        let force = self.in_force.as_ref()?;
        force.at(task).map(|i| &force.target.rows[i])
    }

    /// What a task was promised on each type of the target up to now, and what it had before it was promised anything.
    pub fn promised(&self, task: TaskId, now: Time) -> Option<(Vec<Span>, &[Span])> {
        let force = self.in_force.as_ref()?;
        let i = force.at(task)?;
        Some((force.owed(i, now), &force.accounts[i].before))
    }

    /// Those that have, or had, a share of time together.
    pub fn pairs(&self, now: Time) -> impl Iterator<Item = PairBalance> + '_ {
        let force = self.in_force.iter();
        force.flat_map(move |force| force.pairs.iter().map(move |pair| force.together(pair, now)))
    }

    /// Notes that two tasks shared devices of a type for a while.
    pub(crate) fn parted(&mut self, one: TaskId, other: TaskId, kind: &str, after: Span) {
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

    /// Puts a target in force. `had` says how long a task has had devices of a type alone.
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
        force.enter_pairs();
        self.in_force = Some(force);
        self.failed = None;
    }

    pub(crate) fn set_failed(&mut self, failed: SolveFailure) {
        self.failed = Some(failed);
    }

    pub(crate) fn begin_round(&mut self, until: Time) {
        self.round_until = Some(until);
    }

    /// Another policy has other targets.
    pub(crate) fn another_policy(&mut self) {
        (self.in_force, self.failed, self.round_until) = (None, None, None);
    }
}

impl ActiveTarget {
    fn at(&self, task: TaskId) -> Option<usize> {
        self.target.rows.binary_search_by_key(&task, |row| row.task).ok()
    }

    fn owed(&self, i: usize, now: Time) -> Vec<Span> {
        self.grown(&self.accounts[i].owed, &self.target.rows[i].shares, now)
    }

    /// What was owed before, and what shares promised since.
    fn grown(&self, owed: &[Span], shares: &[f64], now: Time) -> Vec<Span> {
        let held = now.since(self.since).secs();
        owed.iter().zip(shares).map(|(owed, share)| *owed + Span::from_secs(share * held)).collect()
    }

    fn together(&self, pair: &PairAccount, now: Time) -> PairBalance {
        let rows = &self.target.pairs;
        let row = rows.binary_search_by_key(&pair.tasks, |row| row.tasks).ok().map(|i| &rows[i]);
        let shares = row.map_or_else(|| vec![0.0; pair.owed.len()], |row| row.shares.clone());
        let owed = self.grown(&pair.owed, &shares, now);
        PairBalance { tasks: pair.tasks, shares, owed, had: pair.had.clone() }
    }

    /// Gives every pair of the target an account.
    fn enter_pairs(&mut self) {
        let kinds = self.target.kinds.len();
        let known = |tasks: &[TaskId; 2], pairs: &[PairAccount]| {
            pairs.binary_search_by_key(tasks, |pair| pair.tasks).is_ok()
        };
        let rows = self.target.pairs.iter().map(|row| row.tasks);
        let fresh: Vec<_> = rows.filter(|tasks| !known(tasks, &self.pairs)).collect();
        self.pairs.extend(fresh.into_iter().map(|tasks| PairAccount::new(tasks, kinds)));
        self.pairs.sort_by_key(|pair| pair.tasks);
    }

    /// The accounts of pairs under another target, as far as both tasks have a share in it.
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

    /// The account of a row under other types: those that are new begin with nothing owed.
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
