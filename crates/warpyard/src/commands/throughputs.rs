//! `throughputs`: how fast profiles run on types of GPU, as said and as measured.

use crate::context::Context;
use crate::exit::Exit;
use crate::lab::Throughputs as Table;
use crate::show;
use clap::Args;

/// Arguments of `throughputs`.
#[derive(Debug, Args)]
pub(crate) struct Throughputs {
    /// Say them: a JSON table of steps a second by GPU type and profile, as Gavel publishes it
    #[arg(long, value_name = "FILE")]
    set: Option<String>,
}

impl Throughputs {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let known = match self.set {
            Some(file) => client.throughputs_set(&Table::read(&file)?.said())?,
            None => client.throughputs()?,
        };
        context.answer(&known, show::throughputs::table)
    }
}
