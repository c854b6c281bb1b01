//! `reproduce`: published tables, ours beside theirs.

use crate::context::Context;
use crate::exit::Exit;
use crate::lab::{Line, find, listed};
use crate::show;
use clap::Args;
use warpyard_core::Rejected;
use warpyard_sim::reproduce::{Row, short_tasks};

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Which table [default: all of them]
    name: Option<String>,
    /// How many seeds our figures are over
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
}

/// A published table.
struct Published {
    name: &'static str,
    summary: &'static str,
    rows: fn(u64) -> Result<Vec<Row>, Rejected>,
}

const TABLES: &[Published] = &[Published {
    name: "short-tasks",
    summary: "GPU Scheduling for Short Tasks in Private Cloud (2019): fifo, sjf and short-first",
    rows: short_tasks,
}];

/// The list of tables, for the help.
pub(crate) fn tables() -> String {
    listed("Tables", TABLES.iter().map(|table| (table.name, table.summary.to_owned())))
}

impl Reproduce {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let wanted = match &self.name {
            Some(name) => std::slice::from_ref(find("table", name, TABLES, |table| table.name)?),
            None => TABLES,
        };
        let mut line = Line::of_stderr();
        let mut rows = Vec::new();
        for table in wanted {
            line.say(|| format!("{}: simulating {} seeds", table.name, self.seeds));
            rows.extend((table.rows)(self.seeds)?);
        }
        drop(line);
        context.answer(rows.as_slice(), show::reproduce::table)
    }
}
