//! Cheapest machines of every task, found in the same pass that sums its costs. With uniform links a task is ready
//! everywhere at once except on one machine, so the cheapest machines are the ones to probe, and the row of costs is
//! seldom read again.

use std::array::from_fn;
use std::ops::Range;

use super::{MachineBias, prefetch};
use crate::instance::Instance;
use crate::multiversion::multiversioned;
use crate::rank::sum;

/// SIMD lanes; machine `m` is in lane `m % LANES`, and each lane keeps its two cheapest machines.
const LANES: usize = 8;

/// Keys of the cheapest machines of one task that are not probed yet: two per lane, sorted.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineKeys {
    first: [f64; LANES],
    second: [f64; LANES],
}

impl MachineKeys {
    /// Number of keys.
    pub(super) const COUNT: usize = 2 * LANES;

    /// Least key.
    #[inline(always)]
    pub(super) fn least(&self) -> f64 {
        least_of(self.first)
    }

    /// Removes the least key of the lane of `machine`.
    #[inline(always)]
    pub(super) fn take(&mut self, machine: usize) {
        let lane = machine % LANES;
        self.first[lane] = std::mem::replace(&mut self.second[lane], f64::INFINITY);
    }
}

/// What a scan over the costs finds.
#[derive(Clone, Copy)]
enum ScanTarget<'a> {
    Costs,
    Biased(&'a MachineBias<'a>),
    /// Sums only, no keys.
    Sums,
}

/// Per task the keys of the two cheapest machines of each lane, a lower bound on the cost of all others, and the sum
/// of costs.
///
/// A key is a cost whose lowest bits are replaced by the machine index: it sorts as the cost does, and without those
/// bits it is a lower bound of the cost.
#[derive(Debug, Clone)]
pub(crate) struct CheapestMachines {
    /// Keys of the first half of the tasks and of the second, as two threads produced them: concatenating would take
    /// as long as part of the scan.
    keys: [Vec<MachineKeys>; 2],
    unlisted_bound: Vec<f64>,
    sums: Vec<f64>,
    index_bits: u64,
    exact: bool,
}

impl CheapestMachines {
    /// Machines of least cost.
    pub(crate) fn new(instance: &Instance) -> Self {
        Self::of(instance, ScanTarget::Costs)
    }

    /// Machines of least cost plus bias.
    pub(crate) fn biased(instance: &Instance, bias: &MachineBias<'_>) -> Self {
        Self::of(instance, ScanTarget::Biased(bias))
    }

    /// What insertion without a bias needs: with links per pair only the sums.
    pub(crate) fn for_insertion(instance: &Instance) -> Self {
        Self::of(instance, if instance.has_uniform_links() { ScanTarget::Costs } else { ScanTarget::Sums })
    }

