//! Improvement over HEFT by evolution strategies: weights are nudged both ways along random directions, and move where
//! schedules get shorter.

use super::{Example, Improvement, Lesson, Lessons, Network, Stage, Training};
use crate::random::SplitMix64;

/// Directions tried in a step, each both ways.
const PAIRS: usize = 12;
/// Instances a step looks at.
const BATCH: usize = 16;
const NUDGE: f32 = 0.03;
/// How far a weight moves in a step, at first; less and less towards the end.
const RATE: f32 = 0.005;
/// How much of the mean of past weights stays in a step, once there is a past.
const MEMORY: f32 = 0.998;

pub(super) fn improve(
    training: &Training,
    examples: &[Example<'_>],
    improvement: Improvement,
    stop: &mut impl FnMut() -> bool,
    tell: &mut impl FnMut(Lesson, &Lessons),
) -> Lessons {
    let mut lessons = Lessons::Improved(improvement);
    while let Lessons::Improved(at) = &mut lessons
        && at.step < training.improve
        && !examples.is_empty()
        && !stop()
    {
        let value = Some(step(training, examples, at));
        let lesson = Lesson { stage: Stage::Improve, step: at.step, of: training.improve, value };
        tell(lesson, &lessons);
    }
    lessons
}

/// One step; the mean share of HEFT's makespan on the way. All its chance comes from the seed and its number.
fn step(training: &Training, examples: &[Example<'_>], lessons: &mut Improvement) -> f64 {
    let mut draw = SplitMix64::new(training.seed ^ ((lessons.step as u64 + 1) << 20));
    let batch: Vec<&Example<'_>> = (0..BATCH).map(|_| &examples[draw.index(examples.len())]).collect();
    let size = lessons.at.weights.len();
    let directions: Vec<Vec<f32>> =
        (0..PAIRS).map(|_| (0..size).map(|_| draw.bell() as f32).collect()).collect();
    let gains = both_ways(&lessons.at, &directions, &batch);
    let mut slope = vec![0.0f32; size];
    for ((up, down), direction) in gains.iter().zip(&directions) {
        let pull = ((up - down) / (2.0 * f64::from(NUDGE) * PAIRS as f64)) as f32;
        slope.iter_mut().zip(direction).for_each(|(s, d)| *s += pull * d);
    }
    lessons.step += 1;
    follow(lessons, &slope, RATE * (1.0 - 0.9 * lessons.step as f32 / training.improve as f32));
    gains.iter().map(|(up, down)| (up + down) / 2.0).sum::<f64>() / PAIRS as f64
}

/// What each direction makes of the batch, one way and the other. Two threads share the work; the result does not
/// depend on it.
fn both_ways(network: &Network, directions: &[Vec<f32>], batch: &[&Example<'_>]) -> Vec<(f64, f64)> {
    let tried = |direction: &[f32], sign: f32| {
        let moved = network.weights.iter().zip(direction).map(|(w, d)| w + sign * NUDGE * d);
        let moved = Network { weights: moved.collect() };
        batch.iter().map(|example| example.share(&moved)).sum::<f64>() / batch.len() as f64
    };
    let tried = &tried;
    std::thread::scope(|scope| {
        let halves: Vec<_> = directions
            .chunks(directions.len().div_ceil(2))
            .map(|half| {
                scope.spawn(move || half.iter().map(|d| (tried(d, 1.0), tried(d, -1.0))).collect::<Vec<_>>())
            })
            .collect();
        let joined =
            halves.into_iter().map(|half| half.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        joined.flatten().collect()
    })
}

/// A step against the slope (Adam, Kingma and Ba 2014).
fn follow(lessons: &mut Improvement, slope: &[f32], rate: f32) {
    let Improvement { at: network, mean, step, first, second } = lessons;
    let memory = MEMORY.min(*step as f32 / (*step as f32 + 10.0));
    let step = i32::try_from(*step).unwrap_or(i32::MAX);
    let (past_first, past_second) = (1.0 - 0.9f32.powi(step), 1.0 - 0.99f32.powi(step));
    for (at, slope) in slope.iter().enumerate() {
        first[at] = 0.9 * first[at] + 0.1 * slope;
        second[at] = 0.99 * second[at] + 0.01 * slope * slope;
        network.weights[at] -= rate * (first[at] / past_first) / ((second[at] / past_second).sqrt() + 1e-8);
        mean.weights[at] += (1.0 - memory) * (network.weights[at] - mean.weights[at]);
    }
}
