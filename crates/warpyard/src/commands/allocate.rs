//! `allocate`: what share of time each job gets on each type of GPU.

use crate::context::Context;
use crate::exit::Exit;
use crate::lab::{bad_file, find, listed, parse, text_of};
use crate::show::allocate::{Allocated, text};
use crate::wrong::Wrong;
use anyhow::Context as _;
use clap::Args;
use std::time::Instant;
use warpyard_allocate::{GOALS, GoalDef, Instance, Options, Placing, SolveError, Types, check};

/// Arguments of `allocate`.
#[derive(Debug, Args)]
pub(crate) struct Allocate {
    /// Types of GPUs, jobs and how fast they run, as JSON; - reads standard input
    #[arg(long, value_name = "FILE")]
    instance: String,
    /// The goal
    #[arg(long, value_name = "GOAL")]
    policy: String,
    /// Whether the goal may know that types differ
    #[arg(long, value_parser = ["aware", "blind"], default_value = "aware")]
    types: String,
    /// Let two jobs share a GPU, where the instance says how fast they then are
    #[arg(long)]
    sharing: bool,
    /// Whether the goal knows that a job wider than a machine is slower, where the instance says how much
    #[arg(long, value_parser = ["ignored", "modelled"], default_value = "ignored")]
    placement: String,
    /// Verify by the dual that the shares fit and that nothing better exists
    #[arg(long)]
    check: bool,
}

/// The list of goals, for the help.
pub(crate) fn goals() -> String {
    listed("Goals", GOALS.iter().map(|goal| (goal.name, goal.summary.to_owned())))
}

impl Allocate {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let goal = find("goal", &self.policy, GOALS, |goal| goal.name)?;
        let instance: Instance = parse(&self.instance, &text_of(&self.instance)?)?;
        let types = if self.types == "blind" { Types::Blind } else { Types::Aware };
        let placing = if self.placement == "modelled" { Placing::Modelled } else { Placing::Ignored };
        let options = Options { types, sharing: self.sharing, placing };
        let began = Instant::now();
        let solved = goal.solve(&instance, options);
        let seconds = began.elapsed().as_secs_f64();
        let answer = solved.map_err(|error| self.told(error))?;
        let checked = self
            .check
            .then(|| check(&instance, goal, options, &answer))
            .transpose()
            .with_context(|| format!("the allocation of {} does not stand up to checking", goal.name))?;
        let allocated =
            Allocated { goal, instance: &instance, answer: &answer, checked, sharing: self.sharing, seconds };
        context.answer(&allocated, text)
    }

    /// A solver that failed is no fault of the request; everything else is.
    fn told(&self, error: SolveError) -> anyhow::Error {
        match error {
            SolveError::Stuck { .. } | SolveError::NoProgress | SolveError::NoNumber => error.into(),
            SolveError::NoSharing { goal } => Wrong::NoSharing { goal, those: sharing_goals() }.into(),
            error => bad_file(&self.instance, error).into(),
        }
    }
}

fn sharing_goals() -> String {
    let names: Vec<&str> = GOALS.iter().filter(|goal| goal.sharing).map(|goal: &GoalDef| goal.name).collect();
    names.join(", ")
}
