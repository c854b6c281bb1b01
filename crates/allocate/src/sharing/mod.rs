//! GPU sharing: two jobs on one GPU. Sharing couples jobs to one another and not only to the types, so decomposition
//! does not apply; but jobs alike in everything the goal uses form a class, and the problem in classes is small: the
//! time each class gets alone and with each other class, on each type.

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

/// Throughputs of pairs of jobs.
pub(crate) struct PairSpeeds<'a> {
    instance: &'a Instance,
}

impl<'a> PairSpeeds<'a> {
    pub(crate) fn new(instance: &'a Instance) -> Self {
        Self { instance }
    }

    /// Steps per second of two jobs on a type, or `None` where they cannot share it. Jobs of different width never do:
    /// the wider one would hold GPUs that the other does not use.
    pub(crate) fn paired(&self, one: &Job, other: &Job, gpu_type: usize) -> Option<[f64; 2]> {
        let t = &self.instance.types[gpu_type];
        let table = self.instance.pairs.as_ref()?;
        let runs = |job: &Job| job.throughputs[gpu_type] > 0.0;
        if one.gpus != other.gpus || one.gpus > t.count || !runs(one) || !runs(other) {
            return None;
        }
        let profile = |job: &Job| Some(Profile { name: job.profile.clone()?, gpus: job.gpus });
        table.paired(&t.name, &profile(one)?, &profile(other)?)
    }

    /// Steps per second of a job alone on a type: its own, or the table's where that is higher.
    pub(crate) fn alone(&self, job: &Job, gpu_type: usize) -> f64 {
        let measured = || {
            let profile = Profile { name: job.profile.clone()?, gpus: job.gpus };
            self.instance.pairs.as_ref()?.alone(&self.instance.types[gpu_type].name, &profile)
        };
        job.throughputs[gpu_type].max(measured().unwrap_or(0.0))
    }
}
