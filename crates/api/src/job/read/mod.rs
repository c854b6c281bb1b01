//! The parser of job documents, which reports all problems at once.

mod problems;
mod values;

use super::source::{self, Entry, FieldPath, Lines, Node, Value};
use super::{
    EstimateDoc, Format, JobDoc, MAX_DOCUMENT_BYTES, MAX_TASK_ENTRIES, ModelMode, OnLost, TaskDoc, WaitMode,
    check,
};
use crate::problem::{Problem, code};
use crate::quantity::{ByteSize, Micros};
use crate::text::{closest_match, name_fault};
use problems::Problems;
use values::{ARRAY, CPUS, DURATION, SIZE, task_name_fault};

const JOB_FIELDS: [&str; 9] =
    ["name", "priority", "user", "project", "weight", "deadline", "snapshot", "after", "tasks"];
const TASK_FIELDS: [&str; 36] = [
    "name",
    "command",
    "env",
    "workdir",
    "after",
    "array",
    "gpus",
    "gpu_memory",
    "model",
    "batch_size",
    "mode",
    "optimizer",
    "estimate",
    "gpu_type",
    "gpu_scope",
    "gpu_preferred",
    "wait_mode",
    "on",
    "cpus",
    "memory",
    "timeout",
    "grace",
    "expected",
    "retries",
    "retry_on_timeout",
    "on_lost",
    "preempt",
    "batch_time",
    "item_time",
    "resume_time",
    "profile",
    "steps",
    "pty",
    "idle",
    "stdout",
    "stderr",
];

const COMMAND_HELP: &str = "add command = [\"program\", \"argument\"]";

/// Context of a document.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// Name of the job if the document gives none, such as its file's.
    pub default_name: Option<&'a str>,
    /// Whether the document may name the user of the job.
    pub accept_user: bool,
}

/// A valid document and its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedJob {
    /// The job.
    pub doc: JobDoc,
    /// Problems that do not invalidate it.
    pub warnings: Vec<Problem>,
}

/// Parses and validates a job document, or reports all its problems.
///
/// ```
/// use warpyard_api::job::{Format, ReadOptions, read};
/// let job = read("command = ['python', 'train.py']\ngpus = 1\n", Format::Toml, ReadOptions::default())?;
/// assert_eq!((job.doc.name.as_str(), job.doc.tasks[0].gpus), ("train", 1));
///
/// let problems = read("command = 'true'\ngpu = 1\n", Format::Toml, ReadOptions::default()).unwrap_err();
/// assert_eq!(problems[0].help.as_deref(), Some("did you mean gpus?"));
/// # Ok::<(), Vec<warpyard_api::problem::Problem>>(())
/// ```
pub fn read(text: &str, format: Format, options: ReadOptions<'_>) -> Result<CheckedJob, Vec<Problem>> {
    if text.len() > MAX_DOCUMENT_BYTES {
        let message = format!("the document has {} bytes; at most {MAX_DOCUMENT_BYTES} are read", text.len());
        let help = "an array says many tasks in one line";
        return Err(vec![Problem::new(code::DOCUMENT_TOO_LARGE, "", message).with_help(help)]);
    }
    if text.trim().is_empty() {
        return Err(vec![
            Problem::new(code::MISSING_FIELD, "", "the document is empty").with_help(COMMAND_HELP),
        ]);
    }
    let root = source::parse(text, format)?;
    Reader::new(Some(Lines::new(text)), format == Format::Json, options).finish(&root)
}

/// Validates a document that was already parsed; its problems have no lines.
pub fn read_value(value: &serde_json::Value, options: ReadOptions<'_>) -> Result<CheckedJob, Vec<Problem>> {
    Reader::new(None, true, options).finish(&source::from_json_value(value))
}

/// Validates the estimate of a model on its own, as a program writes it.
pub fn read_estimate(value: &serde_json::Value) -> Result<EstimateDoc, Vec<Problem>> {
    let mut reader = Reader::new(None, true, ReadOptions::default());
    let estimate = reader.estimate(&FieldPath::Root, &source::from_json_value(value));
    reader.problems.into_result()?;
    Ok(estimate.expect("an estimate with nothing wrong was read"))
}

struct Reader<'a> {
    lines: Option<Lines>,
    /// Whether the document is JSON.
    json: bool,
    options: ReadOptions<'a>,
    problems: Problems,
}

