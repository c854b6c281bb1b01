//! Training, reproducible from a seed: searches first, whose leanings are imitated by gradient descent in candle; then
//! improvement over HEFT itself, by evolution strategies, because a schedule has no gradient. Every step draws from
//! the seed and its own number, so that training may stop after any of them and go on later: the same settings and the
//! same number of steps give the same bytes.

mod imitate;
mod improve;
mod lessons;
mod shapes;

pub use lessons::{Improvement, Lessons, LessonsError, Training};

use super::Groundwork;
use super::network::Network;
use crate::algorithm::{Run, heft, search_leanings};
use crate::foresight::Foresight;
use crate::insertion::Cheapest;
use crate::instance::Instance;

/// The instances that training learns from.
pub fn instances(training: &Training) -> Vec<Instance> {
    shapes::instances(training.seed, training.instances)
}

/// How far training is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lesson {
    /// What is going on.
    pub stage: Stage,
    /// Steps done in this stage.
    pub step: usize,
    /// Steps this stage has.
    pub of: usize,
    /// The loss when imitating; the mean makespan as a share of HEFT's when improving.
    pub value: Option<f64>,
}

/// What training consists of, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Searching every instance for leanings worth imitating.
    Search,
    /// Learning them by gradient descent.
    Imitate,
    /// Getting better than HEFT by trial.
    Improve,
}

/// One instance to learn from.
struct Example<'a> {
    ground: Groundwork<'a>,
    table: Foresight,
    heft: f64,
}

impl<'a> Example<'a> {
    fn new(instance: &'a Instance) -> Self {
        let ground = Groundwork::new(instance, &Cheapest::new(instance));
        Self { ground, table: Foresight::new(instance), heft: heft(instance).makespan() }
    }

    /// The makespan as a share of HEFT's.
    fn share(&self, network: &Network) -> f64 {
        self.ground.plan(&self.ground.ask(network), &self.table).makespan() / self.heft
    }
}

/// Trains on from `lessons` until done or `stop`. `tell` hears of every step, and how far training has got with it.
///
/// # Errors
/// When candle does.
pub fn train(
    training: &Training,
    lessons: Lessons,
    mut stop: impl FnMut() -> bool,
    mut tell: impl FnMut(Lesson, &Lessons),
) -> candle_core::Result<Lessons> {
    let instances = instances(training);
    let examples: Vec<Example<'_>> = instances.iter().map(Example::new).collect();
    let improvement = match lessons {
        Lessons::Improved(improvement) => improvement,
        Lessons::Searched(leanings) => {
            let searched = search(training, &examples, leanings, &mut stop, &mut tell);
            let network = imitate::imitate(training, &examples, &searched, &mut stop, &mut tell)?;
            let Some(network) = network else { return Ok(searched) };
            Improvement::begun(network)
        }
    };
    Ok(improve::improve(training, &examples, improvement, &mut stop, &mut tell))
}

/// Searches the instances that have not been searched yet.
fn search(
    training: &Training,
    examples: &[Example<'_>],
    leanings: Vec<[f32; 2]>,
    stop: &mut impl FnMut() -> bool,
    tell: &mut impl FnMut(Lesson, &Lessons),
) -> Lessons {
    let done = leanings.len();
    let mut lessons = Lessons::Searched(leanings);
    for (at, example) in examples.iter().enumerate().skip(done) {
        if stop() {
            break;
        }
        let (foresight, thrift) =
            search_leanings(example.ground.instance, &mut Run::iterations(training.search));
        if let Lessons::Searched(leanings) = &mut lessons {
            leanings.push([foresight as f32, thrift as f32]);
        }
        tell(Lesson { stage: Stage::Search, step: at + 1, of: examples.len(), value: None }, &lessons);
    }
    lessons
}
