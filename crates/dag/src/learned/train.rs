//! Training, reproducible from a seed: imitation of searches first, by gradient descent in candle; then improvement
//! over HEFT itself, by evolution strategies, because a schedule has no gradient. Stops when its caller says so and
//! goes on from any network.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

use super::Groundwork;
use super::features::COUNT;
use super::network::{MOST_FORESIGHT, MOST_THRIFT, Network, OUT, PARTS, SWEEPS};
use crate::algorithm::{Run, heft, search_leanings};
use crate::generate::Layered;
use crate::instance::Instance;
use crate::random::SplitMix64;
use crate::rank::optimistic_costs;

/// How to train.
#[derive(Debug, Clone, Copy)]
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

/// How far training is.
#[derive(Debug, Clone, Copy)]
pub struct Lesson {
    /// What is going on.
    pub stage: &'static str,
    /// Steps done in this stage.
    pub step: usize,
    /// The loss when imitating; else the mean makespan as a share of HEFT's.
    pub value: f64,
}

/// One instance to learn from, and what the search did with it.
struct Example<'a> {
    ground: Groundwork<'a>,
    heft: f64,
    foresight: f32,
    thrift: f32,
}

/// Random instances of many shapes.
fn instances(training: &Training) -> Vec<Instance> {
    let mut draw = SplitMix64::new(training.seed);
    let mut pick = |from: &[u64]| from[draw.index(from.len())];
    (0..training.instances)
        .map(|at| {
            let layered = Layered {
                seed: training.seed.wrapping_mul(1_000_003).wrapping_add(at as u64),
                tasks: pick(&[60, 120, 250, 500]) as usize,
                machines: pick(&[4, 8, 8, 16, 32, 64, 188, 188]) as usize,
                alpha: pick(&[50, 100, 100, 200]),
                out_degree: pick(&[2, 3, 3, 5]),
                ccr: pick(&[20, 100, 100, 100, 300]),
                beta: pick(&[50, 100, 100, 150]),
                mean_cost: 1000,
            };
            layered.generate().unwrap_or_else(|e| unreachable!("the generator makes instances: {e}"))
        })
        .collect()
}

/// Trains, from `start` or from nothing, until done or `stop`. `tell` hears of every step.
///
/// # Errors
/// When candle does.
pub fn train(
    training: &Training,
    start: Option<Network>,
    mut stop: impl FnMut() -> bool,
    mut tell: impl FnMut(Lesson, &Network),
) -> candle_core::Result<Network> {
    let instances = instances(training);
    let mut examples = Vec::with_capacity(instances.len());
    for (at, instance) in instances.iter().enumerate() {
        let (foresight, thrift) = search_leanings(instance, &mut Run::iterations(training.search));
        let example = Example {
            ground: Groundwork::new(instance, Arc::new(optimistic_costs(instance))),
            heft: heft(instance).makespan(),
            foresight: foresight as f32,
            thrift: thrift as f32,
        };
        examples.push(example);
        let blank = start.clone().unwrap_or_else(|| Network { weights: vec![0.0; Network::size()] });
        tell(Lesson { stage: "search", step: at + 1, value: 0.0 }, &blank);
        if stop() {
            return Ok(blank);
        }
    }
    let network = match start {
        Some(network) => network,
        None => imitate(training, &examples, &mut stop, &mut tell)?,
    };
    Ok(improve(training, &examples, network, &mut stop, &mut tell))
}

/// Weights drawn at random; the last layer starts where its outputs are moderate.
fn fresh(seed: u64) -> Network {
    let mut draw = SplitMix64::new(seed ^ 0x5EED);
    let mut weights = Vec::with_capacity(Network::size());
    for (name, rows, columns) in PARTS {
        let spread = match name {
            "out.weight" => 0.05,
            _ if rows == 1 => 0.0,
            _ if name == "in.weight" => (2.0 / rows as f64).sqrt(),
            _ => (2.0 / (3 * rows) as f64).sqrt(),
        };
        weights.extend((0..rows * columns).map(|_| (spread * draw.bell()) as f32));
    }
    let last = weights.len() - OUT;
    weights[last..].copy_from_slice(&[0.0, -0.7, -2.0]);
    Network { weights }
}