impl<'a> Reader<'a> {
    fn new(lines: Option<Lines>, json: bool, options: ReadOptions<'a>) -> Self {
        Self { lines, json, options, problems: Problems::default() }
    }

    fn finish(mut self, root: &Node) -> Result<CheckedJob, Vec<Problem>> {
        let doc = self.job(root);
        // What lies between fields is only worth checking once the fields are what they should be.
        if let (Some(doc), true) = (&doc, self.problems.errors.is_empty()) {
            let shorthand = matches!(&root.value, Value::Table(entries) if field(entries, "tasks").is_none());
            for mut problem in check::check(doc, shorthand) {
                let lines = self.lines.as_ref();
                problem.line = lines.and_then(|l| Some(l.number(source::offset_of(root, &problem.path)?)));
                self.problems.push(problem);
            }
        }
        let warnings = self.problems.into_result()?;
        Ok(CheckedJob { doc: doc.expect("a document with nothing wrong was read"), warnings })
    }

    fn wrong(
        &mut self,
        at: &FieldPath<'_>,
        start: usize,
        problem: (&'static str, String),
        help: Option<String>,
    ) {
        if self.problems.is_full() {
            self.problems.untold += 1;
            return;
        }
        let mut problem = Problem::new(problem.0, at.to_string(), problem.1);
        problem.line = self.lines.as_ref().map(|lines| lines.number(start));
        self.problems.push(match help {
            Some(help) => problem.with_help(help),
            None => problem,
        });
    }

    fn wrong_type(&mut self, at: &FieldPath<'_>, node: &Node, expected: &str) {
        let message = format!("expected {expected}, found {}", node.value.kind());
        self.wrong(at, node.start, (code::WRONG_TYPE, message), None);
    }

    /// The entries of a table, each key once. Null counts as absent.
    fn table<'n>(&mut self, at: &FieldPath<'_>, node: &'n Node, expected: &str) -> Option<Vec<&'n Entry>> {
        let Value::Table(entries) = &node.value else {
            self.wrong_type(at, node, expected);
            return None;
        };
        let mut seen = std::collections::BTreeSet::new();
        let mut once = Vec::with_capacity(entries.len());
        for entry in entries {
            if !seen.insert(entry.key.as_str()) {
                let message = (code::DUPLICATE_FIELD, "is given twice".to_owned());
                self.wrong(&FieldPath::Field(at, &entry.key), entry.key_start, message, None);
            } else if !matches!(entry.node.value, Value::Null) {
                once.push(entry);
            }
        }
        Some(once)
    }

    /// The closest known word, unless no more problems are reported.
    fn closest(&self, wrong: &str, known: &[&'static str]) -> Option<&'static str> {
        if self.problems.is_full() { None } else { closest_match(wrong, known.iter().copied()) }
    }

    fn unknown(&mut self, at: &FieldPath<'_>, entry: &Entry, owner: &str, known: &[&'static str]) {
        let help = match self.closest(&entry.key, known) {
            Some(word) => format!("did you mean {word}?"),
            None => format!("{owner} has: {}", known.join(", ")),
        };
        self.wrong(at, entry.key_start, (code::UNKNOWN_FIELD, "no such field".to_owned()), Some(help));
    }

    fn job(&mut self, root: &Node) -> Option<JobDoc> {
        let entries = self.table(&FieldPath::Root, root, "a table of a job's fields")?;
        let many = entries.iter().any(|entry| entry.key == "tasks");
        let mut job = JobDoc::default();
        let mut only = TaskDoc::default();
        for entry in &entries {
            let (at, node) = (FieldPath::Field(&FieldPath::Root, &entry.key), &entry.node);
            match entry.key.as_str() {
                "name" => set(&mut job.name, self.name(&at, node)),
                "priority" => set(&mut job.priority, self.whole(&at, node)),
                "user" => job.user = self.user(&at, entry),
                "project" => job.project = self.name(&at, node),
                "weight" => job.weight = self.weight(&at, node),
                "deadline" => {
                    job.deadline = self.more_than_zero(&at, node, DURATION, |length: &Micros| length.0);
                }
                "snapshot" => set(&mut job.snapshot, self.truth(&at, node)),
                "after" => job.after = self.one_or_many(&at, node, Self::job_after),
                "tasks" => job.tasks = self.tasks(&at, node),
                key if many && TASK_FIELDS.contains(&key) => {
                    let message = (code::MISPLACED_FIELD, "belongs to a task, not to the job".to_owned());
                    self.wrong(
                        &at,
                        entry.key_start,
                        message,
                        Some("move it into one of the tasks".to_owned()),
                    );
                }
                _ if !many && self.task_field(&mut only, &at, entry) => {}
                _ if many => self.unknown(&at, entry, "a job", &JOB_FIELDS),
                _ => {
                    let known: Vec<_> = JOB_FIELDS
                        .into_iter()
                        .chain(TASK_FIELDS.into_iter().filter(|f| !JOB_FIELDS.contains(f)))
                        .collect();
                    self.unknown(&at, entry, "a job", &known);
                }
            }
        }
        if !many {
            self.one_task(&entries, only, &mut job);
        }
        self.default_names(&mut job);
        Some(job)
    }

    /// Completes a document without `tasks`: a job of one task.
    fn one_task(&mut self, entries: &[&Entry], only: TaskDoc, job: &mut JobDoc) {
        let has_command = entries.iter().any(|entry| entry.key == "command");
        // A misspelt `tasks` or `command` was told already.
        if !has_command && self.problems.errors.is_empty() {
            let message = (code::MISSING_FIELD, "a job needs tasks, or a command of its own".to_owned());
            self.wrong(
                &FieldPath::Field(&FieldPath::Root, "tasks"),
                0,
                message,
                Some(COMMAND_HELP.to_owned()),
            );
        }
        job.tasks = vec![only];
    }

    /// Gives default names: to the job that of its file, only task or script, to an only task that of the job.
    fn default_names(&mut self, job: &mut JobDoc) {
        if job.name.is_empty() {
            let only = (job.tasks.len() == 1).then(|| &job.tasks[0]);
            let script = only.and_then(|task| task.command.script_name());
            let candidates =
                [self.options.default_name, only.map(|task| task.name.as_str()), script.as_deref()];
            let fit = candidates.into_iter().flatten().find(|name| name_fault(name).is_none());
            job.name = fit.unwrap_or("job").to_owned();
        }
        if let [only] = job.tasks.as_mut_slice()
            && only.name.is_empty()
        {
            let fits = task_name_fault(&job.name).is_none();
            only.name = if fits { job.name.clone() } else { "main".to_owned() };
        }
    }

    fn user(&mut self, at: &FieldPath<'_>, entry: &Entry) -> Option<String> {
        if !self.options.accept_user {
            let message = (code::USER_NOT_ACCEPTED, "the user is taken from the login".to_owned());
            self.wrong(at, entry.key_start, message, Some("leave it out".to_owned()));
            return None;
        }
        self.name(at, &entry.node)
    }

    fn tasks(&mut self, at: &FieldPath<'_>, node: &Node) -> Vec<TaskDoc> {
        let Value::Array(items) = &node.value else {
            self.wrong_type(at, node, "a list of tasks");
            return Vec::new();
        };
        if items.is_empty() {
            self.wrong(at, node.start, (code::NO_TASKS, "the list is empty".to_owned()), None);
        }
        if items.len() > MAX_TASK_ENTRIES {
            let message =
                format!("{} entries are more than a job may have ({MAX_TASK_ENTRIES})", items.len());
            let help = "an array says many tasks in one entry".to_owned();
            self.wrong(at, node.start, (code::TOO_MANY_TASKS, message), Some(help));
            return Vec::new();
        }
        let alone = items.len() == 1;
        items.iter().enumerate().map(|(i, item)| self.task(&FieldPath::Item(at, i), item, alone)).collect()
    }

    fn task(&mut self, at: &FieldPath<'_>, node: &Node, alone: bool) -> TaskDoc {
        let mut task = TaskDoc::default();
        let Some(entries) = self.table(at, node, "a table of a task's fields") else { return task };
        for entry in &entries {
            let at = FieldPath::Field(at, &entry.key);
            match entry.key.as_str() {
                "name" => set(&mut task.name, self.task_name(&at, &entry.node)),
                "after" => task.after = self.one_or_many(&at, &entry.node, Self::task_after),
                "priority" | "user" | "project" | "weight" | "deadline" | "snapshot" => {
                    let message = (code::MISPLACED_FIELD, "belongs to the job, not to a task".to_owned());
                    self.wrong(&at, entry.key_start, message, Some("move it above the tasks".to_owned()));
                }
                _ if self.task_field(&mut task, &at, entry) => {}
                _ => self.unknown(&at, entry, "a task", &TASK_FIELDS),
            }
        }
        let has = |key: &str| entries.iter().any(|entry| entry.key == key);
        let looks_like =
            |key: &str| entries.iter().any(|entry| closest_match(&entry.key, TASK_FIELDS) == Some(key));
        for (key, needed) in [("name", !alone), ("command", true)] {
            if needed && !has(key) && !looks_like(key) {
                let message = (code::MISSING_FIELD, format!("a task needs a {key}"));
                self.wrong(&FieldPath::Field(at, key), node.start, message, None);
            }
        }
        task
    }

    /// Reads a field that tasks and one-task jobs share; false if there is no such field.
    fn task_field(&mut self, task: &mut TaskDoc, at: &FieldPath<'_>, entry: &Entry) -> bool {
        let node = &entry.node;
        match entry.key.as_str() {
            "command" => set(&mut task.command, self.command(at, node)),
            "env" => set(&mut task.env, self.env(at, node)),
            "workdir" => task.workdir = self.path(at, node),
            "array" => task.array = self.quantity(at, node, ARRAY),
            "gpus" => set(&mut task.gpus, self.whole(at, node)),
            "gpu_memory" => task.gpu_memory = self.more_than_zero(at, node, SIZE, |size: &ByteSize| size.0),
            "model" => task.model = self.path(at, node),
            "batch_size" => task.batch_size = self.positive(at, node),
            "mode" => {
                let words = [("infer", ModelMode::Infer), ("train", ModelMode::Train)];
                task.mode = self.word(at, node, &words);
            }
            "optimizer" => task.optimizer = self.name(at, node),
            "estimate" => task.estimate = self.estimate(at, node),
            "gpu_type" => task.gpu_type = self.one_or_many(at, node, Self::name),
            "gpu_scope" => task.gpu_scope = self.one_or_many(at, node, Self::device),
            "gpu_preferred" => task.gpu_preferred = self.one_or_many(at, node, Self::device),
            "wait_mode" => {
                let words = [("schedule", WaitMode::Schedule), ("queue", WaitMode::Queue)];
                set(&mut task.wait_mode, self.word(at, node, &words));
            }
            "on" => task.on = self.one_or_many(at, node, Self::name),
            "cpus" => task.cpus = self.quantity(at, node, CPUS),
            "memory" => task.memory = self.more_than_zero(at, node, SIZE, |size: &ByteSize| size.0),
            "timeout" => task.timeout = self.more_than_zero(at, node, DURATION, |length: &Micros| length.0),
            "grace" => task.grace = self.quantity(at, node, DURATION),
            "expected" => task.expected = self.more_than_zero(at, node, DURATION, |length: &Micros| length.0),
            "retries" => set(&mut task.retries, self.whole(at, node)),
            "retry_on_timeout" => set(&mut task.retry_on_timeout, self.truth(at, node)),
            "on_lost" => {
                set(
                    &mut task.on_lost,
                    self.word(at, node, &[("rerun", OnLost::Rerun), ("hold", OnLost::Hold)]),
                );
            }
            "preempt" => set(&mut task.preempt, self.preempt(at, node)),
            "batch_time" => task.batch_time = self.more_than_zero(at, node, DURATION, |t: &Micros| t.0),
            "item_time" => task.item_time = self.more_than_zero(at, node, DURATION, |t: &Micros| t.0),
            "resume_time" => task.resume_time = self.quantity(at, node, DURATION),
            "profile" => task.profile = self.name(at, node),
            "steps" => task.steps = self.positive(at, node),
            "pty" => set(&mut task.pty, self.truth(at, node)),
            "idle" => task.idle = self.more_than_zero(at, node, DURATION, |length: &Micros| length.0),
            "stdout" => task.stdout = self.path(at, node),
            "stderr" => task.stderr = self.path(at, node),
            _ => return false,
        }
        true
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn field<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Entry> {
    entries.iter().find(|entry| entry.key == key && !matches!(entry.node.value, Value::Null))
}
