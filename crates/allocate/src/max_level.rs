//! Largest common level θ under which every job reaches its target speed: the linear program behind every max-min
//! goal, solved by decomposition. At given prices a job reaches its target at least cost on one type, or on two with
//! all of its time; total expenditure against the cluster's budget tells whether θ is within reach.

use crate::decompose::{Bound, ConvexCombination, MasterInput, Response, Subproblem, decompose};
use crate::problem::Problem;

/// Target speed of every job as a function of θ: convex and non-decreasing.
pub(crate) trait SpeedTarget {
    /// Target of job `m` at `theta`, and its derivative.
    fn at(&self, m: usize, theta: f64) -> (f64, f64);
}

/// Targets b·θ.
pub(crate) struct LinearTarget(pub(crate) Vec<f64>);

impl SpeedTarget for LinearTarget {
    fn at(&self, m: usize, theta: f64) -> (f64, f64) {
        (self.0[m] * theta, self.0[m])
    }
}

/// Cheapest mix of types that reaches a speed, per GPU: one type for part of the time, or two for all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CheapestMix {
    pub(crate) cost: f64,
    /// Marginal cost of speed.
    pub(crate) slope: f64,
    pub(crate) first: (usize, f64),
    pub(crate) second: (usize, f64),
}

/// Tolerance for a job that needs exactly all of its time on a type.
const REACH_TOLERANCE: f64 = 1.0 + 1e-12;

/// Cheapest mix for `target`, or `None` where the job cannot run that fast. At a kink of the cost the slope is the
/// left derivative.
#[inline]
pub(crate) fn cheapest_mix(speed: &[f64], prices: &[f64], target: f64) -> Option<CheapestMix> {
    let mut best = CheapestMix { cost: f64::INFINITY, slope: 0.0, first: (0, 0.0), second: (0, 0.0) };
    let better = |cost: f64, slope: f64, best: &CheapestMix| {
        cost < best.cost * (1.0 - 1e-14) || cost <= best.cost * (1.0 + 1e-14) && slope > best.slope
    };
    for (j, (&fast, &dear)) in speed.iter().zip(prices).enumerate() {
        if fast <= 0.0 || fast * REACH_TOLERANCE < target {
            continue;
        }
        // Beyond the kink by rounding counts as at it: all mixes cost the same there, and the steepest is the one
        // below.
        let target = target.min(fast);
        let slope = dear / fast;
        if better(slope * target, slope, &best) {
            best = CheapestMix { cost: slope * target, slope, first: (j, target / fast), second: (j, 0.0) };
        }
        for (i, (&slow, &cheap)) in speed.iter().zip(prices).enumerate() {
            // Mixing pays only with a slower and cheaper type; the slower one takes the rest of the time.
            if slow > 0.0 && slow < target && cheap < dear && slow < fast {
                let share = (target - slow) / (fast - slow);
                let cost = cheap + (dear - cheap) * share;
                let slope = (dear - cheap) / (fast - slow);
                if better(cost, slope, &best) {
                    best = CheapestMix { cost, slope, first: (j, share), second: (i, 1.0 - share) };
                }
            }
        }
    }
    best.cost.is_finite().then_some(best)
}

/// Total cost, its derivative in θ, and GPU usage of all jobs.
struct Expenditure {
    cost: f64,
    slope: f64,
    usage: Vec<f64>,
}

/// State of a column: the θ and prices it was computed for.
#[derive(Debug, Clone)]
pub(crate) struct LevelState {
    theta: f64,
    prices: Vec<f64>,
}

/// Subproblem of the decomposition.
struct LevelProblem<'a, T> {
    problem: &'a Problem,
    target: &'a T,
}

impl<T: SpeedTarget> LevelProblem<'_, T> {
    fn expenditure(&self, theta: f64, prices: &[f64]) -> Expenditure {
        let problem = self.problem;
        let mut spent = Expenditure { cost: 0.0, slope: 0.0, usage: vec![0.0; problem.k] };
        for m in 0..problem.n {
            let (target, rate) = self.target.at(m, theta);
            if let Some(mix) = cheapest_mix(problem.row(m), prices, target.clamp(0.0, problem.fastest[m])) {
                let gpus = problem.gpus[m];
                spent.cost += gpus * mix.cost;
                spent.slope += gpus * mix.slope * rate;
                spent.usage[mix.first.0] += gpus * mix.first.1;
                spent.usage[mix.second.0] += gpus * mix.second.1;
            }
        }
        spent
    }
}

