//! What came out of a simulation, in figures. Wait is from being ready to the first start, response from submission to
//! the first start, completion from submission to the end; a job of several tasks starts with its first and ends with
//! its last.

pub mod page;
pub mod plot;
pub mod timeline;

use crate::{Record, Sim};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use warpyard_core::event::Outcome;
use warpyard_core::{JobId, Time};

/// The figures of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimReport {
    /// The policy, with its parameters.
    pub policy: String,
    /// What the workload was made from.
    pub seed: u64,
    /// How many jobs were submitted.
    pub jobs: u64,
    /// How many of them succeeded.
    pub finished: u64,
    /// How many were refused.
    pub rejected: u64,
    /// Jobs of a recording that had not started when it ended: their waits until then are in `wait`, as lower bounds.
    pub still_waiting: u64,
    /// From being ready to the first start.
    pub wait: Distribution,
    /// From submission to the first start.
    pub response: Distribution,
    /// From submission to the end.
    pub completion: Distribution,
    /// From the first submission to the last end, in seconds.
    pub makespan: f64,
    /// Time with a task running on them, of all the time that devices were there until the last end.
    pub utilisation: f64,
    /// Sum of (priority − lowest priority) × completion, in seconds.
    pub weighted_turnaround: f64,
    /// How often something was made to stand still.
    pub preemptions: u64,
    /// How often something was begun again.
    pub restarts: u64,
    /// How many events there were.
    pub events: u64,
    /// How long the simulation took; the only figure that is not the same for the same seed.
    pub wall_seconds: f64,
    /// Each job, where asked for.
    pub per_job: Option<Vec<JobFigures>>,
}

/// How values are spread, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Their mean.
    pub average: f64,
    /// Half are not above this.
    pub p50: f64,
    /// 95 in 100 are not above this.
    pub p95: f64,
    /// 99 in 100 are not above this.
    pub p99: f64,
    /// None is above this.
    pub max: f64,
}

/// The figures of one job, in seconds.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct JobFigures {
    /// Its number.
    pub job: u64,
    /// What it is called where it comes from; empty where that is not known.
    pub name: String,
    /// Whose it is; empty where that is not known.
    pub user: String,
    /// When it was submitted.
    pub submitted_s: f64,
    /// When it first started.
    pub started_s: Option<f64>,
    /// When it ended.
    pub ended_s: Option<f64>,
    /// How: the worst of its tasks.
    pub outcome: Option<&'static str>,
    /// How many attempts its tasks took together.
    pub attempts: u32,
    /// Running time times devices; of a device that n tasks ran on at once, 1/n.
    pub gpu_seconds: f64,
    /// From being ready to the first start.
    pub wait_s: Option<f64>,
    /// Completion over the job's own time, that of all its attempts, at least 1; see [`slowdown`].
    pub slowdown: Option<f64>,
    /// Larger is more urgent.
    pub priority: i64,
}

impl JobFigures {
    /// From submission to the first start.
    pub fn response_s(&self) -> Option<f64> {
        Some(apart(self.submitted_s, self.started_s?))
    }

    /// From submission to the end.
    pub fn completion_s(&self) -> Option<f64> {
        Some(apart(self.submitted_s, self.ended_s?))
    }
}

/// How far apart two moments are. They are whole microseconds, which their difference as numbers no longer is.
fn apart(from: f64, to: f64) -> f64 {
    ((to - from) * 1e6).round() / 1e6
}

/// Jobs that take less than this do not count as slowed down by a factor of hundreds for having waited a moment.
pub const SHORTEST: f64 = 10.0;

/// How much longer a job took than it would have alone: from submission to end over its own time, or over 10 s where that
/// is longer (the *bounded slowdown* of Feitelson and Rudolph, 1998); at least 1.
pub fn slowdown(completion: f64, own: f64) -> f64 {
    (completion / own.max(SHORTEST)).max(1.0)
}

/// Jain's index of fairness: 1 where all values are equal, 1/n where one has everything.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

impl Distribution {
    /// How these are spread; the percentile is the smallest value that enough of them do not exceed.
    pub fn of(mut values: Vec<f64>) -> Distribution {
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len();
        let Some(&max) = values.last() else { return Distribution::default() };
        let at = |percent: usize| values[(n * percent).div_ceil(100).max(1) - 1];
        Distribution {
            average: values.iter().sum::<f64>() / n as f64,
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max,
        }
    }
}

impl SimReport {
    /// The figures of a simulation that has run.
    pub fn of(sim: &Sim, seed: u64, wall_seconds: f64, per_job: bool) -> SimReport {
        let devices = sim.cluster().workers().map(|(_, w)| w.info.devices.len()).sum();
        SimReport {
            seed,
            wall_seconds,
            events: sim.events(),
            ..SimReport::of_records(
                sim.cluster().policy().to_string(),
                sim.records(),
                devices,
                sim.rejections().len() as u64,
                per_job,
            )
        }
    }

