//! Admission of tasks with models: the bound on their GPU memory, computed from the estimate that came with the job and from what was
//! measured before, becomes their memory request. Nothing here opens a model's file, which belongs to the user who submits: their
//! client estimates it and sends numbers. What is decided is written into the job, and from there into the log.

use crate::store::{HistoryError, HistoryStore, ModelRun};
use std::collections::{BTreeMap, BTreeSet};
use warpyard_api::job::{EstimateDoc, ModelMode as ModeWord, TaskDoc};
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::ByteSize;
use warpyard_api::wire::{
    EstimateBasis, EstimateRequest as RequestWord, EstimateSource as SourceWord, EstimateView,
};
use warpyard_core::Cluster;
use warpyard_core::model::{
    BoundBasis, EstimateRequest, EstimateSource, ModelEstimate, ModelMode, ModelSpec,
};
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_estimate::admission::{Basis, Measurements, bound, published_bound};
use warpyard_estimate::conformal::Outcome;
use warpyard_estimate::gpu::ASSUMED_CONTEXT;

/// Share of jobs that a bound is to cover, unless the configuration says otherwise.
pub(crate) const DEFAULT_SHARE: f64 = 0.95;

/// The model of a task as the core keeps it; none where the document is silent about one. Without measurements, the bound has the
/// margin of public ones; [`admit`] revises it.
pub(crate) fn model_spec(task: &TaskDoc) -> Option<Box<ModelSpec>> {
    if task.model.is_none() && task.estimate.is_none() {
        return None;
    }
    let request = match task.gpu_memory {
        Some(_) => EstimateRequest::Explicit,
        None => EstimateRequest::Bound,
    };
    let estimate = task.estimate.as_ref().map(|doc| model_estimate(doc, request));
    Some(Box::new(ModelSpec {
        file: task.model.clone(),
        batch_size: task.batch_size,
        mode: task.mode.map(|mode| match mode {
            ModeWord::Infer => ModelMode::Infer,
            ModeWord::Train => ModelMode::Train,
        }),
        optimizer: task.optimizer.clone(),
        estimate,
    }))
}

fn model_estimate(doc: &EstimateDoc, request: EstimateRequest) -> ModelEstimate {
    let (peak, context) = (doc.peak.0, doc.context.map_or(ASSUMED_CONTEXT, |context| context.0));
    ModelEstimate {
        graph: doc.graph.clone(),
        peak,
        context,
        seconds: doc.seconds.clone(),
        bound: published_bound(peak, context),
        share: DEFAULT_SHARE,
        basis: BoundBasis::Published,
        request,
        source: EstimateSource::Submitter,
        expected: None,
    }
}

/// The estimate of a model as a document has it.
pub(crate) fn estimate_doc(estimate: &ModelEstimate) -> EstimateDoc {
    EstimateDoc {
        peak: ByteSize(estimate.peak),
        context: Some(ByteSize(estimate.context)),
        graph: estimate.graph.clone(),
        seconds: estimate.seconds.clone(),
    }
}

/// The mode of a model as a document has it.
pub(crate) fn mode_word(mode: ModelMode) -> ModeWord {
    match mode {
        ModelMode::Infer => ModeWord::Infer,
        ModelMode::Train => ModeWord::Train,
    }
}

/// A type of device there is, and the largest memory of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeviceType {
    pub(crate) kind: String,
    pub(crate) memory: u64,
}

/// The types of devices of every worker, in order.
pub(crate) fn device_types(cluster: &Cluster) -> Vec<DeviceType> {
    let mut types: Vec<DeviceType> = Vec::new();
    for info in cluster.workers().flat_map(|(_, worker)| &worker.info.devices) {
        match types.iter_mut().find(|known| known.kind.eq_ignore_ascii_case(&info.kind)) {
            Some(known) => known.memory = known.memory.max(info.memory),
            None => types.push(DeviceType { kind: info.kind.clone(), memory: info.memory }),
        }
    }
    types
}

/// Whether any task of a job names a model.
pub(crate) fn has_models(spec: &JobSpec) -> bool {
    spec.tasks.iter().any(|task| task.model.is_some())
}

