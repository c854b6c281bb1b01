//! `logs`: what tasks printed.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::follow;
use crate::usage_error::UsageError;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use serde_json::json;
use std::io::{self, Write};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{JobView, LogFilter, LogStream, TaskView};

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Job or task: 412, 412.train[3], last; with several tasks, each line names its task
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs), default_value = "last")]
    job: String,
    /// Follow the log until the task ends; several tasks are followed one after another
    #[arg(long, short)]
    follow: bool,
    /// Only the last N lines of each log
    #[arg(long, short = 'n', visible_alias = "lines", value_name = "N")]
    tail: Option<usize>,
    /// Which attempt [default: the latest]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only standard output, or only standard error
    #[arg(long, value_enum, default_value_t = Stream::Both)]
    stream: Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stream {
    Both,
    Stdout,
    Stderr,
}

/// Bytes of a log requested at first to find its last lines, and at most at once.
const PART: u64 = 64 << 10;
const MOST_AT_ONCE: u64 = 4 << 20;

impl Logs {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let job = client.job(&self.job, false, None)?;
        let mut out = io::stdout().lock();
        if job.counts.total() > 1 {
            let mut found = false;
            for (task, label) in labelled(self.tasks(&client)?) {
                // What has not begun has printed nothing; it is waited for only where it is followed.
                let tries = attempts_of(&task);
                if !self.follow && self.attempt.unwrap_or(1) > tries {
                    continue;
                }
                found = true;
                let filter = LogFilter { task: Some(task.name.clone()), index: task.index, ..self.filter() };
                let mut lines = LinePrinter::new(&mut out, LineFormat::of(context.global.json, Some(label)));
                self.copy(&client, &job.job, &filter, tries, &mut lines)?;
                lines.end()?;
            }
            return match self.attempt {
                Some(attempt) if !found => Err(UsageError::NoSuchAttempt { job: job.job, attempt }.into()),
                _ => Ok(Exit::Fine),
            };
        }
        // `last` may mean another job by the time that this one has ended.
        let ask = if self.job == "last" { &job.job } else { &self.job };
        let tries = job.tasks.first().map_or(0, attempts_of);
        match LineFormat::of(context.global.json, None) {
            LineFormat::Plain => self.copy(&client, ask, &self.filter(), tries, &mut out)?,
            form => {
                let mut lines = LinePrinter::new(&mut out, form);
                self.copy(&client, ask, &self.filter(), tries, &mut lines)?;
                lines.end()?;
            }
        }
        Ok(Exit::Fine)
    }

    fn filter(&self) -> LogFilter {
        let stream = match self.stream {
            Stream::Both => LogStream::Both,
            Stream::Stdout => LogStream::Stdout,
            Stream::Stderr => LogStream::Stderr,
        };
        LogFilter { attempt: self.attempt, stream, follow: self.follow, ..LogFilter::default() }
    }

    /// Every task that is selected, arrays unfolded.
    fn tasks(&self, client: &Client) -> Result<Vec<TaskView>, ClientError> {
        let (mut tasks, mut cursor) = (Vec::new(), None);
        loop {
            let JobView { tasks: more, next, .. } = client.job(&self.job, true, cursor.as_deref())?;
            tasks.extend(more);
            match next {
                None => return Ok(tasks),
                next => cursor = next,
            }
        }
    }

    /// Copies one task's log, or the end of it, and goes on where it is followed. `tries` says how often it was begun.
    fn copy(
        &self,
        client: &Client,
        ask: &str,
        filter: &LogFilter,
        tries: u32,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let mut filter = filter.clone();
        let mut seen = 0;
        if let Some(lines) = self.tail {
            // What is followed from there must be the same attempt, though another may begin meanwhile.
            let attempt = self.attempt.or((tries > 0).then_some(tries));
            let once = LogFilter { follow: false, attempt, ..filter.clone() };
            let (end, size) = last_lines(client, ask, &once, lines)?;
            out.write_all(&end)?;
            out.flush()?;
            if !self.follow {
                return Ok(());
            }
            seen = size;
        }
        if self.follow && self.attempt.is_none() {
            follow::follow_task_from(client, ask, &filter, (tries.max(1), seen), out)?;
        } else {
            filter.from = (seen > 0).then_some(seen);
            follow::copy_log(client.logs(ask, &filter)?, 0, out)?;
        }
        Ok(())
    }
}

/// The number of a task's latest attempt; 0 where it has had none.
fn attempts_of(task: &TaskView) -> u32 {
    task.attempts.as_ref().and_then(|attempts| attempts.last()).map_or(0, |attempt| attempt.number)
}

/// Tasks with the names their lines begin with: all that tells them apart.
fn labelled(tasks: Vec<TaskView>) -> Vec<(TaskView, String)> {
    let one_name = tasks.iter().all(|task| task.name == tasks[0].name);
    let name = |task: &TaskView| match (task.index, one_name) {
        (Some(index), true) => format!("[{index}]"),
        (Some(index), false) => format!("{}[{index}]", task.name),
        (None, _) => task.name.clone(),
    };
    let names: Vec<_> = tasks.iter().map(name).collect();
    tasks.into_iter().zip(names).collect()
}

