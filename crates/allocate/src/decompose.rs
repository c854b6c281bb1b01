//! Dantzig-Wolfe decomposition (1960). Jobs are coupled only by the few GPU types, so the problem is solved through
//! prices of the types: at given prices every job responds by itself; the summed responses are columns of a master
//! problem with one row per type, whose duals are the next prices. Every response also gives an upper bound, so the
//! loop knows its gap and stops when it is closed. No columns are stored per job: a column keeps the prices it
//! responded to, and is recomputed when shares are written out.

use crate::lp::{Column, Simplex, SimplexFailure};

/// Response of all jobs to one set of prices, summed.
#[derive(Debug, Clone)]
pub(crate) struct Response<S> {
    /// Prices (and θ) it responds to, from which it can be recomputed.
    pub(crate) state: S,
    pub(crate) value: f64,
    pub(crate) usage: Vec<f64>,
}

/// Upper bound on the optimum and the prices that prove it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) prices: Vec<f64>,
}

/// Pricing subproblem: all jobs' best response to prices.
pub(crate) trait Subproblem {
    type State: Clone;
    /// New columns for these prices, and the best upper bound they give, if any. The optimum lies in `lower..=upper`.
    fn respond(
        &mut self,
        prices: &[f64],
        lower: f64,
        upper: f64,
    ) -> (Vec<Response<Self::State>>, Option<Bound>);

    /// The response for the same prices at the bound `upper`; `None` where the response does not depend on it.
    fn respond_at_bound(&mut self, _state: &Self::State, _upper: f64) -> Option<Response<Self::State>> {
        None
    }
}

/// Feasible convex combination of responses.
#[derive(Debug, Clone)]
pub(crate) struct ConvexCombination<S> {
    /// Responses and their weights; the seed has the weight missing to 1.
    pub(crate) parts: Vec<(f64, S)>,
    pub(crate) seed: f64,
    pub(crate) value: f64,
    pub(crate) bound: f64,
    /// Prices that prove `bound`, unless it was given from the start.
    pub(crate) prices: Option<Vec<f64>>,
}

const MAX_ROUNDS: usize = 1000;
/// Rounds without progress before giving up: prices may wander along a flat face for a while.
const MAX_STALLED_ROUNDS: usize = 40;

/// Start and stopping condition of the loop.
pub(crate) struct MasterInput<'a> {
    /// Capacity of each resource.
    pub(crate) capacity: &'a [f64],
    /// Feasible point: its value and usage.
    pub(crate) seed: (f64, &'a [f64]),
    /// Upper bound known beforehand.
    pub(crate) upper: f64,
    /// Prices to try first.
    pub(crate) prices: Vec<Vec<f64>>,
    /// Relative gap at which the optimum counts as found.
    pub(crate) gap: f64,
}

/// Gap (or number of stalled rounds) from which columns are recomputed for the bound reached. Columns computed for
/// slightly different bounds are nearly parallel, and a basis of them is nearly singular.
const POLISH_GAP: f64 = 1e-6;
const STALLED_ROUNDS: usize = 5;

/// Runs column generation. `stop_early(lower, upper)` may end it.
pub(crate) fn decompose<R: Subproblem>(
    start: MasterInput<'_>,
    subproblem: &mut R,
    stop_early: impl Fn(f64, f64) -> bool,
) -> ConvexCombination<R::State> {
    let mut master = Master::new(start.capacity, start.seed);
    let (mut lower, mut upper) = (start.seed.0, start.upper);
    let mut proof = None;
    let mut initial_prices = start.prices.into_iter();
    let (mut stalled, mut polishing) = (0, false);
    for _ in 0..MAX_ROUNDS {
        let gap = (upper - lower) / upper.abs().max(lower.abs());
        if upper == lower || gap <= start.gap || stop_early(lower, upper) {
            break;
        }
        let prices = initial_prices.next();
        let initial = prices.is_some();
        let prices = prices.unwrap_or_else(|| master.prices());
        let (mut columns, bound) = subproblem.respond(&prices, lower, upper);
        let before = (lower, upper);
        // The bound is the least so far; its prices become the certificate. A bound equal to the given one is taken as
        // well, because only it has prices.
        if let Some(bound) =
            bound.filter(|bound| bound.value < upper || proof.is_none() && bound.value <= upper)
        {
            upper = bound.value;
            proof = Some(bound.prices);
        }
        // Near the optimum extra columns would only be nearly parallel to each other.
        let polish = polishing || gap <= POLISH_GAP || stalled >= STALLED_ROUNDS;
        if polish {
            columns.truncate(1);
        }
        columns.into_iter().for_each(|response| master.add(response));
        // While polishing, all columns refer to one bound: whenever it drops they are recomputed.
        if polish && (!polishing || upper < before.1) {
            polishing = true;
            master.rebuild(subproblem, upper);
        }
        let solved = master.solve();
        // Recomputed columns may be worth less than the ones they replace, so while polishing the value can fall.
        lower = if polishing { master.value() } else { lower.max(master.value()) };
        let idle = upper == before.1 && lower <= before.0 && !initial;
        stalled = if idle || solved.is_err() { stalled + 1 } else { 0 };
        if stalled > MAX_STALLED_ROUNDS {
            break;
        }
    }
    let (parts, seed) = master.into_parts();
    ConvexCombination { parts, seed, value: lower, bound: upper.max(lower), prices: proof }
}

