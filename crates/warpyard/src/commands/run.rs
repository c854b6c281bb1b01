//! `run`: submits a job, follows it and exits as it does.

use super::attach::{DetachOptions, must_be_at_a_terminal};
use crate::context::Context;
use crate::exit::Exit;
use crate::follow::{Interrupts, exit_code, explain_silence, follow_progress, follow_task, last_words};
use crate::session::{AttachedClient, Signals};
use crate::submission::{CallerEnvironment, Request, Submission, find_jobs};
use anyhow::Context as _;
use clap::Args;
use std::io::{self, IsTerminal};
use warpyard_api::client::Client;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{LogFilter, Outcome};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    detach: DetachOptions,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let submission = self.request.prepare("run", &CallerEnvironment::current(), |select| {
            find_jobs(&context.client()?, select, true)
        })?;
        let client = context.client()?;
        if submission.is_session {
            return attend(&client, submission, &self.detach, context);
        }
        follow(&client, submission, context)
    }
}

fn follow(client: &Client, mut submission: Submission, context: &Context) -> anyhow::Result<Exit> {
    let interrupts = Interrupts::watch_or_detach(client)?;
    let job = submission.send(client)?.job;
    interrupts.name(&job);
    if io::stderr().is_terminal() {
        eprintln!(
            "job {} ({}): Ctrl-C cancels it, Ctrl-\\ detaches and lets it go on",
            escape_controls(&job),
            escape_controls(&submission.name)
        );
    }
    let ended = if submission.tasks > 1 {
        follow_progress(client, &job, &context.screen)
    } else {
        explain_silence(client, &job);
        let filter = LogFilter { follow: true, ..LogFilter::default() };
        match context.global.json {
            // The answer is what standard output is for.
            true => follow_task(client, &job, &filter, 1, &mut io::stderr().lock()),
            false => follow_task(client, &job, &filter, 1, &mut io::stdout().lock()),
        }
    };
    let ended = ended.with_context(|| format!("job {job} goes on; `warpyard logs -f {job}` follows it"))?;
    if context.global.json {
        context.print_json(&ended)?;
    } else if ended.outcome != Some(Outcome::Succeeded) {
        eprint!("{}", last_words(&ended, interrupts.cancelled(), &context.screen));
    }
    Ok(Exit::Task(exit_code(&ended)))
}

/// Stays with a job at its terminal.
fn attend(
    client: &Client,
    mut submission: Submission,
    detach: &DetachOptions,
    context: &Context,
) -> anyhow::Result<Exit> {
    must_be_at_a_terminal()?;
    // Ctrl-C is the interrupts' to know.
    let signals = Signals::watch(None)?;
    let interrupts = Interrupts::watch(client)?;
    let job = submission.send(client)?.job;
    interrupts.name(&job);
    explain_silence(client, &job);
    let (mut out, mut err) = (io::stdout().lock(), io::stderr());
    let out: &mut dyn io::Write = if context.global.json { &mut err } else { &mut out };
    let client =
        AttachedClient { context, client: client.clone(), ask: &job, keys: detach.keys(), signals, out };
    let ended = client.run(|| interrupts.only_leave())?;
    detach.leave(context, &job, ended, interrupts.cancelled())
}
