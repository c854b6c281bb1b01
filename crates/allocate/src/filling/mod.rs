//! Progressive filling (water-filling): all levels rise together at rates set by a tree of entities until some job
//! cannot rise further; it stops, its weight passes to its siblings, and the others continue. Stops at a job's own top
//! speed are known in advance (the trajectory in `tree`); when a type runs out, every further rise is limited to the
//! types left. So only the points where types run out are solved for, at most one per type, whatever the number of
//! jobs.

mod tree;

pub(crate) use tree::{Trajectory, TrajectoryPoint, Tree};

use crate::goal::SolveError;
use crate::max_level::{LevelSolution, LevelStart, LinearTarget, cheapest_mix, maximise_level};
use crate::problem::Problem;
use crate::solution::Stage;

/// Fraction of its level a stopped job gives back, so that the next stage starts strictly inside the feasible region.
const SLACK: f64 = 1e-9;
/// Fraction of its cap below which a level is rounding.
const NEGLIGIBLE: f64 = 1e-6;
/// Relative gap to which a stage is solved.
const STAGE_GAP: f64 = 1e-13;
/// Fraction of its targets that suffices where rounding leaves open whether a point can be reached.
const NEARLY_REACHED: f64 = 1.0 - 1e-6;

/// Tolerances for whether a point can be reached.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    /// Fraction of its targets from which a point counts as reached.
    reached: f64,
    /// Fraction of its targets below which a point is out of reach by more than the slack of stopped jobs, so that the
    /// prices that prove it concern jobs that still rise.
    out_of_reach: f64,
}

/// Tolerances tried in order until no job is stopped without prices that prove it: about one in ten thousand small
/// random instances has a stage that ends within rounding of another.
const TOLERANCES: [Tolerance; 3] = [
    Tolerance { reached: 1.0 - 1e-9, out_of_reach: 1.0 - 2e-9 },
    Tolerance { reached: 1.0 - 2e-9, out_of_reach: 1.0 - 1e-8 },
    Tolerance { reached: 1.0 - 1e-8, out_of_reach: 1.0 - 5e-8 },
];

/// Completed filling.
#[derive(Debug, Clone)]
pub(crate) struct FillingResult {
    pub(crate) shares: Vec<f64>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) stopped: Vec<Option<usize>>,
}

/// Filling in progress.
struct Filling<'a> {
    problem: &'a Problem,
    tree: Tree,
    /// Highest level of each job: by its own speed, or where it was stopped.
    caps: Vec<f64>,
    /// Shares that realise the tree's current levels.
    shares: Vec<f64>,
    hints: Vec<Vec<f64>>,
    tolerance: Tolerance,
    /// Whether a job was stopped without prices that prove it.
    guessed: bool,
}

/// Fills the tree until no job can rise.
pub(crate) fn fill(problem: &Problem, tree: &Tree) -> Result<FillingResult, SolveError> {
    let mut last = Err(SolveError::NoProgress);
    for tolerance in TOLERANCES {
        match fill_with(problem, tree.clone(), tolerance) {
            Ok((result, false)) => return Ok(result),
            Ok((result, true)) => last = Ok(result),
            Err(error) => last = last.or(Err(error)),
        }
    }
    last
}

/// Fills the tree with one tolerance; returns also whether it had to guess.
fn fill_with(
    problem: &Problem,
    tree: Tree,
    tolerance: Tolerance,
) -> Result<(FillingResult, bool), SolveError> {
    let caps = (0..problem.n).map(|m| problem.fastest[m] * problem.level_per_step(m)).collect();
    let shares = vec![0.0; problem.n * problem.k];
    let mut filling = Filling { problem, tree, caps, shares, hints: Vec::new(), tolerance, guessed: false };
    let (mut stages, mut stopped) = (Vec::new(), vec![None; problem.n]);
    // Every stage stops a job, so this terminates.
    loop {
        let trajectory = filling.tree.trajectory(&filling.caps);
        let end = filling.furthest_point(&trajectory)?;
        let Some(prices) = end.prices else {
            return Ok((FillingResult { shares: end.shares, stages, stopped }, filling.guessed));
        };
        let per_gpu = filling.progress_per_gpu(&trajectory, end.at, &prices);
        filling.shares = end.shares;
        filling.tree.advance(&trajectory, end.at);
        let levels = filling.tree.levels(&filling.caps);
        let rates = trajectory.rates_at(end.at.segment, &filling.tree, &filling.caps);
        for (m, cap) in filling.level_caps(&prices, &levels, &rates)? {
            filling.caps[m] = cap;
            stopped[m] = Some(stages.len());
        }
        stages.push(Stage { prices: per_gpu, speeds: filling.speeds(&levels), jobs: None });
        filling.tree.pass_turns(&filling.caps);
    }
}

