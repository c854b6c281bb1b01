//! Shared by the tests: locating the published data and building instances.
#![expect(dead_code, reason = "each test binary uses its part")]

use std::path::PathBuf;

use serde_json::Value;
use warpyard_allocate::rounds::gavel::TraceJob;
use warpyard_allocate::{GpuType, Instance, Job, Profile, ThroughputTable};

/// The shared data's file, or `None`, loudly, where the folder is absent.
pub(crate) fn data(path: &str) -> Option<PathBuf> {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gavel")).join(path);
    if file.exists() {
        return Some(file);
    }
    eprintln!("SKIPPED: {path} is not there; this test needs the shared data beside the repository");
    None
}

pub(crate) fn json(path: &str) -> Option<Value> {
    let text = std::fs::read_to_string(data(path)?).expect("readable");
    Some(serde_json::from_str(&text).expect("valid JSON"))
}

pub(crate) fn instance(path: &str) -> Option<Instance> {
    let text = std::fs::read_to_string(data(&format!("oracles/{path}"))?).expect("readable");
    Some(serde_json::from_str(&text).expect("an instance"))
}

/// A policy's oracle and its instance.
pub(crate) fn oracle(name: &str) -> Option<(Value, Instance)> {
    let oracle = json(&format!("oracles/{name}.json"))?;
    let instance = instance(oracle["instance"].as_str().expect("names its instance"))?;
    Some((oracle, instance))
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(|v| v.as_f64().expect("a number")).collect()
}

pub(crate) fn types(counts: &[u32]) -> Vec<GpuType> {
    let name = |j| format!("type{j}");
    counts.iter().enumerate().map(|(j, &count)| GpuType::new(name(j), count)).collect()
}

pub(crate) fn plain(counts: &[u32], rows: &[&[f64]]) -> Instance {
    let jobs = rows.iter().enumerate().map(|(id, row)| Job::new(id as u64, row.to_vec())).collect();
    Instance { types: types(counts), jobs, pairs: None, entities: None }
}

/// A little generator, so that a seed makes the same instance everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Jobs whose speeds all differ: a base speed per job, faster types up to eight times as fast.
pub(crate) fn distinct(n: usize, counts: &[u32], seed: u64) -> Instance {
    let mut random = Random(seed);
    let jobs = (0..n).map(|id| {
        let base = 0.5 + 50.0 * random.unit();
        let row = (0..counts.len()).map(|j| base * (1.0 + j as f64) * (0.5 + 2.0 * random.unit())).collect();
        Job {
            gpus: [1, 1, 1, 2, 4, 8][random.below(6)].min(*counts.iter().max().expect("a type")),
            weight: [1.0, 1.0, 1.0, 2.0][random.below(4)],
            steps: Some((1e4 + 1e6 * random.unit()).round()),
            age_s: (1e5 * random.unit()).round(),
            ..Job::new(id as u64, row)
        }
    });
    Instance { types: types(counts), jobs: jobs.collect(), pairs: None, entities: None }
}

/// The types of a published run, sorted by name, and how many GPUs there are of each.
pub(crate) fn cluster(run: &Value) -> (Vec<String>, Vec<u32>) {
    let spec = run["cluster_spec"].as_object().expect("a cluster");
    let mut types: Vec<(String, u32)> =
        spec.iter().map(|(name, count)| (name.clone(), count.as_u64().expect("a count") as u32)).collect();
    types.sort();
    types.into_iter().unzip()
}

/// The jobs of a published run's trace, with their throughputs on these types.
pub(crate) fn trace(run: &Value, types: &[String]) -> Vec<TraceJob> {
    let read = |path: String| std::fs::read_to_string(data(&path).expect("present")).expect("readable");
    let table = read(run["throughputs_file"].as_str().expect("a file").to_owned());
    let table: ThroughputTable = serde_json::from_str(&table).expect("a table");
    let lines = read(format!("traces/{}", run["trace"].as_str().expect("a trace")));
    let job = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let gpus: u32 = fields[6].parse().expect("GPUs");
        let profile = Profile { name: fields[0].to_owned(), gpus };
        TraceJob {
            arrival_s: fields[9].parse().expect("seconds"),
            steps: fields[5].parse().expect("steps"),
            gpus,
            throughputs: types.iter().map(|t| table.alone(t, &profile).unwrap_or(0.0)).collect(),
        }
    };
    lines.lines().map(job).collect()
}
