//! The cheapest machines of every task, found in the same pass that adds up its costs. With uniform links a task is
//! ready everywhere at once (but for one machine), so the cheapest machines are the ones to look at, and the row of
//! costs itself is seldom read again.

use std::array::from_fn;
use std::ops::Range;

use super::{Lean, prefetch};
use crate::instance::Instance;
use crate::rank::sum;
use crate::wide::widened;

/// Machines are dealt out to this many lanes, like cards; each lane names its two cheapest.
const LANES: usize = 8;

/// The cheapest machines of one task that are still to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    first: [f64; LANES],
    second: [f64; LANES],
}

impl Keys {
    /// So many machines have keys.
    pub(super) const MOST: usize = 2 * LANES;

    /// The least key.
    #[inline(always)]
    pub(super) fn least(&self) -> f64 {
        least_of(self.first)
    }

    /// Leaves out the least key of the lane that `machine` is in.
    #[inline(always)]
    pub(super) fn pass(&mut self, machine: usize) {
        let lane = machine % LANES;
        self.first[lane] = std::mem::replace(&mut self.second[lane], f64::INFINITY);
    }
}

/// What to find.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Costs,
    Leaning(&'a Lean<'a>),
    /// No machines at all.
    Sums,
}

/// Per task the two cheapest machines of each lane, and what all machines not named cost at least.
///
/// A key is a cost whose lowest bits are replaced by the machine's index: it sorts as the cost does, and without
/// those bits it is a lower bound of the cost.
#[derive(Debug, Clone)]
pub(crate) struct Cheapest {
    /// Of the first tasks and of all others, as they were found: they are large, and to join them would take as long
    /// as to find some.
    keys: [Vec<Keys>; 2],
    rest: Vec<f64>,
    sums: Vec<f64>,
    index_bits: u64,
    exact: bool,
}

impl Cheapest {
    /// The machines where a task costs least.
    pub(crate) fn new(instance: &Instance) -> Self {
        Self::of(instance, Wanted::Costs)
    }

    /// The machines where a task costs least, leaning included.
    pub(crate) fn leaning(instance: &Instance, lean: &Lean<'_>) -> Self {
        Self::of(instance, Wanted::Leaning(lean))
    }

    /// What placing without a leaning needs: where links differ, no more than the sums.
    pub(crate) fn for_placing(instance: &Instance) -> Self {
        Self::of(instance, if instance.has_uniform_links() { Wanted::Costs } else { Wanted::Sums })
    }

