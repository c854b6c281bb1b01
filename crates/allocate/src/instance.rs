//! Allocation instance: GPU types, jobs and entities, as read from an instance file and validated before any solver
//! sees it. `problem` converts it to numeric form.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::goal::PlacementModel;
use crate::table::ThroughputTable;

/// GPU type and its count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuType {
    /// Name, such as `v100`.
    pub name: String,
    /// Number of GPUs.
    pub count: u32,
    /// Cost per GPU and hour, if known.
    pub cost_per_hour: Option<f64>,
    /// GPUs per machine at most, if known.
    pub per_server: Option<u32>,
}

impl GpuType {
    /// GPU type without cost or machine size.
    pub fn new(name: impl Into<String>, count: u32) -> Self {
        Self { name: name.into(), count, cost_per_hour: None, per_server: None }
    }
}

/// Job: its speed on each type and the quantities that goals use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number by which errors and entities refer to it.
    pub id: u64,
    /// Name of its throughput profile, by which pairs are looked up.
    #[serde(rename = "job_type", default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// GPUs it needs at once (gang size).
    #[serde(rename = "scale_factor", default = "one_gpu")]
    pub gpus: u32,
    /// Weight: twice the weight, twice the share.
    #[serde(rename = "priority_weight", default = "unit")]
    pub weight: f64,
    /// Remaining steps.
    #[serde(rename = "num_steps_remaining", default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<f64>,
    /// Seconds since its arrival.
    #[serde(rename = "time_since_start", default)]
    pub age_s: f64,
    /// Seconds its work so far would have taken alone on 1/n of the cluster.
    #[serde(default)]
    pub isolated_time_s: f64,
    /// Seconds until its deadline, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// Steps per second on each type, in the order of the types; 0 where it cannot run.
    pub throughputs: Vec<f64>,
    /// Steps per second with its GPUs spread over machines, if measured.
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
    /// Job of one GPU and weight 1 with the given speeds.
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

/// How an entity distributes its level among its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntityPolicy {
    /// All members rise together, by weight.
    #[serde(rename = "fairness", alias = "fair")]
    Fair,
    /// The first member that can still rise takes everything.
    #[serde(rename = "fifo")]
    Fifo,
}

/// Entities (organisations): per name a weight, a policy, and jobs (by id) or nested entities.
///
/// Sub-entities of a FIFO entity come in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entities {
    /// Weight of each entity among its siblings.
    pub weights: BTreeMap<String, f64>,
    /// Policy of each entity.
    pub policies: BTreeMap<String, EntityPolicy>,
    /// Jobs of each entity, in order of arrival.
    #[serde(default)]
    pub jobs: BTreeMap<String, Vec<u64>>,
    /// Nested entities of each entity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entities: BTreeMap<String, Entities>,
}

/// Allocation instance, independent of the goal.
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
#[serde(try_from = "InstanceFile")]
pub struct Instance {
    /// GPU types; every list per type is in this order.
    pub types: Vec<GpuType>,
    /// Jobs; every list per job is in this order.
    pub jobs: Vec<Job>,
    /// Throughputs of pairs that share a GPU, by profile.
    pub pairs: Option<ThroughputTable>,
    /// Entities the jobs belong to.
    pub entities: Option<Entities>,
}

/// File format. `n`, `seed` and the like describe how an instance was generated and have no effect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an instance: an object with worker_types, num_workers and jobs")]
struct InstanceFile {
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

impl TryFrom<InstanceFile> for Instance {
    type Error = InstanceError;

