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
    /// The HTTP interface, as OpenAPI 3.1
    Openapi,
}

impl Schema {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let schema = match self.what {
            What::Job => warpyard_api::job::job_schema(),
            What::Openapi => warpyard_server::openapi(),
        };
        let text = serde_json::to_string_pretty(&schema)?;
        context.print(&(text + "\n"))?;
        Ok(Exit::Fine)
    }
}
