//! Supervised baseline from the literature, small, so that it can be measured: a GRU over the tasks in HEFT's order
//! and a convolution over the machines; a classifier predicts each task's machine and a regressor its start. Trained
//! on HEFT's schedules for one number of machines. Its prediction is not a valid schedule: it is repaired by inserting
//! the tasks in the order of predicted starts, after their predecessors, on the predicted machines. Not in the
//! registry, because it cannot beat the planner it imitates.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::rnn::{GRU, GRUConfig, RNN};
use candle_nn::{AdamW, Conv1d, Conv1dConfig, Linear, Module, Optimizer, ParamsAdamW, VarBuilder};

use crate::algorithm::{heft, priority_order};
use crate::insertion::{CheapestMachines, Inserter};
use crate::instance::Instance;
use crate::random::SplitMix64;
use crate::rank::{downward_ranks_of, rank_order, upward_ranks_of};
use crate::schedule::Schedule;

/// Features of a task, besides its cost on every machine.
const TASK_FEATURES: usize = 6;
/// Features of a machine.
const MACHINE_FEATURES: usize = 3;
/// Width of the GRU state.
const GRU_STATE: usize = 32;
/// Channels and kernel width of the convolution.
const CHANNELS: usize = 8;
const KERNEL: usize = 3;
/// Width of the encoding of all machines.
const CONTEXT: usize = 16;

/// Model for one number of machines.
pub struct SupervisedModel {
    machines: usize,
    tasks: GRU,
    convolution: Conv1d,
    context: Linear,
    joined: Linear,
    classifier: Linear,
    regressor: Linear,
    vars: Vec<Var>,
}

impl std::fmt::Debug for SupervisedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SupervisedModel").field("machines", &self.machines).finish_non_exhaustive()
    }
}

/// Model output per task, in HEFT's order.
struct ModelOutput {
    /// Logits: one row per task, one column per machine.
    machines: Tensor,
    /// Starts as a share of the longest path.
    starts: Tensor,
}

impl SupervisedModel {
    /// Trains on HEFT's schedules of `instances`, which have the same number of machines, for the given number of
    /// passes.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn train(instances: &[Instance], passes: usize, seed: u64) -> Result<Self> {
        let network = Self::initialise(instances.first().map_or(1, Instance::machines), seed)?;
        let settings = ParamsAdamW { lr: 3e-3, ..ParamsAdamW::default() };
        let mut optimizer = AdamW::new(network.vars.clone(), settings)?;
        let examples = instances.iter().map(TrainingExample::new).collect::<Result<Vec<_>>>()?;
        for _ in 0..passes {
            for example in &examples {
                let output = network.forward(&example.encoded)?;
                let machine_loss = candle_nn::loss::cross_entropy(&output.machines, &example.machines)?;
                let start_loss = candle_nn::loss::mse(&output.starts, &example.starts)?;
                optimizer.backward_step(&(machine_loss + start_loss)?)?;
            }
        }
        Ok(network)
    }

    fn initialise(machines: usize, seed: u64) -> Result<Self> {
        let mut weights = Weights { draw: SplitMix64::new(seed), vars: Vec::new(), named: HashMap::new() };
        weights.add(
            "tasks.weight_ih_l0",
            &[3 * GRU_STATE, TASK_FEATURES + machines],
            TASK_FEATURES + machines,
        )?;
        weights.add("tasks.weight_hh_l0", &[3 * GRU_STATE, GRU_STATE], GRU_STATE)?;
        weights.add("tasks.bias_ih_l0", &[3 * GRU_STATE], 0)?;
        weights.add("tasks.bias_hh_l0", &[3 * GRU_STATE], 0)?;
        weights.add(
            "convolution.weight",
            &[CHANNELS, MACHINE_FEATURES, KERNEL],
            MACHINE_FEATURES * KERNEL,
        )?;
        weights.add("convolution.bias", &[CHANNELS], 0)?;
        weights.layer("context", CHANNELS * machines, CONTEXT)?;
        weights.layer("joined", GRU_STATE + CONTEXT, GRU_STATE)?;
        weights.layer("classifier", GRU_STATE, machines)?;
        weights.layer("regressor", GRU_STATE, 1)?;
        let Weights { vars, named, .. } = weights;
        let all = VarBuilder::from_tensors(named, DType::F32, &Device::Cpu);
        let side = Conv1dConfig { padding: KERNEL / 2, ..Conv1dConfig::default() };
        let layer = |name: &str, from: usize, to: usize| candle_nn::linear(from, to, all.pp(name));
        Ok(Self {
            machines,
            tasks: candle_nn::rnn::gru(
                TASK_FEATURES + machines,
                GRU_STATE,
                GRUConfig::default(),
                all.pp("tasks"),
            )?,
            convolution: candle_nn::conv1d(MACHINE_FEATURES, CHANNELS, KERNEL, side, all.pp("convolution"))?,
            context: layer("context", CHANNELS * machines, CONTEXT)?,
            joined: layer("joined", GRU_STATE + CONTEXT, GRU_STATE)?,
            classifier: layer("classifier", GRU_STATE, machines)?,
            regressor: layer("regressor", GRU_STATE, 1)?,
            vars,
        })
    }

    fn forward(&self, encoded: &EncodedInstance) -> Result<ModelOutput> {
        let steps = self.tasks.seq(&encoded.tasks)?;
        let carried = Tensor::cat(&steps.iter().map(|step| &step.h).collect::<Vec<_>>(), 0)?;
        let machines = self.convolution.forward(&encoded.machines)?.relu()?.flatten_all()?.unsqueeze(0)?;
        let context = self.context.forward(&machines)?.relu()?;
        let context = context.broadcast_as((carried.dim(0)?, CONTEXT))?.contiguous()?;
        let joined = self.joined.forward(&Tensor::cat(&[&carried, &context], 1)?)?.relu()?;
        Ok(ModelOutput {
            machines: self.classifier.forward(&joined)?,
            starts: self.regressor.forward(&joined)?.squeeze(1)?,
        })
    }

    /// Predicts machine and start of every task.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn predict(&self, instance: &Instance) -> Result<Prediction> {
        let encoded = EncodedInstance::new(instance)?;
        let output = self.forward(&encoded)?;
        let machines = output.machines.argmax(1)?.to_vec1::<u32>()?;
        let starts = output.starts.to_vec1::<f32>()?;
        Ok(Prediction { order: encoded.order, machines, starts })
    }
}

