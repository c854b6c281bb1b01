//! Goals with GPU sharing, as linear programs over job classes.

use super::program::{Duals, Ways};
use super::spread::Spread;
use crate::goal::SolveError;
use crate::goals::bottleneck;
use crate::goals::cost::{deadline_speed, hourly_costs, shortfalls};
use crate::goals::finish_time::FinishTimes;
use crate::goals::isolated::isolated_shares;
use crate::goals::max_min::speed_per_level;
use crate::goals::remaining_steps;
use crate::instance::Instance;
use crate::lp::Column;
use crate::problem::Problem;
use crate::solution::{Certificate, JobDuals, Solution, Stage};

/// One target per class, of jobs that all have it.
fn per_class(ways: &Ways, target: impl Fn(usize) -> f64) -> Vec<f64> {
    ways.classes.iter().map(|class| target(class.jobs[0])).collect()
}

pub(crate) fn max_min(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let rate = |m: usize| speed_per_level(problem, m);
    let ways = Ways::new(instance, problem, rate)?;
    let scaled = ways.scale(&per_class(&ways, rate))?;
    Ok(Spread::new(&ways, &scaled.solution, problem).answer(
        instance,
        problem,
        &ways,
        &scaled.duals,
        scaled.value,
    ))
}

pub(crate) fn makespan(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let steps = remaining_steps(instance, "makespan")?;
    let ways = Ways::new(instance, problem, |m| steps[m])?;
    let mut scaled = ways.scale(&per_class(&ways, |m| steps[m]))?;
    let makespan = 1.0 / scaled.value;
    scaled.duals.types.iter_mut().for_each(|price| *price *= makespan * makespan);
    let spread = Spread::new(&ways, &scaled.solution, problem);
    let mut answer = spread.answer(instance, problem, &ways, &scaled.duals, makespan);
    // The certificate is in θ = 1/T, and so are its prices per step a second.
    if let Certificate::Jobs { speed, time } = &mut answer.certificate {
        speed.iter_mut().chain(time).for_each(|price| *price *= makespan * makespan);
    }
    Ok(answer)
}

/// Newton's method on the ratio: at a ratio out of reach the prices say what it must grow to at least.
pub(crate) fn finish_time(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let finish = FinishTimes::new(instance, problem, &isolated_shares(problem))?;
    let waiting = || (0..problem.n).filter(|&m| finish.has_steps_left(m));
    let also = |m: usize| finish.steps[m] + 1e-3 * finish.age[m] + 1e-6 * finish.alone[m];
    let ways = Ways::new(instance, problem, also)?;
    let mut ratio = waiting().map(|m| finish.ratio(m, problem.fastest[m])).fold(0.0, f64::max);
    let target = |ratio: f64, m: usize| {
        if finish.has_steps_left(m) {
            finish.steps[m] / (ratio * finish.alone[m] - finish.age[m])
        } else {
            0.0
        }
    };
    for _ in 0..60 {
        let scaled = ways.scale(&per_class(&ways, |m| target(ratio, m)))?;
        if scaled.value >= 1.0 - 1e-10 {
            let slope: f64 = ways
                .classes
                .iter()
                .zip(&scaled.duals.speed)
                .map(|(class, worth)| {
                    let m = class.jobs[0];
                    let left = ratio * finish.alone[m] - finish.age[m];
                    let steep = finish.steps[m] * finish.alone[m] / (left * left);
                    class.jobs.len() as f64 * worth * if finish.has_steps_left(m) { steep } else { 0.0 }
                })
                .sum();
            let mut duals = scaled.duals;
            if slope > 0.0 {
                let prices = duals.types.iter_mut().chain(&mut duals.time).chain(&mut duals.speed);
                prices.for_each(|price| *price /= slope);
            }
            let spread = Spread::new(&ways, &scaled.solution, problem);
            return Ok(spread.answer(instance, problem, &ways, &duals, ratio));
        }
        ratio = grown(&ways, &scaled.duals.speed, scaled.value, ratio, |m, ratio| target(ratio, m));
    }
    Err(SolveError::NoProgress)
}

