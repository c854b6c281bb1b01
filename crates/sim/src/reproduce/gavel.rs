//! Heterogeneity-aware allocation as in *Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads* (OSDI
//! 2020): the paper's worked example, a trace made with the authors' generator, and average completion time by load, by
//! round length, by error in the reported speeds and by restart cost. Rounds are run by the round scheduler of
//! `warpyard-allocate`, which the policies use too; the engine takes no part.

mod runs;
mod tables;

use super::{Row, Verdict};
use runs::{RunConfig, run_all};
use warpyard_allocate::rounds::RoundScheduler;
use warpyard_allocate::rounds::gavel::TraceJob;
use warpyard_allocate::rounds::simulate::SimulatedJob;
use warpyard_allocate::{
    GpuType, Instance, Job, Options, Profile, SolveError, ThroughputTable, TypeAwareness, goal,
};

/// GPU types, fastest last as in the authors' runs, and the number of GPUs of each.
const KINDS: [&str; 3] = ["k80", "p100", "v100"];
const OF_EACH: u32 = 12;

/// Arrival rates, in jobs per hour.
const LOADS: [f64; 6] = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5];
/// Round lengths, in seconds.
const LENGTHS: [f64; 7] = [30.0, 60.0, 120.0, 360.0, 720.0, 1800.0, 3600.0];
/// Restart costs of the study by round length, in seconds.
const RESTARTS: [f64; 3] = [0.0, 10.0, 60.0];
/// Relative errors of reported speeds.
const ERRORS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];
/// Restart costs of the study of priced restarts, in seconds.
const PRICES: [f64; 4] = [5.0, 10.0, 60.0, 180.0];

/// Results of Gavel's own simulator on the trace `gen150_single`, one GPU per server, in hours. Both the trace, made with
/// Gavel's generator, and these runs are ours: the paper does not print them.
const REFERENCE: [(&str, TypeAwareness, Figure, f64); 4] = [
    ("max-min", TypeAwareness::Aware, Figure::Average, 15.712),
    ("max-min", TypeAwareness::Blind, Figure::Average, 21.460),
    ("finish-time", TypeAwareness::Aware, Figure::Average, 15.940),
    ("makespan", TypeAwareness::Aware, Figure::Makespan, 128.382),
];

/// Abstract of the paper: average completion time improves by up to this factor over heterogeneity-agnostic policies.
const PUBLISHED_IMPROVEMENT: f64 = 3.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Average,
    Makespan,
}

/// Gavel's published throughput table, and a trace made with Gavel's generator.
#[derive(Clone, Debug)]
pub struct GavelData {
    table: ThroughputTable,
    /// The table as a type-blind scheduler sees it: every type has the mean speed.
    blind: ThroughputTable,
    trace: Vec<SimulatedJob>,
}

/// Mean speed for every type.
fn blind_speeds(speeds: &[f64]) -> Vec<f64> {
    vec![speeds.iter().sum::<f64>() / speeds.len() as f64; speeds.len()]
}

/// Pair throughputs as a type-blind scheduler sees them: the mean speed times the mean over types of the retained fraction.
fn blind_pairs(table: &ThroughputTable) -> ThroughputTable {
    let mut seen = ThroughputTable::default();
    let profiles: Vec<&Profile> = table.profiles(KINDS[0]).collect();
    let speeds = |profile: &Profile| KINDS.map(|kind| table.alone(kind, profile).unwrap_or(0.0));
    for (i, one) in profiles.iter().enumerate() {
        for other in &profiles[i..] {
            let alone = [speeds(one), speeds(other)];
            let mut kept = [0.0, 0.0];
            for (j, kind) in KINDS.iter().enumerate() {
                let both = table.paired(kind, one, other).unwrap_or_default();
                for of in [0, 1] {
                    kept[of] += both[of] / alone[of][j].max(1e-300) / KINDS.len() as f64;
                }
            }
            let both = [kept[0] * blind_speeds(&alone[0])[0], kept[1] * blind_speeds(&alone[1])[0]];
            for kind in KINDS {
                seen.insert_pair(kind, (*one).clone(), (*other).clone(), both);
            }
        }
    }
    seen
}

/// Reason the data cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GavelDataError {
    /// The throughput table is not valid JSON of that form.
    #[error("the throughput table: {0}")]
    Table(#[from] serde_json::Error),
    /// A line of the trace is not a job.
    #[error("line {0}: not a job of a Gavel trace")]
    Line(usize),
    /// A job's profile has no throughputs.
    #[error("line {line}: '{profile}' is not in the throughput table")]
    Unknown {
        /// The line.
        line: usize,
        /// Its profile.
        profile: String,
    },
}

impl GavelData {
    /// Parses the contents of both files.
    pub fn read(table: &str, trace: &str) -> Result<GavelData, GavelDataError> {
        let table: ThroughputTable = serde_json::from_str(table)?;
        let mut works = Vec::new();
        for (line, text) in (1..).zip(trace.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            let fields: Vec<&str> = text.split('\t').collect();
            let [name, _, _, _, _, steps, gpus, _, _, arrival] = fields[..] else {
                return Err(GavelDataError::Line(line));
            };
            let numbers = (steps.parse(), gpus.parse(), arrival.parse());
            let (Ok(steps), Ok(gpus), Ok(arrival_s)) = numbers else {
                return Err(GavelDataError::Line(line));
            };
            let profile = Profile { name: name.to_owned(), gpus };
            let speeds: Option<Vec<f64>> = KINDS.iter().map(|kind| table.alone(kind, &profile)).collect();
            let unknown = || GavelDataError::Unknown { line, profile: name.to_owned() };
            let throughputs = speeds.ok_or_else(unknown)?;
            let job = TraceJob { arrival_s, steps, gpus, throughputs };
            works.push(SimulatedJob { profile: Some(name.to_owned()), ..SimulatedJob::from(job) });
        }
        let blind = blind_pairs(&table);
        Ok(GavelData { table, blind, trace: works })
    }
}