    fn of(instance: &Instance, target: ScanTarget<'_>) -> Self {
        /// Cost entries from which a second thread pays for its start.
        const PARALLEL_COSTS: usize = 1 << 22;
        let tasks = instance.tasks();
        if instance.cost_matrix().len() < PARALLEL_COSTS {
            return Self::of_tasks(instance, target, 0..tasks);
        }
        let (mut found, second) = std::thread::scope(|scope| {
            let later = scope.spawn(|| Self::of_tasks(instance, target, tasks / 2..tasks));
            (Self::of_tasks(instance, target, 0..tasks / 2), later.join())
        });
        match second {
            Ok(second) => found.append(second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        found
    }

    fn of_tasks(instance: &Instance, target: ScanTarget<'_>, tasks: Range<usize>) -> Self {
        let p = instance.machines();
        if let ScanTarget::Sums = target {
            let mut found = Self::empty(0, p);
            found.sums.extend(tasks.map(|task| sum(instance.costs(task))));
            return found;
        }
        let indices: Vec<u64> = (0..p as u64).collect();
        let mut found = Self::empty(tasks.len(), p);
        let mut row = vec![0.0; p];
        for task in tasks {
            match target {
                ScanTarget::Costs | ScanTarget::Sums => found.add(instance.costs(task), &indices),
                ScanTarget::Biased(bias) => {
                    bias.fill_cost_and_bias(instance, task, &mut row);
                    found.add(&row, &indices);
                }
            }
        }
        found
    }

    /// Appends the results of the second half; called once.
    fn append(&mut self, mut second: Self) {
        let [later_keys, _] = &mut second.keys;
        self.keys[1] = std::mem::take(later_keys);
        self.unlisted_bound.append(&mut second.unlisted_bound);
        self.sums.append(&mut second.sums);
        self.exact &= second.exact;
    }

    fn empty(tasks: usize, p: usize) -> Self {
        Self {
            keys: [Vec::with_capacity(tasks), Vec::new()],
            unlisted_bound: Vec::with_capacity(tasks),
            sums: Vec::with_capacity(tasks),
            index_bits: p.next_power_of_two() as u64 - 1,
            exact: true,
        }
    }

    #[inline]
    fn add(&mut self, row: &[f64], indices: &[u64]) {
        let scanned = scan_row(row, indices, self.index_bits);
        self.keys[0].push(scanned.keys);
        self.unlisted_bound.push(scanned.unlisted_bound);
        self.sums.push(scanned.sum);
        self.exact &= scanned.exact;
    }

    /// Sum over all machines of each task's costs.
    pub(crate) fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// Cheapest machine of a task, and a lower bound of its cost there.
    #[inline]
    pub(crate) fn cheapest_machine(&self, task: usize) -> (usize, f64) {
        self.decode(self.keys(task).least())
    }

    /// Prefetches the keys of a task, if there are any.
    #[inline]
    pub(super) fn prefetch(&self, task: usize) {
        let (half, at) = self.location(task);
        prefetch(self.keys[half].get(at..=at).unwrap_or_default());
    }

    #[inline]
    pub(super) fn keys(&self, task: usize) -> &MachineKeys {
        let (half, at) = self.location(task);
        &self.keys[half][at]
    }

    /// Half and index of a task's keys.
    #[inline(always)]
    fn location(&self, task: usize) -> (usize, usize) {
        let first = self.keys[0].len();
        let half = usize::from(task >= first);
        (half, task - half * first)
    }

    /// Lower bound on the cost of every machine without a key.
    #[inline]
    pub(super) fn unlisted_bound(&self, task: usize) -> f64 {
        self.unlisted_bound[task]
    }

    /// Whether keys carry the exact cost: true for integers that are not huge, whose lowest mantissa bits are 0.
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Machine of a key, and a lower bound of its cost.
    #[inline]
    pub(super) fn decode(&self, key: f64) -> (usize, f64) {
        let bits = key.to_bits();
        ((bits & self.index_bits) as usize, f64::from_bits(bits & !self.index_bits))
    }
}

/// Result of one pass over a row.
struct Scan {
    keys: MachineKeys,
    unlisted_bound: f64,
    sum: f64,
    exact: bool,
}

multiversioned! {
    fn scan_row(row: &[f64], indices: &[u64], index_bits: u64) -> Scan = scan_row_scalar
}

/// Two least keys of each lane, the least cost of all other machines, and the sum of the row.
#[inline(always)]
fn scan_row_scalar(row: &[f64], indices: &[u64], index_bits: u64) -> Scan {
    let mut lanes = Lanes::EMPTY;
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (index_rows, index_rest) = indices.as_chunks::<LANES>();
    for (costs, indices) in rows.iter().zip(index_rows) {
        lanes = lanes.with(*costs, *indices, index_bits);
    }
    // The last, partial chunk is padded with infinite costs, which never become keys. It must not reach the sum.
    let mut costs = [f64::INFINITY; LANES];
    costs[..row_rest.len()].copy_from_slice(row_rest);
    let mut indices = [0; LANES];
    indices[..index_rest.len()].copy_from_slice(index_rest);
    let sum = lanes.sums.iter().chain(row_rest).sum();
    let bits = lanes.bits.iter().fold(0, |a, b| a | b) | row_rest.iter().fold(0, |a, b| a | b.to_bits());
    let lanes = lanes.with(costs, indices, index_bits);
    // The third least of each lane bounds all its machines without a key.
    let unlisted_bound = f64::from_bits(least_of(lanes.third).to_bits() & !index_bits);
    Scan { keys: lanes.keys, unlisted_bound, sum, exact: bits & index_bits == 0 }
}

/// Running state of a scan, one entry per lane.
#[derive(Clone, Copy)]
struct Lanes {
    keys: MachineKeys,
    third: [f64; LANES],
    sums: [f64; LANES],
    /// Union of all cost bits: shows whether keys are exact.
    bits: [u64; LANES],
}

impl Lanes {
    const EMPTY: Self = Self {
        keys: MachineKeys { first: [f64::INFINITY; LANES], second: [f64::INFINITY; LANES] },
        third: [f64::INFINITY; LANES],
        sums: [0.0; LANES],
        bits: [0; LANES],
    };

    /// Inserts one cost per lane. Whole arrays at a time, which compilers turn into SIMD registers.
    #[inline(always)]
    fn with(self, costs: [f64; LANES], indices: [u64; LANES], index_bits: u64) -> Self {
        let Self { keys: MachineKeys { first, second }, third, sums, bits } = self;
        // A branch-free insertion into the sorted triple: what does not become first competes for second, then for
        // third.
        let key: [f64; LANES] = from_fn(|i| f64::from_bits((costs[i].to_bits() & !index_bits) | indices[i]));
        let above_first: [f64; LANES] = from_fn(|i| max(first[i], key[i]));
        let above_second: [f64; LANES] = from_fn(|i| max(second[i], above_first[i]));
        Self {
            keys: MachineKeys {
                first: from_fn(|i| min(first[i], key[i])),
                second: from_fn(|i| min(second[i], above_first[i])),
            },
            third: from_fn(|i| min(third[i], above_second[i])),
            sums: from_fn(|i| sums[i] + costs[i]),
            bits: from_fn(|i| bits[i] | costs[i].to_bits()),
        }
    }
}

/// Minimum over the lanes by halving, which vectorises better than a sequential pass.
#[inline(always)]
fn least_of(mut lanes: [f64; LANES]) -> f64 {
    for half in [4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = min(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

#[inline(always)]
fn min(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

#[inline(always)]
fn max(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}
