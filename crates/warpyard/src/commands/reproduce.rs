//! `reproduce`: published tables, ours beside theirs.

use crate::context::Context;
use crate::exit::Exit;
use crate::input::{bad_file, find_by_name, help_list};
use crate::show;
use crate::simulation::{ProgressLine, write_picture};
use crate::usage_error::UsageError;
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;
use warpyard_sim::reproduce::{Row, alibaba, gavel, hybrid, model_scheduling, short_tasks};
use warpyard_sim::workload::{openb_nodes, openb_pods};

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Which table [default: all of them]
    name: Option<String>,
    /// short-tasks: number of seeds
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// alibaba-2023: number of random orders of the pods
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    shuffles: u64,
    /// alibaba-2023: directory of the trace's files
    #[arg(long, value_name = "DIR", default_value = "../shared/data/traces")]
    data: PathBuf,
    /// gavel: number of generated traces
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    draws: u64,
    /// gavel: directory of Gavel's throughputs and the generated traces
    #[arg(long, value_name = "DIR", default_value = "../shared/data/gavel")]
    gavel: PathBuf,
    /// Write the figure of alibaba-2023 or gavel, which must be named, to this file: SVG, or PNG by its extension
    #[arg(long, value_name = "FILE")]
    plot: Option<String>,
}

/// A published table.
struct PublishedTable {
    name: &'static str,
    summary: &'static str,
    make: fn(&Reproduce, &mut ProgressLine) -> anyhow::Result<ReproducedTable>,
}

/// A reproduced table.
#[derive(Default)]
struct ReproducedTable {
    rows: Vec<Row>,
    /// Notes printed below the table.
    notes: Vec<String>,
    plot: Option<String>,
}

const TABLES: &[PublishedTable] = &[
    PublishedTable {
        name: "short-tasks",
        summary: "GPU Scheduling for Short Tasks in Private Cloud (2019): fifo, sjf and short-first",
        make: |options, line| {
            let notes = vec![format!(
                "mean seconds over the seeds 0 to {}, low and high are what 5 and 95 % of them stay under; a row agrees where \
                 the published figure lies between them and its ratio to fifo's is within 0.05 of ours",
                options.seeds - 1
            )];
            let mut progress = TableProgress::of("short-tasks", "runs", line);
            let rows = short_tasks(options.seeds, |done, of| progress.update(done, of))?;
            Ok(ReproducedTable { rows, notes, plot: None })
        },
    },
    PublishedTable {
        name: "model-scheduling",
        summary: "inference on one GPU: serial, all at once, and wsjf by job, batch and item",
        make: |_, line| {
            line.update(|| "model-scheduling: fitting to the first two rows".to_owned());
            let (rows, mut notes) = model_scheduling()?;
            notes.insert(
                0,
                "seconds; nothing is left to chance; low and high are 15 % around ours".to_owned(),
            );
            Ok(ReproducedTable { rows, notes, plot: None })
        },
    },
    PublishedTable {
        name: "hybrid",
        summary: "the hybrid scheduler's two experiments: a busy GPU, and one with its most tasks",
        make: |_, _| Ok(ReproducedTable { rows: hybrid()?, ..ReproducedTable::default() }),
    },
    PublishedTable {
        name: ALIBABA,
        summary: "Beware of Fragmentation (2023): filling the GPU nodes of the Alibaba trace",
        make: reproduce_alibaba,
    },
    PublishedTable {
        name: GAVEL,
        summary: "Gavel (OSDI 2020): completion by load, round length, errors and the price of switching",
        make: reproduce_gavel,
    },
];

const ALIBABA: &str = "alibaba-2023";
const GAVEL: &str = "gavel";
/// Tables of which there is a picture.
const WITH_PLOT: [&str; 2] = [ALIBABA, GAVEL];
const NODES: &str = "openb_node_list_gpu_node.csv";
const PODS: &str = "openb_pod_list_default.csv";

/// The list of tables, for the help.
pub(crate) fn tables() -> String {
    help_list("Tables", TABLES.iter().map(|table| (table.name, table.summary.to_owned())))
}

impl Reproduce {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let wanted = match &self.name {
            Some(name) => std::slice::from_ref(find_by_name("table", name, TABLES, |table| table.name)?),
            None => TABLES,
        };
        if self.plot.is_some() && !matches!(wanted, [one] if WITH_PLOT.contains(&one.name)) {
            return Err(UsageError::NoPicture { has: WITH_PLOT.join(" or ") }.into());
        }
        let mut line = ProgressLine::of_stderr();
        let mut all = Vec::new();
        for table in wanted {
            let made = (table.make)(&self, &mut line);
            drop(std::mem::replace(&mut line, ProgressLine::of_stderr()));
            let made = match made {
                // Asked for everything, what can be made is made.
                Err(missing) if self.name.is_none() && is_missing(&missing) => {
                    eprintln!("{}: left out: {missing}", table.name);
                    continue;
                }
                made => made?,
            };
            if let (Some(file), Some(plot)) = (&self.plot, &made.plot) {
                write_picture(file, plot)?;
            }
            if context.global.json {
                let name = self.name.is_none().then_some(table.name);
                all.extend(made.rows.into_iter().map(|row| TableRow { table: name, row }));
            } else {
                // Each as soon as it is there: all of them take minutes.
                let heading = self.name.is_none().then(|| format!("{}: {}", table.name, table.summary));
                context.print(&show::reproduce::table(
                    heading.as_deref(),
                    &made.rows,
                    &made.notes,
                    &context.screen,
                ))?;
            }
        }
        if context.global.json {
            context.print_json(&all)?;
        }
        Ok(Exit::Fine)
    }
}

