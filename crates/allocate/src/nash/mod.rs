//! Nash welfare: maximises the product of speeds by the same decomposition as the other goals. At given prices a job
//! maximises the logarithm of its speed minus its cost.

mod price_region;

use crate::decompose::{Bound, ConvexCombination, MasterInput, Response, Subproblem, decompose};
use crate::problem::Problem;
use price_region::{PriceRegion, ResponseSum};

/// Nash welfare problem, possibly without one job.
pub(crate) struct Nash<'a> {
    problem: &'a Problem,
    without: Option<usize>,
    /// Price regions around the joint optimum, the smallest first.
    regions: &'a [PriceRegion],
}

/// Optimum: Σ log speed, shares, and the prices that prove it.
#[derive(Debug, Clone)]
pub(crate) struct NashSolution {
    pub(crate) value: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
    /// Prices to start from when a similar problem is solved next.
    pub(crate) hints: Vec<Vec<f64>>,
}

/// Best response of a job: its gain (log speed minus cost), speed and types.
#[derive(Debug, Clone, Copy)]
struct BestResponse {
    gain: f64,
    speed: f64,
    first: (usize, f64),
    second: (usize, f64),
}

fn best_response(speed: &[f64], prices: &[f64], gpus: f64) -> BestResponse {
    let mut best = BestResponse { gain: f64::NEG_INFINITY, speed: 0.0, first: (0, 0.0), second: (0, 0.0) };
    let mut consider = |thr: f64, cost: f64, first: (usize, f64), second: (usize, f64)| {
        let gain = thr.ln() - gpus * cost;
        if gain > best.gain {
            best = BestResponse { gain, speed: thr, first, second };
        }
    };
    for (j, (&fast, &dear)) in speed.iter().zip(prices).enumerate().filter(|(_, (s, _))| **s > 0.0) {
        let share = (1.0 / (gpus * dear)).min(1.0);
        consider(fast * share, dear * share, (j, share), (j, 0.0));
        for (i, (&slow, &cheap)) in speed.iter().zip(prices).enumerate() {
            if slow > 0.0 && slow < fast && cheap < dear {
                // Interior optimum of a mix: marginal log speed equals marginal cost.
                let thr = (fast - slow) / (gpus * (dear - cheap));
                let share = (thr - slow) / (fast - slow);
                if share > 0.0 && share < 1.0 {
                    consider(thr, cheap + (dear - cheap) * share, (j, share), (i, 1.0 - share));
                }
            }
        }
    }
    best
}

/// Radii of the price regions, in units of 1/n: removing one job frees at most about 1/n of the budget, and prices
/// move with it. The search overshoots on the way, hence the larger ones; the smaller the region, the fewer jobs must
/// be evaluated singly.
const REGION_RADII: [f64; 5] = [0.5, 2.0, 8.0, 32.0, 128.0];

impl<'a> Nash<'a> {
    /// Problem of all jobs.
    pub(crate) fn new(problem: &'a Problem) -> Self {
        Self { problem, without: None, regions: &[] }
    }

    /// Price regions for the problems without one job, around the joint prices.
    pub(crate) fn price_regions(&self, prices: &[f64]) -> Vec<PriceRegion> {
        let radius = |moves: f64| (moves / self.problem.n as f64).min(0.5);
        REGION_RADII.iter().map(|moves| PriceRegion::new(self.problem, prices, radius(*moves))).collect()
    }

    /// Problem without one job.
    pub(crate) fn without(&self, m: usize, regions: &'a [PriceRegion]) -> Self {
        Self { problem: self.problem, without: Some(m), regions }
    }

    fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let without = self.without;
        (0..self.problem.n).filter(move |m| Some(*m) != without)
    }

    /// Σ log speed under shares.
    pub(crate) fn welfare(&self, shares: &[f64]) -> f64 {
        self.present().map(|m| self.problem.throughput(m, shares).ln()).sum()
    }

    /// Feasible seed: half of the isolated shares.
    fn seed(&self) -> Vec<f64> {
        let mut seed = crate::goals::isolated::isolated_shares(self.problem);
        seed.iter_mut().for_each(|share| *share *= 0.5);
        seed
    }

    /// Solves to an absolute gap.
    pub(crate) fn solve(&mut self, gap: f64) -> NashSolution {
        let problem = self.problem;
        let seed = self.seed();
        let used = problem.usage(&seed);
        let mix = self.mix((self.welfare(&seed), &used), Vec::new(), gap);
        let mut shares: Vec<f64> = seed.iter().map(|share| share * mix.seed).collect();
        for (weight, prices) in &mix.parts {
            for m in self.present() {
                let response = best_response(problem.row(m), prices, problem.gpus[m]);
                shares[m * problem.k + response.first.0] += weight * response.first.1;
                shares[m * problem.k + response.second.0] += weight * response.second.1;
            }
        }
        problem.trim(&mut shares);
        let prices = mix.prices.unwrap_or_else(|| vec![0.0; problem.k]);
        let hints = mix.parts.into_iter().map(|(_, prices)| prices).collect();
        NashSolution { value: self.welfare(&shares), bound: mix.bound, shares, prices, hints }
    }

    /// Largest Σ log speed to an absolute gap, trying `hints` first; `seed` is any feasible value and its usage.
    pub(crate) fn value(&mut self, seed: (f64, &[f64]), hints: Vec<Vec<f64>>, gap: f64) -> f64 {
        self.mix(seed, hints, gap).value
    }

    fn mix(&mut self, seed: (f64, &[f64]), prices: Vec<Vec<f64>>, gap: f64) -> ConvexCombination<Vec<f64>> {
        let start =
            MasterInput { capacity: &self.problem.capacity, seed, upper: f64::INFINITY, prices, gap: 0.0 };
        decompose(start, self, |low, high| high - low <= gap)
    }

    fn responses(&self, prices: &[f64]) -> ResponseSum {
        if let Some(region) = self.regions.iter().find(|region| region.contains(prices)) {
            return region.response(self.problem, prices, self.without);
        }
        let mut sum = ResponseSum::zero(self.problem.k);
        self.present().for_each(|m| sum.add_response(self.problem, m, prices, 1.0));
        sum
    }
}

impl Subproblem for Nash<'_> {
    type State = Vec<f64>;

    fn respond(&mut self, prices: &[f64], _: f64, _: f64) -> (Vec<Response<Vec<f64>>>, Option<Bound>) {
        let ResponseSum { gain, value, usage } = self.responses(prices);
        let bound = gain + prices.iter().zip(&self.problem.capacity).map(|(p, c)| p * c).sum::<f64>();
        let state = prices.to_vec();
        (vec![Response { state: state.clone(), value, usage }], Some(Bound { value: bound, prices: state }))
    }
}
