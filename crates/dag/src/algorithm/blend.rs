//! HEFT that looks ahead a little: upward rank decides the order, and the machine is the one where finish plus a
//! share of the optimistic cost is least. HEFT is the share 0; PEFT's choice of machine is the share 1.

use super::run::{Algorithm, Plan};
use crate::foresight::Foresight;
use crate::insertion::{Cheapest, Inserter, Lean};
use crate::instance::Instance;
use crate::rank::{rank_order, upward_ranks};
use crate::schedule::Schedule;

/// The share that did best over the layered instances of the bench.
const SHARE: f64 = 0.4;

/// Plans with HEFT's order and a share of the optimistic cost table.
pub fn blend(instance: &Instance, share: f64) -> Schedule {
    let ranks = upward_ranks(instance);
    let table = Foresight::new(instance);
    let lean = Lean { table: &table, shares: &[(share, 0.0)] };
    let cheapest = Cheapest::leaning(instance, &lean);
    let mut inserter = Inserter::new(instance, &cheapest);
    inserter.place_all_leaning(&rank_order(instance, &ranks), &lean);
    inserter.into_schedule()
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "blend",
    summary: "heft, its choice of machine blended with the optimistic cost table",
    origin: "HEFT's order, a share of PEFT's table",
    searches: false,
    plan: |instance, _| Plan::of(blend(instance, SHARE)),
};
