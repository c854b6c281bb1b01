//! Progressive filling: all levels rise together at rates a tree of entities sets, until some job can rise no more;
//! it stops, its weight goes to its siblings, and the rest goes on. A job stopped only by its own speed is foreseen
//! (`tree` says when), and when a type runs out everyone's further rise is bounded by what the types left can do; so
//! what must be solved for is where types run out, once per type at most, whatever the number of jobs.

mod tree;

pub(crate) use tree::{Course, Place, Tree};

use crate::answer::Stage;
use crate::goal::SolveError;
use crate::problem::Problem;
use crate::rise::{From, Risen, Scaled, cheapest, rise};

/// What a stopped job gives back, so that the next stage starts from inside what is feasible.
const SLACK: f64 = 1e-9;
/// The part of what it could reach below which a level is rounding.
const CRUMB: f64 = 1e-6;
/// Gap to which a stage is solved.
const GAP: f64 = 1e-13;
/// The part of its targets that will do where rounding leaves open whether a place can be reached.
const NEARLY: f64 = 1.0 - 1e-6;

/// How finely places are told apart.
#[derive(Debug, Clone, Copy)]
struct Care {
    /// The part of its targets to which a place must be reached.
    reached: f64,
    /// The part of its targets below which a place is out of reach for more than the slack of those stopped before, so
    /// that the prices that show it say something about those who still rise.
    out_of_reach: f64,
}

/// What is tried one after the other, until nobody was stopped without prices that say so: one in ten thousand small
/// random instances has a stage that ends within rounding of another.
const CARES: [Care; 3] = [
    Care { reached: 1.0 - 1e-9, out_of_reach: 1.0 - 2e-9 },
    Care { reached: 1.0 - 2e-9, out_of_reach: 1.0 - 1e-8 },
    Care { reached: 1.0 - 1e-8, out_of_reach: 1.0 - 5e-8 },
];

/// A filling brought to its end.
#[derive(Debug, Clone)]
pub(crate) struct Filled {
    pub(crate) shares: Vec<f64>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) stopped: Vec<Option<usize>>,
}

struct Filling<'a> {
    problem: &'a Problem,
    tree: Tree,
    /// The level each job can reach at most: by its own speed, or because it was stopped there.
    caps: Vec<f64>,
    /// Shares under which everyone has the level the tree says.
    shares: Vec<f64>,
    hints: Vec<Vec<f64>>,
    care: Care,
    /// Whether someone was stopped though no prices said so.
    guessed: bool,
}

/// Fills the tree until nobody can rise.
pub(crate) fn fill(problem: &Problem, tree: &Tree) -> Result<Filled, SolveError> {
    let mut last = Err(SolveError::NoProgress);
    for care in CARES {
        match fill_with(problem, tree.clone(), care) {
            Ok((filled, false)) => return Ok(filled),
            Ok((filled, true)) => last = Ok(filled),
            Err(error) => last = last.or(Err(error)),
        }
    }
    last
}

/// Fills the tree; says also whether it had to guess.
fn fill_with(problem: &Problem, tree: Tree, care: Care) -> Result<(Filled, bool), SolveError> {
    let caps = (0..problem.n).map(|m| problem.fastest[m] * problem.level_per_step(m)).collect();
    let shares = vec![0.0; problem.n * problem.k];
    let mut filling = Filling { problem, tree, caps, shares, hints: Vec::new(), care, guessed: false };
    let (mut stages, mut stopped) = (Vec::new(), vec![None; problem.n]);
    // Every stage stops a job, so this ends.
    loop {
        let course = filling.tree.course(&filling.caps);
        let end = filling.furthest(&course)?;
        let Some(prices) = end.prices else {
            return Ok((Filled { shares: end.shares, stages, stopped }, filling.guessed));
        };
        let per_gpu = filling.further_per_gpu(&course, end.at, &prices);
        filling.shares = end.shares;
        filling.tree.advance(&course, end.at);
        let levels = filling.tree.levels(&filling.caps);
        let rates = course.rates_at(end.at.piece, &filling.tree, &filling.caps);
        for (m, cap) in filling.ceilings(&prices, &levels, &rates)? {
            filling.caps[m] = cap;
            stopped[m] = Some(stages.len());
        }
        stages.push(Stage { prices: per_gpu, speeds: filling.speeds(&levels), jobs: None });
        filling.tree.settle(&filling.caps);
    }
}

