//! Options of a job, of its task and of its environment, and the document they make.

use super::CallerEnvironment;
use crate::usage_error::UsageError;
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use warpyard_api::job::JobDoc;
use warpyard_api::quantity::Micros;

/// Options of a job, which also apply to a job file.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobOptions {
    /// Name of the job [default: the file's or script's: `train` for python train.py]
    #[arg(long)]
    name: Option<String>,
    /// Priority; a larger number is more urgent [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Project the job belongs to, for filters, limits and history
    #[arg(long)]
    project: Option<String>,
    /// Weight in fair sharing: twice the weight, twice the share [default: 1]
    #[arg(long, value_name = "W")]
    weight: Option<f64>,
    /// Deadline after submission, such as 6h; missing it is reported, nothing is killed
    #[arg(long, value_name = "TIME")]
    deadline: Option<Micros>,
    /// Run in a copy of the working directory as it is now; .gitignore and .warpyardignore exclude files
    #[arg(long)]
    snapshot: bool,
    /// Start after these jobs end: 412, 412,413 or 412:fail (ok, fail or any) [default: ok]
    #[arg(long, value_name = "J[,K][:ON]")]
    pub(super) after: Vec<String>,
}

impl JobOptions {
    /// The fields of a job that were given, as a document says them.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let given = [
            ("name", self.name.as_ref().map(|name| json!(name))),
            ("priority", self.priority.map(|priority| json!(priority))),
            ("project", self.project.as_ref().map(|project| json!(project))),
            ("weight", self.weight.map(|weight| json!(weight))),
            ("deadline", self.deadline.map(|deadline| json!(deadline.to_string()))),
            ("snapshot", self.snapshot.then_some(json!(true))),
        ];
        given.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
    }

    /// Makes the document of a file say what the options do.
    pub(super) fn change(&self, doc: &mut JobDoc) {
        if let Some(name) = &self.name {
            doc.name.clone_from(name);
        }
        if let Some(priority) = self.priority {
            doc.priority = priority;
        }
        if let Some(project) = &self.project {
            doc.project = Some(project.clone());
        }
        doc.weight = self.weight.or(doc.weight);
        doc.deadline = self.deadline.or(doc.deadline);
        doc.snapshot |= self.snapshot;
    }
}

/// Options of the task of a command.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Task")]
pub(crate) struct TaskOptions {
    /// Number of GPUs, all on one worker
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Memory on each GPU, such as 6GiB; the rest of the GPU may then be shared [default: the whole GPU]
    #[arg(long, value_name = "SIZE")]
    gpu_memory: Option<String>,
    /// File of the model it runs (.pt2, ONNX, safetensors, GGUF); the memory request is estimated from it
    #[arg(long, value_name = "FILE")]
    model: Option<String>,
    /// Batch size of the model on each GPU, where its file leaves it open
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// What the model is run for [default: infer]
    #[arg(long, value_name = "MODE", value_parser = ["infer", "train"])]
    mode: Option<String>,
    /// The optimiser of training: sgd, momentum, adam, adamw, rmsprop or adagrad [default: adam]
    #[arg(long, value_name = "NAME")]
    optimizer: Option<String>,
    /// Acceptable GPU types, comma separated
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    gpu_type: Vec<String>,
    /// Restrict it to these devices: 0, or gpu1/0
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    gpu_scope: Vec<String>,
    /// Preferred devices
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    prefer: Vec<String>,
    /// Wait for the preferred devices (queue), or take others when they are busy (schedule)
    #[arg(long, value_name = "MODE", value_parser = ["schedule", "queue"])]
    wait_mode: Option<String>,
    /// Workers it may run on, comma separated: names, of which one is chosen, or labels such as rack=a, which all must hold
    #[arg(long, value_name = "WORKER|LABEL", value_delimiter = ',')]
    on: Vec<String>,
    /// CPUs, such as 0.5
    #[arg(long, value_name = "N")]
    cpus: Option<String>,
    /// Main memory, such as 4GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Time limit, such as 1h30m
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Time between SIGTERM and SIGKILL [default: 10s]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Estimated run time, for planning and forecasts
    #[arg(long, value_name = "TIME")]
    expected: Option<String>,
    /// How often to retry after a failure [default: 0]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Also retry after a timeout
    #[arg(long)]
    retry_on_timeout: bool,
    /// What to do when its worker is lost: run it again, or hold it
    #[arg(long, value_name = "WHAT", value_parser = ["rerun", "hold"])]
    on_lost: Option<String>,
    /// How it may be preempted: suspended (freeze), ended and requeued, or asked to yield
    #[arg(long, value_name = "HOW", value_parser = ["none", "freeze", "requeue", "yield"])]
    preempt: Option<String>,
    /// Name under which its throughput on each GPU type is known
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Total number of steps, for progress and throughput
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Run it once for each index: 1-100%8 is a hundred tasks, at most eight at once
    #[arg(long, value_name = "INDICES")]
    array: Option<String>,
    /// Run it in a terminal, which `run` and `attach` connect to
    #[arg(long)]
    pty: bool,
    /// End it when nothing was typed or printed in its terminal for this long, such as 30m
    #[arg(long, value_name = "TIME")]
    idle: Option<String>,
    /// Also write standard output to this file
    #[arg(long, value_name = "FILE")]
    stdout: Option<String>,
    /// Also write standard error to this file
    #[arg(long, value_name = "FILE")]
    stderr: Option<String>,
}

