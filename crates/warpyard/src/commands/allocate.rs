//! `allocate`: what share of time each job gets on each type of GPU.

use super::schema::INSTANCE;
use crate::context::Context;
use crate::exit::Exit;
use crate::input::{bad_file, find_by_name, help_list, parse_json, read_file};
use crate::show::allocate::{AllocationResult, text};
use crate::simulation::parse_policy;
use crate::usage_error::UsageError;
use anyhow::Context as _;
use clap::Args;
use std::time::Instant;
use warpyard_allocate::{
    GOALS, GoalDef, Instance, Options, PlacementModel, SolveError, TypeAwareness, check,
};

/// Policy parameters that apply to a single allocation; the others concern rounds and the live cluster.
const TOLD: [&str; 3] = ["types", "sharing", "placement"];

/// Arguments of `allocate`.
#[derive(Debug, Args)]
pub(crate) struct Allocate {
    /// GPU types, jobs and their throughputs, as JSON (`warpyard schema instance`); - reads standard input
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    instance: Option<String>,
    /// The goal with its parameters, such as max-min:types=blind,sharing=true
    #[arg(long, value_name = "GOAL", required_unless_present = "example")]
    policy: Option<String>,
    /// Print an example instance
    #[arg(long, exclusive = true)]
    example: bool,
    /// Whether the goal knows that GPU types differ in speed [default: aware]
    #[arg(long, value_parser = ["aware", "blind"])]
    types: Option<String>,
    /// Let two jobs share a GPU, where the instance gives their throughputs together
    #[arg(long)]
    sharing: bool,
    /// Whether the goal knows that a job wider than one machine is slower, where the instance says by how much
    /// [default: ignored]
    #[arg(long, value_parser = ["ignored", "modelled"])]
    placement: Option<String>,
    /// Verify that the shares are feasible, and prove by the dual that none are better
    #[arg(long)]
    check: bool,
}

/// The list of goals, for the help.
pub(crate) fn goals() -> String {
    help_list("Goals", GOALS.iter().map(|goal| (goal.name, goal.summary.to_owned())))
}

impl Allocate {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (Some(file), Some(policy)) = (&self.instance, &self.policy) else {
            context.print(INSTANCE)?;
            return Ok(Exit::Fine);
        };
        let (goal, options) = self.goal(policy)?;
        let instance: Instance = parse_json(file, &read_file(file)?)?;
        let began = Instant::now();
        let solved = goal.solve(&instance, options);
        let seconds = began.elapsed().as_secs_f64();
        let answer = solved.map_err(|error| with_file(file, error))?;
        let checked = self
            .check
            .then(|| check(&instance, goal, options, &answer))
            .transpose()
            .with_context(|| format!("the allocation of {} does not stand up to checking", goal.name))?;
        let allocated = AllocationResult {
            goal,
            instance: &instance,
            answer: &answer,
            checked,
            sharing: options.sharing,
            seconds,
        };
        context.answer(&allocated, text)
    }

    /// The goal and what it is told: in the form of a policy as everywhere, or by options.
    fn goal(&self, choice: &str) -> Result<(&'static GoalDef, Options), UsageError> {
        let name = choice.split(':').next().unwrap_or_default();
        let goal = find_by_name("goal", name.trim(), GOALS, |goal| goal.name)?;
        let params = parse_policy(choice)?.params;
        if let Some(strange) = params.keys().find(|key| !TOLD.contains(&key.as_str())) {
            return Err(UsageError::NotOfOneAllocation(strange.clone()));
        }
        let is = |key: &str, option: Option<&str>, word: &str| {
            let set = params.get(key).map(String::as_str);
            match (option, set) {
                (Some(option), Some(set)) if option != set => {
                    let both =
                        format!("--{key} says {option} and --policy says {key}={set}; say one of them");
                    Err(UsageError::Refused(both))
                }
                _ => Ok(option.or(set) == Some(word)),
            }
        };
        let blind = is("types", self.types.as_deref(), "blind")?;
        let modelled = is("placement", self.placement.as_deref(), "modelled")?;
        let options = Options {
            types: if blind { TypeAwareness::Blind } else { TypeAwareness::Aware },
            sharing: is("sharing", self.sharing.then_some("true"), "true")?,
            placement_model: if modelled { PlacementModel::Modelled } else { PlacementModel::Ignored },
        };
        Ok((goal, options))
    }
}

/// A solver that failed is no fault of the request; everything else is.
fn with_file(file: &str, error: SolveError) -> anyhow::Error {
    match error {
        SolveError::GapTooLarge { .. } | SolveError::NoProgress | SolveError::NotFinite => error.into(),
        error => bad_file(file, error).into(),
    }
}
