//! The machine's devices: their description and state, the processes on them, and the use that attempts make of them.

use super::host::{HostMeter, HostReading};
use super::memory::MemoryWindow;
use super::uses::{Idle, Uses};
use crate::probe::{self, ForeignUse, Gpu, OwnPids, OwnUse, Probe, ProbeError, Reading, Thresholds, Vendor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpyard_core::AttemptId;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::protocol::MemoryUse;

/// Rules by which devices are offered.
#[derive(Clone, Debug, Default)]
pub struct DeviceRules {
    /// Memory budget of a device for tasks that share it; all of its memory unless set.
    pub budget: Option<u64>,
    /// Maximum number of tasks on a device.
    pub limit: Option<u16>,
    /// Whether devices may be overcommitted.
    pub overcommit: bool,
    /// Threshold beyond which a device counts as in use by foreign processes.
    pub thresholds: Thresholds,
    /// Time after which an attempt that does not use its devices is reported idle.
    pub idle_after: Option<Duration>,
}

/// Latest readings of the devices. Readers share a copy, so that none waits for a driver call.
#[derive(Clone, Debug)]
pub struct Watched {
    describes: String,
    vendor: Vendor,
    idle_after: Option<Duration>,
    gpus: Vec<Gpu>,
    readings: BTreeMap<String, Reading>,
    states: BTreeMap<String, DeviceState>,
    foreign: BTreeMap<String, ForeignUse>,
    uses: Uses,
    host: HostReading,
}

/// Watch of the devices. Only the agent calls the drivers.
pub(super) struct Watch {
    probe: Box<dyn Probe>,
    rules: DeviceRules,
    seen: Watched,
    /// Copy for readers.
    shown: Arc<Mutex<Watched>>,
    peaks: BTreeMap<AttemptId, u64>,
    host: HostMeter,
    memory: MemoryWindow,
}

/// An attempt on devices with its processes, by which its GPU processes are told from foreign ones.
pub(super) struct OnDevices<'a> {
    pub(super) attempt: AttemptId,
    pub(super) uuids: &'a [String],
    pub(super) pids: BTreeSet<u32>,
}

impl Watched {
    /// Summary of the probe, in a line.
    pub fn describe(&self) -> &str {
        &self.describes
    }

    /// Vendor of the devices.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// The devices.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The last reading of a device.
    pub fn reading(&self, uuid: &str) -> Option<&Reading> {
        self.readings.get(uuid)
    }

    /// State of each device.
    pub fn states(&self) -> &BTreeMap<String, DeviceState> {
        &self.states
    }

    /// CPU and memory use of the machine the devices are in.
    pub fn host(&self) -> HostReading {
        self.host
    }

    /// Attempts that have not used their devices for the idle threshold.
    pub fn idle(&self) -> BTreeMap<AttemptId, Idle> {
        self.idle_after.map(|after| self.uses.idle(after, Instant::now())).unwrap_or_default()
    }

    /// Foreign processes on a device.
    pub fn foreign_on(&self, uuid: &str) -> Option<&ForeignUse> {
        self.foreign.get(uuid)
    }

    /// Attempts on a device that they were not granted.
    pub fn strays_on(&self, uuid: &str) -> impl Iterator<Item = AttemptId> {
        self.uses.strays_on(uuid)
    }
}

impl Watch {
    /// Finds the devices.
    pub(super) fn new(mut probe: Box<dyn Probe>, rules: DeviceRules) -> Result<Watch, ProbeError> {
        let gpus = probe.gpus()?;
        let (readings, states, foreign, uses, host) = Default::default();
        let (describes, vendor, idle_after) = (probe.describe(), probe.vendor(), rules.idle_after);
        let seen = Watched { describes, vendor, idle_after, gpus, readings, states, foreign, uses, host };
        let shown = Arc::new(Mutex::new(seen.clone()));
        let (peaks, memory, host) = Default::default();
        Ok(Watch { probe, rules, seen, shown, peaks, memory, host })
    }

    /// Latest readings.
    pub(super) fn seen(&self) -> &Watched {
        &self.seen
    }

    /// Copy for readers.
    pub(super) fn shown(&self) -> Arc<Mutex<Watched>> {
        self.shown.clone()
    }

    fn show(&self) {
        let seen = self.seen.clone();
        *self.shown.lock().expect("nobody panics while looking at devices") = seen;
    }

