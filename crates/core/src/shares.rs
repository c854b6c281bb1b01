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
pub struct NoTarget {
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
    speeds: BTreeMap<String, BTreeMap<u16, BTreeMap<String, Known>>>,
    /// How often that changed.
    revision: u64,
    /// What an hour of a device of a type costs.
    costs: BTreeMap<String, f64>,
    in_force: Option<InForce>,
    failed: Option<NoTarget>,
    round_until: Option<Time>,
}

/// A speed, and whether it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Steps a second.
    pub steps_per_second: f64,
    /// Whether a run was measured.
    pub measured: bool,
}

/// A target, since when it holds, and what was promised before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct InForce {
    since: Time,
    target: Arc<Allocation>,
    /// For each row of the target.
    accounts: Vec<Account>,
}

/// What a task was promised and had, per type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Account {
    /// Promised by targets that no longer hold.
    owed: Vec<Span>,
    /// Had before it was first promised anything.
    before: Vec<Span>,
}

impl Shares {
    /// How fast a profile is on a type, if anyone knows.
    pub fn speed(&self, profile: &str, gpus: u16, kind: &str) -> Option<Known> {
        self.speeds.get(profile)?.get(&gpus)?.get(&kind.to_ascii_lowercase()).copied()
    }

    /// Steps a second of a profile on every type of which anyone knows.
    pub fn speeds_of(&self, profile: &str, gpus: u16) -> impl Iterator<Item = f64> + '_ {
        let by_kind = self.speeds.get(profile).and_then(|by_gpus| by_gpus.get(&gpus));
        by_kind.into_iter().flatten().map(|(_, known)| known.steps_per_second)
    }

    /// Everything known of speeds: profile, devices, type, speed.
    pub fn speeds(&self) -> impl Iterator<Item = (&str, u16, &str, Known)> + '_ {
        self.speeds.iter().flat_map(|(profile, by_gpus)| {
            by_gpus.iter().flat_map(move |(&gpus, by_kind)| {
                by_kind.iter().map(move |(kind, &known)| (profile.as_str(), gpus, kind.as_str(), known))
            })
        })
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
    pub fn failed(&self) -> Option<&NoTarget> {
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

    pub(crate) fn set_speeds(&mut self, speeds: &[Speed], costs: &BTreeMap<String, f64>) {
        for Speed { profile, gpus, kind, steps_per_second, measured } in speeds {
            let by_kind = self.speeds.entry(profile.clone()).or_default().entry(*gpus).or_default();
            let known = Known { steps_per_second: *steps_per_second, measured: *measured };
            by_kind.insert(kind.to_ascii_lowercase(), known);
        }
        self.costs.extend(costs.iter().map(|(kind, cost)| (kind.to_ascii_lowercase(), *cost)));
        self.revision += 1;
    }

    /// Puts a target in force. `had` says how long a task has had devices of a type.
    pub(crate) fn set_target(
        &mut self,
        target: Arc<Allocation>,
        at: Time,
        had: impl Fn(TaskId, &str) -> Span,
    ) {
        let old = self.in_force.take();
        let account = |row: &Row| match old.as_ref().and_then(|old| Some((old, old.at(row.task)?))) {
            Some((old, i)) => old.carried_over(i, at, &target.kinds, |kind| had(row.task, kind)),
            None => Account {
                owed: vec![Span::ZERO; target.kinds.len()],
                before: target.kinds.iter().map(|kind| had(row.task, kind)).collect(),
            },
        };
        let accounts = target.rows.iter().map(account).collect();
        self.in_force = Some(InForce { since: at, target, accounts });
        self.failed = None;
    }

    pub(crate) fn set_failed(&mut self, failed: NoTarget) {
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

impl InForce {
    fn at(&self, task: TaskId) -> Option<usize> {
        self.target.rows.binary_search_by_key(&task, |row| row.task).ok()
    }

    fn owed(&self, i: usize, now: Time) -> Vec<Span> {
        let held = now.since(self.since).secs();
        let more = self.target.rows[i].shares.iter().map(|share| Span::from_secs(share * held));
        self.accounts[i].owed.iter().zip(more).map(|(owed, more)| *owed + more).collect()
    }

    /// The account of a row under other types: those that are new begin with nothing owed.
    fn carried_over(&self, i: usize, at: Time, kinds: &[String], had: impl Fn(&str) -> Span) -> Account {
        let owed = self.owed(i, at);
        let place = |kind: &String| self.target.kinds.iter().position(|k| k == kind);
        Account {
            owed: kinds.iter().map(|kind| place(kind).map_or(Span::ZERO, |j| owed[j])).collect(),
            before: kinds
                .iter()
                .map(|kind| place(kind).map_or_else(|| had(kind), |j| self.accounts[i].before[j]))
                .collect(),
        }
    }
}
