//! Progressive filling of an entity tree with GPU sharing: the trajectory is that of the tree, as without sharing, and
//! the furthest feasible point is found by linear programs over classes, whose prices say how far back to go.

use super::program::{Duals, Scaled, Ways};
use super::spread::Spread;
use crate::filling::{Trajectory, TrajectoryPoint, Tree};
use crate::goal::SolveError;
use crate::instance::Instance;
use crate::problem::Problem;
use crate::solution::{Certificate, Solution, Stage};

/// The part of its targets to which a place must be reached.
const REACHED: f64 = 1.0 - 1e-9;
/// What a stopped job gives back, so that the next stage starts from inside what is feasible.
const SLACK: f64 = 1e-10;
/// The part of what it could reach below which a level is rounding.
const CRUMB: f64 = 1e-6;
/// The part of what is dearest below which a worth is rounding.
const DEAR: f64 = 1e-7;

struct Filling<'a> {
    problem: &'a Problem,
    ways: Ways,
    tree: Tree,
    /// The level each job can reach at most: by its own speed, or because it was stopped there.
    caps: Vec<f64>,
}

/// Where a course ends, how that is reached, and the prices that end it there; none where it runs to its end.
struct End {
    at: TrajectoryPoint,
    scaled: Scaled,
    stopped_by: Option<Duals>,
}

pub(crate) fn hierarchical(
    instance: &Instance,
    problem: &Problem,
    tree: Tree,
) -> Result<Solution, SolveError> {
    let kin = tree.level_classes(problem.n);
    let ways = Ways::new(instance, problem, |m| kin[m] as f64)?;
    let caps = (0..problem.n).map(|m| problem.fastest[m] * problem.level_per_step(m)).collect();
    let top = tree.top_entities();
    let mut filling = Filling { problem, ways, tree, caps };
    let (mut stages, mut stopped) = (Vec::new(), vec![None; problem.n]);
    // How much further the filling would go per GPU, by what stops the first.
    let mut per_gpu = None;
    // Every stage stops a job, so this ends.
    let last = loop {
        let course = filling.tree.trajectory(&filling.caps);
        let end = filling.furthest(&course)?;
        let Some(duals) = end.stopped_by else { break end.scaled };
        filling.tree.advance(&course, end.at);
        let levels = filling.tree.levels(&filling.caps);
        let rates = course.rates_at(end.at.segment, &filling.tree, &filling.caps);
        for m in filling.halted(&duals, &levels, &rates)? {
            // A crumb of the slack is no level: it would only make the next stages ill-conditioned.
            let crumb = levels[m] <= CRUMB * filling.caps[m];
            filling.caps[m] = if crumb { 0.0 } else { levels[m] * (1.0 - SLACK) };
            stopped[m] = Some(stages.len());
        }
        let rising = filling.speeds(&rates);
        let worth = |(class, worth): (&super::program::Class, &f64)| {
            class.jobs.len() as f64 * worth * rising[class.jobs[0]]
        };
        per_gpu.get_or_insert_with(|| {
            let slope: f64 = filling.ways.classes.iter().zip(&duals.speed).map(worth).sum();
            let measure = if slope > 0.0 { 1.0 / slope } else { 1.0 };
            duals.types.iter().map(|price| price * measure).collect::<Vec<f64>>()
        });
        let speeds = filling.speeds(&levels);
        stages.push(Stage {
            prices: duals.types.clone(),
            speeds,
            jobs: Some(filling.ways.worth(&duals, problem.n)),
        });
        filling.tree.pass_turns(&filling.caps);
    };
    let nothing = |n: usize| vec![0.0; n];
    let together: f64 = top.iter().filter(|(_, jobs)| !jobs.is_empty()).map(|(weight, _)| weight).sum();
    let per_gpu = per_gpu.unwrap_or_else(|| nothing(problem.k));
    let types = per_gpu.iter().map(|price| price / together).collect();
    let classes = filling.ways.classes.len();
    let duals = Duals { types, time: nothing(classes), speed: nothing(classes) };
    let spread = Spread::new(&filling.ways, &last.solution, problem);
    let mut answer = spread.answer(instance, problem, &filling.ways, &duals, 0.0);
    let level = |m: &usize| answer.normalised[*m] * problem.gpus[*m];
    let of = |(weight, jobs): &(f64, Vec<usize>)| jobs.iter().map(level).sum::<f64>() / weight;
    let objective = top.iter().filter(|(_, jobs)| !jobs.is_empty()).map(of).fold(f64::INFINITY, f64::min);
    let binding = (0..problem.n).filter(|&m| stopped[m] == Some(0)).collect();
    answer.bottleneck = crate::goals::bottleneck(binding, &answer.prices, objective);
    Ok(Solution { objective, certificate: Certificate::Stages { stages, stopped }, ..answer })
}

