//! Two jobs on one GPU. Sharing ties jobs to one another and not only to the types, so the price method does not
//! help; but jobs that are alike in everything the goal looks at form a class, and the problem in classes is small:
//! what a class gets alone and with each other class, on each type.

mod goals;
mod nash;
mod program;
mod spread;
mod strategy;
mod tree;

pub(crate) use goals::{cost, fill, finish_time, makespan, max_min, throughput};
pub(crate) use strategy::strategy_proof;
pub(crate) use tree::hierarchical;

use crate::instance::{Instance, Job};
use crate::table::Profile;

/// How fast two jobs run together.
pub(crate) struct Partners<'a> {
    instance: &'a Instance,
}

impl<'a> Partners<'a> {
    pub(crate) fn new(instance: &'a Instance) -> Self {
        Self { instance }
    }

    /// Steps a second of both on a type, or `None` where they cannot share it. Jobs of unlike width never do: one of
    /// them would hold GPUs the other does not use.
    pub(crate) fn together(&self, one: &Job, other: &Job, gpu_type: usize) -> Option<[f64; 2]> {
        let t = &self.instance.types[gpu_type];
        let table = self.instance.pairs.as_ref()?;
        let runs = |job: &Job| job.throughputs[gpu_type] > 0.0;
        if one.gpus != other.gpus || one.gpus > t.count || !runs(one) || !runs(other) {
            return None;
        }
        let profile = |job: &Job| Some(Profile { name: job.profile.clone()?, gpus: job.gpus });
        table.together(&t.name, &profile(one)?, &profile(other)?)
    }

    /// Steps a second of a job on a type alone: as it says, or as the table does where that is more.
    pub(crate) fn alone(&self, job: &Job, gpu_type: usize) -> f64 {
        let measured = || {
            let profile = Profile { name: job.profile.clone()?, gpus: job.gpus };
            self.instance.pairs.as_ref()?.alone(&self.instance.types[gpu_type].name, &profile)
        };
        job.throughputs[gpu_type].max(measured().unwrap_or(0.0))
    }
}
