//! Mistakes in the words of a command line, reported as other errors are.

use crate::exit;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt::Write;
use std::process::ExitCode;
use warpyard_api::text::{closest_match, escape_controls};

/// Prints help where that was asked for, otherwise what is wrong: as JSON where `--json` is among the words.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let whole = error.kind() == ErrorKind::DisplayHelp && !names_a_command(&words);
            // Only a reader that left can make this fail.
            let _read_enough = if whole { crate::overview::print() } else { error.print() };
            ExitCode::SUCCESS
        }
        _ if json => {
            exit::tell(&format!("{}\n", exit::Report::of_usage(&message(error, &words), help_of(&words))));
            ExitCode::from(2)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _read_enough = if names_a_command(&words) { error.print() } else { crate::overview::print() };
            ExitCode::from(2)
        }
        _ => {
            exit::tell(&error_text(error, &words));
            ExitCode::from(2)
        }
    }
}

/// The mistake in one line, without the word that every error begins with.
fn message(error: &clap::Error, words: &[String]) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing".to_owned();
    }
    let text = error_text(error, words);
    text.trim_end().strip_prefix("error: ").unwrap_or(text.trim_end()).to_owned()
}

/// The mistake in our own words; `words` begin with the command it was made with.
fn error_text(error: &clap::Error, words: &[String]) -> String {
    let verb = words.first().map(String::as_str);
    let context = |kind| error.get(kind).and_then(first_text);
    let wrong = context(ContextKind::InvalidArg).unwrap_or_default();
    let value = context(ContextKind::InvalidValue).unwrap_or_default();
    let option = wrong.split(' ').next().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            let root = crate::cli::Cli::command();
            let known: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
            let near = closest_match(&word, known).map(str::to_owned);
            // Of a command's own commands clap knows, but it takes much for near.
            let near = near.or_else(|| {
                let suggested = context(ContextKind::SuggestedSubcommand);
                suggested.filter(|near| closest_match(&word, [near.as_str()]).is_some())
            });
            match near {
                Some(near) => {
                    format!("error: no such command '{}'; did you mean '{near}'?\n", escape_controls(&word))
                }
                None => {
                    format!(
                        "error: no such command '{}'; `{}` lists them\n",
                        escape_controls(&word),
                        help_of(words)
                    )
                }
            }
        }
        ErrorKind::UnknownArgument if wrong.starts_with('-') => {
            let mut out = format!("error: no such option '{}'", escape_controls(&wrong));
            match context(ContextKind::SuggestedArg) {
                Some(near) => writeln!(out, "; did you mean '{near}'?"),
                None => writeln!(out, "; `{}` lists them", help_of(words)),
            }
            .expect("a string takes all");
            out
        }
        ErrorKind::UnknownArgument => match verb {
            Some(verb @ ("run" | "submit")) => {
                // Without an option before it, which may have a value, all that follows is plainly the command.
                let command = match words.get(1) {
                    Some(first) if !first.starts_with('-') => {
                        escape_controls(&words[1..].join(" ")).into_owned()
                    }
                    _ => "...".to_owned(),
                };
                format!(
                    "error: unexpected '{}'; a command goes after --: warpyard {verb} -- {command}\n",
                    escape_controls(&wrong)
                )
            }
            _ => {
                format!(
                    "error: unexpected '{}'; `{}` says what there is\n",
                    escape_controls(&wrong),
                    help_of(words)
                )
            }
        },
        ErrorKind::InvalidValue if value.is_empty() => format!("error: {option} needs a value\n"),
        ErrorKind::InvalidValue => {
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(words)) => words.join(", "),
                _ => String::new(),
            };
            let near = context(ContextKind::SuggestedValue);
            let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            format!("error: {option}: '{}' is not one of {known}{near}\n", escape_controls(&value))
        }
        ErrorKind::ValueValidation => {
            let fault = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            let quoted = format!("'{value}'");
            let fault = fault.strip_prefix(&quoted).map(str::trim_start).unwrap_or(&fault);
            format!("error: {option}: '{}' {}\n", escape_controls(&value), joined(fault))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(missing)) => missing.clone(),
                _ => vec![wrong],
            };
            let are = if missing.len() == 1 { "is" } else { "are" };
            let missing: Vec<_> = missing.iter().map(|name| or_generated(name)).collect();
            format!("error: {} {are} missing; `{}` says more\n", missing.join(" and "), help_of(words))
        }
        // Whatever else there is, clap says well enough.
        _ => error.render().to_string(),
    }
}

