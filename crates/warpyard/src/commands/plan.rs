//! `plan`: a schedule for a workflow on unlike machines.

mod job;

use self::job::PlannedJob;
use crate::context::Context;
use crate::exit::{Exit, note};
use crate::input::{bad_file, find_by_name, help_list, read_file, write_file};
use crate::show;
use crate::show::plan::{PlanResult, took_turns};
use crate::simulation::ProgressLine;
use crate::usage_error::UsageError;
use anyhow::Context as _;
use clap::Args;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};
use warpyard_api::quantity::Micros;
use warpyard_api::text::escape_controls;
use warpyard_dag::algorithm::{ALGORITHMS, Algorithm, Objective, Progress, SearchOptions};
use warpyard_dag::learned::{Network, plan_with};
use warpyard_dag::read::{Command, Format, Machines, ReadError, parse, parse_as};
use warpyard_dag::{Bounds, Instance, Layered, check, gantt_svg};

/// Default time of a search.
const PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The workflow: WfFormat 1.5, warpyard's own JSON (`warpyard schema workflow`), .stg or .dot; - reads standard input
    #[arg(required_unless_present = "generate", conflicts_with = "generate")]
    workflow: Option<String>,
    /// The machines: a TOML file (`warpyard schema machines`), or a number of identical ones
    #[arg(long, value_name = "FILE|N", conflicts_with = "generate")]
    machines: Option<String>,
    /// Planning algorithm
    #[arg(long, value_name = "NAME", default_value = "best")]
    algorithm: String,
    /// A trained network for the learned planner, instead of the one that ships with the program
    #[arg(long, value_name = "FILE.safetensors")]
    model: Option<String>,
    /// Compare several algorithms: all, or a list such as heft,peft
    #[arg(long, value_name = "ALL|A,B", conflicts_with_all = ["algorithm", "gantt", "as_job", "model"])]
    compare: Option<String>,
    /// What a search minimises
    #[arg(long, value_parser = ["makespan", "mean-turnaround", "mean-wait"], default_value = "makespan")]
    objective: String,
    /// How long a search may take [default: 1s]
    #[arg(long, value_name = "TIME")]
    time_limit: Option<Micros>,
    /// How many schedules a search may evaluate, `best` in its climb alone; the same seed then gives the same plan
    #[arg(long, value_name = "N", conflicts_with = "time_limit")]
    iterations: Option<u64>,
    /// Random seed of the search and of what is generated
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw the schedule as a Gantt chart
    #[arg(long, value_name = "FILE.svg")]
    gantt: Option<String>,
    /// Write the plan as a job file to submit: its tasks, their dependencies, and the machines as preferred devices
    #[arg(long, value_name = "FILE.toml|FILE.json")]
    as_job: Option<String>,
    #[command(flatten)]
    generated: GeneratedWorkflow,
}

/// A random layered workflow instead of one in a file.
#[derive(Debug, Args)]
#[command(next_help_heading = "Random workflows")]
struct GeneratedWorkflow {
    /// Generate a workflow of this many tasks and machines, such as 1000x8
    #[arg(long, value_name = "NxM")]
    generate: Option<Size>,
    /// Communication-to-computation ratio, in percent [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    ccr: Option<u64>,
    /// Heterogeneity of the machines, in percent [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=200))]
    beta: Option<u64>,
    /// Width of the workflow, in percent of the square root of its size [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    alpha: Option<u64>,
    /// Average number of successors of a task [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    out_degree: Option<u64>,
}

impl GeneratedWorkflow {
    /// The workflow to generate, if one is to be.
    fn layered(&self, seed: u64) -> Result<Option<Layered>, UsageError> {
        let usual = Layered::default();
        let Some(Size { tasks, machines }) = self.generate else {
            let given = [
                ("--ccr", self.ccr),
                ("--beta", self.beta),
                ("--alpha", self.alpha),
                ("--out-degree", self.out_degree),
            ];
            let astray = given.into_iter().find(|(_, value)| value.is_some());
            return astray.map_or(Ok(None), |(option, _)| Err(UsageError::OnlyGenerated(option)));
        };
        Ok(Some(Layered {
            seed,
            tasks,
            machines,
            alpha: self.alpha.unwrap_or(usual.alpha),
            out_degree: self.out_degree.unwrap_or(usual.out_degree),
            ccr: self.ccr.unwrap_or(usual.ccr),
            beta: self.beta.unwrap_or(usual.beta),
            ..usual
        }))
    }
}