    /// Descriptions of the devices, for the server.
    pub(super) fn infos(&self) -> Vec<DeviceInfo> {
        let info = |gpu: &Gpu| DeviceInfo {
            uuid: gpu.uuid.clone(),
            kind: gpu.type_name.clone(),
            memory: gpu.memory_bytes,
            budget: self.rules.budget.map_or(gpu.memory_bytes, |b| b.min(gpu.memory_bytes)),
            limit: self.rules.limit,
            overcommit: self.rules.overcommit,
            state: self.seen.states.get(&gpu.uuid).copied().unwrap_or_default(),
        };
        self.seen.gpus.iter().map(info).collect()
    }

    /// Peak device memory of an attempt, which is forgotten by this call.
    pub(super) fn take_peak(&mut self, attempt: AttemptId) -> Option<u64> {
        self.peaks.remove(&attempt)
    }

    /// Device memory in use by attempt: the sliding maximum.
    pub(super) fn memory_used(&self) -> MemoryUse {
        self.memory.most()
    }

    /// Reads every device, given the attempts on them.
    pub(super) fn look(&mut self, ours: &[OnDevices<'_>]) {
        self.seen.host = self.host.read();
        for at in 0..self.seen.gpus.len() {
            self.look_at(at, ours);
        }
        // Of devices that are only declared nobody can tell.
        if self.seen.vendor != Vendor::Declared {
            self.seen.uses.note(ours, &self.seen.readings, Instant::now());
        }
        let now = Instant::now();
        self.memory.retain(|attempt| ours.iter().any(|one| one.attempt == attempt));
        for one in ours {
            let readings = &self.seen.readings;
            let used = |uuid: &String| readings.get(uuid).and_then(|r| probe::bytes_of(r, &one.pids));
            for uuid in one.uuids.iter().filter(|_| self.seen.vendor != Vendor::Declared) {
                if let Some(bytes) = used(uuid) {
                    self.memory.note(one.attempt, uuid, bytes, now);
                }
            }
            let sum: Option<u64> = one.uuids.iter().filter_map(used).reduce(|a, b| a + b);
            if let Some(bytes) = sum {
                let peak = self.peaks.entry(one.attempt).or_default();
                *peak = (*peak).max(bytes);
            }
        }
        self.show();
    }

    /// Reads some devices; returns the first that may not be used.
    pub(super) fn check<'u>(&mut self, uuids: &'u [String], ours: &[OnDevices<'_>]) -> Option<&'u str> {
        if self.seen.vendor == Vendor::Declared {
            return None;
        }
        let unusable = uuids.iter().map(String::as_str).find(|uuid| {
            if let Some(at) = self.seen.gpus.iter().position(|g| g.uuid == *uuid) {
                self.look_at(at, ours);
            }
            self.seen.states.get(*uuid).copied().unwrap_or(DeviceState::Gone) != DeviceState::Usable
        });
        self.show();
        unusable
    }

    fn look_at(&mut self, at: usize, ours: &[OnDevices<'_>]) {
        let seen = &mut self.seen;
        let uuid = &seen.gpus[at].uuid;
        let state = match self.probe.read(uuid) {
            Ok(reading) => {
                let here: Vec<_> = ours.iter().filter(|o| o.uuids.contains(uuid)).collect();
                let pids = here.iter().flat_map(|o| o.pids.iter().copied()).collect();
                let ours = OwnUse { tasks: here.len(), pids: OwnPids::Known(pids), bytes: 0 };
                let foreign = probe::foreign(&reading, &ours, &self.rules.thresholds);
                seen.readings.insert(uuid.clone(), reading);
                let state = if foreign.is_some() { DeviceState::Foreign } else { DeviceState::Usable };
                seen.foreign.remove(uuid);
                seen.foreign.extend(foreign.map(|foreign| (uuid.clone(), foreign)));
                state
            }
            Err(e) if e.is_lost() => DeviceState::Gone,
            // A reading that failed for once says nothing about the device.
            Err(_) => seen.states.get(uuid).copied().unwrap_or_default(),
        };
        if state == DeviceState::Gone {
            seen.readings.remove(uuid);
            seen.foreign.remove(uuid);
        }
        seen.states.insert(uuid.clone(), state);
    }
}
