//! Half-typed words: the ids of jobs there are, asked of the server when a shell asks us.

use clap_complete::engine::CompletionCandidate;
use std::ffi::OsStr;
use warpyard_api::client::{Client, ClientError, find};
use warpyard_api::text::shown;
use warpyard_api::wire::{ClaimView, JobFilter, JobView};

/// How many jobs are offered.
const OFFERED: u32 = 200;

/// Jobs whose id begins so, each with its name and state.
pub(crate) fn jobs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let filter = JobFilter { all: true, limit: Some(OFFERED), ..JobFilter::default() };
    let jobs = client().and_then(|client| client.jobs(&filter)).map(|page| page.items);
    let described = |job: JobView| (job.job, format!("{} ({})", shown(&job.name), job.state.word()));
    candidates(typed, jobs.unwrap_or_default().into_iter().map(described))
}

/// Claims whose id begins so.
pub(crate) fn claims(typed: &OsStr) -> Vec<CompletionCandidate> {
    let claims = client().and_then(|client| client.claims()).unwrap_or_default();
    let described =
        |claim: ClaimView| (claim.claim, format!("{} of {}", shown(&claim.name), shown(&claim.user)));
    candidates(typed, claims.into_iter().map(described))
}

fn client() -> Result<Client, ClientError> {
    Client::new(find(None, None, |name| std::env::var(name).ok())?)
}

fn candidates(typed: &OsStr, all: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    all.filter(|(id, _)| id.starts_with(&*typed))
        .map(|(id, about)| CompletionCandidate::new(id).help(Some(about.into())))
        .collect()
}
