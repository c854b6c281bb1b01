//! The price method. A problem whose jobs are tied together only by the few GPU types is solved through prices for
//! those types: at given prices every job answers by itself, the answers become columns of a master problem with one
//! row per type, and the master's dual values are the next prices (Dantzig and Wolfe, 1960). Every answer also bounds
//! the optimum from above, so the loop knows how far it is from exact and stops there. Nothing is kept per job and
//! column: a column remembers the prices it answered, and is made again when shares are written out.

use crate::lp::{Column, Simplex, Stuck};

/// All jobs' answers to one set of prices, summed.
#[derive(Debug, Clone)]
pub(crate) struct Answered<S> {
    /// What the answer was given to, so that it can be given again.
    pub(crate) state: S,
    pub(crate) value: f64,
    pub(crate) usage: Vec<f64>,
}

/// An upper bound on the optimum and the prices that prove it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) prices: Vec<f64>,
}

/// Everyone's answer to prices.
pub(crate) trait Respond {
    type State: Clone;
    /// New columns for these prices, and the best bound they give, if any. The optimum is known to lie in
    /// `lower..=upper`.
    fn respond(
        &mut self,
        prices: &[f64],
        lower: f64,
        upper: f64,
    ) -> (Vec<Answered<Self::State>>, Option<Bound>);

    /// The same answer, given as if the optimum were `upper`; `None` where that makes no difference.
    fn again(&mut self, _state: &Self::State, _upper: f64) -> Option<Answered<Self::State>> {
        None
    }
}

/// A mix of answers that is feasible, and how good it is.
#[derive(Debug, Clone)]
pub(crate) struct Mix<S> {
    /// The mixed answers and their weights; what is missing to 1 is the seed's.
    pub(crate) parts: Vec<(f64, S)>,
    pub(crate) seed: f64,
    pub(crate) value: f64,
    pub(crate) bound: f64,
    /// The prices that prove `bound`, where it was not given from the start.
    pub(crate) prices: Option<Vec<f64>>,
}

const ROUNDS: usize = 1000;
/// Rounds without gain after which rounding is all there is to fight: prices may wander along a flat for a while.
const PATIENCE: usize = 40;

/// Where the loop starts and when it may stop.
pub(crate) struct Start<'a> {
    /// What there is of each resource.
    pub(crate) capacity: &'a [f64],
    /// A feasible point: its value and what it uses.
    pub(crate) seed: (f64, &'a [f64]),
    /// A bound known beforehand.
    pub(crate) upper: f64,
    /// Prices worth asking first.
    pub(crate) prices: Vec<Vec<f64>>,
    /// Relative gap at which the optimum counts as found.
    pub(crate) gap: f64,
}

/// The gap at which columns are made anew for the bound reached: answers given to different bounds are all but the same
/// then, and a basis of such columns is all but singular. So many rounds without gain are a sign of that too.
const POLISH: f64 = 1e-6;
const STALLED: usize = 5;

/// Runs the loop. `enough(lower, upper)` may end it early.
pub(crate) fn decompose<R: Respond>(
    start: Start<'_>,
    respond: &mut R,
    enough: impl Fn(f64, f64) -> bool,
) -> Mix<R::State> {
    let mut master = Master::new(start.capacity, start.seed);
    let (mut lower, mut upper) = (start.seed.0, start.upper);
    let mut proof = None;
    let mut asked = start.prices.into_iter();
    let (mut stalled, mut polishing) = (0, false);
    for _ in 0..ROUNDS {
        let gap = (upper - lower) / upper.abs().max(lower.abs());
        if upper == lower || gap <= start.gap || enough(lower, upper) {
            break;
        }
        let prices = asked.next();
        let fresh = prices.is_some();
        let prices = prices.unwrap_or_else(|| master.prices());
        let (mut columns, bound) = respond.respond(&prices, lower, upper);
        let before = (lower, upper);
        if let Some(bound) =
            bound.filter(|bound| bound.value < upper || proof.is_none() && bound.value <= upper)
        {
            upper = bound.value;
            proof = Some(bound.prices);
        }
        let polish = polishing || gap <= POLISH || stalled >= STALLED;
        if polish {
            columns.truncate(1);
        }
        columns.into_iter().for_each(|answered| master.add(answered));
        if polish && (!polishing || upper < before.1) {
            polishing = true;
            master.anew(respond, upper);
        }
        let solved = master.solve();
        lower = if polishing { master.value() } else { lower.max(master.value()) };
        let idle = upper == before.1 && lower <= before.0 && !fresh;
        stalled = if idle || solved.is_err() { stalled + 1 } else { 0 };
        if stalled > PATIENCE {
            break;
        }
    }
    let (parts, seed) = master.into_parts();
    Mix { parts, seed, value: lower, bound: upper.max(lower), prices: proof }
}

/// The master problem: a row per resource and one for the weights; the seed is what they leave.
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

    fn add(&mut self, answered: Answered<S>) {
        let rows = self.capacity.len();
        let entries = answered.usage.iter().zip(self.seed.1).map(|(a, u)| a - u).chain([1.0]).enumerate();
        let entries = entries.filter(|(_, a)| *a != 0.0).collect();
        debug_assert_eq!(answered.usage.len(), rows);
        self.simplex.add(Column { gain: answered.value - self.seed.0, entries });
        self.states.push(answered.state);
    }

    fn solve(&mut self) -> Result<(), Stuck> {
        self.simplex.solve()?;
        self.simplex.refresh();
        Ok(())
    }

    fn value(&self) -> f64 {
        self.seed.0 + self.simplex.objective() * self.simplex.fits()
    }

    fn prices(&self) -> Vec<f64> {
        let mut prices = self.simplex.prices();
        prices.truncate(self.capacity.len());
        prices.iter_mut().for_each(|p| *p = p.max(0.0));
        prices
    }

    /// Starts over with the columns in use and the latest ones, answered for `upper`.
    fn anew<R: Respond<State = S>>(&mut self, respond: &mut R, upper: f64) {
        let weights = self.simplex.solution();
        let recent = self.states.len().saturating_sub(2 * self.capacity.len());
        let kept = weights.iter().zip(&self.states).enumerate();
        let kept: Vec<S> = kept
            .filter(|(i, (weight, _))| *i >= recent || **weight > 0.0)
            .map(|(_, (_, s))| s.clone())
            .collect();
        let columns: Option<Vec<_>> = kept.iter().map(|state| respond.again(state, upper)).collect();
        if let Some(columns) = columns {
            self.simplex = Self::empty(self.capacity, self.seed.1);
            self.states.clear();
            columns.into_iter().for_each(|answered| self.add(answered));
        }
    }

    fn into_parts(self) -> (Vec<(f64, S)>, f64) {
        let (weights, fits) = (self.simplex.solution(), self.simplex.fits());
        let weights = weights.into_iter().map(|weight| weight * fits);
        let parts: Vec<_> = weights.zip(self.states).filter(|(weight, _)| *weight > 0.0).collect();
        let seed = (1.0 - parts.iter().map(|(weight, _)| weight).sum::<f64>()).max(0.0);
        (parts, seed)
    }
}
