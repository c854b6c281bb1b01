//! Workloads made from a seed: the same seed gives the same jobs on every machine.

use super::{TraceJob, TraceTask};
use crate::random::Random;
use warpyard_core::spec::{AfterNode, DependencyCondition, Preempt};

/// How long jobs run, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// 10 to a power evenly drawn from this range.
    LogUniform {
        /// The smallest exponent.
        from: f64,
        /// The largest.
        to: f64,
    },
    /// The logarithm is normal.
    LogNormal {
        /// Half of them are shorter than this.
        median: f64,
        /// The deviation of the natural logarithm.
        deviation: f64,
    },
    /// Drawn from these.
    Empirical(Vec<f64>),
}

/// What a user says of a run time: it times a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimate {
    /// Nothing.
    Nothing,
    /// The truth.
    Exact,
    /// The factor is evenly drawn from this range.
    Even {
        /// The smallest factor.
        from: f64,
        /// The largest.
        to: f64,
    },
    /// The logarithm of the factor is normal.
    LogNormal {
        /// Half of the factors are smaller than this.
        median: f64,
        /// The deviation of the natural logarithm.
        deviation: f64,
    },
}

/// What the tasks of a job wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// One after another.
    Chain,
    /// One, then many at once, then one.
    ForkJoin,
    /// Each waits for one before it, and for each of the seven before that one with this probability.
    Random(f64),
}

/// Jobs of several tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graphs {
    /// What they look like.
    pub shape: Shape,
    /// The fewest tasks of one.
    pub fewest: u32,
    /// The most.
    pub most: u32,
    /// How many jobs of all are of several tasks, from 0 to 1.
    pub share: f64,
}

/// What a workload is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// How many jobs there are.
    pub jobs: u64,
    /// The mean time between two submissions in seconds, exponential; 0 submits all at once.
    pub gap: f64,
    /// How many jobs are submitted at a time.
    pub batch: u64,
    /// How long they run.
    pub lengths: Lengths,
    /// How many GPUs they want, each with its weight.
    pub gpus: Vec<(u16, f64)>,
    /// How much memory of each GPU, with weights; none is the whole of it.
    pub gpu_memory: Vec<(Option<u64>, f64)>,
    /// Which type of GPU, with weights; none is any.
    pub gpu_types: Vec<(Option<String>, f64)>,
    /// What they promise to run at most.
    pub timeouts: Estimate,
    /// What their users guess they run.
    pub guesses: Estimate,
    /// Priorities from 0 up to below this, evenly drawn.
    pub priorities: u64,
    /// How many users there are.
    pub users: u64,
    /// How tasks may be made to give way.
    pub preempt: Preempt,
    /// Under which name their speeds are known, with weights; none is under none.
    pub profiles: Vec<(Option<String>, f64)>,
    /// How many steps they do in a second of their running time, where they count steps.
    pub steps_per_second: Option<f64>,
    /// Their weights where time is shared out, each with its own weight; 1 is not written down.
    pub weights: Vec<(f64, f64)>,
    /// Until when they should have ended, as a factor of how long they run.
    pub deadlines: Estimate,
    /// Jobs of several tasks.
    pub graphs: Option<Graphs>,
}

impl Default for Generator {
    fn default() -> Generator {
        Generator {
            jobs: 1000,
            gap: 25.0,
            batch: 1,
            lengths: Lengths::LogUniform { from: 1.0, to: 3.0 },
            gpus: vec![(1, 1.0)],
            gpu_memory: vec![(None, 1.0)],
            gpu_types: vec![(None, 1.0)],
            timeouts: Estimate::Exact,
            guesses: Estimate::Nothing,
            priorities: 1,
            users: 1,
            preempt: Preempt::None,
            profiles: vec![(None, 1.0)],
            steps_per_second: None,
            weights: vec![(1.0, 1.0)],
            deadlines: Estimate::Nothing,
            graphs: None,
        }
    }
}

/// What sets the second sequence of a seed apart from the first.
const APART: u64 = 0x5DEE_CE66_D1CE_4E5B;

