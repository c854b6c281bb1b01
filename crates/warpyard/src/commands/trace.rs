//! `trace`: workloads in files: made, imported, converted and looked at.

use crate::context::Context;
use crate::exit::{Exit, note};
use crate::input::{help_list, read_file, write_file};
use crate::show;
use crate::simulation::cluster;
use crate::usage_error::UsageError;
use crate::workload::{
    FORMATS, GeneratorOptions, ImportOptions, Load, SERVER_LOG, describe_bad_rows, is_log, print_notes,
    read_log, read_text,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;
use warpyard_core::Time;
use warpyard_sim::workload::format::{csv, json, own, swf};
use warpyard_sim::workload::{ParsedTrace, TraceJob};

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Generate a workload from a seed; the same seed gives the same bytes
    Generate(Box<Generate>),
    /// Import a workload of another format; rows that cannot be read are reported by line
    #[command(after_help = formats())]
    Import(Import),
    /// Write a trace in another format
    #[command(after_help = formats())]
    Convert(Convert),
    /// Summarise a workload of any known format
    #[command(after_help = formats())]
    Stats(TraceFile),
}

/// A workload in a file.
#[derive(Debug, Args)]
struct TraceFile {
    /// The file; - reads standard input
    file: String,
    /// Format of the file [default: detected]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Fail if a row cannot be read, instead of reporting and skipping it
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    options: ImportOptions,
}

/// Arguments of `trace generate`.
#[derive(Debug, Args)]
struct Generate {
    /// How many jobs
    #[arg(long, value_name = "N")]
    jobs: u64,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Output file; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: String,
    /// Warn if the load exceeds this cluster: a line or a file, as for `sim`
    #[arg(long, value_name = "LINE|FILE")]
    cluster: Option<String>,
    #[command(flatten)]
    generator: GeneratorOptions,
}

/// Arguments of `trace import`.
#[derive(Debug, Args)]
struct Import {
    #[command(flatten)]
    from: TraceFile,
    /// Output file; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: String,
}

/// Arguments of `trace convert`.
#[derive(Debug, Args)]
struct Convert {
    #[command(flatten)]
    from: TraceFile,
    /// Format to write [default: by the extension of --out, else csv]
    #[arg(long, value_name = "NAME")]
    to: Option<OutputFormat>,
    /// Output file; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: String,
}

/// Formats that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Columns by name, one task a line
    Csv,
    /// A list of jobs
    Json,
    /// One job a line
    Jsonl,
    /// The Standard Workload Format
    Swf,
}

fn formats() -> String {
    let own = (SERVER_LOG, "a server's own history: its data directory, or log.db in it".to_owned());
    help_list("Formats", FORMATS.iter().map(|format| (format.name, format.summary.to_owned())).chain([own]))
}

impl Trace {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.command {
            TraceCommand::Generate(generate) => generate.run(),
            TraceCommand::Import(Import { from, out }) => from.write(OutputFormat::Csv, &out, context),
            TraceCommand::Convert(Convert { from, to, out }) => from.write(
                to.or_else(|| format_by_extension(&out)).unwrap_or(OutputFormat::Csv),
                &out,
                context,
            ),
            TraceCommand::Stats(from) => {
                let (format, reading) = from.read()?;
                from.print_reading_notes(format, &reading);
                let stats = show::trace::Stats::of(&jobs_of(reading));
                context.answer(&stats, show::trace::text)
            }
        }
    }
}

impl Generate {
    fn run(self) -> anyhow::Result<Exit> {
        let generator = self.generator.generator(self.jobs)?;
        if let Some(line) = &self.cluster
            && let Some(load) = Load::of(generator.clone().generate(self.seed), &cluster(line)?)
        {
            load.warn();
        }
        // Which columns there are depends on what may be drawn, and one job of each kind would not show it.
        let mut columns = csv::Columns::default();
        generator.clone().generate(self.seed).for_each(|job| columns.add(&job));
        write_file(&self.out, |to| csv::write(to, &columns, generator.generate(self.seed)))?;
        Ok(Exit::Fine)
    }
}

