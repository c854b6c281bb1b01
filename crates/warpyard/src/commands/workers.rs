//! `workers` and `drain`: the machines, and whether they take tasks.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::{self, counted};
use crate::usage_error::UsageError;
use clap::Args;
use warpyard_api::client::Client;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{WorkerState, WorkerView};

/// Arguments of `workers`.
#[derive(Debug, Args)]
pub(crate) struct Workers {}

impl Workers {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let workers = context.client()?.workers()?;
        context.answer(workers.as_slice(), show::workers::table)
    }
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The worker [default: the only one]
    worker: Option<String>,
}

impl Drain {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let worker = client.drain(&named(&client, self.worker)?)?;
        answer(context, &worker)
    }
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The worker
    worker: String,
}

impl Forget {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        context.client()?.revoke_key(&self.worker)?;
        context.answer(&serde_json::json!({ "forgotten": self.worker }), |_, _| {
            format!(
                "{} is forgotten: its key counts for nothing, and what still runs there is lost when its lease expires\n",
                escape_controls(&self.worker)
            )
        })
    }
}

/// The worker that was named, or the only one there is.
pub(super) fn named(client: &Client, name: Option<String>) -> anyhow::Result<String> {
    match name {
        Some(name) => Ok(name),
        None => Ok(only(client.workers()?)?),
    }
}

fn only(workers: Vec<WorkerView>) -> Result<String, UsageError> {
    let mut names: Vec<String> = workers.into_iter().map(|worker| worker.id).collect();
    match (names.pop(), names.is_empty()) {
        (None, _) => Err(UsageError::NoWorker),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            names.push(last);
            Err(UsageError::WhichWorker(
                names.iter().map(|name| escape_controls(name)).collect::<Vec<_>>().join(", "),
            ))
        }
    }
}

/// The answer to a command about a worker: its new state.
pub(super) fn answer(context: &Context, worker: &WorkerView) -> anyhow::Result<Exit> {
    context.answer(worker, |worker, _| {
        let running = match (worker.state, worker.running) {
            (WorkerState::Draining, 1..) => format!(", {} to finish", counted(worker.running, "task")),
            _ => String::new(),
        };
        format!("{} is {}{running}\n", escape_controls(&worker.id), show::workers::word(worker.state))
    })
}
