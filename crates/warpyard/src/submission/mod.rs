//! From a command line to a job that can be sent: options and files become one checked document, with the surroundings
//! the tasks run in. What the server then says of it is told in terms of where it was written.

mod environment;
mod model;
mod options;
mod snapshot;
mod source;

pub(crate) use environment::{CallerEnvironment, login};
pub(crate) use options::{EnvironmentOptions, JobOptions, TaskOptions};
pub(crate) use source::Origin;

use crate::usage_error::UsageError;
use clap::Args;
use warpyard_api::client::Client;
use warpyard_api::job::{DependencyCondition, JobDependency};
use warpyard_api::selector::{Selector, SelectorPart, TaskRef};
use warpyard_api::wire::{JobFilter, SubmitReply, SubmitRequest};

/// Arguments of `submit` and `run`.
#[derive(Debug, Default, Args)]
pub(crate) struct Request {
    /// A job file, TOML or JSON; - reads it from standard input
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Command to run, with its arguments; %{index} and %{job} are substituted
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    job: JobOptions,
    #[command(flatten)]
    task: TaskOptions,
    #[command(flatten)]
    environment: EnvironmentOptions,
    /// Idempotency key: submitting again with the same key returns the same job
    #[arg(long, value_name = "KEY", help_heading = "Job")]
    key: Option<String>,
}

/// A job ready to be sent.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The request to the server.
    pub(crate) submit: SubmitRequest,
    /// Where the job was written, for error messages.
    pub(crate) origin: Origin,
    /// Its name.
    pub(crate) name: String,
    /// Number of tasks, every one of an array counted.
    pub(crate) tasks: u64,
    /// Whether it is one task, in a terminal.
    pub(crate) is_session: bool,
    /// Whether its working directory is to be kept as it is.
    snapshot: bool,
}

impl Request {
    /// Reads, checks and completes the job. `verb` is the command that was used; `find_jobs` turns a selector into ids.
    pub(crate) fn prepare(
        self,
        verb: &'static str,
        caller: &CallerEnvironment,
        find_jobs: impl Fn(&str) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Submission> {
        let (origin, mut doc) = source::read(verb, self.file, self.command, &self.job, &self.task)?;
        for text in &self.job.after {
            doc.after.extend(dependencies(text, &find_jobs)?);
        }
        let in_terminal = doc.tasks.iter().any(|task| task.pty);
        let mut env = self.environment.env(caller)?;
        if let (true, Some(kind)) = (in_terminal, caller.variable("TERM")) {
            // Left behind with the rest, but what draws on this terminal must know what it is.
            env.entry("TERM".to_owned()).or_insert(kind);
        }
        let workdir = self.environment.workdir(caller)?;
        let problems = model::estimate_models(&mut doc, workdir.as_ref());
        if !problems.is_empty() {
            return Err(origin.refusal(problems).into());
        }
        let submit = SubmitRequest {
            user: caller.user.clone(),
            workdir: Some(workdir),
            env,
            login_environment: false,
            snapshot: None,
            terminal: caller.terminal.filter(|_| in_terminal),
            idempotency_key: self.key,
            doc: serde_json::to_value(&doc)?,
        };
        let count =
            |task: &warpyard_api::job::TaskDoc| task.array.as_ref().map_or(1, |array| u64::from(array.len()));
        let tasks = doc.tasks.iter().map(count).sum();
        let is_session = tasks == 1 && in_terminal;
        Ok(Submission { submit, origin, name: doc.name, tasks, is_session, snapshot: doc.snapshot })
    }
}

impl Submission {
    /// Sends the job. What the server refuses is told with the line or option it is about.
    pub(crate) fn send(&mut self, client: &Client) -> anyhow::Result<SubmitReply> {
        if let (true, Some(dir)) = (self.snapshot, &self.submit.workdir) {
            self.submit.snapshot = Some(snapshot::keep(client, dir.as_ref())?);
        }
        match client.submit(&self.submit) {
            Ok(submitted) => {
                if !submitted.warnings.is_empty() {
                    eprint!("{}", self.origin.render(submitted.warnings.clone()));
                }
                Ok(submitted)
            }
            Err(error) => Err(self.origin.locate(error)),
        }
    }
}

/// `412,413:fail`, with anything but plain ids looked up.
fn dependencies(
    text: &str,
    find_jobs: impl Fn(&str) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<JobDependency>> {
    let bad = || UsageError::BadAfter(text.to_owned());
    let (jobs, on) = match text.rsplit_once(':') {
        None => (text, DependencyCondition::Ok),
        Some((jobs, "ok")) => (jobs, DependencyCondition::Ok),
        Some((jobs, "fail")) => (jobs, DependencyCondition::Fail),
        Some((jobs, "any")) => (jobs, DependencyCondition::Any),
        Some(_) => return Err(bad().into()),
    };
    let selector: Selector = jobs.parse().map_err(|_| bad())?;
    let mut ids = Vec::new();
    for part in selector.parts() {
        match part {
            SelectorPart::One(TaskRef { job: Some(job), task: None, indices: None }) => {
                ids.push(job.to_string())
            }
            SelectorPart::One(_) => return Err(bad().into()),
            several => match find_jobs(&several.to_string())? {
                found if found.is_empty() => return Err(UsageError::AfterNothing(several.to_string()).into()),
                found => ids.extend(found),
            },
        }
    }
    Ok(ids.into_iter().map(|job| JobDependency { job, on }).collect())
}

/// The ids of the jobs a selector finds, asked page by page.
pub(crate) fn find_jobs(client: &Client, select: &str, all: bool) -> anyhow::Result<Vec<String>> {
    let mut filter = JobFilter { select: Some(select.to_owned()), all, ..JobFilter::default() };
    let mut ids = Vec::new();
    loop {
        let page = client.jobs(&filter)?;
        ids.extend(page.items.into_iter().map(|job| job.job));
        match page.next {
            None => return Ok(ids),
            cursor => filter.cursor = cursor,
        }
    }
}

#[cfg(test)]
mod tests;
