//! Device pool: devices, CPUs and memory of all workers, and what is allocated of them.
//!
//! [`Pool`] is part of the state, changed only by [`Cluster::apply`](crate::Cluster::apply). [`Ledger`] is an overlay
//! on which a plan tries allocations; it copies a worker only when it changes it.

mod ledger;

pub use ledger::Ledger;

use crate::bitset::Bitset;
use crate::ids::{DeviceId, WorkerId};
use crate::spec::{Needs, WaitMode};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Description of a device, as its worker gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Globally unique device name of the driver.
    pub uuid: String,
    /// Device type that users ask for, such as `V100`.
    pub kind: String,
    /// Physical memory in bytes.
    pub memory: u64,
    /// Memory in bytes that may be allocated to tasks that share the device.
    pub budget: u64,
    /// Limit on the number of tasks that share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Whether it accepts more tasks than fit (overcommit).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overcommit: bool,
    /// State: whether anything may start on it.
    #[serde(default)]
    pub state: DeviceState,
}

/// Number of steps in which a device's memory is charged for use beyond the request. Coarse, so that small
/// fluctuations of an allocator cause no events.
const CHARGE_STEPS: u64 = 64;

impl DeviceInfo {
    /// New charge for a shared attempt that uses `used` bytes, if it differs from the current one: the larger of
    /// requested and used memory, the latter rounded up to whole steps.
    ///
    /// A charge grows at once. It shrinks only by more than one step, or back to the request, so that usage around
    /// the edge of a step causes no oscillation.
    pub(crate) fn recharge(&self, requested: u64, charged: u64, used: u64) -> Option<u64> {
        let step = (self.memory / CHARGE_STEPS).max(1);
        let larger = match used <= requested {
            true => requested,
            false => used.div_ceil(step).saturating_mul(step).min(self.memory).max(requested),
        };
        let shrinks = larger == requested || charged.saturating_sub(larger) > step;
        (larger > charged || (larger < charged && shrinks)).then_some(larger)
    }
}

/// State of a device: whether anything may start on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    /// Usable.
    #[default]
    Usable,
    /// A process that belongs to no task uses it.
    Foreign,
    /// The driver no longer reports it.
    Gone,
}

/// Charge: how much of a device an attempt is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// The whole device.
    Whole,
    /// This many bytes of its memory, shared with other tasks.
    Share(u64),
    /// The whole device, co-located with one other attempt that is charged in the same way: two profiles that may be
    /// co-located.
    Beside,
}

/// Number of tasks that may be co-located on whole devices.
const BESIDE_EACH_OTHER: u32 = 2;

/// Placement: where an attempt runs and what it is allocated there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Worker.
    pub worker: WorkerId,
    /// Devices of the worker by index, each with its charge.
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    pub devices: SmallVec<[(u16, Charge); 2]>,
    /// CPUs in thousandths of a core.
    #[serde(default)]
    pub cpus: u32,
    /// Main memory in bytes.
    #[serde(default)]
    pub memory: u64,
}

impl Placement {
    /// Ids of the devices.
    pub fn device_ids(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.devices.iter().map(|&(index, _)| DeviceId { worker: self.worker, index })
    }
}

/// Amounts of devices, CPUs and memory: a capacity or an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Millionths of a device.
    pub devices: u64,
    /// CPUs in thousandths of a core.
    pub cpus: u64,
    /// Main memory in bytes.
    pub memory: u64,
}

impl Resources {
    /// One device.
    pub const DEVICE: u64 = 1_000_000;

    /// Resources of a placement: a shared device counts with the share of its memory, a co-located one with its half.
    pub fn of(pool: &Pool, p: &Placement) -> Resources {
        let infos = pool.worker(p.worker).map(|w| &w.infos[..]).unwrap_or_default();
        let share = |&(index, charge): &(u16, Charge)| match charge {
            Charge::Whole => Resources::DEVICE,
            Charge::Beside => Resources::DEVICE / u64::from(BESIDE_EACH_OTHER),
            Charge::Share(bytes) => infos.get(usize::from(index)).map_or(0, |info| part(bytes, info.memory)),
        };
        let devices = p.devices.iter().map(share).sum();
        Resources { devices, cpus: u64::from(p.cpus), memory: p.memory }
    }

    /// Resources of a request, on the smallest devices there are.
    pub fn requested(pool: &Pool, needs: &Needs) -> Resources {
        let each = needs.gpu_memory.map_or(Resources::DEVICE, |bytes| part(bytes, pool.smallest));
        Resources { devices: u64::from(needs.gpus) * each, cpus: u64::from(needs.cpus), memory: needs.memory }
    }

