//! `show`: one job in full.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show::job;
use clap::Args;
use clap_complete::ArgValueCompleter;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The job, or one of its tasks: 412, 412.train, last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs), default_value = "last")]
    job: String,
    /// List every task of an array
    #[arg(long)]
    expand: bool,
    /// Only the page of tasks that starts here: `next` of the page before (with --json)
    #[arg(long, value_name = "CURSOR", requires = "expand")]
    page: Option<String>,
}

impl Show {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let mut whole = client.job(&self.job, self.expand, self.page.as_deref())?;
        while self.expand && self.page.is_none() {
            let Some(next) = whole.next.take() else { break };
            let more = client.job(&self.job, true, Some(&next))?;
            whole.tasks.extend(more.tasks);
            whole.next = more.next;
        }
        context.answer(&whole, job::text)
    }
}