/// The most models of one user whose measurements count for the bounds of others.
const MODELS_OF_ONE_USER: usize = 50;

/// Measurements that the bounds of a job's models are computed from. Runs of the same model count only for the user whose they were:
/// a digest or profile is only a name that whoever submits sends, and must not lower what another user's job reserves.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelHistory {
    user: String,
    same: Vec<ModelRun>,
    each: Vec<ModelRun>,
}

impl ModelHistory {
    /// Reads the measurements for a user's job.
    pub(crate) fn recall(store: &dyn HistoryStore, user: &str, spec: &JobSpec) -> Result<Self, HistoryError> {
        let keys: BTreeSet<String> = spec.tasks.iter().filter_map(TaskSpec::model_key).collect();
        let mut same = Vec::new();
        for key in &keys {
            same.extend(store.runs_of_model(user, key)?);
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut each = if keys.is_empty() { vec![] } else { store.runs_of_each_model()? };
        each.retain(|run| {
            let count = counts.entry(run.user.clone()).or_default();
            *count += 1;
            *count <= MODELS_OF_ONE_USER
        });
        Ok(Self { user: user.to_owned(), same, each })
    }

    /// The bound of a task's model on a device type; on none in particular where none is named.
    fn bound(
        &self,
        key: Option<&str>,
        kind: Option<&str>,
        estimate: &ModelEstimate,
        share: f64,
    ) -> (u64, Basis) {
        let outcome = |run: &ModelRun| Outcome { estimated: run.estimated, measured: run.measured };
        let is_same = |run: &&ModelRun| {
            kind.is_some_and(|kind| run.kind.eq_ignore_ascii_case(kind)) && key == Some(run.model.as_str())
        };
        let same_model: Vec<_> = self.same.iter().filter(is_same).map(outcome).collect();
        let is_other =
            |run: &&ModelRun| (run.user.as_str(), Some(run.model.as_str())) != (self.user.as_str(), key);
        let other_models: Vec<_> = self.each.iter().filter(is_other).map(outcome).collect();
        let measured = Measurements { same_model: &same_model, other_models: &other_models };
        bound(estimate.peak, estimate.context, measured, share)
    }
}

/// Notes that the estimates of these tasks are the server's estimate command's.
pub(crate) fn note_command(spec: &mut JobSpec, tasks: &BTreeSet<String>) {
    for task in spec.tasks.iter_mut().filter(|task| tasks.contains(&task.name)) {
        if let Some(estimate) = task.model.as_mut().and_then(|model| model.estimate.as_mut()) {
            estimate.source = EstimateSource::Command;
        }
    }
}

/// Revises the bounds of a job's models by what was measured and by the devices there are, and makes them the memory requests.
/// Tells what its user should know.
pub(crate) fn admit(
    spec: &mut JobSpec,
    types: &[DeviceType],
    history: &ModelHistory,
    share: f64,
) -> Vec<Problem> {
    let several = spec.tasks.len() > 1;
    let mut warnings = Vec::new();
    for (i, task) in spec.tasks.iter_mut().enumerate() {
        let path = if several { format!("tasks[{i}].model") } else { "model".to_owned() };
        if let Some(mut problem) = admit_task(task, types, history, share) {
            problem.path = path;
            warnings.push(problem);
        }
    }
    warnings
}

fn admit_task(
    task: &mut TaskSpec,
    types: &[DeviceType],
    history: &ModelHistory,
    share: f64,
) -> Option<Problem> {
    let key = task.model_key();
    let TaskSpec { model, needs, .. } = task;
    let model = model.as_mut()?;
    let Some(estimate) = &mut model.estimate else {
        let request = match needs.gpu_memory {
            Some(bytes) => format!("its request stays {}", ByteSize(bytes).rounded()),
            None => "it has its GPUs to itself".to_owned(),
        };
        let message =
            format!("no estimate came with the model, whose file the server does not open; {request}");
        let help = "submit with `warpyard submit`, which estimates it, or send `estimate` with the numbers of \
                    `warpyard estimate --json`";
        return Some(Problem::new(code::NOT_ESTIMATED, "", message).with_help(help));
    };
    let allowed = |kind: &str| {
        needs.gpu_types.is_empty() || needs.gpu_types.iter().any(|name| name.eq_ignore_ascii_case(kind))
    };
    // There is one request for whichever type it is placed on: until it was measured on each, that of the most demanding.
    let kinds = types.iter().map(|known| known.kind.as_str()).filter(|kind| allowed(kind));
    let bounds = kinds.map(|kind| history.bound(key.as_deref(), Some(kind), estimate, share));
    let most = bounds.max_by_key(|(bytes, _)| *bytes);
    let (bytes, basis) = most.unwrap_or_else(|| history.bound(key.as_deref(), None, estimate, share));
    estimate.bound = bytes;
    estimate.share = share;
    estimate.basis = match basis {
        Basis::Published => BoundBasis::Published,
        Basis::OtherModels(count) => BoundBasis::OtherModels(count as u32),
        Basis::SameModel(count) => BoundBasis::SameModel(count as u32),
    };
    if estimate.request == EstimateRequest::Explicit {
        return None;
    }
    let largest = types.iter().filter(|known| allowed(&known.kind)).map(|known| known.memory).max();
    // An estimate is no reason to refuse a job: one that may not fit gets the most there is.
    (estimate.request, needs.gpu_memory) = match largest {
        Some(largest) if estimate.bound > largest => (EstimateRequest::WholeDevice, None),
        _ => (EstimateRequest::Bound, Some(estimate.bound)),
    };
    let largest = largest.filter(|largest| estimate.total() > *largest)?;
    let [total, largest] = [estimate.total(), largest].map(|bytes| ByteSize(bytes).rounded());
    let message = format!(
        "the model is estimated to need {total}, more than the {largest} of the largest GPU it may use; it has its \
         GPUs to itself, and will likely run out of memory"
    );
    let help = "lower batch_size, or allow a larger GPU type; `warpyard gpus` lists them";
    Some(Problem::new(code::ESTIMATE_TOO_LARGE, "", message).with_help(help))
}

/// The model of a task as its owner sees it: `model.pt2, batch 32, training with adamw`.
pub(crate) fn model_in_words(model: &ModelSpec) -> Option<String> {
    let file = model.file.as_ref()?;
    let batch = model.batch_size.map(|size| format!(", batch {size}")).unwrap_or_default();
    let mode = match (model.mode, &model.optimizer) {
        (Some(ModelMode::Train), Some(optimizer)) => format!(", training with {optimizer}"),
        (Some(ModelMode::Train), None) => ", training".to_owned(),
        (Some(ModelMode::Infer) | None, _) => ", inference".to_owned(),
    };
    let without = if model.estimate.is_none() { "; not estimated" } else { "" };
    Some(format!("{file}{batch}{mode}{without}"))
}

/// The estimate of a task as callers see it.
pub(crate) fn estimate_view(task: &TaskSpec) -> Option<EstimateView> {
    let estimate = task.model.as_ref()?.estimate.as_ref()?;
    let (basis, measured) = match estimate.basis {
        BoundBasis::Published => (EstimateBasis::Published, 0),
        BoundBasis::OtherModels(count) => (EstimateBasis::OtherModels, count),
        BoundBasis::SameModel(count) => (EstimateBasis::SameModel, count),
    };
    Some(EstimateView {
        text: in_words(task, estimate),
        peak_bytes: estimate.peak,
        context_bytes: estimate.context,
        bound_bytes: estimate.bound,
        share: estimate.share,
        basis,
        measured,
        request: match estimate.request {
            EstimateRequest::Bound => RequestWord::Bound,
            EstimateRequest::Explicit => RequestWord::Explicit,
            EstimateRequest::WholeDevice => RequestWord::WholeGpu,
        },
        source: match estimate.source {
            EstimateSource::Submitter => SourceWord::Submitter,
            EstimateSource::Command => SourceWord::Command,
        },
        expected_seconds: estimate.expected.map(|expected| expected.secs()),
    })
}

/// Whether so many measurements have a conformal quantile for a share: with fewer, the largest of them covers less than it.
fn promises_share(count: u64, share: f64) -> bool {
    (count as f64 + 1.0) * share <= count as f64
}

fn in_words(task: &TaskSpec, estimate: &ModelEstimate) -> String {
    let size = |bytes: u64| ByteSize(bytes).rounded();
    let percent = (estimate.share * 1000.0).round() / 10.0;
    let margin = match estimate.basis {
        BoundBasis::Published => format!("with the margin that covers {percent} % of public measurements"),
        BoundBasis::OtherModels(count) => {
            format!("with the margin that covers {percent} % of {count} models measured here")
        }
        BoundBasis::SameModel(count) if promises_share(count.into(), estimate.share) => {
            format!("by {count} measured runs of this model, to cover {percent} %")
        }
        BoundBasis::SameModel(1) => "by one measured run of this model and a margin for repeats".to_owned(),
        BoundBasis::SameModel(count) => {
            format!("by the largest of {count} measured runs of this model and a margin for repeats")
        }
    };
    let source = match estimate.source {
        EstimateSource::Submitter => "estimated from the model's file when it was submitted",
        EstimateSource::Command => "estimated by the server's estimate command",
    };
    let bound = size(estimate.bound);
    let request = match (estimate.request, task.needs.gpu_memory) {
        (EstimateRequest::Bound, _) => format!("{bound} requested {margin}"),
        (EstimateRequest::Explicit, Some(bytes)) => {
            format!("the explicit request of {} wins over the bound of {bound}, {margin}", size(bytes))
        }
        (EstimateRequest::Explicit, None) => format!("bound of {bound} {margin}"),
        (EstimateRequest::WholeDevice, _) => {
            format!(
                "the bound of {bound}, {margin}, is more than a GPU here has, so it has its GPUs to itself"
            )
        }
    };
    format!(
        "{} and {} for the CUDA context, {source}; {request}",
        size(estimate.peak),
        size(estimate.context)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::spec::Needs;

    const GIB: u64 = 1 << 30;

    fn task(doc: TaskDoc) -> TaskSpec {
        let model = model_spec(&doc);
        let bound = model.as_ref().and_then(|model| model.estimate.as_ref()).map(|estimate| estimate.bound);
        let gpu_memory = doc.gpu_memory.map(|memory| memory.0).or(bound);
        let needs = Needs { gpus: 1, gpu_memory, gpu_types: doc.gpu_type, ..Needs::default() };
        TaskSpec { needs, model, ..TaskSpec::default() }
    }

    fn estimated(peak: u64) -> TaskDoc {
        let estimate =
            EstimateDoc { peak: ByteSize(peak), context: Some(ByteSize(GIB)), ..EstimateDoc::default() };
        TaskDoc { model: Some("m.pt2".into()), estimate: Some(estimate), ..TaskDoc::default() }
    }

    fn admitted(doc: TaskDoc) -> (TaskSpec, Vec<String>) {
        admitted_after(doc, &ModelHistory::default())
    }

    fn admitted_after(doc: TaskDoc, history: &ModelHistory) -> (TaskSpec, Vec<String>) {
        let device = |kind: &str, gib: u64| DeviceType { kind: kind.into(), memory: gib * GIB };
        let mut spec = JobSpec { tasks: vec![task(doc)], ..JobSpec::default() };
        let warnings = admit(&mut spec, &[device("V100", 16), device("A100", 40)], history, DEFAULT_SHARE);
        (spec.tasks.remove(0), warnings.into_iter().map(|problem| problem.code.into_owned()).collect())
    }

    #[test]
    fn the_bound_becomes_the_request() {
        let (task, warnings) = admitted(estimated(10 * GIB));
        assert_eq!(task.needs.gpu_memory, Some(published_bound(10 * GIB, GIB)));
        assert_eq!(estimate_view(&task).map(|view| view.request), Some(RequestWord::Bound));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn an_explicit_request_wins_and_is_said_to() {
        let (task, warnings) =
            admitted(TaskDoc { gpu_memory: Some(ByteSize(2 * GIB)), ..estimated(10 * GIB) });
        assert_eq!(task.needs.gpu_memory, Some(2 * GIB));
        let view = estimate_view(&task).expect("an estimate");
        assert_eq!(view.request, RequestWord::Explicit);
        assert!(view.text.contains("the explicit request of 2 GiB wins over the bound of"), "{}", view.text);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn what_may_not_fit_gets_whole_devices_and_is_not_refused() {
        // The margin alone is too much for the only type it accepts: nothing to worry about.
        let (task, warnings) = admitted(TaskDoc { gpu_type: vec!["v100".into()], ..estimated(14 * GIB) });
        assert_eq!((task.needs.gpu_memory, warnings), (None, vec![]));
        // The estimate itself is too much for every type.
        let (task, warnings) = admitted(estimated(50 * GIB));
        assert_eq!((task.needs.gpu_memory, warnings), (None, vec![code::ESTIMATE_TOO_LARGE.to_owned()]));
        let view = estimate_view(&task).expect("an estimate");
        assert!(view.text.contains("so it has its GPUs to itself"), "{}", view.text);
    }

    fn run(user: &str, model: &str, kind: &str, measured: u64) -> ModelRun {
        ModelRun { user: user.into(), model: model.into(), kind: kind.into(), estimated: 11 * GIB, measured }
    }

    fn with_graph(gpu_type: &[&str]) -> TaskDoc {
        let mut doc = estimated(10 * GIB);
        doc.gpu_type = gpu_type.iter().map(|kind| (*kind).to_owned()).collect();
        doc.estimate.as_mut().expect("an estimate").graph = Some("1f".into());
        doc
    }

    #[test]
    fn measured_runs_correct_the_bound_on_the_types_they_were_measured_on() {
        let same = vec![run("ann", "graph:1f", "v100", 6 * GIB)];
        let history = ModelHistory { user: "ann".into(), same: same.clone(), each: same };
        let bound = |types: &[&str]| {
            let task = admitted_after(with_graph(types), &history).0;
            let view = estimate_view(&task).expect("an estimate");
            (view.bound_bytes, view.basis, view.measured)
        };
        let (bytes, basis, runs) = bound(&["V100"]);
        assert!((6 * GIB..7 * GIB).contains(&bytes), "{bytes}");
        assert_eq!((basis, runs), (EstimateBasis::SameModel, 1));
        // It may also be placed on a type where it was not measured: the estimate stays reserved.
        for types in [&["A100"][..], &[]] {
            assert_eq!(
                bound(types),
                (published_bound(10 * GIB, GIB), EstimateBasis::Published, 0),
                "{types:?}"
            );
        }
    }

    #[test]
    fn other_models_set_the_margin_once_they_are_enough() {
        let each: Vec<_> = (0..19).map(|n| run("bob", &format!("graph:{n}"), "v100", 12 * GIB)).collect();
        let mut history = ModelHistory { user: "ann".into(), same: vec![], each };
        let basis = |history: &ModelHistory| {
            estimate_view(&admitted_after(with_graph(&[]), history).0).map(|view| (view.basis, view.measured))
        };
        assert_eq!(basis(&history), Some((EstimateBasis::OtherModels, 19)));
        history.each.pop();
        assert_eq!(basis(&history), Some((EstimateBasis::Published, 0)), "eighteen cannot promise 95 %");
    }

    #[test]
    fn a_model_without_numbers_is_not_opened_but_pointed_out() {
        let doc = TaskDoc { model: Some("/etc/shadow".into()), ..TaskDoc::default() };
        let (task, warnings) = admitted(doc);
        assert_eq!((task.needs.gpu_memory, warnings), (None, vec![code::NOT_ESTIMATED.to_owned()]));
        let words = task.model.as_deref().and_then(model_in_words);
        assert_eq!(words.as_deref(), Some("/etc/shadow, inference; not estimated"));
    }
}
