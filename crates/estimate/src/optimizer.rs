//! Optimisers of `torch.optim`: how much state each keeps per parameter and how much it needs while it steps, on the multi-tensor
//! path that CUDA parameters take by default. State is made in the first step, after the first backward pass.

use std::fmt;
use std::str::FromStr;

/// An optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimizer {
    /// Stochastic gradient descent without momentum.
    Sgd,
    /// Stochastic gradient descent with momentum.
    Momentum,
    /// Adam.
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
    /// RMSprop.
    RmsProp,
    /// Adagrad.
    Adagrad,
}

impl Optimizer {
    /// Every optimiser, with its name on the command line.
    pub const ALL: &[(&str, Self)] = &[
        ("sgd", Self::Sgd),
        ("momentum", Self::Momentum),
        ("adam", Self::Adam),
        ("adamw", Self::AdamW),
        ("rmsprop", Self::RmsProp),
        ("adagrad", Self::Adagrad),
    ];

    /// Tensors of a parameter's size that are kept for it.
    pub(crate) fn states(self) -> usize {
        match self {
            Self::Sgd => 0,
            Self::Momentum | Self::RmsProp | Self::Adagrad => 1,
            Self::Adam | Self::AdamW => 2,
        }
    }

    /// Tensors of every parameter's size that live while all are stepped: square roots of second moments, and for Adagrad the
    /// scaled gradients as well.
    pub(crate) fn temporaries(self) -> usize {
        match self {
            Self::Sgd | Self::Momentum => 0,
            Self::Adam | Self::AdamW | Self::RmsProp => 1,
            Self::Adagrad => 2,
        }
    }

    /// Tensors of one parameter's size that live while it is stepped, on the single-tensor path that the CPU takes.
    pub(crate) fn single_tensor_temporaries(self) -> usize {
        match self {
            Self::Sgd | Self::Momentum => 0,
            Self::RmsProp | Self::Adagrad => 1,
            // The square root, and its quotient by the bias correction.
            Self::Adam | Self::AdamW => 2,
        }
    }

    /// Whether state exists before the first step: Adagrad makes its sums when it is constructed.
    pub(crate) fn is_eager(self) -> bool {
        self == Self::Adagrad
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, known)| known == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// A name that no optimiser here has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is no optimiser known here (there are sgd, momentum, adam, adamw, rmsprop, adagrad)")]
pub struct UnknownOptimizer;

impl FromStr for Optimizer {
    type Err = UnknownOptimizer;

    /// Names as people write them: `AdamW`, `adam-w`, `RMSprop`.
    fn from_str(text: &str) -> Result<Self, UnknownOptimizer> {
        let plain: String =
            text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let plain = if plain == "sgdmomentum" { "momentum".to_owned() } else { plain };
        Self::ALL.iter().find(|(name, _)| *name == plain).map(|(_, known)| *known).ok_or(UnknownOptimizer)
    }
}
