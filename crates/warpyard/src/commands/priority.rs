//! `priority`: how urgent jobs are.

use super::act::act;
use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use clap::Args;
use clap_complete::ArgValueCompleter;

/// Arguments of `priority`.
#[derive(Debug, Args)]
pub(crate) struct Priority {
    /// Jobs: 412, 3-7, last, all
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
    jobs: String,
    /// The new priority; a larger number is more urgent
    #[arg(value_name = "N", allow_negative_numbers = true)]
    priority: i64,
}

impl Priority {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let done = format!("set priority {} for", self.priority);
        act(context, ("change", &done), |client| client.priority(&self.jobs, self.priority))
    }
}
