//! What each goal's objective is, and what prices prove about it. All of it is weak duality: whatever the prices, no
//! allocation can pass the bound they give, so a bound that meets the objective proves it.

use super::course::Course;
use super::pairs::{excess, together};
use super::{CheckError, OPTIMAL, feasible};
use crate::answer::{Answer, Certificate, PairShare, Shares, Stage};
use crate::instance::{Instance, Job};

pub(super) struct Case<'a> {
    pub(super) instance: &'a Instance,
    /// The speeds the goal sees.
    pub(super) speeds: Vec<Vec<f64>>,
    pub(super) answer: &'a Answer,
    /// The speed each job gets.
    achieved: Vec<f64>,
}

/// A job's dual: a step a second is worth `speed`, all of the job's time `time`; then no way of reaching a target r
/// costs less than speed·r − time.
#[derive(Debug, Clone, Copy)]
struct Worth {
    speed: f64,
    time: f64,
}

impl<'a> Case<'a> {
    pub(super) fn new(instance: &'a Instance, speeds: Vec<Vec<f64>>, answer: &'a Answer) -> Self {
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

    fn worth_of_cluster(&self, prices: &[f64]) -> f64 {
        self.instance.types.iter().zip(prices).map(|(t, p)| f64::from(t.count) * p).sum()
    }

    pub(super) fn steps(&self, job: &Job, goal: &'static str) -> Result<f64, CheckError> {
        job.steps.ok_or(CheckError::Instance { goal })
    }

    /// The speed per unit of θ that a min-max goal asks of each job.
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
            "finish-time" => Ok(self.latest()?),
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
            "makespan" => Ok(1.0 / self.rise_bound(&self.rates(goal)?, 1.0 / self.answer.objective)),
            "max-min" => Ok(self.rise_bound(&self.rates(goal)?, self.answer.objective)),
            "max-min-fill" => {
                self.nobody_could_rise()?;
                self.levels_are_fair()?;
                self.fill_bound(&self.rates(goal)?)
            }
            "hierarchical" => {
                self.nobody_could_rise()?;
                self.levels_follow_the_tree()?;
                Ok(self.answer.objective)
            }
            "finish-time" => self.finish_bound(),
            "cost" => self.cost_bound(),
            "strategy-proof" => Ok(self.welfare_bound()),
            "allox" => self.average_bound(),
            _ => Err(CheckError::Certificate),
        }
    }

    /// The bounds where jobs share GPUs.
    fn shared_bound(&self, goal: &str, speed: &[f64], time: &[f64]) -> Result<f64, CheckError> {
        let rise = |rates: &[f64]| {
            let slope: f64 = rates.iter().zip(speed).map(|(rate, worth)| rate * worth).sum();
            self.budget(time, |m, _| speed[m]) / slope
        };
        match goal {
            "throughput" => Ok(self.budget(time, |_, _| 1.0)),
            "cost" => Ok(self.budget(time, |_, j| 1.0 / self.cost(j))),
            "max-min" => Ok(rise(&self.rates(goal)?)),
            "makespan" => Ok(1.0 / rise(&self.rates(goal)?)),
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

    /// No allocation's total value passes what the cluster is worth plus what every job gains at these prices.
    fn total_bound(&self, values: &[Vec<f64>]) -> f64 {
        let prices = &self.answer.prices;
        let gain = |(_, job, _): (usize, &Job, &[f64]), values: &[f64]| {
            values.iter().zip(prices).map(|(v, p)| v - f64::from(job.gpus) * p).fold(0.0, f64::max)
        };
        self.worth_of_cluster(prices) + self.jobs().zip(values).map(|(job, v)| gain(job, v)).sum::<f64>()
    }

    /// Σ log of everyone's level before the discounts, which fitted and of which nobody keeps more than his part.
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
            self.keep_their_parts(discounts, alone, pairs)?;
        }
        for ((m, job, _), &discount) in self.jobs().zip(discounts) {
            let most = discount * before[m] * (1.0 + OPTIMAL);
            if !(discount > 0.0 && discount <= 1.0 && self.speed(m) <= most) {
                return Err(CheckError::Discount { job: job.id, discount });
            }
        }
        Ok(self.jobs().map(|(m, job, _)| (before[m] * self.level_per_step(job)).ln()).sum())
    }

    /// Discounts take nothing but what they say: those who share keep the lesser of their parts of it, and alone everyone has
    /// at least his part.
    fn keep_their_parts(&self, parts: &[f64], alone: &Shares, pairs: &[PairShare]) -> Result<(), CheckError> {
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

    /// By what a step a second raises a job's level.
    fn level_per_step(&self, job: &Job) -> f64 {
        f64::from(job.gpus) / (job.weight * self.mean(job))
    }

    /// Whatever a step a second is taken to be worth, log speed less what it costs is at most −log worth − 1 plus what
    /// the job's time is worth then.
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
        if let Certificate::SharedDiscounts { worth, .. } = &self.answer.certificate {
            let each = self.jobs().map(|(m, job, _)| (self.level_per_step(job) / worth.speed[m]).ln() - 1.0);
            return each.sum::<f64>() + self.budget(&worth.time, |m, _| worth.speed[m]);
        }
        self.worth_of_cluster(prices) + self.jobs().map(most).sum::<f64>()
    }

    fn value(&self, values: &[Vec<f64>]) -> f64 {
        let rows = values.iter().zip(self.answer.allocation.rows());
        let alone: f64 = rows.map(|(v, x)| v.iter().zip(x).map(|(v, x)| v * x).sum::<f64>()).sum();
        let mut together_value = 0.0;
        for pair in &self.answer.pairs {
            let jobs = pair.jobs.map(|m| &self.instance.jobs[m]);
            for (j, share) in pair.shares.iter().enumerate() {
                let seen = pair.jobs.map(|m| self.speeds[m][j]);
                let both = together(self.instance, jobs, seen, j).unwrap_or_default();
                together_value += share * both.iter().sum::<f64>() / self.cost(j);
            }
        }
        alone + together_value
    }

    fn cost(&self, j: usize) -> f64 {
        self.instance.types[j].cost_per_hour.unwrap_or(1.0)
    }

    /// What the cluster and the jobs' time are worth, prices raised until no way to run is worth more than it costs.
    fn budget(&self, time: &[f64], worth: impl Fn(usize, usize) -> f64) -> f64 {
        self.budget_at(&self.answer.prices, time, worth)
    }

    fn budget_at(&self, prices: &[f64], time: &[f64], worth: impl Fn(usize, usize) -> f64) -> f64 {
        let raised = excess(self.instance, &self.speeds, prices, time, worth);
        let prices: Vec<f64> = prices.iter().zip(raised).map(|(p, e)| p + e).collect();
        self.worth_of_cluster(&prices) + time.iter().sum::<f64>()
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

    /// Where deadlines bind, a job's gain is bounded by its dual: a step a second towards the deadline is worth between
    /// nothing and `kept`, or anything where the deadline must be kept.
    fn cost_bound(&self) -> Result<f64, CheckError> {
        let values = self.per_cost()?;
        let prices = &self.answer.prices;
        let worth = self.worth_of_cluster(prices);
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
            Certificate::Deadlines { kept, prices: first } => {
                let nothing = vec![0.0; prices.len()];
                let (mut most, mut held, mut bound) = (self.worth_of_cluster(first), 0.0, worth);
                for ((m, job, speeds), values) in self.jobs().zip(&values) {
                    let (needed, gpus) = (self.needed(job)?, f64::from(job.gpus));
                    most += gain(gpus, speeds, &nothing, first, |worth| (1.0 - worth) * needed, 1.0);
                    bound += gain(gpus, speeds, values, prices, |worth| (kept - worth) * needed, *kept);
                    held += self.speed(m).min(needed);
                }
                if held < most * (1.0 - OPTIMAL) {
                    return Err(CheckError::NotProved { objective: held, bound: most });
                }
                Ok(bound - kept * held)
            }
            Certificate::SharedDeadlines { kept, first_prices, first, both } => {
                let mut needed = Vec::with_capacity(values.len());
                for job in &self.instance.jobs {
                    needed.push(self.needed(job)?);
                }
                // What counts of a speed is at most any part w of it and the part 1 − w of what is needed.
                let part = |worth: f64, most: f64| worth.clamp(0.0, most);
                let left = |worth: &[f64], most: f64| -> f64 {
                    worth.iter().zip(&needed).map(|(w, needed)| (most - part(*w, most)) * needed).sum()
                };
                let most = left(&first.speed, 1.0)
                    + self.budget_at(first_prices, &first.time, |m, _| part(first.speed[m], 1.0));
                let held: f64 = needed.iter().enumerate().map(|(m, needed)| self.speed(m).min(*needed)).sum();
                if held < most * (1.0 - OPTIMAL) {
                    return Err(CheckError::NotProved { objective: held, bound: most });
                }
                let worth = |m: usize, j: usize| {
                    let counts = if needed[m] > 0.0 { part(both.speed[m], *kept) } else { 0.0 };
                    1.0 / self.cost(j) + counts
                };
                Ok(left(&both.speed, *kept) + self.budget(&both.time, worth) - kept * held)
            }
            _ => Err(CheckError::Certificate),
        }
    }

    /// With sharing, the first stage's prices bound the level everyone can reach.
    fn fill_bound(&self, rates: &[f64]) -> Result<f64, CheckError> {
        let Certificate::Stages { stages, .. } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        match stages.first() {
            Some(Stage { prices, jobs: Some(jobs), .. }) => {
                let slope: f64 = rates.iter().zip(&jobs.speed).map(|(rate, worth)| rate * worth).sum();
                let all = self.budget_at(prices, &jobs.time, |m, _| jobs.speed[m]) / slope;
                Ok(all.min(self.own_bound(rates)))
            }
            _ => Ok(self.rise_bound(rates, self.answer.objective)),
        }
    }

    /// What a job's ratio of finish times is made of: steps, age, and its end alone.
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

    fn latest(&self) -> Result<f64, CheckError> {
        let ratio = |(m, (steps, age, alone)): (usize, &(f64, f64, f64))| {
            if *steps > 0.0 { (age + steps / self.speed(m)) / alone } else { 0.0 }
        };
        Ok(self.finish()?.iter().enumerate().map(ratio).fold(0.0, f64::max))
    }

    /// A smaller ratio asks for more speed than the cluster is worth: the smallest that does not, by halving.
    fn finish_bound(&self) -> Result<f64, CheckError> {
        let finish = self.finish()?;
        let objective = self.answer.objective;
        let prices = &self.answer.prices;
        let worths: Vec<Worth> = self
            .jobs()
            .zip(&finish)
            .map(|((_, job, speeds), f)| worth(f64::from(job.gpus), speeds, prices, target(f, objective)))
            .collect();
        let budget = self.worth_of_cluster(prices);
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

    /// The smallest ratio that is not shown impossible, by halving.
    fn least_ratio(&self, possible: impl Fn(f64) -> bool) -> f64 {
        let (mut no, mut yes) = (0.0, self.answer.objective * (1.0 + OPTIMAL));
        for _ in 0..100 {
            let middle = 0.5 * (no + yes);
            if possible(middle) { yes = middle } else { no = middle }
        }
        yes
    }

    /// Every job is as fast as it can be alone, or was stopped by prices under which all money was spent and any more
    /// speed for it costs something.
    fn nobody_could_rise(&self) -> Result<(), CheckError> {
        let Certificate::Stages { stages, stopped } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        stages.iter().try_for_each(|stage| self.all_is_spent(stage, |m| self.speed(m)))?;
        for (m, job, speeds) in self.jobs() {
            let (speed, fastest) = (self.speed(m), speeds.iter().copied().fold(0.0, f64::max));
            let proved = match stopped[m].and_then(|stage| stages.get(stage)) {
                None => speed >= fastest * (1.0 - OPTIMAL),
                Some(Stage { jobs: Some(jobs), .. }) => jobs.speed[m] > 0.0,
                Some(stage) => {
                    let more = speed + OPTIMAL * fastest;
                    worth(f64::from(job.gpus), speeds, &stage.prices, more).speed > 0.0
                }
            };
            if !proved {
                return Err(CheckError::CouldRise { job: job.id });
            }
        }
        Ok(())
    }

    /// At these speeds, everything is spent at a stage's prices: whoever it costs something to be faster cannot be.
    fn all_is_spent(&self, stage: &Stage, speed: impl Fn(usize) -> f64) -> Result<(), CheckError> {
        // Were everyone's speed higher by a part of it, the spending would grow by that part of `value`.
        let (mut spent, mut value) = (0.0, 0.0);
        let budget = match &stage.jobs {
            Some(jobs) => {
                value = jobs.speed.iter().enumerate().map(|(m, worth)| worth * speed(m)).sum();
                spent = value;
                self.budget_at(&stage.prices, &jobs.time, |m, _| jobs.speed[m])
            }
            None => {
                for (m, job, speeds) in self.jobs() {
                    let worth = worth(f64::from(job.gpus), speeds, &stage.prices, speed(m));
                    spent += worth.speed * speed(m) - worth.time;
                    value += worth.speed * speed(m);
                }
                self.worth_of_cluster(&stage.prices)
            }
        };
        if budget - spent > OPTIMAL * value {
            return Err(CheckError::NotProved { objective: spent, bound: budget });
        }
        Ok(())
    }

    /// Whoever stops on the way through the tree to where everyone ended does so for a reason: at that moment, with
    /// everyone at the level the tree had brought them to, the prices that stopped him were all that could be spent.
    fn levels_follow_the_tree(&self) -> Result<(), CheckError> {
        let Certificate::Stages { stages, stopped } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let missing = CheckError::Instance { goal: "hierarchical" };
        let entities = self.instance.entities.as_ref().ok_or(missing)?;
        let per_level: Vec<f64> =
            self.jobs().map(|(_, job, _)| self.mean(job) / f64::from(job.gpus)).collect();
        let ends: Vec<f64> = per_level.iter().enumerate().map(|(m, per)| self.speed(m) / per).collect();
        let mut course = Course::new(self.instance, entities, &ends);
        let mut seen = vec![false; stages.len()];
        loop {
            let now = course.next();
            if now.is_empty() {
                return Ok(());
            }
            // The first of those a stage stopped had least reason to.
            for i in now.into_iter().filter_map(|m| stopped[m]) {
                if let Some(stage) = stages.get(i).filter(|_| !std::mem::replace(&mut seen[i], true)) {
                    let levels = course.levels(ends.len());
                    self.all_is_spent(stage, |m| levels[m] * per_level[m])?;
                }
            }
        }
    }

    /// At the end of every stage, all jobs not stopped before it stand at the same level over weight, or at their own
    /// top speed below it.
    fn levels_are_fair(&self) -> Result<(), CheckError> {
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

    /// How far whoever can go least far alone can go.
    fn own_bound(&self, rates: &[f64]) -> f64 {
        let fastest = |speeds: &[f64]| speeds.iter().copied().fold(0.0, f64::max);
        let own = self.jobs().zip(rates).filter(|(_, rate)| **rate > 0.0);
        own.map(|((_, _, speeds), rate)| fastest(speeds) / rate).fold(f64::INFINITY, f64::min)
    }

    /// If everyone reached rate·θ, Σ speed·rate·θ − Σ time would be at most what the cluster is worth.
    fn rise_bound(&self, rates: &[f64], theta: f64) -> f64 {
        let own = self.own_bound(rates);
        let (mut slope, mut budget) = (0.0, self.worth_of_cluster(&self.answer.prices));
        for ((_, job, speeds), rate) in self.jobs().zip(rates) {
            let worth = worth(f64::from(job.gpus), speeds, &self.answer.prices, rate * theta);
            slope += worth.speed * rate;
            budget += worth.time;
        }
        if slope > 0.0 { own.min(budget / slope) } else { own }
    }
}

/// The speed each job gets by these shares, as the goal sees speeds.
fn achieved(instance: &Instance, speeds: &[Vec<f64>], alone: &Shares, pairs: &[PairShare]) -> Vec<f64> {
    let by_itself = |(row, x): (&Vec<f64>, &[f64])| row.iter().zip(x).map(|(t, x)| t * x).sum();
    let mut achieved: Vec<f64> = speeds.iter().zip(alone.rows()).map(by_itself).collect();
    for pair in pairs {
        let [a, b] = pair.jobs;
        for (j, share) in pair.shares.iter().enumerate() {
            let jobs = [&instance.jobs[a], &instance.jobs[b]];
            let both = together(instance, jobs, [speeds[a][j], speeds[b][j]], j).unwrap_or_default();
            achieved[a] += both[0] * share;
            achieved[b] += both[1] * share;
        }
    }
    achieved
}

/// The speed a ratio of finish times asks for.
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

/// The dual values that make reaching `target` look dearest.
fn worth(gpus: f64, speeds: &[f64], prices: &[f64], target: f64) -> Worth {
    let time = |speed: f64| speeds.iter().zip(prices).map(|(t, p)| speed * t - gpus * p).fold(0.0, f64::max);
    let mut best = Worth { speed: 0.0, time: 0.0 };
    let mut offer = |speed: f64| {
        let offered = Worth { speed, time: time(speed) };
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

/// The most a job can gain at these prices, as its dual bounds it: the least over what a step a second towards its
/// deadline may be worth, up to `most`; `paid(worth)` is what the deadline itself adds.
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
