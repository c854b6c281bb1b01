//! Heterogeneity-aware allocation: the worked example, the published trace, and how average completion goes with load,
//! with the length of rounds, with errors in what is known of speeds, and with the price of switching. Rounds are carried
//! out by `warpyard-allocate`'s own mechanism, which the policies use too; the engine takes no part.

mod runs;

use super::{Row, UNPUBLISHED};
use runs::{RunConfig, RunResult, run_all};
use std::fmt;
use warpyard_allocate::rounds::RoundScheduler;
use warpyard_allocate::rounds::gavel::TraceJob;
use warpyard_allocate::rounds::simulate::SimulatedJob;
use warpyard_allocate::{
    GpuType, Instance, Job, Options, Profile, SolveError, ThroughputTable, TypeAwareness, goal,
};

/// Types, fastest last as the published runs have them, and how many GPUs of each.
const KINDS: [&str; 3] = ["k80", "p100", "v100"];
const OF_EACH: u32 = 12;

/// Jobs that come in an hour.
const LOADS: [f64; 6] = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5];
/// Lengths of a round, in seconds.
const LENGTHS: [f64; 7] = [30.0, 60.0, 120.0, 360.0, 720.0, 1800.0, 3600.0];
/// What a restart costs, in seconds.
const RESTARTS: [f64; 3] = [0.0, 10.0, 60.0];
/// By what part of it a speed may be wrong.
const ERRORS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];
/// Prices of switching, in seconds.
const PRICES: [f64; 4] = [5.0, 10.0, 60.0, 180.0];

/// What Gavel's simulator gave on the published trace, one GPU a server: hours.
const PUBLISHED: [(&str, TypeAwareness, Figure, f64); 4] = [
    ("max-min", TypeAwareness::Aware, Figure::Average, 15.712),
    ("max-min", TypeAwareness::Blind, Figure::Average, 21.460),
    ("finish-time", TypeAwareness::Aware, Figure::Average, 15.940),
    ("makespan", TypeAwareness::Aware, Figure::Makespan, 128.382),
];

/// *Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads* (OSDI 2020), abstract: average completion
/// is shorter by up to this factor than without knowing types.
const UP_TO: f64 = 3.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Average,
    Makespan,
}

/// The published table of throughputs and the published trace.
#[derive(Clone, Debug)]
pub struct GavelData {
    table: ThroughputTable,
    /// The table as one sees it who takes every type for the mean one.
    unaware: ThroughputTable,
    trace: Vec<SimulatedJob>,
}

/// The mean speed, whatever the type.
fn unaware(speeds: &[f64]) -> Vec<f64> {
    vec![speeds.iter().sum::<f64>() / speeds.len() as f64; speeds.len()]
}

/// Pairs by the part of its mean speed that each keeps, on the mean over the types.
fn unaware_pairs(table: &ThroughputTable) -> ThroughputTable {
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
            let both = [kept[0] * unaware(&alone[0])[0], kept[1] * unaware(&alone[1])[0]];
            for kind in KINDS {
                seen.insert_pair(kind, (*one).clone(), (*other).clone(), both);
            }
        }
    }
    seen
}

/// Why the published data cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GavelDataError {
    /// The table is none.
    #[error("the table of throughputs: {0}")]
    Table(#[from] serde_json::Error),
    /// A line of the trace is no job.
    #[error("line {0}: not a job of a Gavel trace")]
    Line(usize),
    /// A job of the trace was not measured.
    #[error("line {line}: '{profile}' is not in the table of throughputs")]
    Unknown {
        /// The line.
        line: usize,
        /// Its profile.
        profile: String,
    },
}

impl GavelData {
    /// From the texts of both files.
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
        let unaware = unaware_pairs(&table);
        Ok(GavelData { table, unaware, trace: works })
    }
}

/// A picture: lines over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// What lies across.
    pub across: &'static str,
    /// Whether that grows by factors.
    pub by_factors: bool,
    /// Each line's name and points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The tables, and a picture of each.
#[derive(Clone, Debug)]
pub struct GavelStudy {
    /// The tables, one after another.
    pub rows: Vec<Row>,
    /// The pictures.
    pub panels: Vec<Panel>,
}

/// How much is drawn for a figure by load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSampling {
    /// Traces.
    pub traces: u64,
    /// Jobs of each.
    pub jobs: usize,
}

