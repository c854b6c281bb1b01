//! `throughputs`: how fast profiles run on types of GPU, as said and as measured.

use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::simulation::{Costs, Throughputs as Table};
use clap::Args;
use warpyard_api::wire::Throughputs as Said;

/// Arguments of `throughputs`.
#[derive(Debug, Args)]
pub(crate) struct Throughputs {
    /// Set them from a JSON table of steps per second by GPU type and profile, in Gavel's format
    #[arg(long, value_name = "FILE")]
    set: Option<String>,
    /// Set the price of a GPU hour by type, for the policy `cost`: v100=2.48,k80=0.45
    #[arg(long, value_name = "TYPE=COST,..")]
    cost: Option<Costs>,
}

impl Throughputs {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let table = self.set.as_deref().map(Table::read).transpose()?;
        let known = match (table, self.cost) {
            (None, None) => client.throughputs()?,
            (table, cost) => {
                let cost_per_hour = cost.unwrap_or_default().0;
                client.throughputs_set(&Said { cost_per_hour, ..table.unwrap_or_default().to_wire() })?
            }
        };
        context.answer(&known, show::throughputs::table)
    }
}