    /// Dominant share: the largest fraction of a total over all resources (DRF).
    pub fn dominant(self, of: Resources) -> f64 {
        let part = |mine: u64, all: u64| if all == 0 { 0.0 } else { mine as f64 / all as f64 };
        part(self.devices, of.devices).max(part(self.cpus, of.cpus)).max(part(self.memory, of.memory))
    }
}

fn part(bytes: u64, memory: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(Resources::DEVICE) / u128::from(memory.max(1));
    part.min(u128::from(Resources::DEVICE)) as u64
}

impl std::ops::AddAssign for Resources {
    fn add_assign(&mut self, other: Resources) {
        self.devices += other.devices;
        self.cpus += other.cpus;
        self.memory += other.memory;
    }
}

impl std::ops::SubAssign for Resources {
    fn sub_assign(&mut self, other: Resources) {
        self.devices -= other.devices;
        self.cpus -= other.cpus;
        self.memory -= other.memory;
    }
}

/// Allocations on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    whole: u32,
    beside: u32,
    shares: u32,
    paused: u32,
    bytes: u64,
}

impl DeviceUse {
    /// Number of attempts on it, paused ones included.
    pub fn attempts(self) -> u32 {
        self.whole + self.beside + self.shares
    }

    /// Bytes allocated to sharing tasks.
    pub fn shared_bytes(self) -> u64 {
        self.bytes
    }

    /// Whether it is allocated whole, to one task or to two co-located ones.
    pub fn is_whole(self) -> bool {
        self.whole + self.beside > 0
    }

    /// Whether one more task may share it, apart from memory. Paused attempts have no slot.
    pub(crate) fn has_slot(self, info: &DeviceInfo) -> bool {
        info.limit.is_none_or(|limit| self.shares - self.paused < u32::from(limit))
    }

    fn admits(self, info: &DeviceInfo, charge: Charge) -> bool {
        if info.state != DeviceState::Usable {
            return false;
        }
        if info.overcommit {
            return true;
        }
        match charge {
            Charge::Whole => self.attempts() == 0,
            Charge::Beside => self.whole + self.shares == 0 && self.beside < BESIDE_EACH_OTHER,
            Charge::Share(bytes) => {
                !self.is_whole()
                    && self.bytes.checked_add(bytes).is_some_and(|sum| sum <= info.budget)
                    && self.has_slot(info)
            }
        }
    }

    fn charge(&mut self, charge: Charge) {
        match charge {
            Charge::Whole => self.whole += 1,
            Charge::Beside => self.beside += 1,
            Charge::Share(bytes) => {
                self.shares += 1;
                self.bytes += bytes;
            }
        }
    }

    fn release(&mut self, charge: Charge) {
        match charge {
            Charge::Whole => self.whole = self.whole.checked_sub(1).expect("a device is freed once"),
            Charge::Beside => self.beside = self.beside.checked_sub(1).expect("a device is freed once"),
            Charge::Share(bytes) => {
                self.shares = self.shares.checked_sub(1).expect("a share is freed once");
                self.bytes = self.bytes.checked_sub(bytes).expect("no more is freed than was given");
            }
        }
    }
}

/// Devices, CPUs and memory of a worker, and what is allocated of them.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerUse {
    infos: Arc<[DeviceInfo]>,
    uses: Vec<DeviceUse>,
    cpus: u32,
    cpus_used: u32,
    memory: u64,
    memory_used: u64,
    open: bool,
    /// Number of devices that could be allocated whole.
    idle: usize,
}

