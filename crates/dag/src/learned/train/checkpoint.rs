//! Training settings and checkpoints: the state to resume from, in one file with the network itself. The file of a
//! finished training is a plain network.

use std::collections::BTreeMap;

use super::super::network::{Network, NetworkError};
use super::super::tensors::Tensors;

/// Settings of a training run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingConfig {
    /// Seed of all random draws.
    pub seed: u64,
    /// Size of the training set.
    pub instances: usize,
    /// Schedules per search.
    pub search: u64,
    /// Passes of imitation over the training set.
    pub imitate: usize,
    /// Steps of improvement.
    pub improve: usize,
}

impl TrainingConfig {
    /// Settings as metadata of the file.
    fn metadata(&self) -> [(&'static str, u64); 5] {
        let number = |n: usize| n as u64;
        [
            ("seed", self.seed),
            ("instances", number(self.instances)),
            ("search", self.search),
            ("imitate", number(self.imitate)),
            ("improve", number(self.improve)),
        ]
    }
}

/// Reason a file is no checkpoint to resume from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// No valid network in it.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Network without training state.
    #[error("it holds a network, but no training to go on with")]
    Finished,
    /// Checkpoint of a run with other settings.
    #[error("its training was begun with {setting} {found}, not {expected}")]
    Other {
        /// Name of the setting.
        setting: &'static str,
        /// Value in the file.
        found: String,
        /// Requested value.
        expected: u64,
    },
}

/// State of training between two steps.
#[derive(Debug, Clone, PartialEq)]
pub enum Checkpoint {
    /// Bias weights, foresight and thrift, that searches ended with, one pair per instance so far. Imitating them is
    /// quick and starts over when interrupted.
    Searched(Vec<[f32; 2]>),
    /// Network that imitates them, being improved.
    Improved(EvolutionState),
}

/// State of evolution strategies.
#[derive(Debug, Clone, PartialEq)]
pub struct EvolutionState {
    /// Current weights, which fluctuate around good ones.
    pub(super) current: Network,
    /// Running average of recent weights: better than the current ones.
    pub(super) averaged: Network,
    /// Steps of state done.
    pub(super) step: usize,
    /// Adam's moments: running mean of gradients and of their squares.
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
}

impl EvolutionState {
    pub(super) fn new(network: Network) -> Self {
        let size = network.weights.len();
        Self {
            current: network.clone(),
            averaged: network,
            step: 0,
            first: vec![0.0; size],
            second: vec![0.0; size],
        }
    }

    fn to_tensors(&self) -> Tensors {
        let mut tensors = self.averaged.to_tensors();
        let notes = [
            ("training.at", &self.current.weights),
            ("training.first", &self.first),
            ("training.second", &self.second),
        ];
        for (name, values) in notes {
            tensors.parts.push((name.to_owned(), 1, values.len(), values.clone()));
        }
        tensors.metadata.insert(STEP.to_owned(), self.step.to_string());
        tensors
    }

    fn of_tensors(tensors: &Tensors, step: usize) -> Result<Self, NetworkError> {
        let averaged = Network::of_tensors(tensors)?;
        let note = |name| tensors.tensor(name, 1, averaged.weights.len()).map(<[f32]>::to_vec);
        let current = Network { weights: note("training.at")? };
        let (first, second) = (note("training.first")?, note("training.second")?);
        Ok(Self { current, averaged, step, first, second })
    }
}

const STEP: &str = "step";
const SEARCHED: &str = "searched";
const BIAS_WEIGHTS: &str = "training.leanings";

impl Default for Checkpoint {
    fn default() -> Self {
        Self::Searched(Vec::new())
    }
}

impl Checkpoint {
    /// Network reached so far, if any.
    pub fn network(&self) -> Option<&Network> {
        match self {
            Self::Searched(_) => None,
            Self::Improved(state) => Some(&state.averaged),
        }
    }

    /// Steps of improvement done.
    pub fn steps(&self) -> usize {
        match self {
            Self::Searched(_) => 0,
            Self::Improved(state) => state.step,
        }
    }

    /// Serialises to a safetensors file: the network if there is one, and the state to resume from.
    pub fn to_bytes(&self, config: &TrainingConfig) -> Vec<u8> {
        let mut tensors = match self {
            Self::Improved(state) => state.to_tensors(),
            Self::Searched(weights) => Tensors {
                parts: vec![(BIAS_WEIGHTS.to_owned(), weights.len(), 2, weights.as_flattened().to_vec())],
                metadata: BTreeMap::from([(SEARCHED.to_owned(), weights.len().to_string())]),
            },
        };
        let metadata = config.metadata().map(|(name, value)| (name.to_owned(), value.to_string()));
        tensors.metadata.extend(metadata);
        tensors.write()
    }

    /// Parses the output of [`Checkpoint::to_bytes`].
    ///
    /// # Errors
    /// When the bytes are no checkpoint, or one of a run with other settings.
    pub fn from_bytes(bytes: &[u8], config: &TrainingConfig) -> Result<Self, CheckpointError> {
        let tensors = Tensors::read(bytes)?;
        let number = |name| tensors.metadata.get(name).and_then(|number| number.parse().ok());
        let (searched, step): (Option<usize>, Option<usize>) = (number(SEARCHED), number(STEP));
        if searched.or(step).is_none() {
            Network::of_tensors(&tensors)?;
            return Err(CheckpointError::Finished);
        }
        for (setting, expected) in config.metadata() {
            let found = tensors.metadata.get(setting).cloned().unwrap_or_default();
            if found != expected.to_string() {
                return Err(CheckpointError::Other { setting, found, expected });
            }
        }
        match searched {
            Some(count) => {
                let weights = tensors.tensor(BIAS_WEIGHTS, count, 2)?;
                Ok(Self::Searched(weights.as_chunks::<2>().0.to_vec()))
            }
            None => Ok(Self::Improved(EvolutionState::of_tensors(&tensors, step.unwrap_or_default())?)),
        }
    }
}
