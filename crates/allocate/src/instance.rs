//! What is to be allocated: GPU types, jobs and who they belong to, as read from an instance file and checked before
//! any solver sees it. How the numbers are laid out for solving is `problem`'s business.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::goal::Placing;
use crate::table::ThroughputTable;

/// One kind of GPU and how many of them there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuType {
    /// Its name, such as `v100`.
    pub name: String,
    /// How many there are.
    pub count: u32,
    /// What an hour of one costs, where that is known.
    pub cost_per_hour: Option<f64>,
    /// How many of them a machine has at most, where that is known.
    pub per_server: Option<u32>,
}

impl GpuType {
    /// So many of a name.
    pub fn new(name: impl Into<String>, count: u32) -> Self {
        Self { name: name.into(), count, cost_per_hour: None, per_server: None }
    }
}

/// One job: how fast it runs on each type, and what the goals want to know of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The number errors and entities call it by.
    pub id: u64,
    /// The name of its throughput profile; pairs that share a GPU are looked up by it.
    #[serde(rename = "job_type", default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// GPUs it needs at once.
    #[serde(rename = "scale_factor", default = "one_gpu")]
    pub gpus: u32,
    /// Its weight: twice the weight, twice the share.
    #[serde(rename = "priority_weight", default = "unit")]
    pub weight: f64,
    /// Steps left to do.
    #[serde(rename = "num_steps_remaining", default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<f64>,
    /// Seconds since it arrived.
    #[serde(rename = "time_since_start", default)]
    pub age_s: f64,
    /// Seconds it would have needed alone, on its 1/n share, for what it has done so far.
    #[serde(default)]
    pub isolated_time_s: f64,
    /// Seconds left until its deadline, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// Steps a second on each type, in the order of the types; 0 where it cannot run.
    pub throughputs: Vec<f64>,
    /// The same with its GPUs spread over machines, where that was measured.
    #[serde(rename = "unconsolidated_throughputs", default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Vec<f64>>,
}

fn one_gpu() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

impl Job {
    /// A job of one GPU and weight 1 that runs this fast on each type.
    pub fn new(id: u64, throughputs: Vec<f64>) -> Self {
        Self {
            id,
            profile: None,
            gpus: 1,
            weight: 1.0,
            steps: None,
            age_s: 0.0,
            isolated_time_s: 0.0,
            deadline_s: None,
            throughputs,
            spread: None,
        }
    }
}

/// How an entity shares what it gets among its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// All members rise together, by weight.
    #[serde(rename = "fairness", alias = "fair")]
    Fair,
    /// The first member that can still rise takes everything.
    #[serde(rename = "fifo")]
    Fifo,
}

/// Organisations and what they hold: per name a weight, a rule, and jobs (by id) or, nested, entities of its own.
///
/// Sub-entities of a first-in-first-out entity come in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entities {
    /// Each entity's weight among its siblings.
    pub weights: BTreeMap<String, f64>,
    /// How each entity shares among its members.
    pub policies: BTreeMap<String, Sharing>,
    /// The jobs each entity holds directly, in order of arrival.
    #[serde(default)]
    pub jobs: BTreeMap<String, Vec<u64>>,
    /// The entities each entity holds, in this same shape.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entities: BTreeMap<String, Entities>,
}

/// A whole allocation problem, whatever the goal.
///
/// ```
/// use warpyard_allocate::{Instance, GpuType, Job};
/// let instance = Instance {
///     types: vec![GpuType::new("v100", 1)],
///     jobs: vec![Job::new(0, vec![40.0])],
///     pairs: None,
///     entities: None,
/// };
/// assert!(instance.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Wire")]
pub struct Instance {
    /// The GPU types; every list per type is in this order.
    pub types: Vec<GpuType>,
    /// The jobs; every list per job is in this order.
    pub jobs: Vec<Job>,
    /// Throughputs of pairs that share a GPU, by profile.
    pub pairs: Option<ThroughputTable>,
    /// Who the jobs belong to.
    pub entities: Option<Entities>,
}

