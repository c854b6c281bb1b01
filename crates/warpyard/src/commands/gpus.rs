//! `gpus`: every device and who is on it.

use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use clap::Args;

/// Arguments of `gpus`.
#[derive(Debug, Args)]
pub(crate) struct Gpus {}

impl Gpus {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let gpus = context.client()?.gpus()?;
        context.answer(gpus.as_slice(), show::gpus::lines)
    }
}
