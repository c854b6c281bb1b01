//! Steps of training and inference, replayed as a plain eager loop runs them: gradients are dropped, a batch arrives, forward, loss,
//! backward, optimiser. The outputs of a step live until the next step's overwrite them, so the second step needs more than the
//! first; optimiser state comes after the first backward pass.

use crate::backward::backward;
use crate::forward::{Program, TapeEntry};
use crate::gpu::Workspaces;
use crate::graph::{Graph, Role, TensorId};
use crate::operators::Device;
use crate::optimizer::Optimizer;
use crate::storage::{StorageId, Storages};
use std::collections::BTreeSet;

/// When gradients are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroGrad {
    /// At the beginning of a step.
    #[default]
    BeforeForward,
    /// Between forward and backward.
    BeforeBackward,
    /// After the optimiser's step.
    AfterStep,
}

/// How a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// The optimiser.
    pub optimizer: Optimizer,
    /// When gradients are dropped.
    pub zero_grad: ZeroGrad,
}

/// Memory of a replay, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peaks {
    /// Most that the allocator had taken from the device.
    pub reserved: u64,
    /// Most that was taken up to the end of the first step.
    pub first_step_reserved: u64,
    /// Most bytes of live tensors, weights included.
    pub live: u64,
    /// Bytes kept for the backward pass at the end of the forward pass, weights excluded.
    pub saved: u64,
}

/// Steps to replay: in the second everything is alive that ever is. Later ones only fragment the cache further: a third moved the
/// median errors in `bench/RESULTS.md` by at most 0.6 %.
const STEPS: usize = 2;

/// Replays inference: weights stay, activations go after their last use.
pub(crate) fn infer(program: &Program<'_>, workspaces: &Workspaces, capacity: Option<u64>) -> Peaks {
    let mut run = Run::new(program, capacity);
    if program.uses_blas {
        run.storages.allocate(workspaces.blas);
    }
    for step in 0..2 {
        run.take_batch();
        let tape = run.forward();
        debug_assert!(tape.is_empty(), "nothing is recorded without gradients");
        if step == 0 {
            run.peaks.first_step_reserved = run.storages.peak_reserved();
        }
    }
    run.finish()
}

/// Most bytes of activations at once, where inputs go after their last use as well.
pub(crate) fn activation_peak(graph: &Graph) -> u64 {
    let mut program = Program::new(graph, false, Device::Cuda);
    program.consume_inputs();
    let mut run = Run::new(&program, None);
    run.take_batch();
    run.forward();
    run.storages.peak_live().saturating_sub(graph.weights_bytes())
}

/// Replays training.
pub(crate) fn train(
    program: &Program<'_>,
    training: Training,
    workspaces: &Workspaces,
    capacity: Option<u64>,
) -> Peaks {
    let graph = program.graph;
    let mut run = Run::new(program, capacity);
    let sizes: Vec<u64> = parameters(graph).map(|id| graph.tensor(id).bytes()).collect();
    let mut state = Vec::new();
    if training.optimizer.is_eager() {
        run.make_state(training.optimizer, &sizes, &mut state);
    }
    // The forward pass and the autograd engine's thread each have a cuBLAS handle with a workspace of its own.
    let mut blas = program.uses_blas.then_some(workspaces.blas);
    let mut gradients: Vec<StorageId> = Vec::new();
    let mut loss: Option<StorageId> = None;
    for step in 0..STEPS {
        if training.zero_grad == ZeroGrad::BeforeForward {
            run.storages.release_all(gradients.drain(..));
        }
        run.take_batch();
        if let Some(bytes) = blas {
            run.storages.allocate(bytes);
        }
        let tape = run.forward();
        if step == 0 {
            run.peaks.saved = run.saved(&tape);
        }
        let criterion = Criterion::of(program);
        let (seeds, log_probabilities, value) = criterion.forward(&mut run);
        if let Some(earlier) = loss.replace(value) {
            run.storages.release(earlier);
        }
        if training.zero_grad == ZeroGrad::BeforeBackward {
            run.storages.release_all(gradients.drain(..));
        }
        if let Some(bytes) = blas.take() {
            run.storages.allocate(bytes);
        }
        let seeds = criterion.backward(&mut run, seeds, log_probabilities);
        let made = backward(program, &mut run.storages, tape, seeds);
        // Gradients that are still there are added to in place.
        match gradients.is_empty() {
            true => gradients = made,
            false => run.storages.release_all(made),
        }
        run.step(training.optimizer, &sizes, &mut state);
        if training.zero_grad == ZeroGrad::AfterStep {
            run.storages.release_all(gradients.drain(..));
        }
        if step == 0 {
            run.peaks.first_step_reserved = run.storages.peak_reserved();
        }
    }
    run.finish()
}

fn parameters(graph: &Graph) -> impl Iterator<Item = TensorId> + '_ {
    graph.of_role(Role::Parameter).filter(|id| graph.tensor(*id).dtype.is_differentiable())
}

/// A process that has the model on its GPU.
struct Run<'a, 'g> {
    program: &'a Program<'g>,
    storages: Storages,
    held: Vec<Option<StorageId>>,
    /// Outputs of the last step, which the caller's variables still refer to.
    outputs: Vec<StorageId>,
    peaks: Peaks,
}