/// The least ratio at which what everyone must reach, priced, is no more than it was when scaled by `factor`.
fn grown(ways: &Ways, worth: &[f64], factor: f64, ratio: f64, target: impl Fn(usize, f64) -> f64) -> f64 {
    let priced = |ratio: f64| -> f64 {
        let of = |(class, worth): (&super::program::Class, &f64)| {
            class.jobs.len() as f64 * worth * target(class.jobs[0], ratio)
        };
        ways.classes.iter().zip(worth).map(of).sum()
    };
    let most = factor * priced(ratio);
    let (mut low, mut high) = (ratio, 2.0 * ratio);
    while priced(high) > most {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if priced(middle) > most { low = middle } else { high = middle }
    }
    high
}

pub(crate) fn throughput(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let ways = Ways::new(instance, problem, |_| 0.0)?;
    total(instance, problem, &ways, &vec![1.0; problem.k])
}

/// The most value: each way's steps a second over its type's cost.
fn total(instance: &Instance, problem: &Problem, ways: &Ways, costs: &[f64]) -> Result<Solution, SolveError> {
    let mut program = ways.program(None);
    let value =
        |i: usize| ways.ways[i].members().map(|(_, speed)| speed).sum::<f64>() / costs[ways.ways[i].gpu_type];
    program.set_gains(value);
    program.solve().map_err(|_| SolveError::NoProgress)?;
    let duals = ways.duals(&program.prices(), None);
    let spread = Spread::new(ways, &program.solution(), problem);
    Ok(spread.answer(instance, problem, ways, &duals, program.objective()))
}

pub(crate) fn cost(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let costs = hourly_costs(instance)?;
    let needed: Vec<Option<f64>> = instance.jobs.iter().map(deadline_speed).collect::<Result<_, _>>()?;
    let ways = Ways::new(instance, problem, |m| needed[m].unwrap_or(0.0))?;
    if needed.iter().all(Option::is_none) {
        return total(instance, problem, &ways, &costs);
    }
    // First as many steps a second towards deadlines as can be had, then the most value that leaves.
    let due = per_class(&ways, |m| needed[m].unwrap_or(0.0));
    let units: Vec<f64> = due.iter().map(|due| if *due > 0.0 { *due } else { 1.0 }).collect();
    let mut program = ways.with_limits(&units, &due);
    let kept = ways.ways.len();
    program.set_gains(|i| if i >= kept { units[i - kept] } else { 0.0 });
    let stuck = |_| SolveError::NoProgress;
    program.solve().map_err(stuck)?;
    let first = program.prices();
    program.restrict_to_optimal_face();
    let value =
        |i: usize| ways.ways[i].members().map(|(_, speed)| speed).sum::<f64>() / costs[ways.ways[i].gpu_type];
    program.set_gains(|i| if i >= kept { 0.0 } else { value(i) });
    program.solve().map_err(stuck)?;
    let solution = program.solution();
    let speeds = ways.speeds(&solution);
    // What was barred may gain in the second objective as much as it loses in the first, times some number: at that worth
    // of the first, the prices of both together rule it out.
    let second = program.prices();
    let gain = |i: usize| if i >= kept { (units[i - kept], 0.0) } else { (0.0, value(i)) };
    let columns = (0..kept + units.len()).map(|i| {
        let (once, then) = gain(i);
        (program.cost(i, &first) - once, then - program.cost(i, &second))
    });
    let rows = first.iter().zip(&second).map(|(once, then)| (*once, -then));
    let ratio = |(loses, gains): (f64, f64)| if gains > 0.0 && loses > 1e-12 { gains / loses } else { 0.0 };
    let worth = columns.chain(rows).map(ratio).fold(0.0, f64::max) * (1.0 + 1e-9);
    let rows = ways.capacity.len() + 2 * ways.classes.len();
    let both: Vec<f64> =
        first.iter().zip(&second).take(rows).map(|(once, then)| worth * once + then).collect();
    let duals = ways.duals(&both, Some(&units));
    let first = ways.duals(&first[..rows], Some(&units));
    let mut class_of = vec![0; problem.n];
    ways.classes.iter().enumerate().for_each(|(c, class)| class.jobs.iter().for_each(|&m| class_of[m] = c));
    let shortfalls = shortfalls(&needed, |m| speeds[class_of[m]]);
    let objective = solution[..kept].iter().enumerate().map(|(i, time)| time * value(i)).sum();
    let answer = Spread::new(&ways, &solution, problem).answer(instance, problem, &ways, &duals, objective);
    let certificate = Certificate::SharedDeadlines {
        deadline_price: worth,
        deadline_prices: first.types.clone(),
        deadline_duals: ways.worth(&first, problem.n),
        duals: ways.worth(&duals, problem.n),
    };
    Ok(Solution { shortfalls, certificate, ..answer })
}