/// The last lines of a log, and how long it was then: read backwards, as much as it takes.
fn last_lines(
    client: &Client,
    ask: &str,
    filter: &LogFilter,
    lines: usize,
) -> Result<(Vec<u8>, u64), ClientError> {
    let Some(part) = client.log_part(ask, filter, &format!("bytes=-{PART}"))? else {
        return Ok((Vec::new(), 0));
    };
    let (mut text, mut from, size) = (part.bytes, part.from, part.size);
    let mut more = PART;
    while from > 0 && start_of_last(&text, lines).is_none() {
        more = (more * 2).min(MOST_AT_ONCE);
        let range = format!("bytes={}-{}", from.saturating_sub(more), from - 1);
        let Some(part) = client.log_part(ask, filter, &range)? else { break };
        from = part.from;
        text = [part.bytes, text].concat();
    }
    let start = start_of_last(&text, lines).unwrap_or(0);
    Ok((text.split_off(start), size))
}

/// The offset at which the last `lines` lines begin; none if no line before them is in the text. An unterminated line counts.
fn start_of_last(text: &[u8], lines: usize) -> Option<usize> {
    if lines == 0 {
        return Some(text.len());
    }
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    ends.nth(lines - 1).map(|(at, _)| at + 1)
}

/// Format of printed lines.
enum LineFormat {
    Plain,
    /// After the name of its task.
    After(String),
    /// As a JSON object, with the name of its task where there are several.
    Json(Option<String>),
}

impl LineFormat {
    fn of(json: bool, label: Option<String>) -> Self {
        match (json, label) {
            (true, label) => Self::Json(label),
            (false, Some(label)) => Self::After(label),
            (false, None) => Self::Plain,
        }
    }
}

/// A writer that prints each line of a log in a format.
struct LinePrinter<'a, W: Write> {
    out: &'a mut W,
    form: LineFormat,
    /// A line whose end has not come.
    begun: Vec<u8>,
}

impl<'a, W: Write> LinePrinter<'a, W> {
    fn new(out: &'a mut W, form: LineFormat) -> Self {
        Self { out, form, begun: Vec::new() }
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let text = || String::from_utf8_lossy(line);
        match &self.form {
            LineFormat::Plain => self.out.write_all(line)?,
            LineFormat::After(label) => {
                write!(self.out, "{}  ", escape_controls(label))?;
                self.out.write_all(line)?;
            }
            LineFormat::Json(None) => write!(self.out, "{}", json!({ "line": text() }))?,
            LineFormat::Json(Some(task)) => write!(self.out, "{}", json!({ "task": task, "line": text() }))?,
        }
        self.out.write_all(b"\n")
    }

    /// Prints what has no end of its own.
    fn end(mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() { Ok(()) } else { self.line(&begun).and_then(|()| self.out.flush()) }
    }
}

impl<W: Write> Write for LinePrinter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(rest) => {
                    let line = [std::mem::take(&mut self.begun).as_slice(), rest].concat();
                    self.line(&line)?;
                }
                None => self.begun.extend_from_slice(part),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(form: LineFormat, parts: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut lines = LinePrinter::new(&mut out, form);
        parts.iter().for_each(|part| lines.write_all(part).unwrap());
        lines.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_line_is_an_object() {
        let text = printed(LineFormat::Json(None), &[b"one\n\xff \x1b[1m\nla", b"st"]);
        assert_eq!(text, "{\"line\":\"one\"}\n{\"line\":\"\u{fffd} \\u001b[1m\"}\n{\"line\":\"last\"}\n");
        let text = printed(LineFormat::Json(Some("[3]".into())), &[b"one\n"]);
        assert_eq!(text, "{\"line\":\"one\",\"task\":\"[3]\"}\n");
    }

    #[test]
    fn each_line_says_whose_it_is() {
        assert_eq!(
            printed(LineFormat::After("[3]".into()), &[b"a\nb", b"c\n", b"d"]),
            "[3]  a\n[3]  bc\n[3]  d\n"
        );
    }

    #[test]
    fn the_last_lines_begin_after_the_one_before_them() {
        let of = |text: &str, lines| start_of_last(text.as_bytes(), lines).map(|at| text[at..].to_owned());
        assert_eq!(of("a\nb\nc\n", 1).as_deref(), Some("c\n"));
        assert_eq!(of("a\nb\nc", 2).as_deref(), Some("b\nc"));
        assert_eq!(of("a\nb\nc\n", 0).as_deref(), Some(""));
        assert_eq!(of("a\nb\n", 2), None, "what is before them is not to be seen");
        assert_eq!(of("", 3), None);
    }
}
