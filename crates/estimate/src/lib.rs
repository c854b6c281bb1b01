//! Estimates of a model's GPU memory and run time before it runs, from the model file alone.
//!
//! A reader ([`read()`]) turns a file into a [`Graph`] with every shape known, or into a list of weights. [`estimate`] replays what
//! PyTorch would do with it: `operators` says what each operator allocates and keeps, `forward`, `backward` and `training` run them
//! in order, `storage` counts references, and [`allocator`] turns it all into what the device sees. Nothing here opens files, runs a
//! model or is fitted to model names; how far estimates are from measurements is in `bench/RESULTS.md`.

pub mod admission;
pub mod allocator;
mod backward;
mod calls;
pub mod conformal;
mod digest;
mod expr;
mod forward;
pub mod gpu;
pub mod graph;
mod layout;
mod operators;
mod optimizer;
mod read;
mod roofline;
mod storage;
mod training;

pub use calls::Calls;
pub use expr::ExprError;
pub use gpu::{GPUS, Gpu, UnknownGpu, Workspaces};
pub use graph::{Format, Graph};
pub use operators::Device;
pub use optimizer::{Optimizer, UnknownOptimizer};
pub use read::{Model, ReadError, Shapes, Transformer, Weights, read};
pub use training::{Peaks, Training, ZeroGrad};

use forward::Program;
use graph::{Role, Tensor, TensorId};
use roofline::Work;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Tensors listed as the largest.
const LARGEST: usize = 5;

/// What the model is to be run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Forward passes without gradients.
    Infer,
    /// Training steps.
    Train,
}

/// How the model will be run.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What for; decides which peak the bound and the run time are of.
    pub mode: Mode,
    /// How it would be trained.
    pub training: Training,
    /// Device whose kernels run; [`Device::Cpu`] has no workspaces and no context.
    pub device: Device,
    /// The type of GPU, where it is known: sets workspaces and when cached memory is given back.
    pub gpu: Option<&'static Gpu>,
    /// Bytes of the GPU, where they are known and differ from its type's.
    pub capacity: Option<u64>,
    /// Tokens of context, for a file of a language model's weights.
    pub context: Option<u64>,
    /// Which rule the bound is of.
    pub method: Method,
}

impl Request {
    /// A request that leaves open on which GPU and with how much context the model will run.
    pub fn new(mode: Mode, optimizer: Optimizer) -> Self {
        Self {
            mode,
            training: Training { optimizer, zero_grad: ZeroGrad::default() },
            device: Device::default(),
            gpu: None,
            capacity: None,
            context: None,
            method: Method::Replay,
        }
    }
}

/// The rule an admission bound is computed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Liveness and allocator, replayed.
    Replay,
    /// Four bytes for every number there is; see [`Estimate::float_count_bytes`].
    FloatCount,
}

/// The estimate, in the form of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// File format.
    pub format: Format,
    /// Digest of graph, shapes and mode: equal for equal models, whatever their tensors are called.
    pub graph: String,
    /// Trained weights.
    pub parameters: u64,
    /// Bytes of weights and buffers.
    pub weights_bytes: u64,
    /// Multiply-adds of one forward pass; for a language model's weights, of one token.
    pub macs: u64,
    /// What allocator and workspaces take at most in inference, without the CUDA context. None where a file has weights alone and
    /// their architecture is not known.
    pub inference_peak_bytes: Option<u64>,
    /// The same in training, in steps after the first. None where a file has no graph.
    pub training_peak_bytes: Option<u64>,
    /// What the CUDA context is assumed to take.
    pub context_bytes: u64,
    /// The admission bound, context included: what to request so that 95 % of jobs stay below it.
    pub upper_bytes: u64,
    /// The float-count rule: four bytes for every parameter and every element of every operator's result, all twice in training
    /// (gradients), and the optimiser's state.
    pub float_count_bytes: u64,
    /// Number of operators.
    pub operators: usize,
    /// Operators that are not in the table and were bounded.
    pub unknown_operators: Vec<String>,
    /// The largest tensors.
    pub largest: Vec<Largest>,
    /// Seconds of one pass at each type's nominal rates: a relative length, not calibrated to any machine.
    pub seconds_by_gpu: BTreeMap<&'static str, f64>,
}

/// A large tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Largest {
    /// Its name in the file.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// Ratio of the admission bound to the estimated peak without a history of measurements: the 95 % conformal quantile of measured to
/// estimated peaks over the public trainings that `bench/RESULTS.md` names (1.142), rounded up.
pub const DEFAULT_BOUND_RATIO: f64 = 1.15;

/// Estimates memory and run time of a model.
pub fn estimate(model: &Model, request: &Request) -> Estimate {
    let graph = digest::digest(model, request);
    match model {
        Model::Graph(model) => Estimate { graph, ..of_graph(model, request) },
        Model::Weights(weights) => Estimate { graph, ..of_weights(weights, request) },
    }
}

impl Estimate {
    /// The peak that a mode's bound is of: weights alone where the file does not say enough, and none for training without a graph.
    pub fn peak(&self, mode: Mode) -> Option<u64> {
        match mode {
            Mode::Infer => Some(self.inference_peak_bytes.unwrap_or(self.weights_bytes)),
            Mode::Train => self.training_peak_bytes,
        }
    }
}

/// Replays training and gives its peaks in detail; [`estimate`] has the summary.
pub fn training_peaks(graph: &Graph, request: &Request) -> Peaks {
    training::train(
        &Program::new(graph, true, request.device),
        request.training,
        &workspaces(request),
        capacity(request),
    )
}

