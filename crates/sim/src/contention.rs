//! Device time that several tasks have at once, followed from the events: the running time of each counts it, and so their
//! sum would count it several times.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use warpyard_core::event::{Event, EventKind, WorkerInfo};
use warpyard_core::pool::{Charge, Placement};
use warpyard_core::{AttemptId, DeviceId, TaskId, Time};

/// Devices that several may have, and who runs on them.
#[derive(Debug, Default)]
pub(crate) struct ContentionTracker {
    /// Whether even those that have a device whole may have it together.
    overcommitted: bool,
    given: BTreeMap<AttemptId, SmallVec<[DeviceId; 2]>>,
    on: BTreeMap<DeviceId, DeviceOccupancy>,
}

/// Who runs on a device, and since when just they do.
#[derive(Debug, Default)]
struct DeviceOccupancy {
    running: SmallVec<[TaskId; 4]>,
    since: Time,
}

/// Tasks, and the seconds that others are accounted for in their stead.
pub(crate) type DoubleCounted = Vec<(TaskId, f64)>;

impl ContentionTracker {
    pub(crate) fn on<'a>(workers: impl IntoIterator<Item = &'a WorkerInfo>) -> ContentionTracker {
        let overcommitted =
            workers.into_iter().any(|worker| worker.devices.iter().any(|device| device.overcommit));
        ContentionTracker { overcommitted, ..ContentionTracker::default() }
    }

    /// Takes one event. Of a device that n tasks ran on until it, each has 1/n: adds to `counted` what is too much of the
    /// running time of each.
    pub(crate) fn enter(&mut self, event: &Event, counted: &mut DoubleCounted) {
        match &event.what {
            EventKind::Placed { attempt, placement } if self.concerns(placement) => {
                self.given.insert(*attempt, placement.device_ids().collect());
            }
            _ if self.given.is_empty() => {}
            EventKind::Started { attempt } | EventKind::Resumed { attempt } => {
                for device in self.given.get(attempt).into_iter().flatten() {
                    let crowd = self.on.entry(*device).or_default();
                    crowd.settle(event.at, counted);
                    crowd.running.push(attempt.task);
                }
            }
            EventKind::Paused { attempt } => {
                for device in self.given.get(attempt).into_iter().flatten() {
                    leave(&mut self.on, *device, *attempt, event.at, counted);
                }
            }
            EventKind::Ended { attempt, .. } => {
                for device in self.given.remove(attempt).into_iter().flatten() {
                    leave(&mut self.on, device, *attempt, event.at, counted);
                }
            }
            _ => {}
        }
    }

    /// Whoever has a device whole has it alone, unless more may be given than there is.
    fn concerns(&self, placement: &Placement) -> bool {
        self.overcommitted || placement.devices.iter().any(|(_, charge)| *charge != Charge::Whole)
    }
}

fn leave(
    on: &mut BTreeMap<DeviceId, DeviceOccupancy>,
    device: DeviceId,
    attempt: AttemptId,
    at: Time,
    counted: &mut DoubleCounted,
) {
    let Some(crowd) = on.get_mut(&device) else { return };
    crowd.settle(at, counted);
    crowd.running.retain(|task| *task != attempt.task);
}

impl DeviceOccupancy {
    /// What came together up to now is accounted for.
    fn settle(&mut self, at: Time, counted: &mut DoubleCounted) {
        let n = self.running.len();
        if n > 1 {
            let too_much = at.since(self.since).secs() * (n - 1) as f64 / n as f64;
            counted.extend(self.running.iter().map(|task| (*task, too_much)));
        }
        self.since = at;
    }
}