impl WorkerUse {
    /// Devices and the allocations on each.
    pub fn devices(&self) -> impl Iterator<Item = (u16, &DeviceInfo, DeviceUse)> + '_ {
        self.infos.iter().zip(&self.uses).enumerate().map(|(i, (info, &used))| (i as u16, info, used))
    }

    /// Number of devices that could be allocated whole.
    pub fn idle_devices(&self) -> usize {
        self.idle
    }

    /// Whether new attempts may start here: online and not drained.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// CPUs in thousandths of a core.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Main memory in bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Free CPUs in thousandths of a core.
    pub fn cpus_free(&self) -> u32 {
        self.cpus.saturating_sub(self.cpus_used)
    }

    /// Free main memory in bytes.
    pub fn memory_free(&self) -> u64 {
        self.memory.saturating_sub(self.memory_used)
    }

    /// Whether a device accepts one more such charge.
    pub fn device_admits(&self, index: u16, charge: Charge) -> bool {
        let at = usize::from(index);
        self.infos.get(at).is_some_and(|info| self.uses[at].admits(info, charge))
    }

    /// Whether enough CPUs and main memory are free.
    pub fn host_admits(&self, cpus: u32, memory: u64) -> bool {
        self.open && self.cpus_free() >= cpus && self.memory_free() >= memory
    }

    /// Whether a whole placement fits.
    pub fn admits(&self, p: &Placement) -> bool {
        self.host_admits(p.cpus, p.memory) && p.devices.iter().all(|&(i, c)| self.device_admits(i, c))
    }

    /// Whether anything is allocated on a device, or it does not exist.
    pub fn is_given(&self, index: u16) -> bool {
        self.uses.get(usize::from(index)).is_none_or(|used| *used != DeviceUse::default())
    }

    pub(crate) fn charge(&mut self, p: &Placement) {
        self.cpus_used += p.cpus;
        self.memory_used += p.memory;
        for &(i, c) in &p.devices {
            self.change(i, |used| used.charge(c));
        }
    }

    fn release(&mut self, p: &Placement) {
        self.cpus_used = self.cpus_used.checked_sub(p.cpus).expect("processors are freed once");
        self.memory_used = self.memory_used.checked_sub(p.memory).expect("memory is freed once");
        for &(i, c) in &p.devices {
            self.change(i, |used| used.release(c));
        }
    }

    fn pause(&mut self, p: &Placement) {
        for &(i, _) in shares(p) {
            self.uses[usize::from(i)].paused += 1;
        }
    }

    fn resume(&mut self, p: &Placement) {
        for &(i, _) in shares(p) {
            let used = &mut self.uses[usize::from(i)];
            used.paused = used.paused.checked_sub(1).expect("only a paused attempt goes on");
        }
    }

    /// Whether a paused attempt could have its slot on its devices back.
    fn admits_resumed(&self, p: &Placement) -> bool {
        shares(p).all(|&(i, _)| {
            let (info, used) = (&self.infos[usize::from(i)], self.uses[usize::from(i)]);
            info.overcommit || used.has_slot(info)
        })
    }

    fn change(&mut self, index: u16, change: impl FnOnce(&mut DeviceUse)) {
        let at = usize::from(index);
        let (info, used) = (&self.infos[at], &mut self.uses[at]);
        self.idle -= usize::from(used.admits(info, Charge::Whole));
        change(used);
        self.idle += usize::from(used.admits(info, Charge::Whole));
    }

    fn count_idle(&mut self) {
        let idle = self.devices().filter(|(_, info, used)| used.admits(info, Charge::Whole));
        self.idle = idle.count();
    }

    fn has_spare_device(&self) -> bool {
        self.open && self.devices().any(|(_, info, used)| used.admits(info, Charge::Share(0)))
    }
}

/// Shared devices of a placement.
fn shares(p: &Placement) -> impl Iterator<Item = &(u16, Charge)> {
    p.devices.iter().filter(|(_, charge)| matches!(charge, Charge::Share(_)))
}

/// Whether a task may use a device at all, by type, worker and scope, whatever is allocated on it now.
pub fn acceptable(needs: &Needs, id: DeviceId, info: &DeviceInfo) -> bool {
    let kind =
        needs.gpu_types.is_empty() || needs.gpu_types.iter().any(|t| t.eq_ignore_ascii_case(&info.kind));
    kind && needs.accepts_worker(id.worker)
        && (needs.scope.is_empty() || needs.scope.contains(&id))
        && !waits_for_others(needs, id)
}

/// Whether a task waits for preferred devices of which this is not one.
fn waits_for_others(needs: &Needs, id: DeviceId) -> bool {
    needs.wait_mode == WaitMode::Queue && !needs.preferred.is_empty() && !needs.preferred.contains(&id)
}

/// Charge of a device for a task; none if the device can never hold it.
///
/// A request between the device's budget and its physical memory is charged the whole device.
pub fn charge_for(info: &DeviceInfo, needs: &Needs) -> Option<Charge> {
    match needs.gpu_memory {
        None => Some(Charge::Whole),
        Some(bytes) if bytes <= info.budget => Some(Charge::Share(bytes)),
        Some(bytes) if bytes <= info.memory => Some(Charge::Whole),
        Some(_) => None,
    }
}

/// Pool: all workers and what is allocated of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    workers: Vec<WorkerUse>,
    /// Index: workers on which some device could take at least a small share; where a search for shares starts.
    spare: Bitset,
    /// Index: workers by their number of idle devices; where a search for whole devices starts.
    idle: Vec<Bitset>,
    /// Entry of each worker in these two indexes.
    entered: Vec<IndexEntry>,
    /// Memory of the smallest device.
    smallest: u64,
    /// Total capacity.
    total: Resources,
}

/// Entry of a worker in the search indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct IndexEntry {
    spare: bool,
    idle: Option<usize>,
}

