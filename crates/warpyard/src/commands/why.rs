//! `why`: what a job waits for.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use clap::Args;
use clap_complete::ArgValueCompleter;

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The job, or one of its tasks: 412, 412.train[3], last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs), default_value = "last")]
    job: String,
}

impl Why {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let why = context.client()?.why(&self.job)?;
        context.answer(&why, show::why::text)
    }
}