/// The file's own shape. `n`, `seed` and the like say how an instance was made and decide nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an instance: an object with worker_types, num_workers and jobs")]
struct Wire {
    #[serde(rename = "n")]
    _n: Option<u64>,
    #[serde(rename = "seed")]
    _seed: Option<i64>,
    #[serde(rename = "multi_gpu")]
    _multi_gpu: Option<bool>,
    #[serde(rename = "multi_priority")]
    _multi_priority: Option<bool>,
    worker_types: Vec<String>,
    num_workers: Vec<u32>,
    cost_per_hour: Option<Vec<f64>>,
    gpus_per_server: Option<Vec<u32>>,
    jobs: Vec<Job>,
    pair_throughputs: Option<ThroughputTable>,
    entities: Option<Entities>,
}

impl TryFrom<Wire> for Instance {
    type Error = InstanceError;

    fn try_from(wire: Wire) -> Result<Self, InstanceError> {
        let types = wire.worker_types.len();
        if wire.num_workers.len() != types {
            return Err(InstanceError::Lengths {
                field: "num_workers",
                found: wire.num_workers.len(),
                types,
            });
        }
        if let Some(costs) = wire.cost_per_hour.as_ref().filter(|costs| costs.len() != types) {
            return Err(InstanceError::Lengths { field: "cost_per_hour", found: costs.len(), types });
        }
        if let Some(sizes) = wire.gpus_per_server.as_ref().filter(|sizes| sizes.len() != types) {
            return Err(InstanceError::Lengths { field: "gpus_per_server", found: sizes.len(), types });
        }
        let sizes = wire.gpus_per_server.map_or(vec![None; types], |s| s.into_iter().map(Some).collect());
        let costs = wire.cost_per_hour.map_or(vec![None; types], |c| c.into_iter().map(Some).collect());
        let types = wire
            .worker_types
            .into_iter()
            .zip(wire.num_workers)
            .zip(costs)
            .zip(sizes)
            .map(|(((name, count), cost_per_hour), per_server)| GpuType {
                name,
                count,
                cost_per_hour,
                per_server,
            })
            .collect();
        Ok(Self { types, jobs: wire.jobs, pairs: wire.pair_throughputs, entities: wire.entities })
    }
}

/// What is wrong with an instance: which job or entity, and which field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InstanceError {
    /// A list per type has the wrong length.
    #[error("{field}: {found} entries for {types} worker types")]
    Lengths {
        /// The list.
        field: &'static str,
        /// How many entries it has.
        found: usize,
        /// How many it should have.
        types: usize,
    },
    /// There is no GPU at all.
    #[error("num_workers: there is no GPU of any type")]
    NoGpus,
    /// Two types have the same name.
    #[error("worker_types: {name} is there twice")]
    DuplicateType {
        /// The name.
        name: String,
    },
    /// A type's cost is no cost.
    #[error("cost_per_hour: {value} for {name} is not a positive number")]
    Cost {
        /// The type.
        name: String,
        /// What was given.
        value: f64,
    },
    /// Two jobs have the same id.
    #[error("job {job}: id: used twice")]
    DuplicateId {
        /// The id.
        job: u64,
    },
    /// A job's throughput row has the wrong length.
    #[error("job {job}: throughputs: {found} entries for {types} worker types")]
    RowLength {
        /// The job.
        job: u64,
        /// How many entries it has.
        found: usize,
        /// How many it should have.
        types: usize,
    },
    /// A number is negative, infinite or not a number.
    #[error("job {job}: {field}: {value} is not a finite number of at least 0")]
    Number {
        /// The job.
        job: u64,
        /// The field.
        field: &'static str,
        /// What was given.
        value: f64,
    },
    /// A number is so large or so small that what follows from it would no longer be a number.
    #[error("{what}: {value:e} cannot be reckoned with; what is not 0 is between 1e-30 and 1e30")]
    OutOfReach {
        /// Whose, and which field.
        what: String,
        /// What was given.
        value: f64,
    },
    /// A weight is not above zero.
    #[error("job {job}: priority_weight: {value} is not a finite number above 0")]
    Weight {
        /// The job.
        job: u64,
        /// What was given.
        value: f64,
    },
    /// A job asks for no GPU.
    #[error("job {job}: scale_factor: a job needs at least one GPU")]
    NoGpuAsked {
        /// The job.
        job: u64,
    },
    /// A job asks for more GPUs than any type has.
    #[error("job {job}: scale_factor: {asked} GPUs is more than any type has (largest: {largest} of {name})")]
    TooManyGpus {
        /// The job.
        job: u64,
        /// How many it asks for.
        asked: u32,
        /// The most any type has.
        largest: u32,
        /// That type.
        name: String,
    },
    /// A job's throughput is zero on every type that has enough GPUs for it.
    #[error("job {job}: throughputs: zero on every type it fits on")]
    RunsNowhere {
        /// The job.
        job: u64,
    },
    /// A pair's throughput is no throughput.
    #[error("pair_throughputs: {value} for {pair} on {name} is not a finite number of at least 0")]
    Pair {
        /// The pair.
        pair: String,
        /// The type.
        name: String,
        /// What was given.
        value: f64,
    },
    /// An entity's weight is missing or not above zero.
    #[error("entity {entity}: weights: {value} is not a finite number above 0")]
    EntityWeight {
        /// The entity.
        entity: String,
        /// What was given.
        value: f64,
    },
    /// An entity lacks one of its fields.
    #[error("entity {entity}: {field}: missing")]
    EntityField {
        /// The entity.
        entity: String,
        /// The field.
        field: &'static str,
    },
    /// An entity has both jobs and entities of its own.
    #[error("entity {entity}: has both jobs and entities of its own")]
    EntityMixed {
        /// The entity.
        entity: String,
    },
    /// An entity names a job there is not.
    #[error("entity {entity}: jobs: there is no job {job}")]
    UnknownJob {
        /// The entity.
        entity: String,
        /// The job.
        job: u64,
    },
    /// A job is in two entities.
    #[error("entity {entity}: jobs: job {job} is in another entity too")]
    SharedJob {
        /// The entity.
        entity: String,
        /// The job.
        job: u64,
    },
    /// A job is in none.
    #[error("job {job}: is in no entity")]
    Homeless {
        /// The job.
        job: u64,
    },
}

