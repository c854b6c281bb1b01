//! Offered load: how much GPU time a workload asks for in the time that its jobs come, over how much there is. Above 1 the
//! queue grows for as long as jobs come, and figures say how many there are rather than how good a policy is.

use crate::exit::note;
use crate::simulation::Experiment;
use warpyard_core::event::WorkerInfo;
use warpyard_sim::workload::{TraceJob, TraceTask};

/// Below this a load is not remarked on: a workload is drawn, so its load lies a little to either side of what was meant.
const FULL: f64 = 1.05;

/// With fewer jobs than this, how fast they come is mostly chance.
const ENOUGH: usize = 50;

/// The offered load of a workload on a cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    /// GPUs that would be busy all the time, with tasks that state their memory sharing as well as they fit.
    pub(crate) asked: f64,
    /// GPUs there are.
    pub(crate) gpus: usize,
}

impl Load {
    /// The load of these jobs; none where they are few, come all at once, or say how fast they are only by type of GPU.
    pub(crate) fn of(jobs: impl Iterator<Item = TraceJob>, workers: &[WorkerInfo]) -> Option<Self> {
        let devices = || workers.iter().flat_map(|worker| &worker.devices);
        let largest = devices().map(|device| device.budget).max()?;
        let most = devices().filter_map(|device| device.limit).max();
        let (mut first, mut last, mut seconds) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
        let mut count = 0;
        for job in jobs {
            count += 1;
            first = first.min(job.submitted);
            last = last.max(job.submitted);
            for task in &job.tasks {
                if task.profile.is_some() && task.steps.is_some() {
                    return None;
                }
                seconds += task.runs * f64::from(task.gpus) * share(task, largest, most);
            }
        }
        let span = last - first;
        (span > 0.0 && count >= ENOUGH).then(|| Self { asked: seconds / span, gpus: devices().count() })
    }

    /// Over how much there is.
    pub(crate) fn share(self) -> f64 {
        self.asked / self.gpus as f64
    }

    /// Warns on standard error if the load exceeds the cluster.
    pub(crate) fn warn(self) {
        if self.share() > FULL {
            note(&format!(
                "note: the offered load is {:.1} times what the cluster has (work for {:.1} GPUs, there are {}), so the \
                 queue grows for as long as jobs come; a larger cluster, fewer jobs or a longer --gap says more about \
                 policies",
                self.share(),
                self.asked,
                self.gpus
            ));
        }
    }
}

/// The smallest fraction of a GPU that a task occupies.
fn share(task: &TraceTask, largest: u64, most: Option<u16>) -> f64 {
    let memory = task.gpu_memory.map_or(1.0, |memory| memory as f64 / largest.max(1) as f64);
    let place = most.filter(|most| *most > 0).map_or(0.0, |most| 1.0 / f64::from(most));
    if task.gpu_memory.is_some() { memory.max(place).min(1.0) } else { 1.0 }
}

impl Experiment {
    /// Warns on standard error if the workload's load exceeds the cluster.
    pub(crate) fn warn_of_load(&self, seed: u64) {
        if let Some(load) = Load::of(self.workload.jobs(seed), &self.workers) {
            load.warn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submitted: f64, gpus: u16, gpu_memory: Option<u64>) -> TraceJob {
        let task = TraceTask { runs: 100.0, gpus, gpu_memory, ..TraceTask::default() };
        TraceJob { submitted, tasks: vec![task], ..TraceJob::default() }
    }

    #[test]
    fn load_is_gpu_time_asked_for_over_gpu_time_there_is() {
        let workers = warpyard_sim::workload::cluster("2xV100:16GiB").unwrap();
        let of = |count: u32, gap: f64, memory: Option<u64>| {
            Load::of((0..count).map(|i| job(f64::from(i) * gap, 2, memory)), &workers)
        };
        // 101 jobs of 200 GPU seconds each in 5050 s.
        let twice = of(101, 50.5, None).unwrap();
        assert_eq!((twice.asked, twice.gpus, twice.share()), (4.0, 2, 2.0));
        let sharing = of(101, 50.5, Some(4 << 30)).unwrap();
        assert_eq!(sharing.asked, 1.0, "four of them share a GPU");
        assert_eq!(of(101, 0.0, None), None, "all at once is no rate");
        assert_eq!(of(3, 50.0, None), None, "three may have come by chance");
    }
}
