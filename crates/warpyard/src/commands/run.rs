//! `run`: submits a job, follows it and exits as it does.

use crate::context::Context;
use crate::exit::Exit;
use crate::follow::{Interrupts, exit_code, follow_progress, follow_task};
use crate::submission::{Here, Request, find_jobs};
use anyhow::Context as _;
use clap::Args;
use std::io::{self, IsTerminal};
use std::time::Duration;
use warpyard_api::client::Client;
use warpyard_api::text::shown;
use warpyard_api::wire::{LogFilter, State};

/// After how long a person wonders why nothing happens.
const WONDERS_AFTER: Duration = Duration::from_secs(2);

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    request: Request,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let interrupts = Interrupts::watch(&client)?;
        let mut submission =
            self.request.prepare("run", &Here::really(), |select| find_jobs(&client, select, true))?;
        let job = submission.send(&client)?.job;
        interrupts.name(&job);
        let ended = if submission.tasks > 1 {
            follow_progress(&client, &job, &context.screen)
        } else {
            if io::stderr().is_terminal() {
                explain_silence(&client, &job);
            }
            let filter = LogFilter { follow: true, ..LogFilter::default() };
            match context.global.json {
                // The answer is what standard output is for.
                true => follow_task(&client, &job, &filter, 1, &mut io::stderr().lock()),
                false => follow_task(&client, &job, &filter, 1, &mut io::stdout().lock()),
            }
        };
        let ended =
            ended.with_context(|| format!("job {job} goes on; `warpyard logs -f {job}` follows it"))?;
        if context.global.json {
            context.print_json(&ended)?;
        } else if let (Some(outcome), true) = (ended.outcome, interrupts.cancelled()) {
            eprintln!("job {job} {}", outcome.word());
        }
        Ok(Exit::Task(exit_code(&ended, interrupts.cancelled())))
    }
}

/// Says once why a job has not started, beside following it.
fn explain_silence(client: &Client, job: &str) {
    let (client, job) = (client.clone(), job.to_owned());
    std::thread::spawn(move || {
        std::thread::sleep(WONDERS_AFTER);
        // Nobody asked, so a failure here is nobody's concern.
        let Ok(view) = client.job(&job, false, None) else { return };
        if view.state <= State::Ready {
            let why = view.why.map(|why| format!(": {}", shown(&why))).unwrap_or_default();
            eprintln!("job {job} waits{why}; `warpyard why {job}` says more");
        }
    });
}