impl TaskOptions {
    /// The fields of a task that were given, as a document says them.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let texts = [
            ("gpu_memory", &self.gpu_memory),
            ("model", &self.model),
            ("mode", &self.mode),
            ("optimizer", &self.optimizer),
            ("wait_mode", &self.wait_mode),
            ("cpus", &self.cpus),
            ("memory", &self.memory),
            ("timeout", &self.timeout),
            ("grace", &self.grace),
            ("expected", &self.expected),
            ("on_lost", &self.on_lost),
            ("preempt", &self.preempt),
            ("profile", &self.profile),
            ("array", &self.array),
            ("idle", &self.idle),
            ("stdout", &self.stdout),
            ("stderr", &self.stderr),
        ];
        let mut fields: Map<String, Value> = texts
            .into_iter()
            .filter_map(|(field, text)| Some((field.to_owned(), json!(text.as_ref()?))))
            .collect();
        let mut give = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(field.to_owned(), value);
            }
        };
        give("pty", self.pty.then_some(json!(true)));
        give("batch_size", self.batch_size.map(|size| json!(size)));
        give("steps", self.steps.map(|steps| json!(steps)));
        give("gpus", self.gpus.map(|gpus| json!(gpus)));
        give("retries", self.retries.map(|retries| json!(retries)));
        give("retry_on_timeout", self.retry_on_timeout.then_some(json!(true)));
        give("gpu_type", some_of(&self.gpu_type, |kind| json!(kind)));
        give("gpu_scope", some_of(&self.gpu_scope, device));
        give("gpu_preferred", some_of(&self.prefer, device));
        give("on", some_of(&self.on, |worker| json!(worker)));
        fields
    }
}

fn some_of(texts: &[String], value: impl Fn(&String) -> Value) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.iter().map(value).collect())
}

/// A number alone is a number in a document too.
fn device(text: &String) -> Value {
    text.parse::<u32>().map_or_else(|_| json!(text), |index| json!(index))
}

/// The option that says a field of the document.
pub(super) fn option_of(field: &str) -> String {
    match field {
        "gpu_preferred" => "--prefer".to_owned(),
        "command" => "the command".to_owned(),
        field => format!("--{}", field.replace('_', "-")),
    }
}

/// Options of the tasks' environment.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Environment")]
pub(crate) struct EnvironmentOptions {
    /// Set a variable, or pass one on from here
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    set: Vec<String>,
    /// Do not pass on the environment of this shell
    #[arg(long)]
    no_env: bool,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,
}

impl EnvironmentOptions {
    /// The environment to send: what is set here unless it is left behind, and what is set for the job.
    pub(super) fn env(&self, caller: &CallerEnvironment) -> Result<BTreeMap<String, String>, UsageError> {
        let mut env = if self.no_env { BTreeMap::new() } else { caller.variables_to_send() };
        for text in &self.set {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    (text.as_str(), caller.variable(text).ok_or_else(|| UsageError::UnsetEnv(text.clone()))?)
                }
            };
            if name.is_empty() {
                return Err(UsageError::BadEnv(text.clone()));
            }
            env.insert(name.to_owned(), value);
        }
        Ok(env)
    }

    /// The directory to run in, as seen from anywhere.
    pub(super) fn workdir(&self, caller: &CallerEnvironment) -> Result<String, UsageError> {
        let dir = match &self.workdir {
            None => caller
                .dir
                .as_ref()
                .map_err(|e| UsageError::NoCurrentDir(std::io::Error::from(e.kind())))?
                .clone(),
            Some(dir) => match &caller.dir {
                Ok(current) => current.join(dir),
                Err(_) => dir.into(),
            },
        };
        dir.into_os_string()
            .into_string()
            .map_err(|dir| UsageError::NoWorkdir(dir.to_string_lossy().into_owned()))
    }
}
