//! The origin of a job, a file or the command line, and the presentation of its problems in those terms.

use super::options::{JobOptions, TaskOptions, option_of};
use crate::usage_error::UsageError;
use serde_json::{Map, Value, json};
use std::io::{self, Read};
use std::path::Path;
use warpyard_api::client::ClientError;
use warpyard_api::job::{Format, JobDoc, ReadOptions, read as read_text, read_value};
use warpyard_api::problem::{Problem, code, render, render_bare};

/// The origin of a job.
#[derive(Debug)]
pub(crate) enum Origin {
    /// In a file.
    File {
        /// Its name.
        name: String,
        /// All of it.
        text: String,
    },
    /// On the command line.
    Options,
}

/// The job that was written, checked as far as it can be here.
pub(super) fn read(
    verb: &'static str,
    file: Option<String>,
    command: Vec<String>,
    job: &JobOptions,
    task: &TaskOptions,
) -> Result<(Origin, JobDoc), UsageError> {
    let mut fields = task.fields();
    match (file, command.is_empty()) {
        (None, true) => Err(UsageError::NothingToSubmit),
        (Some(file), false) => Err(UsageError::FileAndCommand(file)),
        (None, false) => {
            fields.extend(job.fields());
            of_options(fields, command)
        }
        (Some(file), true) => match fields.keys().next() {
            Some(field) => Err(UsageError::TaskOptionsWithFile(option_of(field))),
            None => {
                let (origin, mut doc) = of_file(verb, file)?;
                job.change(&mut doc);
                Ok((origin, doc))
            }
        },
    }
}

fn of_options(mut fields: Map<String, Value>, command: Vec<String>) -> Result<(Origin, JobDoc), UsageError> {
    fields.insert("command".to_owned(), json!(command));
    match read_value(&Value::Object(fields), ReadOptions::default()) {
        Ok(checked) => Ok((Origin::Options, checked.doc)),
        Err(problems) => Err(Origin::Options.refusal(problems)),
    }
}

fn of_file(verb: &'static str, file: String) -> Result<(Origin, JobDoc), UsageError> {
    let (name, text) = match file.as_str() {
        "-" => ("standard input".to_owned(), io::read_to_string(io::stdin().lock())),
        path => (file.clone(), read_bounded(path)),
    };
    let text = text.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if is_document(&file) => UsageError::NoSuchDocument(file.clone()),
        io::ErrorKind::NotFound => {
            let command = command_for(&file, "").unwrap_or_else(|| file.clone());
            UsageError::NoSuchFile { file: file.clone(), verb, command }
        }
        _ => UsageError::UnreadableFile { file: name.clone(), source },
    })?;
    if let Some(command) = command_for(&file, &text) {
        return Err(UsageError::ScriptAsFile { file, verb, command });
    }
    let stem = Path::new(&file).file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-");
    let options = ReadOptions { default_name: stem, accept_user: false };
    let format = Format::of(&name, &text);
    let origin = Origin::File { name, text };
    let Origin::File { text, .. } = &origin else { unreachable!("it was just made") };
    match read_text(text, format, options) {
        Ok(checked) => Ok((origin, checked.doc)),
        Err(problems) => Err(origin.refusal(problems)),
    }
}

/// Whether a file's name says that it is a job file, so that nobody meant it as a command.
fn is_document(file: &str) -> bool {
    let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ["toml", "json"].contains(&ending))
}

/// The command that runs a file which is a script by its name or its first line; nothing for any other file.
fn command_for(file: &str, text: &str) -> Option<String> {
    const INTERPRETERS: [(&str, &str); 6] = [
        ("py", "python"),
        ("sh", "bash"),
        ("bash", "bash"),
        ("pl", "perl"),
        ("jl", "julia"),
        ("R", "Rscript"),
    ];
    let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
    if let Some((_, program)) = INTERPRETERS.iter().find(|(known, _)| Some(*known) == ending) {
        return Some(format!("{program} {file}"));
    }
    let path = if file.contains('/') { file.to_owned() } else { format!("./{file}") };
    (file != "-" && text.starts_with("#!")).then_some(path)
}

/// No more than a little over the largest document, so that a wrong file is not read for minutes.
fn read_bounded(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let most = warpyard_api::job::MAX_DOCUMENT_BYTES as u64 + 1;
    std::fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    Ok(text)
}

impl Origin {
    /// The problems as a refusal.
    pub(crate) fn refusal(&self, problems: Vec<Problem>) -> UsageError {
        let text = self.render(problems.clone());
        // The word is put before every error when it is printed.
        let text = text.trim_end().strip_prefix("error: ").unwrap_or(&text).to_owned();
        UsageError::Document { text, problems }
    }

    /// A refusal by the server, with the line or option it is about.
    pub(crate) fn locate(&self, error: ClientError) -> anyhow::Error {
        match error {
            ClientError::Refused(body) if body.status < 500 && !body.problems.is_empty() => {
                self.refusal(body.problems).into()
            }
            error => error.into(),
        }
    }

    /// The problems as a person reads them: with the lines of the file, or the options, that they are about.
    pub(crate) fn render(&self, mut problems: Vec<Problem>) -> String {
        match self {
            Self::File { name, text } => render(&problems, name, text),
            Self::Options => {
                problems.iter_mut().for_each(in_options);
                render_bare(&problems)
            }
        }
    }
}

/// Names the option in place of the field.
fn in_options(problem: &mut Problem) {
    let path = problem.path.strip_prefix("tasks[0].").unwrap_or(&problem.path);
    let field = path.split(['[', '.']).next().unwrap_or_default();
    if !field.is_empty() && field != "tasks" {
        problem.path = option_of(field);
    }
    match &*problem.code {
        code::GPUS_NOT_ASKED => problem.help = Some("add --gpus 1".to_owned()),
        code::NO_MODEL => problem.help = Some("add --model FILE".to_owned()),
        code::NOT_TRAINED => problem.help = Some("add --mode train".to_owned()),
        code::NO_TERMINAL => problem.help = Some("add --pty".to_owned()),
        code::ONE_STREAM => problem.help = Some("use --stdout, which gets errors too".to_owned()),
        _ => {}
    }
}
