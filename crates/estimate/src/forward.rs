//! The forward pass, replayed: every operator allocates its results, shares or overwrites its operands' memory, keeps what its
//! backward pass will need, and lets go of every tensor after its last use.

use crate::graph::{Graph, Role, TensorId};
use crate::operators::{Device, Saved, Semantics, Storage, Wanted, semantics};
use crate::storage::{StorageId, Storages};

/// A model prepared for replay: semantics of every node and the last use of every tensor.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) device: Device,
    pub(crate) semantics: Vec<Semantics>,
    /// Tensors a gradient is wanted for.
    pub(crate) wanted: Vec<bool>,
    /// Tensors to let go of after each node.
    dying: Vec<Vec<TensorId>>,
    /// Whether any node multiplies matrices.
    pub(crate) uses_blas: bool,
}

/// What a node kept for its backward pass.
#[derive(Debug)]
pub(crate) struct TapeEntry {
    pub(crate) node: usize,
    pub(crate) saved: Vec<StorageId>,
}

impl<'a> Program<'a> {
    /// Prepares a graph; in training gradients are wanted for parameters and all that is computed from them.
    pub(crate) fn new(graph: &'a Graph, training: bool, device: Device) -> Self {
        let mut wanted = vec![false; graph.tensors.len()];
        for id in graph.of_role(Role::Parameter).filter(|_| training) {
            wanted[id.index()] = graph.tensor(id).dtype.is_differentiable();
        }
        let mut all = Vec::with_capacity(graph.nodes.len());
        let mut is_view = vec![false; graph.tensors.len()];
        for node in &graph.nodes {
            let mut semantics = semantics(graph, node, &wanted, device);
            let views = match semantics.storage {
                // What overwrites a view has to be traced back to the whole: autograd copies its gradient twice for that.
                Storage::InPlace(of) if is_view[of.index()] => {
                    let bytes = graph.tensor(of).bytes();
                    semantics.backward_scratch.extend([bytes, bytes]);
                    true
                }
                _ => semantics.is_view,
            };
            let flows = !node.detached && semantics.gradients.iter().any(|(id, _)| wanted[id.index()]);
            for output in &node.outputs {
                is_view[output.index()] = views;
                wanted[output.index()] = flows && graph.tensor(*output).dtype.is_differentiable();
            }
            all.push(semantics);
        }
        let uses_blas = all.iter().any(|semantics| semantics.uses_blas);
        Self { graph, device, semantics: all, wanted, dying: last_uses(graph, Holder::Python), uses_blas }
    }

    /// Lets inputs and arguments go after their last use, as if no caller kept a reference to them.
    pub(crate) fn consume_inputs(&mut self) {
        self.dying = last_uses(self.graph, Holder::Nobody);
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether a node is on the tape: one of its results has a gradient.
    pub(crate) fn is_recorded(&self, node: usize) -> bool {
        self.graph.nodes[node].outputs.iter().any(|id| self.wanted[id.index()])
    }

    /// Runs every node. `held` maps tensors to their storage, with weights and inputs in it already; afterwards only they and the
    /// outputs are left. Gives what was kept for the backward pass.
    pub(crate) fn forward(&self, storages: &mut Storages, held: &mut [Option<StorageId>]) -> Vec<TapeEntry> {
        let mut tape = Vec::new();
        for (at, (node, semantics)) in self.graph.nodes.iter().zip(&self.semantics).enumerate() {
            let mut scratch: Vec<_> =
                semantics.scratch.iter().map(|bytes| storages.allocate(*bytes)).collect();
            let recorded = self.is_recorded(at);
            // Copies and masks are made before the result, and where no gradient is wanted they are workspace.
            let mut saved: Vec<StorageId> = Vec::new();
            for kept in &semantics.saved {
                if let Saved::Extra(bytes) = kept
                    && recorded
                {
                    saved.push(storages.allocate(*bytes));
                }
            }
            for output in &node.outputs {
                let storage = match semantics.storage {
                    Storage::Fresh => None,
                    Storage::View(of) | Storage::InPlace(of) => held[of.index()],
                };
                held[output.index()] = Some(match storage {
                    Some(shared) => storages.retain(shared),
                    None => storages.allocate(self.graph.tensor(*output).bytes()),
                });
            }
            for kept in semantics.saved.iter().filter(|_| recorded) {
                if let Saved::Tensor(id) = kept
                    && let Some(storage) = held[id.index()]
                {
                    saved.push(storages.retain(storage));
                }
            }
            storages.release_all(scratch.drain(..));
            if recorded {
                tape.push(TapeEntry { node: at, saved });
            }
            for id in &self.dying[at] {
                if let Some(storage) = held[id.index()].take() {
                    storages.release(storage);
                }
            }
        }
        tape
    }
}

/// References that keep tensors alive beside the operators that use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// A Python program: the caller holds the inputs, calls of modules their arguments, and local variables their values.
    Python,
    Nobody,
}

/// The tensors that go after each node. Outputs of the model outlive it.
fn last_uses(graph: &Graph, holder: Holder) -> Vec<Vec<TensorId>> {
    let mut last: Vec<Option<usize>> = vec![None; graph.tensors.len()];
    let mut defined = vec![0; graph.tensors.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for output in &node.outputs {
            defined[output.index()] = at;
            last[output.index()] = Some(at);
        }
        for id in node.tensors() {
            let until = match holder {
                Holder::Python => graph.calls.held_until(defined[id.index()], at),
                Holder::Nobody => at,
            };
            last[id.index()] = last[id.index()].max(Some(until));
        }
    }
    for (node, until) in graph.calls.assigned().iter().filter(|_| holder == Holder::Python) {
        for output in &graph.nodes[*node].outputs {
            last[output.index()] = last[output.index()].max(Some(*until));
        }
    }
    for output in &graph.outputs {
        last[output.index()] = None;
    }
    let mut dying = vec![vec![]; graph.nodes.len()];
    for (index, tensor) in graph.tensors.iter().enumerate() {
        let goes =
            tensor.role == Role::Activation || (holder == Holder::Nobody && tensor.role == Role::Input);
        if let Some(at) = last[index].filter(|_| goes) {
            dying[at].push(TensorId(index as u32));
        }
    }
    dying
}
