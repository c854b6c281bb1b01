//! Partial copies of the state, for readers that must not delay the engine: forecasts, which look at the head of the
//! queue, and state snapshots, which leave derived state out. Both share their jobs with the cluster they were taken
//! from.

use super::{Cluster, DerivedState, Jobs};
use crate::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};

impl Cluster {
    /// Cluster with only the jobs on workers, the given ones, and their dependents. Costs what it contains, however
    /// long the queue is.
    pub fn excerpt(&self, jobs: impl IntoIterator<Item = JobId>) -> Cluster {
        let mut kept: BTreeSet<JobId> = self.view().on_workers().map(|task| task.job).chain(jobs).collect();
        let waiters = kept.iter().filter_map(|job| self.derived.waiters.get(job)).flatten();
        let waiters: Vec<_> = waiters.take(kept.len()).copied().collect();
        kept.extend(waiters);
        let (mut excerpt, mut envs) = (Jobs::default(), BTreeMap::new());
        for job in kept.into_iter().filter_map(|id| self.jobs.shared(id)) {
            if let Some((id, env)) = job.spec.env.and_then(|id| Some((id, self.envs.get(&id)?))) {
                let of_kept = envs.entry(id).or_insert_with(|| super::StoredEnv { jobs: 0, ..env.clone() });
                of_kept.jobs += 1;
            }
            excerpt.insert(job.clone());
        }
        self.with(excerpt, envs).restored()
    }

    /// Contents of a state snapshot: everything but derived state. Costs little more than a pointer for every few
    /// jobs.
    pub fn saved(&self) -> Cluster {
        self.with(self.jobs.clone(), self.envs.clone())
    }

    /// Cluster with other jobs and environments, and no derived state.
    fn with(&self, jobs: Jobs, envs: BTreeMap<crate::ids::EnvId, super::StoredEnv>) -> Cluster {
        Cluster {
            seq: self.seq,
            next_job: self.next_job,
            next_env: self.next_env,
            jobs,
            workers: self.workers.clone(),
            envs,
            policy: self.policy.clone(),
            accounts: self.accounts.clone(),
            shares: self.shares.clone(),
            quotas: self.quotas.uncounted(),
            derived: DerivedState::default(),
            #[cfg(feature = "bugs")]
            bug: self.bug,
        }
    }
}