/// Learns the leanings that searches ended with.
fn imitate(
    training: &Training,
    examples: &[Example<'_>],
    stop: &mut impl FnMut() -> bool,
    tell: &mut impl FnMut(Lesson, &Network),
) -> candle_core::Result<Network> {
    let device = Device::Cpu;
    let mut at = 0;
    let start = fresh(training.seed);
    let mut vars = Vec::with_capacity(PARTS.len());
    for (_, rows, columns) in PARTS {
        let part = start.weights[at..at + rows * columns].to_vec();
        vars.push(Var::from_tensor(&Tensor::from_vec(part, (rows, columns), &device)?)?);
        at += rows * columns;
    }
    let settings = ParamsAdamW { lr: 3e-3, weight_decay: 1e-4, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(vars.clone(), settings)?;
    let graphs = examples.iter().map(|e| Graph::new(e, &device)).collect::<candle_core::Result<Vec<_>>>()?;
    let mut network = start;
    for pass in 0..training.imitate {
        let mut sum = 0.0;
        for graph in &graphs {
            let loss = graph.loss(&vars)?;
            sum += f64::from(loss.to_scalar::<f32>()?);
            optimizer.backward_step(&loss)?;
        }
        network.weights.clear();
        for var in &vars {
            network.weights.extend(var.flatten_all()?.to_vec1::<f32>()?);
        }
        tell(Lesson { stage: "imitate", step: pass + 1, value: sum / graphs.len().max(1) as f64 }, &network);
        if stop() {
            break;
        }
    }
    Ok(network)
}

/// An example as tensors.
struct Graph {
    features: Tensor,
    /// For each direction: the far end and the near end of every edge, and what a neighbour counts.
    sides: [(Tensor, Tensor, Tensor); 2],
    target: Tensor,
}

impl Graph {
    fn new(example: &Example<'_>, device: &Device) -> candle_core::Result<Self> {
        let instance = example.ground.instance;
        let tasks = instance.tasks();
        let rows: Vec<f32> = example.ground.features.rows.iter().flatten().copied().collect();
        let side = |forward: bool| -> candle_core::Result<(Tensor, Tensor, Tensor)> {
            let (mut far, mut near) = (Vec::new(), Vec::new());
            let mut count = vec![0.0f32; tasks];
            for edge in instance.edges() {
                let (here, there) = if forward { (edge.from, edge.to) } else { (edge.to, edge.from) };
                near.push(here);
                far.push(there);
                count[here as usize] += 1.0;
            }
            let share: Vec<f32> = count.iter().map(|c| 1.0 / c.max(1.0)).collect();
            let edges = far.len();
            Ok((
                Tensor::from_vec(far, edges, device)?,
                Tensor::from_vec(near, edges, device)?,
                Tensor::from_vec(share, (tasks, 1), device)?,
            ))
        };
        let target = [0.0, example.foresight / MOST_FORESIGHT, example.thrift / MOST_THRIFT];
        Ok(Self {
            features: Tensor::from_vec(rows, (tasks, COUNT), device)?,
            sides: [side(true)?, side(false)?],
            target: Tensor::from_slice(&target, (1, OUT), device)?,
        })
    }

    fn mean(&self, state: &Tensor, side: usize) -> candle_core::Result<Tensor> {
        let (far, near, share) = &self.sides[side];
        let zero = Tensor::zeros(state.shape(), DType::F32, state.device())?;
        zero.index_add(near, &state.index_select(far, 0)?, 0)?.broadcast_mul(share)
    }

    /// How far the advice is from what the search ended with.
    fn loss(&self, vars: &[Var]) -> candle_core::Result<Tensor> {
        let mut state = self.features.matmul(&vars[0])?.broadcast_add(&vars[1])?.relu()?;
        for sweep in 0..SWEEPS {
            let part = |k: usize| &vars[2 + 4 * sweep + k];
            let own = state.matmul(part(0))?;
            let after = self.mean(&state, 0)?.matmul(part(1))?;
            let before = self.mean(&state, 1)?.matmul(part(2))?;
            state = (own + after)?.add(&before)?.broadcast_add(part(3))?.relu()?;
        }
        let out = state.matmul(&vars[10])?.broadcast_add(&vars[11])?;
        let urgency = out.narrow(1, 0, 1)?.tanh()?;
        let shares = candle_nn::ops::sigmoid(&out.narrow(1, 1, 2)?)?;
        let advice = Tensor::cat(&[&urgency, &shares], 1)?;
        advice.broadcast_sub(&self.target)?.sqr()?.mean_all()
    }
}

/// Evolution strategies: weights are nudged both ways along random directions, and move where schedules get shorter.
fn improve(
    training: &Training,
    examples: &[Example<'_>],
    mut network: Network,
    stop: &mut impl FnMut() -> bool,
    tell: &mut impl FnMut(Lesson, &Network),
) -> Network {
    const PAIRS: usize = 12;
    const BATCH: usize = 16;
    const NUDGE: f32 = 0.03;
    const RATE: f32 = 0.004;
    let mut draw = SplitMix64::new(training.seed ^ 0xE5);
    let size = network.weights.len();
    let (mut first, mut second) = (vec![0.0f32; size], vec![0.0f32; size]);
    for step in 1..=training.improve {
        let batch: Vec<&Example<'_>> = (0..BATCH).map(|_| &examples[draw.index(examples.len())]).collect();
        let directions: Vec<Vec<f32>> =
            (0..PAIRS).map(|_| (0..size).map(|_| draw.bell() as f32).collect()).collect();
        let tried = |direction: &[f32], sign: f32| {
            let moved = network.weights.iter().zip(direction).map(|(w, d)| w + sign * NUDGE * d);
            mean_share(&batch, &Network { weights: moved.collect() })
        };
        let gains: Vec<(f64, f64)> = std::thread::scope(|scope| {
            let halves: Vec<_> = directions
                .chunks(PAIRS.div_ceil(2))
                .map(|half| {
                    scope.spawn(move || {
                        half.iter().map(|d| (tried(d, 1.0), tried(d, -1.0))).collect::<Vec<_>>()
                    })
                })
                .collect();
            halves.into_iter().flat_map(|half| half.join().unwrap_or_default()).collect()
        });
        let value = gains.iter().map(|(up, down)| (up + down) / 2.0).sum::<f64>() / gains.len().max(1) as f64;
        let mut slope = vec![0.0f32; size];
        for ((up, down), direction) in gains.iter().zip(&directions) {
            let pull = ((up - down) / (2.0 * f64::from(NUDGE) * PAIRS as f64)) as f32;
            slope.iter_mut().zip(direction).for_each(|(s, d)| *s += pull * d);
        }
        for at in 0..size {
            first[at] = 0.9 * first[at] + 0.1 * slope[at];
            second[at] = 0.99 * second[at] + 0.01 * slope[at] * slope[at];
            let (m, v) = (
                first[at] / (1.0 - 0.9f32.powi(step as i32)),
                second[at] / (1.0 - 0.99f32.powi(step as i32)),
            );
            network.weights[at] -= RATE * m / (v.sqrt() + 1e-8);
        }
        tell(Lesson { stage: "improve", step, value }, &network);
        if stop() {
            break;
        }
    }
    network
}

fn mean_share(batch: &[&Example<'_>], network: &Network) -> f64 {
    let share = |e: &&Example<'_>| e.ground.plan(network).makespan() / e.heft;
    batch.iter().map(share).sum::<f64>() / batch.len().max(1) as f64
}