/// Levels filled one after another, classes stopping as their speed becomes dear.
pub(crate) fn fill(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let rate = |m: usize| speed_per_level(problem, m);
    let ways = Ways::new(instance, problem, rate)?;
    let rates = per_class(&ways, rate);
    let mut stopped: Vec<Option<f64>> = vec![None; rates.len()];
    let (mut stages, mut stopped_by) = (Vec::new(), vec![None; problem.n]);
    let mut level = 0.0;
    let (mut objective, mut held_back) = (None, None);
    loop {
        let top = rates.iter().enumerate().filter(|(c, _)| stopped[*c].is_none());
        let top = top
            .map(|(c, rate)| problem.fastest[ways.classes[c].jobs[0]] / rate)
            .fold(f64::INFINITY, f64::min);
        let mut reached = top;
        let targets = |level: f64| -> Vec<f64> {
            rates.iter().zip(&stopped).map(|(rate, stop)| rate * stop.unwrap_or(level)).collect()
        };
        let mut last = ways.scale(&targets(reached))?;
        let mut worth = None::<Duals>;
        for _ in 0..60 {
            if last.value >= 1.0 - 1e-10 || reached <= level {
                break;
            }
            // Σ worth·speed cannot pass what it is now: that leaves this much for those who still rise.
            let duals = &last.duals.speed;
            let weighed = |c: usize| ways.classes[c].jobs.len() as f64 * duals[c] * rates[c];
            let all: f64 = (0..rates.len()).map(|c| weighed(c) * stopped[c].unwrap_or(reached)).sum();
            let fixed: f64 = (0..rates.len()).filter_map(|c| stopped[c].map(|stop| stop * weighed(c))).sum();
            let rising: f64 = (0..rates.len()).filter(|&c| stopped[c].is_none()).map(weighed).sum();
            worth = Some(last.duals.clone());
            reached = if rising > 0.0 {
                ((all * last.value - fixed) / rising).clamp(level, reached)
            } else {
                level
            };
            last = ways.scale(&targets(reached))?;
        }
        level = reached;
        objective.get_or_insert(level);
        let mut halted = 0;
        // What raising those who still rise by a level is worth: prices over it are levels per GPU.
        let rising: f64 = worth.as_ref().map_or(0.0, |w| {
            let open = (0..rates.len()).filter(|&c| stopped[c].is_none());
            open.map(|c| ways.classes[c].jobs.len() as f64 * w.speed[c] * rates[c]).sum()
        });
        let dearest = worth.as_ref().map_or(0.0, |w| {
            (0..rates.len())
                .filter(|&c| stopped[c].is_none())
                .map(|c| w.speed[c] * rates[c])
                .fold(0.0, f64::max)
        });
        for c in 0..rates.len() {
            let capped = problem.fastest[ways.classes[c].jobs[0]] <= rates[c] * level * (1.0 + 1e-9);
            let dear = worth.as_ref().is_some_and(|w| w.speed[c] * rates[c] > 1e-7 * dearest);
            if stopped[c].is_none() && (capped || dear) {
                stopped[c] = Some(level * (1.0 - 1e-9));
                halted += 1;
                let by = dear.then_some(stages.len());
                ways.classes[c].jobs.iter().for_each(|&m| stopped_by[m] = by);
            }
        }
        if let Some(worth) = worth {
            let mut speeds = vec![0.0; problem.n];
            for (c, class) in ways.classes.iter().enumerate() {
                let reached = rates[c] * stopped[c].unwrap_or(level);
                class.jobs.iter().for_each(|&m| speeds[m] = reached);
            }
            let jobs = Some(ways.worth(&worth, problem.n));
            held_back.get_or_insert((level, if rising > 0.0 { 1.0 / rising } else { 1.0 }));
            stages.push(Stage { prices: worth.types, speeds, jobs });
        }
        if stopped.iter().all(Option::is_some) {
            let nothing = |n: usize| vec![0.0; n];
            let (held_back, measure) = held_back.unwrap_or((level, 1.0));
            let types = stages.first().map_or_else(
                || nothing(problem.k),
                |stage: &Stage| stage.prices.iter().map(|price| price * measure).collect(),
            );
            let classes = ways.classes.len();
            let duals = Duals { types, time: nothing(classes), speed: nothing(classes) };
            let answer = Spread::new(&ways, &last.solution, problem).answer(
                instance,
                problem,
                &ways,
                &duals,
                objective.unwrap_or(level),
            );
            let binding = (0..problem.n).filter(|&m| stopped_by[m] == Some(0)).collect();
            let bottleneck = bottleneck(binding, &duals.types, held_back);
            let certificate = Certificate::Stages { stages, stopped: stopped_by };
            return Ok(Solution { certificate, bottleneck, ..answer });
        }
        if halted == 0 {
            return Err(SolveError::NoProgress);
        }
    }
}