impl Filling<'_> {
    fn speeds(&self, levels: &[f64]) -> Vec<f64> {
        levels.iter().enumerate().map(|(m, level)| level / self.problem.level_per_step(m)).collect()
    }

    /// The speed of each class at a place of the course; its jobs are kin and have the same.
    fn targets(&self, course: &Trajectory, at: TrajectoryPoint) -> Vec<f64> {
        let speeds = self.speeds(&course.levels_at(at, &self.tree, &self.caps));
        // Targets that are rounding would only make the program ill-conditioned.
        let target = |m: usize| if speeds[m] > CRUMB * self.problem.fastest[m] { speeds[m] } else { 0.0 };
        self.ways.classes.iter().map(|class| target(class.jobs[0])).collect()
    }

    /// What everyone's speed is worth at a place.
    fn worth_at(&self, course: &Trajectory, at: TrajectoryPoint, duals: &Duals) -> f64 {
        let targets = self.targets(course, at);
        let of =
            |(c, target): (usize, &f64)| self.ways.classes[c].jobs.len() as f64 * duals.speed[c] * target;
        targets.iter().enumerate().map(of).sum()
    }

    /// The furthest place on the course that the cluster can reach. Starts from its end; prices that show a place to be out
    /// of reach also say how far one has to go back at least.
    fn furthest(&self, course: &Trajectory) -> Result<End, SolveError> {
        let mut at = TrajectoryPoint { segment: course.segments(), offset: 0.0 };
        let mut stopped_by: Option<Duals> = None;
        for _ in 0..100 {
            let targets = self.targets(course, at);
            let mut scaled = self.ways.scale(&targets)?;
            // Who is not to rise yet may have a price by chance; prices prove as much without it.
            let idle = scaled.duals.speed.iter_mut().zip(&targets).filter(|(_, target)| **target <= 0.0);
            idle.for_each(|(worth, _)| *worth = 0.0);
            let start = at.segment == 0 && at.offset <= 0.0;
            let nobody = targets.iter().all(|target| *target <= 0.0);
            if nobody || start || scaled.value >= REACHED {
                return Ok(End {
                    at,
                    scaled,
                    stopped_by: stopped_by.filter(|_| at.segment < course.segments()),
                });
            }
            let most = scaled.value * self.worth_at(course, at, &scaled.duals);
            let next = self.last_affordable(course, at, &scaled.duals, most);
            stopped_by = Some(scaled.duals.clone());
            if next == at {
                return Ok(End { at, scaled, stopped_by });
            }
            at = next;
        }
        Err(SolveError::NoProgress)
    }

    /// The last place before `beyond` at which everyone's speed is worth no more than this.
    fn last_affordable(
        &self,
        course: &Trajectory,
        beyond: TrajectoryPoint,
        duals: &Duals,
        most: f64,
    ) -> TrajectoryPoint {
        let whole = |segment: usize| TrajectoryPoint { segment, offset: 0.0 };
        let (mut low, mut high) = (0, beyond.segment + usize::from(beyond.offset > 0.0));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.worth_at(course, whole(middle), duals) <= most { low = middle } else { high = middle }
        }
        // Within a piece everything rises evenly.
        let length = if low == beyond.segment { beyond.offset } else { course.length(low) };
        let (from, to) = (
            self.worth_at(course, whole(low), duals),
            self.worth_at(course, TrajectoryPoint { segment: low, offset: length }, duals),
        );
        let part = if to > from { ((most - from) / (to - from)).clamp(0.0, 1.0) } else { 1.0 };
        if low != beyond.segment && part >= 1.0 - 1e-12 {
            return whole(low + 1);
        }
        TrajectoryPoint { segment: low, offset: length * part }
    }

    /// Whom the prices stop: more speed of theirs would be paid for by others.
    fn halted(&self, duals: &Duals, levels: &[f64], rates: &[f64]) -> Result<Vec<usize>, SolveError> {
        let mut class_of = vec![0; self.problem.n];
        for (c, class) in self.ways.classes.iter().enumerate() {
            class.jobs.iter().for_each(|&m| class_of[m] = c);
        }
        let dear = |m: usize| duals.speed[class_of[m]] * self.problem.fastest[m];
        let rises = |m: &usize| levels[*m] < self.caps[*m] * (1.0 - 1e-12);
        let open: Vec<usize> = (0..self.problem.n).filter(rises).collect();
        let dearest = |all: &mut dyn Iterator<Item = &usize>| all.map(|&m| dear(m)).fold(0.0, f64::max);
        // Within rounding of the next piece, it may be whoever rises only there that is stopped, before having begun.
        let dearest = match dearest(&mut open.iter().filter(|&&m| rates[m] > 0.0)) {
            0.0 => dearest(&mut open.iter()),
            rising => rising,
        };
        let halted: Vec<usize> = open.into_iter().filter(|&m| dear(m) > DEAR * dearest).collect();
        if dearest > 0.0 && !halted.is_empty() { Ok(halted) } else { Err(SolveError::NoProgress) }
    }
}
