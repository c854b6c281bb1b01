//! The largest product of everyone's speeds (Nash welfare), by the same price method as the other goals: at given
//! prices a job's answer maximises the logarithm of its speed less what it pays.

use crate::decompose::{Answered, Bound, Respond, Start, decompose};
use crate::problem::Problem;

/// The problem, possibly without one of the jobs.
pub(crate) struct Nash<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) without: Option<usize>,
}

/// The optimum: Σ log speed, the shares, the prices that prove it.
#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    pub(crate) value: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
}

/// A job's best answer: its gain (log speed less price) and where.
#[derive(Debug, Clone, Copy)]
struct Best {
    gain: f64,
    speed: f64,
    first: (usize, f64),
    second: (usize, f64),
}

fn best(speed: &[f64], prices: &[f64], gpus: f64) -> Best {
    let mut best = Best { gain: f64::NEG_INFINITY, speed: 0.0, first: (0, 0.0), second: (0, 0.0) };
    let mut offer = |thr: f64, cost: f64, first: (usize, f64), second: (usize, f64)| {
        let gain = thr.ln() - gpus * cost;
        if gain > best.gain {
            best = Best { gain, speed: thr, first, second };
        }
    };
    for (j, (&fast, &dear)) in speed.iter().zip(prices).enumerate().filter(|(_, (s, _))| **s > 0.0) {
        let share = (1.0 / (gpus * dear)).min(1.0);
        offer(fast * share, dear * share, (j, share), (j, 0.0));
        for (i, (&slow, &cheap)) in speed.iter().zip(prices).enumerate() {
            if slow > 0.0 && slow < fast && cheap < dear {
                // Where the next bit of speed is worth what it costs.
                let thr = (fast - slow) / (gpus * (dear - cheap));
                let share = (thr - slow) / (fast - slow);
                if share > 0.0 && share < 1.0 {
                    offer(thr, cheap + (dear - cheap) * share, (j, share), (i, 1.0 - share));
                }
            }
        }
    }
    best
}

impl Nash<'_> {
    fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let without = self.without;
        (0..self.problem.n).filter(move |m| Some(*m) != without)
    }

    /// Σ log speed under shares.
    pub(crate) fn welfare(&self, shares: &[f64]) -> f64 {
        self.present().map(|m| self.problem.throughput(m, shares).ln()).sum()
    }

    /// Solves it to this absolute gap, asking these prices first.
    pub(crate) fn solve(&mut self, hints: Vec<Vec<f64>>, gap: f64) -> (Agreed, Vec<Vec<f64>>) {
        let problem = self.problem;
        let mut seed = crate::goals::isolated::alone(problem);
        seed.iter_mut().for_each(|share| *share *= 0.5);
        let start = Start {
            capacity: &problem.capacity,
            seed: (self.welfare(&seed), &problem.usage(&seed)),
            upper: f64::INFINITY,
            prices: hints,
            gap: 0.0,
        };
        let mix = decompose(start, self, |low, high| high - low <= gap);
        let mut shares: Vec<f64> = seed.iter().map(|share| share * mix.seed).collect();
        for (weight, prices) in &mix.parts {
            for m in self.present() {
                let answer = best(problem.row(m), prices, problem.gpus[m]);
                shares[m * problem.k + answer.first.0] += weight * answer.first.1;
                shares[m * problem.k + answer.second.0] += weight * answer.second.1;
            }
        }
        problem.trim(&mut shares);
        let prices = mix.prices.unwrap_or_else(|| vec![0.0; problem.k]);
        let hints = mix.parts.into_iter().map(|(_, prices)| prices).collect();
        (Agreed { value: self.welfare(&shares), bound: mix.bound, shares, prices }, hints)
    }
}

impl Respond for Nash<'_> {
    type State = Vec<f64>;

    fn respond(&mut self, prices: &[f64], _: f64, _: f64) -> (Vec<Answered<Vec<f64>>>, Option<Bound>) {
        let problem = self.problem;
        let mut usage = vec![0.0; problem.k];
        let (mut gain, mut value) = (0.0, 0.0);
        for m in self.present() {
            let answer = best(problem.row(m), prices, problem.gpus[m]);
            gain += answer.gain;
            value += answer.speed.ln();
            usage[answer.first.0] += problem.gpus[m] * answer.first.1;
            usage[answer.second.0] += problem.gpus[m] * answer.second.1;
        }
        let bound = gain + prices.iter().zip(&problem.capacity).map(|(p, c)| p * c).sum::<f64>();
        let state = prices.to_vec();
        (vec![Answered { state: state.clone(), value, usage }], Some(Bound { value: bound, prices: state }))
    }
}
