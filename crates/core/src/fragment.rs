//! Fragmentation: how much free device capacity the tasks there are could not use, and where a task adds least to
//! that.
//!
//! The fragmentation of a worker for a class of tasks is the share of its devices that is free and that such a task
//! cannot use: all of it if the worker cannot take the task at all (or the task uses no device), otherwise what is
//! free on devices too full for it. Over the classes of a task mix, weighted by frequency, this is an expectation; a
//! task goes where it grows least. Q. Weng et al., *Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
//! Fragmentation Gradient Descent* (USENIX ATC 2023).

use crate::ids::{DeviceId, WorkerId};
use crate::pool::{DeviceInfo, DeviceState, DeviceUse, Pool, Resources, WorkerUse, acceptable};
use crate::spec::{Needs, WaitMode};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Number of classes considered: the most common ones.
const CLASSES: usize = 64;

/// Task mix: classes of tasks with equal needs, and how many tasks each has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMix {
    classes: Vec<TaskClass>,
    tasks: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct TaskClass {
    needs: Needs,
    count: u64,
    /// Whether it restricts its devices by more than free capacity: by type, scope or preference.
    particular: bool,
}

impl TaskMix {
    /// Empty mix: nothing is ever fragmented.
    pub const NONE: &'static TaskMix = &TaskMix { classes: Vec::new(), tasks: 0 };

    /// Mix of the given tasks; only the most common classes are kept.
    pub fn of<'n>(tasks: impl IntoIterator<Item = (&'n Needs, u64)>) -> TaskMix {
        let mut counts: BTreeMap<&Needs, u64> = BTreeMap::new();
        for (needs, count) in tasks {
            *counts.entry(needs).or_default() += count;
        }
        let mut common: Vec<_> = counts.into_iter().collect();
        common.sort_by_key(|&(needs, count)| (Reverse(count), needs));
        common.truncate(CLASSES);
        let class = |(needs, count): (&Needs, u64)| {
            let waits_for = needs.wait_mode == WaitMode::Queue && !needs.preferred.is_empty();
            let particular = waits_for || !needs.gpu_types.is_empty() || !needs.scope.is_empty();
            TaskClass { needs: needs.clone(), count, particular }
        };
        let classes: Vec<_> = common.into_iter().map(class).collect();
        TaskMix { tasks: classes.iter().map(|class| class.count).sum(), classes }
    }

    /// Mean free capacity, in devices, that a task of this mix cannot use.
    pub fn fragmentation(&self, pool: &Pool) -> f64 {
        let sum: f64 = pool.workers().map(|(id, used)| self.unusable(id, used) as f64).sum();
        sum / (self.tasks.max(1) as f64 * Resources::DEVICE as f64)
    }

    /// Sum over the tasks of the free capacity on a worker that each cannot use, in millionths of a device.
    pub(crate) fn unusable(&self, id: WorkerId, used: &WorkerUse) -> u64 {
        let devices: Vec<FreeCapacity<'_>> =
            used.devices().map(|(_, info, used)| FreeCapacity::of(info, used)).collect();
        let all: u64 = devices.iter().map(|d| d.share).sum();
        if all == 0 {
            return 0;
        }
        self.classes.iter().map(|class| class.count * class.unusable(id, used, &devices, all)).sum()
    }
}

/// Free capacity of a worker's devices, in millionths of a device.
pub(crate) fn free(used: &WorkerUse) -> u64 {
    used.devices().map(|(_, info, used)| FreeCapacity::of(info, used).share).sum()
}

/// Free capacity of a device.
struct FreeCapacity<'a> {
    info: &'a DeviceInfo,
    bytes: u64,
    /// Fraction of the device, in millionths.
    share: u64,
    idle: bool,
}

impl<'a> FreeCapacity<'a> {
    fn of(info: &'a DeviceInfo, used: DeviceUse) -> FreeCapacity<'a> {
        let usable = info.state == DeviceState::Usable && !used.is_whole() && used.has_slot(info);
        let bytes = if usable { info.budget.saturating_sub(used.shared_bytes()) } else { 0 };
        let share =
            (u128::from(bytes) * u128::from(Resources::DEVICE) / u128::from(info.budget.max(1))) as u64;
        FreeCapacity { info, bytes, share, idle: usable && used.attempts() == 0 }
    }

    fn takes(&self, needs: &Needs) -> bool {
        match needs.gpu_memory {
            None => self.idle,
            Some(bytes) if bytes <= self.info.budget => self.bytes >= bytes && self.share > 0,
            Some(bytes) => bytes <= self.info.memory && self.idle,
        }
    }
}

impl TaskClass {
    fn unusable(&self, worker: WorkerId, used: &WorkerUse, devices: &[FreeCapacity<'_>], all: u64) -> u64 {
        let needs = &self.needs;
        if needs.gpus == 0 || !used.host_admits(needs.cpus, needs.memory) {
            return all;
        }
        let (mut lost, mut taking) = (0, 0);
        for (index, device) in (0..).zip(devices) {
            let suits = || acceptable(needs, DeviceId { worker, index }, device.info);
            if device.takes(needs) && (!self.particular || suits()) {
                taking += 1;
            } else {
                lost += device.share;
            }
        }
        if taking >= needs.gpus { lost } else { all }
    }
}