impl<T: SpeedTarget> Subproblem for LevelProblem<'_, T> {
    type State = LevelState;

    fn respond(
        &mut self,
        prices: &[f64],
        lower: f64,
        upper: f64,
    ) -> (Vec<Response<LevelState>>, Option<Bound>) {
        let capacity = &self.problem.capacity;
        let mut prices = prices.to_vec();
        // Without prices every speed is free and nothing bounds θ: start from prices that value all types alike.
        if prices.iter().all(|p| *p == 0.0) {
            prices = capacity.iter().map(|c| 1.0 / c.max(1.0)).collect();
        }
        let worth: f64 = prices.iter().zip(capacity).map(|(p, c)| p * c).sum();
        let (mut theta, mut columns, mut bound) = (upper, Vec::new(), None::<Bound>);
        // Newton's method on the expenditure, which is convex in θ: every tangent gives an upper bound, and from above
        // the iterates stay at or above the root. Where targets bend so sharply that it hardly moves, it bisects.
        for _ in 0..8 {
            let spent = self.expenditure(theta, &prices);
            let (over, slope) = (spent.cost - worth, spent.slope);
            columns.push(Response {
                state: LevelState { theta, prices: prices.clone() },
                value: theta,
                usage: spent.usage,
            });
            if slope <= 0.0 {
                break;
            }
            let next = theta - over / slope;
            if bound.as_ref().is_none_or(|bound| next < bound.value) && next < upper {
                bound = Some(Bound { value: next, prices: prices.iter().map(|p| p / slope).collect() });
            }
            let best = bound.as_ref().map_or(upper, |bound| bound.value);
            if over.abs() <= 1e-3 * worth || best <= lower || theta == upper && over < 0.0 {
                break;
            }
            let slow = over > 0.1 * worth && theta - next < 0.5 * (theta - lower);
            theta = if slow { 0.5 * (lower + best) } else { best };
        }
        (columns, bound)
    }

    fn respond_at_bound(&mut self, at: &LevelState, upper: f64) -> Option<Response<LevelState>> {
        let spent = self.expenditure(upper, &at.prices);
        Some(Response {
            state: LevelState { theta: upper, prices: at.prices.clone() },
            value: upper,
            usage: spent.usage,
        })
    }
}

/// Largest θ, the shares that reach it and the prices that prove it.
#[derive(Debug, Clone)]
pub(crate) struct LevelSolution {
    pub(crate) theta: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    /// Dual prices; all zero where only the jobs' own speeds limit θ.
    pub(crate) prices: Vec<f64>,
    /// Prices to start from when a similar problem is solved next.
    pub(crate) hints: Vec<Vec<f64>>,
}

/// Start of the maximisation: a θ already reached, and shares that reach it.
pub(crate) struct LevelStart<'a> {
    pub(crate) theta: f64,
    pub(crate) shares: Option<&'a [f64]>,
    pub(crate) hints: Vec<Vec<f64>>,
}

impl LevelStart<'static> {
    /// Start from θ = 0.
    pub(crate) fn none() -> Self {
        Self { theta: 0.0, shares: None, hints: Vec::new() }
    }
}

/// Maximises θ from `start`, up to `highest`, where some job runs at its top speed.
pub(crate) fn maximise_level<T: SpeedTarget>(
    problem: &Problem,
    target: &T,
    start: LevelStart<'_>,
    highest: f64,
    gap: f64,
    stop_early: impl Fn(f64, f64) -> bool,
) -> LevelSolution {
    let none = vec![0.0; problem.k];
    let used = start.shares.map_or_else(|| none.clone(), |x| problem.usage(x));
    let input = MasterInput {
        capacity: &problem.capacity,
        seed: (start.theta, &used),
        upper: highest.max(start.theta),
        prices: start.hints,
        gap,
    };
    let mix = decompose(input, &mut LevelProblem { problem, target }, stop_early);
    let mut shares = shares_of(problem, target, &mix, start.shares);
    problem.trim(&mut shares);
    LevelSolution {
        theta: mix.value,
        bound: mix.bound,
        shares,
        prices: mix.prices.unwrap_or(none),
        hints: mix.parts.into_iter().map(|(_, at)| at.prices).collect(),
    }
}

/// Shares of a convex combination of responses.
fn shares_of<T: SpeedTarget>(
    problem: &Problem,
    target: &T,
    mix: &ConvexCombination<LevelState>,
    seed: Option<&[f64]>,
) -> Vec<f64> {
    let k = problem.k;
    let mut shares = vec![0.0; problem.n * k];
    if let Some(seed) = seed.filter(|_| mix.seed > 0.0) {
        shares.iter_mut().zip(seed).for_each(|(x, s)| *x += mix.seed * s);
    }
    for (weight, at) in &mix.parts {
        for m in 0..problem.n {
            let wanted = target.at(m, at.theta).0.clamp(0.0, problem.fastest[m]);
            if let Some(types) = cheapest_mix(problem.row(m), &at.prices, wanted) {
                shares[m * k + types.first.0] += weight * types.first.1;
                shares[m * k + types.second.0] += weight * types.second.1;
            }
        }
    }
    shares
}
