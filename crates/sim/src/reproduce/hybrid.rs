//! The two experiments of the hybrid scheduler's paper: a task that requests a busy GPU waits for it or is scheduled
//! elsewhere, and a GPU at its task limit passes the next task on. The paper prints the states and the GPU of each task,
//! and no times: the run lengths, and therefore the start time below, are ours.

use super::{Row, Verdict};
use crate::workload::cluster;
use crate::{RunModel, Setup, Sim};
use warpyard_core::spec::{JobSpec, Needs, TaskSpec, WaitMode, default_grace};
use warpyard_core::{DeviceId, Rejection, Span, TaskId, Time, WorkerId};
use warpyard_policies::POLICIES;

const GIB: u64 = 1 << 30;
/// Length of the task that occupies GPU 0, in seconds; ours, since the paper prints none.
const BUSY: f64 = 60.0;

/// One experiment: two GPUs of 16 GiB, each with an optional task limit.
struct Experiment {
    sim: Sim,
}

impl Experiment {
    fn new(limit: Option<u16>) -> Result<Experiment, Rejection> {
        let mut workers = cluster("2xV100:16GiB").expect("a cluster of two");
        workers[0].devices.iter_mut().for_each(|device| device.limit = limit);
        let setup = Setup { workers, policy: "hybrid".parse()?, ..Setup::default() };
        Ok(Experiment { sim: Sim::new(setup, POLICIES)? })
    }

    /// Submits a task that requests GPU 0.
    fn request_gpu_0(&mut self, gib: u64, seconds: f64, wait_mode: WaitMode) -> Result<TaskId, Rejection> {
        let preferred = vec![DeviceId { worker: WorkerId(0), index: 0 }];
        let needs = Needs { gpus: 1, gpu_memory: Some(gib * GIB), preferred, wait_mode, ..Needs::default() };
        let task = TaskSpec { name: "task".into(), needs, grace: default_grace(), ..TaskSpec::default() };
        let spec = JobSpec { name: "task".into(), tasks: vec![task], ..JobSpec::default() };
        let job = self.sim.submit("ann", spec, RunModel::Constant(Span::from_secs(seconds)))?;
        Ok(TaskId { job, node: 0, index: 0 })
    }

    /// Index of the GPU that a task has now; `None` while it waits.
    fn gpu_of(&self, task: TaskId) -> Option<f64> {
        let (attempt, _) = self.sim.cluster().view().attempt(task)?;
        attempt.placement.devices.first().map(|(index, _)| f64::from(*index))
    }
}

/// Rows: the GPU of each task, whether it waits, and when it started.
pub fn hybrid() -> Result<Vec<Row>, Rejection> {
    let mut rows = Vec::new();
    let mut note = |row: &str, published: f64, ours: Option<f64>| {
        let ours = ours.unwrap_or(f64::NAN);
        let verdict = Verdict::of(ours == published, || "another placement".to_owned());
        rows.push(Row {
            row: row.to_owned(),
            published: Some(published),
            reference: None,
            ours,
            low: ours,
            high: ours,
            verdict,
        });
    };

    let mut one = Experiment::new(None)?;
    one.request_gpu_0(10, BUSY, WaitMode::Queue)?;
    let shares = one.request_gpu_0(4, BUSY, WaitMode::Queue)?;
    note("GPU 0 busy, queue, memory fits: GPU", 0.0, one.gpu_of(shares));
    let waits = one.request_gpu_0(8, 10.0, WaitMode::Queue)?;
    let waiting = if one.gpu_of(waits).is_none() { 1.0 } else { 0.0 };
    note("GPU 0 busy, queue, memory does not fit: waits", 1.0, Some(waiting));
    let scheduled = one.request_gpu_0(8, BUSY, WaitMode::Schedule)?;
    note("GPU 0 busy, schedule: GPU", 1.0, one.gpu_of(scheduled));
    one.sim.run_until(Time::from_secs(BUSY));
    note("GPU 0 free again, queue: GPU", 0.0, one.gpu_of(waits));

    let mut two = Experiment::new(Some(3))?;
    for number in ["first", "second", "third"] {
        let task = two.request_gpu_0(2, BUSY, WaitMode::Schedule)?;
        note(&format!("at most 3 tasks a GPU, {number} requests GPU 0: GPU"), 0.0, two.gpu_of(task));
    }
    let fourth = two.request_gpu_0(2, BUSY, WaitMode::Schedule)?;
    note("at most 3 tasks a GPU, fourth requests GPU 0: GPU", 1.0, two.gpu_of(fourth));
    let started = one.sim.record(waits).and_then(|record| record.started).map_or(f64::NAN, Time::secs);
    rows.push(Row::unpublished(
        "GPU 0 free again, queue: started (s)".to_owned(),
        (started, started, started),
    ));
    Ok(rows)
}