/// How closely to look at a place: until it is ruled out, or until it is known how much of it can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Decide,
    Settle,
}

const START: Place = Place { piece: 0, offset: 0.0 };

/// Where a course ends, shares that reach it, and the prices that end it there; none where it runs to its end.
struct End {
    at: Place,
    shares: Vec<f64>,
    prices: Option<Vec<f64>>,
}

impl Filling<'_> {
    fn speeds(&self, levels: &[f64]) -> Vec<f64> {
        levels.iter().enumerate().map(|(m, level)| level / self.problem.level_per_step(m)).collect()
    }

    fn speeds_at(&self, course: &Course, at: Place) -> Vec<f64> {
        self.speeds(&course.levels_at(at, &self.tree, &self.caps))
    }

    /// The furthest place on the course that the cluster can reach. Starts from its end; prices that show a place to
    /// be out of reach also say how far one has to go back at least.
    fn furthest(&mut self, course: &Course) -> Result<End, SolveError> {
        let mut at = Place { piece: course.pieces(), offset: 0.0 };
        let (mut prices, mut effort, mut gap) = (None, Effort::Decide, 1.0);
        for _ in 0..100 {
            let target = self.speeds_at(course, at);
            let mut risen = self.reaches(&target, effort);
            // The start is reached by what came before, whatever rounding says.
            if at == START && risen.theta < self.care.reached {
                let before = self.part_reached(&self.shares, &target);
                if before > risen.theta {
                    (risen.theta, risen.shares) = (before, self.shares.clone());
                }
            }
            gap = 1.0 - risen.theta;
            self.hints = risen.hints;
            let open = risen.theta >= NEARLY && risen.bound >= self.care.reached;
            if risen.theta >= self.care.reached || open || at == START {
                let prices = prices.filter(|_| at.piece < course.pieces());
                return Ok(End { at, shares: risen.shares, prices });
            }
            let next = self.last_affordable(course, at, &risen.prices);
            prices = Some(risen.prices);
            if next == at && risen.theta >= NEARLY {
                return Ok(End { at, shares: risen.shares, prices });
            }
            // Prices that rule a place out and yet afford it are a rounding away from deciding.
            effort = if next == at { Effort::Settle } else { Effort::Decide };
            at = next;
        }
        Err(SolveError::Stuck { gap })
    }

    /// The last place before `beyond` that these prices do not rule out.
    fn last_affordable(&self, course: &Course, beyond: Place, prices: &[f64]) -> Place {
        let worth: f64 = prices.iter().zip(&self.problem.capacity).map(|(p, c)| p * c).sum();
        // Jobs at full speed often fill a type to the last GPU: that is spent, not overspent.
        let worth = worth * (1.0 + 1e-12);
        let whole = |piece: usize| Place { piece, offset: 0.0 };
        let (mut low, mut high) = (0, beyond.piece + usize::from(beyond.offset > 0.0));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.spent(course, whole(middle), prices).0 <= worth { low = middle } else { high = middle }
        }
        // Within a piece the spending is convex: Newton from above comes down to the root and stays above it.
        let mut offset = if low == beyond.piece { beyond.offset } else { course.length(low) };
        for _ in 0..100 {
            let (cost, slope) = self.spent(course, Place { piece: low, offset }, prices);
            let next = offset - (cost - worth) / slope;
            if slope <= 0.0 || next >= offset {
                break;
            }
            offset = next.max(0.0);
        }
        // Within rounding of the next piece is there: whoever has just reached his cap is not the one to stop.
        if offset >= course.length(low) * (1.0 - 1e-12) {
            whole(low + 1)
        } else {
            Place { piece: low, offset }
        }
    }

    /// What everyone's speed costs at a place, and how fast that grows.
    fn spent(&self, course: &Course, at: Place, prices: &[f64]) -> (f64, f64) {
        let problem = self.problem;
        let rates = self.speeds(&course.rates_at(at.piece, &self.tree, &self.caps));
        let (mut cost, mut slope) = (0.0, 0.0);
        for (m, speed) in self.speeds_at(course, at).into_iter().enumerate() {
            if let Some(way) = cheapest(problem.row(m), prices, speed.min(problem.fastest[m])) {
                cost += problem.gpus[m] * way.cost;
                slope += problem.gpus[m] * way.slope * rates[m];
            }
        }
        (cost, slope)
    }

    /// How much further along the course a GPU of each type more would carry everyone: the same prices, in that measure.
    fn further_per_gpu(&self, course: &Course, at: Place, prices: &[f64]) -> Vec<f64> {
        let (_, slope) = self.spent(course, at, prices);
        let measure = if slope > 0.0 { 1.0 / slope } else { 1.0 };
        prices.iter().map(|price| price * measure).collect()
    }

    /// How much of the target speeds can be reached, as a factor.
    fn reaches(&self, target: &[f64], effort: Effort) -> Risen {
        let factor =
            |m: usize| if target[m] > 0.0 { self.problem.fastest[m] / target[m] } else { f64::INFINITY };
        let highest = (0..self.problem.n).map(factor).fold(2.0, f64::min);
        let from = From { theta: 0.0, shares: None, hints: self.hints.clone() };
        rise(self.problem, &Scaled(target.to_vec()), from, highest, GAP, |low, high| {
            low >= 1.0 || effort == Effort::Decide && high < self.care.out_of_reach
        })
    }

    /// The part of its target that the worst-off job reaches.
    fn part_reached(&self, shares: &[f64], target: &[f64]) -> f64 {
        let part = |m: usize| self.problem.throughput(m, shares) / target[m];
        (0..self.problem.n).filter(|&m| target[m] > 0.0).map(part).fold(f64::INFINITY, f64::min)
    }

    /// How far each job can still rise now that all money is spent: as far as types without a price carry it. Types with
    /// one are used up for good, and whoever uses them cannot rise at all.
    fn ceilings(
        &mut self,
        prices: &[f64],
        levels: &[f64],
        rates: &[f64],
    ) -> Result<Vec<(usize, f64)>, SolveError> {
        let problem = self.problem;
        let worth: f64 = prices.iter().zip(&problem.capacity).map(|(p, c)| p * c).sum();
        let free: Vec<bool> =
            prices.iter().zip(&problem.capacity).map(|(p, c)| p * c <= 1e-9 * worth).collect();
        let mut ceilings = Vec::new();
        let (mut someone, mut tightest) = (false, None::<(f64, usize)>);
        for m in (0..problem.n).filter(|&m| levels[m] < self.caps[m] * (1.0 - 1e-12)) {
            let speeds = problem.row(m).iter().zip(&free).filter(|(_, free)| **free);
            let reach = speeds.map(|(speed, _)| *speed).fold(0.0, f64::max) * problem.level_per_step(m);
            let room = self.caps[m].min(reach) / levels[m].max(1e-300);
            if rates[m] > 0.0 && tightest.is_none_or(|(least, _)| room < least) {
                tightest = Some((room, m));
            }
            if reach < self.caps[m] * (1.0 - 1e-12) {
                let halted = levels[m] >= reach * (1.0 - 1e-9);
                someone |= halted && rates[m] > 0.0;
                ceilings.push((m, if halted { self.halt(m, levels[m]) } else { reach }));
            }
        }
        if !someone && ceilings.is_empty() {
            // Rounding hides whom the prices stop: it must be whoever has least room.
            let (_, m) = tightest.ok_or(SolveError::NoProgress)?;
            self.guessed = true;
            ceilings.push((m, self.halt(m, levels[m])));
        }
        Ok(ceilings)
    }

    /// The cap of a job stopped at a level. A crumb of the slack is no level: it would only make the next stages
    /// ill-conditioned.
    fn halt(&self, m: usize, level: f64) -> f64 {
        if level <= CRUMB * self.caps[m] { 0.0 } else { level * (1.0 - SLACK) }
    }
}
