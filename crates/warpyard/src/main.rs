//! The one binary: the command line, and the server and worker behind `up`. What a command asks and shows lives in
//! `commands` and `show`; what is asked of is elsewhere, in crates of its own.

mod cli;
mod commands;
mod context;
mod demo;
mod exit;
mod follow;
mod lab;
mod show;
mod submission;
mod usage;
mod wrong;

use clap::Parser;
use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The spawner forks for the rest of its life, so nothing else may have begun in its process.
    if std::env::args_os().nth(1).is_some_and(|word| word == "spawner") {
        spawner();
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let context = context::Context::new(cli.global);
    match cli.command.run(&context) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}

/// The process a worker launches attempts through; its socket is standard input.
fn spawner() -> ! {
    let socket =
        std::io::stdin().as_fd().try_clone_to_owned().expect("standard input is the worker's socket");
    warpyard_worker::supervise::spawner_main(socket)
}