    /// The figures of tasks, those of one job together, on so many devices.
    pub fn of_records(
        policy: String,
        records: &[Record],
        devices: usize,
        rejected: u64,
        per_job: bool,
    ) -> SimReport {
        let jobs = jobs(records);
        let first = jobs.iter().map(|j| j.submitted_s).fold(f64::INFINITY, f64::min);
        let makespan = jobs.iter().filter_map(|j| Some(apart(first, j.ended_s?))).fold(0.0, f64::max);
        let lowest = jobs.iter().map(|j| j.priority).min().unwrap_or(0);
        let given = devices as f64 * makespan;
        let used: f64 = jobs.iter().map(|j| j.gpu_seconds).sum();
        SimReport {
            policy,
            seed: 0,
            jobs: jobs.len() as u64 + rejected,
            finished: jobs.iter().filter(|j| j.outcome == Some(Outcome::Succeeded.word())).count() as u64,
            rejected,
            still_waiting: 0,
            wait: Distribution::of(jobs.iter().filter_map(|j| j.wait_s).collect()),
            response: Distribution::of(jobs.iter().filter_map(JobFigures::response_s).collect()),
            completion: Distribution::of(jobs.iter().filter_map(JobFigures::completion_s).collect()),
            makespan,
            utilisation: if given > 0.0 { used / given } else { 0.0 },
            // From 0, since an empty sum would be -0.
            weighted_turnaround: jobs
                .iter()
                .filter_map(|j| Some((j.priority - lowest) as f64 * j.completion_s()?))
                .fold(0.0, |sum, one| sum + one),
            preemptions: records.iter().map(|r| u64::from(r.preemptions)).sum(),
            restarts: records.iter().map(|r| u64::from(r.attempts.saturating_sub(1))).sum(),
            events: 0,
            wall_seconds: 0.0,
            per_job: per_job.then_some(jobs),
        }
    }
}

impl SimReport {
    /// Has the waits of jobs that had not ended count, too. Of one that had not started either, what it had waited until
    /// then is a lower bound of its wait; how many those are is kept beside the figures.
    pub fn count_unfinished(&mut self, records: &[Record], until: Time) {
        let all = records.chunk_by(|a, b| a.task.job == b.task.job);
        let mut waits = Vec::new();
        for tasks in all {
            if let Some(wait) = figures(tasks).wait_s {
                waits.push(wait);
            } else if let Some(ready) =
                tasks.iter().filter(|t| t.ended.is_none()).filter_map(|t| t.ready).min()
            {
                self.still_waiting += 1;
                waits.push(until.since(ready).secs());
            }
        }
        self.wait = Distribution::of(waits);
    }

    /// Says of each job what it is called and whose it is.
    pub fn name_jobs(&mut self, names: &BTreeMap<JobId, JobName>) {
        for job in self.per_job.iter_mut().flatten() {
            if let Some(JobName { name, user }) = names.get(&JobId(job.job)) {
                (job.name, job.user) = (name.clone(), user.clone());
            }
        }
    }
}

/// What a job is called and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub user: String,
}

/// Tasks of one job follow one another in the records.
fn jobs(records: &[Record]) -> Vec<JobFigures> {
    records.chunk_by(|a, b| a.task.job == b.task.job).map(figures).collect()
}

fn figures(tasks: &[Record]) -> JobFigures {
    let started = tasks.iter().filter_map(|t| t.started).min();
    let first = tasks.iter().filter(|t| t.started.is_some()).min_by_key(|t| t.started);
    let over = tasks.iter().all(|t| t.ended.is_some());
    let ended = tasks.iter().filter_map(|t| t.ended).max().filter(|_| over);
    JobFigures {
        job: tasks[0].task.job.0,
        name: String::new(),
        user: String::new(),
        submitted_s: tasks[0].submitted.secs(),
        started_s: started.map(Time::secs),
        ended_s: ended.map(Time::secs),
        outcome: tasks.iter().filter_map(|t| t.outcome).max().filter(|_| over).map(Outcome::word),
        attempts: tasks.iter().map(|t| t.attempts).sum(),
        gpu_seconds: tasks.iter().map(|t| t.gpu_seconds).sum(),
        wait_s: first.and_then(|t| Some(t.started?.since(t.ready?).secs())),
        slowdown: ended.zip(started).map(|(ended, started)| {
            // Of several tasks, what runs beside what is the policy's doing too; from first start to end comes closest.
            let own = if let [one] = tasks { one.ran } else { ended.since(started) };
            slowdown(ended.since(tasks[0].submitted).secs(), own.secs())
        }),
        priority: tasks[0].priority,
    }
}

/// The names others rely on, such as `average_wait_s` and `p95_completion_s`.
impl Serialize for SimReport {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("policy", &self.policy)?;
        map.serialize_entry("seed", &self.seed)?;
        map.serialize_entry("jobs", &self.jobs)?;
        map.serialize_entry("finished", &self.finished)?;
        map.serialize_entry("rejected", &self.rejected)?;
        if self.still_waiting > 0 {
            map.serialize_entry("still_waiting", &self.still_waiting)?;
        }
        for (name, spread) in
            [("wait", self.wait), ("response", self.response), ("completion", self.completion)]
        {
            let Distribution { average, p50, p95, p99, max } = spread;
            for (of, value) in [("average", average), ("p50", p50), ("p95", p95), ("p99", p99), ("max", max)]
            {
                map.serialize_entry(&format!("{of}_{name}_s"), &value)?;
            }
        }
        map.serialize_entry("makespan_s", &self.makespan)?;
        map.serialize_entry("utilisation", &self.utilisation)?;
        map.serialize_entry("weighted_turnaround_s", &self.weighted_turnaround)?;
        map.serialize_entry("preemptions", &self.preemptions)?;
        map.serialize_entry("restarts", &self.restarts)?;
        map.serialize_entry("events", &self.events)?;
        map.serialize_entry("wall_seconds", &self.wall_seconds)?;
        if let Some(per_job) = &self.per_job {
            map.serialize_entry("per_job", per_job)?;
        }
        map.end()
    }
}