/// Tasks and machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    tasks: usize,
    machines: usize,
}

/// Why a text is no size.
#[derive(Debug, thiserror::Error)]
enum BadSize {
    #[error("is not a size; write tasks and machines, such as 1000x8")]
    Form,
    #[error("has more than {} costs to make", Size::MOST)]
    TooLarge,
}

impl Size {
    /// Entries of a cost matrix, 8 GiB of them.
    const MOST: usize = 1 << 30;
}

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let (tasks, machines) = text.split_once('x').ok_or(BadSize::Form)?;
        let count = |text: &str| text.parse().ok().filter(|n: &usize| *n > 0).ok_or(BadSize::Form);
        let size = Self { tasks: count(tasks)?, machines: count(machines)? };
        let entries = size.tasks.checked_mul(size.machines).filter(|entries| *entries <= Self::MOST);
        entries.map(|_| size).ok_or(BadSize::TooLarge)
    }
}

/// The list of algorithms, for the help.
pub(crate) fn algorithms() -> String {
    let mark = |a: &Algorithm| if a.searches { " (searches)" } else { "" };
    let rows = ALGORITHMS.iter().map(|a| (a.name, format!("{}{}", a.summary, mark(a))));
    help_list("Algorithms", rows)
}

impl Plan {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let chosen = match &self.compare {
            None => vec![named(&self.algorithm)?],
            Some(all) if all == "all" => ALGORITHMS.iter().collect(),
            Some(some) => some.split(',').map(|name| named(name.trim())).collect::<Result<_, _>>()?,
        };
        let network = self.network(chosen[0])?;
        let (instance, commands) = self.instance()?;
        let bound = bound(&instance);
        let mut planned = Vec::new();
        for algorithm in &chosen {
            planned.push(self.plan(algorithm, network.as_ref(), &instance, bound)?);
        }
        if self.compare.is_some() {
            let rows: Vec<_> = planned.iter().map(PlanResult::figures).collect();
            return context.answer(rows.as_slice(), took_turns);
        }
        let [planned] = &planned[..] else { unreachable!("one algorithm makes one plan") };
        if let Some(file) = &self.gantt {
            let svg = gantt_svg(&instance, &planned.schedule);
            write_file(file, |out| out.write_all(svg.as_bytes()))?;
        }
        if let Some(file) = &self.as_job {
            let job = PlannedJob { instance: &instance, schedule: &planned.schedule, commands: &commands };
            job.write(file)?
                .iter()
                .for_each(|said| note(&format!("note: {file}: {}", escape_controls(said))));
        }
        context.answer(&planned.figures_and_schedule(), |_, screen| show::plan::detail(planned, screen))
    }

    fn plan<'a>(
        &self,
        algorithm: &'static Algorithm,
        network: Option<&Network>,
        instance: &'a Instance,
        bound: f64,
    ) -> anyhow::Result<PlanResult<'a>> {
        let mut line = ProgressLine::of_stderr();
        line.update(|| format!("{}: planning {} tasks", algorithm.name, instance.tasks()));
        let began = Instant::now();
        let limit = self.time_limit.map_or(PATIENCE, |limit| Duration::from_micros(limit.0));
        let run = match self.iterations {
            Some(count) => SearchOptions::iterations(count),
            None => SearchOptions::until(move || began.elapsed() >= limit),
        };
        let mut run = run.seed(self.seed).objective(self.objective()).progress(|progress: Progress| {
            line.update(|| {
                let Progress { iterations, best, by } = progress;
                let (best, took) = (show::figure(best), show::took(began.elapsed().as_secs_f64()));
                format!("{}: {best} by {by} after {iterations} schedules, {took}", algorithm.name)
            });
        });
        let (schedule, winner) = match network {
            Some(network) => (plan_with(instance, network), None),
            None => {
                let plan = algorithm.plan(instance, &mut run);
                (plan.schedule, plan.winner)
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        check(instance, &schedule)
            .with_context(|| format!("{} made a schedule that is none, a defect in it", algorithm.name))?;
        let winner = winner.unwrap_or(algorithm.name);
        Ok(PlanResult { algorithm: algorithm.name, winner, instance, bound, seconds, schedule })
    }

    /// The trained network to plan with, where one is named.
    fn network(&self, algorithm: &Algorithm) -> Result<Option<Network>, UsageError> {
        let Some(file) = &self.model else { return Ok(None) };
        if algorithm.name != "learned" {
            return Err(UsageError::NoModel(algorithm.name));
        }
        let unreadable = |source| UsageError::UnreadableFile { file: file.clone(), source };
        let bytes = std::fs::read(file).map_err(unreadable)?;
        Network::from_safetensors(&bytes).map(Some).map_err(|e| bad_file(file, e))
    }

    /// The instance, and what its tasks run where that is known.
    fn instance(&self) -> Result<(Instance, Vec<Option<Command>>), UsageError> {
        match self.generated.layered(self.seed)? {
            Some(layered) => {
                layered.generate().map(|i| (i, Vec::new())).map_err(|e| bad_file("--generate", e))
            }
            None => read(self.workflow.as_deref().unwrap_or("-"), self.machines.as_deref()),
        }
    }

    fn objective(&self) -> Objective {
        match self.objective.as_str() {
            "mean-turnaround" => Objective::MeanTurnaround,
            "mean-wait" => Objective::MeanWait,
            _ => Objective::Makespan,
        }
    }
}

