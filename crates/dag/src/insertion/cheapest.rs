//! The cheapest machines of every task, found in the same pass that adds up its costs. With uniform links a task is
//! ready everywhere at once (but for one machine), so the cheapest machines are the ones to look at, and the row of
//! costs itself is seldom read again.

use super::Lean;
use crate::instance::Instance;
use crate::wide::widened;

/// Machines are dealt out to this many lanes, like cards; each lane names its cheapest.
pub(super) const LANES: usize = 16;

/// Per task the cheapest machine of each lane, and what all machines not named cost at least.
///
/// A key is a cost whose lowest bits are replaced by the machine's index: it sorts as the cost does, and without
/// those bits it is a lower bound of the cost.
#[derive(Debug, Clone)]
pub(crate) struct Cheapest {
    keys: Vec<[f64; LANES]>,
    rest: Vec<f64>,
    sums: Vec<f64>,
    index_bits: u64,
    exact: bool,
}

impl Cheapest {
    /// The machines where a task costs least.
    pub(crate) fn new(instance: &Instance) -> Self {
        /// From so many costs on a second thread is worth starting.
        const MANY: usize = 1 << 22;
        let (costs, p) = (instance.cost_matrix(), instance.machines());
        if costs.len() < MANY {
            return Self::of_rows(costs, p, instance.tasks());
        }
        let (front, back) = costs.split_at(instance.tasks() / 2 * p);
        let (mut found, rest) = std::thread::scope(|scope| {
            let back = scope.spawn(|| Self::of_rows(back, p, 0));
            (Self::of_rows(front, p, instance.tasks()), back.join())
        });
        match rest {
            Ok(rest) => found.append(rest),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        found
    }

    /// With room for `room` tasks, or for as many as there are.
    fn of_rows(costs: &[f64], p: usize, room: usize) -> Self {
        let indices: Vec<u64> = (0..p as u64).collect();
        let mut found = Self::empty(room.max(costs.len() / p), p);
        costs.chunks_exact(p).for_each(|row| found.add(row, &indices));
        found
    }

    fn append(&mut self, mut rest: Self) {
        self.keys.append(&mut rest.keys);
        self.rest.append(&mut rest.rest);
        self.sums.append(&mut rest.sums);
        self.exact &= rest.exact;
    }

    fn empty(tasks: usize, p: usize) -> Self {
        Self {
            keys: Vec::with_capacity(tasks),
            rest: Vec::with_capacity(tasks),
            sums: Vec::with_capacity(tasks),
            index_bits: p.next_power_of_two() as u64 - 1,
            exact: true,
        }
    }

    #[inline]
    fn add(&mut self, row: &[f64], indices: &[u64]) {
        let scanned = scan_best(row, indices, self.index_bits);
        self.keys.push(scanned.keys);
        self.rest.push(scanned.rest);
        self.sums.push(scanned.sum);
        self.exact &= scanned.exact;
    }

    /// The machines where a task costs least, leaning included.
    pub(crate) fn leaning(instance: &Instance, lean: &Lean<'_>) -> Self {
        let p = instance.machines();
        let mut row = vec![0.0; p];
        let mut found = Self::empty(instance.tasks(), p);
        let indices: Vec<u64> = (0..p as u64).collect();
        for task in 0..instance.tasks() {
            lean.bias(instance, task, &mut row);
            for (bias, cost) in row.iter_mut().zip(instance.costs(task)) {
                *bias += cost;
            }
            found.add(&row, &indices);
        }
        found
    }

    /// Each task's costs added up over the machines.
    pub(crate) fn sums(&self) -> &[f64] {
        &self.sums
    }

    #[inline]
    pub(super) fn keys(&self, task: usize) -> &[f64; LANES] {
        &self.keys[task]
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
    keys: [f64; LANES],
    rest: f64,
    sum: f64,
    exact: bool,
}

widened! {
    fn scan_best(row: &[f64], indices: &[u64], index_bits: u64) -> Scan = scan
}

/// The least key of each lane, the least cost of all others, and the sum of the row.
#[inline(always)]
fn scan(row: &[f64], indices: &[u64], index_bits: u64) -> Scan {
    let key = |cost: f64, index: u64| f64::from_bits((cost.to_bits() & !index_bits) | index);
    let less = |a: f64, b: f64| if b < a { b } else { a };
    let more = |a: f64, b: f64| if b > a { b } else { a };
    let mut first = [f64::INFINITY; LANES];
    let mut second = [f64::INFINITY; LANES];
    let mut sums = [0.0; LANES];
    let mut lost = [0; LANES];
    let (rows, row_rest) = row.as_chunks::<LANES>();
    let (index_rows, index_rest) = indices.as_chunks::<LANES>();
    for (costs, indices) in rows.iter().zip(index_rows) {
        for lane in 0..LANES {
            let key = key(costs[lane], indices[lane]);
            sums[lane] += costs[lane];
            lost[lane] |= costs[lane].to_bits();
            second[lane] = less(second[lane], more(first[lane], key));
            first[lane] = less(first[lane], key);
        }
    }
    for (lane, (cost, index)) in row_rest.iter().zip(index_rest).enumerate() {
        let key = key(*cost, *index);
        sums[lane] += *cost;
        lost[lane] |= cost.to_bits();
        second[lane] = less(second[lane], more(first[lane], key));
        first[lane] = less(first[lane], key);
    }
    let rest = second.iter().fold(f64::INFINITY, |a, b| less(a, *b));
    let rest = f64::from_bits(rest.to_bits() & !index_bits);
    let exact = lost.iter().fold(0, |a, b| a | b) & index_bits == 0;
    Scan { keys: first, rest, sum: sums.iter().sum(), exact }
}
