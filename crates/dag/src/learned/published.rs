//! The published form of learning to schedule, small, so that it can be measured: two encoders, a GRU over the tasks in
//! HEFT's order and a convolution over the machines; a classifier names each task's machine and a regressor its start.
//! Trained on HEFT's schedules for one number of machines. What it says is no schedule yet: it is repaired by placing
//! the tasks in the order of their predicted starts, each after those it waits for, on the machine named. It is not
//! one of the planners, because it cannot be better than what it imitates.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::rnn::{GRU, GRUConfig, RNN};
use candle_nn::{AdamW, Conv1d, Conv1dConfig, Linear, Module, Optimizer, ParamsAdamW, VarBuilder};

use crate::algorithm::{by_priority, heft};
use crate::insertion::{Cheapest, Inserter};
use crate::instance::Instance;
use crate::random::SplitMix64;
use crate::rank::{downward_ranks_of, rank_order, upward_ranks_of};
use crate::schedule::Schedule;

/// What a task is described by, beside its cost on every machine.
const OF_TASK: usize = 6;
/// What a machine is described by.
const OF_MACHINE: usize = 3;
/// What the GRU carries from task to task.
const CARRIED: usize = 32;
/// Channels of the convolution, and how many machines it looks at together.
const CHANNELS: usize = 8;
const WIDTH: usize = 3;
/// What is known of all machines together.
const CONTEXT: usize = 16;

/// The network, for one number of machines.
pub struct Published {
    machines: usize,
    tasks: GRU,
    convolution: Conv1d,
    context: Linear,
    joined: Linear,
    classifier: Linear,
    regressor: Linear,
    vars: Vec<Var>,
}

impl std::fmt::Debug for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Published").field("machines", &self.machines).finish_non_exhaustive()
    }
}

/// What the network says of each task, in HEFT's order.
struct Said {
    /// One row per task, one column per machine.
    machines: Tensor,
    /// As a share of the longest way.
    starts: Tensor,
}

impl Published {
    /// Trains on HEFT's schedules of `instances`, which all have the same machines, in so many passes.
    ///
    /// # Errors
    /// When candle does.
    pub fn train(instances: &[Instance], passes: usize, seed: u64) -> Result<Self> {
        let network = Self::fresh(instances.first().map_or(1, Instance::machines), seed)?;
        let settings = ParamsAdamW { lr: 3e-3, ..ParamsAdamW::default() };
        let mut optimizer = AdamW::new(network.vars.clone(), settings)?;
        let lessons = instances.iter().map(Lesson::new).collect::<Result<Vec<_>>>()?;
        for _ in 0..passes {
            for lesson in &lessons {
                let said = network.say(&lesson.seen)?;
                let wrong = candle_nn::loss::cross_entropy(&said.machines, &lesson.machines)?;
                let late = candle_nn::loss::mse(&said.starts, &lesson.starts)?;
                optimizer.backward_step(&(wrong + late)?)?;
            }
        }
        Ok(network)
    }

