//! The progress of a job with several tasks, in a line that is written over where a person watches.

use super::log::retry_while_away;
use crate::show::{Screen, jobs};
use std::io::{IsTerminal, Write};
use std::time::Duration;
use warpyard_api::client::Client;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{JobView, State};

const EVERY: Duration = Duration::from_secs(1);

/// Waits until the job is done, saying on standard error how far it is.
pub(crate) fn follow_progress(client: &Client, ask: &str, screen: &Screen) -> anyhow::Result<JobView> {
    let watched = std::io::stderr().is_terminal();
    loop {
        let job = retry_while_away(|| client.wait(ask, Some(EVERY)))?;
        let done = job.state == State::Done;
        if watched {
            // Over the line before, then to its end.
            eprint!("\r\u{1b}[K{}", line(&job, screen));
        }
        if done {
            let whole = if watched { String::new() } else { line(&job, screen) };
            eprintln!("{whole}");
            return Ok(job);
        }
        std::io::stderr().flush()?;
    }
}

fn line(job: &JobView, screen: &Screen) -> String {
    let text =
        format!("{} {}  {}", escape_controls(&job.job), escape_controls(&job.name), jobs::progress(job));
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(1));
    text.chars().take(room).collect()
}
