//! Lifecycle of jobs, attempts and workers as log output: one line per committed event that a person looks for, with `job`
//! and `attempt` as fields. Everyday events are at level `info`, which is not shown by default; a lost attempt or worker is
//! a warning. The log of events is elsewhere, and complete; this is for reading along.

use tracing::{debug, info, warn};
use warpyard_core::event::EndReason;
use warpyard_core::{Cluster, Event, EventKind};

/// Logs what a turn committed. `cluster` is the state after it. Fields are formatted only at a level that is shown, since this
/// is on the path of every turn.
pub(crate) fn log(cluster: &Cluster, events: &[Event]) {
    for event in events {
        let job = event.what.job().map(|job| job.0);
        match &event.what {
            EventKind::JobSubmitted { user, spec, .. } => info!(job, user, name = spec.name, "job submitted"),
            EventKind::Placed { attempt, placement } => {
                let worker = cluster.worker(placement.worker).map(|w| &w.info.name[..]);
                debug!(job, %attempt, worker, devices = placement.devices.len(), "attempt placed");
            }
            EventKind::Started { attempt } => info!(job, %attempt, "attempt started"),
            EventKind::StopAsked { attempt, why } => debug!(job, %attempt, ?why, "attempt asked to stop"),
            EventKind::Ended { attempt, end, .. } => match &end.how {
                EndReason::Lost(why) => warn!(job, %attempt, "attempt lost: {why}"),
                how => info!(job, %attempt, ?how, "attempt ended"),
            },
            EventKind::WorkerJoined { info, .. } => {
                info!(worker = info.name, devices = info.devices.len(), "worker joined");
            }
            EventKind::WorkerLost { worker } => {
                let worker = cluster.worker(*worker).map(|w| &w.info.name[..]);
                warn!(worker, "worker lost: its lease expired");
            }
            EventKind::WorkerDrained { worker, drained, reason } => {
                let worker = cluster.worker(*worker).map(|w| &w.info.name[..]);
                match reason {
                    Some(reason) => warn!(worker, "worker drained: {reason}"),
                    None => info!(worker, drained, "worker drained or resumed"),
                }
            }
            EventKind::PolicySet { policy } => info!(%policy, "policy set"),
            _ => {}
        }
    }
}