/// Makes the study; `told` hears how many of how many runs are done.
pub fn gavel(
    data: &GavelData,
    drawn: TraceSampling,
    told: impl Fn(usize, usize) + Sync,
) -> Result<GavelStudy, SolveError> {
    let draws = drawn.traces;
    let mut plan = RunList::default();
    let published =
        plan.add(PUBLISHED.map(|(goal, types, ..)| RunConfig { goal, types, ..RunConfig::published() }));
    let load = plan.add(loads(drawn));
    let length = plan.add(LENGTHS.into_iter().flat_map(|round_s| {
        RESTARTS.map(|restart_s| RunConfig {
            rounds: RoundScheduler { round_s, restart_s, ..RoundScheduler::default() },
            ..RunConfig::published()
        })
    }));
    let errors =
        plan.add(ERRORS.into_iter().flat_map(|error| {
            (0..draws).map(move |seed| RunConfig { error, seed, ..RunConfig::published() })
        }));
    let prices = plan.add(PRICES.into_iter().flat_map(|restart_s| {
        [false, true].map(|priced| RunConfig {
            rounds: RoundScheduler { restart_s, restart_priced: priced, ..RoundScheduler::default() },
            ..RunConfig::published()
        })
    }));
    let ran = run_all(data, &plan.asked, told)?;
    let of = |range: &std::ops::Range<usize>| &ran[range.clone()];
    let mut rows = worked_example()?;
    rows.extend(on_the_published_trace(of(&published)));
    let mut panels = Vec::new();
    by_load(of(&load), draws as usize, &mut rows, &mut panels);
    by_length(of(&length), &mut rows, &mut panels);
    by_error(of(&errors), draws as usize, &mut rows, &mut panels);
    by_price(of(&prices), &mut rows, &mut panels);
    Ok(GavelStudy { rows, panels })
}

/// Runs asked for, in order.
#[derive(Default)]
struct RunList {
    asked: Vec<RunConfig>,
}

impl RunList {
    fn add(&mut self, more: impl IntoIterator<Item = RunConfig>) -> std::ops::Range<usize> {
        let from = self.asked.len();
        self.asked.extend(more);
        from..self.asked.len()
    }
}

/// Whether types are known and whether jobs share.
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
            ..RunConfig::published()
        })
    })
}

fn holds(claim: bool, otherwise: impl fmt::Display) -> String {
    if claim { "holds".to_owned() } else { otherwise.to_string() }
}

/// The verdict on a row nobody published: what was checked of it instead.
fn holds_that(claim: bool, what: &str, otherwise: &str) -> String {
    if claim { format!("holds: {what}") } else { otherwise.to_owned() }
}

/// The verdict where there is nothing to check either.
fn unpublished() -> String {
    UNPUBLISHED.to_owned()
}

fn hours(seconds: f64) -> f64 {
    seconds / 3600.0
}

/// The mean of a figure over runs, its least and its most.
fn over(runs: &[RunResult], figure: impl Fn(&RunResult) -> f64) -> (f64, f64, f64) {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.iter().sum::<f64>() / values.len() as f64, least, most)
}

fn row(row: String, published: Option<f64>, (ours, low, high): (f64, f64, f64), verdict: String) -> Row {
    Row { row, published, ours, low, high, verdict }
}

/// Three jobs on one GPU each of two types: the shares of time as published, to two digits.
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
        let name = format!("example: job {} on {}, share of time", job + 1, instance.types[j].name);
        row(name, Some(theirs), (ours, ours, ours), holds((ours - theirs).abs() < 0.01, "another share"))
    };
    Ok((0..3).flat_map(|job| [(job, 0), (job, 1)]).map(cell).collect())
}

fn on_the_published_trace(ran: &[RunResult]) -> Vec<Row> {
    let made = PUBLISHED.iter().zip(ran).map(|(&(goal, types, figure, published), ran)| {
        let (what, ours) = match figure {
            Figure::Average => ("average completion", hours(ran.outcome.average_completion_s())),
            Figure::Makespan => ("makespan", hours(ran.outcome.makespan_s)),
        };
        let blind = if types == TypeAwareness::Blind { " blind to types" } else { "" };
        let name = format!("published trace: {goal}{blind}, {what} (h)");
        row(name, Some(published), (ours, ours, ours), holds(ours <= published, "longer than published"))
    });
    made.collect()
}