/// Machine and start per task, in HEFT's order; not necessarily a valid schedule.
#[derive(Debug, Clone)]
pub struct Prediction {
    order: Vec<u32>,
    machines: Vec<u32>,
    starts: Vec<f32>,
}

impl Prediction {
    /// Share of tasks on the same machine as in `schedule`.
    pub fn agreement(&self, schedule: &Schedule) -> f64 {
        let same = self.order.iter().zip(&self.machines);
        let same =
            same.filter(|(task, machine)| schedule.slots[**task as usize].machine == **machine).count();
        same as f64 / self.order.len().max(1) as f64
    }

    /// Valid schedule with the predicted machines, in the order of predicted starts as far as the edges allow.
    pub fn repair(&self, instance: &Instance) -> Schedule {
        let mut soon = vec![0.0; instance.tasks()];
        let mut machine = vec![0; instance.tasks()];
        for (at, &task) in self.order.iter().enumerate() {
            soon[task as usize] = -f64::from(self.starts[at]);
            machine[task as usize] = self.machines[at] as usize;
        }
        let cheapest = CheapestMachines::new(instance);
        let mut inserter = Inserter::new(instance, &cheapest);
        for task in priority_order(instance, &soon) {
            inserter.place_on(task as usize, machine[task as usize]);
        }
        inserter.into_schedule()
    }
}

/// Randomly initialised weights by name.
struct Weights {
    draw: SplitMix64,
    vars: Vec<Var>,
    named: HashMap<String, Tensor>,
}

impl Weights {
    /// Adds a tensor with variance 1/`terms`, or zeros where `terms` is 0.
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

/// Instance as tensors.
struct EncodedInstance {
    order: Vec<u32>,
    /// One batch, tasks in order, features.
    tasks: Tensor,
    /// One batch, channels, machines.
    machines: Tensor,
    longest: f64,
}

impl EncodedInstance {
    fn new(instance: &Instance) -> Result<Self> {
        let p = instance.machines();
        let sums = crate::rank::cost_sums(instance);
        let down = downward_ranks_of(instance, &sums);
        let up = upward_ranks_of(instance, sums.clone());
        let order = rank_order(instance, &up);
        let longest = up.iter().fold(f64::MIN_POSITIVE, |a, b| a.max(*b));
        let mean = (sums.iter().sum::<f64>() / (sums.len().max(1) * p) as f64).max(f64::MIN_POSITIVE);
        let mut rows = Vec::with_capacity(order.len() * (TASK_FEATURES + p));
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
        let mut columns = vec![0.0f32; MACHINE_FEATURES * p];
        for machine in 0..p {
            let costs = (0..instance.tasks()).map(|task| instance.costs(task)[machine] / mean);
            let (sum, least, most) = costs
                .fold((0.0, f64::MAX, 0.0f64), |(sum, least, most), c| (sum + c, least.min(c), most.max(c)));
            let own = [sum / sums.len().max(1) as f64, least, most];
            own.iter()
                .enumerate()
                .for_each(|(channel, value)| columns[channel * p + machine] = *value as f32);
        }
        let tasks = Tensor::from_vec(rows, (1, order.len(), TASK_FEATURES + p), &Device::Cpu)?;
        let machines = Tensor::from_vec(columns, (1, MACHINE_FEATURES, p), &Device::Cpu)?;
        Ok(Self { order, tasks, machines, longest: longest / p as f64 })
    }
}

/// Instance and HEFT's schedule of it.
struct TrainingExample {
    encoded: EncodedInstance,
    machines: Tensor,
    starts: Tensor,
}

impl TrainingExample {
    fn new(instance: &Instance) -> Result<Self> {
        let encoded = EncodedInstance::new(instance)?;
        let schedule = heft(instance);
        let slots = || encoded.order.iter().map(|task| &schedule.slots[*task as usize]);
        let machines: Vec<u32> = slots().map(|slot| slot.machine).collect();
        let starts: Vec<f32> = slots().map(|slot| (slot.start / encoded.longest) as f32).collect();
        let tasks = machines.len();
        Ok(Self {
            machines: Tensor::from_vec(machines, tasks, &Device::Cpu)?,
            starts: Tensor::from_vec(starts, tasks, &Device::Cpu)?,
            encoded,
        })
    }
}
