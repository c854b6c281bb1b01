//! What has been learned so far, and from what: enough to go on, in one file with the network itself. The file of a
//! finished training is a plain network.

use std::collections::BTreeMap;

use super::super::network::{Network, NetworkError};
use super::super::tensors::Tensors;

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// Names the run.
    pub seed: u64,
    /// How many instances to learn from.
    pub instances: usize,
    /// Schedules a search makes before it is imitated.
    pub search: u64,
    /// Passes over the instances by imitation.
    pub imitate: usize,
    /// Steps of improvement.
    pub improve: usize,
}

impl Training {
    fn words(&self) -> [(&'static str, u64); 5] {
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

/// Why a file is nothing to go on from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LessonsError {
    /// It holds no network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// It is a network without the notes that training leaves in it.
    #[error("it holds a network, but no training to go on with")]
    Finished,
    /// It was begun with other settings.
    #[error("its training was begun with {what} {found}, not {asked}")]
    Other {
        /// Which setting.
        what: &'static str,
        /// As begun.
        found: String,
        /// As asked for.
        asked: u64,
    },
}

/// A network in training.
#[derive(Debug, Clone, PartialEq)]
pub struct Lessons {
    /// Where training is. It wanders about what is good.
    pub(super) at: Network,
    /// The mean of where it was of late: better than where it is.
    pub(super) mean: Network,
    /// Steps of improvement done.
    pub(super) step: usize,
    /// The running mean of slopes and of their squares.
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
}

impl Lessons {
    pub(super) fn begun(network: Network) -> Self {
        let size = network.weights.len();
        Self { at: network.clone(), mean: network, step: 0, first: vec![0.0; size], second: vec![0.0; size] }
    }

    /// The network as far as it got.
    pub fn network(&self) -> &Network {
        &self.mean
    }

    /// Steps of improvement done.
    pub fn steps(&self) -> usize {
        self.step
    }

    /// A safetensors file: the network, and what is needed to go on.
    pub fn to_bytes(&self, training: &Training) -> Vec<u8> {
        let mut tensors = self.mean.to_tensors();
        let notes = [
            ("training.at", &self.at.weights),
            ("training.first", &self.first),
            ("training.second", &self.second),
        ];
        for (name, values) in notes {
            tensors.parts.push((name.to_owned(), 1, values.len(), values.clone()));
        }
        let words = training.words().map(|(name, value)| (name.to_owned(), value.to_string()));
        tensors.about = BTreeMap::from(words);
        tensors.about.insert("step".to_owned(), self.step.to_string());
        tensors.write()
    }

    /// Reads what [`Lessons::to_bytes`] wrote.
    ///
    /// # Errors
    /// When it is something else, or was begun with other settings.
    pub fn from_bytes(bytes: &[u8], training: &Training) -> Result<Self, LessonsError> {
        let tensors = Tensors::read(bytes)?;
        let mean = Network::of_tensors(&tensors)?;
        let step =
            tensors.about.get("step").and_then(|step| step.parse().ok()).ok_or(LessonsError::Finished)?;
        for (what, asked) in training.words() {
            let found = tensors.about.get(what).cloned().unwrap_or_default();
            if found != asked.to_string() {
                return Err(LessonsError::Other { what, found, asked });
            }
        }
        let note = |name| tensors.part(name, 1, mean.weights.len()).map(<[f32]>::to_vec);
        let at = Network { weights: note("training.at")? };
        let (first, second) = (note("training.first")?, note("training.second")?);
        Ok(Self { at, mean, step, first, second })
    }
}
