//! Options of generated workloads.

use crate::input::read_file;
use crate::usage_error::UsageError;
use crate::workload::describe_bad_rows;
use crate::workload::{ImportOptions, looks_like_any, read_text};
use clap::{Args, ValueEnum};
use std::str::FromStr;
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::text::escape_controls;
use warpyard_core::spec;
use warpyard_sim::workload::{Estimate, Generator, Graphs, Lengths, Shape};

/// Options of generated workloads.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Generated workloads")]
pub(crate) struct GeneratorOptions {
    /// Mean time between submissions (a Poisson process); 0 submits all at once [default: 25s]
    #[arg(long, value_name = "TIME")]
    gap: Option<Micros>,
    /// How many jobs are submitted at a time [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Run times in seconds: log-uniform:FROM,TO, log-normal:MEDIAN,DEVIATION, or file:PATH to sample from the numbers in
    /// a file or the run times of a trace [default: log-uniform:10,1000]
    #[arg(long, value_name = "HOW")]
    lengths: Option<String>,
    /// Timeouts, as a factor of the run time: exact, none, even:FROM,TO or log-normal:MEDIAN,DEVIATION; tasks with a
    /// factor below 1 time out [default: exact]
    #[arg(long, value_name = "HOW")]
    timeouts: Option<String>,
    /// Users' estimates of run times, in the same way; policies prefer them to timeouts [default: none]
    #[arg(long, value_name = "HOW")]
    guesses: Option<String>,
    /// GPUs per task with weights, such as 1:0.7,2:0.2,4:0.1 [default: 1]
    #[arg(long, value_name = "N:W,..")]
    gpus: Option<Weighted<u16>>,
    /// Memory on each GPU with weights, such as 4GiB:3,whole:1; whole GPUs are not shared [default: whole]
    #[arg(long, value_name = "SIZE:W,..")]
    gpu_memory: Option<Weighted<GpuMemory>>,
    /// GPU types with weights, such as V100:2,any:1 [default: any]
    #[arg(long, value_name = "TYPE:W,..")]
    gpu_types: Option<Weighted<GpuType>>,
    /// Number of priority levels, from 0, drawn uniformly; larger is more urgent [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    priorities: Option<u64>,
    /// Number of users [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    users: Option<u64>,
    /// How tasks may be preempted [default: none]
    #[arg(long, value_name = "HOW")]
    preempt: Option<PreemptOption>,
    /// Profiles (names of known throughputs) with weights, such as resnet:2,bert:1 [default: none]
    #[arg(long, value_name = "NAME:W,..")]
    profiles: Option<Weighted<String>>,
    /// Steps a task does per second of its run time [default: steps are not counted]
    #[arg(long, value_name = "N")]
    steps_per_second: Option<f64>,
    /// Weights of jobs for fair sharing, each with its probability weight, such as 1:3,5:1 [default: 1]
    #[arg(long, value_name = "N:W,..")]
    weights: Option<Weighted<f64>>,
    /// Deadlines, as a factor of the run time, in the way of --timeouts [default: none]
    #[arg(long, value_name = "HOW")]
    deadlines: Option<String>,
    /// Jobs of several tasks: chain:N, fork-join:N or random:N,P, where a task depends on each of the few before it with
    /// probability P; N may be a range such as 3-20
    #[arg(long, value_name = "SHAPE")]
    graph: Option<String>,
    /// Fraction of jobs with several tasks, from 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE", requires = "graph")]
    graph_share: Option<f64>,
}

/// How generated tasks may be preempted.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PreemptOption {
    /// Not at all
    None,
    /// Suspended in place, keeping their memory
    Freeze,
    /// Ended, and started again later
    Requeue,
    /// Suspended between two batches or items
    Yield,
}

/// Values with their weights.
#[derive(Debug, Clone, PartialEq)]
struct Weighted<T>(Vec<(T, f64)>);

/// Memory of a GPU, or all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct GpuMemory(Option<u64>);

/// A type of GPU, or any.
#[derive(Debug, Clone, PartialEq)]
struct GpuType(Option<String>);

/// A text that is no list of weighted values.
#[derive(Debug, thiserror::Error)]
#[error(
    "is no mix; write values with weights, as 1:3,2:1 would be for numbers; `--help` has an example of each"
)]
struct BadWeights;

