//! `retry`: runs jobs or tasks again.

use super::act::{Selected, act};
use crate::context::Context;
use crate::exit::Exit;
use clap::Args;

/// Arguments of `retry`.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    selected: Selected,
    /// Only tasks that did not succeed
    #[arg(long)]
    failed: bool,
}

impl Retry {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        act(context, ("run again", "running again:"), |client| {
            client.retry(&self.selected.text(), self.failed)
        })
    }
}
