//! `progress`: from inside a task, how far it is, and whether it should give way.

use crate::context::Context;
use crate::exit::Exit;
use crate::usage_error::UsageError;
use clap::Args;
use warpyard_api::wire;

/// Arguments of `progress`.
#[derive(Debug, Args)]
pub(crate) struct Progress {
    /// Steps done since the task first started, all attempts together
    #[arg(value_name = "STEPS")]
    steps: u64,
}

impl Progress {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let said = |name: &str| std::env::var(name).map_err(|_| UsageError::NotInATask(name.to_owned()));
        let number = |name: &str| said(name)?.parse().map_err(|_| UsageError::NotInATask(name.to_owned()));
        let job = said("WARPYARD_JOB_ID")?;
        let progress = wire::Progress {
            task: said("WARPYARD_TASK")?,
            index: std::env::var("WARPYARD_ARRAY_INDEX").ok().and_then(|index| index.parse().ok()),
            attempt: number("WARPYARD_ATTEMPT")?,
            steps: self.steps,
        };
        let noted = context.client()?.progress(&job, &progress)?;
        Ok(if noted.give_way { Exit::GiveWay } else { Exit::Fine })
    }
}
