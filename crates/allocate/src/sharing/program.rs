//! Linear program over job classes: a row per type, one for the time of each class and, where speeds are demanded, one
//! for the speed of each class; a column for each class and each useful pair of classes on each type.

use std::collections::HashMap;

use super::PairSpeeds;
use crate::goal::SolveError;
use crate::instance::Instance;
use crate::lp::{Column, Simplex};
use crate::problem::Problem;

/// Jobs that are alike.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// Their places.
    pub(super) jobs: Vec<usize>,
    pub(super) gpus: f64,
}

/// A way to run: a class alone or two together, on a type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) classes: [usize; 2],
    /// Whether it is two jobs.
    pub(super) pair: bool,
    pub(super) gpu_type: usize,
    /// Steps a second of each.
    pub(super) speeds: [f64; 2],
}

impl Way {
    /// The classes and speeds of the jobs in it.
    pub(super) fn members(&self) -> impl Iterator<Item = (usize, f64)> + use<> {
        let Self { classes, speeds, pair, .. } = *self;
        classes.into_iter().zip(speeds).take(1 + usize::from(pair))
    }
}

/// Classes and the ways they can run.
#[derive(Debug, Clone)]
pub(super) struct Ways {
    pub(super) classes: Vec<Class>,
    pub(super) ways: Vec<Way>,
    pub(super) capacity: Vec<f64>,
}

impl Ways {
    /// Groups the jobs that are alike in profile, width, speeds and whatever `also` says of them.
    pub(super) fn new(
        instance: &Instance,
        problem: &Problem,
        also: impl Fn(usize) -> f64,
    ) -> Result<Self, SolveError> {
        if instance.pairs.is_none() {
            return Err(SolveError::MissingPairs);
        }
        let mut places: HashMap<(Option<&str>, Vec<u64>), usize> = HashMap::new();
        let mut classes: Vec<Class> = Vec::new();
        for (m, job) in instance.jobs.iter().enumerate() {
            let numbers =
                problem.row(m).iter().chain([&problem.gpus[m], &also(m)]).map(|x| x.to_bits()).collect();
            let class = *places.entry((job.profile.as_deref(), numbers)).or_insert(classes.len());
            if class == classes.len() {
                classes.push(Class { jobs: Vec::new(), gpus: problem.gpus[m] });
            }
            classes[class].jobs.push(m);
        }
        let mut all = Self { classes, ways: Vec::new(), capacity: problem.capacity.clone() };
        all.find_ways(instance, problem);
        Ok(all)
    }

    fn find_ways(&mut self, instance: &Instance, problem: &Problem) {
        let partners = PairSpeeds::new(instance);
        for (a, one) in self.classes.iter().enumerate() {
            let row = problem.row(one.jobs[0]);
            for j in (0..problem.k).filter(|&j| row[j] > 0.0) {
                self.ways.push(Way { classes: [a, a], pair: false, gpu_type: j, speeds: [row[j], 0.0] });
            }
            for (b, other) in self.classes.iter().enumerate().skip(a) {
                if a == b && one.jobs.len() < 2 {
                    continue;
                }
                let second = problem.row(other.jobs[0]);
                for j in 0..problem.k {
                    let jobs = (&instance.jobs[one.jobs[0]], &instance.jobs[other.jobs[0]]);
                    let Some(speeds) = partners.paired(jobs.0, jobs.1, j) else { continue };
                    // A goal that does not know types sees the same part of the speed it takes the job to have.
                    let speeds = [
                        speeds[0] * (row[j] / jobs.0.throughputs[j]),
                        speeds[1] * (second[j] / jobs.1.throughputs[j]),
                    ];
                    // A pair that together does no more than its members in turn is no use.
                    if speeds[0] / row[j] + speeds[1] / second[j] > 1.0 + 1e-12 {
                        self.ways.push(Way { classes: [a, b], pair: true, gpu_type: j, speeds });
                    }
                }
            }
        }
    }

    fn time_row(&self, class: usize) -> usize {
        self.capacity.len() + class
    }

    fn speed_row(&self, class: usize) -> usize {
        self.capacity.len() + self.classes.len() + class
    }

