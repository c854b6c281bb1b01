//! HEFT with a weighted optimistic cost: upward rank gives the order, and the machine minimises finish plus a share of
//! the remaining optimistic cost. Share 0 is HEFT; share 1 is PEFT's choice of machine.

use super::definition::{Algorithm, Plan};
use crate::insertion::{CheapestMachines, Inserter, MachineBias};
use crate::instance::Instance;
use crate::rank::{rank_order, upward_ranks};
use crate::remaining_cost::RemainingCosts;
use crate::schedule::Schedule;

/// Share with the best mean makespan over the layered instances of the benchmark.
const SHARE: f64 = 0.4;

/// Plans with HEFT's order and the given share of the optimistic cost table.
pub fn blend(instance: &Instance, share: f64) -> Schedule {
    let ranks = upward_ranks(instance);
    let remaining = RemainingCosts::new(instance);
    let bias = MachineBias { remaining: &remaining, weights: &[(share, 0.0)] };
    let cheapest = CheapestMachines::biased(instance, &bias);
    let mut inserter = Inserter::new(instance, &cheapest);
    inserter.place_all_biased(&rank_order(instance, &ranks), &bias);
    inserter.into_schedule()
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "blend",
    summary: "heft, its choice of machine blended with the optimistic cost table",
    origin: "HEFT's order, a share of PEFT's table",
    searches: false,
    plan: |instance, _| Plan::of(blend(instance, SHARE)),
};
