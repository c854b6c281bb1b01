//! Half-typed words: the ids of jobs there are, asked of the server when a shell asks us.

use crate::show::jobs::COLUMNS;
use clap_complete::engine::CompletionCandidate;
use std::ffi::OsStr;
use warpyard_api::client::{Client, ClientError, find_server};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{ClaimView, HistoryFilter, JobFilter, JobView};

/// Maximum number of unfinished jobs to offer, and of finished attempts to look at.
const OFFERED: u32 = 200;

/// Jobs whose id begins so, each with its name and state: those that are not over, and those that ended last.
pub(crate) fn jobs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Ok(client) = client() else { return vec![] };
    let open = client.jobs(&JobFilter { limit: Some(OFFERED), ..JobFilter::default() });
    let ended = client.history(&HistoryFilter { limit: Some(OFFERED), ..HistoryFilter::default() });
    let open = open.map(|page| page.items).unwrap_or_default();
    let described =
        |job: JobView| (job.job, format!("{} ({})", escape_controls(&job.name), job.state.word()));
    let mut found: Vec<_> = open.into_iter().map(described).collect();
    for row in ended.map(|page| page.items).unwrap_or_default() {
        if !found.iter().any(|(job, _)| *job == row.job) {
            found.push((row.job, format!("{} (done)", escape_controls(&row.name))));
        }
    }
    candidates(typed, found.into_iter())
}

/// Claims whose id begins so.
pub(crate) fn claims(typed: &OsStr) -> Vec<CompletionCandidate> {
    let claims = client().and_then(|client| client.claims()).unwrap_or_default();
    let described = |claim: ClaimView| {
        (claim.claim, format!("{} of {}", escape_controls(&claim.name), escape_controls(&claim.user)))
    };
    candidates(typed, claims.into_iter().map(described))
}

/// Names of jobs that are not over.
pub(crate) fn names(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Ok(client) = client() else { return vec![] };
    let open = client.jobs(&JobFilter { limit: Some(OFFERED), ..JobFilter::default() });
    let mut names: Vec<_> =
        open.map(|page| page.items).unwrap_or_default().into_iter().map(|job| job.name).collect();
    names.sort();
    names.dedup();
    let typed = typed.to_string_lossy();
    names.into_iter().filter(|name| name.starts_with(&*typed)).map(CompletionCandidate::new).collect()
}

/// Columns of `ps`, after those typed already.
pub(crate) fn columns(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let begun = typed.rfind(['+', ',']).map_or(0, |at| at + 1);
    let (before, last) = typed.split_at(begun);
    let fits = COLUMNS.iter().filter(|column| column.name.starts_with(last));
    fits.map(|column| {
        CompletionCandidate::new(format!("{before}{}", column.name)).help(Some(column.about.into()))
    })
    .collect()
}

fn client() -> Result<Client, ClientError> {
    Client::new(find_server(None, None, |name| std::env::var(name).ok())?)
}

fn candidates(typed: &OsStr, all: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    all.filter(|(id, _)| id.starts_with(&*typed))
        .map(|(id, about)| CompletionCandidate::new(id).help(Some(about.into())))
        .collect()
}