    /// The program without anything to gain: GPUs and time are limited, and each class's `speeds` row holds minus what
    /// it does, in units of `unit` per job.
    pub(super) fn program(&self, units: Option<&[f64]>) -> Simplex {
        let jobs = self.classes.iter().map(|class| class.jobs.len() as f64);
        let rhs = self.capacity.iter().copied().chain(jobs);
        let speeds = units.map_or(0, <[f64]>::len);
        let mut program = Simplex::new(rhs.chain(std::iter::repeat_n(0.0, speeds)).collect());
        for way in &self.ways {
            let mut entries = vec![(way.gpu_type, self.classes[way.classes[0]].gpus)];
            for (class, speed) in way.members() {
                entries.push((self.time_row(class), 1.0));
                if let Some(units) = units {
                    entries.push((self.speed_row(class), -speed / units[class]));
                }
            }
            program.add(Column { gain: 0.0, entries });
        }
        program
    }

    /// The largest factor by which every class can reach its target speed per job at once, the program that does, and
    /// its prices.
    pub(super) fn scale(&self, targets: &[f64]) -> Result<Scaled, SolveError> {
        // In units of what each class can do alone, and with the hardest target all of that, the factor and every row are
        // of the order of 1, and so are the tolerances of the simplex: a target next to nothing is not held less firmly.
        let mut fastest = vec![0.0_f64; self.classes.len()];
        for way in self.ways.iter().filter(|way| !way.pair) {
            fastest[way.classes[0]] = fastest[way.classes[0]].max(way.speeds[0]);
        }
        let hardest =
            targets.iter().zip(&fastest).map(|(target, fastest)| target / fastest).fold(0.0, f64::max);
        let measure = if hardest > 0.0 { 1.0 / hardest } else { 1.0 };
        let mut program = self.program(Some(&fastest));
        let wanted = self.classes.iter().enumerate().filter(|(c, _)| targets[*c] > 0.0);
        let part = |c: usize| targets[c] * measure / fastest[c];
        let entries =
            wanted.map(|(c, class)| (self.speed_row(c), class.jobs.len() as f64 * part(c))).collect();
        let theta = program.add(Column { gain: 1.0, entries });
        program.solve().map_err(|_| SolveError::NoProgress)?;
        let prices = program.prices();
        let value = program.objective();
        // Then as much as can be got besides: everyone's speed in units of its own target.
        program.restrict_to_optimal_face();
        let mut solution = program.solution();
        // Where some targets are next to nothing the simplex may not see the end of that; in units of what everyone could
        // do alone it does. Either only breaks ties: what was found first will do.
        let units = targets.iter().map(|t| if *t > 0.0 { t * measure } else { 1.0 }).collect();
        for units in [&units, &fastest] {
            let speed = |way: &Way| way.members().map(|(class, speed)| speed / units[class]).sum::<f64>();
            program.set_gains(|i| if i == theta { 0.0 } else { speed(&self.ways[i]) });
            if program.solve().is_ok() {
                solution = program.solution();
                break;
            }
        }
        let mut duals = self.duals(&prices, Some(&fastest));
        let all = duals.types.iter_mut().chain(&mut duals.time).chain(&mut duals.speed);
        all.for_each(|price| *price *= measure);
        Ok(Scaled { value: value * measure, solution, duals })
    }

    /// Sorts a program's prices by what they are of.
    pub(super) fn duals(&self, prices: &[f64], units: Option<&[f64]>) -> Duals {
        let (k, c) = (self.capacity.len(), self.classes.len());
        let positive = |p: &f64| p.max(0.0);
        Duals {
            types: prices[..k].iter().map(positive).collect(),
            time: prices[k..k + c].iter().map(positive).collect(),
            speed: units.map_or_else(
                || vec![0.0; c],
                |units| prices[k + c..].iter().zip(units).map(|(p, unit)| p.max(0.0) / unit).collect(),
            ),
        }
    }

    /// The speed per job of each class.
    pub(super) fn speeds(&self, solution: &[f64]) -> Vec<f64> {
        let mut speeds = vec![0.0; self.classes.len()];
        for (way, time) in self.ways.iter().zip(solution) {
            way.members().for_each(|(class, speed)| speeds[class] += time * speed);
        }
        speeds.iter_mut().zip(&self.classes).for_each(|(speed, class)| *speed /= class.jobs.len() as f64);
        speeds
    }
}

/// What [`Ways::scale`] found.
pub(super) struct Scaled {
    pub(super) value: f64,
    pub(super) solution: Vec<f64>,
    pub(super) duals: Duals,
}

/// Prices of the types, of each class's time, and of a step a second of each class.
#[derive(Debug, Clone)]
pub(super) struct Duals {
    pub(super) types: Vec<f64>,
    pub(super) time: Vec<f64>,
    pub(super) speed: Vec<f64>,
}
