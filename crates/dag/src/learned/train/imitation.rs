//! Imitation learning: gradient descent in candle towards the bias weights that searches ended with.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

use super::super::features::{INSTANCE_FEATURES, TASK_FEATURES};
use super::super::network::{
    FIRST_MESSAGE_PART, MAX_FORESIGHT, MAX_THRIFT, MESSAGE_LAYERS, Network, OUTPUT_PART, OUTPUTS, PARTS,
};
use super::{Checkpoint, Example, Stage, TrainingConfig, TrainingProgress};
use crate::random::SplitMix64;

/// Random weights; the output bias starts where the outputs are moderate.
fn initialise(seed: u64) -> Network {
    let mut draw = SplitMix64::new(seed ^ 0x5EED);
    let mut weights = Vec::new();
    for (name, rows, columns) in PARTS {
        let spread = match name {
            "out.weight" => 0.05,
            _ if rows == 1 => 0.0,
            _ if name.starts_with("in.") => (2.0 / (TASK_FEATURES + INSTANCE_FEATURES) as f64).sqrt(),
            _ => (2.0 / (3 * rows) as f64).sqrt(),
        };
        weights.extend((0..rows * columns).map(|_| (spread * draw.bell()) as f32));
    }
    let last = weights.len() - OUTPUTS;
    weights[last..].copy_from_slice(&[0.0, -0.7, -2.0]);
    Network { weights }
}

/// Trains on the searched bias weights, one pair per example. `None` when stopped, or when some are missing.
pub(super) fn imitate(
    config: &TrainingConfig,
    examples: &[Example<'_>],
    searched: &Checkpoint,
    stop: &mut impl FnMut() -> bool,
    report: &mut impl FnMut(TrainingProgress, &Checkpoint),
) -> Result<Option<Network>> {
    let Checkpoint::Searched(targets) = searched else { return Ok(None) };
    if targets.len() < examples.len() {
        return Ok(None);
    }
    let device = Device::Cpu;
    let start = initialise(config.seed);
    let mut vars = Vec::with_capacity(PARTS.len());
    for ((_, rows, columns), part) in PARTS.iter().zip(start.parts()) {
        vars.push(Var::from_tensor(&Tensor::from_slice(part, (*rows, *columns), &device)?)?);
    }
    let settings = ParamsAdamW { lr: 3e-3, weight_decay: 1e-4, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(vars.clone(), settings)?;
    for pass in 0..config.imitate {
        let mut sum = 0.0;
        for (example, target) in examples.iter().zip(targets) {
            if stop() {
                return Ok(None);
            }
            let loss = Graph::new(example, *target, &device)?.loss(&vars)?;
            sum += f64::from(loss.to_scalar::<f32>()?);
            optimizer.backward_step(&loss)?;
        }
        let value = Some(sum / examples.len().max(1) as f64);
        report(
            TrainingProgress { stage: Stage::Imitate, step: pass + 1, of: config.imitate, value },
            searched,
        );
    }
    let mut weights = Vec::with_capacity(start.weights.len());
    for var in &vars {
        weights.extend(var.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(Some(Network { weights }))
}

/// Example as tensors.
struct Graph {
    features: Tensor,
    whole: Tensor,
    /// Message edges from successors and from predecessors.
    edges: [MessageEdges; 2],
    target: Tensor,
}

/// Message edges: receiver and sender of each, and per task the weight of one message in the mean.
struct MessageEdges {
    receivers: Tensor,
    senders: Tensor,
    share: Tensor,
}

impl MessageEdges {
    fn new(edges: impl Iterator<Item = (u32, u32)>, tasks: usize, device: &Device) -> Result<Self> {
        let (receivers, senders): (Vec<u32>, Vec<u32>) = edges.unzip();
        let mut count = vec![0.0f32; tasks];
        receivers.iter().for_each(|task| count[*task as usize] += 1.0);
        let share: Vec<f32> = count.iter().map(|c| 1.0 / c.max(1.0)).collect();
        let edges = receivers.len();
        Ok(Self {
            receivers: Tensor::from_vec(receivers, edges, device)?,
            senders: Tensor::from_vec(senders, edges, device)?,
            share: Tensor::from_vec(share, (tasks, 1), device)?,
        })
    }

    fn mean(&self, state: &Tensor) -> Result<Tensor> {
        let zero = Tensor::zeros(state.shape(), DType::F32, state.device())?;
        zero.index_add(&self.receivers, &state.index_select(&self.senders, 0)?, 0)?.broadcast_mul(&self.share)
    }
}

impl Graph {
    fn new(example: &Example<'_>, [foresight, thrift]: [f32; 2], device: &Device) -> Result<Self> {
        let instance = example.input.instance;
        let tasks = instance.tasks();
        let features = &example.input.features;
        let rows: Vec<f32> = features.rows.iter().flatten().copied().collect();
        let target = [0.0, foresight / MAX_FORESIGHT, thrift / MAX_THRIFT];
        Ok(Self {
            features: Tensor::from_vec(rows, (tasks, TASK_FEATURES), device)?,
            whole: Tensor::from_slice(&features.global, (1, INSTANCE_FEATURES), device)?,
            edges: [
                MessageEdges::new(instance.edges().map(|e| (e.from, e.to)), tasks, device)?,
                MessageEdges::new(instance.edges().map(|e| (e.to, e.from)), tasks, device)?,
            ],
            target: Tensor::from_slice(&target, (1, OUTPUTS), device)?,
        })
    }

    /// Mean squared difference between the outputs and the searched bias weights.
    fn loss(&self, vars: &[Var]) -> Result<Tensor> {
        let whole = self.whole.matmul(&vars[1])?.add(&vars[2])?;
        let mut state = self.features.matmul(&vars[0])?.broadcast_add(&whole)?.relu()?;
        for layer in 0..MESSAGE_LAYERS {
            let part = |k: usize| &vars[FIRST_MESSAGE_PART + 4 * layer + k];
            let own = state.matmul(part(0))?;
            let after = self.edges[0].mean(&state)?.matmul(part(1))?;
            let before = self.edges[1].mean(&state)?.matmul(part(2))?;
            state = (own + after)?.add(&before)?.broadcast_add(part(3))?.relu()?;
        }
        let out = state.matmul(&vars[OUTPUT_PART])?.broadcast_add(&vars[OUTPUT_PART + 1])?;
        let squashed = out.div(&(out.abs()? + 1.0)?)?;
        let urgency = squashed.narrow(1, 0, 1)?;
        let shares = ((squashed.narrow(1, 1, 2)? + 1.0)? * 0.5)?;
        let advice = Tensor::cat(&[&urgency, &shares], 1)?;
        advice.broadcast_sub(&self.target)?.sqr()?.mean_all()
    }
}