/// How closely to examine a point: until it is ruled out, or until the reachable fraction has converged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Decide,
    Converge,
}

const START: TrajectoryPoint = TrajectoryPoint { segment: 0, offset: 0.0 };

/// Furthest feasible point of a trajectory, shares that reach it, and the prices that rule out going further; `None`
/// where it is the end.
struct TrajectoryEnd {
    at: TrajectoryPoint,
    shares: Vec<f64>,
    prices: Option<Vec<f64>>,
}

impl Filling<'_> {
    fn speeds(&self, levels: &[f64]) -> Vec<f64> {
        levels.iter().enumerate().map(|(m, level)| level / self.problem.level_per_step(m)).collect()
    }

    fn speeds_at(&self, trajectory: &Trajectory, at: TrajectoryPoint) -> Vec<f64> {
        self.speeds(&trajectory.levels_at(at, &self.tree, &self.caps))
    }

    /// Furthest point of the trajectory that the cluster can reach. Starts from its end: prices that prove a point out
    /// of reach also say how far back the next candidate must be.
    fn furthest_point(&mut self, trajectory: &Trajectory) -> Result<TrajectoryEnd, SolveError> {
        let mut at = TrajectoryPoint { segment: trajectory.segments(), offset: 0.0 };
        let (mut prices, mut effort, mut gap) = (None, Effort::Decide, 1.0);
        for _ in 0..100 {
            let target = self.speeds_at(trajectory, at);
            let mut solved = self.reachable_fraction(&target, effort);
            // The start was reached by the previous stage, whatever rounding says.
            if at == START && solved.theta < self.tolerance.reached {
                let before = self.reached_fraction(&self.shares, &target);
                if before > solved.theta {
                    (solved.theta, solved.shares) = (before, self.shares.clone());
                }
            }
            gap = 1.0 - solved.theta;
            self.hints = solved.hints;
            // Neither reached nor ruled out: within rounding of the boundary counts as reached.
            let open = solved.theta >= NEARLY_REACHED && solved.bound >= self.tolerance.reached;
            if solved.theta >= self.tolerance.reached || open || at == START {
                let prices = prices.filter(|_| at.segment < trajectory.segments());
                return Ok(TrajectoryEnd { at, shares: solved.shares, prices });
            }
            let next = self.last_affordable_point(trajectory, at, &solved.prices);
            prices = Some(solved.prices);
            if next == at && solved.theta >= NEARLY_REACHED {
                return Ok(TrajectoryEnd { at, shares: solved.shares, prices });
            }
            // Prices that rule out a point and yet afford it are within rounding of a decision: converge instead of
            // stopping early.
            effort = if next == at { Effort::Converge } else { Effort::Decide };
            at = next;
        }
        Err(SolveError::GapTooLarge { gap })
    }

    /// Last point before `beyond` that these prices do not rule out: bisection over segments, then Newton within one.
    fn last_affordable_point(
        &self,
        trajectory: &Trajectory,
        beyond: TrajectoryPoint,
        prices: &[f64],
    ) -> TrajectoryPoint {
        let budget: f64 = prices.iter().zip(&self.problem.capacity).map(|(p, c)| p * c).sum();
        // Jobs at top speed often use a type to the last GPU: that is affordable.
        let budget = budget * (1.0 + 1e-12);
        let whole = |segment: usize| TrajectoryPoint { segment, offset: 0.0 };
        let (mut low, mut high) = (0, beyond.segment + usize::from(beyond.offset > 0.0));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.expenditure(trajectory, whole(middle), prices).0 <= budget {
                low = middle
            } else {
                high = middle
            }
        }
        // Within a segment the expenditure is convex: Newton from above descends to the root and stays above it.
        let mut offset = if low == beyond.segment { beyond.offset } else { trajectory.length(low) };
        for _ in 0..100 {
            let (cost, slope) =
                self.expenditure(trajectory, TrajectoryPoint { segment: low, offset }, prices);
            let next = offset - (cost - budget) / slope;
            if slope <= 0.0 || next >= offset {
                break;
            }
            offset = next.max(0.0);
        }
        // Within rounding of the next segment counts as there: a job that has just reached its cap is not the one
        // stopped by prices.
        if offset >= trajectory.length(low) * (1.0 - 1e-12) {
            whole(low + 1)
        } else {
            TrajectoryPoint { segment: low, offset }
        }
    }

    /// Cost of all jobs' speeds at a point, and its derivative.
    fn expenditure(&self, trajectory: &Trajectory, at: TrajectoryPoint, prices: &[f64]) -> (f64, f64) {
        let problem = self.problem;
        let rates = self.speeds(&trajectory.rates_at(at.segment, &self.tree, &self.caps));
        let (mut cost, mut slope) = (0.0, 0.0);
        for (m, speed) in self.speeds_at(trajectory, at).into_iter().enumerate() {
            if let Some(mix) = cheapest_mix(problem.row(m), prices, speed.min(problem.fastest[m])) {
                cost += problem.gpus[m] * mix.cost;
                slope += problem.gpus[m] * mix.slope * rates[m];
            }
        }
        (cost, slope)
    }

    /// Prices converted to progress along the trajectory per additional GPU of each type.
    fn progress_per_gpu(&self, trajectory: &Trajectory, at: TrajectoryPoint, prices: &[f64]) -> Vec<f64> {
        let (_, slope) = self.expenditure(trajectory, at, prices);
        let measure = if slope > 0.0 { 1.0 / slope } else { 1.0 };
        prices.iter().map(|price| price * measure).collect()
    }

    /// Largest fraction of the target speeds that all jobs can reach at once.
    fn reachable_fraction(&self, target: &[f64], effort: Effort) -> LevelSolution {
        let factor =
            |m: usize| if target[m] > 0.0 { self.problem.fastest[m] / target[m] } else { f64::INFINITY };
        let highest = (0..self.problem.n).map(factor).fold(2.0, f64::min);
        let from = LevelStart { theta: 0.0, shares: None, hints: self.hints.clone() };
        maximise_level(self.problem, &LinearTarget(target.to_vec()), from, highest, STAGE_GAP, |low, high| {
            low >= 1.0 || effort == Effort::Decide && high < self.tolerance.out_of_reach
        })
    }

    /// Fraction of its target that the worst-off job reaches under `shares`.
    fn reached_fraction(&self, shares: &[f64], target: &[f64]) -> f64 {
        let part = |m: usize| self.problem.throughput(m, shares) / target[m];
        (0..self.problem.n).filter(|&m| target[m] > 0.0).map(part).fold(f64::INFINITY, f64::min)
    }

    /// Remaining reach of each job once the budget is spent: the level that types without a price can carry it to.
    /// Types with a price are exhausted for good, so jobs that depend on them cannot rise at all.
    fn level_caps(
        &mut self,
        prices: &[f64],
        levels: &[f64],
        rates: &[f64],
    ) -> Result<Vec<(usize, f64)>, SolveError> {
        let problem = self.problem;
        let budget: f64 = prices.iter().zip(&problem.capacity).map(|(p, c)| p * c).sum();
        // Complementary slackness: a type with a positive price is fully used in every optimum.
        let free: Vec<bool> =
            prices.iter().zip(&problem.capacity).map(|(p, c)| p * c <= 1e-9 * budget).collect();
        let mut level_caps = Vec::new();
        let (mut any_stops, mut tightest) = (false, None::<(f64, usize)>);
        for m in (0..problem.n).filter(|&m| levels[m] < self.caps[m] * (1.0 - 1e-12)) {
            let speeds = problem.row(m).iter().zip(&free).filter(|(_, free)| **free);
            let reach = speeds.map(|(speed, _)| *speed).fold(0.0, f64::max) * problem.level_per_step(m);
            let room = self.caps[m].min(reach) / levels[m].max(1e-300);
            if rates[m] > 0.0 && tightest.is_none_or(|(least, _)| room < least) {
                tightest = Some((room, m));
            }
            if reach < self.caps[m] * (1.0 - 1e-12) {
                let stops = levels[m] >= reach * (1.0 - 1e-9);
                any_stops |= stops && rates[m] > 0.0;
                level_caps.push((m, if stops { self.stopped_cap(m, levels[m]) } else { reach }));
            }
        }
        if !any_stops && level_caps.is_empty() {
            // Rounding hides which job the prices stop: it must be the one with the least room.
            let (_, m) = tightest.ok_or(SolveError::NoProgress)?;
            self.guessed = true;
            level_caps.push((m, self.stopped_cap(m, levels[m])));
        }
        Ok(level_caps)
    }

    /// Cap of a job stopped at a level. A negligible level becomes 0: it would only make the next stages
    /// ill-conditioned.
    fn stopped_cap(&self, m: usize, level: f64) -> f64 {
        if level <= NEGLIGIBLE * self.caps[m] { 0.0 } else { level * (1.0 - SLACK) }
    }
}