impl Generator {
    /// The jobs, in order of submission.
    pub fn generate(self, seed: u64) -> impl Iterator<Item = TraceJob> {
        // What was always drawn comes from one sequence and the rest from another, so that asking for more changes
        // nothing of what was there before.
        let (mut random, mut more) = (Random::new(seed), Random::new(seed ^ APART));
        let mut at = 0.0;
        (0..self.jobs).map(move |number| {
            if self.gap > 0.0 && number % self.batch.max(1) == 0 {
                at += random.exponential(self.gap);
            }
            let first = self.task(&mut random, &mut more);
            let priority = random.below(self.priorities.max(1)) as i64;
            let user = format!("user{}", random.below(self.users.max(1)) + 1);
            let mut job = TraceJob::single(at, priority, user, first);
            job.weight = drawn(&self.weights, &mut more).filter(|weight| *weight != 1.0);
            if self.deadlines != Estimate::Nothing {
                let unit = more.unit();
                job.deadline = self.deadlines.draw(job.tasks[0].runs, unit, &mut more);
            }
            if let Some(graphs) = self.graphs.filter(|graphs| more.unit() < graphs.share) {
                self.grow(&mut job, number, graphs, &mut more);
            }
            job
        })
    }

    fn task(&self, random: &mut Random, more: &mut Random) -> TraceTask {
        let runs = self.lengths.draw(random);
        let gpus = *weighted(&self.gpus, random.unit()).unwrap_or(&1);
        let timeout = self.timeouts.draw(runs, random.unit(), more);
        let guess = if self.guesses == Estimate::Nothing { 0.0 } else { more.unit() };
        TraceTask {
            runs,
            timeout,
            expected: self.guesses.draw(runs, guess, more),
            gpus,
            gpu_memory: drawn(&self.gpu_memory, more).flatten(),
            gpu_types: drawn(&self.gpu_types, more).flatten().into_iter().collect(),
            preempt: self.preempt,
            profile: drawn(&self.profiles, more).flatten(),
            steps: self.steps_per_second.map(|pace| (runs * pace).round().max(1.0) as u64),
            ..TraceTask::default()
        }
    }

    /// Makes a job of one task a job of several.
    fn grow(&self, job: &mut TraceJob, number: u64, graphs: Graphs, more: &mut Random) {
        let (fewest, most) = (graphs.fewest.max(1), graphs.most.max(graphs.fewest).max(1));
        let tasks = fewest + more.below(u64::from(most - fewest) + 1) as u32;
        job.id = format!("job{number}");
        job.tasks[0].name = "t0".into();
        for node in 1..tasks {
            let mut drawn = more.clone();
            let task = self.task(&mut drawn, more);
            *more = Random::new(more.bits() ^ drawn.bits());
            let after = graphs.shape.waits_for(node, tasks, more);
            let after =
                after.into_iter().map(|node| AfterNode { node, on: DependencyCondition::Ok }).collect();
            job.tasks.push(TraceTask { name: format!("t{node}"), after, ..task });
        }
    }
}

impl Lengths {
    fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Lengths::LogUniform { from, to } => 10f64.powf(from + (to - from) * random.unit()),
            Lengths::LogNormal { median, deviation } => median * (deviation * random.normal()).exp(),
            Lengths::Empirical(of) => of.get(random.below(of.len() as u64) as usize).copied().unwrap_or(0.0),
        }
    }
}

impl Estimate {
    fn draw(self, runs: f64, unit: f64, more: &mut Random) -> Option<f64> {
        let factor = match self {
            Estimate::Nothing => return None,
            Estimate::Exact => 1.0,
            Estimate::Even { from, to } => from + (to - from) * unit,
            Estimate::LogNormal { median, deviation } => median * (deviation * more.normal()).exp(),
        };
        Some(runs * factor)
    }
}

impl Shape {
    fn waits_for(self, node: u32, tasks: u32, more: &mut Random) -> Vec<u32> {
        match self {
            Shape::Chain => vec![node - 1],
            Shape::ForkJoin if node + 1 == tasks && tasks > 2 => (1..node).collect(),
            Shape::ForkJoin => vec![0],
            Shape::Random(edges) => {
                let near = node.min(8);
                let one = node - 1 - more.below(u64::from(near)) as u32;
                (node - near..node).filter(|other| *other == one || more.unit() < edges).collect()
            }
        }
    }
}

/// One of these, by weight; nothing is drawn where there is no choice.
fn drawn<T: Clone>(of: &[(T, f64)], more: &mut Random) -> Option<T> {
    match of {
        [(only, _)] => Some(only.clone()),
        _ => weighted(of, more.unit()).cloned(),
    }
}