/// Plot panel: lines over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title: the quantity shown.
    pub title: &'static str,
    /// Label of the horizontal axis.
    pub across: &'static str,
    /// Whether that axis is logarithmic.
    pub by_factors: bool,
    /// Name and points of each line.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Result of the study: tables, and a panel for each.
#[derive(Clone, Debug)]
pub struct GavelStudy {
    /// Rows of all tables.
    pub rows: Vec<Row>,
    /// Panels of the plot.
    pub panels: Vec<Panel>,
}

/// Size of the study by load: how many traces are sampled, of how many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSampling {
    /// Number of traces.
    pub traces: u64,
    /// Jobs in each.
    pub jobs: usize,
}

/// Runs the study; `progress` receives the number of runs done and their total.
pub fn gavel(
    data: &GavelData,
    sampling: TraceSampling,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<GavelStudy, SolveError> {
    let traces = sampling.traces;
    let mut list = RunList::default();
    let reference =
        list.add(REFERENCE.map(|(goal, types, ..)| RunConfig { goal, types, ..RunConfig::gen150() }));
    let load = list.add(loads(sampling));
    let length = list.add(LENGTHS.into_iter().flat_map(|round_s| {
        RESTARTS.map(|restart_s| RunConfig {
            rounds: RoundScheduler { round_s, restart_s, ..RoundScheduler::default() },
            ..RunConfig::gen150()
        })
    }));
    let errors = list.add(
        ERRORS
            .into_iter()
            .flat_map(|error| (0..traces).map(move |seed| RunConfig { error, seed, ..RunConfig::gen150() })),
    );
    let prices = list.add(PRICES.into_iter().flat_map(|restart_s| {
        [false, true].map(|priced| RunConfig {
            rounds: RoundScheduler { restart_s, restart_priced: priced, ..RoundScheduler::default() },
            ..RunConfig::gen150()
        })
    }));
    let results = run_all(data, &list.runs, progress)?;
    let of = |range: &std::ops::Range<usize>| &results[range.clone()];
    let mut rows = worked_example()?;
    rows.extend(tables::on_gen150(of(&reference)));
    let mut panels = Vec::new();
    tables::by_load(of(&load), traces as usize, &mut rows, &mut panels);
    tables::by_length(of(&length), &mut rows, &mut panels);
    tables::by_error(of(&errors), traces as usize, &mut rows, &mut panels);
    tables::by_price(of(&prices), &mut rows, &mut panels);
    Ok(GavelStudy { rows, panels })
}

/// Runs of the study, in order.
#[derive(Default)]
struct RunList {
    runs: Vec<RunConfig>,
}

impl RunList {
    /// Appends runs and returns their positions.
    fn add(&mut self, more: impl IntoIterator<Item = RunConfig>) -> std::ops::Range<usize> {
        let from = self.runs.len();
        self.runs.extend(more);
        from..self.runs.len()
    }
}

/// Variants of the study by load: name, type awareness, and whether jobs may share GPUs.
const VARIANTS: [(&str, TypeAwareness, bool); 4] = [
    ("aware", TypeAwareness::Aware, false),
    ("blind", TypeAwareness::Blind, false),
    ("aware, sharing", TypeAwareness::Aware, true),
    ("blind, sharing", TypeAwareness::Blind, true),
];

fn loads(TraceSampling { traces, jobs }: TraceSampling) -> impl Iterator<Item = RunConfig> {
    let variants = LOADS.into_iter().flat_map(|load| VARIANTS.map(|variant| (load, variant)));
    variants.flat_map(move |(load, (_, types, sharing))| {
        (0..traces).map(move |seed| RunConfig {
            types,
            sharing,
            load: Some((load, jobs)),
            seed,
            ..RunConfig::gen150()
        })
    })
}

/// The paper's example, three jobs on one GPU each of two types: shares of time, which the paper prints to two digits.
fn worked_example() -> Result<Vec<Row>, SolveError> {
    let speeds = [[40.0, 10.0], [12.0, 4.0], [100.0, 50.0]];
    let jobs = (0..).zip(speeds).map(|(id, row)| Job::new(id, row.to_vec())).collect();
    let instance = Instance {
        types: vec![GpuType::new("V100", 1), GpuType::new("K80", 1)],
        jobs,
        pairs: None,
        entities: None,
    };
    let goal = goal("max-min").ok_or(SolveError::UnknownGoal { goal: "max-min" })?;
    let answer = goal.solve(&instance, Options::default())?;
    let published = [[0.45, 0.0], [0.45, 0.09], [0.09, 0.91]];
    let cell = |(job, j): (usize, usize)| {
        let (ours, theirs) = (answer.allocation.job(job)[j], published[job][j]);
        Row {
            row: format!("example: job {} on {}, share of time", job + 1, instance.types[j].name),
            published: Some(theirs),
            reference: None,
            ours,
            low: ours,
            high: ours,
            verdict: Verdict::of((ours - theirs).abs() < 0.01, || "another share".to_owned()),
        }
    };
    Ok((0..3).flat_map(|job| [(job, 0), (job, 1)]).map(cell).collect())
}
