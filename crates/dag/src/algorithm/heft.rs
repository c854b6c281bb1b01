//! Heterogeneous Earliest Finish Time, exactly as published: tasks by falling upward rank, each on the machine with
//! the earliest finish time, idle gaps filled. Ties in rank go by topological position; ties in finish go to the lower
//! machine. From Topcuoglu, Hariri and Wu, *Performance-effective and low-complexity task scheduling for heterogeneous
//! computing* (2002).

use super::definition::{Algorithm, Plan};
use crate::insertion::{CheapestMachines, Inserter};
use crate::instance::Instance;
use crate::rank::{rank_order, upward_ranks_of};
use crate::schedule::Schedule;

/// Plans with HEFT.
///
/// ```
/// use warpyard_dag::{Layered, algorithm::heft, check};
/// let instance = Layered { tasks: 100, machines: 8, seed: 1, ..Default::default() }.generate()?;
/// let schedule = heft(&instance);
/// assert_eq!(schedule.makespan(), 23628.0);
/// assert_eq!(check(&instance, &schedule), Ok(()));
/// # Ok::<(), warpyard_dag::InstanceError>(())
/// ```
pub fn heft(instance: &Instance) -> Schedule {
    let cheapest = CheapestMachines::for_insertion(instance);
    let ranks = upward_ranks_of(instance, cheapest.sums().to_vec());
    let mut inserter = Inserter::new(instance, &cheapest);
    inserter.place_all(&rank_order(instance, &ranks));
    inserter.into_schedule()
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "heft",
    summary: "upward rank decides the order, earliest finish the machine",
    origin: "Topcuoglu, Hariri and Wu 2002",
    searches: false,
    plan: |instance, _| Plan::of(heft(instance)),
};