impl Instance {
    /// The instance as a goal sees it that does or does not know where GPUs are. A job's GPUs are never spread where one
    /// machine holds them all: that is no slower and uses no more. So only jobs wider than the machines of a type run
    /// there at their speed when spread.
    pub(crate) fn placed(&self, placing: Placing) -> Cow<'_, Self> {
        let wide = |job: &Job, t: &GpuType| t.per_server.is_some_and(|size| job.gpus > size);
        let spread = |job: &Job| job.spread.is_some() && self.types.iter().any(|t| wide(job, t));
        if placing == Placing::Ignored || !self.jobs.iter().any(spread) {
            return Cow::Borrowed(self);
        }
        let mut placed = self.clone();
        for job in placed.jobs.iter_mut().filter(|job| spread(job)) {
            let slower = job.spread.clone().unwrap_or_default();
            let wide: Vec<bool> = self.types.iter().map(|t| wide(job, t)).collect();
            for j in (0..wide.len()).filter(|&j| wide[j]) {
                job.throughputs[j] = slower[j];
            }
        }
        Cow::Owned(placed)
    }

    /// Refuses what no solver can make sense of, naming the job and the field.
    pub fn validate(&self) -> Result<(), InstanceError> {
        if self.types.iter().all(|t| t.count == 0) {
            return Err(InstanceError::NoGpus);
        }
        let mut names = HashSet::with_capacity(self.types.len());
        for t in &self.types {
            if !names.insert(&t.name) {
                return Err(InstanceError::DuplicateType { name: t.name.clone() });
            }
            if let Some(value) = t.cost_per_hour.filter(|c| !(c.is_finite() && *c > 0.0)) {
                return Err(InstanceError::Cost { name: t.name.clone(), value });
            }
            within_reach(t.cost_per_hour.unwrap_or(1.0), || format!("cost_per_hour of {}", t.name))?;
        }
        let mut ids = HashSet::with_capacity(self.jobs.len());
        for job in &self.jobs {
            if !ids.insert(job.id) {
                return Err(InstanceError::DuplicateId { job: job.id });
            }
            self.validate_job(job)?;
        }
        if let Some(pairs) = &self.pairs {
            pairs.validate()?;
        }
        if let Some(entities) = &self.entities {
            let mut placed = HashSet::new();
            entities.validate(&ids, &mut placed)?;
            if let Some(job) = self.jobs.iter().find(|job| !placed.contains(&job.id)) {
                return Err(InstanceError::Homeless { job: job.id });
            }
        }
        Ok(())
    }

    fn validate_job(&self, job: &Job) -> Result<(), InstanceError> {
        let id = job.id;
        if job.throughputs.len() != self.types.len() {
            let found = job.throughputs.len();
            return Err(InstanceError::RowLength { job: id, found, types: self.types.len() });
        }
        if let Some(spread) = job.spread.as_ref().filter(|spread| spread.len() != self.types.len()) {
            return Err(InstanceError::RowLength { job: id, found: spread.len(), types: self.types.len() });
        }
        let spread = job.spread.iter().flatten().map(|&value| ("unconsolidated_throughputs", value));
        let numbers = job
            .throughputs
            .iter()
            .map(|&value| ("throughputs", value))
            .chain(spread)
            .chain(job.steps.map(|value| ("num_steps_remaining", value)))
            .chain(job.deadline_s.map(|value| ("deadline_s", value)))
            .chain([("time_since_start", job.age_s), ("isolated_time_s", job.isolated_time_s)]);
        for (field, value) in numbers {
            if !value.is_finite() || value < 0.0 {
                return Err(InstanceError::Number { job: id, field, value });
            }
            within_reach(value, || format!("job {id}: {field}"))?;
        }
        if !job.weight.is_finite() || job.weight <= 0.0 {
            return Err(InstanceError::Weight { job: id, value: job.weight });
        }
        within_reach(job.weight, || format!("job {id}: priority_weight"))?;
        if job.gpus == 0 {
            return Err(InstanceError::NoGpuAsked { job: id });
        }
        let largest = self.types.iter().max_by_key(|t| t.count).ok_or(InstanceError::NoGpus)?;
        if job.gpus > largest.count {
            let (largest, name) = (largest.count, largest.name.clone());
            return Err(InstanceError::TooManyGpus { job: id, asked: job.gpus, largest, name });
        }
        if !self.types.iter().zip(&job.throughputs).any(|(t, &speed)| t.count >= job.gpus && speed > 0.0) {
            return Err(InstanceError::RunsNowhere { job: id });
        }
        Ok(())
    }
}

