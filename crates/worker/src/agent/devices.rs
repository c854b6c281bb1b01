//! The machine's devices as the agent sees them: what they are, who is on them, and what our attempts use of them.

use super::uses::{Idle, Uses};
use crate::probe::{self, Gpu, Ours, Pids, Probe, ProbeError, Reading, Thresholds, Vendor};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use warpyard_core::AttemptId;
use warpyard_core::pool::{DeviceInfo, DeviceState};

/// How devices are offered.
#[derive(Clone, Debug, Default)]
pub struct DeviceRules {
    /// How much of a device's memory sharing tasks may have; all of it unless set.
    pub budget: Option<u64>,
    /// How many tasks may share a device.
    pub limit: Option<u16>,
    /// Whether devices may be given more than fits.
    pub overcommit: bool,
    /// From when on a device counts as someone else's.
    pub thresholds: Thresholds,
    /// After how long it is pointed out that an attempt does nothing with its devices.
    pub idle_after: Option<Duration>,
}

/// The devices, and the last reading of each.
pub struct Watched {
    probe: Box<dyn Probe>,
    rules: DeviceRules,
    gpus: Vec<Gpu>,
    readings: BTreeMap<String, Reading>,
    states: BTreeMap<String, DeviceState>,
    peaks: BTreeMap<AttemptId, u64>,
    uses: Uses,
}

/// An attempt and where it is, for telling our processes from others'.
pub(super) struct OnDevices<'a> {
    pub(super) attempt: AttemptId,
    pub(super) uuids: &'a [String],
    pub(super) pids: BTreeSet<u32>,
}

impl Watched {
    /// Finds the devices.
    pub fn new(mut probe: Box<dyn Probe>, rules: DeviceRules) -> Result<Watched, ProbeError> {
        let gpus = probe.gpus()?;
        let (readings, states, peaks, uses) = Default::default();
        Ok(Watched { probe, rules, gpus, readings, states, peaks, uses })
    }

    /// What was looked at, in a line.
    pub fn describe(&self) -> String {
        self.probe.describe()
    }

    /// Whose devices they are.
    pub fn vendor(&self) -> Vendor {
        self.probe.vendor()
    }

    /// The devices.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The devices as the server is told of them.
    pub fn infos(&self) -> Vec<DeviceInfo> {
        let info = |gpu: &Gpu| DeviceInfo {
            uuid: gpu.uuid.clone(),
            kind: gpu.type_name.clone(),
            memory: gpu.memory_bytes,
            budget: self.rules.budget.map_or(gpu.memory_bytes, |b| b.min(gpu.memory_bytes)),
            limit: self.rules.limit,
            overcommit: self.rules.overcommit,
            state: self.states.get(&gpu.uuid).copied().unwrap_or_default(),
        };
        self.gpus.iter().map(info).collect()
    }

    /// The last reading of a device.
    pub fn reading(&self, uuid: &str) -> Option<&Reading> {
        self.readings.get(uuid)
    }

    /// How each device is.
    pub fn states(&self) -> &BTreeMap<String, DeviceState> {
        &self.states
    }

    /// Attempts that have done nothing with the devices they have for as long as is to be pointed out.
    pub fn idle(&self) -> BTreeMap<AttemptId, Idle> {
        self.rules.idle_after.map(|after| self.uses.idle(after, Instant::now())).unwrap_or_default()
    }

    /// Attempts on a device that they were not given.
    pub fn strays_on(&self, uuid: &str) -> impl Iterator<Item = AttemptId> {
        self.uses.strays_on(uuid)
    }

    /// The most device memory an attempt was seen using; it is forgotten with this.
    pub(super) fn take_peak(&mut self, attempt: AttemptId) -> Option<u64> {
        self.peaks.remove(&attempt)
    }

    /// Reads every device again, given which of our attempts are on them.
    pub(super) fn look(&mut self, ours: &[OnDevices<'_>]) {
        for at in 0..self.gpus.len() {
            self.look_at(at, ours);
        }
        // Of devices that are only declared nobody can tell.
        if self.vendor() != Vendor::Declared {
            self.uses.note(ours, &self.readings, Instant::now());
        }
        for one in ours {
            let used = |uuid: &String| self.readings.get(uuid).and_then(|r| probe::bytes_of(r, &one.pids));
            let sum: Option<u64> = one.uuids.iter().filter_map(used).reduce(|a, b| a + b);
            if let Some(bytes) = sum {
                let peak = self.peaks.entry(one.attempt).or_default();
                *peak = (*peak).max(bytes);
            }
        }
    }

    /// Reads some devices again and says which of them may not be used.
    pub(super) fn check<'u>(&mut self, uuids: &'u [String], ours: &[OnDevices<'_>]) -> Option<&'u str> {
        if self.vendor() == Vendor::Declared {
            return None;
        }
        uuids.iter().map(String::as_str).find(|uuid| {
            if let Some(at) = self.gpus.iter().position(|g| g.uuid == *uuid) {
                self.look_at(at, ours);
            }
            self.states.get(*uuid).copied().unwrap_or(DeviceState::Gone) != DeviceState::Usable
        })
    }

    fn look_at(&mut self, at: usize, ours: &[OnDevices<'_>]) {
        let uuid = &self.gpus[at].uuid;
        let state = match self.probe.read(uuid) {
            Ok(reading) => {
                let here: Vec<_> = ours.iter().filter(|o| o.uuids.contains(uuid)).collect();
                let pids = here.iter().flat_map(|o| o.pids.iter().copied()).collect();
                let ours = Ours { tasks: here.len(), pids: Pids::Known(pids), bytes: 0 };
                let foreign = probe::foreign(&reading, &ours, &self.rules.thresholds);
                self.readings.insert(uuid.clone(), reading);
                if foreign.is_some() { DeviceState::Foreign } else { DeviceState::Usable }
            }
            Err(e) if e.is_lost() => DeviceState::Gone,
            // A reading that failed for once says nothing about the device.
            Err(_) => self.states.get(uuid).copied().unwrap_or_default(),
        };
        if state == DeviceState::Gone {
            self.readings.remove(uuid);
        }
        self.states.insert(uuid.clone(), state);
    }
}
