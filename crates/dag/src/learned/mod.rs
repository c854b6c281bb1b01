//! A planner that has learned: a small network looks at every task among its neighbours and says how urgent it is
//! beyond its rank and how far its choice of machine should lean; the insertion scheduler then makes the schedule, so
//! that it always holds. Any number of tasks and machines. Training lives in `train`, behind the feature of that
//! name; nothing here needs a framework.

mod features;
mod network;
#[cfg(feature = "train")]
pub mod published;
mod tensors;
#[cfg(feature = "train")]
pub mod train;

pub use network::{Network, NetworkError};

use crate::foresight::Foresight;
use crate::insertion::{Cheapest, Inserter, Lean};
use crate::instance::Instance;
use crate::rank::{downward_ranks_of, rank_order, upward_ranks_of};
use crate::schedule::Schedule;
use features::Features;
use network::Advice;

/// What is known of an instance before the network is asked.
pub(crate) struct Groundwork<'a> {
    instance: &'a Instance,
    features: Features,
    ranks: Vec<f64>,
    scale: f64,
}

impl<'a> Groundwork<'a> {
    /// From the instance and its cheapest machines.
    pub(crate) fn new(instance: &'a Instance, cheapest: &Cheapest) -> Self {
        let sums = cheapest.sums();
        let down = downward_ranks_of(instance, sums);
        let scale = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        let ranks = upward_ranks_of(instance, sums.to_vec());
        let features = Features::new(instance, cheapest, &ranks, &down);
        Self { instance, features, ranks, scale }
    }

    pub(crate) fn ask(&self, network: &Network) -> Vec<Advice> {
        network.advise(self.instance, &self.features)
    }

    /// The schedule that advice leads to, given what each task leaves to do.
    pub(crate) fn plan(&self, advice: &[Advice], table: &Foresight) -> Schedule {
        let corrected =
            self.ranks.iter().zip(advice).map(|(rank, a)| rank + f64::from(a.urgency) * self.scale);
        let order = rank_order(self.instance, &above_what_follows(self.instance, corrected.collect()));
        let shares: Vec<(f64, f64)> =
            advice.iter().map(|a| (f64::from(a.foresight), f64::from(a.thrift))).collect();
        let lean = Lean { table, shares: &shares };
        let cheapest = Cheapest::leaning(self.instance, &lean);
        let mut inserter = Inserter::new(self.instance, &cheapest);
        inserter.place_all_leaning(&order, &lean);
        inserter.into_schedule()
    }
}

/// Lifts every priority to at least that of what follows, and to 0, so that sorting by it respects the edges.
fn above_what_follows(instance: &Instance, mut priority: Vec<f64>) -> Vec<f64> {
    for &task in instance.topological_order().iter().rev() {
        let after = instance.successors(task as usize).iter().map(|next| priority[next.0 as usize]);
        let most = after.fold(0.0, |a, b| if b > a { b } else { a });
        if most > priority[task as usize] || priority[task as usize].is_nan() {
            priority[task as usize] = most;
        }
    }
    priority
}

/// Whether the shipped network is worth asking. Where machines differ by speed alone all tasks want the same one, and
/// there it loses to HEFT more often than it wins.
pub(crate) fn is_promising(instance: &Instance, cheapest: &Cheapest) -> bool {
    let mut sought = vec![0usize; instance.machines()];
    (0..instance.tasks()).for_each(|task| sought[cheapest.first(task).0] += 1);
    2 * sought.iter().copied().max().unwrap_or(0) <= instance.tasks()
}

/// Plans with a given network in a single pass. What each task leaves to do is found beside asking the network, where
/// there is enough of it.
pub fn plan_with(instance: &Instance, network: &Network) -> Schedule {
    /// From so many costs on a second thread is worth starting.
    const MANY: usize = 1 << 17;
    let ask = || {
        let ground = Groundwork::new(instance, &Cheapest::new(instance));
        let advice = ground.ask(network);
        (ground, advice)
    };
    let ((ground, advice), table) = if instance.cost_matrix().len() < MANY {
        (ask(), Foresight::new(instance))
    } else {
        std::thread::scope(|scope| {
            let table = scope.spawn(|| Foresight::new(instance));
            (ask(), table.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    };
    ground.plan(&advice, &table)
}