    fn fresh(machines: usize, seed: u64) -> Result<Self> {
        let mut weights = Weights { draw: SplitMix64::new(seed), vars: Vec::new(), named: HashMap::new() };
        weights.add("tasks.weight_ih_l0", &[3 * CARRIED, OF_TASK + machines], OF_TASK + machines)?;
        weights.add("tasks.weight_hh_l0", &[3 * CARRIED, CARRIED], CARRIED)?;
        weights.add("tasks.bias_ih_l0", &[3 * CARRIED], 0)?;
        weights.add("tasks.bias_hh_l0", &[3 * CARRIED], 0)?;
        weights.add("convolution.weight", &[CHANNELS, OF_MACHINE, WIDTH], OF_MACHINE * WIDTH)?;
        weights.add("convolution.bias", &[CHANNELS], 0)?;
        weights.layer("context", CHANNELS * machines, CONTEXT)?;
        weights.layer("joined", CARRIED + CONTEXT, CARRIED)?;
        weights.layer("classifier", CARRIED, machines)?;
        weights.layer("regressor", CARRIED, 1)?;
        let Weights { vars, named, .. } = weights;
        let all = VarBuilder::from_tensors(named, DType::F32, &Device::Cpu);
        let side = Conv1dConfig { padding: WIDTH / 2, ..Conv1dConfig::default() };
        let layer = |name: &str, from: usize, to: usize| candle_nn::linear(from, to, all.pp(name));
        Ok(Self {
            machines,
            tasks: candle_nn::rnn::gru(OF_TASK + machines, CARRIED, GRUConfig::default(), all.pp("tasks"))?,
            convolution: candle_nn::conv1d(OF_MACHINE, CHANNELS, WIDTH, side, all.pp("convolution"))?,
            context: layer("context", CHANNELS * machines, CONTEXT)?,
            joined: layer("joined", CARRIED + CONTEXT, CARRIED)?,
            classifier: layer("classifier", CARRIED, machines)?,
            regressor: layer("regressor", CARRIED, 1)?,
            vars,
        })
    }

    fn say(&self, seen: &Seen) -> Result<Said> {
        let steps = self.tasks.seq(&seen.tasks)?;
        let carried = Tensor::cat(&steps.iter().map(|step| &step.h).collect::<Vec<_>>(), 0)?;
        let machines = self.convolution.forward(&seen.machines)?.relu()?.flatten_all()?.unsqueeze(0)?;
        let context = self.context.forward(&machines)?.relu()?;
        let context = context.broadcast_as((carried.dim(0)?, CONTEXT))?.contiguous()?;
        let joined = self.joined.forward(&Tensor::cat(&[&carried, &context], 1)?)?.relu()?;
        Ok(Said {
            machines: self.classifier.forward(&joined)?,
            starts: self.regressor.forward(&joined)?.squeeze(1)?,
        })
    }

    /// What the network says, and how it is made a schedule.
    ///
    /// # Errors
    /// When candle does.
    pub fn predict(&self, instance: &Instance) -> Result<Prediction> {
        let seen = Seen::new(instance)?;
        let said = self.say(&seen)?;
        let machines = said.machines.argmax(1)?.to_vec1::<u32>()?;
        let starts = said.starts.to_vec1::<f32>()?;
        Ok(Prediction { order: seen.order, machines, starts })
    }
}

/// For each task in HEFT's order a machine and a start; they need not go together.
#[derive(Debug, Clone)]
pub struct Prediction {
    order: Vec<u32>,
    machines: Vec<u32>,
    starts: Vec<f32>,
}

impl Prediction {
    /// The share of tasks on the machine that `schedule` has them on.
    pub fn agreement(&self, schedule: &Schedule) -> f64 {
        let same = self.order.iter().zip(&self.machines);
        let same =
            same.filter(|(task, machine)| schedule.slots[**task as usize].machine == **machine).count();
        same as f64 / self.order.len().max(1) as f64
    }

    /// A schedule that holds: the order by predicted start as far as the edges let it, the machines as named.
    pub fn repaired(&self, instance: &Instance) -> Schedule {
        let mut soon = vec![0.0; instance.tasks()];
        let mut machine = vec![0; instance.tasks()];
        for (at, &task) in self.order.iter().enumerate() {
            soon[task as usize] = -f64::from(self.starts[at]);
            machine[task as usize] = self.machines[at] as usize;
        }
        let cheapest = Cheapest::new(instance);
        let mut inserter = Inserter::new(instance, &cheapest);
        for task in by_priority(instance, &soon) {
            inserter.place_on(task as usize, machine[task as usize]);
        }
        inserter.into_schedule()
    }
}

/// Weights drawn at random, by name.
struct Weights {
    draw: SplitMix64,
    vars: Vec<Var>,
    named: HashMap<String, Tensor>,
}

