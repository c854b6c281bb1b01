//! Lower bounds on the score of one task on every machine, and the machine to probe next. The pass over all machines
//! is here: it dominates the time of a large plan.

use crate::multiversion::multiversioned;

/// SIMD lanes; machine `m` is in lane `m % LANES`.
const LANES: usize = 16;

/// Lower bound per machine and minimum per lane; padded with infinity.
#[derive(Debug, Clone)]
pub(super) struct LowerBounds {
    bounds: Vec<[f64; LANES]>,
    lane_least: [f64; LANES],
}

/// Rows over all machines from which the bounds are computed.
#[derive(Clone, Copy)]
pub(super) struct MachineRows<'a> {
    pub(super) costs: &'a [f64],
    /// Busy-until or ready time of each machine.
    pub(super) times: &'a [f64],
    /// Added to the finish; empty for none.
    pub(super) bias: &'a [f64],
}

/// How `times` bound the start.
#[derive(Clone, Copy)]
pub(super) enum StartBound {
    /// After this time and after the machine's busy-until time. A task of zero length is exempt from the latter: it
    /// fits between two adjacent slots.
    After(f64),
    /// At this time on every machine.
    At(f64),
    /// At the machine's own ready time.
    PerMachine,
}

impl LowerBounds {
    pub(super) fn new(machines: usize) -> Self {
        Self {
            bounds: vec![[f64::INFINITY; LANES]; machines.div_ceil(LANES)],
            lane_least: [f64::INFINITY; LANES],
        }
    }

    /// Computes all bounds: start plus cost plus bias.
    #[inline]
    pub(super) fn fill(&mut self, start: StartBound, rows: MachineRows<'_>) {
        self.lane_least = fill_rows(&mut self.bounds, start, rows);
    }

    /// Sets the bound of one machine and the minimum of its lane.
    #[inline]
    pub(super) fn set(&mut self, machine: usize, bound: f64) {
        let lane = machine % LANES;
        self.bounds[machine / LANES][lane] = bound;
        let (pairs, last) = self.bounds.as_chunks::<2>();
        let (mut even, mut odd) = (f64::INFINITY, last.first().map_or(f64::INFINITY, |row| row[lane]));
        for pair in pairs {
            even = min(even, pair[0][lane]);
            odd = min(odd, pair[1][lane]);
        }
        self.lane_least[lane] = min(even, odd);
    }

    /// Excludes machines that have been probed already.
    #[inline]
    pub(super) fn exclude(&mut self, machines: &[usize]) {
        if machines.is_empty() {
            return;
        }
        for machine in machines {
            self.bounds[machine / LANES][machine % LANES] = f64::INFINITY;
        }
        self.lane_least = least_per_lane(&self.bounds);
    }

    /// Machine with the least bound, and the bound.
    #[inline]
    pub(super) fn least(&self) -> (usize, f64) {
        let bound = least_of(&self.lane_least);
        let mut equal = 0u32;
        for (lane, least) in self.lane_least.iter().enumerate() {
            equal |= u32::from(*least == bound) << lane;
        }
        let lane = equal.trailing_zeros() as usize % LANES;
        let row = self.bounds.iter().position(|row| row[lane] == bound).unwrap_or(0);
        (row * LANES + lane, bound)
    }
}

/// Minimum over the lanes by halving, which vectorises better than a sequential pass.
#[inline(always)]
fn least_of(lanes: &[f64; LANES]) -> f64 {
    let mut lanes = *lanes;
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = min(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

multiversioned! {
    fn fill_rows(each: &mut [[f64; LANES]], start: StartBound, rows: MachineRows<'_>) -> [f64; LANES] = fill_rows_scalar
}

#[inline(always)]
fn fill_rows_scalar(each: &mut [[f64; LANES]], start: StartBound, rows: MachineRows<'_>) -> [f64; LANES] {
    match start {
        StartBound::After(ready) => fill_each(each, rows, |cost, until| {
            let until = if cost > 0.0 { until } else { 0.0 };
            (if until > ready { until } else { ready }) + cost
        }),
        StartBound::At(ready) => fill_each(each, rows, |cost, _| ready + cost),
        StartBound::PerMachine => fill_each(each, rows, |cost, ready| ready + cost),
    }
}

/// Two separate passes: compilers vectorise each, but not both fused.
#[inline(always)]
fn fill_each(
    each: &mut [[f64; LANES]],
    rows: MachineRows<'_>,
    finish: impl Fn(f64, f64) -> f64,
) -> [f64; LANES] {
    let bounds = each.as_flattened_mut();
    if !rows.bias.is_empty() {
        for (((bound, cost), time), bias) in bounds.iter_mut().zip(rows.costs).zip(rows.times).zip(rows.bias)
        {
            *bound = finish(*cost, *time) + *bias;
        }
    } else {
        for ((bound, cost), time) in bounds.iter_mut().zip(rows.costs).zip(rows.times) {
            *bound = finish(*cost, *time);
        }
    }
    least_per_lane(each)
}

#[inline(always)]
fn least_per_lane(each: &[[f64; LANES]]) -> [f64; LANES] {
    let mut least = [f64::INFINITY; LANES];
    for row in each {
        for (least, bound) in least.iter_mut().zip(row) {
            *least = min(*least, *bound);
        }
    }
    least
}

#[inline(always)]
fn min(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}