/// The missing argument with its alternatives: workloads and workflows can also be generated.
fn or_generated(missing: &str) -> String {
    match missing {
        "--trace <FILE>" => "--trace <FILE> (or --generate <JOBS>)".to_owned(),
        "<WORKFLOW>" => "<WORKFLOW> (or --generate <NxM>)".to_owned(),
        other => other.to_owned(),
    }
}

/// A fault after the value it is about: "is negative" follows as it is, anything else after a colon.
fn joined(fault: &str) -> String {
    if fault.starts_with("invalid digit") {
        return "is not a whole number".to_owned();
    }
    if let Some((_, range)) = fault.split_once(" is not in ")
        && let Some((low, high)) = range.split_once("..")
    {
        let high = high.trim_start_matches('=');
        return match high.parse::<u64>() {
            Ok(high) if high < u64::from(u32::MAX) => format!("is not from {low} to {high}"),
            _ => format!("is not {low} or more"),
        };
    }
    let follows = ["is ", "has ", "could "].iter().any(|verb| fault.starts_with(verb));
    if follows { fault.to_owned() } else { format!("is not understood: {fault}") }
}

/// Whether help is asked for about a command (`help sim`, `--json sim --help`) rather than the program.
fn names_a_command(words: &[String]) -> bool {
    let root = crate::cli::Cli::command();
    words.iter().any(|word| root.find_subcommand(word).is_some())
}

/// The command that prints the help of a command or subcommand.
fn help_of(words: &[String]) -> String {
    let root = crate::cli::Cli::command();
    let (mut at, mut asks) = (&root, "warpyard ".to_owned());
    for word in words {
        let Some(command) = at.find_subcommand(word) else { break };
        asks = format!("{asks}{word} ");
        at = command;
    }
    asks + "--help"
}

fn first_text(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn said(args: &[&str]) -> String {
        let all = std::iter::once("warpyard").chain(args.iter().copied());
        let error = crate::cli::Cli::try_parse_from(all).expect_err("a mistake");
        error_text(&error, &args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_wrong_word_gets_a_suggestion() {
        assert_eq!(said(&["submt"]), "error: no such command 'submt'; did you mean 'submit'?\n");
        assert_eq!(
            said(&["frobnicate"]),
            "error: no such command 'frobnicate'; `warpyard --help` lists them\n"
        );
        assert_eq!(
            said(&["policy", "x"]),
            "error: no such command 'x'; `warpyard policy --help` lists them\n"
        );
        assert_eq!(
            said(&["trace", "generate", "--frob"]),
            "error: no such option '--frob'; `warpyard trace generate --help` lists them\n"
        );
        assert_eq!(said(&["policy", "sett"]), "error: no such command 'sett'; did you mean 'set'?\n");
    }

    #[test]
    fn wrong_options_and_values_are_told_the_same_way() {
        insta::assert_snapshot!([
            said(&["submit", "--gpu-memry", "4GiB", "--", "true"]),
            said(&["ps", "--frob"]),
            said(&["submit", "--wait-mode", "que", "--", "true"]),
            said(&["submit", "--gpus", "many", "--", "true"]),
            said(&["submit", "--gpus=-1", "--", "true"]),
            said(&["submit", "--name"]),
            said(&["run", "python", "train.py"]),
            said(&["show", "4", "5"]),
            said(&["priority", "4"]),
            said(&["up", "--gpu-budget", "4G"]),
            said(&["up", "--policy", "fifo:"]),
            said(&["sim"]),
            said(&["plan"]),
            said(&["bell\u{7}"]),
        ].concat(), @r"
        error: no such option '--gpu-memry'; did you mean '--gpu-memory'?
        error: no such option '--frob'; `warpyard ps --help` lists them
        error: --wait-mode: 'que' is not one of schedule, queue; did you mean 'queue'?
        error: --gpus: 'many' is not a whole number
        error: --gpus: '-1' is not 0 or more
        error: --name needs a value
        error: unexpected 'train.py'; a command goes after --: warpyard run -- python train.py
        error: unexpected '5'; `warpyard show --help` says what there is
        error: <N> is missing; `warpyard priority --help` says more
        error: --gpu-budget: '4G' is not understood: 'G' could mean powers of 1000 or of 1024
        error: --policy: 'fifo:' is not understood: '' is not a parameter; write key=value
        error: --cluster <LINE|FILE> and --trace <FILE> (or --generate <JOBS>) are missing; `warpyard sim --help` says more
        error: <WORKFLOW> (or --generate <NxM>) is missing; `warpyard plan --help` says more
        error: no such command 'bell\u{7}'; `warpyard --help` lists them
        ");
    }
}
