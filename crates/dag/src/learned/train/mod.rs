//! Training, reproducible from a seed: searches yield bias weights, which are imitated by gradient descent in candle;
//! then evolution strategies improve the network over HEFT itself, because a makespan has no gradient. Every step
//! draws from the seed and its own number, so that training can stop after any step and resume: the same settings and
//! number of steps give the same bytes.

mod checkpoint;
mod evolution;
mod imitation;
mod training_set;

pub use checkpoint::{Checkpoint, CheckpointError, EvolutionState, TrainingConfig};

use super::NetworkInput;
use super::network::Network;
use crate::algorithm::{SearchOptions, heft, search_bias_weights};
use crate::insertion::CheapestMachines;
use crate::instance::Instance;
use crate::remaining_cost::RemainingCosts;

/// Training set.
pub fn instances(config: &TrainingConfig) -> Vec<Instance> {
    training_set::instances(config.seed, config.instances)
}

/// Progress of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingProgress {
    /// Current stage.
    pub stage: Stage,
    /// Steps done in this stage.
    pub step: usize,
    /// Steps of this stage in total.
    pub of: usize,
    /// Loss when imitating; mean makespan relative to HEFT's when improving.
    pub value: Option<f64>,
}

/// Stages of training, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Search of every instance for bias weights to imitate.
    Search,
    /// Imitation of them by gradient descent.
    Imitate,
    /// Improvement over HEFT by evolution strategies.
    Improve,
}

/// Training instance with its features, remaining costs and HEFT makespan.
struct Example<'a> {
    input: NetworkInput<'a>,
    remaining: RemainingCosts,
    heft: f64,
}

impl<'a> Example<'a> {
    fn new(instance: &'a Instance) -> Self {
        let input = NetworkInput::new(instance, &CheapestMachines::new(instance));
        Self { input, remaining: RemainingCosts::new(instance), heft: heft(instance).makespan() }
    }

    /// Makespan relative to HEFT's.
    fn share(&self, network: &Network) -> f64 {
        self.input.schedule(&self.input.infer(network), &self.remaining).makespan() / self.heft
    }
}

/// Trains from `checkpoint` until done or `stop` returns true. `report` is called after every step with the progress
/// and the state reached.
///
/// # Errors
/// Errors of candle.
pub fn train(
    config: &TrainingConfig,
    checkpoint: Checkpoint,
    mut stop: impl FnMut() -> bool,
    mut report: impl FnMut(TrainingProgress, &Checkpoint),
) -> candle_core::Result<Checkpoint> {
    let instances = instances(config);
    let examples: Vec<Example<'_>> = instances.iter().map(Example::new).collect();
    let state = match checkpoint {
        Checkpoint::Improved(state) => state,
        Checkpoint::Searched(weights) => {
            let searched = search(config, &examples, weights, &mut stop, &mut report);
            let network = imitation::imitate(config, &examples, &searched, &mut stop, &mut report)?;
            let Some(network) = network else { return Ok(searched) };
            EvolutionState::new(network)
        }
    };
    Ok(evolution::improve(config, &examples, state, &mut stop, &mut report))
}

/// Searches the instances that have no bias weights yet.
fn search(
    config: &TrainingConfig,
    examples: &[Example<'_>],
    weights: Vec<[f32; 2]>,
    stop: &mut impl FnMut() -> bool,
    report: &mut impl FnMut(TrainingProgress, &Checkpoint),
) -> Checkpoint {
    let done = weights.len();
    let mut checkpoint = Checkpoint::Searched(weights);
    for (at, example) in examples.iter().enumerate().skip(done) {
        if stop() {
            break;
        }
        let (foresight, thrift) =
            search_bias_weights(example.input.instance, &mut SearchOptions::iterations(config.search));
        if let Checkpoint::Searched(weights) = &mut checkpoint {
            weights.push([foresight as f32, thrift as f32]);
        }
        report(
            TrainingProgress { stage: Stage::Search, step: at + 1, of: examples.len(), value: None },
            &checkpoint,
        );
    }
    checkpoint
}
