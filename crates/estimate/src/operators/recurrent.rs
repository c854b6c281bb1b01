//! Recurrent layers: `lstm`, `gru` and `rnn_*` run all layers and steps in one operator. The unit below is one value for every step,
//! sequence and hidden number of a layer, which is the size of its output.

use super::{Call, Device, Gradient, Saved, Semantics};
use crate::graph::{Arg, TensorId};

/// More layers than any model stacks in one operator; what a damaged file says beyond that is not believed.
const MAX_LAYERS: u64 = 1024;

/// Values that a layer keeps for backward beside its output, in tenths of a unit.
///
/// On the CPU an LSTM is one oneDNN primitive, whose workspace was seen to have 15.4 to 15.9 units from 32 steps on; a GRU runs step
/// by step and keeps three gates, two clones that multiplications in place make, the candidate and the state. cuDNN's reserve is not
/// documented: for it gates, cell and state are assumed.
fn kept_tenths(cell: &str, device: Device) -> u64 {
    match (cell, device) {
        ("lstm", Device::Cpu) => 157,
        ("lstm", Device::Cuda) => 60,
        ("gru", Device::Cpu) => 70,
        ("gru", Device::Cuda) => 50,
        _ => 20,
    }
}

/// Units held only while a layer runs: where no primitive does it all, the input's share of all gates, before and after the bias.
fn scratch_units(cell: &str, device: Device) -> u64 {
    match (cell, device) {
        ("lstm", Device::Cpu) | (_, Device::Cuda) => 1,
        ("gru", Device::Cpu) => 6,
        _ => 2,
    }
}

impl Call<'_> {
    pub(super) fn recurrent(&self, cell: &str) -> Option<Semantics> {
        let node = self.node;
        let input = node.tensor("input")?;
        let weights: Vec<TensorId> = match node.arg("params") {
            Some(Arg::Tensors(weights)) => weights.clone(),
            _ => node.tensors().skip(1).collect(),
        };
        let layers = u64::try_from(node.int("num_layers").unwrap_or(1)).ok()?.min(MAX_LAYERS);
        let result = self.result()?;
        let unit = self.tensor(result).bytes();
        let units = |count: u64| unit.saturating_mul(count);
        // Steps come first inside; a batch that comes first is copied, and the copy is what is kept.
        let first = match node.bool("batch_first") {
            Some(true) => Saved::Extra(self.tensor(input).bytes()),
            _ => Saved::Tensor(input),
        };
        let mut saved = vec![first, Saved::Tensor(result)];
        let kept = units(kept_tenths(cell, self.device)) / 10;
        saved.extend((0..layers).map(|_| Saved::Extra(kept)));
        saved.extend((1..layers).map(|_| Saved::Extra(unit)));
        let drops = node.bool("train") == Some(true) && !matches!(node.arg("dropout"), Some(Arg::Float(0.0)));
        if drops {
            let mask = match self.device {
                Device::Cuda => self.tensor(result).elements(),
                Device::Cpu => unit,
            };
            saved.extend((1..layers).flat_map(|_| [Saved::Extra(unit), Saved::Extra(mask)]));
        }
        let mut scratch = vec![units(scratch_units(cell, self.device))];
        // Without a gradient nothing is kept, but the copy is still made.
        if let (Saved::Extra(copy), false) = (first, weights.iter().any(|id| self.wants(*id))) {
            scratch.push(copy);
        }
        let trained = std::iter::once(input).chain(weights.iter().copied());
        Some(Semantics {
            saved,
            scratch,
            gradients: trained.map(|id| (id, Gradient::Fresh)).collect(),
            uses_blas: true,
            ..Semantics::fresh()
        })
    }
}
