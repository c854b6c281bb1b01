//! Views: when a tensor can be seen in another shape without copying it, as ATen decides it, and how strides of a gradient
//! travel back through a view.

use crate::graph::{Arg, Node};

/// Strides under which memory laid out as `strides` over `shape` can be seen as `target`; none where that takes a copy.
///
/// ATen's `computeStride`: dimensions that are contiguous with their neighbours form chunks, and every target dimension must lie
/// within one chunk.
pub(crate) fn view_strides(shape: &[u64], strides: &[u64], target: &[u64]) -> Option<Vec<u64>> {
    let elements = |shape: &[u64]| shape.iter().fold(1u64, |product, &size| product.saturating_mul(size));
    if elements(shape) != elements(target) {
        return None;
    }
    if elements(shape) == 0 || shape.is_empty() {
        return Some(crate::graph::row_major(target));
    }
    let mut result = vec![0; target.len()];
    let mut at = target.len();
    let mut chunk_stride = *strides.last()?;
    let (mut in_chunk, mut placed) = (1u64, 1u64);
    for dimension in (0..shape.len()).rev() {
        in_chunk = in_chunk.saturating_mul(shape[dimension]);
        let ends_chunk = dimension == 0
            || (shape[dimension - 1] != 1 && strides[dimension - 1] != in_chunk.saturating_mul(chunk_stride));
        if !ends_chunk {
            continue;
        }
        while at > 0 && (placed < in_chunk || target[at - 1] == 1) {
            result[at - 1] = placed.saturating_mul(chunk_stride);
            placed = placed.saturating_mul(target[at - 1]);
            at -= 1;
        }
        if placed != in_chunk {
            return None;
        }
        if dimension > 0 {
            chunk_stride = strides[dimension - 1];
            (in_chunk, placed) = (1, 1);
        }
    }
    (at == 0).then_some(result)
}

/// Where each dimension of the result of `permute`, `transpose` or `t` comes from.
pub(crate) fn permutation(node: &Node, rank: usize) -> Option<Vec<usize>> {
    let wrap =
        |dim: i64| usize::try_from(if dim < 0 { dim + rank as i64 } else { dim }).ok().filter(|d| *d < rank);
    match (node.operator.as_str(), node.arg("dims"), node.int("dim0"), node.int("dim1")) {
        ("permute", Some(Arg::Ints(dims)), ..) if dims.len() == rank => {
            dims.iter().map(|dim| wrap(*dim)).collect()
        }
        ("transpose", _, Some(a), Some(b)) => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(wrap(a)?, wrap(b)?);
            Some(order)
        }
        ("t" | "numpy_T", ..) => Some((0..rank).rev().collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_those_of_aten() {
        assert_eq!(view_strides(&[2, 3, 4], &[12, 4, 1], &[6, 4]), Some(vec![4, 1]));
        assert_eq!(view_strides(&[2, 3, 4], &[12, 4, 1], &[24]), Some(vec![1]));
        assert_eq!(view_strides(&[2, 4, 3], &[12, 1, 4], &[24]), None, "transposed");
        assert_eq!(view_strides(&[2, 4, 3], &[12, 1, 4], &[2, 2, 2, 3]), Some(vec![12, 2, 1, 4]));
        assert_eq!(
            view_strides(&[2, 8, 128, 64], &[65536, 64, 512, 1], &[16, 128, 64]),
            None,
            "heads before tokens"
        );
        assert_eq!(view_strides(&[1, 8], &[8, 1], &[8, 1, 1]), Some(vec![1, 1, 1]));
        assert_eq!(view_strides(&[4, 1], &[1, 1], &[4]), Some(vec![1]));
        assert_eq!(view_strides(&[], &[], &[1]), Some(vec![1]));
    }

    #[test]
    fn permutations_take_negative_dimensions() {
        let node = |operator: &str, args: Vec<(&str, Arg)>| Node {
            operator: operator.to_owned(),
            args: args.into_iter().map(|(name, arg)| (name.to_owned(), arg)).collect(),
            outputs: vec![],
            detached: false,
        };
        let transposed = node("transpose", vec![("dim0", Arg::Int(-1)), ("dim1", Arg::Int(-2))]);
        assert_eq!(permutation(&transposed, 3), Some(vec![0, 2, 1]));
        assert_eq!(
            permutation(&node("permute", vec![("dims", Arg::Ints(vec![0, 2, -2]))]), 3),
            Some(vec![0, 2, 1])
        );
        assert_eq!(permutation(&node("permute", vec![("dims", Arg::Ints(vec![0, 7, 1]))]), 3), None);
    }
}
