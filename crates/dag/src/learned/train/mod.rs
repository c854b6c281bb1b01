//! Training, reproducible from a seed: searches first, whose leanings are imitated by gradient descent in candle; then
//! improvement over HEFT itself, by evolution strategies, because a schedule has no gradient. Every step draws from
//! the seed and its own number, so that training may stop after any of them and go on later: the same settings and the
//! same number of steps give the same bytes.

mod imitate;
mod improve;
mod lessons;
mod shapes;

pub use lessons::{Lessons, LessonsError, Training};

use std::sync::Arc;

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
    heft: f64,
}

impl<'a> Example<'a> {
    fn new(instance: &'a Instance) -> Self {
        let ground = Groundwork::new(instance, &Cheapest::new(instance), Arc::new(Foresight::new(instance)));
        Self { ground, heft: heft(instance).makespan() }
    }

    /// The makespan as a share of HEFT's.
    fn share(&self, network: &Network) -> f64 {
        self.ground.plan(network).makespan() / self.heft
    }
}

/// Trains from `start`, or from nothing, until done or `stop`; nothing when it was stopped before the first step of
/// improvement could begin. `tell` hears of every step.
///
/// # Errors
/// When candle does.
pub fn train(
    training: &Training,
    start: Option<Lessons>,
    mut stop: impl FnMut() -> bool,
    mut tell: impl FnMut(Lesson, Option<&Lessons>),
) -> candle_core::Result<Option<Lessons>> {
    let instances = instances(training);
    let examples: Vec<Example<'_>> = instances.iter().map(Example::new).collect();
    let lessons = match start {
        Some(lessons) => Some(lessons),
        None => begin(training, &examples, &mut stop, &mut tell)?,
    };
    Ok(lessons.map(|lessons| improve::improve(training, &examples, lessons, &mut stop, &mut tell)))
}

fn begin(
    training: &Training,
    examples: &[Example<'_>],
    stop: &mut impl FnMut() -> bool,
    tell: &mut impl FnMut(Lesson, Option<&Lessons>),
) -> candle_core::Result<Option<Lessons>> {
    let mut leanings = Vec::with_capacity(examples.len());
    for example in examples {
        if stop() {
            return Ok(None);
        }
        leanings.push(search_leanings(example.ground.instance, &mut Run::iterations(training.search)));
        let lesson = Lesson { stage: Stage::Search, step: leanings.len(), of: examples.len(), value: None };
        tell(lesson, None);
    }
    let network = imitate::imitate(training, examples, &leanings, stop, tell)?;
    Ok(network.map(Lessons::begun))
}