impl FromStr for GpuMemory {
    type Err = BadWeights;

    fn from_str(text: &str) -> Result<Self, BadWeights> {
        match text {
            "whole" => Ok(Self(None)),
            size => size.parse::<ByteSize>().map(|size| Self(Some(size.0))).map_err(|_| BadWeights),
        }
    }
}

impl FromStr for GpuType {
    type Err = BadWeights;

    fn from_str(text: &str) -> Result<Self, BadWeights> {
        match text {
            "" => Err(BadWeights),
            "any" => Ok(Self(None)),
            kind => Ok(Self(Some(kind.to_owned()))),
        }
    }
}

impl<T: FromStr> FromStr for Weighted<T> {
    type Err = BadWeights;

    fn from_str(text: &str) -> Result<Self, BadWeights> {
        let part = |part: &str| {
            let (value, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight: f64 = weight.trim().parse().map_err(|_| BadWeights)?;
            let value = value.trim().parse().map_err(|_| BadWeights)?;
            if weight.is_finite() && weight > 0.0 { Ok((value, weight)) } else { Err(BadWeights) }
        };
        text.split(',').map(part).collect::<Result<_, _>>().map(Self)
    }
}

impl GeneratorOptions {
    /// The first of these options that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--gap", self.gap.is_some()),
            ("--batch", self.batch.is_some()),
            ("--lengths", self.lengths.is_some()),
            ("--timeouts", self.timeouts.is_some()),
            ("--guesses", self.guesses.is_some()),
            ("--gpus", self.gpus.is_some()),
            ("--gpu-memory", self.gpu_memory.is_some()),
            ("--gpu-types", self.gpu_types.is_some()),
            ("--priorities", self.priorities.is_some()),
            ("--users", self.users.is_some()),
            ("--preempt", self.preempt.is_some()),
            ("--profiles", self.profiles.is_some()),
            ("--steps-per-second", self.steps_per_second.is_some()),
            ("--weights", self.weights.is_some()),
            ("--deadlines", self.deadlines.is_some()),
            ("--graph", self.graph.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// The generator of this many jobs.
    pub(crate) fn generator(&self, jobs: u64) -> Result<Generator, UsageError> {
        let usual = Generator::default();
        let estimate = |option, text: &Option<String>, usual| {
            text.as_deref().map_or(Ok(usual), |text| estimate(option, text))
        };
        let above_zero = |option, number: f64| match number.is_finite() && number > 0.0 {
            true => Ok(number),
            false => Err(UsageError::BadShape { option, text: number.to_string(), such: "a number above 0" }),
        };
        let weights = self.weights.as_ref().map_or(usual.weights, |mix| mix.0.clone());
        weights.iter().try_for_each(|(weight, _)| above_zero("--weights", *weight).map(drop))?;
        Ok(Generator {
            jobs,
            gap: self.gap.map_or(usual.gap, Micros::as_secs_f64),
            batch: self.batch.unwrap_or(usual.batch),
            lengths: self.lengths.as_deref().map_or(Ok(usual.lengths), lengths)?,
            gpus: self.gpus.as_ref().map_or(usual.gpus, |mix| mix.0.clone()),
            gpu_memory: self.gpu_memory.as_ref().map_or(usual.gpu_memory, |mix| {
                mix.0.iter().map(|(memory, weight)| (memory.0, *weight)).collect()
            }),
            gpu_types: self.gpu_types.as_ref().map_or(usual.gpu_types, |mix| {
                mix.0.iter().map(|(kind, weight)| (kind.0.clone(), *weight)).collect()
            }),
            timeouts: estimate("--timeouts", &self.timeouts, usual.timeouts)?,
            guesses: estimate("--guesses", &self.guesses, usual.guesses)?,
            priorities: self.priorities.unwrap_or(usual.priorities),
            users: self.users.unwrap_or(usual.users),
            preempt: match self.preempt {
                None | Some(PreemptOption::None) => spec::Preempt::None,
                Some(PreemptOption::Freeze) => spec::Preempt::Freeze,
                Some(PreemptOption::Requeue) => spec::Preempt::Requeue,
                Some(PreemptOption::Yield) => spec::Preempt::Yield,
            },
            profiles: self.profiles.as_ref().map_or(usual.profiles, |mix| {
                mix.0.iter().map(|(name, weight)| (Some(name.clone()), *weight)).collect()
            }),
            steps_per_second: self
                .steps_per_second
                .map(|steps| above_zero("--steps-per-second", steps))
                .transpose()?,
            weights,
            deadlines: estimate("--deadlines", &self.deadlines, usual.deadlines)?,
            graphs: self.graph.as_deref().map(|text| graphs(text, self.graph_share)).transpose()?,
        })
    }
}

const LENGTHS: &str = "log-uniform:10,1000, log-normal:300,1.2 or file:PATH";

fn lengths(text: &str) -> Result<Lengths, UsageError> {
    let bad = || UsageError::BadShape { option: "--lengths", text: text.to_owned(), such: LENGTHS };
    let (how, of) = text.split_once(':').ok_or_else(bad)?;
    if how == "file" {
        return lengths_in(of);
    }
    let (a, b) = pair(of).ok_or_else(bad)?;
    match how {
        "log-uniform" if 0.0 < a && a <= b => Ok(Lengths::LogUniform { from: a.log10(), to: b.log10() }),
        "log-normal" => Ok(Lengths::LogNormal { median: a, deviation: b }),
        _ => Err(bad()),
    }
}

/// The numbers in a file, or the run times of the trace it is.
fn lengths_in(file: &str) -> Result<Lengths, UsageError> {
    let text = read_file(file)?;
    let lengths = if looks_like_any(&text) { run_times(file, &text)? } else { numbers(file, &text)? };
    if lengths.is_empty() {
        Err(UsageError::NotLengths(file.to_owned()))
    } else {
        Ok(Lengths::Empirical(lengths))
    }
}

fn run_times(file: &str, text: &str) -> Result<Vec<f64>, UsageError> {
    let (_, reading) = read_text(file, text, None, &ImportOptions::default())?;
    if !reading.bad.is_empty() {
        return Err(UsageError::BadTrace { file: file.to_owned(), rows: describe_bad_rows(&reading.bad) });
    }
    Ok(reading.jobs.iter().flat_map(|(_, job)| job.tasks.iter().map(|task| task.runs)).collect())
}

fn numbers(file: &str, text: &str) -> Result<Vec<f64>, UsageError> {
    let words =
        (1..).zip(text.lines()).flat_map(|(line, text)| text.split_whitespace().map(move |w| (line, w)));
    let number = |(line, word): (usize, &str)| {
        seconds(word).ok_or_else(|| UsageError::BadTrace {
            file: file.to_owned(),
            rows: format!("line {line}: '{}' is not a number of seconds", escape_controls(word)),
        })
    };
    words.map(number).collect()
}

const ESTIMATES: &str = "exact, none, even:1,3 or log-normal:1.5,0.5";

fn estimate(option: &'static str, text: &str) -> Result<Estimate, UsageError> {
    let bad = || UsageError::BadShape { option, text: text.to_owned(), such: ESTIMATES };
    match text {
        "exact" => return Ok(Estimate::Exact),
        "none" => return Ok(Estimate::Nothing),
        _ => {}
    }
    let (how, of) = text.split_once(':').ok_or_else(bad)?;
    let (a, b) = pair(of).ok_or_else(bad)?;
    match how {
        "even" if a <= b => Ok(Estimate::Even { from: a, to: b }),
        "log-normal" if a > 0.0 => Ok(Estimate::LogNormal { median: a, deviation: b }),
        _ => Err(bad()),
    }
}

const GRAPHS: &str = "chain:5, fork-join:8 or random:3-20,0.3";

fn graphs(text: &str, share: Option<f64>) -> Result<Graphs, UsageError> {
    let bad = || UsageError::BadShape { option: "--graph", text: text.to_owned(), such: GRAPHS };
    let share = share.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&share) {
        let (option, such) = ("--graph-share", "a number from 0 to 1");
        return Err(UsageError::BadShape { option, text: share.to_string(), such });
    }
    let (shape, of) = text.split_once(':').ok_or_else(bad)?;
    let (tasks, edges) = match of.split_once(',') {
        Some((tasks, edges)) => (tasks, Some(seconds(edges).filter(|p| *p <= 1.0).ok_or_else(bad)?)),
        None => (of, None),
    };
    let (fewest, most) = tasks.split_once('-').unwrap_or((tasks, tasks));
    let count = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=100_000).contains(n));
    let (fewest, most) = (count(fewest).ok_or_else(bad)?, count(most).ok_or_else(bad)?);
    let shape = match (shape, edges) {
        ("chain", None) => Shape::Chain,
        ("fork-join", None) => Shape::ForkJoin,
        ("random", edges) => Shape::Random(edges.unwrap_or(0.3)),
        _ => return Err(bad()),
    };
    if fewest > most { Err(bad()) } else { Ok(Graphs { shape, fewest, most, share }) }
}