impl<'a, 'g> Run<'a, 'g> {
    fn new(program: &'a Program<'g>, capacity: Option<u64>) -> Self {
        let graph = program.graph;
        let mut storages = Storages::new(capacity);
        let mut held = vec![None; graph.tensors.len()];
        for id in graph.of_role(Role::Parameter).chain(graph.of_role(Role::Buffer)) {
            held[id.index()] = Some(storages.allocate(graph.tensor(id).bytes()));
        }
        Self { program, storages, held, outputs: vec![], peaks: Peaks::default() }
    }

    /// The next batch takes the place of the last one.
    fn take_batch(&mut self) {
        let inputs: Vec<TensorId> = self.program.graph.of_role(Role::Input).collect();
        for id in &inputs {
            if let Some(earlier) = self.held[id.index()].take() {
                self.storages.release(earlier);
            }
        }
        for id in inputs {
            let bytes = self.program.graph.tensor(id).bytes();
            self.held[id.index()] = Some(self.storages.allocate(bytes));
        }
    }

    fn forward(&mut self) -> Vec<TapeEntry> {
        let tape = self.program.forward(&mut self.storages, &mut self.held);
        let fresh: Vec<StorageId> = self
            .program
            .graph
            .outputs
            .iter()
            .filter(|id| self.program.graph.tensor(**id).role == Role::Activation)
            .filter_map(|id| self.held[id.index()].take())
            .collect();
        self.storages.release_all(std::mem::replace(&mut self.outputs, fresh));
        tape
    }

    /// Bytes that the tape keeps alive, each storage once, weights excluded.
    fn saved(&self, tape: &[TapeEntry]) -> u64 {
        let weights =
            [Role::Parameter, Role::Buffer].into_iter().flat_map(|role| self.program.graph.of_role(role));
        let weights: BTreeSet<_> = weights.filter_map(|id| self.held[id.index()]).collect();
        let kept: BTreeSet<_> = tape.iter().flat_map(|entry| &entry.saved).copied().collect();
        kept.difference(&weights).fold(0, |sum, id| sum.saturating_add(self.storages.bytes(*id)))
    }

    fn make_state(&mut self, optimizer: Optimizer, sizes: &[u64], state: &mut Vec<StorageId>) {
        for bytes in sizes {
            state.extend((0..optimizer.states()).map(|_| self.storages.allocate(*bytes)));
        }
    }

    fn step(&mut self, optimizer: Optimizer, sizes: &[u64], state: &mut Vec<StorageId>) {
        if state.is_empty() {
            self.make_state(optimizer, sizes, state);
        }
        if self.program.device == Device::Cpu {
            for bytes in sizes {
                let temporaries = [*bytes].repeat(optimizer.single_tensor_temporaries());
                let temporaries: Vec<_> =
                    temporaries.into_iter().map(|bytes| self.storages.allocate(bytes)).collect();
                self.storages.release_all(temporaries);
            }
            return;
        }
        let mut temporaries = Vec::new();
        for _ in 0..optimizer.temporaries() {
            temporaries.extend(sizes.iter().map(|bytes| self.storages.allocate(*bytes)));
        }
        self.storages.release_all(temporaries);
    }

    fn finish(mut self) -> Peaks {
        self.peaks.reserved = self.storages.peak_reserved();
        self.peaks.live = self.storages.peak_live();
        self.peaks
    }
}

/// The loss: a scalar output of the model where it has one, else cross entropy of every differentiable output.
enum Criterion {
    Own(TensorId),
    CrossEntropy(Vec<TensorId>),
}

impl Criterion {
    fn of(program: &Program<'_>) -> Self {
        let differentiable = |id: &&TensorId| program.wanted()[id.index()];
        let outputs = || program.graph.outputs.iter().filter(differentiable).copied();
        match outputs().find(|id| program.graph.tensor(*id).elements() == 1) {
            Some(loss) => Self::Own(loss),
            None => Self::CrossEntropy(outputs().collect()),
        }
    }

    /// Computes the loss; gives log-probabilities that are kept, and the scalar.
    fn forward(&self, run: &mut Run<'_, '_>) -> (Vec<TensorId>, Vec<StorageId>, StorageId) {
        match self {
            Self::Own(loss) => (vec![*loss], vec![], run.storages.allocate(4)),
            Self::CrossEntropy(outputs) => {
                let bytes = |id: &TensorId| run.program.graph.tensor(*id).bytes();
                let sizes: Vec<u64> = outputs.iter().map(bytes).collect();
                let kept = sizes.iter().map(|bytes| run.storages.allocate(*bytes)).collect();
                (outputs.clone(), kept, run.storages.allocate(4))
            }
        }
    }

    /// Gradients of the outputs. Cross entropy has one of the log-probabilities first, and lets go of both with them.
    fn backward(
        &self,
        run: &mut Run<'_, '_>,
        outputs: Vec<TensorId>,
        log_probabilities: Vec<StorageId>,
    ) -> Vec<(TensorId, StorageId)> {
        let mut log_probabilities = log_probabilities.into_iter();
        let mut seeds = Vec::new();
        for id in outputs {
            let bytes = run.program.graph.tensor(id).bytes();
            let scattered = matches!(self, Self::CrossEntropy(_)).then(|| run.storages.allocate(bytes));
            seeds.push((id, run.storages.allocate(bytes)));
            run.storages.release_all(scattered.into_iter().chain(log_probabilities.next()));
        }
        seeds
    }
}
