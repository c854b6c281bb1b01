//! The least score each machine could have for one task, and which machine to look at next. The pass over all
//! machines lives here: it is what a large plan spends its time on.

use crate::wide::widened;

/// Machines are dealt out to this many lanes.
const LANES: usize = 16;

/// One hope per machine and the least of each lane; padded with infinity.
#[derive(Debug, Clone)]
pub(super) struct Hopes {
    each: Vec<[f64; LANES]>,
    least: [f64; LANES],
}

/// What hopes are made of: rows over all machines.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) costs: &'a [f64],
    /// When each machine is free or ready.
    pub(super) times: &'a [f64],
    /// Added to the finish; empty for none.
    pub(super) bias: &'a [f64],
}

/// How `times` bound the start.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// After this moment, and after the machine's time unless the task has no length: such a task may stand between
    /// two that touch, in the midst of a busy stretch.
    After(f64),
    /// At this moment.
    At(f64),
    /// At the machine's own time.
    Own,
}

impl Hopes {
    pub(super) fn new(machines: usize) -> Self {
        Self { each: vec![[f64::INFINITY; LANES]; machines.div_ceil(LANES)], least: [f64::INFINITY; LANES] }
    }

    /// Hopes afresh: start, plus cost, plus bias.
    #[inline]
    pub(super) fn fill(&mut self, start: Start, rows: Rows<'_>) {
        self.least = fill_rows(&mut self.each, start, rows);
    }

    /// Sets one machine's hope.
    #[inline]
    pub(super) fn correct(&mut self, machine: usize, hope: f64) {
        let lane = machine % LANES;
        self.each[machine / LANES][lane] = hope;
        let (pairs, last) = self.each.as_chunks::<2>();
        let (mut even, mut odd) = (f64::INFINITY, last.first().map_or(f64::INFINITY, |row| row[lane]));
        for pair in pairs {
            even = less(even, pair[0][lane]);
            odd = less(odd, pair[1][lane]);
        }
        self.least[lane] = less(even, odd);
    }

    /// Leaves machines out.
    #[inline]
    pub(super) fn give_up(&mut self, machines: &[usize]) {
        if machines.is_empty() {
            return;
        }
        for machine in machines {
            self.each[machine / LANES][machine % LANES] = f64::INFINITY;
        }
        self.least = least_per_lane(&self.each);
    }

    /// The machine with the least hope, and its hope.
    #[inline]
    pub(super) fn most_promising(&self) -> (usize, f64) {
        let hope = least_of(&self.least);
        let mut equal = 0u32;
        for (lane, least) in self.least.iter().enumerate() {
            equal |= u32::from(*least == hope) << lane;
        }
        let lane = equal.trailing_zeros() as usize % LANES;
        let row = self.each.iter().position(|row| row[lane] == hope).unwrap_or(0);
        (row * LANES + lane, hope)
    }
}

/// Halves the lanes until one is left, which is faster than going along them.
#[inline(always)]
fn least_of(lanes: &[f64; LANES]) -> f64 {
    let mut lanes = *lanes;
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = less(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

widened! {
    fn fill_rows(each: &mut [[f64; LANES]], start: Start, rows: Rows<'_>) -> [f64; LANES] = fill_plainly
}

#[inline(always)]
fn fill_plainly(each: &mut [[f64; LANES]], start: Start, rows: Rows<'_>) -> [f64; LANES] {
    match start {
        Start::After(ready) => fill_by(each, rows, |cost, until| {
            let until = if cost > 0.0 { until } else { 0.0 };
            (if until > ready { until } else { ready }) + cost
        }),
        Start::At(ready) => fill_by(each, rows, |cost, _| ready + cost),
        Start::Own => fill_by(each, rows, |cost, ready| ready + cost),
    }
}

/// Two plain passes: compilers turn each into wide instructions, but not the two in one.
#[inline(always)]
fn fill_by(each: &mut [[f64; LANES]], rows: Rows<'_>, finish: impl Fn(f64, f64) -> f64) -> [f64; LANES] {
    let hopes = each.as_flattened_mut();
    if !rows.bias.is_empty() {
        for (((hope, cost), time), bias) in hopes.iter_mut().zip(rows.costs).zip(rows.times).zip(rows.bias) {
            *hope = finish(*cost, *time) + *bias;
        }
    } else {
        for ((hope, cost), time) in hopes.iter_mut().zip(rows.costs).zip(rows.times) {
            *hope = finish(*cost, *time);
        }
    }
    least_per_lane(each)
}

#[inline(always)]
fn least_per_lane(each: &[[f64; LANES]]) -> [f64; LANES] {
    let mut least = [f64::INFINITY; LANES];
    for row in each {
        for (least, hope) in least.iter_mut().zip(row) {
            *least = less(*least, *hope);
        }
    }
    least
}

#[inline(always)]
fn less(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}