/// Refuses what would overflow, or vanish, where solvers multiply a few such numbers.
pub(crate) fn within_reach(value: f64, what: impl FnOnce() -> String) -> Result<(), InstanceError> {
    let fine = value == 0.0 || (1e-30..=1e30).contains(&value);
    if fine { Ok(()) } else { Err(InstanceError::OutOfReach { what: what(), value }) }
}

impl Entities {
    fn validate(&self, ids: &HashSet<u64>, placed: &mut HashSet<u64>) -> Result<(), InstanceError> {
        let names: std::collections::BTreeSet<&String> = self
            .weights
            .keys()
            .chain(self.policies.keys())
            .chain(self.jobs.keys())
            .chain(self.entities.keys())
            .collect();
        for name in names {
            let entity = || name.clone();
            let missing = |field| InstanceError::EntityField { entity: entity(), field };
            let value = *self.weights.get(name).ok_or_else(|| missing("weights"))?;
            if !value.is_finite() || value <= 0.0 {
                return Err(InstanceError::EntityWeight { entity: entity(), value });
            }
            within_reach(value, || format!("entity {name}: weights"))?;
            self.policies.get(name).ok_or_else(|| missing("policies"))?;
            match (self.jobs.get(name), self.entities.get(name)) {
                (Some(jobs), Some(_)) if !jobs.is_empty() => {
                    return Err(InstanceError::EntityMixed { entity: entity() });
                }
                (_, Some(inner)) => inner.validate(ids, placed)?,
                (Some(jobs), None) => {
                    for &job in jobs {
                        if !ids.contains(&job) {
                            return Err(InstanceError::UnknownJob { entity: entity(), job });
                        }
                        if !placed.insert(job) {
                            return Err(InstanceError::SharedJob { entity: entity(), job });
                        }
                    }
                }
                (None, None) => return Err(missing("jobs")),
            }
        }
        Ok(())
    }
}
