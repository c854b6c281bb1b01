//! `completions`: what a shell needs to complete our words.

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Exit;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "warpyard", &mut script);
        context.print(&String::from_utf8(script)?)?;
        Ok(Exit::Fine)
    }
}
