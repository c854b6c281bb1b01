//! The rising problem behind every min-max goal: raise one number θ as far as the cluster allows, where job m must run
//! at least as fast as its target at θ. At given prices a job's cheapest way to its target is one type, or two with
//! its time used up; what all of them then spend, against what the cluster is worth, says whether θ is within reach.

use crate::decompose::{Answered, Bound, Mix, Respond, Start, decompose};
use crate::problem::Problem;

/// What a job must reach at θ: convex and not falling in θ.
pub(crate) trait Target {
    /// The speed job `m` must reach at `theta`, and how fast that grows.
    fn at(&self, m: usize, theta: f64) -> (f64, f64);
}

/// Targets b·θ.
pub(crate) struct Scaled(pub(crate) Vec<f64>);

impl Target for Scaled {
    fn at(&self, m: usize, theta: f64) -> (f64, f64) {
        (self.0[m] * theta, self.0[m])
    }
}

/// A job's cheapest way to a speed, for one GPU: one type for part of its time, or two for all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cheapest {
    pub(crate) cost: f64,
    /// What the next bit of speed costs.
    pub(crate) slope: f64,
    pub(crate) first: (usize, f64),
    pub(crate) second: (usize, f64),
}

/// Room for rounding when a job needs exactly all its time on a type.
const REACH: f64 = 1.0 + 1e-12;

/// The cheapest way to `target`, or `None` where the job cannot run that fast. Where the cost has a kink the slope is
/// the one below it.
#[inline]
pub(crate) fn cheapest(speed: &[f64], prices: &[f64], target: f64) -> Option<Cheapest> {
    let mut best = Cheapest { cost: f64::INFINITY, slope: 0.0, first: (0, 0.0), second: (0, 0.0) };
    let better = |cost: f64, slope: f64, best: &Cheapest| {
        cost < best.cost * (1.0 - 1e-14) || cost <= best.cost * (1.0 + 1e-14) && slope > best.slope
    };
    for (j, (&fast, &dear)) in speed.iter().zip(prices).enumerate() {
        if fast <= 0.0 || fast * REACH < target {
            continue;
        }
        // Past the kink by rounding is at it; there every mix costs the same, and the steepest is the one below it.
        let target = target.min(fast);
        let slope = dear / fast;
        if better(slope * target, slope, &best) {
            best = Cheapest { cost: slope * target, slope, first: (j, target / fast), second: (j, 0.0) };
        }
        for (i, (&slow, &cheap)) in speed.iter().zip(prices).enumerate() {
            if slow > 0.0 && slow < target && cheap < dear && slow < fast {
                let share = (target - slow) / (fast - slow);
                let cost = cheap + (dear - cheap) * share;
                let slope = (dear - cheap) / (fast - slow);
                if better(cost, slope, &best) {
                    best = Cheapest { cost, slope, first: (j, share), second: (i, 1.0 - share) };
                }
            }
        }
    }
    best.cost.is_finite().then_some(best)
}

/// What all jobs together spend and use at θ.
struct Spent {
    cost: f64,
    slope: f64,
    usage: Vec<f64>,
}

/// The answer to prices at one θ.
#[derive(Debug, Clone)]
pub(crate) struct At {
    theta: f64,
    prices: Vec<f64>,
}

struct Rising<'a, T> {
    problem: &'a Problem,
    target: &'a T,
}

impl<T: Target> Rising<'_, T> {
    fn spend(&self, theta: f64, prices: &[f64]) -> Spent {
        let problem = self.problem;
        let mut spent = Spent { cost: 0.0, slope: 0.0, usage: vec![0.0; problem.k] };
        for m in 0..problem.n {
            let (target, rate) = self.target.at(m, theta);
            if let Some(way) = cheapest(problem.row(m), prices, target.clamp(0.0, problem.fastest[m])) {
                let gpus = problem.gpus[m];
                spent.cost += gpus * way.cost;
                spent.slope += gpus * way.slope * rate;
                spent.usage[way.first.0] += gpus * way.first.1;
                spent.usage[way.second.0] += gpus * way.second.1;
            }
        }
        spent
    }
}

