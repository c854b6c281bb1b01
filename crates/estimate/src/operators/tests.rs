//! The table against what PyTorch's kernels are known to do.

use super::*;
use crate::calls::Calls;
use crate::graph::{DType, Format, Role};

/// A graph of operands of the given shapes and one node with one result.
fn graph(
    operator: &str,
    operands: &[(&str, Vec<u64>)],
    result: Vec<u64>,
    attributes: Vec<(&str, Arg)>,
) -> Graph {
    let mut tensors: Vec<Tensor> = operands
        .iter()
        .map(|(name, shape)| Tensor::dense(*name, DType::F32, shape.clone(), Role::Activation))
        .collect();
    let args = operands
        .iter()
        .enumerate()
        .map(|(at, (name, _))| (name.to_string(), Arg::Tensor(TensorId(at as u32))));
    let args = args.chain(attributes.into_iter().map(|(name, arg)| (name.to_owned(), arg))).collect();
    let output = TensorId(tensors.len() as u32);
    tensors.push(Tensor::dense("result", DType::F32, result, Role::Activation));
    let node = Node { operator: operator.to_owned(), args, outputs: vec![output], detached: false };
    Graph { format: Format::Pt2, tensors, nodes: vec![node], outputs: vec![output], calls: Calls::default() }
}

fn of(graph: &Graph, wanted: &[bool]) -> Semantics {
    let mut all = vec![true; graph.tensors.len()];
    all[..wanted.len()].copy_from_slice(wanted);
    semantics(graph, &graph.nodes[0], &all, Device::Cuda)
}

const A: TensorId = TensorId(0);
const B: TensorId = TensorId(1);

#[test]
fn clamps_in_place_clone_their_input_and_relu_does_not() {
    let clamp = graph("hardtanh_", &[("self", vec![10])], vec![10], vec![]);
    let clamp = of(&clamp, &[true]);
    assert_eq!((clamp.storage, clamp.saved), (Storage::InPlace(A), vec![Saved::Extra(40)]));
    let relu = graph("relu_", &[("self", vec![10])], vec![10], vec![]);
    let relu = of(&relu, &[true]);
    assert_eq!(
        (relu.storage, relu.saved),
        (Storage::InPlace(A), vec![Saved::Tensor(B)]),
        "its result is enough"
    );
}

#[test]
fn a_factor_is_kept_where_the_other_wants_a_gradient() {
    let product = graph("mul", &[("self", vec![4, 8]), ("other", vec![4, 1])], vec![4, 8], vec![]);
    assert_eq!(of(&product, &[true, true]).saved, [Saved::Tensor(A), Saved::Tensor(B)]);
    assert_eq!(of(&product, &[true, false]).saved, [Saved::Tensor(B)]);
    assert_eq!(of(&product, &[false, true]).saved, [Saved::Tensor(A)]);
    assert_eq!(of(&product, &[true, true]).gradients, [(A, Gradient::Fresh), (B, Gradient::Reduced)]);
}

#[test]
fn attention_heads_are_copied_for_a_batched_product() {
    let mut scores = graph(
        "matmul",
        &[("self", vec![2, 8, 16, 4]), ("other", vec![2, 8, 4, 16])],
        vec![2, 8, 16, 16],
        vec![],
    );
    assert_eq!(
        of(&scores, &[true, true]).saved,
        [Saved::Tensor(A), Saved::Tensor(B)],
        "dense operands are views"
    );
    // Queries as a transposed view of (batch, tokens, heads, width).
    scores.tensors[0].strides = vec![512, 4, 32, 1];
    assert_eq!(of(&scores, &[true, true]).saved, [Saved::Extra(2 * 8 * 16 * 4 * 4), Saved::Tensor(B)]);
    assert_eq!(of(&scores, &[true, true]).macs, 2 * 8 * 16 * 16 * 4);
}

#[test]
fn dropout_that_drops_nothing_is_a_view() {
    let of_probability = |p: f64, train: bool| {
        let graph = graph(
            "dropout",
            &[("input", vec![100])],
            vec![100],
            vec![("p", Arg::Float(p)), ("train", Arg::Bool(train))],
        );
        of(&graph, &[true])
    };
    assert_eq!(of_probability(0.1, true).saved, [Saved::Extra(100)], "a mask of one byte each");
    assert_eq!(of_probability(0.0, true).storage, Storage::View(A));
    assert_eq!(of_probability(0.1, false).storage, Storage::View(A));
}

#[test]
fn a_reshape_copies_only_what_strides_forbid() {
    let mut reshape = graph("reshape", &[("self", vec![4, 6])], vec![24], vec![]);
    assert_eq!(of(&reshape, &[true]).storage, Storage::View(A));
    reshape.tensors[0].strides = vec![1, 4];
    assert_eq!(of(&reshape, &[true]).storage, Storage::Fresh);
}

#[test]
fn an_unknown_operator_keeps_all_it_touches() {
    let strange = graph("frobnicate", &[("self", vec![10]), ("other", vec![5])], vec![20], vec![]);
    let strange = of(&strange, &[true, true]);
    assert!(!strange.known);
    assert_eq!(strange.saved.len(), 3);
    assert_eq!(strange.scratch, [140]);
}

#[test]
fn every_name_is_in_one_list() {
    let lists = [KEEPS_INPUT, KEEPS_RESULT, KEEPS_NOTHING, NOT_DIFFERENTIABLE];
    let mut all: Vec<_> = lists.concat();
    let before = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), before);
}
