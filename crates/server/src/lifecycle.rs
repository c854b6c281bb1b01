//! Lifecycle of jobs, attempts and workers as log output: one line per committed event that a person looks for, with `job`,
//! `task` and `attempt` as fields. Everyday events are at level `info`, which is not shown by default; a lost worker is a
//! warning. The log of events is elsewhere, and complete; this is for reading along.

use tracing::{Level, debug, enabled, info, warn};
use warpyard_core::event::How;
use warpyard_core::{AttemptId, Cluster, Event, What};

/// Logs what a turn committed. `cluster` is the state after it.
pub(crate) fn log(cluster: &Cluster, events: &[Event]) {
    if !enabled!(Level::WARN) {
        return;
    }
    for event in events {
        match &event.what {
            What::JobSubmitted { job, user, spec } => {
                info!(job = job.0, user, name = spec.name, "job submitted");
            }
            What::Placed { attempt, placement } => {
                let worker = cluster.worker(placement.worker).map_or("?", |w| &w.info.name);
                let devices = placement.devices.len();
                attempt_line(*attempt, |job, task, attempt| {
                    debug!(job, task, attempt, worker, devices, "attempt placed");
                });
            }
            What::Started { attempt } => attempt_line(*attempt, |job, task, attempt| {
                info!(job, task, attempt, "attempt started");
            }),
            What::StopAsked { attempt, why } => attempt_line(*attempt, |job, task, attempt| {
                debug!(job, task, attempt, why = ?why, "attempt asked to stop");
            }),
            What::Ended { attempt, end, .. } => attempt_line(*attempt, |job, task, attempt| match &end.how {
                How::Lost(why) => warn!(job, task, attempt, "attempt lost: {why}"),
                how => info!(job, task, attempt, how = ?how, "attempt ended"),
            }),
            What::WorkerJoined { info, .. } => {
                info!(worker = info.name, devices = info.devices.len(), "worker joined");
            }
            What::WorkerLost { worker } => {
                let name = cluster.worker(*worker).map_or("?", |w| &w.info.name);
                warn!(worker = name, "worker lost: its lease expired");
            }
            What::PolicySet { policy } => info!(policy = %policy, "policy set"),
            _ => {}
        }
    }
}

/// Hands over an attempt's fields: its job, its task as node and index, its number.
fn attempt_line(attempt: AttemptId, line: impl FnOnce(u64, String, u32)) {
    let AttemptId { task, number } = attempt;
    line(task.job.0, format!("{}.{}", task.node, task.index), number);
}
