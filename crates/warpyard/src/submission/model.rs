//! Estimates of the models a job names. They are made here, by the process of the user who submits and with that user's rights: the
//! server is sent numbers and never opens the file.

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::Path;
use warpyard_api::job::{EstimateDoc, JobDoc, ModelMode, TaskDoc};
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::ByteSize;
use warpyard_estimate::{Gpu, Mode, Optimizer, Request, Shapes, estimate, read};

/// Estimates every model that a document names without an estimate of its own. `workdir` is the directory of tasks that set none.
pub(super) fn estimate_models(doc: &mut JobDoc, workdir: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, task) in doc.tasks.iter_mut().enumerate() {
        if task.model.is_none() || task.estimate.is_some() {
            continue;
        }
        match estimate_model(task, workdir) {
            Ok(found) => task.estimate = Some(found),
            Err((field, message, help)) => {
                let problem = Problem::new(code::BAD_MODEL, format!("tasks[{i}].{field}"), message);
                problems.push(problem.with_help(help));
            }
        }
    }
    problems
}

/// A field of the task, what is wrong with it, and what to do.
type ModelFault = (&'static str, String, String);

fn estimate_model(task: &TaskDoc, workdir: &Path) -> Result<EstimateDoc, ModelFault> {
    const WITHOUT: &str = "or leave the model out and say gpu_memory";
    let name = task.model.as_deref().unwrap_or_default();
    // As the task would find it.
    let dir = task.workdir.as_ref().map_or(workdir.to_owned(), |own| workdir.join(own));
    let path = dir.join(name);
    let wrong = |message: String, help: String| ("model", message, help);
    let mut file = open(&path).map_err(|error| {
        wrong(format!("{} cannot be read: {error}", path.display()), format!("correct the path, {WITHOUT}"))
    })?;
    let optimizer = match task.optimizer.as_deref().map(str::parse::<Optimizer>) {
        None => Optimizer::Adam,
        Some(Ok(optimizer)) => optimizer,
        Some(Err(error)) => {
            let name = task.optimizer.as_deref().unwrap_or_default();
            let help = "leave it out for adam, whose state is the largest of them";
            return Err(("optimizer", format!("'{name}' {error}"), help.to_owned()));
        }
    };
    let mode = match task.mode.unwrap_or_default() {
        ModelMode::Infer => Mode::Infer,
        ModelMode::Train => Mode::Train,
    };
    let shapes = Shapes { batch: task.batch_size, inputs: vec![] };
    let model = read(&mut file, &shapes).map_err(|error| {
        let help = format!(
            "`warpyard estimate {name}` says what can be read; correct the file or batch_size, {WITHOUT}"
        );
        wrong(format!("{}: {}", path.display(), with_causes(&error)), help)
    })?;
    let request = Request { gpu: only_gpu(&task.gpu_type), ..Request::new(mode, optimizer) };
    let found = estimate(&model, &request);
    let peak = found.peak(mode).ok_or_else(|| {
        let message = format!("{} has no graph, so training it cannot be estimated", path.display());
        wrong(message, format!("export the model with torch.export, {WITHOUT}"))
    })?;
    Ok(EstimateDoc {
        peak: ByteSize(peak),
        context: Some(ByteSize(found.context_bytes)),
        graph: Some(found.graph),
        seconds: found.seconds_by_gpu.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect(),
    })
}

/// Opens a plain file; anything else, such as a pipe, could block for ever.
fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    File::open(path)
}

/// The type of GPU a task runs on, if it accepts a single one that is known.
fn only_gpu(types: &[String]) -> Option<&'static Gpu> {
    match types {
        [only] => only.parse().ok(),
        _ => None,
    }
}

fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