impl Pool {
    pub(crate) fn describe(
        &mut self,
        id: WorkerId,
        infos: &[DeviceInfo],
        cpus: u32,
        memory: u64,
        open: bool,
    ) {
        let at = id.0 as usize;
        assert!(at <= self.workers.len(), "workers are numbered without gaps");
        let fresh = WorkerUse {
            infos: infos.into(),
            uses: vec![DeviceUse::default(); infos.len()],
            cpus,
            cpus_used: 0,
            memory,
            memory_used: 0,
            open,
            idle: 0,
        };
        if at == self.workers.len() {
            self.workers.push(fresh);
        } else {
            let old = &mut self.workers[at];
            assert!(old.uses.len() <= infos.len(), "a device known once keeps its index");
            let mut uses = std::mem::take(&mut old.uses);
            uses.resize(infos.len(), DeviceUse::default());
            *old = WorkerUse { uses, cpus_used: old.cpus_used, memory_used: old.memory_used, ..fresh };
        }
        self.workers[at].count_idle();
        self.entered.resize(self.workers.len(), IndexEntry::default());
        let counts = self.idle.len().max(infos.len() + 1);
        self.idle.resize_with(counts, Bitset::default);
        let devices = self.workers.iter().flat_map(|w| w.infos.iter());
        self.smallest = devices.clone().map(|d| d.memory).min().unwrap_or(0);
        self.total = Resources {
            devices: devices.count() as u64 * Resources::DEVICE,
            cpus: self.workers.iter().map(|w| u64::from(w.cpus)).sum(),
            memory: self.workers.iter().map(|w| w.memory).sum(),
        };
        self.refresh(id);
    }

    pub(crate) fn charge(&mut self, p: &Placement) {
        self.workers[p.worker.0 as usize].charge(p);
        self.refresh(p.worker);
    }

    pub(crate) fn release(&mut self, p: &Placement, paused: bool) {
        if paused {
            self.resume(p);
        }
        self.workers[p.worker.0 as usize].release(p);
        self.refresh(p.worker);
    }

    /// Changes the charge of a device share.
    pub(crate) fn recharge(&mut self, device: DeviceId, from: Charge, to: Charge) {
        self.workers[device.worker.0 as usize].change(device.index, |used| {
            used.release(from);
            used.charge(to);
        });
        self.refresh(device.worker);
    }

    /// Releases without checking that it was allocated: the injected bug.
    #[cfg(feature = "bugs")]
    pub(crate) fn release_carelessly(&mut self, p: &Placement) {
        let worker = &mut self.workers[p.worker.0 as usize];
        worker.cpus_used = worker.cpus_used.saturating_sub(p.cpus);
        worker.memory_used = worker.memory_used.saturating_sub(p.memory);
        for &(index, charge) in &p.devices {
            worker.change(index, |used| match charge {
                Charge::Whole => used.whole = used.whole.saturating_sub(1),
                Charge::Beside => used.beside = used.beside.saturating_sub(1),
                Charge::Share(bytes) => {
                    used.shares = used.shares.saturating_sub(1);
                    used.bytes = used.bytes.saturating_sub(bytes);
                }
            });
        }
        self.refresh(p.worker);
    }

    /// Pauses an attempt: it keeps its memory, but not its slot on its devices.
    pub(crate) fn pause(&mut self, p: &Placement) {
        self.workers[p.worker.0 as usize].pause(p);
        self.refresh(p.worker);
    }

    pub(crate) fn resume(&mut self, p: &Placement) {
        self.workers[p.worker.0 as usize].resume(p);
        self.refresh(p.worker);
    }

    fn refresh(&mut self, id: WorkerId) {
        let worker = &self.workers[id.0 as usize];
        let idle = (worker.open && worker.idle > 0).then_some(worker.idle);
        // A device that could be allocated whole could also be shared.
        let entered = IndexEntry { spare: idle.is_some() || worker.has_spare_device(), idle };
        let was = std::mem::replace(&mut self.entered[id.0 as usize], entered);
        match (was.spare, entered.spare) {
            (false, true) => self.spare.insert(id.0),
            (true, false) => self.spare.remove(id.0),
            _ => {}
        }
        if was.idle != idle {
            was.idle.into_iter().for_each(|n| self.idle[n].remove(id.0));
            idle.into_iter().for_each(|n| self.idle[n].insert(id.0));
        }
    }

    /// Memory of the smallest device.
    pub fn smallest_memory(&self) -> u64 {
        self.smallest
    }

    /// Total capacity, allocated or not.
    pub fn total(&self) -> Resources {
        self.total
    }

    /// All workers, by id.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &WorkerUse)> + '_ {
        self.workers.iter().enumerate().map(|(i, w)| (WorkerId(i as u32), w))
    }

    /// Worker with this id.
    pub fn worker(&self, id: WorkerId) -> Option<&WorkerUse> {
        self.workers.get(id.0 as usize)
    }
}
