//! `admin`: looking after the server's own state.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::counted;
use clap::{Args, Subcommand};

/// Arguments of `admin`.
#[derive(Debug, Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Recreate the tables for search and history from the log
    Rebuild,
}

impl Admin {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.what {
            What::Rebuild => {
                let rebuilt = context.client()?.rebuild()?;
                context.answer(&rebuilt, |rebuilt, _| format!("rebuilt {}\n", counted(rebuilt.rows, "row")))
            }
        }
    }
}
