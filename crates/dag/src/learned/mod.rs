//! Learned planner: a small graph network gives each task a correction of its rank and its own bias weights; the
//! insertion scheduler then builds the schedule, so that it is always valid. Works for any number of tasks and
//! machines. Training is in `train`, behind the feature of that name; inference needs no framework.

mod features;
mod network;
#[cfg(feature = "train")]
pub mod supervised;
mod tensors;
#[cfg(feature = "train")]
pub mod train;

pub use network::{Network, NetworkError};

use crate::insertion::{CheapestMachines, Inserter, MachineBias};
use crate::instance::Instance;
use crate::rank::{downward_ranks_of, rank_order, upward_ranks_of};
use crate::remaining_cost::RemainingCosts;
use crate::schedule::Schedule;
use features::Features;
use network::TaskOutput;

/// Features and ranks of an instance, computed before inference.
pub(crate) struct NetworkInput<'a> {
    instance: &'a Instance,
    features: Features,
    ranks: Vec<f64>,
    scale: f64,
}

impl<'a> NetworkInput<'a> {
    /// Computes them from the instance and its cheapest machines.
    pub(crate) fn new(instance: &'a Instance, cheapest: &CheapestMachines) -> Self {
        let sums = cheapest.sums();
        let down = downward_ranks_of(instance, sums);
        let scale = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        let ranks = upward_ranks_of(instance, sums.to_vec());
        let features = Features::new(instance, cheapest, &ranks, &down);
        Self { instance, features, ranks, scale }
    }

    /// Runs the network: one output per task.
    pub(crate) fn infer(&self, network: &Network) -> Vec<TaskOutput> {
        network.forward(self.instance, &self.features)
    }

    /// Schedules with corrected ranks and per-task bias weights.
    pub(crate) fn schedule(&self, outputs: &[TaskOutput], remaining: &RemainingCosts) -> Schedule {
        let corrected =
            self.ranks.iter().zip(outputs).map(|(rank, a)| rank + f64::from(a.urgency) * self.scale);
        let order = rank_order(self.instance, &raise_above_successors(self.instance, corrected.collect()));
        let weights: Vec<(f64, f64)> =
            outputs.iter().map(|a| (f64::from(a.foresight), f64::from(a.thrift))).collect();
        let bias = MachineBias { remaining, weights: &weights };
        let cheapest = CheapestMachines::biased(self.instance, &bias);
        let mut inserter = Inserter::new(self.instance, &cheapest);
        inserter.place_all_biased(&order, &bias);
        inserter.into_schedule()
    }
}

/// Raises every priority to at least that of each successor, and to 0, so that sorting by priority respects the edges.
fn raise_above_successors(instance: &Instance, mut priority: Vec<f64>) -> Vec<f64> {
    for &task in instance.topological_order().iter().rev() {
        let after = instance.successors(task as usize).iter().map(|next| priority[next.0 as usize]);
        let most = after.fold(0.0, |a, b| if b > a { b } else { a });
        if most > priority[task as usize] || priority[task as usize].is_nan() {
            priority[task as usize] = most;
        }
    }
    priority
}

/// Whether the shipped network is likely to beat HEFT. Where machines differ by speed alone, all tasks prefer the same
/// one, and the network loses more often than it wins.
pub(crate) fn is_worth_trying(instance: &Instance, cheapest: &CheapestMachines) -> bool {
    let mut demand = vec![0usize; instance.machines()];
    (0..instance.tasks()).for_each(|task| demand[cheapest.cheapest_machine(task).0] += 1);
    2 * demand.iter().copied().max().unwrap_or(0) <= instance.tasks()
}

/// Plans with a given network in a single pass. On large instances the remaining cost table is computed on a second
/// thread during inference.
pub fn plan_with(instance: &Instance, network: &Network) -> Schedule {
    /// Cost entries from which a second thread pays for its start.
    const PARALLEL_COSTS: usize = 1 << 17;
    let infer = || {
        let input = NetworkInput::new(instance, &CheapestMachines::new(instance));
        let outputs = input.infer(network);
        (input, outputs)
    };
    let ((input, outputs), remaining) = if instance.cost_matrix().len() < PARALLEL_COSTS {
        (infer(), RemainingCosts::new(instance))
    } else {
        std::thread::scope(|scope| {
            let remaining = scope.spawn(|| RemainingCosts::new(instance));
            (infer(), remaining.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    };
    input.schedule(&outputs, &remaining)
}
