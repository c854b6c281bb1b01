//! `login`: a new way into the pages.

use crate::context::Context;
use crate::exit::Exit;
use clap::Args;

/// Arguments of `login`.
#[derive(Debug, Args)]
pub(crate) struct Login {}

impl Login {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let link = context.client()?.login()?;
        context.answer(&link, |link, _| format!("{}\n  works once, within ten minutes\n", link.login))
    }
}
