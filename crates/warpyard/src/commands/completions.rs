//! `completions`: what a shell needs to complete our words.

use crate::context::Context;
use crate::exit::Exit;
use crate::install;
use clap::Args;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

impl Completions {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        context.print(&String::from_utf8(install::completions(&self.shell))?)?;
        Ok(Exit::Fine)
    }
}