    fn try_from(file: InstanceFile) -> Result<Self, InstanceError> {
        let types = file.worker_types.len();
        if file.num_workers.len() != types {
            return Err(InstanceError::Lengths {
                field: "num_workers",
                found: file.num_workers.len(),
                types,
            });
        }
        if let Some(costs) = file.cost_per_hour.as_ref().filter(|costs| costs.len() != types) {
            return Err(InstanceError::Lengths { field: "cost_per_hour", found: costs.len(), types });
        }
        if let Some(sizes) = file.gpus_per_server.as_ref().filter(|sizes| sizes.len() != types) {
            return Err(InstanceError::Lengths { field: "gpus_per_server", found: sizes.len(), types });
        }
        let sizes = file.gpus_per_server.map_or(vec![None; types], |s| s.into_iter().map(Some).collect());
        let costs = file.cost_per_hour.map_or(vec![None; types], |c| c.into_iter().map(Some).collect());
        let types = file
            .worker_types
            .into_iter()
            .zip(file.num_workers)
            .zip(costs)
            .zip(sizes)
            .map(|(((name, count), cost_per_hour), per_server)| GpuType {
                name,
                count,
                cost_per_hour,
                per_server,
            })
            .collect();
        Ok(Self { types, jobs: file.jobs, pairs: file.pair_throughputs, entities: file.entities })
    }
}

/// Reason an instance is invalid: names the job or entity and the field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InstanceError {
    /// List per type of the wrong length.
    #[error("{field}: {found} entries for {types} worker types")]
    Lengths {
        /// The list.
        field: &'static str,
        /// Entries given.
        found: usize,
        /// Entries needed.
        types: usize,
    },
    /// No GPU of any type.
    #[error("num_workers: there is no GPU of any type")]
    NoGpus,
    /// Two types of one name.
    #[error("worker_types: {name} is there twice")]
    DuplicateType {
        /// The name.
        name: String,
    },
    /// Cost that is not positive.
    #[error("cost_per_hour: {value} for {name} is not a positive number")]
    Cost {
        /// The type.
        name: String,
        /// Given value.
        value: f64,
    },
    /// Two jobs of one id.
    #[error("job {job}: id: used twice")]
    DuplicateId {
        /// The id.
        job: u64,
    },
    /// Throughput row of the wrong length.
    #[error("job {job}: throughputs: {found} entries for {types} worker types")]
    RowLength {
        /// The job.
        job: u64,
        /// Entries given.
        found: usize,
        /// Entries needed.
        types: usize,
    },
    /// Number that is negative, infinite or not a number.
    #[error("job {job}: {field}: {value} is not a finite number of at least 0")]
    Number {
        /// The job.
        job: u64,
        /// The field.
        field: &'static str,
        /// Given value.
        value: f64,
    },
    /// Number too large or too small for arithmetic without overflow or underflow.
    #[error("{what}: {value:e} is out of range; use 0 or a number between 1e-30 and 1e30")]
    OutOfRange {
        /// Job or type, and field.
        what: String,
        /// Given value.
        value: f64,
    },
    /// Weight that is not above zero.
    #[error("job {job}: priority_weight: {value} is not a finite number above 0")]
    Weight {
        /// The job.
        job: u64,
        /// Given value.
        value: f64,
    },
    /// Job of zero GPUs.
    #[error("job {job}: scale_factor: a job needs at least one GPU")]
    ZeroGpus {
        /// The job.
        job: u64,
    },
    /// Job of more GPUs than any type has.
    #[error(
        "job {job}: scale_factor: {requested} GPUs is more than any type has (largest: {largest} of {name})"
    )]
    TooManyGpus {
        /// The job.
        job: u64,
        /// GPUs requested.
        requested: u32,
        /// Largest count of any type.
        largest: u32,
        /// That type.
        name: String,
    },
    /// Job with throughput zero on every type that has enough GPUs.
    #[error("job {job}: throughputs: zero on every type it fits on")]
    RunsNowhere {
        /// The job.
        job: u64,
    },
    /// Invalid throughput of a pair.
    #[error("pair_throughputs: {value} for {pair} on {name} is not a finite number of at least 0")]
    Pair {
        /// The pair.
        pair: String,
        /// The type.
        name: String,
        /// Given value.
        value: f64,
    },
    /// Entity weight that is not above zero.
    #[error("entity {entity}: weights: {value} is not a finite number above 0")]
    EntityWeight {
        /// The entity.
        entity: String,
        /// Given value.
        value: f64,
    },
    /// Missing field of an entity.
    #[error("entity {entity}: {field}: missing")]
    EntityField {
        /// The entity.
        entity: String,
        /// The field.
        field: &'static str,
    },
    /// Entity with both jobs and nested entities.
    #[error("entity {entity}: has both jobs and entities of its own")]
    EntityMixed {
        /// The entity.
        entity: String,
    },
    /// Reference to a job that does not exist.
    #[error("entity {entity}: jobs: there is no job {job}")]
    UnknownJob {
        /// The entity.
        entity: String,
        /// The job.
        job: u64,
    },
    /// Job in two entities.
    #[error("entity {entity}: jobs: job {job} is in another entity too")]
    DuplicateJob {
        /// The entity.
        entity: String,
        /// The job.
        job: u64,
    },
    /// Job in no entity.
    #[error("job {job}: is in no entity")]
    NoEntity {
        /// The job.
        job: u64,
    },
}

impl Instance {
    /// Instance as seen under a placement model. A job's GPUs are never spread where one machine holds them all, since
    /// that is no slower and uses no more; so only jobs wider than a type's machines run there at their spread speed.
    pub(crate) fn with_placement(&self, placement_model: PlacementModel) -> Cow<'_, Self> {
        let wide = |job: &Job, t: &GpuType| t.per_server.is_some_and(|size| job.gpus > size);
        let spread = |job: &Job| job.spread.is_some() && self.types.iter().any(|t| wide(job, t));
        if placement_model == PlacementModel::Ignored || !self.jobs.iter().any(spread) {
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

    /// Validates the instance; errors name the job and the field.
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
            check_magnitude(t.cost_per_hour.unwrap_or(1.0), || format!("cost_per_hour of {}", t.name))?;
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
                return Err(InstanceError::NoEntity { job: job.id });
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
            check_magnitude(value, || format!("job {id}: {field}"))?;
        }
        if !job.weight.is_finite() || job.weight <= 0.0 {
            return Err(InstanceError::Weight { job: id, value: job.weight });
        }
        check_magnitude(job.weight, || format!("job {id}: priority_weight"))?;
        if job.gpus == 0 {
            return Err(InstanceError::ZeroGpus { job: id });
        }
        let largest = self.types.iter().max_by_key(|t| t.count).ok_or(InstanceError::NoGpus)?;
        if job.gpus > largest.count {
            let (largest, name) = (largest.count, largest.name.clone());
            return Err(InstanceError::TooManyGpus { job: id, requested: job.gpus, largest, name });
        }
        if !self.types.iter().zip(&job.throughputs).any(|(t, &speed)| t.count >= job.gpus && speed > 0.0) {
            return Err(InstanceError::RunsNowhere { job: id });
        }
        Ok(())
    }
}

/// Rejects numbers that would overflow or underflow when solvers multiply a few of them.
pub(crate) fn check_magnitude(value: f64, what: impl FnOnce() -> String) -> Result<(), InstanceError> {
    let fine = value == 0.0 || (1e-30..=1e30).contains(&value);
    if fine { Ok(()) } else { Err(InstanceError::OutOfRange { what: what(), value }) }
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
            check_magnitude(value, || format!("entity {name}: weights"))?;
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
                            return Err(InstanceError::DuplicateJob { entity: entity(), job });
                        }
                    }
                }
                (None, None) => return Err(missing("jobs")),
            }
        }
        Ok(())
    }
}
