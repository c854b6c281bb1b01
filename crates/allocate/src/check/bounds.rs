//! Objectives of the goals and their dual bounds. By weak duality no allocation exceeds the bound that any prices
//! give, so a bound that meets the objective proves it optimal.

use super::pairs::{excess, pair_speeds};
use super::trajectory::Trajectory;
use super::{CheckError, OPTIMAL, feasible};
use crate::instance::{Instance, Job};
use crate::solution::{Certificate, PairShare, Shares, Solution, Stage};

/// Check of one solution.
pub(super) struct DualCheck<'a> {
    pub(super) instance: &'a Instance,
    /// Speeds that the goal sees.
    pub(super) speeds: Vec<Vec<f64>>,
    pub(super) answer: &'a Solution,
    /// Speed of each job.
    achieved: Vec<f64>,
}

/// Dual of one job: `speed` per step per second and `time` for all of its time; reaching a target r costs at least
/// speed·r − time.
#[derive(Debug, Clone, Copy)]
struct JobDual {
    speed: f64,
    time: f64,
}

impl<'a> DualCheck<'a> {
    pub(super) fn new(instance: &'a Instance, speeds: Vec<Vec<f64>>, answer: &'a Solution) -> Self {
        let achieved = achieved(instance, &speeds, &answer.allocation, &answer.pairs);
        Self { instance, speeds, answer, achieved }
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = (usize, &Job, &[f64])> {
        self.instance
            .jobs
            .iter()
            .zip(&self.speeds)
            .enumerate()
            .map(|(m, (job, speeds))| (m, job, speeds.as_slice()))
    }

    fn gpus(&self) -> f64 {
        self.instance.types.iter().map(|t| f64::from(t.count)).sum()
    }

    /// P, always by the true speeds.
    fn mean(&self, job: &Job) -> f64 {
        let weighted = self.instance.types.iter().zip(&job.throughputs).map(|(t, s)| f64::from(t.count) * s);
        weighted.sum::<f64>() / self.gpus()
    }

    fn speed(&self, m: usize) -> f64 {
        self.achieved[m]
    }

    fn cluster_value(&self, prices: &[f64]) -> f64 {
        self.instance.types.iter().zip(prices).map(|(t, p)| f64::from(t.count) * p).sum()
    }

    pub(super) fn steps(&self, job: &Job, goal: &'static str) -> Result<f64, CheckError> {
        job.steps.ok_or(CheckError::Instance { goal })
    }

    /// Speed per unit of θ that a max-min goal demands of each job.
    fn rates(&self, goal: &str) -> Result<Vec<f64>, CheckError> {
        let rate = |(_, job, _): (usize, &Job, &[f64])| match goal {
            "makespan" => self.steps(job, "makespan"),
            _ => Ok(job.weight * self.mean(job) / f64::from(job.gpus)),
        };
        self.jobs().map(rate).collect()
    }

    pub(super) fn objective(&self, goal: &str) -> Result<f64, CheckError> {
        match goal {
            "throughput" => Ok((0..self.speeds.len()).map(|m| self.speed(m)).sum()),
            "makespan" => Ok(1.0 / self.worst(&self.rates(goal)?)),
            "max-min" | "max-min-fill" => Ok(self.worst(&self.rates(goal)?)),
            "finish-time" => Ok(self.worst_finish_ratio()?),
            "cost" => Ok(self.value(&self.per_cost()?)),
            "strategy-proof" => self.welfare(),
            "allox" => self.average_completion(),
            _ => Ok(self.answer.objective),
        }
    }

    fn worst(&self, rates: &[f64]) -> f64 {
        let level = |(m, rate): (usize, &f64)| if *rate > 0.0 { self.speed(m) / rate } else { f64::INFINITY };
        rates.iter().enumerate().map(level).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn bound(&self, goal: &str) -> Result<f64, CheckError> {
        if let Certificate::Jobs { speed, time } = &self.answer.certificate {
            return self.shared_bound(goal, speed, time);
        }
        match goal {
            "throughput" => Ok(self.total_bound(&self.speeds)),
            "makespan" => Ok(1.0 / self.level_bound(&self.rates(goal)?, 1.0 / self.answer.objective)),
            "max-min" => Ok(self.level_bound(&self.rates(goal)?, self.answer.objective)),
            "max-min-fill" => {
                self.check_no_job_can_rise()?;
                self.check_levels_are_fair()?;
                self.fill_bound(&self.rates(goal)?)
            }
            "hierarchical" => {
                self.check_no_job_can_rise()?;
                self.check_levels_follow_tree()?;
                Ok(self.answer.objective)
            }
            "finish-time" => self.finish_bound(),
            "cost" => self.cost_bound(),
            "strategy-proof" => Ok(self.welfare_bound()),
            "allox" => self.average_bound(),
            _ => Err(CheckError::Certificate),
        }
    }

    /// Bounds where jobs share GPUs.
    fn shared_bound(&self, goal: &str, speed: &[f64], time: &[f64]) -> Result<f64, CheckError> {
        let maximise_level = |rates: &[f64]| {
            let slope: f64 = rates.iter().zip(speed).map(|(rate, worth)| rate * worth).sum();
            self.budget(time, |m, _| speed[m]) / slope
        };
        match goal {
            "throughput" => Ok(self.budget(time, |_, _| 1.0)),
            "cost" => Ok(self.budget(time, |_, j| 1.0 / self.cost(j))),
            "max-min" => Ok(maximise_level(&self.rates(goal)?)),
            "makespan" => Ok(1.0 / maximise_level(&self.rates(goal)?)),
            "finish-time" => {
                let budget = self.budget(time, |m, _| speed[m]);
                let finish = self.finish()?;
                Ok(self.least_ratio(|ratio| {
                    let wanted = finish.iter().map(|f| target(f, ratio));
                    wanted
                        .zip(speed)
                        .map(|(t, worth)| if *worth > 0.0 { t * worth } else { 0.0 })
                        .sum::<f64>()
                        <= budget
                }))
            }
            _ => Err(CheckError::Certificate),
        }
    }

    /// Bound on a total: value of the cluster plus the gain of every job at these prices.
    fn total_bound(&self, values: &[Vec<f64>]) -> f64 {
        let prices = &self.answer.prices;
        let gain = |(_, job, _): (usize, &Job, &[f64]), values: &[f64]| {
            values.iter().zip(prices).map(|(v, p)| v - f64::from(job.gpus) * p).fold(0.0, f64::max)
        };
        self.cluster_value(prices) + self.jobs().zip(values).map(|(job, v)| gain(job, v)).sum::<f64>()
    }

    /// Σ log of all levels before the discounts, which must be feasible and of which no job keeps more than its
    /// fraction.
    fn welfare(&self) -> Result<f64, CheckError> {
        let (discounts, before) = match &self.answer.certificate {
            Certificate::Discounts(discounts) => {
                let rows = self.answer.allocation.rows().zip(discounts);
                let flat = rows.flat_map(|(row, part)| row.iter().map(move |share| share / part)).collect();
                let alone = Shares::new(self.instance.types.len(), flat);
                feasible(self.instance, &alone, &[])?;
                (discounts, achieved(self.instance, &self.speeds, &alone, &[]))
            }
            Certificate::SharedDiscounts { discounts, alone, pairs, .. } => {
                feasible(self.instance, alone, pairs)?;
                (discounts, achieved(self.instance, &self.speeds, alone, pairs))
            }
            _ => return Err(CheckError::Certificate),
        };
        if let Certificate::SharedDiscounts { alone, pairs, .. } = &self.answer.certificate {
            self.check_discounts(discounts, alone, pairs)?;
        }
        for ((m, job, _), &discount) in self.jobs().zip(discounts) {
            let most = discount * before[m] * (1.0 + OPTIMAL);
            if !(discount > 0.0 && discount <= 1.0 && self.speed(m) <= most) {
                return Err(CheckError::Discount { job: job.id, discount });
            }
        }
        Ok(self.jobs().map(|(m, job, _)| (before[m] * self.level_per_step(job)).ln()).sum())
    }

    /// Discounts take nothing else: pairs keep the lesser of their members' fractions, and alone every job keeps at
    /// least its fraction.
    fn check_discounts(&self, parts: &[f64], alone: &Shares, pairs: &[PairShare]) -> Result<(), CheckError> {
        let refused = |m: usize| CheckError::Discount { job: self.instance.jobs[m].id, discount: parts[m] };
        if self.answer.pairs.len() > pairs.len() {
            return Err(CheckError::Certificate);
        }
        for (i, pair) in pairs.iter().enumerate() {
            let both = pair.jobs.map(|m| parts[m]).into_iter().fold(1.0, f64::min);
            let kept = |(had, has): (&f64, &f64)| (has - both * had).abs() <= OPTIMAL * both * had;
            let keeps =
                |now: &PairShare| now.jobs == pair.jobs && pair.shares.iter().zip(&now.shares).all(kept);
            if !self.answer.pairs.get(i).is_some_and(keeps) {
                return Err(refused(pair.jobs[0]));
            }
        }
        for (m, (had, has)) in alone.rows().zip(self.answer.allocation.rows()).enumerate() {
            if had.iter().zip(has).any(|(had, has)| *has < parts[m] * had * (1.0 - OPTIMAL)) {
                return Err(refused(m));
            }
        }
        Ok(())
    }

    /// Level per step per second of a job.
    fn level_per_step(&self, job: &Job) -> f64 {
        f64::from(job.gpus) / (job.weight * self.mean(job))
    }

    /// Bound on Σ log speed: for any value w of a step per second, log speed minus cost is at most −log w − 1 plus the
    /// value of the job's time.
    fn welfare_bound(&self) -> f64 {
        let prices = &self.answer.prices;
        let most = |(_, job, speeds): (usize, &Job, &[f64])| {
            let gpus = f64::from(job.gpus);
            let time =
                |worth: f64| speeds.iter().zip(prices).map(|(t, p)| worth * t - gpus * p).fold(0.0, f64::max);
            let bound = |worth: f64| if worth > 0.0 { time(worth) - worth.ln() - 1.0 } else { f64::INFINITY };
            let mut best = f64::INFINITY;
            for (i, (t, p)) in speeds.iter().zip(prices).enumerate().filter(|(_, (t, _))| **t > 0.0) {
                best = best.min(bound(1.0 / t)).min(bound(gpus * p / t));
                for (u, q) in speeds[..i].iter().zip(prices).filter(|(u, _)| **u > 0.0 && **u != *t) {
                    best = best.min(bound(gpus * (p - q) / (t - u)));
                }
            }
            best + self.level_per_step(job).ln()
        };
        if let Certificate::SharedDiscounts { duals, .. } = &self.answer.certificate {
            let each = self.jobs().map(|(m, job, _)| (self.level_per_step(job) / duals.speed[m]).ln() - 1.0);
            return each.sum::<f64>() + self.budget(&duals.time, |m, _| duals.speed[m]);
        }
        self.cluster_value(prices) + self.jobs().map(most).sum::<f64>()
    }

    fn value(&self, values: &[Vec<f64>]) -> f64 {
        let rows = values.iter().zip(self.answer.allocation.rows());
        let alone: f64 = rows.map(|(v, x)| v.iter().zip(x).map(|(v, x)| v * x).sum::<f64>()).sum();
        let mut together_value = 0.0;
        for pair in &self.answer.pairs {
            let jobs = pair.jobs.map(|m| &self.instance.jobs[m]);
            for (j, share) in pair.shares.iter().enumerate() {
                let visible = pair.jobs.map(|m| self.speeds[m][j]);
                let both = pair_speeds(self.instance, jobs, visible, j).unwrap_or_default();
                together_value += share * both.iter().sum::<f64>() / self.cost(j);
            }
        }
        alone + together_value
    }

    fn cost(&self, j: usize) -> f64 {
        self.instance.types[j].cost_per_hour.unwrap_or(1.0)
    }

    /// Value of the cluster and of the jobs' time, with prices raised until the duals are feasible.
    fn budget(&self, time: &[f64], worth: impl Fn(usize, usize) -> f64) -> f64 {
        self.budget_at(&self.answer.prices, time, worth)
    }

    fn budget_at(&self, prices: &[f64], time: &[f64], worth: impl Fn(usize, usize) -> f64) -> f64 {
        let raised = excess(self.instance, &self.speeds, prices, time, worth);
        let prices: Vec<f64> = prices.iter().zip(raised).map(|(p, e)| p + e).collect();
        self.cluster_value(&prices) + time.iter().sum::<f64>()
    }

    fn per_cost(&self) -> Result<Vec<Vec<f64>>, CheckError> {
        let costs = self.instance.types.iter().map(|t| t.cost_per_hour).collect::<Option<Vec<f64>>>();
        let costs = costs.ok_or(CheckError::Instance { goal: "cost" })?;
        Ok(self.speeds.iter().map(|row| row.iter().zip(&costs).map(|(t, c)| t / c).collect()).collect())
    }

    fn needed(&self, job: &Job) -> Result<f64, CheckError> {
        match job.deadline_s {
            Some(left) => Ok(self.steps(job, "cost")? / left.max(1.0)),
            None => Ok(0.0),
        }
    }

    /// Bound with deadlines: a job's gain is bounded by its dual, where a step per second towards the deadline is
    /// worth between 0 and the deadline price, or anything where the deadline is hard.
    fn cost_bound(&self) -> Result<f64, CheckError> {
        let values = self.per_cost()?;
        let prices = &self.answer.prices;
        let worth = self.cluster_value(prices);
        match &self.answer.certificate {
            Certificate::Prices => {
                let mut bound = worth;
                for ((m, job, speeds), values) in self.jobs().zip(&values) {
                    let needed = self.needed(job)?;
                    if self.speed(m) < needed * (1.0 - OPTIMAL) {
                        return Err(CheckError::Certificate);
                    }
                    bound += gain(
                        f64::from(job.gpus),
                        speeds,
                        values,
                        prices,
                        |worth| -worth * needed,
                        f64::INFINITY,
                    );
                }
                Ok(bound)
            }
            Certificate::Deadlines { deadline_price, prices: first } => {
                let nothing = vec![0.0; prices.len()];
                let (mut most, mut held, mut bound) = (self.cluster_value(first), 0.0, worth);
                for ((m, job, speeds), values) in self.jobs().zip(&values) {
                    let (needed, gpus) = (self.needed(job)?, f64::from(job.gpus));
                    most += gain(gpus, speeds, &nothing, first, |worth| (1.0 - worth) * needed, 1.0);
                    bound += gain(
                        gpus,
                        speeds,
                        values,
                        prices,
                        |worth| (deadline_price - worth) * needed,
                        *deadline_price,
                    );
                    held += self.speed(m).min(needed);
                }
                if held < most * (1.0 - OPTIMAL) {
                    return Err(CheckError::Unproved { objective: held, bound: most });
                }
                Ok(bound - deadline_price * held)
            }
            Certificate::SharedDeadlines { deadline_price, deadline_prices, deadline_duals, duals } => {
                let mut needed = Vec::with_capacity(values.len());
                for job in &self.instance.jobs {
                    needed.push(self.needed(job)?);
                }
                // The counted speed is at most w times the speed plus 1 − w times the needed speed, for any w in [0,
                // 1].
                let part = |worth: f64, most: f64| worth.clamp(0.0, most);
                let left = |worth: &[f64], most: f64| -> f64 {
                    worth.iter().zip(&needed).map(|(w, needed)| (most - part(*w, most)) * needed).sum()
                };
                let most = left(&deadline_duals.speed, 1.0)
                    + self.budget_at(deadline_prices, &deadline_duals.time, |m, _| {
                        part(deadline_duals.speed[m], 1.0)
                    });
                let held: f64 = needed.iter().enumerate().map(|(m, needed)| self.speed(m).min(*needed)).sum();
                if held < most * (1.0 - OPTIMAL) {
                    return Err(CheckError::Unproved { objective: held, bound: most });
                }
                let worth = |m: usize, j: usize| {
                    let counts = if needed[m] > 0.0 { part(duals.speed[m], *deadline_price) } else { 0.0 };
                    1.0 / self.cost(j) + counts
                };
                Ok(left(&duals.speed, *deadline_price) + self.budget(&duals.time, worth)
                    - deadline_price * held)
            }
            _ => Err(CheckError::Certificate),
        }
    }

    /// With sharing, the prices of the first stage bound the common level.
    fn fill_bound(&self, rates: &[f64]) -> Result<f64, CheckError> {
        let Certificate::Stages { stages, .. } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        match stages.first() {
            Some(Stage { prices, jobs: Some(jobs), .. }) => {
                let slope: f64 = rates.iter().zip(&jobs.speed).map(|(rate, worth)| rate * worth).sum();
                let all = self.budget_at(prices, &jobs.time, |m, _| jobs.speed[m]) / slope;
                Ok(all.min(self.top_speed_bound(rates)))
            }
            _ => Ok(self.level_bound(rates, self.answer.objective)),
        }
    }

    /// Terms of the finish-time ratio: steps, age, and finish time alone.
    fn finish(&self) -> Result<Vec<(f64, f64, f64)>, CheckError> {
        let n = self.instance.jobs.len() as f64;
        let of = |(_, job, speeds): (usize, &Job, &[f64])| {
            let part = |(t, s): (&crate::GpuType, &f64)| {
                if *s > 0.0 { f64::from(t.count) / n / f64::from(job.gpus) } else { 0.0 }
            };
            let shares: Vec<f64> = self.instance.types.iter().zip(speeds).map(part).collect();
            let all = shares.iter().sum::<f64>().max(1.0);
            let alone = shares.iter().zip(speeds).map(|(x, t)| x * t).sum::<f64>() / all;
            let steps = self.steps(job, "finish-time")?;
            Ok((steps, job.age_s, job.isolated_time_s + steps / alone))
        };
        self.jobs().map(of).collect()
    }

    fn worst_finish_ratio(&self) -> Result<f64, CheckError> {
        let ratio = |(m, (steps, age, alone)): (usize, &(f64, f64, f64))| {
            if *steps > 0.0 { (age + steps / self.speed(m)) / alone } else { 0.0 }
        };
        Ok(self.finish()?.iter().enumerate().map(ratio).fold(0.0, f64::max))
    }

    /// Least finish-time ratio whose target speeds cost no more than the cluster is worth, by bisection.
    fn finish_bound(&self) -> Result<f64, CheckError> {
        let finish = self.finish()?;
        let objective = self.answer.objective;
        let prices = &self.answer.prices;
        let worths: Vec<JobDual> = self
            .jobs()
            .zip(&finish)
            .map(|((_, job, speeds), f)| best_dual(f64::from(job.gpus), speeds, prices, target(f, objective)))
            .collect();
        let budget = self.cluster_value(prices);
        let possible = |ratio: f64| {
            let jobs = self.speeds.iter().zip(&worths).zip(&finish);
            let mut cost = 0.0;
            for ((speeds, worth), f) in jobs {
                let wanted = target(f, ratio);
                if wanted > speeds.iter().copied().fold(0.0, f64::max) * (1.0 + 1e-12) {
                    return false;
                }
                cost += worth.speed * wanted - worth.time;
            }
            cost <= budget
        };
        Ok(self.least_ratio(possible))
    }

    /// Least ratio not shown to be impossible, by bisection.
    fn least_ratio(&self, possible: impl Fn(f64) -> bool) -> f64 {
        let (mut no, mut yes) = (0.0, self.answer.objective * (1.0 + OPTIMAL));
        for _ in 0..100 {
            let middle = 0.5 * (no + yes);
            if possible(middle) { yes = middle } else { no = middle }
        }
        yes
    }

    /// Every job runs at its top speed, or was stopped by prices under which the budget is spent and any further speed
    /// costs something.
    fn check_no_job_can_rise(&self) -> Result<(), CheckError> {
        let Certificate::Stages { stages, stopped } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        stages.iter().try_for_each(|stage| self.check_budget_is_spent(stage, |m| self.speed(m)))?;
        for (m, job, speeds) in self.jobs() {
            let (speed, fastest) = (self.speed(m), speeds.iter().copied().fold(0.0, f64::max));
            let proved = match stopped[m].and_then(|stage| stages.get(stage)) {
                None => speed >= fastest * (1.0 - OPTIMAL),
                Some(Stage { jobs: Some(jobs), .. }) => jobs.speed[m] > 0.0,
                Some(stage) => {
                    let more = speed + OPTIMAL * fastest;
                    best_dual(f64::from(job.gpus), speeds, &stage.prices, more).speed > 0.0
                }
            };
            if !proved {
                return Err(CheckError::CouldRise { job: job.id });
            }
        }
        Ok(())
    }

    /// These speeds spend the whole budget at a stage's prices, so a job whose speed has a price cannot be faster.
    fn check_budget_is_spent(&self, stage: &Stage, speed: impl Fn(usize) -> f64) -> Result<(), CheckError> {
        // If all speeds rose by a fraction, the expenditure would grow by that fraction of `value`: the scale of the
        // tolerance.
        let (mut spent, mut value) = (0.0, 0.0);
        let budget = match &stage.jobs {
            Some(jobs) => {
                value = jobs.speed.iter().enumerate().map(|(m, worth)| worth * speed(m)).sum();
                spent = value;
                self.budget_at(&stage.prices, &jobs.time, |m, _| jobs.speed[m])
            }
            None => {
                for (m, job, speeds) in self.jobs() {
                    let dual = best_dual(f64::from(job.gpus), speeds, &stage.prices, speed(m));
                    spent += dual.speed * speed(m) - dual.time;
                    value += dual.speed * speed(m);
                }
                self.cluster_value(&stage.prices)
            }
        };
        if budget - spent > OPTIMAL * value {
            return Err(CheckError::Unproved { objective: spent, bound: budget });
        }
        Ok(())
    }

    /// Levels at each stop follow the entity tree, and every stage spends its budget at that moment.
    fn check_levels_follow_tree(&self) -> Result<(), CheckError> {
        let Certificate::Stages { stages, stopped } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let missing = CheckError::Instance { goal: "hierarchical" };
        let entities = self.instance.entities.as_ref().ok_or(missing)?;
        let per_level: Vec<f64> =
            self.jobs().map(|(_, job, _)| self.mean(job) / f64::from(job.gpus)).collect();
        let ends: Vec<f64> = per_level.iter().enumerate().map(|(m, per)| self.speed(m) / per).collect();
        let mut trajectory = Trajectory::new(self.instance, entities, &ends);
        let mut checked = vec![false; stages.len()];
        loop {
            let now = trajectory.next();
            if now.is_empty() {
                return Ok(());
            }
            // The first stop of a stage is the tightest test of its prices.
            for i in now.into_iter().filter_map(|m| stopped[m]) {
                if let Some(stage) = stages.get(i).filter(|_| !std::mem::replace(&mut checked[i], true)) {
                    let levels = trajectory.levels(ends.len());
                    self.check_budget_is_spent(stage, |m| levels[m] * per_level[m])?;
                }
            }
        }
    }

    /// At the end of every stage all jobs not stopped before it have the same level over weight, or their own top
    /// speed below it.
    fn check_levels_are_fair(&self) -> Result<(), CheckError> {
        let Certificate::Stages { stages, stopped } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let rates = self.rates("max-min-fill")?;
        for (i, stage) in stages.iter().enumerate() {
            let level = |m: usize| stage.speeds[m] / rates[m];
            let here = (0..rates.len()).filter(|&m| stopped[m] == Some(i)).map(level).fold(0.0, f64::max);
            for (m, job, speeds) in self.jobs().filter(|(m, ..)| stopped[*m].is_none_or(|s| s >= i)) {
                let top = speeds.iter().copied().fold(0.0, f64::max) / rates[m];
                if (level(m) - here.min(top)).abs() > OPTIMAL * here {
                    return Err(CheckError::CouldRise { job: job.id });
                }
            }
        }
        Ok(())
    }

    /// Level that the job of lowest reach can attain alone.
    fn top_speed_bound(&self, rates: &[f64]) -> f64 {
        let fastest = |speeds: &[f64]| speeds.iter().copied().fold(0.0, f64::max);
        let own = self.jobs().zip(rates).filter(|(_, rate)| **rate > 0.0);
        own.map(|((_, _, speeds), rate)| fastest(speeds) / rate).fold(f64::INFINITY, f64::min)
    }

    /// If every job reached rate·θ, Σ speed·rate·θ − Σ time would be at most the value of the cluster.
    fn level_bound(&self, rates: &[f64], theta: f64) -> f64 {
        let own = self.top_speed_bound(rates);
        let (mut slope, mut budget) = (0.0, self.cluster_value(&self.answer.prices));
        for ((_, job, speeds), rate) in self.jobs().zip(rates) {
            let dual = best_dual(f64::from(job.gpus), speeds, &self.answer.prices, rate * theta);
            slope += dual.speed * rate;
            budget += dual.time;
        }
        if slope > 0.0 { own.min(budget / slope) } else { own }
    }
}

/// Speed of each job under these shares, as the goal sees speeds.
fn achieved(instance: &Instance, speeds: &[Vec<f64>], alone: &Shares, pairs: &[PairShare]) -> Vec<f64> {
    let by_itself = |(row, x): (&Vec<f64>, &[f64])| row.iter().zip(x).map(|(t, x)| t * x).sum();
    let mut achieved: Vec<f64> = speeds.iter().zip(alone.rows()).map(by_itself).collect();
    for pair in pairs {
        let [a, b] = pair.jobs;
        for (j, share) in pair.shares.iter().enumerate() {
            let jobs = [&instance.jobs[a], &instance.jobs[b]];
            let both = pair_speeds(instance, jobs, [speeds[a][j], speeds[b][j]], j).unwrap_or_default();
            achieved[a] += both[0] * share;
            achieved[b] += both[1] * share;
        }
    }
    achieved
}

/// Speed that a finish-time ratio demands.
fn target((steps, age, alone): &(f64, f64, f64), ratio: f64) -> f64 {
    let left = ratio * alone - age;
    if *steps <= 0.0 {
        0.0
    } else if left > 0.0 {
        steps / left
    } else {
        f64::INFINITY
    }
}

/// Dual values under which reaching `target` costs most.
fn best_dual(gpus: f64, speeds: &[f64], prices: &[f64], target: f64) -> JobDual {
    let time = |speed: f64| speeds.iter().zip(prices).map(|(t, p)| speed * t - gpus * p).fold(0.0, f64::max);
    let mut best = JobDual { speed: 0.0, time: 0.0 };
    let mut offer = |speed: f64| {
        let offered = JobDual { speed, time: time(speed) };
        if offered.speed * target - offered.time > best.speed * target - best.time {
            best = offered;
        }
    };
    // The dual is piecewise linear in `speed`: its best value is at a kink, where two types cost the same.
    for (i, (t, p)) in speeds.iter().zip(prices).enumerate().filter(|(_, (t, _))| **t > 0.0) {
        offer(gpus * p / t);
        for (u, q) in speeds[..i].iter().zip(prices).filter(|(u, _)| **u > 0.0 && **u != *t) {
            let kink = gpus * (p - q) / (t - u);
            if kink > 0.0 {
                offer(kink);
            }
        }
    }
    best
}

/// Largest gain of a job at these prices, as its dual bounds it: the minimum over the value of a step per second
/// towards its deadline, up to `most`; `paid(worth)` is the deadline's own term.
fn gain(
    gpus: f64,
    speeds: &[f64],
    values: &[f64],
    prices: &[f64],
    paid: impl Fn(f64) -> f64,
    most: f64,
) -> f64 {
    let net: Vec<f64> = values.iter().zip(prices).map(|(v, p)| v - gpus * p).collect();
    let total =
        |worth: f64| speeds.iter().zip(&net).map(|(t, n)| n + worth * t).fold(0.0, f64::max) + paid(worth);
    let mut best = total(0.0);
    let mut offer = |worth: f64| {
        if worth > 0.0 && worth <= most {
            best = f64::min(best, total(worth));
        }
    };
    if most.is_finite() {
        offer(most);
    }
    for (i, (t, n)) in speeds.iter().zip(&net).enumerate().filter(|(_, (t, _))| **t > 0.0) {
        offer(-n / t);
        for (u, o) in speeds[..i].iter().zip(&net).filter(|(u, _)| **u > 0.0 && **u != *t) {
            offer((o - n) / (t - u));
        }
    }
    best
}
