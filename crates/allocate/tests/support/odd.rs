//! Random instances with features that make solvers fail.

use crate::support::{self, Random};
use warpyard_allocate::{Entities, EntityPolicy, Instance, Job, Profile, ThroughputTable};

/// A job's profile, as tables of pairs call it.
pub(crate) fn profile(job: &Job) -> Profile {
    Profile { name: job.profile.clone().unwrap_or_default(), gpus: job.gpus }
}

/// A small instance with whatever makes solvers stumble: few GPUs or many, zeros, wide jobs, identical jobs.
pub(crate) fn odd(seed: u64) -> Instance {
    odd_within(seed, 4, 24)
}

/// The same of no more types and jobs than these.
pub(crate) fn odd_within(seed: u64, types: usize, jobs: usize) -> Instance {
    let mut random = Random(seed);
    let k = 1 + random.below(types);
    let counts: Vec<u32> = (0..k).map(|_| 1 + random.below(12) as u32).collect();
    let n = 1 + random.below(jobs);
    let mut jobs: Vec<Job> = Vec::new();
    while jobs.len() < n {
        let id = jobs.len() as u64;
        if let Some(job) = jobs.last().filter(|_| random.below(4) == 0) {
            jobs.push(Job { id, ..job.clone() });
            continue;
        }
        let speed = |random: &mut Random| if random.below(6) == 0 { 0.0 } else { 0.1 + 50.0 * random.unit() };
        let job = Job {
            gpus: 1 + random.below(3) as u32,
            weight: [1.0, 1.0, 3.0, 0.25][random.below(4)],
            steps: Some(1.0 + (1e6 * random.unit()).round()),
            age_s: (1e4 * random.unit()).round(),
            isolated_time_s: if random.below(2) == 0 { 0.0 } else { (1e4 * random.unit()).round() },
            deadline_s: (random.below(3) == 0).then(|| 1e3 + 1e5 * random.unit()),
            ..Job::new(id, (0..k).map(|_| speed(&mut random)).collect())
        };
        if job.throughputs.iter().zip(&counts).any(|(t, c)| *t > 0.0 && *c >= job.gpus) {
            jobs.push(job);
        }
    }
    let mut types = support::types(&counts);
    types.iter_mut().for_each(|t| t.cost_per_hour = Some(0.1 + 3.0 * random.unit()));
    let mut instance = Instance { types, jobs, pairs: None, entities: None };
    instance.entities = Some(organisations(&instance, &mut random));
    instance
}

/// Organisations of two depths over all jobs.
fn organisations(instance: &Instance, random: &mut Random) -> Entities {
    let policy =
        |random: &mut Random| if random.below(2) == 0 { EntityPolicy::Fair } else { EntityPolicy::Fifo };
    let (mut top, mut inner) = (Entities::default(), Entities::default());
    for (entities, name) in [(0, "a"), (0, "b"), (0, "c"), (1, "x"), (1, "y")] {
        let entities = if entities == 0 { &mut top } else { &mut inner };
        entities.weights.insert(name.into(), 1.0 + random.below(3) as f64);
        entities.policies.insert(name.into(), policy(random));
    }
    for job in &instance.jobs {
        let (entities, name) = match random.below(4) {
            0 => (&mut top, "a"),
            1 => (&mut top, "b"),
            2 => (&mut inner, "x"),
            _ => (&mut inner, "y"),
        };
        entities.jobs.entry(name.into()).or_default().push(job.id);
    }
    for (entities, name) in [("a", true), ("b", true), ("x", false), ("y", false)].map(|(n, t)| (t, n)) {
        (if entities { &mut top } else { &mut inner }).jobs.entry(name.into()).or_default();
    }
    top.entities.insert("c".into(), inner);
    top
}

/// The instance with profiles and a table of pairs: some gain by sharing, some lose, some cannot.
pub(crate) fn with_pairs(mut instance: Instance, seed: u64) -> Instance {
    let mut random = Random(seed ^ 0x5eed);
    let mut table = ThroughputTable::default();
    for job in &mut instance.jobs {
        job.profile = Some(format!("{:?} on {}", job.throughputs, job.gpus));
    }
    for t in 0..instance.types.len() {
        for (i, one) in instance.jobs.iter().enumerate() {
            for other in instance.jobs[i..].iter().filter(|other| other.gpus == one.gpus) {
                let [a, b] = if i % 3 == 0 { [0.0, 0.0] } else { [random.unit(), random.unit()] };
                let both = [
                    a * one.throughputs[t],
                    if one.profile == other.profile { a } else { b } * other.throughputs[t],
                ];
                let name = &instance.types[t].name;
                if table.paired(name, &profile(one), &profile(other)).is_none() {
                    table.insert_pair(name, profile(one), profile(other), both);
                }
            }
        }
    }
    instance.pairs = Some(table);
    instance
}
