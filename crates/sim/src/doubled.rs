//! Device time that two tasks have together by a target, followed from the events: figures of each task count it, and so
//! would count it twice.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use warpyard_core::event::{Event, What};
use warpyard_core::pool::Charge;
use warpyard_core::{AttemptId, DeviceId, TaskId, Time};

/// Attempts that may be beside another, and since when they run.
#[derive(Debug, Default)]
pub(crate) struct Doubled(BTreeMap<AttemptId, Given>);

#[derive(Debug)]
struct Given {
    devices: SmallVec<[DeviceId; 2]>,
    since: Option<Time>,
}

impl Doubled {
    /// Takes one event; gives the seconds of devices that two had together until it parted them, and which two.
    pub(crate) fn enter(&mut self, event: &Event) -> Option<([TaskId; 2], f64)> {
        match &event.what {
            What::Placed { attempt, placement } => {
                if placement.devices.first().is_some_and(|(_, charge)| *charge == Charge::Beside) {
                    let devices = placement.device_ids().collect();
                    self.0.insert(*attempt, Given { devices, since: None });
                }
                None
            }
            What::Started { attempt } | What::Resumed { attempt } => {
                self.0.get_mut(attempt)?.since = Some(event.at);
                None
            }
            What::Paused { attempt } => {
                let since = self.0.get_mut(attempt)?.since.take()?;
                self.together(*attempt, &self.0.get(attempt)?.devices, since, event.at)
            }
            What::Ended { attempt, .. } => {
                let Given { devices, since } = self.0.remove(attempt)?;
                self.together(*attempt, &devices, since?, event.at)
            }
            _ => None,
        }
    }

    fn together(
        &self,
        attempt: AttemptId,
        devices: &[DeviceId],
        since: Time,
        until: Time,
    ) -> Option<([TaskId; 2], f64)> {
        let runs_there = |(other, given): (&AttemptId, &Given)| {
            let met = given.since.filter(|_| *other != attempt && given.devices[..] == *devices)?;
            Some((other.task, met.max(since)))
        };
        let (other, met) = self.0.iter().find_map(runs_there)?;
        Some(([attempt.task, other], until.since(met).secs() * devices.len() as f64))
    }
}