impl Ways {
    /// What the speed and time of each job are worth.
    pub(super) fn worth(&self, duals: &Duals, jobs: usize) -> JobDuals {
        let mut worth = JobDuals { speed: vec![0.0; jobs], time: vec![0.0; jobs] };
        for (c, class) in self.classes.iter().enumerate() {
            for &m in &class.jobs {
                (worth.speed[m], worth.time[m]) = (duals.speed[c], duals.time[c]);
            }
        }
        worth
    }

    /// The program with, for each class, a column of steps a second that count, limited by the class's own speed and by
    /// `most` per job, in units of `units`.
    fn with_limits(&self, units: &[f64], most: &[f64]) -> crate::lp::Simplex {
        let (k, c) = (self.capacity.len(), self.classes.len());
        let jobs: Vec<f64> = self.classes.iter().map(|class| class.jobs.len() as f64).collect();
        let limits = most.iter().zip(units).zip(&jobs).map(|((most, unit), n)| n * most / unit);
        let rhs =
            self.capacity.iter().copied().chain(jobs.iter().copied()).chain(std::iter::repeat_n(0.0, c));
        let mut program = crate::lp::Simplex::new(rhs.chain(limits).collect());
        for way in &self.ways {
            let mut entries = vec![(way.gpu_type, self.classes[way.classes[0]].gpus)];
            for (class, speed) in way.members() {
                entries.push((k + class, 1.0));
                entries.push((k + c + class, -speed / units[class]));
            }
            program.add(Column { gain: 0.0, entries });
        }
        for class in 0..c {
            program.add(Column { gain: 0.0, entries: vec![(k + c + class, 1.0), (k + 2 * c + class, 1.0)] });
        }
        program
    }
}
