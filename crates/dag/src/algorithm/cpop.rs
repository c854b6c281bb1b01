//! Critical Path on a Processor: ready tasks by upward plus downward rank; critical-path tasks go to the one machine
//! that runs the whole path soonest, the others to their earliest finish time. From Topcuoglu, Hariri and Wu (2002).

use super::definition::{Algorithm, Plan};
use super::priority_order::priority_order;
use crate::insertion::{CheapestMachines, Inserter};
use crate::instance::Instance;
use crate::rank::{downward_ranks, upward_ranks_of};
use crate::schedule::Schedule;

/// Plans with CPOP.
pub fn cpop(instance: &Instance) -> Schedule {
    let cheapest = CheapestMachines::new(instance);
    let up = upward_ranks_of(instance, cheapest.sums().to_vec());
    let down = downward_ranks(instance);
    let priority: Vec<f64> = up.iter().zip(&down).map(|(up, down)| up + down).collect();
    let path = critical_path(instance, &priority);
    let machine = fastest_machine(instance, &path);
    let mut on_path = vec![false; instance.tasks()];
    path.iter().for_each(|task| on_path[*task] = true);

    let mut inserter = Inserter::new(instance, &cheapest);
    for task in priority_order(instance, &priority) {
        let task = task as usize;
        if on_path[task] {
            inserter.place_on(task, machine);
        } else {
            inserter.place(task);
        }
    }
    inserter.into_schedule()
}

/// Critical path: from the entry of highest priority, always on to the successor of highest priority; ties go to the
/// lower index.
fn critical_path(instance: &Instance, priority: &[f64]) -> Vec<usize> {
    let highest = |tasks: &mut dyn Iterator<Item = usize>| {
        tasks.fold(None, |best: Option<usize>, task| match best {
            Some(best) if (priority[best], task) >= (priority[task], best) => Some(best),
            _ => Some(task),
        })
    };
    let mut path = Vec::new();
    let mut next = highest(&mut (0..instance.tasks()).filter(|t| instance.predecessors(*t).is_empty()));
    while let Some(task) = next {
        path.push(task);
        next = highest(&mut instance.successors(task).iter().map(|e| e.0 as usize));
    }
    path
}

/// Machine with the least total cost of the path.
fn fastest_machine(instance: &Instance, path: &[usize]) -> usize {
    let total = |machine: usize| path.iter().map(|task| instance.costs(*task)[machine]).sum::<f64>();
    (0..instance.machines()).min_by(|a, b| total(*a).total_cmp(&total(*b))).unwrap_or(0)
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "cpop",
    summary: "the critical path on the machine that runs it soonest, the rest by earliest finish",
    origin: "Topcuoglu, Hariri and Wu 2002",
    searches: false,
    plan: |instance, _| Plan::of(cpop(instance)),
};
