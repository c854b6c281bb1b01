//! Imitation: the network learns the leanings that searches ended with, by gradient descent in candle.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

use super::super::features::{OF_TASK, OF_WHOLE};
use super::super::network::{FIRST_SWEEP, MOST_FORESIGHT, MOST_THRIFT, Network, OUT, OUTPUT, PARTS, SWEEPS};
use super::{Example, Lesson, Lessons, Stage, Training};
use crate::random::SplitMix64;

/// Weights drawn at random; the last layer starts where its outputs are moderate.
fn fresh(seed: u64) -> Network {
    let mut draw = SplitMix64::new(seed ^ 0x5EED);
    let mut weights = Vec::new();
    for (name, rows, columns) in PARTS {
        let spread = match name {
            "out.weight" => 0.05,
            _ if rows == 1 => 0.0,
            _ if name.starts_with("in.") => (2.0 / (OF_TASK + OF_WHOLE) as f64).sqrt(),
            _ => (2.0 / (3 * rows) as f64).sqrt(),
        };
        weights.extend((0..rows * columns).map(|_| (spread * draw.bell()) as f32));
    }
    let last = weights.len() - OUT;
    weights[last..].copy_from_slice(&[0.0, -0.7, -2.0]);
    Network { weights }
}

/// Learns the leanings that were searched, one of each example. Nothing when stopped, or when some are missing.
pub(super) fn imitate(
    training: &Training,
    examples: &[Example<'_>],
    searched: &Lessons,
    stop: &mut impl FnMut() -> bool,
    tell: &mut impl FnMut(Lesson, &Lessons),
) -> Result<Option<Network>> {
    let Lessons::Searched(leanings) = searched else { return Ok(None) };
    if leanings.len() < examples.len() {
        return Ok(None);
    }
    let device = Device::Cpu;
    let start = fresh(training.seed);
    let mut vars = Vec::with_capacity(PARTS.len());
    for ((_, rows, columns), part) in PARTS.iter().zip(start.parts()) {
        vars.push(Var::from_tensor(&Tensor::from_slice(part, (*rows, *columns), &device)?)?);
    }
    let settings = ParamsAdamW { lr: 3e-3, weight_decay: 1e-4, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(vars.clone(), settings)?;
    for pass in 0..training.imitate {
        let mut sum = 0.0;
        for (example, leaning) in examples.iter().zip(leanings) {
            if stop() {
                return Ok(None);
            }
            let loss = Graph::new(example, *leaning, &device)?.loss(&vars)?;
            sum += f64::from(loss.to_scalar::<f32>()?);
            optimizer.backward_step(&loss)?;
        }
        let value = Some(sum / examples.len().max(1) as f64);
        tell(Lesson { stage: Stage::Imitate, step: pass + 1, of: training.imitate, value }, searched);
    }
    let mut weights = Vec::with_capacity(start.weights.len());
    for var in &vars {
        weights.extend(var.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(Some(Network { weights }))
}

/// An example as tensors.
struct Graph {
    features: Tensor,
    whole: Tensor,
    /// Towards what follows and towards what is followed.
    sides: [Side; 2],
    target: Tensor,
}

/// For each edge the task that hears and the one that is heard; for each task what one it hears counts.
struct Side {
    hearing: Tensor,
    heard: Tensor,
    share: Tensor,
}

impl Side {
    fn new(edges: impl Iterator<Item = (u32, u32)>, tasks: usize, device: &Device) -> Result<Self> {
        let (hearing, heard): (Vec<u32>, Vec<u32>) = edges.unzip();
        let mut count = vec![0.0f32; tasks];
        hearing.iter().for_each(|task| count[*task as usize] += 1.0);
        let share: Vec<f32> = count.iter().map(|c| 1.0 / c.max(1.0)).collect();
        let edges = hearing.len();
        Ok(Self {
            hearing: Tensor::from_vec(hearing, edges, device)?,
            heard: Tensor::from_vec(heard, edges, device)?,
            share: Tensor::from_vec(share, (tasks, 1), device)?,
        })
    }

    fn mean(&self, state: &Tensor) -> Result<Tensor> {
        let zero = Tensor::zeros(state.shape(), DType::F32, state.device())?;
        zero.index_add(&self.hearing, &state.index_select(&self.heard, 0)?, 0)?.broadcast_mul(&self.share)
    }
}

impl Graph {
    fn new(example: &Example<'_>, [foresight, thrift]: [f32; 2], device: &Device) -> Result<Self> {
        let instance = example.ground.instance;
        let tasks = instance.tasks();
        let features = &example.ground.features;
        let rows: Vec<f32> = features.rows.iter().flatten().copied().collect();
        let target = [0.0, foresight / MOST_FORESIGHT, thrift / MOST_THRIFT];
        Ok(Self {
            features: Tensor::from_vec(rows, (tasks, OF_TASK), device)?,
            whole: Tensor::from_slice(&features.whole, (1, OF_WHOLE), device)?,
            sides: [
                Side::new(instance.edges().map(|e| (e.from, e.to)), tasks, device)?,
                Side::new(instance.edges().map(|e| (e.to, e.from)), tasks, device)?,
            ],
            target: Tensor::from_slice(&target, (1, OUT), device)?,
        })
    }

    /// How far the advice is from what the search ended with.
    fn loss(&self, vars: &[Var]) -> Result<Tensor> {
        let whole = self.whole.matmul(&vars[1])?.add(&vars[2])?;
        let mut state = self.features.matmul(&vars[0])?.broadcast_add(&whole)?.relu()?;
        for sweep in 0..SWEEPS {
            let part = |k: usize| &vars[FIRST_SWEEP + 4 * sweep + k];
            let own = state.matmul(part(0))?;
            let after = self.sides[0].mean(&state)?.matmul(part(1))?;
            let before = self.sides[1].mean(&state)?.matmul(part(2))?;
            state = (own + after)?.add(&before)?.broadcast_add(part(3))?.relu()?;
        }
        let out = state.matmul(&vars[OUTPUT])?.broadcast_add(&vars[OUTPUT + 1])?;
        let squashed = out.div(&(out.abs()? + 1.0)?)?;
        let urgency = squashed.narrow(1, 0, 1)?;
        let shares = ((squashed.narrow(1, 1, 2)? + 1.0)? * 0.5)?;
        let advice = Tensor::cat(&[&urgency, &shares], 1)?;
        advice.broadcast_sub(&self.target)?.sqr()?.mean_all()
    }
}
