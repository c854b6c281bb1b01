//! `ps`: the jobs there are.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::follow::retry_while_away;
use crate::input::help_list;
use crate::show::jobs::{COLUMNS, Column, chosen, page, table};
use crate::watch::Watch;
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::collections::HashSet;
use warpyard_api::client::{Client, ClientError};
use warpyard_api::quantity::Micros;
use warpyard_api::wire::{JobFilter, JobOrder, JobView, StateFilter};

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Only these jobs: 412, 3-7, last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
    jobs: Vec<String>,
    /// All jobs, the newest first, including finished ones
    #[arg(long, short)]
    all: bool,
    /// Only jobs of this user
    #[arg(long)]
    user: Option<String>,
    /// Only jobs of this project
    #[arg(long)]
    project: Option<String>,
    /// Only jobs of this name; * matches any characters, ? any single one
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::names))]
    name: Option<String>,
    /// Only jobs in this state, or with this outcome
    #[arg(long, value_parser = StateFilter::ALL.map(StateFilter::word))]
    state: Option<String>,
    /// At most this many: the first in the queue, or with --all the newest
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// Columns to show: id,name,exit; +command adds to the default ones; `-o help` lists them
    #[arg(long, short = 'o', value_name = "COLUMNS", add = ArgValueCompleter::new(complete::columns))]
    columns: Option<String>,
    /// Redraw whenever something changes, and at least this often [default: 2s], until Ctrl-C
    #[arg(long, short, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", require_equals = true)]
    watch: Option<Micros>,
}

/// Size of the first page: about a screen, printed before the next page is requested.
const SCREEN: u32 = 100;

/// Size of later pages.
const PAGE: u32 = 1_000;

impl Ps {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.columns.as_deref() == Some("help") {
            let rows = COLUMNS.iter().map(|column| (column.name, column.about.to_owned()));
            context.print(&(help_list("Columns", rows) + "\n"))?;
            return Ok(Exit::Fine);
        }
        let columns = chosen(self.columns.as_deref())?;
        let client = context.client()?;
        let watch = self.watch;
        let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let none = self.none();
        let filter = self.filter(&columns);
        match watch {
            None if context.global.json => {
                let mut jobs = Vec::new();
                for page in Pages::new(&client, filter, limit) {
                    jobs.extend(page?);
                }
                context.print_json(jobs.as_slice())?;
                Ok(Exit::Fine)
            }
            None => {
                let mut widths = None;
                for jobs in Pages::new(&client, filter, limit) {
                    let text = match &jobs?[..] {
                        [] if widths.is_none() => format!("{none}\n"),
                        [] => continue,
                        jobs => page(jobs, &columns, &context.screen, &mut widths),
                    };
                    context.print(&text)?;
                }
                Ok(Exit::Fine)
            }
            Some(every) => Watch { client: &client, every, context }.run(
                || {
                    // A server that is started again is waited for.
                    let pages = || Pages::new(&client, filter.clone(), limit);
                    let jobs = retry_while_away(|| pages().collect::<Result<Vec<_>, _>>())?;
                    Ok(jobs.into_iter().flatten().collect::<Vec<_>>())
                },
                |jobs, screen| table(jobs, &columns, screen),
            ),
        }
    }

    /// The message for an empty list.
    fn none(&self) -> &'static str {
        let Self { jobs, user, project, name, state, .. } = self;
        let filtered = !jobs.is_empty() || [user, project, name, state].into_iter().any(Option::is_some);
        match (filtered, self.all) {
            (true, false) => "no such job is running or queued; -a lists finished ones too",
            (true, true) => "no such job; `warpyard ps -a` lists all",
            (false, false) => "no job is running or queued; `warpyard ps -a` lists finished ones too",
            (false, true) => "no jobs yet; `warpyard submit -- COMMAND` submits one",
        }
    }

    fn filter(self, columns: &[&Column]) -> JobFilter {
        let state = StateFilter::ALL.into_iter().find(|state| Some(state.word()) == self.state.as_deref());
        let over = state.is_some_and(StateFilter::is_over);
        JobFilter {
            select: (!self.jobs.is_empty()).then(|| self.jobs.join(",")),
            user: self.user,
            project: self.project,
            name: self.name,
            state,
            order: if self.all || over { JobOrder::Newest } else { JobOrder::Run },
            commands: columns.iter().any(|column| column.name == "command"),
            // Whoever names a job or asks for those that are done wants to see them.
            all: self.all || !self.jobs.is_empty() || over,
            limit: None,
            cursor: None,
        }
    }
}

/// The first so many jobs, asked for page by page.
struct Pages<'a> {
    client: &'a Client,
    /// The filter of the next page; none after the last.
    filter: Option<JobFilter>,
    left: usize,
    seen: HashSet<String>,
}

impl<'a> Pages<'a> {
    fn new(client: &'a Client, filter: JobFilter, limit: usize) -> Pages<'a> {
        let limit_first = limit.min(SCREEN as usize) as u32;
        let filter = Some(JobFilter { limit: Some(limit_first.max(1)), ..filter });
        Pages { client, filter, left: limit, seen: HashSet::new() }
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Vec<JobView>, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let filter = self.filter.take()?;
        let page = match self.client.jobs(&filter) {
            Ok(page) => page,
            Err(e) => return Some(Err(e)),
        };
        // A job that moved in the line between two pages comes twice.
        let mut jobs = page.items;
        jobs.retain(|job| self.seen.insert(job.job.clone()));
        jobs.truncate(self.left);
        self.left -= jobs.len();
        if page.next.is_some() && self.left > 0 {
            let limit = Some(self.left.min(PAGE as usize) as u32);
            self.filter = Some(JobFilter { cursor: page.next, limit, ..filter });
        }
        Some(Ok(jobs))
    }
}
