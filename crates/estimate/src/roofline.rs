//! Run time by the roofline model: each operator takes as long as its arithmetic or its memory traffic, whichever is longer, at the
//! rates a GPU's maker publishes. No machine reaches both, so what this gives is a relative length until a machine is calibrated.

use crate::forward::Program;
use crate::gpu::Gpu;
use crate::operators::{Storage, flops};

/// Work of a graph, operator by operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// Floating-point operations and bytes moved of each operator that does anything.
    operators: Vec<(f64, f64)>,
}

/// Backward passes compute two gradients for each product, so training does three times the work.
const TRAINING_FACTOR: f64 = 3.0;

impl Work {
    pub(crate) fn of(program: &Program<'_>) -> Self {
        let graph = program.graph;
        let pairs = graph.nodes.iter().zip(&program.semantics);
        let moves = pairs.filter(|(_, semantics)| !matches!(semantics.storage, Storage::View(_)));
        let operators = moves.map(|(node, semantics)| {
            let touched = node.tensors().chain(node.outputs.iter().copied());
            let bytes = touched.fold(0u64, |sum, id| sum.saturating_add(graph.tensor(id).bytes()));
            (flops(graph, node, semantics.macs) as f64, bytes as f64)
        });
        Self { operators: operators.collect() }
    }

    /// Work of reading weights once for each token, as generation does.
    pub(crate) fn of_weights(macs: u64, bytes: u64) -> Self {
        Self { operators: vec![(2.0 * macs as f64, bytes as f64)] }
    }

    /// Seconds on a type of GPU at its nominal rates, where both are known.
    pub(crate) fn seconds(&self, gpu: &Gpu, training: bool) -> Option<f64> {
        let rate = gpu.flops?;
        let each = self.operators.iter().map(|(flops, bytes)| (flops / rate).max(bytes / gpu.bandwidth));
        let forward: f64 = each.sum();
        Some(if training { forward * TRAINING_FACTOR } else { forward })
    }
}
