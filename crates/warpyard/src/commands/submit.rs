//! `submit`: hands a job to the server.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::counted;
use crate::submission::{CallerEnvironment, Request, find_jobs};
use clap::Args;
use serde_json::json;
use std::io::{self, IsTerminal};
use warpyard_api::text::escape_controls;

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) request: Request,
}

impl Submit {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut submission = self.request.prepare("submit", &CallerEnvironment::current(), |select| {
            find_jobs(&context.client()?, select, true)
        })?;
        let job = submission.send(&context.client()?)?.job;
        // What is odd was told on standard error; the answer has one form.
        context.answer(&json!({ "job": job }), |_, _| match io::stdout().is_terminal() {
            true => {
                let tasks = match submission.tasks {
                    1 => String::new(),
                    tasks => format!(", {}", counted(tasks, "task")),
                };
                format!(
                    "submitted job {} ({}{tasks})\n",
                    escape_controls(&job),
                    escape_controls(&submission.name)
                )
            }
            // For `J=$(warpyard submit ...)`.
            false => format!("{job}\n"),
        })
    }
}
