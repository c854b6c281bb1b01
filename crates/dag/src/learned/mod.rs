//! A planner that has learned: a small network looks at every task among its neighbours and says how urgent it is
//! beyond its rank and how far its choice of machine should lean; the insertion scheduler then makes the schedule, so
//! that it always holds. Any number of tasks and machines. Training lives in `train`, behind the feature of that
//! name; nothing here needs a framework.

mod features;
mod network;
#[cfg(feature = "train")]
pub mod train;

pub use network::{Network, NetworkError};

use std::sync::Arc;

use crate::algorithm::by_priority;
use crate::insertion::{Cheapest, Inserter, Lean};
use crate::instance::Instance;
use crate::rank::{downward_ranks_of, optimistic_costs, upward_ranks_of};
use crate::schedule::Schedule;
use features::Features;

/// What is known of an instance before the network is asked.
pub(crate) struct Groundwork<'a> {
    instance: &'a Instance,
    features: Features,
    ranks: Vec<f64>,
    table: Arc<Vec<f64>>,
    scale: f64,
}

impl<'a> Groundwork<'a> {
    /// `table` holds the optimistic costs of the instance.
    pub(crate) fn new(instance: &'a Instance, table: Arc<Vec<f64>>) -> Self {
        let sums = crate::rank::cost_sums(instance);
        let down = downward_ranks_of(instance, &sums);
        let scale = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        let ranks = upward_ranks_of(instance, sums.clone());
        let features = Features::new(instance, &sums, &ranks, &down);
        Self { instance, features, ranks, table, scale }
    }

    /// The schedule the network's advice leads to.
    pub(crate) fn plan(&self, network: &Network) -> Schedule {
        let advice = network.advise(self.instance, &self.features);
        let priority: Vec<f64> = self
            .ranks
            .iter()
            .zip(&advice)
            .map(|(rank, a)| rank + f64::from(a.urgency) * self.scale)
            .collect();
        let shares: Vec<(f64, f64)> =
            advice.iter().map(|a| (f64::from(a.foresight), f64::from(a.thrift))).collect();
        let lean = Lean { table: &self.table, shares: &shares };
        let cheapest = Cheapest::leaning(self.instance, &lean);
        let mut inserter = Inserter::new(self.instance, &cheapest);
        inserter.place_all_leaning(&by_priority(self.instance, &priority), &lean);
        inserter.into_schedule()
    }
}

/// Plans with a given network in a single pass.
pub fn plan_with(instance: &Instance, network: &Network) -> Schedule {
    Groundwork::new(instance, Arc::new(optimistic_costs(instance))).plan(network)
}