impl TraceFile {
    /// Reads the file and names its format.
    fn open(&self) -> anyhow::Result<(&'static str, ParsedTrace)> {
        if self.format.as_deref().map_or_else(|| is_log(&self.file), |name| name == SERVER_LOG) {
            let recording = read_log(Path::new(&self.file), Time(0))?;
            return Ok((SERVER_LOG, own::read(&recording)));
        }
        let text = read_file(&self.file)?;
        let (format, reading) = read_text(&self.file, &text, self.format.as_deref(), &self.options)?;
        Ok((format.name, reading))
    }

    /// Reads the file; fails if no job could be read, or with `--strict` if any row could not.
    fn read(&self) -> anyhow::Result<(&'static str, ParsedTrace)> {
        let (format, reading) = self.open()?;
        let useless = self.strict || reading.jobs.is_empty();
        if useless && !reading.bad.is_empty() {
            return Err(UsageError::BadTrace {
                file: self.file.clone(),
                rows: describe_bad_rows(&reading.bad),
            }
            .into());
        }
        Ok((format, reading))
    }

    /// Writes it in another format. What else there is to know of it goes to standard error, or is the answer in JSON.
    fn write(&self, to: OutputFormat, out: &str, context: &Context) -> anyhow::Result<Exit> {
        if context.global.json && out == "-" {
            return Err(UsageError::TwiceOnOutput.into());
        }
        let (format, reading) = self.read()?;
        if !context.global.json {
            self.print_reading_notes(format, &reading);
            return write_as(to, out, &jobs_of(reading));
        }
        let answer = as_json(format, &reading);
        write_as(to, out, &jobs_of(reading))?;
        context.print_json(&answer)?;
        Ok(Exit::Fine)
    }

    /// Prints notes on assumptions, omissions and bad rows to standard error.
    fn print_reading_notes(&self, format: &str, reading: &ParsedTrace) {
        if self.format.is_none() && format != "csv" {
            eprintln!("note: {} looks like {format}; --format names another", self.file);
        }
        print_notes(reading);
        if !reading.bad.is_empty() {
            note(&format!("{}: {}", self.file, describe_bad_rows(&reading.bad)));
            let jobs = show::counted(reading.jobs.len() as u64, "job");
            eprintln!("{jobs} read without them; --strict refuses such a file");
        }
    }
}

fn jobs_of(reading: ParsedTrace) -> Vec<TraceJob> {
    reading.jobs.into_iter().map(|(_, job)| job).collect()
}

/// The summary of a file that was read, with every bad row by line.
fn as_json(format: &str, reading: &ParsedTrace) -> serde_json::Value {
    let bad = reading.bad.iter().map(|row| json!({"line": row.place.line(), "why": row.why.to_string()}));
    json!({
        "format": format,
        "jobs": reading.jobs.len(),
        "bad": bad.collect::<Vec<_>>(),
        "left_out": reading.left_out,
        "notes": reading.notes,
    })
}

fn format_by_extension(out: &str) -> Option<OutputFormat> {
    let (_, extension) = out.rsplit_once('.')?;
    OutputFormat::from_str(extension, true).ok()
}

fn write_as(to: OutputFormat, out: &str, jobs: &[TraceJob]) -> anyhow::Result<Exit> {
    let all = || jobs.iter().cloned();
    let mut lost = swf::DroppedFields::default();
    write_file(out, |file: &mut dyn Write| -> io::Result<()> {
        match to {
            OutputFormat::Csv => csv::write(file, &csv::Columns::of(jobs.iter()), all()),
            OutputFormat::Json => json::write_list(file, all()),
            OutputFormat::Jsonl => json::write_lines(file, all()),
            OutputFormat::Swf => swf::write(file, all()).map(|what| lost = what),
        }
    })?;
    let swf::DroppedFields { edges, priorities, needs } = lost;
    for (rows, what) in [
        (edges, "dependencies; tasks became jobs of their own"),
        (priorities, "priorities"),
        (
            needs,
            "tasks' GPU memory or types, processors, guesses, ways to give way, steps, weights or deadlines",
        ),
    ] {
        if rows > 0 {
            eprintln!("note: swf cannot say everything; left out: {rows} {what}");
        }
    }
    Ok(Exit::Fine)
}
