//! The largest product of everyone's speeds (Nash welfare), by the same price method as the other goals: at given
//! prices a job's answer maximises the logarithm of its speed less what it pays.

mod nearby;

use crate::decompose::{Answered, Bound, Mix, Respond, Start, decompose};
use crate::problem::Problem;
use nearby::{Nearby, Sum};

/// The problem, possibly without one of the jobs.
pub(crate) struct Nash<'a> {
    problem: &'a Problem,
    without: Option<usize>,
    /// What is known of answers to prices near those of the whole, the nearest first.
    nearby: &'a [Nearby],
}

/// The optimum: Σ log speed, the shares, the prices that prove it.
#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    pub(crate) value: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
    /// Prices worth asking first when a like problem is solved next.
    pub(crate) hints: Vec<Vec<f64>>,
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

/// How far prices are looked at when one job in so many leaves: each takes one part of what is spent, or less, and prices
/// rise and fall with that. On the way to them the search goes further; the nearer, the fewer jobs have to be asked.
const MOVES: [f64; 5] = [0.5, 2.0, 8.0, 32.0, 128.0];

impl<'a> Nash<'a> {
    /// Everyone's problem.
    pub(crate) fn new(problem: &'a Problem) -> Self {
        Self { problem, without: None, nearby: &[] }
    }

    /// What is known of the problems without one job, given the prices of the whole.
    pub(crate) fn around(&self, prices: &[f64]) -> Vec<Nearby> {
        let radius = |moves: f64| (moves / self.problem.n as f64).min(0.5);
        MOVES.iter().map(|moves| Nearby::new(self.problem, prices, radius(*moves))).collect()
    }

    /// The problem without one of the jobs.
    pub(crate) fn without(&self, m: usize, nearby: &'a [Nearby]) -> Self {
        Self { problem: self.problem, without: Some(m), nearby }
    }

    fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let without = self.without;
        (0..self.problem.n).filter(move |m| Some(*m) != without)
    }

    /// Σ log speed under shares.
    pub(crate) fn welfare(&self, shares: &[f64]) -> f64 {
        self.present().map(|m| self.problem.throughput(m, shares).ln()).sum()
    }

    /// Half of everyone's part alone: certainly feasible.
    fn seed(&self) -> Vec<f64> {
        let mut seed = crate::goals::isolated::alone(self.problem);
        seed.iter_mut().for_each(|share| *share *= 0.5);
        seed
    }

    /// Solves it to this absolute gap.
    pub(crate) fn solve(&mut self, gap: f64) -> Agreed {
        let problem = self.problem;
        let seed = self.seed();
        let used = problem.usage(&seed);
        let mix = self.mix((self.welfare(&seed), &used), Vec::new(), gap);
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
        Agreed { value: self.welfare(&shares), bound: mix.bound, shares, prices, hints }
    }

    /// The largest Σ log speed to this absolute gap, asking these prices first; `seed` is any feasible value and what it
    /// uses.
    pub(crate) fn value(&mut self, seed: (f64, &[f64]), hints: Vec<Vec<f64>>, gap: f64) -> f64 {
        self.mix(seed, hints, gap).value
    }

    fn mix(&mut self, seed: (f64, &[f64]), prices: Vec<Vec<f64>>, gap: f64) -> Mix<Vec<f64>> {
        let start = Start { capacity: &self.problem.capacity, seed, upper: f64::INFINITY, prices, gap: 0.0 };
        decompose(start, self, |low, high| high - low <= gap)
    }

    fn answers(&self, prices: &[f64]) -> Sum {
        if let Some(nearby) = self.nearby.iter().find(|nearby| nearby.contains(prices)) {
            return nearby.answer(self.problem, prices, self.without);
        }
        let mut sum = Sum::nothing(self.problem.k);
        self.present().for_each(|m| sum.ask(self.problem, m, prices, 1.0));
        sum
    }
}

impl Respond for Nash<'_> {
    type State = Vec<f64>;

    fn respond(&mut self, prices: &[f64], _: f64, _: f64) -> (Vec<Answered<Vec<f64>>>, Option<Bound>) {
        let Sum { gain, value, usage } = self.answers(prices);
        let bound = gain + prices.iter().zip(&self.problem.capacity).map(|(p, c)| p * c).sum::<f64>();
        let state = prices.to_vec();
        (vec![Answered { state: state.clone(), value, usage }], Some(Bound { value: bound, prices: state }))
    }
}
