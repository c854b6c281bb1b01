//! What most else waits for goes first: upward rank decides the order, the earliest finish the device.
//!
//! The upward rank of a task is how long it is expected to run plus the longest way from there to the end of its job
//! (Topcuoglu, Hariri and Wu, *Performance-effective and low-complexity task scheduling for heterogeneous computing*,
//! 2002); a job that is no graph has the length of its tasks for a rank. Priorities come before ranks. Where a task
//! names a profile whose speeds are known, its length is the mean over the types of GPU in its rank, and its own on
//! each type when a place is chosen: it goes where it ends first, and waits for a fast GPU that is about to be free
//! rather than take a slow one. Without speeds all types count as equal, and a task finishes first wherever it starts
//! first: on a device that is free now. Nothing outlasts a plan: every one looks at what runs and for how long still,
//! so that a task which ends early or late is taken as it is.

use crate::FIT;
use crate::by_goal::TYPES;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{Behind, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::shares::Shares;
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{JobId, PolicyDef, Span, Time};
use warpyard_dag::{Edge, Instance, Links, upward_ranks};

/// Jobs whose ranks are kept; when there are more, all are found anew.
const KEPT: usize = 4096;

#[derive(Default)]
struct UpwardRank {
    /// A cache.
    known: RefCell<BTreeMap<JobId, Ranks>>,
    seconds_per_step: SecondsPerStep,
}

/// By profile and number of GPUs, what a step takes in the mean over the types on which it is known.
type SecondsPerStep = BTreeMap<String, BTreeMap<u16, f64>>;

struct Ranks {
    /// The very specification they were found from.
    of: Weak<JobSpec>,
    each: Vec<f64>,
}

impl UpwardRank {
    fn of(&self, task: &ReadyTask<'_>) -> f64 {
        let (job, node) = (task.task.job, task.task.node as usize);
        let spec = &task.job.spec;
        if spec.tasks.len() == 1 {
            return length(task.spec, &self.seconds_per_step).unwrap_or_else(|| task.expected().secs());
        }
        let mut known = self.known.borrow_mut();
        match known.get(&job) {
            Some(ranks) if ranks.of.as_ptr() == Arc::as_ptr(spec) => ranks.each[node],
            _ => {
                if known.len() >= KEPT {
                    known.clear();
                }
                let each = ranks(spec, &self.seconds_per_step);
                let rank = each[node];
                known.insert(job, Ranks { of: Arc::downgrade(spec), each });
                rank
            }
        }
    }
}

impl Order for UpwardRank {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::urgent(task.job.priority).then(-self.of(task))
    }

    fn formula(&self) -> &'static str {
        "(p, r): the largest priority p goes first, then the largest r, its own seconds and the longest way after it"
    }

    fn numbers(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        let rank = self.of(task);
        // A task nobody said a length of counts as long as its job's others; what it is itself is then the smaller part.
        let own =
            length(task.spec, &self.seconds_per_step).unwrap_or_else(|| task.expected().secs()).min(rank);
        format!("p = {}, r = {own:.0} + {:.0} = {rank:.0}", task.job.priority, rank - own)
    }

    fn know(&mut self, shares: &Shares) {
        self.known.get_mut().clear();
        let mut steps: BTreeMap<&str, BTreeMap<u16, Vec<f64>>> = BTreeMap::new();
        for (profile, gpus, _, speed) in shares.speeds().filter(|s| s.3.steps_per_second > 0.0) {
            let of = steps.entry(profile).or_default().entry(gpus).or_default();
            of.push(1.0 / speed.steps_per_second);
        }
        let mean = |all: Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
        let means = |by_gpus: BTreeMap<u16, Vec<f64>>| by_gpus.into_iter().map(|(n, all)| (n, mean(all)));
        self.seconds_per_step =
            steps.into_iter().map(|(name, by_gpus)| (name.to_owned(), means(by_gpus).collect())).collect();
    }
}

/// How long a task runs in the mean over the types, where its steps and speeds are known.
fn length(task: &TaskSpec, seconds_per_step: &SecondsPerStep) -> Option<f64> {
    let step = seconds_per_step.get(task.profile.as_ref()?)?.get(&task.needs.gpus)?;
    Some(task.steps? as f64 * step)
}

/// The ranks of a job's tasks, in seconds. A task nobody said a length of is taken to be as long as the mean of those
/// of which somebody did.
fn ranks(job: &JobSpec, seconds_per_step: &SecondsPerStep) -> Vec<f64> {
    let tasks = &job.tasks;
    let known = |task: &TaskSpec| length(task, seconds_per_step).or_else(|| task.expected().map(Span::secs));
    let said: Vec<f64> = tasks.iter().filter_map(known).collect();
    let usual = match said.len() {
        0 => Span::UNKNOWN.secs(),
        count => said.iter().sum::<f64>() / count as f64,
    };
    let lengths = tasks.iter().map(|t| known(t).unwrap_or(usual)).collect();
    let edges: Vec<Edge> = (0u32..)
        .zip(tasks)
        .flat_map(|(to, task)| task.after.iter().map(move |after| Edge { from: after.node, to, data: 0.0 }))
        .collect();
    match Instance::new(1, lengths, &edges, Links::Uniform) {
        Ok(instance) => upward_ranks(&instance),
        // No job that was accepted has a circle; if one had, its order would not matter.
        Err(_) => vec![0.0; tasks.len()],
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "heft",
    summary: "priority, then the longest remaining path of its job, each task where it ends first",
    group: PolicyGroup::Graphs,
    when: "for jobs that are graphs of dependent tasks, to end each as early as possible",
    source: "Topcuoglu, Hariri and Wu, Performance-effective and low-complexity task scheduling, 2002",
    params: &[TYPES, Behind::PARAM, FIT],
    build: |p| {
        let behind = Behind::from_word(p.word("behind"));
        let policy = Ordered::new(UpwardRank::default(), behind).fit(Fit::from_word(p.word("fit")));
        Box::new(if p.word("types") == "blind" { policy } else { policy.by_speed() })
    },
};