/// The lower bound of the makespan, rounded up where all times are integers.
fn bound(instance: &Instance) -> f64 {
    let bound = Bounds::of(instance).makespan();
    // The bound may have gained a trifle by rounding, which must not lift it to the next whole number.
    if instance.is_integral() { (bound * (1.0 - 1e-12)).ceil() } else { bound }
}

fn named(name: &str) -> Result<&'static Algorithm, UsageError> {
    find_by_name("algorithm", name, ALGORITHMS, |algorithm| algorithm.name)
}

/// A workflow in a file, on its machines.
fn read(file: &str, machines: Option<&str>) -> Result<(Instance, Vec<Option<Command>>), UsageError> {
    let machines = machines.map(read_machines).transpose()?;
    let text = read_file(file)?;
    let input = match format_of(file, &text) {
        Some(format) => parse_as(&text, format),
        None => parse(&text),
    };
    let read = input.and_then(|input| {
        let commands = input.commands();
        Ok((input.instantiate(machines.as_ref())?, commands))
    });
    read.map_err(|error| match error {
        ReadError::NoMachines => UsageError::NoMachines(file.to_owned()),
        error => bad_file(file, error),
    })
}

/// The format of a file by its extension, or else by its content.
fn format_of(file: &str, text: &str) -> Option<Format> {
    match Path::new(file).extension()?.to_str()? {
        "stg" => Some(Format::Stg),
        "dot" | "gv" => Some(Format::Dot),
        "json" if Format::of(text) != Format::WfFormat => Some(Format::Native),
        _ => None,
    }
}

/// Machines in a file, or so many alike.
fn read_machines(text: &str) -> Result<Machines, UsageError> {
    match text.parse::<u16>() {
        Ok(count) => Ok(Machines::identical(count.into())),
        Err(_) => Machines::from_toml(&read_file(text)?).map_err(|e| bad_file(text, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_tasks_by_machines() {
        assert_eq!("84654x188".parse::<Size>().unwrap(), Size { tasks: 84_654, machines: 188 });
        for wrong in ["", "10", "0x3", "3x0", "axb", "99999999999x99999999999"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_says_more_than_the_first_words() {
        assert_eq!(format_of("a.stg", "{"), Some(Format::Stg));
        assert_eq!(format_of("a.json", "3 oops"), Some(Format::Native));
        assert_eq!(format_of("a.json", "{\"schemaVersion\": \"1.5\"}"), None);
        assert_eq!(format_of("-", "digraph {}"), None);
    }
}
