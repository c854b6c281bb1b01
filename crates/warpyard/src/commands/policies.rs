//! `policies`: what can be chosen.

use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use clap::Args;

/// Arguments of `policies`.
#[derive(Debug, Args)]
pub(crate) struct Policies {}

impl Policies {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let policies = context.policies()?;
        context.answer(policies.as_slice(), show::policies::table)
    }
}
