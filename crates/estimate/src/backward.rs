//! The backward pass, replayed as PyTorch's autograd engine runs it: the tape in reverse, each node's gradients allocated or passed
//! on, gradients of a tensor with several uses accumulated in place where nobody else holds them, and everything a node kept freed
//! once it has run.

use crate::forward::{Program, TapeEntry};
use crate::graph::{Role, TensorId, row_major};
use crate::operators::{Gradient as Form, view_strides};
use crate::storage::{StorageId, Storages};

/// A gradient that is on its way: its memory and how it lies there.
#[derive(Debug, Clone)]
struct Gradient {
    storage: StorageId,
    strides: Strides,
}

/// Memory layout of a gradient.
#[derive(Debug, Clone)]
enum Strides {
    /// Row-major without gaps, as almost all are.
    Dense,
    Strided(Vec<u64>),
}

impl Strides {
    fn of(&self, shape: &[u64]) -> Vec<u64> {
        match self {
            Self::Dense => row_major(shape),
            Self::Strided(strides) => strides.clone(),
        }
    }

    fn is_dense(&self, shape: &[u64]) -> bool {
        match self {
            Self::Dense => true,
            Self::Strided(strides) => {
                let dense = row_major(shape);
                shape.iter().zip(strides.iter().zip(&dense)).all(|(size, (a, b))| *size == 1 || a == b)
            }
        }
    }
}

/// The gradients of a running backward pass.
struct Backward<'a, 'g> {
    program: &'a Program<'g>,
    storages: &'a mut Storages,
    pending: Vec<Option<Gradient>>,
}

/// Runs the tape backwards from gradients of the outputs in `seeds`. Gives the gradient of every parameter that has one, in the
/// order in which they were finished.
pub(crate) fn backward(
    program: &Program<'_>,
    storages: &mut Storages,
    tape: Vec<TapeEntry>,
    seeds: Vec<(TensorId, StorageId)>,
) -> Vec<StorageId> {
    let mut pending = vec![None; program.graph.tensors.len()];
    for (id, storage) in seeds {
        pending[id.index()] = Some(Gradient { storage, strides: Strides::Dense });
    }
    let mut pass = Backward { program, storages, pending };
    for entry in tape.into_iter().rev() {
        pass.run(entry.node);
        pass.storages.release_all(entry.saved);
    }
    let parameters = program.graph.of_role(Role::Parameter);
    let gradients =
        parameters.filter_map(|id| pass.pending[id.index()].take()).map(|gradient| gradient.storage);
    let gradients: Vec<_> = gradients.collect();
    // Nothing else should be left; what a damaged graph leaves is let go.
    let stray: Vec<_> =
        pass.pending.iter_mut().filter_map(Option::take).map(|gradient| gradient.storage).collect();
    pass.storages.release_all(stray);
    gradients
}

impl Backward<'_, '_> {
    fn bytes(&self, id: TensorId) -> u64 {
        self.program.graph.tensor(id).bytes()
    }

    fn fresh(&mut self, id: TensorId) -> Gradient {
        let storage = self.storages.allocate(self.bytes(id));
        Gradient { storage, strides: Strides::Dense }
    }

    fn run(&mut self, at: usize) {
        let (node, semantics) = (&self.program.graph.nodes[at], &self.program.semantics[at]);
        let arrived: Vec<(TensorId, Gradient)> =
            node.outputs.iter().filter_map(|id| Some((*id, self.pending[id.index()].take()?))).collect();
        let Some((result, gradient)) = arrived.first().cloned() else { return };
        let mut scratch: Vec<StorageId> = Vec::new();
        let shape = &self.program.graph.tensor(result).shape;
        if semantics.wants_dense_gradient && !gradient.strides.is_dense(shape) {
            let bytes = self.bytes(result);
            scratch.push(self.storages.allocate(bytes));
        }
        scratch.extend(semantics.backward_scratch.iter().map(|bytes| self.storages.allocate(*bytes)));
        let wanted = semantics.gradients.iter().filter(|(id, _)| self.program.wanted()[id.index()]);
        let mut made: Vec<(TensorId, Gradient)> = Vec::new();
        // Products that are summed afterwards all live until the node is done.
        for (_, form) in wanted.clone() {
            if *form == Form::Reduced {
                let bytes = self.bytes(result);
                scratch.push(self.storages.allocate(bytes));
            }
        }
        for (id, form) in wanted {
            let gradient = self.make(*id, form, result, &gradient);
            made.push((*id, gradient));
        }
        self.storages.release_all(scratch);
        self.storages.release_all(arrived.into_iter().map(|(_, gradient)| gradient.storage));
        for (id, gradient) in made {
            self.accumulate(id, gradient);
        }
    }

    fn make(&mut self, id: TensorId, form: &Form, result: TensorId, gradient: &Gradient) -> Gradient {
        let (of, to) = (self.program.graph.tensor(result), self.program.graph.tensor(id));
        let strides = match form {
            Form::Fresh | Form::Reduced => None,
            Form::Same => (of.shape == to.shape).then(|| gradient.strides.clone()),
            Form::Reshaped => match &gradient.strides {
                Strides::Dense if of.elements() == to.elements() => Some(Strides::Dense),
                Strides::Dense => None,
                Strides::Strided(strides) => {
                    view_strides(&of.shape, strides, &to.shape).map(Strides::Strided)
                }
            },
            Form::Permuted(order) => {
                let mut strides = vec![0; order.len()];
                for (from, stride) in order.iter().zip(gradient.strides.of(&of.shape)) {
                    strides[*from] = stride;
                }
                (strides.len() == to.shape.len()).then_some(Strides::Strided(strides))
            }
            Form::Part => {
                let strides = gradient.strides.of(&of.shape);
                Some(Strides::Strided(strides.into_iter().take(to.shape.len()).collect()))
            }
        };
        match strides {
            Some(strides) => Gradient { storage: self.storages.retain(gradient.storage), strides },
            None => self.fresh(id),
        }
    }

    /// Adds to what has arrived for a tensor already.
    fn accumulate(&mut self, id: TensorId, gradient: Gradient) {
        let sum = match self.pending[id.index()].take() {
            None => gradient,
            Some(earlier) if self.storages.is_shared(earlier.storage) => {
                let sum = self.fresh(id);
                self.storages.release_all([earlier.storage, gradient.storage]);
                sum
            }
            Some(earlier) => {
                self.storages.release(gradient.storage);
                earlier
            }
        };
        self.pending[id.index()] = Some(sum);
    }
}
