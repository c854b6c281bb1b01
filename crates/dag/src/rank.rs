//! Task priorities: upward and downward ranks, and the optimistic cost table. Ranks that average over machines are
//! stored multiplied by the number of machines, so that integral costs give exact ranks. Nothing is scheduled here.

use crate::instance::Instance;
use crate::multiversion::multiversioned;

/// Upward rank of every task times the number of machines: mean cost plus the longest path to an exit, mean transfers
/// included (Topcuoglu et al. 2002, equation 9). Exact when costs are integers.
///
/// ```
/// use warpyard_dag::{Edge, Instance, Links, upward_ranks};
/// let chain = Instance::new(2, vec![1.0, 2.0, 3.0, 4.0], &[Edge { from: 0, to: 1, data: 5.0 }], Links::Uniform)?;
/// assert_eq!(upward_ranks(&chain), [3.0 + 10.0 + 7.0, 7.0]);
/// # Ok::<(), warpyard_dag::InstanceError>(())
/// ```
pub fn upward_ranks(instance: &Instance) -> Vec<f64> {
    upward_ranks_of(instance, cost_sums(instance))
}

/// Upward ranks as in [`upward_ranks`], from cost sums per task that the caller already has.
pub(crate) fn upward_ranks_of(instance: &Instance, sums: Vec<f64>) -> Vec<f64> {
    let mut rank = sums;
    let p = instance.machines() as f64;
    for &task in instance.topological_order().iter().rev() {
        let mut longest = 0.0;
        for &(next, data) in instance.successors(task as usize) {
            let length = p * instance.mean_transfer(data) + rank[next as usize];
            if length > longest {
                longest = length;
            }
        }
        rank[task as usize] += longest;
    }
    rank
}

/// Downward rank of every task times the number of machines: the longest path from an entry to the task, without the
/// task itself (Topcuoglu et al. 2002, equation 11).
pub fn downward_ranks(instance: &Instance) -> Vec<f64> {
    downward_ranks_of(instance, &cost_sums(instance))
}

/// Downward ranks as in [`downward_ranks`], from cost sums per task that the caller already has.
pub(crate) fn downward_ranks_of(instance: &Instance, sums: &[f64]) -> Vec<f64> {
    let p = instance.machines() as f64;
    let mut rank = vec![0.0f64; instance.tasks()];
    for &task in instance.topological_order() {
        let task = task as usize;
        for &(before, data) in instance.predecessors(task) {
            let before = before as usize;
            rank[task] = rank[task].max(rank[before] + sums[before] + p * instance.mean_transfer(data));
        }
    }
    rank
}

/// Optimistic cost table, row-major: the least remaining path length after a task on a machine, if every later task
/// ran on its best machine (Arabnejad and Barbosa 2014).
pub fn optimistic_costs(instance: &Instance) -> Vec<f64> {
    let p = instance.machines();
    let mut table = vec![0.0f64; instance.tasks() * p];
    let mut least_own = vec![0.0f64; instance.tasks()];
    let mut row = vec![0.0f64; p];
    for &task in instance.topological_order().iter().rev() {
        let task = task as usize;
        row.fill(0.0);
        for &(next, data) in instance.successors(task) {
            let next = next as usize;
            // A successor either stays on this machine or moves to its best one and pays the mean transfer.
            let elsewhere = least_own[next] + instance.mean_transfer(data);
            raise_by_successor(&mut row, &table[next * p..(next + 1) * p], instance.costs(next), elsewhere);
        }
        let into = &mut table[task * p..(task + 1) * p];
        into.copy_from_slice(&row);
        for (row, cost) in row.iter_mut().zip(instance.costs(task)) {
            *row += cost;
        }
        least_own[task] = least(&row);
    }
    table
}

multiversioned! {
    /// Raises each machine's entry of `row` to the path through one successor: on the same machine or on the best
    /// other one, whichever is shorter.
    fn raise_by_successor(row: &mut [f64], left: &[f64], costs: &[f64], elsewhere: f64) = raise_by_successor_scalar
}

#[inline(always)]
fn raise_by_successor_scalar(row: &mut [f64], left: &[f64], costs: &[f64], elsewhere: f64) {
    for ((row, left), cost) in row.iter_mut().zip(left).zip(costs) {
        let here = left + cost;
        let length = if here < elsewhere { here } else { elsewhere };
        *row = if *row > length { *row } else { length };
    }
}

/// List order: tasks by falling rank, ties by topological position. For ranks that do not grow along an edge no task
/// precedes one of its predecessors.
pub fn rank_order(instance: &Instance, rank: &[f64]) -> Vec<u32> {
    // A non-negative float sorts as its bits do; negated bits sort in falling order. Adding 0.0 turns -0.0 into 0.0.
    let key = |task: &u32| (!(rank[*task as usize] + 0.0).to_bits(), *task);
    let mut keyed: Vec<(u64, u32)> = instance.topological_order().iter().map(key).collect();
    radix_sort(&mut keyed);
    keyed.into_iter().map(|(_, task)| task).collect()
}

/// Stable radix sort by the first of each pair, least significant digit first; faster than comparing from a few
/// thousand ranks on. Digits in which no two keys differ are skipped, which leaves few passes for integral ranks.
fn radix_sort(keyed: &mut Vec<(u64, u32)>) {
    const BITS: u32 = 11;
    const VALUES: usize = 1 << BITS;
    if keyed.len() < 2 * VALUES {
        keyed.sort_by_key(|pair| pair.0);
        return;
    }
    let digit = |key: u64, at: u32| (key >> (at * BITS)) as usize % VALUES;
    // Bits in which any two keys differ.
    let differ = keyed.iter().fold(0, |bits, pair| bits | (pair.0 ^ keyed[0].0));
    let mut sorted = vec![(0, 0); keyed.len()];
    for at in (0..u64::BITS.div_ceil(BITS)).filter(|at| digit(differ, *at) != 0) {
        let mut next = [0u32; VALUES];
        keyed.iter().for_each(|pair| next[digit(pair.0, at)] += 1);
        // Counts become the position of the first key of each digit value.
        let mut before = 0;
        for next in &mut next {
            before += std::mem::replace(next, before);
        }
        for pair in keyed.iter() {
            let next = &mut next[digit(pair.0, at)];
            sorted[*next as usize] = *pair;
            *next += 1;
        }
        std::mem::swap(keyed, &mut sorted);
    }
}

/// Minimum of a slice, eight lanes at a time; infinity when empty.
#[inline]
pub(crate) fn least(values: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value < *lane { *value } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f64::INFINITY, |a, b| if *b < a { *b } else { a })
}

/// Sum of a slice, eight lanes at a time.
#[inline]
pub(crate) fn sum(values: &[f64]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += *value;
        }
    }
    lanes.iter().chain(rest).sum()
}

/// Sum over all machines of each task's costs.
pub(crate) fn cost_sums(instance: &Instance) -> Vec<f64> {
    instance.cost_matrix().chunks_exact(instance.machines()).map(sum).collect()
}
