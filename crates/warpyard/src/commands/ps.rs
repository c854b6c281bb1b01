//! `ps`: the jobs there are.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use clap::Args;
use clap_complete::ArgValueCompleter;
use warpyard_api::wire::{JobFilter, JobView, State};

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Only these: 412, 3-7, last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
    jobs: Vec<String>,
    /// Also those that are done
    #[arg(long, short)]
    all: bool,
    /// Only those of a user
    #[arg(long)]
    user: Option<String>,
    /// Only those of a project
    #[arg(long)]
    project: Option<String>,
    /// Only those in a state
    #[arg(long, value_parser = State::ALL.map(State::word))]
    state: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

impl Ps {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut filter = self.filter();
        let mut jobs: Vec<JobView> = Vec::new();
        while jobs.len() < limit {
            let page = client.jobs(&filter)?;
            jobs.extend(page.items);
            filter.cursor = page.next;
            if filter.cursor.is_none() {
                break;
            }
        }
        jobs.truncate(limit);
        context.answer(jobs.as_slice(), show::jobs::table)
    }

    fn filter(self) -> JobFilter {
        let state = State::ALL.into_iter().find(|state| Some(state.word()) == self.state.as_deref());
        JobFilter {
            select: (!self.jobs.is_empty()).then(|| self.jobs.join(",")),
            user: self.user,
            project: self.project,
            state,
            // Whoever names a job or asks for those that are done wants to see them.
            all: self.all || !self.jobs.is_empty() || state == Some(State::Done),
            limit: self.limit,
            cursor: None,
        }
    }
}
