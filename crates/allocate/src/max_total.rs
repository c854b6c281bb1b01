//! Largest total value with minimum speeds for some jobs: the linear program behind `throughput` and `cost`, solved by
//! decomposition. At given prices a job takes the type it gains most on; one with a deadline also considers running
//! just fast enough.

use crate::decompose::{Bound, MasterInput, Response, Subproblem, decompose};
use crate::problem::Problem;

/// Speed that a deadline demands of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DeadlineSpeed {
    /// No deadline.
    None,
    /// Hard: at least this speed.
    Required(f64),
    /// Soft: speed up to this value counts towards the total deadline speed.
    Counted(f64),
}

/// Best response of a job to prices: one type or two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BestResponse {
    /// Gain net of prices.
    pub(crate) gain: f64,
    pub(crate) first: (usize, f64),
    pub(crate) second: (usize, f64),
}

/// Best response where `net[j]` is the gain of all of the job's time on type j, prices deducted, and `step_value` the
/// value of a step per second towards its deadline.
#[inline]
pub(crate) fn best_response(
    speed: &[f64],
    net: &[f64],
    deadline: DeadlineSpeed,
    step_value: f64,
) -> BestResponse {
    let idle = BestResponse { gain: 0.0, first: (0, 0.0), second: (0, 0.0) };
    let (least, worth) = match deadline {
        DeadlineSpeed::None => {
            let mut best = idle;
            for (j, (&fast, &gain)) in speed.iter().zip(net).enumerate() {
                if fast > 0.0 && gain > best.gain {
                    best = BestResponse { gain, first: (j, 1.0), second: (j, 0.0) };
                }
            }
            return best;
        }
        DeadlineSpeed::Required(least) => (least, 0.0),
        DeadlineSpeed::Counted(least) => (least, step_value),
    };
    let must = matches!(deadline, DeadlineSpeed::Required(_));
    let mut best = if must { BestResponse { gain: f64::NEG_INFINITY, ..idle } } else { idle };
    let mut consider = |gain: f64, first: (usize, f64), second: (usize, f64)| {
        if gain > best.gain {
            best = BestResponse { gain, first, second };
        }
    };
    for (j, (&fast, &gain)) in speed.iter().zip(net).enumerate() {
        // The gain is piecewise linear with its kink at the deadline speed, so a best response is all of the time on
        // one type, or exactly the deadline speed on one type or on two.
        if fast <= 0.0 || must && fast * (1.0 + 1e-12) < least {
            continue;
        }
        consider(gain + worth * fast.min(least), (j, 1.0), (j, 0.0));
        if fast > least {
            let share = least / fast;
            consider(gain * share + worth * least, (j, share), (j, 0.0));
            for (i, (&slow, &other)) in speed.iter().zip(net).enumerate() {
                if slow > 0.0 && slow < least {
                    let share = (least - slow) / (fast - slow);
                    consider(
                        gain * share + other * (1.0 - share) + worth * least,
                        (j, share),
                        (i, 1.0 - share),
                    );
                }
            }
        }
    }
    best
}

/// Role of the speed that counts towards soft deadlines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SoftDeadlines {
    /// Each step per second has this value.
    Weighted(f64),
    /// The total must reach this: one more resource row after the types.
    AtLeast(f64),
}

/// Problem: value of all of a job's time on each type, and the deadlines.
pub(crate) struct TotalProblem<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) value: &'a [f64],
    pub(crate) deadlines: &'a [DeadlineSpeed],
    pub(crate) soft: SoftDeadlines,
}

/// Solution: shares, their value, and prices; the last price is that of the deadline row, if any.
#[derive(Debug, Clone)]
pub(crate) struct TotalSolution {
    pub(crate) value: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
}

impl TotalProblem<'_> {
    fn deadline(&self, m: usize) -> DeadlineSpeed {
        self.deadlines.get(m).copied().unwrap_or(DeadlineSpeed::None)
    }

    fn answer(&self, m: usize, prices: &[f64], net: &mut [f64]) -> BestResponse {
        let k = self.problem.k;
        let gpus = self.problem.gpus[m];
        for (j, net) in net.iter_mut().enumerate() {
            *net = self.value[m * k + j] - gpus * prices[j];
        }
        let step_value = match self.soft {
            SoftDeadlines::Weighted(worth) => worth,
            SoftDeadlines::AtLeast(_) => prices[k],
        };
        best_response(self.problem.row(m), net, self.deadline(m), step_value)
    }

    /// Solves the problem from shares known to be feasible.
    pub(crate) fn solve(&mut self, seed: Option<&[f64]>, gap: f64) -> TotalSolution {
        let problem = self.problem;
        let mut capacity = problem.capacity.clone();
        let mut used = seed.map_or_else(|| vec![0.0; problem.k], |x| problem.usage(x));
        if let SoftDeadlines::AtLeast(least) = self.soft {
            // At least `least` of counted speed is at most `-least` of its negative: one more ≤ row.
            capacity.push(-least);
            used.push(seed.map_or(0.0, |x| -self.deadline_speed(x)));
        }
        let base = seed.map_or(0.0, |x| self.worth(x));
        let start = MasterInput {
            capacity: &capacity,
            seed: (base, &used),
            upper: f64::INFINITY,
            prices: Vec::new(),
            gap,
        };
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
        TotalSolution { value, bound: mix.bound, shares, prices }
    }

    fn worth(&self, x: &[f64]) -> f64 {
        let value: f64 = x.iter().zip(self.value).map(|(x, v)| x * v).sum();
        match self.soft {
            SoftDeadlines::Weighted(worth) if worth > 0.0 => value + worth * self.deadline_speed(x),
            _ => value,
        }
    }

    /// Speed that counts towards soft deadlines under shares `x`.
    pub(crate) fn deadline_speed(&self, x: &[f64]) -> f64 {
        (0..self.problem.n).map(|m| self.counted_speed(m, self.problem.throughput(m, x))).sum()
    }

    fn counted_speed(&self, m: usize, speed: f64) -> f64 {
        match self.deadline(m) {
            DeadlineSpeed::Counted(least) => speed.min(least),
            _ => 0.0,
        }
    }
}

impl Subproblem for TotalProblem<'_> {
    type State = Vec<f64>;

    fn respond(&mut self, prices: &[f64], _: f64, _: f64) -> (Vec<Response<Vec<f64>>>, Option<Bound>) {
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
            if !self.deadlines.is_empty() {
                let row = problem.row(m);
                let speed = row[answer.first.0] * answer.first.1 + row[answer.second.0] * answer.second.1;
                match self.soft {
                    SoftDeadlines::Weighted(worth) => value += worth * self.counted_speed(m, speed),
                    SoftDeadlines::AtLeast(_) => usage[k] -= self.counted_speed(m, speed),
                }
            }
        }
        let least = match self.soft {
            SoftDeadlines::Weighted(_) => None,
            SoftDeadlines::AtLeast(least) => Some(-least),
        };
        let capacity = problem.capacity.iter().copied().chain(least);
        let bound = gain + prices.iter().zip(capacity).map(|(p, c)| p * c).sum::<f64>();
        let state = prices.to_vec();
        (vec![Response { state: state.clone(), value, usage }], Some(Bound { value: bound, prices: state }))
    }
}