fn pair(text: &str) -> Option<(f64, f64)> {
    let (a, b) = text.split_once(',')?;
    Some((seconds(a)?, seconds(b)?))
}

fn seconds(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_drawn_in_one_of_three_ways() {
        assert_eq!(lengths("log-uniform:10,1000").unwrap(), Lengths::LogUniform { from: 1.0, to: 3.0 });
        assert_eq!(
            lengths("log-normal:300,1.2").unwrap(),
            Lengths::LogNormal { median: 300.0, deviation: 1.2 }
        );
        for wrong in ["", "10", "log-uniform:0,5", "log-uniform:9,5", "log-normal:a,b", "even:1,2"] {
            assert!(matches!(lengths(wrong), Err(UsageError::BadShape { .. })), "{wrong}");
        }
    }

    #[test]
    fn lengths_in_a_file_are_numbers_or_a_trace_and_every_row_counts() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let file = dir.path().join("lengths");
            std::fs::write(&file, text).unwrap();
            lengths(&format!("file:{}", file.display()))
                .map_err(|wrong| wrong.to_string().replace(&file.display().to_string(), "F"))
        };
        assert_eq!(read("10\n20 30\n").unwrap(), Lengths::Empirical(vec![10.0, 20.0, 30.0]));
        assert_eq!(read("10\nabc\n").unwrap_err(), "F: line 2: 'abc' is not a number of seconds");
        assert_eq!(read("submitted,runs\n0,7\n").unwrap(), Lengths::Empirical(vec![7.0]));
        let swf = "1 0 10 100 4 -1 -1 4 200 -1 1 3 1 1 1 -1 -1 -1\n";
        assert_eq!(read(swf).unwrap(), Lengths::Empirical(vec![100.0]), "a trace of numbers is one");
        let bad = read("submitted,runs\n0,7\n0,x\n").unwrap_err();
        assert!(bad.starts_with("F: line 3: runs: 'x'"), "{bad}");
        assert!(read("").unwrap_err().contains("contains no run times"));
    }

    #[test]
    fn estimates_and_graphs_say_what_they_could_be() {
        assert_eq!(estimate("--timeouts", "even:1,3").unwrap(), Estimate::Even { from: 1.0, to: 3.0 });
        assert_eq!(estimate("--timeouts", "none").unwrap(), Estimate::Nothing);
        let graph = graphs("random:3-20,0.5", Some(0.25)).unwrap();
        assert_eq!((graph.fewest, graph.most, graph.share), (3, 20, 0.25));
        assert_eq!(graph.shape, Shape::Random(0.5));
        for wrong in ["chain", "chain:0", "chain:5,0.1", "ring:3", "random:9-3", "random:3,2"] {
            assert!(matches!(graphs(wrong, None), Err(UsageError::BadShape { .. })), "{wrong}");
        }
        for wrong in ["even:3,1", "even:1", "often", "log-normal:0,1"] {
            assert!(matches!(estimate("--timeouts", wrong), Err(UsageError::BadShape { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_mix_has_weights_and_may_leave_them_out() {
        assert_eq!("1:0.7, 2:0.3".parse::<Weighted<u16>>().unwrap(), Weighted(vec![(1, 0.7), (2, 0.3)]));
        assert_eq!("2".parse::<Weighted<u16>>().unwrap(), Weighted(vec![(2, 1.0)]));
        let memory = "4GiB:3,whole".parse::<Weighted<GpuMemory>>().unwrap();
        assert_eq!(memory, Weighted(vec![(GpuMemory(Some(4 << 30)), 3.0), (GpuMemory(None), 1.0)]));
        for wrong in ["", "a", "1:-1", "1:nan", "1:0", "1,,2"] {
            assert!(wrong.parse::<Weighted<u16>>().is_err(), "{wrong}");
        }
    }
}