fn weighted<T>(of: &[(T, f64)], at: f64) -> Option<&T> {
    let total: f64 = of.iter().map(|(_, weight)| weight).sum();
    let mut left = at * total;
    for (value, weight) in of {
        left -= weight;
        if left < 0.0 {
            return Some(value);
        }
    }
    of.last().map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(generator: Generator) -> Vec<TraceJob> {
        generator.generate(7).collect()
    }

    #[test]
    fn asking_for_more_changes_nothing_of_what_was_there() {
        let plain = all(Generator { jobs: 50, users: 3, ..Generator::default() });
        let more = all(Generator {
            jobs: 50,
            users: 3,
            guesses: Estimate::LogNormal { median: 1.0, deviation: 1.0 },
            gpu_memory: vec![(Some(1 << 30), 1.0), (None, 1.0)],
            gpu_types: vec![(Some("V100".into()), 1.0), (None, 3.0)],
            profiles: vec![(Some("resnet".into()), 1.0), (Some("bert".into()), 1.0)],
            steps_per_second: Some(2.0),
            weights: vec![(1.0, 1.0), (4.0, 1.0)],
            deadlines: Estimate::Even { from: 1.5, to: 3.0 },
            ..Generator::default()
        });
        let of = |jobs: &[TraceJob]| {
            jobs.iter().map(|j| (j.submitted, j.user.clone(), j.tasks[0].runs)).collect::<Vec<_>>()
        };
        assert_eq!(of(&plain), of(&more));
        let shared = more.iter().filter(|job| job.tasks[0].gpu_memory.is_some()).count();
        assert!((15..35).contains(&shared), "about half of 50: {shared}");
        let weighty = more.iter().filter(|job| job.weight == Some(4.0)).count();
        assert!((15..35).contains(&weighty), "about half of 50: {weighty}");
        for job in &more {
            let (task, deadline) = (&job.tasks[0], job.deadline.unwrap());
            assert!(task.profile.is_some() && (1.5..=3.0).contains(&(deadline / task.runs)));
            assert_eq!(task.steps, Some((2.0 * task.runs).round() as u64));
        }
    }

    #[test]
    fn batches_come_together() {
        let jobs = all(Generator { jobs: 9, batch: 3, ..Generator::default() });
        let moments: Vec<f64> = jobs.iter().map(|job| job.submitted).collect();
        for batch in moments.chunks(3) {
            assert!(batch.iter().all(|at| *at == batch[0]), "{moments:?}");
        }
        assert!(moments[0] < moments[3] && moments[3] < moments[6]);
    }

    #[test]
    fn graphs_have_the_shape_asked_for() {
        let of = |shape| {
            let graphs = Some(Graphs { shape, fewest: 4, most: 6, share: 1.0 });
            all(Generator { jobs: 40, graphs, ..Generator::default() })
        };
        for job in of(Shape::Chain) {
            assert!((4..=6).contains(&job.tasks.len()));
            assert!(job.tasks.iter().enumerate().skip(1).all(|(i, t)| t.after[0].node as usize == i - 1));
        }
        for job in of(Shape::ForkJoin) {
            assert_eq!(job.tasks.last().unwrap().after.len(), job.tasks.len() - 2);
        }
        for job in of(Shape::Random(0.3)) {
            assert!(job.tasks.iter().skip(1).all(|task| !task.after.is_empty()));
        }
    }

    #[test]
    fn wrong_estimates_are_wrong_by_as_much_as_asked() {
        let timeouts = Estimate::LogNormal { median: 2.0, deviation: 0.5 };
        let jobs = all(Generator { jobs: 400, timeouts, ..Generator::default() });
        let mut factors: Vec<f64> =
            jobs.iter().map(|j| j.tasks[0].timeout.unwrap() / j.tasks[0].runs).collect();
        factors.sort_by(f64::total_cmp);
        assert!((1.8..2.2).contains(&factors[200]), "half below 2: {}", factors[200]);
        assert!(factors[0] < 1.0, "some promise too little");
        let none = all(Generator { jobs: 3, timeouts: Estimate::Nothing, ..Generator::default() });
        assert!(none.iter().all(|job| job.tasks[0].timeout.is_none()));
    }
}