    fn of(instance: &Instance, wanted: Wanted<'_>) -> Self {
        /// From so many costs on a second thread is worth starting.
        const MANY: usize = 1 << 22;
        let tasks = instance.tasks();
        if instance.cost_matrix().len() < MANY {
            return Self::of_tasks(instance, wanted, 0..tasks);
        }
        let (mut found, rest) = std::thread::scope(|scope| {
            let back = scope.spawn(|| Self::of_tasks(instance, wanted, tasks / 2..tasks));
            (Self::of_tasks(instance, wanted, 0..tasks / 2), back.join())
        });
        match rest {
            Ok(rest) => found.append(rest),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        found
    }

    fn of_tasks(instance: &Instance, wanted: Wanted<'_>, tasks: Range<usize>) -> Self {
        let p = instance.machines();
        if let Wanted::Sums = wanted {
            let mut found = Self::empty(0, p);
            found.sums.extend(tasks.map(|task| sum(instance.costs(task))));
            return found;
        }
        let indices: Vec<u64> = (0..p as u64).collect();
        let mut found = Self::empty(tasks.len(), p);
        let mut row = vec![0.0; p];
        for task in tasks {
            match wanted {
                Wanted::Costs | Wanted::Sums => found.add(instance.costs(task), &indices),
                Wanted::Leaning(lean) => {
                    lean.cost_and_bias(instance, task, &mut row);
                    found.add(&row, &indices);
                }
            }
        }
        found
    }

    /// Takes over what was found of the tasks that follow; once.
    fn append(&mut self, mut rest: Self) {
        let [following, _] = &mut rest.keys;
        self.keys[1] = std::mem::take(following);
        self.rest.append(&mut rest.rest);
        self.sums.append(&mut rest.sums);
        self.exact &= rest.exact;
    }

    fn empty(tasks: usize, p: usize) -> Self {
        Self {
            keys: [Vec::with_capacity(tasks), Vec::new()],
            rest: Vec::with_capacity(tasks),
            sums: Vec::with_capacity(tasks),
            index_bits: p.next_power_of_two() as u64 - 1,
            exact: true,
        }
    }

    #[inline]
    fn add(&mut self, row: &[f64], indices: &[u64]) {
        let scanned = scan_best(row, indices, self.index_bits);
        self.keys[0].push(scanned.keys);
        self.rest.push(scanned.rest);
        self.sums.push(scanned.sum);
        self.exact &= scanned.exact;
    }

    /// Each task's costs added up over the machines.
    pub(crate) fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// The cheapest machine of a task, and the least it can cost there.
    #[inline]
    pub(crate) fn first(&self, task: usize) -> (usize, f64) {
        self.read(self.keys(task).least())
    }

    /// Asks for the keys of a task, if there are any.
    #[inline]
    pub(super) fn prefetch(&self, task: usize) {
        let (half, at) = self.place(task);
        prefetch(self.keys[half].get(at..=at).unwrap_or_default());
    }

    #[inline]
    pub(super) fn keys(&self, task: usize) -> &Keys {
        let (half, at) = self.place(task);
        &self.keys[half][at]
    }

    /// Where the keys of a task are.
    #[inline(always)]
    fn place(&self, task: usize) -> (usize, usize) {
        let first = self.keys[0].len();
        let half = usize::from(task >= first);
        (half, task - half * first)
    }

    /// What every machine that no key names costs at least.
    #[inline]
    pub(super) fn rest(&self, task: usize) -> f64 {
        self.rest[task]
    }

    /// Whether keys name the cost itself: true of whole numbers that are not huge.
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// The machine a key names, and the least it can cost.
    #[inline]
    pub(super) fn read(&self, key: f64) -> (usize, f64) {
        let bits = key.to_bits();
        ((bits & self.index_bits) as usize, f64::from_bits(bits & !self.index_bits))
    }
}

/// What one pass over a row finds.
struct Scan {
    keys: Keys,
    rest: f64,
    sum: f64,
    exact: bool,
}

widened! {
    fn scan_best(row: &[f64], indices: &[u64], index_bits: u64) -> Scan = scan
}

/// The two least keys of each lane, the least cost of all others, and the sum of the row.
#[inline(always)]
fn scan(row: &[f64], indices: &[u64], index_bits: u64) -> Scan {
    let mut lanes = Lanes::EMPTY;
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (index_rows, index_rest) = indices.as_chunks::<LANES>();
    for (costs, indices) in rows.iter().zip(index_rows) {
        lanes = lanes.with(*costs, *indices, index_bits);
    }
    let mut costs = [f64::INFINITY; LANES];
    costs[..row_rest.len()].copy_from_slice(row_rest);
    let mut indices = [0; LANES];
    indices[..index_rest.len()].copy_from_slice(index_rest);
    let sum = lanes.sums.iter().chain(row_rest).sum();
    let bits = lanes.bits.iter().fold(0, |a, b| a | b) | row_rest.iter().fold(0, |a, b| a | b.to_bits());
    let lanes = lanes.with(costs, indices, index_bits);
    let rest = f64::from_bits(least_of(lanes.third).to_bits() & !index_bits);
    Scan { keys: lanes.keys, rest, sum, exact: bits & index_bits == 0 }
}

/// A scan under way.
#[derive(Clone, Copy)]
struct Lanes {
    keys: Keys,
    third: [f64; LANES],
    sums: [f64; LANES],
    /// All bits that occur.
    bits: [u64; LANES],
}

impl Lanes {
    const EMPTY: Self = Self {
        keys: Keys { first: [f64::INFINITY; LANES], second: [f64::INFINITY; LANES] },
        third: [f64::INFINITY; LANES],
        sums: [0.0; LANES],
        bits: [0; LANES],
    };

    /// Whole arrays at a time: compilers turn that into wide registers.
    #[inline(always)]
    fn with(self, costs: [f64; LANES], indices: [u64; LANES], index_bits: u64) -> Self {
        let Self { keys: Keys { first, second }, third, sums, bits } = self;
        let key: [f64; LANES] = from_fn(|i| f64::from_bits((costs[i].to_bits() & !index_bits) | indices[i]));
        let beside_first: [f64; LANES] = from_fn(|i| more(first[i], key[i]));
        let beside_second: [f64; LANES] = from_fn(|i| more(second[i], beside_first[i]));
        Self {
            keys: Keys {
                first: from_fn(|i| less(first[i], key[i])),
                second: from_fn(|i| less(second[i], beside_first[i])),
            },
            third: from_fn(|i| less(third[i], beside_second[i])),
            sums: from_fn(|i| sums[i] + costs[i]),
            bits: from_fn(|i| bits[i] | costs[i].to_bits()),
        }
    }
}

/// Halves the lanes until one is left, which is faster than going along them.
#[inline(always)]
fn least_of(mut lanes: [f64; LANES]) -> f64 {
    for half in [4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = less(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

#[inline(always)]
fn less(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

#[inline(always)]
fn more(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}
