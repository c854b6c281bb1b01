//! `attach`: to the terminal of a session that was left, or was started without one.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::follow::{ended_by_itself, exit_code, explain_silence, last_words};
use crate::session::{AttachedClient, DetachKeys, SessionEnd, Signals};
use crate::usage_error::UsageError;
use clap::Args;
use clap_complete::ArgValueCompleter;
use nix::sys::signal::Signal;
use std::io::{self, IsTerminal};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::State;

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The job, or one of its tasks: 412, 412.train[3], last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs), default_value = "last")]
    job: String,
    #[command(flatten)]
    detach: DetachOptions,
}

/// Options of detaching from a session.
#[derive(Debug, Args)]
pub(super) struct DetachOptions {
    /// Keys that detach from the session, pressed in a row: ctrl-X or letters, comma separated; none disables it
    #[arg(long, value_name = "KEYS", default_value = "ctrl-],d")]
    detach_keys: DetachKeys,
}

impl Attach {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let job = client.job(&self.job, false, None)?;
        if job.state == State::Done {
            return self.detach.leave(
                context,
                &job.job,
                SessionEnd::Over { job: Box::new(job.clone()), seen: false },
                false,
            );
        }
        must_be_at_a_terminal()?;
        let signals = Signals::watch(Some(Signal::SIGINT))?;
        // `last` may mean another job by the time that this one runs.
        let ask = if self.job == "last" { &job.job } else { &self.job };
        explain_silence(&client, ask);
        let keys = self.detach.detach_keys.clone();
        let client = AttachedClient { context, client, ask, keys, signals, out: &mut io::stdout().lock() };
        let ended = client.run(|| {})?;
        self.detach.leave(context, ask, ended, false)
    }
}

/// Refuses to attach where nobody could type.
pub(super) fn must_be_at_a_terminal() -> Result<(), UsageError> {
    if io::stdin().is_terminal() { Ok(()) } else { Err(UsageError::NotAtATerminal) }
}

impl DetachOptions {
    /// The keys to leave by.
    pub(super) fn keys(&self) -> DetachKeys {
        self.detach_keys.clone()
    }

    /// Prints how the session ended, where its output did not show that, and returns the task's exit code.
    pub(super) fn leave(
        &self,
        context: &Context,
        ask: &str,
        ended: SessionEnd,
        cancelled: bool,
    ) -> anyhow::Result<Exit> {
        let (job, seen) = match ended {
            SessionEnd::Detached => {
                eprintln!("\n[warpyard: detached; `warpyard attach {}` comes back]", escape_controls(ask));
                return Ok(Exit::Fine);
            }
            SessionEnd::Over { job, seen } => (job, seen),
        };
        if context.global.json {
            context.print_json(&job)?;
        } else if !seen || !ended_by_itself(&job) {
            eprint!("{}", last_words(&job, cancelled, &context.screen));
        }
        Ok(Exit::Task(exit_code(&job)))
    }
}
