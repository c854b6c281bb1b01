//! Arithmetic of operators: multiply-adds of convolutions and matrix products, and floating-point operations of everything.

use crate::graph::{Arg, Graph, Node, TensorId};

fn product(factors: impl IntoIterator<Item = u64>) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

/// Multiply-adds: those of convolutions, matrix products and attention; all else counts as none, as is customary.
pub(super) fn macs(graph: &Graph, node: &Node) -> u64 {
    let shape = |id: TensorId| graph.tensor(id);
    let Some(result) = node.outputs.first().map(|id| shape(*id)) else { return 0 };
    let of = |name: &str| node.tensor(name).map(shape);
    match node.operator.as_str() {
        // Every element of the result takes the weights of one output channel.
        "conv1d" | "conv2d" | "conv3d" | "convolution" => of("weight").map_or(0, |weight| {
            product([result.elements()].into_iter().chain(weight.shape.iter().skip(1).copied()))
        }),
        // Every element of the input is multiplied with the weights of one input channel.
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => {
            match (node.first().map(shape), of("weight")) {
                (Some(input), Some(weight)) => {
                    product([input.elements()].into_iter().chain(weight.shape.iter().skip(1).copied()))
                }
                _ => 0,
            }
        }
        "linear" => of("weight").map_or(0, |weight| product([result.elements(), weight.last(0)])),
        "matmul" | "mm" | "bmm" | "mv" | "dot" => {
            node.first().map_or(0, |a| product([result.elements(), shape(a).last(0)]))
        }
        "addmm" | "baddbmm" => {
            node.tensors().nth(1).map_or(0, |a| product([result.elements(), shape(a).last(0)]))
        }
        // Every step of every sequence is multiplied with all matrices.
        "lstm" | "gru" | "rnn_tanh" | "rnn_relu" => of("input").map_or(0, |input| {
            let steps = input.elements().checked_div(input.last(0)).unwrap_or(0);
            let is_weight = |name: &str| name == "params" || name.starts_with("weight");
            let weights =
                node.args.iter().filter(|(name, _)| is_weight(name)).flat_map(|(_, arg)| match arg {
                    Arg::Tensor(id) => std::slice::from_ref(id),
                    Arg::Tensors(ids) => ids.as_slice(),
                    _ => &[],
                });
            let matrices = weights.map(|id| shape(*id)).filter(|weight| weight.shape.len() >= 2);
            matrices.fold(0u64, |sum, weight| sum.saturating_add(product([steps, weight.elements()])))
        }),
        "scaled_dot_product_attention" => match (of("query"), of("key")) {
            // Scores, and the values weighted by them.
            (Some(query), Some(key)) => {
                let scores = product([query.elements(), key.last(1)]);
                scores.saturating_add(product([result.elements(), key.last(1)]))
            }
            _ => 0,
        },
        _ => 0,
    }
}

/// Floating-point operations: two for each multiply-add, else one for each element of operands and results.
pub(super) fn flops(graph: &Graph, node: &Node, macs: u64) -> u64 {
    if macs > 0 {
        return macs.saturating_mul(2);
    }
    let elements = |id: &TensorId| graph.tensor(*id).elements();
    let operands = node.tensors().map(|id| elements(&id)).max().unwrap_or(0);
    operands.max(node.outputs.iter().map(elements).max().unwrap_or(0))
}
