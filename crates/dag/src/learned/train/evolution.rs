//! Evolution strategies: weights are perturbed both ways along random directions and move where makespans shrink.

use super::{Checkpoint, EvolutionState, Example, Network, Stage, TrainingConfig, TrainingProgress};
use crate::random::SplitMix64;

/// Directions per step, each evaluated both ways (antithetic sampling).
const PAIRS: usize = 12;
/// Instances per step.
const BATCH: usize = 16;
const SIGMA: f32 = 0.03;
/// Initial learning rate; decays linearly.
const RATE: f32 = 0.005;
/// Decay of the weight average, once it has a history.
const AVERAGING: f32 = 0.998;

pub(super) fn improve(
    config: &TrainingConfig,
    examples: &[Example<'_>],
    state: EvolutionState,
    stop: &mut impl FnMut() -> bool,
    report: &mut impl FnMut(TrainingProgress, &Checkpoint),
) -> Checkpoint {
    let mut checkpoint = Checkpoint::Improved(state);
    while let Checkpoint::Improved(state) = &mut checkpoint
        && state.step < config.improve
        && !examples.is_empty()
        && !stop()
    {
        let value = Some(step(config, examples, state));
        let progress =
            TrainingProgress { stage: Stage::Improve, step: state.step, of: config.improve, value };
        report(progress, &checkpoint);
    }
    checkpoint
}

/// One step; returns the mean makespan relative to HEFT's. All randomness derives from the seed and the step number.
fn step(config: &TrainingConfig, examples: &[Example<'_>], state: &mut EvolutionState) -> f64 {
    let mut draw = SplitMix64::new(config.seed ^ ((state.step as u64 + 1) << 20));
    let batch: Vec<&Example<'_>> = (0..BATCH).map(|_| &examples[draw.index(examples.len())]).collect();
    let size = state.current.weights.len();
    let directions: Vec<Vec<f32>> =
        (0..PAIRS).map(|_| (0..size).map(|_| draw.bell() as f32).collect()).collect();
    let gains = evaluate_directions(&state.current, &directions, &batch);
    let mut gradient = vec![0.0f32; size];
    for ((up, down), direction) in gains.iter().zip(&directions) {
        let pull = ((up - down) / (2.0 * f64::from(SIGMA) * PAIRS as f64)) as f32;
        gradient.iter_mut().zip(direction).for_each(|(s, d)| *s += pull * d);
    }
    state.step += 1;
    adam_step(state, &gradient, RATE * (1.0 - 0.9 * state.step as f32 / config.improve as f32));
    gains.iter().map(|(up, down)| (up + down) / 2.0).sum::<f64>() / PAIRS as f64
}

/// Mean relative makespan of the batch in each direction, both ways. Two threads share the work; the result does not
/// depend on it.
fn evaluate_directions(
    network: &Network,
    directions: &[Vec<f32>],
    batch: &[&Example<'_>],
) -> Vec<(f64, f64)> {
    let evaluate = |direction: &[f32], sign: f32| {
        let moved = network.weights.iter().zip(direction).map(|(w, d)| w + sign * SIGMA * d);
        let moved = Network { weights: moved.collect() };
        batch.iter().map(|example| example.share(&moved)).sum::<f64>() / batch.len() as f64
    };
    let evaluate = &evaluate;
    std::thread::scope(|scope| {
        let halves: Vec<_> = directions
            .chunks(directions.len().div_ceil(2))
            .map(|half| {
                scope.spawn(move || {
                    half.iter().map(|d| (evaluate(d, 1.0), evaluate(d, -1.0))).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined =
            halves.into_iter().map(|half| half.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        joined.flatten().collect()
    })
}

/// Adam step against the gradient (Kingma and Ba 2014).
fn adam_step(state: &mut EvolutionState, gradient: &[f32], rate: f32) {
    let EvolutionState { current: network, averaged, step, first, second } = state;
    let averaging = AVERAGING.min(*step as f32 / (*step as f32 + 10.0));
    let step = i32::try_from(*step).unwrap_or(i32::MAX);
    let (past_first, past_second) = (1.0 - 0.9f32.powi(step), 1.0 - 0.99f32.powi(step));
    for (at, gradient) in gradient.iter().enumerate() {
        first[at] = 0.9 * first[at] + 0.1 * gradient;
        second[at] = 0.99 * second[at] + 0.01 * gradient * gradient;
        network.weights[at] -= rate * (first[at] / past_first) / ((second[at] / past_second).sqrt() + 1e-8);
        averaged.weights[at] += (1.0 - averaging) * (network.weights[at] - averaged.weights[at]);
    }
}