impl<T: Target> Respond for Rising<'_, T> {
    type State = At;

    fn respond(&mut self, prices: &[f64], lower: f64, upper: f64) -> (Vec<Answered<At>>, Option<Bound>) {
        let capacity = &self.problem.capacity;
        let mut prices = prices.to_vec();
        if prices.iter().all(|p| *p == 0.0) {
            prices = capacity.iter().map(|c| 1.0 / c.max(1.0)).collect();
        }
        let worth: f64 = prices.iter().zip(capacity).map(|(p, c)| p * c).sum();
        let (mut theta, mut columns, mut bound) = (upper, Vec::new(), None::<Bound>);
        // Newton's method: the spending is convex in θ, so its tangent anywhere gives a bound. From above it lands at
        // or above the root; where the targets bend so sharply that it hardly moves, the middle is asked instead.
        for _ in 0..8 {
            let spent = self.spend(theta, &prices);
            let (over, slope) = (spent.cost - worth, spent.slope);
            columns.push(Answered {
                state: At { theta, prices: prices.clone() },
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

    fn again(&mut self, at: &At, upper: f64) -> Option<Answered<At>> {
        let spent = self.spend(upper, &at.prices);
        Some(Answered {
            state: At { theta: upper, prices: at.prices.clone() },
            value: upper,
            usage: spent.usage,
        })
    }
}

/// How high θ went, by which shares, and what stopped it.
#[derive(Debug, Clone)]
pub(crate) struct Risen {
    pub(crate) theta: f64,
    pub(crate) bound: f64,
    pub(crate) shares: Vec<f64>,
    /// The prices that prove it; all zero where nothing but the jobs' own speed stopped it.
    pub(crate) prices: Vec<f64>,
    /// Prices worth asking first when a like problem is solved next.
    pub(crate) hints: Vec<Vec<f64>>,
}

/// Where a rise starts: a θ already reached and the shares that do.
pub(crate) struct From<'a> {
    pub(crate) theta: f64,
    pub(crate) shares: Option<&'a [f64]>,
    pub(crate) hints: Vec<Vec<f64>>,
}

impl From<'static> {
    /// From nothing at all.
    pub(crate) fn nothing() -> Self {
        Self { theta: 0.0, shares: None, hints: Vec::new() }
    }
}

/// Raises θ from where it is, at most to `highest`, where some job can go no faster whatever it is given.
pub(crate) fn rise<T: Target>(
    problem: &Problem,
    target: &T,
    from: From<'_>,
    highest: f64,
    gap: f64,
    enough: impl Fn(f64, f64) -> bool,
) -> Risen {
    let nothing = vec![0.0; problem.k];
    let used = from.shares.map_or_else(|| nothing.clone(), |x| problem.usage(x));
    let start = Start {
        capacity: &problem.capacity,
        seed: (from.theta, &used),
        upper: highest.max(from.theta),
        prices: from.hints,
        gap,
    };
    let mix = decompose(start, &mut Rising { problem, target }, enough);
    let mut shares = write_out(problem, target, &mix, from.shares);
    problem.trim(&mut shares);
    Risen {
        theta: mix.value,
        bound: mix.bound,
        shares,
        prices: mix.prices.unwrap_or(nothing),
        hints: mix.parts.into_iter().map(|(_, at)| at.prices).collect(),
    }
}

fn write_out<T: Target>(problem: &Problem, target: &T, mix: &Mix<At>, seed: Option<&[f64]>) -> Vec<f64> {
    let k = problem.k;
    let mut shares = vec![0.0; problem.n * k];
    if let Some(seed) = seed.filter(|_| mix.seed > 0.0) {
        shares.iter_mut().zip(seed).for_each(|(x, s)| *x += mix.seed * s);
    }
    for (weight, at) in &mix.parts {
        for m in 0..problem.n {
            let wanted = target.at(m, at.theta).0.clamp(0.0, problem.fastest[m]);
            if let Some(way) = cheapest(problem.row(m), &at.prices, wanted) {
                shares[m * k + way.first.0] += weight * way.first.1;
                shares[m * k + way.second.0] += weight * way.second.1;
            }
        }
    }
    shares
}
