//! Digests of models: equal for equal graphs, shapes and modes whatever tensors are called, so that what one run was measured to take is
//! known of the next. FNV-1a of an explicit form, which stays the same in every version, as derived hashes do not promise to.

use crate::graph::{Arg, Graph};
use crate::read::{Model, Weights};
use crate::{Mode, Request};

/// Digest of a model and how it is to be run: sixteen hexadecimal digits.
pub(crate) fn digest(model: &Model, request: &Request) -> String {
    let mut hash = Fnv::default();
    match request.mode {
        Mode::Infer => hash.text("infer"),
        Mode::Train => {
            hash.text("train");
            hash.text(&request.training.optimizer.to_string());
            hash.number(request.training.zero_grad as u64);
        }
    }
    match model {
        Model::Graph(graph) => hash.graph(graph),
        Model::Weights(weights) => {
            hash.number(request.context.unwrap_or(0));
            hash.weights(weights);
        }
    }
    format!("{:016x}", hash.0)
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// A text and its length, so that two texts in a row are not taken for one.
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.number(numbers.len() as u64);
        numbers.for_each(|number| self.number(number));
    }

    fn graph(&mut self, graph: &Graph) {
        self.number(graph.tensors.len() as u64);
        for tensor in &graph.tensors {
            self.bytes(&[tensor.dtype as u8, tensor.role as u8]);
            self.numbers(tensor.shape.iter().copied());
            self.numbers(tensor.strides.iter().copied());
        }
        self.number(graph.nodes.len() as u64);
        for node in &graph.nodes {
            self.text(&node.operator);
            self.bytes(&[u8::from(node.detached)]);
            self.number(node.args.len() as u64);
            for (name, arg) in &node.args {
                self.text(name);
                self.arg(arg);
            }
            self.numbers(node.outputs.iter().map(|id| u64::from(id.0)));
        }
        self.numbers(graph.outputs.iter().map(|id| u64::from(id.0)));
    }

    fn arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Tensor(id) => self.numbers([0, u64::from(id.0)].into_iter()),
            Arg::Tensors(ids) => {
                self.number(1);
                self.numbers(ids.iter().map(|id| u64::from(id.0)));
            }
            Arg::Int(number) => self.numbers([2, *number as u64].into_iter()),
            Arg::Ints(numbers) => {
                self.number(3);
                self.numbers(numbers.iter().map(|number| *number as u64));
            }
            Arg::Float(number) => self.numbers([4, number.to_bits()].into_iter()),
            Arg::Bool(truth) => self.numbers([5, u64::from(*truth)].into_iter()),
            Arg::Text(text) => {
                self.number(6);
                self.text(text);
            }
            Arg::None => self.number(7),
        }
    }

    fn weights(&mut self, weights: &Weights) {
        self.number(weights.parameters);
        self.number(weights.bytes);
        for (name, bytes) in &weights.largest {
            self.text(name);
            self.number(*bytes);
        }
        if let Some(transformer) = &weights.transformer {
            self.text(&transformer.architecture);
            let sizes = [transformer.layers, transformer.width, transformer.context, transformer.vocabulary];
            self.numbers(sizes.into_iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{DType, Format, Node, Role, Tensor, TensorId};
    use crate::{Calls, Optimizer};

    fn model(name: &str, batch: u64) -> Model {
        let tensor = |name: &str, role| Tensor::dense(name, DType::F32, vec![batch, 8], role);
        let arg = ("self".to_owned(), Arg::Tensor(TensorId(0)));
        let node =
            Node { operator: "relu".into(), args: vec![arg], outputs: vec![TensorId(1)], detached: false };
        Model::Graph(Graph {
            format: Format::Pt2,
            tensors: vec![tensor(name, Role::Input), tensor("result", Role::Activation)],
            nodes: vec![node],
            outputs: vec![TensorId(1)],
            calls: Calls::default(),
        })
    }

    #[test]
    fn it_depends_on_what_is_computed_and_not_on_names() {
        let infer = Request::new(Mode::Infer, Optimizer::Adam);
        let of = |name, batch, request: &Request| digest(&model(name, batch), request);
        // Written out, because what was measured is found by it after an upgrade.
        assert_eq!(of("x", 4, &infer), "27c476cda85041ff");
        assert_eq!(of("x", 4, &infer), of("renamed", 4, &infer));
        let others = [
            of("x", 5, &infer),
            of("x", 4, &Request::new(Mode::Train, Optimizer::Adam)),
            of("x", 4, &Request::new(Mode::Train, Optimizer::Sgd)),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(*other, of("x", 4, &infer));
            assert!(!others[..i].contains(other), "{others:?}");
        }
    }
}