/// Replays inference and gives its peaks in detail.
pub fn inference_peaks(graph: &Graph, request: &Request) -> Peaks {
    training::infer(&Program::new(graph, false, request.device), &workspaces(request), capacity(request))
}

/// Most bytes of activations at once in inference, weights and rounding left out, where the caller lets go of the inputs as well.
pub fn activation_peak(graph: &Graph) -> u64 {
    training::activation_peak(graph)
}

fn workspaces(request: &Request) -> Workspaces {
    match request.device {
        Device::Cuda => request.gpu.map(Gpu::workspaces).unwrap_or_default(),
        Device::Cpu => Workspaces { blas: 0 },
    }
}

/// What the allocator may take of a GPU: all but the context.
fn capacity(request: &Request) -> Option<u64> {
    let memory = request.capacity.or(request.gpu.map(|gpu| gpu.memory))?;
    Some(memory.saturating_sub(context(request)))
}

fn context(request: &Request) -> u64 {
    match request.device {
        Device::Cuda => gpu::ASSUMED_CONTEXT,
        Device::Cpu => 0,
    }
}

fn of_graph(graph: &Graph, request: &Request) -> Estimate {
    let program = Program::new(graph, false, request.device);
    let unknown = program.semantics.iter().zip(&graph.nodes).filter(|(semantics, _)| !semantics.known);
    let unknown: BTreeSet<String> = unknown.map(|(_, node)| node.operator.clone()).collect();
    let inference = training::infer(&program, &workspaces(request), capacity(request)).reserved;
    let training = training_peaks(graph, request).reserved;
    let floats = float_count(graph, request);
    let peak = match (request.method, request.mode) {
        (Method::FloatCount, _) => floats,
        (Method::Replay, Mode::Infer) => inference,
        (Method::Replay, Mode::Train) => training,
    };
    let work = Work::of(&program);
    Estimate {
        format: graph.format,
        graph: String::new(),
        parameters: graph.parameters(),
        weights_bytes: graph.weights_bytes(),
        macs: program.semantics.iter().fold(0, |sum, semantics| sum.saturating_add(semantics.macs)),
        inference_peak_bytes: Some(inference),
        training_peak_bytes: Some(training),
        context_bytes: context(request),
        upper_bytes: bound(peak, request),
        float_count_bytes: floats,
        operators: graph.nodes.len(),
        unknown_operators: unknown.into_iter().collect(),
        largest: largest_of(&graph.tensors),
        seconds_by_gpu: seconds(&work, request.mode),
    }
}

fn of_weights(weights: &Weights, request: &Request) -> Estimate {
    let transformer = weights.transformer.as_ref();
    let tokens = |transformer: &Transformer| request.context.unwrap_or(transformer.context);
    let running = transformer.map(|transformer| {
        let tokens = tokens(transformer);
        let cache = transformer.kv_cache_bytes(tokens);
        weights.bytes.saturating_add(cache).saturating_add(transformer.activation_bytes(tokens))
    });
    let attention = transformer.map_or(0, |transformer| transformer.attention_macs(tokens(transformer)));
    let macs = weights.parameters.saturating_add(attention);
    let floats = weights.parameters.saturating_mul(4);
    let peak = match request.method {
        Method::FloatCount => floats,
        Method::Replay => running.unwrap_or(weights.bytes),
    };
    Estimate {
        format: weights.format,
        graph: String::new(),
        parameters: weights.parameters,
        weights_bytes: weights.bytes,
        macs,
        inference_peak_bytes: running,
        training_peak_bytes: None,
        context_bytes: context(request),
        upper_bytes: bound(peak, request),
        float_count_bytes: floats,
        operators: 0,
        unknown_operators: vec![],
        largest: weights
            .largest
            .iter()
            .map(|(name, bytes)| Largest { name: name.clone(), bytes: *bytes })
            .collect(),
        seconds_by_gpu: seconds(&Work::of_weights(macs, weights.bytes), request.mode),
    }
}

/// The admission bound for a peak.
fn bound(peak: u64, request: &Request) -> u64 {
    match request.method {
        Method::Replay => admission::published_bound(peak, context(request)),
        Method::FloatCount => peak.saturating_add(context(request)),
    }
}

fn seconds(work: &Work, mode: Mode) -> BTreeMap<&'static str, f64> {
    GPUS.iter().filter_map(|gpu| Some((gpu.name, work.seconds(gpu, mode == Mode::Train)?))).collect()
}

fn float_count(graph: &Graph, request: &Request) -> u64 {
    let elements = |id: TensorId| graph.tensor(id).elements();
    let results = graph.nodes.iter().flat_map(|node| &node.outputs);
    let activations = results
        .copied()
        .chain(graph.of_role(Role::Input))
        .fold(0u64, |sum, id| sum.saturating_add(elements(id)));
    let parameters = graph.parameters();
    let floats = match request.mode {
        Mode::Infer => activations.saturating_add(parameters),
        Mode::Train => {
            let copies = 2 + request.training.optimizer.states() as u64;
            activations.saturating_mul(2).saturating_add(parameters.saturating_mul(copies))
        }
    };
    floats.saturating_mul(4)
}

fn largest_of(tensors: &[Tensor]) -> Vec<Largest> {
    let mut sizes: Vec<(u64, &str)> =
        tensors.iter().map(|tensor| (tensor.bytes(), tensor.name.as_str())).collect();
    sizes.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    sizes
        .iter()
        .take(LARGEST)
        .map(|(bytes, name)| Largest { name: (*name).to_owned(), bytes: *bytes })
        .collect()
}
