//! Strides as CUDA kernels lay results out, where an export made on another device says otherwise. Decides which later views and
//! copies are free.

use crate::graph::{Graph, row_major};
use crate::operators::permutation;
use crate::operators::view_strides;

/// Corrects strides in place. Fused attention writes its result with tokens before heads, so that merging the heads again is a
/// view; on CPU and on the meta device heads come first, and merging them copies.
pub(crate) fn on_cuda(graph: &mut Graph) {
    let mut changed = vec![false; graph.tensors.len()];
    for at in 0..graph.nodes.len() {
        let node = &graph.nodes[at];
        let (Some(input), Some(result)) = (node.first(), node.outputs.first().copied()) else { continue };
        let (of, shape) = (graph.tensor(input), &graph.tensor(result).shape);
        let strides = match node.operator.as_str() {
            "scaled_dot_product_attention" if shape.len() == 4 => {
                let [batch, heads, tokens, width] = shape[..] else { continue };
                let dense = row_major(&[batch, tokens, heads, width]);
                Some(vec![dense[0], dense[2], dense[1], dense[3]])
            }
            _ if !changed[input.index()] => continue,
            "view" | "_unsafe_view" | "unsqueeze" | "squeeze" | "unflatten" | "reshape" | "flatten" => {
                Some(view_strides(&of.shape, &of.strides, shape).unwrap_or_else(|| row_major(shape)))
            }
            "permute" | "transpose" | "t" => permutation(node, of.shape.len())
                .map(|order| order.iter().map(|from| of.strides[*from]).collect()),
            "contiguous" => Some(row_major(shape)),
            _ => None,
        };
        if let Some(strides) = strides {
            graph.tensors[result.index()].strides = strides;
            changed[result.index()] = true;
        }
    }
}
