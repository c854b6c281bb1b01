//! Critical Path on a Processor: tasks by upward plus downward rank, as they become ready; the critical path goes to
//! the one machine that runs it soonest, the rest where it finishes first. From Topcuoglu, Hariri and Wu (2002).

use super::ready::by_priority;
use super::run::{Algorithm, Plan};
use crate::insertion::{Cheapest, Inserter};
use crate::instance::Instance;
use crate::rank::{downward_ranks, upward_ranks_of};
use crate::schedule::Schedule;

/// Plans with CPOP.
pub fn cpop(instance: &Instance) -> Schedule {
    let cheapest = Cheapest::new(instance);
    let up = upward_ranks_of(instance, cheapest.sums().to_vec());
    let down = downward_ranks(instance);
    let priority: Vec<f64> = up.iter().zip(&down).map(|(up, down)| up + down).collect();
    let path = critical_path(instance, &priority);
    let machine = machine_for(instance, &path);
    let mut on_path = vec![false; instance.tasks()];
    path.iter().for_each(|task| on_path[*task] = true);

    let mut inserter = Inserter::new(instance, &cheapest);
    for task in by_priority(instance, &priority) {
        let task = task as usize;
        if on_path[task] {
            inserter.place_on(task, machine);
        } else {
            inserter.place(task);
        }
    }
    inserter.into_schedule()
}

/// From the entry of highest priority on, always to the successor of highest priority; the lower index wins a tie.
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

fn machine_for(instance: &Instance, path: &[usize]) -> usize {
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
