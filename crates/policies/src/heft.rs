//! Upward rank: tasks on the longest remaining path of their job go first, each on the device with the earliest finish
//! time.
//!
//! The upward rank of a task is its expected length plus the longest path from it to the end of its job (Topcuoglu,
//! Hariri and Wu, *Performance-effective and low-complexity task scheduling for heterogeneous computing*, 2002); in a
//! job without dependencies it is the length of the task. Priorities come before ranks. Where a task names a profile
//! with known speeds, its length is the mean over the GPU types in its rank, and its own on each type when a placement
//! is chosen: it goes where it ends first, and waits for a fast GPU that is about to be free rather than take a slow
//! one. Without speeds all types are equal, and a task finishes first where it starts first: on a free device. No plan
//! outlives a turn: each is computed from what runs and how long it still takes, so that early and late completions
//! are taken into account.

use crate::FIT;
use crate::by_goal::TYPES;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::place::Fit;
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::shares::Shares;
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{JobId, PolicyDef, Span, Time};
use warpyard_dag::{Edge, Instance, Links, upward_ranks};

/// Jobs whose ranks are cached; beyond that the cache is cleared.
const MAX_CACHED_JOBS: usize = 4096;

#[derive(Default)]
struct UpwardRank {
    /// Ranks by job; only a cache.
    cache: Mutex<BTreeMap<JobId, CachedRanks>>,
    seconds_per_step: SecondsPerStep,
}

/// Mean seconds per step over the types with known speed, by profile and number of GPUs.
type SecondsPerStep = BTreeMap<String, BTreeMap<u16, f64>>;

struct CachedRanks {
    /// Specification the ranks were computed from. Compared by pointer: an edited job has a new one.
    spec: Weak<JobSpec>,
    ranks: Vec<f64>,
}

impl UpwardRank {
    fn rank(&self, task: &ReadyTask<'_>) -> f64 {
        let (job, node) = (task.task.job, task.task.node as usize);
        let spec = &task.job.spec;
        if spec.tasks.len() == 1 {
            return mean_length(task.spec, &self.seconds_per_step).unwrap_or_else(|| task.expected().secs());
        }
        let mut cache = self.cache.lock().expect("computing ranks does not panic");
        match cache.get(&job) {
            Some(ranks) if ranks.spec.as_ptr() == Arc::as_ptr(spec) => ranks.ranks[node],
            _ => {
                if cache.len() >= MAX_CACHED_JOBS {
                    cache.clear();
                }
                let all = job_ranks(spec, &self.seconds_per_step);
                let rank = all[node];
                cache.insert(job, CachedRanks { spec: Arc::downgrade(spec), ranks: all });
                rank
            }
        }
    }
}

impl Order for UpwardRank {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::urgent(task.job.priority).then(-self.rank(task))
    }

    fn formula(&self) -> &'static str {
        "(p, r): the largest priority p goes first, then the largest r, its own seconds and the longest way after it"
    }

    fn formula_values(&self, task: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        let rank = self.rank(task);
        // A task without a stated length counts as long as the mean of its job, so its own part is at most its rank.
        let own = mean_length(task.spec, &self.seconds_per_step)
            .unwrap_or_else(|| task.expected().secs())
            .min(rank);
        format!("p = {}, r = {own:.0} + {:.0} = {rank:.0}", task.job.priority, rank - own)
    }

    fn learn_speeds(&mut self, shares: &Shares) {
        self.cache.get_mut().expect("computing ranks does not panic").clear();
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

/// Mean length of a task over the types, where its steps and speeds are known.
fn mean_length(task: &TaskSpec, seconds_per_step: &SecondsPerStep) -> Option<f64> {
    let step = seconds_per_step.get(task.profile.as_ref()?)?.get(&task.needs.gpus)?;
    Some(task.steps? as f64 * step)
}

/// Upward ranks of a job's tasks in seconds. A task without a stated length counts as the mean of those that have one.
fn job_ranks(job: &JobSpec, seconds_per_step: &SecondsPerStep) -> Vec<f64> {
    let tasks = &job.tasks;
    let known =
        |task: &TaskSpec| mean_length(task, seconds_per_step).or_else(|| task.expected().map(Span::secs));
    let given: Vec<f64> = tasks.iter().filter_map(known).collect();
    let mean = match given.len() {
        0 => Span::UNKNOWN.secs(),
        count => given.iter().sum::<f64>() / count as f64,
    };
    let lengths = tasks.iter().map(|t| known(t).unwrap_or(mean)).collect();
    let edges: Vec<Edge> = (0u32..)
        .zip(tasks)
        .flat_map(|(to, task)| task.after.iter().map(move |after| Edge { from: after.node, to, data: 0.0 }))
        .collect();
    match Instance::new(1, lengths, &edges, Links::Uniform) {
        Ok(instance) => upward_ranks(&instance),
        // No accepted job has a dependency cycle; with one, the order would not matter.
        Err(_) => vec![0.0; tasks.len()],
    }
}

pub(crate) const DEF: PolicyDef = PolicyDef {
    name: "heft",
    summary: "priority, then the longest remaining path of its job, each task where it ends first",
    group: PolicyGroup::Graphs,
    when: "for jobs that are graphs of dependent tasks, to end each as early as possible",
    source: "Topcuoglu, Hariri and Wu, Performance-effective and low-complexity task scheduling, 2002",
    params: &[TYPES, BackfillRule::PARAM, FIT],
    build: |p| {
        let behind = BackfillRule::from_word(p.word("behind"));
        let policy = Ordered::new(UpwardRank::default(), behind).fit(Fit::from_word(p.word("fit")));
        Box::new(if p.word("types") == "blind" { policy } else { policy.by_speed() })
    },
};