/// Progress of one table, shown on standard error.
struct TableProgress<'l> {
    table: &'static str,
    /// The unit of progress, in the plural.
    steps: &'static str,
    line: &'l mut ProgressLine,
    began: Instant,
}

impl<'l> TableProgress<'l> {
    fn of(table: &'static str, steps: &'static str, line: &'l mut ProgressLine) -> TableProgress<'l> {
        TableProgress { table, steps, line, began: Instant::now() }
    }

    fn update(&mut self, done: usize, of: usize) {
        let TableProgress { table, steps, line, began } = self;
        line.update(|| {
            let left = show::time_left(began.elapsed().as_secs_f64(), done as f64 / of as f64);
            format!("{table}: {done} of {of} {steps}, {left}")
        });
    }
}

/// A row, and of which table it is where there are several.
#[derive(Serialize)]
struct TableRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'static str>,
    #[serde(flatten)]
    row: Row,
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(UsageError::NoTraceData { .. } | UsageError::NoGavelData { .. }))
}

fn reproduce_alibaba(options: &Reproduce, line: &mut ProgressLine) -> anyhow::Result<ReproducedTable> {
    let nodes = rows_of(&options.data, NODES, |from| openb_nodes(from).collect())?;
    let pods = rows_of(&options.data, PODS, |from| openb_pods(from).collect())?;
    line.update(|| format!("{ALIBABA}: filling {} nodes with {} pods", nodes.len(), pods.len()));
    let progress = Mutex::new(TableProgress::of(ALIBABA, "fillings", line));
    let update = |done, of| progress.lock().expect("nobody panics here").update(done, of);
    let curves = alibaba::fill(&nodes, &pods, options.shuffles, update);
    let notes = vec![
        "in hundredths of all GPUs: allocated, and free but of no use to a pod of the trace in expectation, with so much asked \
         for; low and high are the least and most of the shuffles, from the seed 0 on. The paper prints \
         curves, and no figure for these points"
            .to_owned(),
    ];
    let plot = options.plot.as_ref().map(|_| show::plot::fillings(&curves));
    Ok(ReproducedTable { rows: alibaba::rows(&curves), notes, plot })
}

fn reproduce_gavel(options: &Reproduce, line: &mut ProgressLine) -> anyhow::Result<ReproducedTable> {
    let text = |name: &str| {
        let path = options.gavel.join(name);
        let file = path.display().to_string();
        std::fs::read_to_string(path).map_err(|source| UsageError::NoGavelData { file, source })
    };
    let trace = "traces/gen150_single.trace";
    let data = gavel::GavelData::read(&text("simulation_throughputs.json")?, &text(trace)?);
    let data = data.map_err(|e| bad_file(&options.gavel.join(trace).display().to_string(), e))?;
    let progress = Mutex::new(TableProgress::of(GAVEL, "runs", line));
    let drawn = gavel::TraceSampling { traces: options.draws, jobs: 500 };
    let study =
        gavel::gavel(&data, drawn, |done, of| progress.lock().expect("nobody panics here").update(done, of))?;
    let notes = vec![
        "12 GPUs each of v100, p100 and k80, one a server; rounds of 6 minutes and free restarts where nothing else is said; \
         gen150 is a trace of 150 jobs made with Gavel's generator, not a published one"
            .to_owned(),
        "by load: 500 jobs drawn from that trace, max-min; low and high are the least and most of the draws. The \
         published factor is the paper's largest (abstract), on its own traces and 108 GPUs"
            .to_owned(),
        "the rounds are those the policies carry out, without the engine around them".to_owned(),
    ];
    let plot = options.plot.as_ref().map(|_| show::panels::draw(&study.panels));
    Ok(ReproducedTable { rows: study.rows, notes, plot })
}

/// All rows of a file of the trace; a bad one is told with its line.
fn rows_of<T, E: std::error::Error + Send + Sync + 'static>(
    data: &Path,
    name: &'static str,
    read: impl FnOnce(BufReader<File>) -> Result<Vec<T>, E>,
) -> Result<Vec<T>, UsageError> {
    let path = data.join(name);
    let file = File::open(&path)
        .map_err(|source| UsageError::NoTraceData { file: path.display().to_string(), source })?;
    read(BufReader::new(file)).map_err(|e| bad_file(&path.display().to_string(), e))
}
