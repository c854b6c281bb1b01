//! `policy`: the one in use, any other in full, and changing it.

use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::usage_error::UsageError;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use warpyard_api::wire::{PolicySpec, PolicySpecError};

/// Arguments of `policy`.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    command: Option<PolicyCommand>,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the policy in force, or another
    Show {
        /// Policy to show [default: the one in force]
        name: Option<String>,
    },
    /// Switch to another policy, or change its parameters
    Set {
        /// Policy, optionally with parameters: name:key=value,key=value
        name: String,
        /// Parameters, as key=value
        #[arg(value_name = "KEY=VALUE")]
        params: Vec<String>,
    },
}

impl Policy {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.command.unwrap_or(PolicyCommand::Show { name: None }) {
            PolicyCommand::Show { name } => {
                // Which one is in use only a server knows.
                let policies = match &name {
                    Some(_) => context.policies()?,
                    None => context.client()?.policies()?,
                };
                let wanted = policies.iter().find(|policy| match &name {
                    Some(name) => policy.name == *name,
                    None => policy.active,
                });
                let policy = match (wanted, name) {
                    (Some(policy), _) => policy,
                    (None, Some(name)) => return Err(UsageError::NoSuchPolicy(name).into()),
                    (None, None) => return Err(anyhow::anyhow!("the server names no policy as in use")),
                };
                context.answer(policy, show::policies::detail)
            }
            PolicyCommand::Set { name, params } => {
                let policy = named(&name, &params).map_err(UsageError::BadPolicy)?;
                let set = context.client()?.policy_set(&policy).context("the policy was not changed")?;
                context.answer(&set, show::policies::detail)
            }
        }
    }
}

/// `short-first beta=2` and `short-first:beta=2` are the same.
fn named(name: &str, params: &[String]) -> Result<PolicySpec, PolicySpecError> {
    let (name, first) = name.split_once(':').map_or((name, None), |(name, first)| (name, Some(first)));
    let first = first.into_iter().flat_map(|first| first.split(','));
    PolicySpec::from_parts(name, first.chain(params.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_after_a_colon_or_a_space() {
        let text = |name, params: &[&str]| {
            let params: Vec<String> = params.iter().map(ToString::to_string).collect();
            named(name, &params).unwrap().to_string()
        };
        assert_eq!(text("short-first", &["beta=2", "keep=1"]), "short-first:beta=2,keep=1");
        assert_eq!(text("short-first:beta=2", &["keep=1"]), "short-first:beta=2,keep=1");
        assert_eq!(text("fifo", &[]), "fifo");
        assert!(named("sjf", &["beta".to_owned()]).is_err());
    }
}
