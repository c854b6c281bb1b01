//! `schema`: the form of documents.

use crate::context::Context;
use crate::exit::Exit;
use clap::{Args, Subcommand};

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The job document
    Job,
}

impl Schema {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let What::Job = self.what;
        let text = serde_json::to_string_pretty(&warpyard_api::job::job_schema())?;
        context.print(&(text + "\n"))?;
        Ok(Exit::Fine)
    }
}
