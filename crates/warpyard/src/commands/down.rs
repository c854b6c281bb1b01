//! `down`: stops the server and waits until it is gone.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::counted;
use clap::Args;
use std::time::{Duration, Instant};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::wire::ShutdownRequest;

/// Ending tasks takes as long as their grace.
const GONE_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Arguments of `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Also end running tasks
    #[arg(long)]
    kill_tasks: bool,
}

impl Down {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let running = client.info()?.running;
        client.shutdown(self.kill_tasks)?;
        await_end(&client)?;
        context.answer(&ShutdownRequest { kill_tasks: self.kill_tasks }, |_, _| {
            match (running, self.kill_tasks) {
                (0, _) => "stopped\n".to_owned(),
                (running, true) => format!("stopped, and ended {}\n", counted(running, "running task")),
                (running, false) => {
                    let tasks = counted(running, "running task");
                    format!("stopped; {tasks} left to go on, found again by the next `warpyard up`\n")
                }
            }
        })
    }
}

fn await_end(client: &Client) -> anyhow::Result<()> {
    let since = Instant::now();
    loop {
        match client.info() {
            Err(ClientError::Unreachable { .. }) => return Ok(()),
            _ if since.elapsed() > GONE_WITHIN => {
                anyhow::bail!("the server at {} was told to stop but is still there", client.url())
            }
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}
