//! Device time shared by several tasks, tracked from the events. The running time of each task includes it, so that their sum
//! would count it several times; the tracker computes what to subtract.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use warpyard_core::event::{Event, EventKind, WorkerInfo};
use warpyard_core::pool::{Charge, Placement};
use warpyard_core::{AttemptId, DeviceId, TaskId, Time};

/// Occupancy of all devices that can be shared.
#[derive(Debug, Default)]
pub(crate) struct ContentionTracker {
    /// Whether devices may be overcommitted, so that even tasks with a whole device may share it.
    overcommitted: bool,
    /// Devices of each attempt that may share them.
    placed: BTreeMap<AttemptId, SmallVec<[DeviceId; 2]>>,
    devices: BTreeMap<DeviceId, DeviceOccupancy>,
}

/// Tasks running on a device, unchanged since a moment.
#[derive(Debug, Default)]
struct DeviceOccupancy {
    running: SmallVec<[TaskId; 4]>,
    since: Time,
}

/// Tasks, and the device seconds to subtract from the running time of each.
pub(crate) type DoubleCounted = Vec<(TaskId, f64)>;

impl ContentionTracker {
    pub(crate) fn on<'a>(workers: impl IntoIterator<Item = &'a WorkerInfo>) -> ContentionTracker {
        let overcommitted =
            workers.into_iter().any(|worker| worker.devices.iter().any(|device| device.overcommit));
        ContentionTracker { overcommitted, ..ContentionTracker::default() }
    }

    /// Observes one event. Of a device on which n tasks ran until now, each is charged 1/n: the remaining (n − 1)/n of its
    /// running time since the last change is added to `double_counted`.
    pub(crate) fn observe(&mut self, event: &Event, double_counted: &mut DoubleCounted) {
        match &event.what {
            EventKind::Placed { attempt, placement } if self.may_share(placement) => {
                self.placed.insert(*attempt, placement.device_ids().collect());
            }
            _ if self.placed.is_empty() => {}
            EventKind::Started { attempt } | EventKind::Resumed { attempt } => {
                for device in self.placed.get(attempt).into_iter().flatten() {
                    let occupancy = self.devices.entry(*device).or_default();
                    occupancy.settle(event.at, double_counted);
                    occupancy.running.push(attempt.task);
                }
            }
            EventKind::Paused { attempt } => {
                for device in self.placed.get(attempt).into_iter().flatten() {
                    leave(&mut self.devices, *device, *attempt, event.at, double_counted);
                }
            }
            EventKind::Ended { attempt, .. } => {
                for device in self.placed.remove(attempt).into_iter().flatten() {
                    leave(&mut self.devices, device, *attempt, event.at, double_counted);
                }
            }
            _ => {}
        }
    }

    /// Whether the placement may share a device. A whole device is exclusive unless it is overcommitted.
    fn may_share(&self, placement: &Placement) -> bool {
        self.overcommitted || placement.devices.iter().any(|(_, charge)| *charge != Charge::Whole)
    }
}

fn leave(
    devices: &mut BTreeMap<DeviceId, DeviceOccupancy>,
    device: DeviceId,
    attempt: AttemptId,
    at: Time,
    double_counted: &mut DoubleCounted,
) {
    let Some(occupancy) = devices.get_mut(&device) else { return };
    occupancy.settle(at, double_counted);
    occupancy.running.retain(|task| *task != attempt.task);
}

impl DeviceOccupancy {
    /// Accounts for the time since the last change of occupancy.
    fn settle(&mut self, at: Time, double_counted: &mut DoubleCounted) {
        let n = self.running.len();
        if n > 1 {
            let excess = at.since(self.since).secs() * (n - 1) as f64 / n as f64;
            double_counted.extend(self.running.iter().map(|task| (*task, excess)));
        }
        self.since = at;
    }
}
