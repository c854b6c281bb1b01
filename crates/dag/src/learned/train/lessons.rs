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

/// How far training got.
#[derive(Debug, Clone, PartialEq)]
pub enum Lessons {
    /// The leanings that searches ended with, foresight and thrift, one pair of each instance so far. Imitating them is
    /// quick, and begins anew where it was interrupted.
    Searched(Vec<[f32; 2]>),
    /// A network that imitates them, and improves.
    Improved(Improvement),
}

/// A network getting better.
#[derive(Debug, Clone, PartialEq)]
pub struct Improvement {
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

impl Improvement {
    pub(super) fn begun(network: Network) -> Self {
        let size = network.weights.len();
        Self { at: network.clone(), mean: network, step: 0, first: vec![0.0; size], second: vec![0.0; size] }
    }

    fn to_tensors(&self) -> Tensors {
        let mut tensors = self.mean.to_tensors();
        let notes = [
            ("training.at", &self.at.weights),
            ("training.first", &self.first),
            ("training.second", &self.second),
        ];
        for (name, values) in notes {
            tensors.parts.push((name.to_owned(), 1, values.len(), values.clone()));
        }
        tensors.about.insert(STEP.to_owned(), self.step.to_string());
        tensors
    }

    fn of_tensors(tensors: &Tensors, step: usize) -> Result<Self, NetworkError> {
        let mean = Network::of_tensors(tensors)?;
        let note = |name| tensors.part(name, 1, mean.weights.len()).map(<[f32]>::to_vec);
        let at = Network { weights: note("training.at")? };
        let (first, second) = (note("training.first")?, note("training.second")?);
        Ok(Self { at, mean, step, first, second })
    }
}

const STEP: &str = "step";
const SEARCHED: &str = "searched";
const LEANINGS: &str = "training.leanings";

impl Default for Lessons {
    fn default() -> Self {
        Self::Searched(Vec::new())
    }
}

impl Lessons {
    /// The network as far as it got, if there is one yet.
    pub fn network(&self) -> Option<&Network> {
        match self {
            Self::Searched(_) => None,
            Self::Improved(improvement) => Some(&improvement.mean),
        }
    }

    /// Steps of improvement done.
    pub fn steps(&self) -> usize {
        match self {
            Self::Searched(_) => 0,
            Self::Improved(improvement) => improvement.step,
        }
    }

    /// A safetensors file: the network if there is one, and what is needed to go on.
    pub fn to_bytes(&self, training: &Training) -> Vec<u8> {
        let mut tensors = match self {
            Self::Improved(improvement) => improvement.to_tensors(),
            Self::Searched(leanings) => Tensors {
                parts: vec![(LEANINGS.to_owned(), leanings.len(), 2, leanings.as_flattened().to_vec())],
                about: BTreeMap::from([(SEARCHED.to_owned(), leanings.len().to_string())]),
            },
        };
        let words = training.words().map(|(name, value)| (name.to_owned(), value.to_string()));
        tensors.about.extend(words);
        tensors.write()
    }

    /// Reads what [`Lessons::to_bytes`] wrote.
    ///
    /// # Errors
    /// When it is something else, or was begun with other settings.
    pub fn from_bytes(bytes: &[u8], training: &Training) -> Result<Self, LessonsError> {
        let tensors = Tensors::read(bytes)?;
        let number = |name| tensors.about.get(name).and_then(|number| number.parse().ok());
        let (searched, step): (Option<usize>, Option<usize>) = (number(SEARCHED), number(STEP));
        if searched.or(step).is_none() {
            Network::of_tensors(&tensors)?;
            return Err(LessonsError::Finished);
        }
        for (what, asked) in training.words() {
            let found = tensors.about.get(what).cloned().unwrap_or_default();
            if found != asked.to_string() {
                return Err(LessonsError::Other { what, found, asked });
            }
        }
        match searched {
            Some(count) => {
                let leanings = tensors.part(LEANINGS, count, 2)?;
                Ok(Self::Searched(leanings.as_chunks::<2>().0.to_vec()))
            }
            None => Ok(Self::Improved(Improvement::of_tensors(&tensors, step.unwrap_or_default())?)),
        }
    }
}
