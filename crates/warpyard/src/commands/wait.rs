//! `wait`: until jobs are done.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::follow::last_words;
use crate::show::{Screen, jobs};
use crate::submission::find_jobs;
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::time::{Duration, Instant};
use warpyard_api::client::Client;
use warpyard_api::quantity::Micros;
use warpyard_api::selector::{Selector, SelectorPart};
use warpyard_api::wire::{JobView, Outcome, State};

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Jobs or tasks: 412, 412.train, 3-7, last; `all` waits for those that exist now
    #[arg(required = true, value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
    jobs: Vec<String>,
    /// Give up after this long, such as 10m, and exit with 1
    #[arg(long, value_name = "TIME")]
    timeout: Option<Micros>,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

impl Wait {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let deadline = self.timeout.map(|timeout| Instant::now() + Duration::from(timeout));
        let mut waited = Vec::new();
        for id in self.ids(&client)? {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let job = client.wait(&id, left)?;
            if !self.quiet && !context.global.json {
                context.print(&how_it_ended(&job, &context.screen))?;
            }
            waited.push(job);
        }
        if context.global.json {
            context.print_json(&waited)?;
        }
        Ok(verdict(&waited))
    }

    /// The selectors to wait for, one by one. A single job or task is sent as it is; others are resolved to ids.
    fn ids(&self, client: &Client) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::new();
        for text in &self.jobs {
            match text.parse::<Selector>() {
                Ok(selector) if selector.one().is_err() => {
                    // Those that ended long ago are not part of all that there is now.
                    let ended_too = !selector.parts().contains(&SelectorPart::All);
                    ids.extend(find_jobs(client, text, ended_too)?);
                }
                _ => ids.push(text.clone()),
            }
        }
        Ok(ids)
    }
}

/// One line per job, with the reason if it did not succeed.
fn how_it_ended(job: &JobView, screen: &Screen) -> String {
    let cancelled = job.outcome == Some(Outcome::Cancelled);
    match job.state == State::Done && job.outcome != Some(Outcome::Succeeded) {
        true => last_words(job, cancelled, screen),
        false => jobs::ended(job, screen),
    }
}

fn verdict(jobs: &[JobView]) -> Exit {
    let all = jobs.iter().all(|job| job.state == State::Done && job.outcome == Some(Outcome::Succeeded));
    if all { Exit::Fine } else { Exit::WorkFailed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::jobs::tests::job;
    use serde_json::json;

    #[test]
    fn only_if_all_succeeded_is_it_fine() {
        let done = |outcome: &str| job(json!({"state": "done", "outcome": outcome}));
        assert_eq!(verdict(&[done("succeeded"), done("succeeded")]), Exit::Fine);
        for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Succeeded) {
            assert_eq!(verdict(&[done("succeeded"), done(outcome.word())]), Exit::WorkFailed, "{outcome:?}");
        }
        assert_eq!(verdict(&[job(json!({}))]), Exit::WorkFailed, "it ran out of time");
    }
}
