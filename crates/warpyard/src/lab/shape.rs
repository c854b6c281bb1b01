//! What a workload made from a seed is like, as options say it.

use super::text_of;
use crate::wrong::Wrong;
use clap::Args;
use std::str::FromStr;
use warpyard_api::quantity::Micros;
use warpyard_sim::workload::{Generator, Lengths};

/// Options of every workload that is made.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workloads made from a seed")]
pub(crate) struct Shape {
    /// Mean time between two submissions, exponential; 0 submits all at once [default: 25s]
    #[arg(long, value_name = "TIME")]
    gap: Option<Micros>,
    /// How long jobs run, in seconds: log-uniform:FROM,TO, log-normal:MEDIAN,DEVIATION or file:PATH with one a line
    /// [default: log-uniform:10,1000]
    #[arg(long, value_name = "HOW")]
    lengths: Option<String>,
    /// GPUs of a job, each number with its weight, such as 1:0.7,2:0.2,4:0.1 [default: 1]
    #[arg(long, value_name = "N:W,..")]
    gpus: Option<Mix>,
    /// The timeout is the run time times something evenly drawn between 1 and this [default: 1]
    #[arg(long, value_name = "FACTOR")]
    overestimate: Option<f64>,
    /// Priorities from 0 up to below this [default: 1]
    #[arg(long, value_name = "N")]
    priorities: Option<u64>,
    /// How many users there are [default: 1]
    #[arg(long, value_name = "N")]
    users: Option<u64>,
}

/// Numbers of GPUs with their weights.
#[derive(Debug, Clone, PartialEq)]
struct Mix(Vec<(u16, f64)>);

/// What is no mix.
#[derive(Debug, thiserror::Error)]
#[error("is no mix of GPU counts; write such as 1:0.7,2:0.2,4:0.1")]
struct NotAMix;

impl FromStr for Mix {
    type Err = NotAMix;

    fn from_str(text: &str) -> Result<Self, NotAMix> {
        let part = |part: &str| {
            let (count, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight: f64 = weight.trim().parse().map_err(|_| NotAMix)?;
            let count = count.trim().parse().map_err(|_| NotAMix)?;
            if weight.is_finite() && weight > 0.0 { Ok((count, weight)) } else { Err(NotAMix) }
        };
        text.split(',').map(part).collect::<Result<_, _>>().map(Self)
    }
}

impl Shape {
    /// An option that was given, if one was.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--gap", self.gap.is_some()),
            ("--lengths", self.lengths.is_some()),
            ("--gpus", self.gpus.is_some()),
            ("--overestimate", self.overestimate.is_some()),
            ("--priorities", self.priorities.is_some()),
            ("--users", self.users.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// What makes so many jobs like that.
    pub(crate) fn generator(&self, jobs: u64) -> Result<Generator, Wrong> {
        let usual = Generator::default();
        let overestimate = self.overestimate.unwrap_or(usual.overestimate);
        if !(overestimate.is_finite() && overestimate >= 1.0) {
            return Err(Wrong::BadOverestimate(overestimate));
        }
        Ok(Generator {
            jobs,
            gap: self.gap.map_or(usual.gap, Micros::as_secs_f64),
            lengths: self.lengths.as_deref().map_or(Ok(usual.lengths), lengths)?,
            gpus: self.gpus.as_ref().map_or(usual.gpus, |mix| mix.0.clone()),
            overestimate,
            priorities: self.priorities.unwrap_or(usual.priorities),
            users: self.users.unwrap_or(usual.users),
        })
    }
}

fn lengths(text: &str) -> Result<Lengths, Wrong> {
    let bad = || Wrong::BadLengths(text.to_owned());
    let (how, of) = text.split_once(':').ok_or_else(bad)?;
    if how == "file" {
        let numbers: Option<Vec<f64>> = text_of(of)?.split_whitespace().map(seconds).collect();
        let numbers = numbers.filter(|numbers| !numbers.is_empty());
        return numbers.map(Lengths::Empirical).ok_or_else(|| Wrong::NotLengths(of.to_owned()));
    }
    let (a, b) = of.split_once(',').ok_or_else(bad)?;
    let (a, b) = (seconds(a).ok_or_else(bad)?, seconds(b).ok_or_else(bad)?);
    match how {
        "log-uniform" if 0.0 < a && a <= b => Ok(Lengths::LogUniform { from: a.log10(), to: b.log10() }),
        "log-normal" => Ok(Lengths::LogNormal { median: a, deviation: b }),
        _ => Err(bad()),
    }
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
            assert!(matches!(lengths(wrong), Err(Wrong::BadLengths(_))), "{wrong}");
        }
    }

    #[test]
    fn a_mix_has_weights_and_may_leave_them_out() {
        assert_eq!("1:0.7, 2:0.3".parse::<Mix>().unwrap(), Mix(vec![(1, 0.7), (2, 0.3)]));
        assert_eq!("2".parse::<Mix>().unwrap(), Mix(vec![(2, 1.0)]));
        for wrong in ["", "a", "1:-1", "1:nan", "1:0", "1,,2"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
