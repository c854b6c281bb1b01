//! `history`: attempts that ended.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::usage_error::UsageError;
use clap::Args;
use clap_complete::ArgValueCompleter;
use warpyard_api::quantity::Micros;
use warpyard_api::wire::{HistoryFilter, HistoryRow, Timestamp};

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Only attempts of this user
    #[arg(long)]
    user: Option<String>,
    /// Only attempts of this project
    #[arg(long)]
    project: Option<String>,
    /// Only attempts of this job
    #[arg(long, value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
    job: Option<String>,
    /// Only attempts that ended since then: 2h (ago), or 2026-11-15T20:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// At most this many, the latest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    limit: u32,
}

impl History {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let since = self.since.as_deref().map(|text| moment(text, context.screen.now)).transpose()?;
        let mut filter = HistoryFilter {
            user: self.user,
            project: self.project,
            job: self.job,
            since,
            ..HistoryFilter::default()
        };
        let client = context.client()?;
        let mut rows: Vec<HistoryRow> = Vec::new();
        while rows.len() < self.limit as usize {
            filter.limit = Some(self.limit - rows.len() as u32);
            let page = client.history(&filter)?;
            rows.extend(page.items);
            filter.cursor = page.next;
            if filter.cursor.is_none() {
                break;
            }
        }
        rows.truncate(self.limit as usize);
        context.answer(rows.as_slice(), show::history::table)
    }
}

/// A moment, or one so long before now.
pub(super) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, UsageError> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let bad = || UsageError::BadSince(text.to_owned());
    let ago: Micros = text.parse().map_err(|_| bad())?;
    let millis = i64::try_from(ago.0 / 1000).map_err(|_| bad())?;
    Timestamp::from_millis(now.as_millis().saturating_sub(millis)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_moment_or_how_long_ago() {
        let now: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
        assert_eq!(moment("2h", now).unwrap().to_string(), "2026-11-15T18:00:00.000Z");
        assert_eq!(moment("2026-01-02T03:04:05Z", now).unwrap().to_string(), "2026-01-02T03:04:05.000Z");
        assert!(matches!(moment("yesterday", now), Err(UsageError::BadSince(_))));
        assert!(matches!(moment("9999999d", now), Err(UsageError::BadSince(_))));
    }
}
