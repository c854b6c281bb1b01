//! Partial copies of the state, for what must not hold up anyone else: forecasts, which look at the head of the queue, and
//! state snapshots, which leave out what is derived. Either shares its jobs with the cluster it was taken from.

use super::{Cluster, DerivedState, Jobs};
use crate::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};

impl Cluster {
    /// The cluster with no other jobs than those on workers, the given ones, and those that wait for one of them to end. Costs
    /// what it contains, however long the queue is.
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

    /// What a state snapshot of the cluster contains: everything but what is derived from it. Costs little more than a pointer
    /// for every few jobs.
    pub fn saved(&self) -> Cluster {
        self.with(self.jobs.clone(), self.envs.clone())
    }

    /// The same with other jobs and environments, and nothing derived.
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