fn by_load(ran: &[RunResult], draws: usize, rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> =
        VARIANTS.map(|(name, ..)| (name.to_owned(), Vec::new())).into();
    let mut solving = lines.clone();
    let mut largest = 0.0_f64;
    let mut solved = Vec::new();
    for (load, runs) in LOADS.iter().zip(ran.chunks(VARIANTS.len() * draws)) {
        let figures: Vec<_> = runs
            .chunks(draws)
            .map(|runs| over(runs, |ran| hours(ran.outcome.average_completion_s())))
            .collect();
        let times: Vec<_> = runs.chunks(draws).map(|runs| over(runs, RunResult::solving_ms)).collect();
        largest = largest.max(figures[1].0 / figures[0].0);
        for (number, (name, ..)) in VARIANTS.into_iter().enumerate() {
            let mean = figures[number].0;
            let verdict = match number {
                0 => holds_that(
                    mean <= figures[1].0 * 1.02,
                    "no longer than blind, to 2 %",
                    "longer than without knowing types",
                ),
                1 => unpublished(),
                _ => holds_that(
                    mean <= figures[number - 2].0 * 1.02,
                    "no longer than without sharing, to 2 %",
                    "longer than without sharing",
                ),
            };
            rows.push(row(
                format!("{load} jobs an hour, {name}: average completion (h)"),
                None,
                figures[number],
                verdict,
            ));
            lines[number].1.push((*load, mean));
            solving[number].1.push((*load, times[number].0));
            solved.push(row(
                format!("{load} jobs an hour, {name}: a solve (ms)"),
                None,
                times[number],
                holds_that(times[number].0 < 360e3, "shorter than a round", "longer than a round"),
            ));
        }
    }
    let name = "blind over aware, average completion, largest over the loads".to_owned();
    rows.push(row(
        name,
        Some(UP_TO),
        (largest, largest, largest),
        holds(largest >= UP_TO, "less than the paper's largest"),
    ));
    rows.extend(solved);
    panels.push(Panel { title: "average completion (h)", across: "jobs an hour", by_factors: false, lines });
    panels.push(Panel {
        title: "time of a solve (ms)",
        across: "jobs an hour",
        by_factors: false,
        lines: solving,
    });
}

fn by_length(ran: &[RunResult], rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> =
        RESTARTS.map(|cost| (format!("restart {cost} s"), Vec::new())).into();
    for (length, runs) in LENGTHS.iter().zip(ran.chunks(RESTARTS.len())) {
        for (number, (cost, ran)) in RESTARTS.iter().zip(runs).enumerate() {
            let ours = hours(ran.outcome.average_completion_s());
            let name = format!("rounds of {length} s, restarts of {cost} s: average completion (h)");
            let free = hours(runs[0].outcome.average_completion_s());
            let verdict = match number {
                0 => unpublished(),
                _ => holds_that(
                    ours <= free * 1.1,
                    "at most a tenth longer than with free restarts",
                    "a tenth longer than with free restarts",
                ),
            };
            rows.push(row(name, None, (ours, ours, ours), verdict));
            lines[number].1.push((*length, ours));
        }
    }
    let (title, across) = ("average completion (h)", "a round's length (s)");
    panels.push(Panel { title, across, by_factors: true, lines });
}

fn by_error(ran: &[RunResult], draws: usize, rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let mut line = Vec::new();
    for (error, runs) in ERRORS.iter().zip(ran.chunks(draws)) {
        let ours = over(runs, |ran| hours(ran.outcome.average_completion_s()));
        let name = format!("speeds wrong by up to {:.0} %: average completion (h)", error * 100.0);
        let verdict = holds_that(
            ours.0 <= PUBLISHED[1].3,
            "no longer than published blind to types",
            "longer than blind to types",
        );
        rows.push(row(name, None, ours, verdict));
        line.push((error * 100.0, ours.0));
    }
    panels.push(Panel {
        title: "average completion (h)",
        across: "speeds wrong by up to (%)",
        by_factors: false,
        lines: vec![("max-min".to_owned(), line)],
    });
}

fn by_price(ran: &[RunResult], rows: &mut Vec<Row>, panels: &mut Vec<Panel>) {
    let names = ["ignored", "counted"];
    let mut restarts: Vec<(String, Vec<(f64, f64)>)> =
        names.map(|name| (format!("price {name}"), Vec::new())).into();
    let mut kept = restarts.clone();
    for (price, runs) in PRICES.iter().zip(ran.chunks(2)) {
        for (number, (name, ran)) in names.iter().zip(runs).enumerate() {
            let [times, part, average] = [
                ran.outcome.restarts as f64,
                ran.outcome.delivered_p10(),
                hours(ran.outcome.average_completion_s()),
            ];
            let before = &runs[0].outcome;
            let about = format!("restarts of {price} s, price {name}");
            let counted = |claim: bool, what: &str, otherwise: &str| match number {
                0 => unpublished(),
                _ => holds_that(claim, what, otherwise),
            };
            let fewer = ran.outcome.restarts < before.restarts;
            let sooner = ran.outcome.average_completion_s() < before.average_completion_s();
            rows.push(row(
                format!("{about}: restarts"),
                None,
                (times, times, times),
                counted(fewer, "fewer than with the price ignored", "no fewer"),
            ));
            rows.push(row(
                format!("{about}: part of what was promised, nine in ten got at least"),
                None,
                (part, part, part),
                unpublished(),
            ));
            rows.push(row(
                format!("{about}: average completion (h)"),
                None,
                (average, average, average),
                counted(sooner, "sooner than with the price ignored", "no sooner"),
            ));
            restarts[number].1.push((*price, times));
            kept[number].1.push((*price, part));
        }
    }
    let across = "what a restart costs (s)";
    panels.push(Panel { title: "restarts", across, by_factors: true, lines: restarts });
    let title = "part of what was promised that nine in ten got";
    panels.push(Panel { title, across, by_factors: true, lines: kept });
}