/// Master problem: one row per resource and one for the weights, relative to the seed.
struct Master<'a, S> {
    capacity: &'a [f64],
    seed: (f64, &'a [f64]),
    simplex: Simplex,
    states: Vec<S>,
}

impl<'a, S: Clone> Master<'a, S> {
    fn new(capacity: &'a [f64], seed: (f64, &'a [f64])) -> Self {
        Self { capacity, seed, simplex: Self::empty(capacity, seed.1), states: Vec::new() }
    }

    fn empty(capacity: &[f64], used: &[f64]) -> Simplex {
        Simplex::new(capacity.iter().zip(used).map(|(c, u)| (c - u).max(0.0)).chain([1.0]).collect())
    }

    fn add(&mut self, response: Response<S>) {
        let rows = self.capacity.len();
        // Relative to the seed a column uses the difference in usage, so that no weight at all is the seed itself.
        let entries = response.usage.iter().zip(self.seed.1).map(|(a, u)| a - u).chain([1.0]).enumerate();
        let entries = entries.filter(|(_, a)| *a != 0.0).collect();
        debug_assert_eq!(response.usage.len(), rows);
        self.simplex.add(Column { gain: response.value - self.seed.0, entries });
        self.states.push(response.state);
    }

    fn solve(&mut self) -> Result<(), SimplexFailure> {
        self.simplex.solve()?;
        self.simplex.refactor();
        Ok(())
    }

    fn value(&self) -> f64 {
        self.seed.0 + self.simplex.objective() * self.simplex.feasible_fraction()
    }

    fn prices(&self) -> Vec<f64> {
        let mut prices = self.simplex.prices();
        prices.truncate(self.capacity.len());
        prices.iter_mut().for_each(|p| *p = p.max(0.0));
        prices
    }

    /// Rebuilds the master problem from the basic and the latest columns, recomputed for `upper`.
    fn rebuild<R: Subproblem<State = S>>(&mut self, subproblem: &mut R, upper: f64) {
        let weights = self.simplex.solution();
        let recent = self.states.len().saturating_sub(2 * self.capacity.len());
        let kept = weights.iter().zip(&self.states).enumerate();
        let kept: Vec<S> = kept
            .filter(|(i, (weight, _))| *i >= recent || **weight > 0.0)
            .map(|(_, (_, s))| s.clone())
            .collect();
        let columns: Option<Vec<_>> =
            kept.iter().map(|state| subproblem.respond_at_bound(state, upper)).collect();
        if let Some(columns) = columns {
            self.simplex = Self::empty(self.capacity, self.seed.1);
            self.states.clear();
            columns.into_iter().for_each(|response| self.add(response));
        }
    }

    fn into_parts(self) -> (Vec<(f64, S)>, f64) {
        let (weights, feasible_fraction) = (self.simplex.solution(), self.simplex.feasible_fraction());
        let weights = weights.into_iter().map(|weight| weight * feasible_fraction);
        let parts: Vec<_> = weights.zip(self.states).filter(|(weight, _)| *weight > 0.0).collect();
        let seed = (1.0 - parts.iter().map(|(weight, _)| weight).sum::<f64>()).max(0.0);
        (parts, seed)
    }
}
