//! How urgent each task is: upward and downward ranks, and the optimistic cost table. All are kept multiplied by the
//! number of machines where they hold means, so that whole-number costs give exact ranks. No scheduling here.

use crate::instance::Instance;
use crate::wide::widened;

/// Upward rank of every task times the number of machines: mean cost plus the longest way to the end, mean transfers
/// included (Topcuoglu et al. 2002, equation 9). Exact when costs are whole numbers.
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

/// As [`upward_ranks`], from each task's costs added up over the machines.
pub(crate) fn upward_ranks_of(instance: &Instance, sums: Vec<f64>) -> Vec<f64> {
    let mut rank = sums;
    let p = instance.machines() as f64;
    for &task in instance.topological_order().iter().rev() {
        let mut longest = 0.0;
        for &(next, data) in instance.successors(task as usize) {
            let way = p * instance.mean_transfer(data) + rank[next as usize];
            if way > longest {
                longest = way;
            }
        }
        rank[task as usize] += longest;
    }
    rank
}

/// Downward rank of every task times the number of machines: the longest way from an entry, the task itself left
/// out (Topcuoglu et al. 2002, equation 11).
pub fn downward_ranks(instance: &Instance) -> Vec<f64> {
    downward_ranks_of(instance, &cost_sums(instance))
}

/// As [`downward_ranks`], from each task's costs added up over the machines.
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

/// The optimistic cost table, row-major: what is left after a task on a machine if everything that follows could
/// have the machine it likes best (Arabnejad and Barbosa 2014).
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
            let elsewhere = least_own[next] + instance.mean_transfer(data);
            follow(&mut row, &table[next * p..(next + 1) * p], instance.costs(next), elsewhere);
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

widened! {
    /// Raises each machine's entry of `row` to the way through a successor: run here, or elsewhere.
    fn follow(row: &mut [f64], left: &[f64], costs: &[f64], elsewhere: f64) = follow_each
}

#[inline(always)]
fn follow_each(row: &mut [f64], left: &[f64], costs: &[f64], elsewhere: f64) {
    for ((row, left), cost) in row.iter_mut().zip(left).zip(costs) {
        let here = left + cost;
        let way = if here < elsewhere { here } else { elsewhere };
        *row = if *row > way { *row } else { way };
    }
}

/// Tasks by falling rank; ties by topological position. A task never comes before one it waits for.
pub fn rank_order(instance: &Instance, rank: &[f64]) -> Vec<u32> {
    // The bits of a float that is not negative sort as the float does.
    let key = |task: &u32| (!(rank[*task as usize] + 0.0).to_bits(), *task);
    let mut keyed: Vec<(u64, u32)> = instance.topological_order().iter().map(key).collect();
    sort_by_digits(&mut keyed);
    keyed.into_iter().map(|(_, task)| task).collect()
}

/// Sorts by the first of each pair, equals staying as they are: digit by digit from the last, which comparing cannot
/// keep up with. Digits that are all alike cost nothing: whole-number ranks have few others.
fn sort_by_digits(keyed: &mut Vec<(u64, u32)>) {
    const BITS: u32 = 11;
    const VALUES: usize = 1 << BITS;
    if keyed.len() < 2 * VALUES {
        keyed.sort_by_key(|pair| pair.0);
        return;
    }
    let digit = |key: u64, at: u32| (key >> (at * BITS)) as usize % VALUES;
    let differ = keyed.iter().fold(0, |bits, pair| bits | (pair.0 ^ keyed[0].0));
    let mut sorted = vec![(0, 0); keyed.len()];
    for at in (0..u64::BITS.div_ceil(BITS)).filter(|at| digit(differ, *at) != 0) {
        let mut next = [0u32; VALUES];
        keyed.iter().for_each(|pair| next[digit(pair.0, at)] += 1);
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

/// The least of a slice, several lanes at a time; infinity when empty.
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

/// The sum of a slice, several lanes at a time.
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

/// Each task's costs added up over the machines.
pub(crate) fn cost_sums(instance: &Instance) -> Vec<f64> {
    instance.cost_matrix().chunks_exact(instance.machines()).map(sum).collect()
}
