//! The one binary: the command line, and the server and worker behind `up`. What a command asks and shows lives in
//! `commands` and `show`; what is asked of is elsewhere, in crates of its own.

#[cfg(test)]
mod book;
mod cli;
mod commands;
mod complete;
mod context;
mod demo;
mod doctor;
mod exit;
mod follow;
mod input;
mod install;
mod logging;
mod overview;
mod session;
mod show;
mod simulation;
mod submission;
mod usage;
mod usage_error;
mod watch;
mod workload;

use clap::{CommandFactory, Parser};
use std::os::fd::AsFd;
use std::process::ExitCode;
use warpyard_core::spec::ClaimHolder;

fn main() -> ExitCode {
    // The spawner forks for the rest of its life, so nothing else may have begun in its process.
    if std::env::args_os().nth(1).is_some_and(|word| word == "spawner") {
        spawner();
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == warpyard_worker::claim_holder::SUBCOMMAND) {
        return hold();
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == warpyard_worker::tree_removal::SUBCOMMAND) {
        return warpyard_worker::tree_removal::remover_main(std::env::args().skip(2));
    }
    // Where a shell asks for the rest of a half-typed word, that is all that happens.
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let context = context::Context::new(cli.global);
    // The server's own level and format may be in its configuration, which it reads first.
    if !matches!(cli.command, cli::Command::Up(_)) {
        logging::init(Default::default(), Default::default());
    }
    match cli.command.run(&context) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error, context.global.json),
    }
}

/// The claim holder: waits for the process whose pid and moment it is given.
fn hold() -> ExitCode {
    let mut numbers = std::env::args().skip(2);
    let pid = numbers.next().and_then(|n| n.parse().ok());
    let seen_us = numbers.next().and_then(|n| n.parse().ok());
    let process = pid.zip(seen_us).map(|(pid, seen_us)| ClaimHolder { pid, seen_us });
    match warpyard_worker::claim_holder::wait_for_end(process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cannot watch the process a claim is for: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The process a worker launches attempts through; its socket is standard input.
fn spawner() -> ! {
    warpyard_worker::inherited::InheritedSettings::restore(std::env::args().skip(2));
    let socket =
        std::io::stdin().as_fd().try_clone_to_owned().expect("standard input is the worker's socket");
    warpyard_worker::supervise::spawner_main(socket)
}
