//! Predict Earliest Finish Time: ready tasks by mean optimistic cost; each on the machine with the least finish plus
//! optimistic cost. From Arabnejad and Barbosa, *List scheduling algorithm for heterogeneous systems by an optimistic
//! cost table* (2014).

use super::definition::{Algorithm, Plan};
use super::priority_order::priority_order;
use crate::insertion::{CheapestMachines, Inserter};
use crate::instance::Instance;
use crate::rank::optimistic_costs;
use crate::schedule::Schedule;

/// Plans with PEFT.
pub fn peft(instance: &Instance) -> Schedule {
    let p = instance.machines();
    let table = optimistic_costs(instance);
    let priority: Vec<f64> = table.chunks_exact(p).map(|row| row.iter().sum()).collect();
    let cheapest = CheapestMachines::new(instance);
    let mut inserter = Inserter::new(instance, &cheapest);
    for task in priority_order(instance, &priority) {
        let task = task as usize;
        inserter.place_biased(task, &table[task * p..(task + 1) * p]);
    }
    inserter.into_schedule()
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "peft",
    summary: "order and machine by an optimistic cost table",
    origin: "Arabnejad and Barbosa 2014",
    searches: false,
    plan: |instance, _| Plan::of(peft(instance)),
};
