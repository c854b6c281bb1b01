//! The totalling problem behind `throughput` and `cost`: the most value in total, some jobs bound to a least speed. At
//! given prices a job takes the type it gains most on; one with a deadline also weighs running just fast enough.

use crate::decompose::{Answered, Bound, Respond, Start, decompose};
use crate::problem::Problem;

/// How a deadline's speed is meant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Due {
    /// None.
    Never,
    /// At least this fast.
    Must(f64),
    /// Every step a second up to this one counts as kept.
    Counts(f64),
}

/// A job's best answer: one type or two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Best {
    /// What it gains, prices paid.
    pub(crate) gain: f64,
    pub(crate) first: (usize, f64),
    pub(crate) second: (usize, f64),
}

/// The best a job can do where `net[j]` is its gain of all its time on type j, prices paid, and `kept` what a step a
/// second towards its deadline is worth.
#[inline]
pub(crate) fn best(speed: &[f64], net: &[f64], due: Due, kept: f64) -> Best {
    let idle = Best { gain: 0.0, first: (0, 0.0), second: (0, 0.0) };
    let (least, worth) = match due {
        Due::Never => {
            let mut best = idle;
            for (j, (&fast, &gain)) in speed.iter().zip(net).enumerate() {
                if fast > 0.0 && gain > best.gain {
                    best = Best { gain, first: (j, 1.0), second: (j, 0.0) };
                }
            }
            return best;
        }
        Due::Must(least) => (least, 0.0),
        Due::Counts(least) => (least, kept),
    };
    let must = matches!(due, Due::Must(_));
    let mut best = if must { Best { gain: f64::NEG_INFINITY, ..idle } } else { idle };
    let mut offer = |gain: f64, first: (usize, f64), second: (usize, f64)| {
        if gain > best.gain {
            best = Best { gain, first, second };
        }
    };
    for (j, (&fast, &gain)) in speed.iter().zip(net).enumerate() {
        if fast <= 0.0 || must && fast * (1.0 + 1e-12) < least {
            continue;
        }
        offer(gain + worth * fast.min(least), (j, 1.0), (j, 0.0));
        if fast > least {
            let share = least / fast;
            offer(gain * share + worth * least, (j, share), (j, 0.0));
            for (i, (&slow, &other)) in speed.iter().zip(net).enumerate() {
                if slow > 0.0 && slow < least {
                    let share = (least - slow) / (fast - slow);
                    offer(gain * share + other * (1.0 - share) + worth * least, (j, share), (i, 1.0 - share));
                }
            }
        }
    }
    best
}

/// What steps a second towards `Counts` deadlines are for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kept {
    /// Each is worth this much.
    Worth(f64),
    /// Their total must reach this: one more resource after the types.
    AtLeast(f64),
}

/// The problem: per job and type what all of the job's time there is worth, and the deadlines.
pub(crate) struct Totalling<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) value: &'a [f64],
    pub(crate) due: &'a [Due],
    pub(crate) kept: Kept,
}

/// The outcome: shares, their value, and prices (after the types', that of the steps to be kept, if any).
#[derive(Debug, Clone)]
pub(crate) struct Totalled {
    pub(crate) value: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
}

impl Totalling<'_> {
    fn due(&self, m: usize) -> Due {
        self.due.get(m).copied().unwrap_or(Due::Never)
    }

    fn answer(&self, m: usize, prices: &[f64], net: &mut [f64]) -> Best {
        let k = self.problem.k;
        let gpus = self.problem.gpus[m];
        for (j, net) in net.iter_mut().enumerate() {
            *net = self.value[m * k + j] - gpus * prices[j];
        }
        let kept = match self.kept {
            Kept::Worth(worth) => worth,
            Kept::AtLeast(_) => prices[k],
        };
        best(self.problem.row(m), net, self.due(m), kept)
    }

    /// Solves it, starting from shares known to be feasible.
    pub(crate) fn solve(&mut self, seed: Option<&[f64]>, gap: f64) -> Totalled {
        let problem = self.problem;
        let mut capacity = problem.capacity.clone();
        let mut used = seed.map_or_else(|| vec![0.0; problem.k], |x| problem.usage(x));
        if let Kept::AtLeast(least) = self.kept {
            capacity.push(-least);
            used.push(seed.map_or(0.0, |x| -self.keeps(x)));
        }
        let base = seed.map_or(0.0, |x| self.worth(x));
        let start =
            Start { capacity: &capacity, seed: (base, &used), upper: f64::INFINITY, prices: Vec::new(), gap };
        let mix = decompose(start, self, |_, _| false);
        let mut shares = vec![0.0; problem.n * problem.k];
        if let Some(seed) = seed.filter(|_| mix.seed > 0.0) {
            shares.iter_mut().zip(seed).for_each(|(x, s)| *x += mix.seed * s);
        }
        let mut net = vec![0.0; problem.k];
        for (weight, prices) in &mix.parts {
            for m in 0..problem.n {
                let answer = self.answer(m, prices, &mut net);
                shares[m * problem.k + answer.first.0] += weight * answer.first.1;
                shares[m * problem.k + answer.second.0] += weight * answer.second.1;
            }
        }
        problem.trim(&mut shares);
        let value = self.worth(&shares);
        let prices = mix.prices.unwrap_or_else(|| vec![0.0; capacity.len()]);
        Totalled { value, bound: mix.bound, shares, prices }
    }

    fn worth(&self, x: &[f64]) -> f64 {
        let value: f64 = x.iter().zip(self.value).map(|(x, v)| x * v).sum();
        match self.kept {
            Kept::Worth(worth) if worth > 0.0 => value + worth * self.keeps(x),
            _ => value,
        }
    }

    /// Steps a second towards deadlines under shares `x`.
    pub(crate) fn keeps(&self, x: &[f64]) -> f64 {
        (0..self.problem.n).map(|m| self.keeps_of(m, self.problem.throughput(m, x))).sum()
    }

    fn keeps_of(&self, m: usize, speed: f64) -> f64 {
        match self.due(m) {
            Due::Counts(least) => speed.min(least),
            _ => 0.0,
        }
    }
}

impl Respond for Totalling<'_> {
    type State = Vec<f64>;

    fn respond(&mut self, prices: &[f64], _: f64, _: f64) -> (Vec<Answered<Vec<f64>>>, Option<Bound>) {
        let problem = self.problem;
        let k = problem.k;
        let mut net = vec![0.0; k];
        let mut usage = vec![0.0; prices.len()];
        let (mut gain, mut value) = (0.0, 0.0);
        for m in 0..problem.n {
            let answer = self.answer(m, prices, &mut net);
            gain += answer.gain;
            for (j, share) in [answer.first, answer.second] {
                usage[j] += problem.gpus[m] * share;
                value += self.value[m * k + j] * share;
            }
            if !self.due.is_empty() {
                let row = problem.row(m);
                let speed = row[answer.first.0] * answer.first.1 + row[answer.second.0] * answer.second.1;
                match self.kept {
                    Kept::Worth(worth) => value += worth * self.keeps_of(m, speed),
                    Kept::AtLeast(_) => usage[k] -= self.keeps_of(m, speed),
                }
            }
        }
        let least = match self.kept {
            Kept::Worth(_) => None,
            Kept::AtLeast(least) => Some(-least),
        };
        let capacity = problem.capacity.iter().copied().chain(least);
        let bound = gain + prices.iter().zip(capacity).map(|(p, c)| p * c).sum::<f64>();
        let state = prices.to_vec();
        (vec![Answered { state: state.clone(), value, usage }], Some(Bound { value: bound, prices: state }))
    }
}
