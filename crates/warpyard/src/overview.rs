//! The text of `warpyard --help`: every command, grouped by purpose, the everyday ones first. The help of a
//! single command is clap's own.

use crate::cli::Cli;
use clap::{ColorChoice, CommandFactory};
use std::fmt::Write;
use std::io::{self, IsTerminal};

/// The commands by group, in the order they are listed.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Jobs", &["run", "submit", "ps", "show", "why", "logs", "wait", "history"]),
    ("Change jobs", &["cancel", "retry", "hold", "release", "pause", "resume", "priority"]),
    ("Interactive work", &["attach", "claim", "claims", "extend", "adopt"]),
    (
        "Server and GPUs",
        &[
            "up", "down", "info", "login", "token", "tls", "gpus", "worker", "workers", "drain", "forget",
            "limits",
        ],
    ),
    ("Policies", &["policies", "policy", "sim", "compare", "replay", "trace", "reproduce"]),
    ("Planning and sharing", &["estimate", "plan", "learn", "allocate", "throughputs"]),
    (
        "Setup and tools",
        &["install", "uninstall", "doctor", "admin", "schema", "snapshot", "progress", "completions"],
    ),
];

/// The whole text.
fn text() -> clap::builder::StyledStr {
    let program = Cli::command();
    let mut commands = String::new();
    for (title, names) in GROUPS {
        writeln!(commands, "{title}:").expect("a string takes all");
        for name in names {
            let command = program.find_subcommand(name).expect("a test finds every name");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(commands, "  {name:<12} {about}").expect("a string takes all");
        }
        commands.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}`warpyard help COMMAND` describes a command.\n\n{{all-args}}{{after-help}}"
    );
    let mut program = program
        .mut_subcommands(|command| command.hide(true))
        .override_usage("warpyard <COMMAND> [OPTIONS]")
        .help_template(template);
    program.render_help()
}

/// Prints it, in colour only on a terminal.
pub(crate) fn print() -> io::Result<()> {
    let colour = io::stdout().is_terminal() && Cli::command().get_color() != ColorChoice::Never;
    let text = text();
    let text = if colour { text.ansi().to_string() } else { text.to_string() };
    io::Write::write_all(&mut io::stdout().lock(), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_is_listed_once() {
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let program = Cli::command();
        let known: BTreeSet<_> =
            program.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(listed.len(), known.len(), "a command is listed twice");
    }

    #[test]
    fn the_overview_has_commands_options_and_exit_codes() {
        let text = text().to_string();
        for part in
            ["\nJobs:\n  run          Submit", "\nGlobal options:\n      --json", "\nExit codes:\n  0 "]
        {
            assert!(text.contains(part), "{part:?}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }
}
