//! `logs`: what a task printed.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::follow;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use std::io::{self, BufRead, BufReader, Write};
use warpyard_api::wire::{LogFilter, LogStream};

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The job, or one of its tasks: 412, 412.train[3], last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs), default_value = "last")]
    job: String,
    /// Go on until the task ends
    #[arg(long, short)]
    follow: bool,
    /// Which try [default: the last]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only what it printed, or only the errors
    #[arg(long, value_enum, default_value_t = Stream::Both)]
    stream: Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stream {
    Both,
    Stdout,
    Stderr,
}

impl Logs {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let stream = match self.stream {
            Stream::Both => LogStream::Both,
            Stream::Stdout => LogStream::Stdout,
            Stream::Stderr => LogStream::Stderr,
        };
        let filter = LogFilter { attempt: self.attempt, stream, follow: self.follow, ..LogFilter::default() };
        let client = context.client()?;
        let mut out = io::stdout().lock();
        if context.global.json {
            print_lines(BufReader::new(client.logs(&self.job, &filter)?), &mut out)?;
        } else if self.follow && self.attempt.is_none() {
            let latest = follow::latest_attempt(&client.job(&self.job, false, None)?);
            follow::follow_task(&client, &self.job, &filter, latest, &mut out)?;
        } else {
            follow::copy_log(client.logs(&self.job, &filter)?, 0, &mut out)?;
        }
        Ok(Exit::Fine)
    }
}

/// Each line as an object of its own, for programs that follow.
fn print_lines(mut log: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while log.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
        writeln!(out, "{}", serde_json::json!({ "line": text }))?;
        out.flush()?;
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_an_object() {
        let mut out = Vec::new();
        print_lines(b"one\n\xff \x1b[1m\nlast".as_slice(), &mut out).unwrap();
        let expected = "{\"line\":\"one\"}\n{\"line\":\"\u{fffd} \\u001b[1m\"}\n{\"line\":\"last\"}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