impl Weights {
    /// A tensor for a sum of `terms`; all zero where there are none.
    fn add(&mut self, name: &str, shape: &[usize], terms: usize) -> Result<()> {
        let spread = if terms == 0 { 0.0 } else { (1.0 / terms as f64).sqrt() };
        let values = (0..shape.iter().product()).map(|_| (spread * self.draw.bell()) as f32);
        let var = Var::from_tensor(&Tensor::from_vec(values.collect(), shape, &Device::Cpu)?)?;
        self.named.insert(name.to_owned(), var.as_tensor().clone());
        self.vars.push(var);
        Ok(())
    }

    fn layer(&mut self, name: &str, from: usize, to: usize) -> Result<()> {
        self.add(&format!("{name}.weight"), &[to, from], from)?;
        self.add(&format!("{name}.bias"), &[to], 0)
    }
}

/// An instance as tensors.
struct Seen {
    order: Vec<u32>,
    /// One batch, tasks in order, features.
    tasks: Tensor,
    /// One batch, channels, machines.
    machines: Tensor,
    longest: f64,
}

impl Seen {
    fn new(instance: &Instance) -> Result<Self> {
        let p = instance.machines();
        let sums = crate::rank::cost_sums(instance);
        let down = downward_ranks_of(instance, &sums);
        let up = upward_ranks_of(instance, sums.clone());
        let order = rank_order(instance, &up);
        let longest = up.iter().fold(f64::MIN_POSITIVE, |a, b| a.max(*b));
        let mean = (sums.iter().sum::<f64>() / (sums.len().max(1) * p) as f64).max(f64::MIN_POSITIVE);
        let mut rows = Vec::with_capacity(order.len() * (OF_TASK + p));
        for &task in &order {
            let task = task as usize;
            let transfers: f64 =
                instance.predecessors(task).iter().map(|e| instance.mean_transfer(e.1)).sum();
            let own = [
                up[task] / longest,
                down[task] / longest,
                sums[task] / (mean * p as f64),
                instance.predecessors(task).len() as f64 / 4.0,
                instance.successors(task).len() as f64 / 4.0,
                transfers / (4.0 * mean),
            ];
            rows.extend(own.map(|value| value as f32));
            rows.extend(instance.costs(task).iter().map(|cost| (cost / mean) as f32));
        }
        let mut columns = vec![0.0f32; OF_MACHINE * p];
        for machine in 0..p {
            let costs = (0..instance.tasks()).map(|task| instance.costs(task)[machine] / mean);
            let (sum, least, most) = costs
                .fold((0.0, f64::MAX, 0.0f64), |(sum, least, most), c| (sum + c, least.min(c), most.max(c)));
            let own = [sum / sums.len().max(1) as f64, least, most];
            own.iter()
                .enumerate()
                .for_each(|(channel, value)| columns[channel * p + machine] = *value as f32);
        }
        let tasks = Tensor::from_vec(rows, (1, order.len(), OF_TASK + p), &Device::Cpu)?;
        let machines = Tensor::from_vec(columns, (1, OF_MACHINE, p), &Device::Cpu)?;
        Ok(Self { order, tasks, machines, longest: longest / p as f64 })
    }
}

/// An instance and what HEFT makes of it.
struct Lesson {
    seen: Seen,
    machines: Tensor,
    starts: Tensor,
}

impl Lesson {
    fn new(instance: &Instance) -> Result<Self> {
        let seen = Seen::new(instance)?;
        let schedule = heft(instance);
        let slots = || seen.order.iter().map(|task| &schedule.slots[*task as usize]);
        let machines: Vec<u32> = slots().map(|slot| slot.machine).collect();
        let starts: Vec<f32> = slots().map(|slot| (slot.start / seen.longest) as f32).collect();
        let tasks = machines.len();
        Ok(Self {
            machines: Tensor::from_vec(machines, tasks, &Device::Cpu)?,
            starts: Tensor::from_vec(starts, tasks, &Device::Cpu)?,
            seen,
        })
    }
}
