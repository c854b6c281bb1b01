//! HEFT with one step of lookahead: for each candidate machine of a task its ready successors are placed tentatively,
//! and the machine where the last of them finishes first is chosen. From Bittencourt, Sakellariou and Madeira, *DAG
//! scheduling using a lookahead variant of the heterogeneous earliest finish time algorithm* (2010). Only the machines
//! where the task itself finishes soonest are tried when there are many.

use super::definition::{Algorithm, Plan};
use crate::insertion::{CheapestMachines, Inserter};
use crate::instance::Instance;
use crate::rank::{rank_order, upward_ranks_of};
use crate::schedule::Schedule;

/// Candidate machines per task.
const MAX_TRIED_MACHINES: usize = 16;
/// Successors placed tentatively per candidate, by falling rank.
const MAX_PLACED_SUCCESSORS: usize = 32;

/// Plans with one step of lookahead.
pub fn lookahead(instance: &Instance) -> Schedule {
    let cheapest = CheapestMachines::new(instance);
    let ranks = upward_ranks_of(instance, cheapest.sums().to_vec());
    let order = rank_order(instance, &ranks);
    let mut position = vec![0u32; order.len()];
    order.iter().enumerate().for_each(|(at, task)| position[*task as usize] = at as u32);
    let mut inserter = Inserter::new(instance, &cheapest);
    let mut placed = vec![false; order.len()];
    let mut ready_successors = Vec::new();
    for &task in &order {
        let task = task as usize;
        placed[task] = true;
        ready_successors.clear();
        // Only successors whose other predecessors are all placed have a defined ready time.
        ready_successors.extend(instance.successors(task).iter().map(|e| e.0).filter(|next| {
            instance.predecessors(*next as usize).iter().all(|(before, _)| placed[*before as usize])
        }));
        ready_successors.sort_unstable_by_key(|next| position[*next as usize]);
        ready_successors.dedup();
        ready_successors.truncate(MAX_PLACED_SUCCESSORS);
        if ready_successors.is_empty() {
            inserter.place(task);
            continue;
        }
        let machine = best_machine(&mut inserter, task, &ready_successors);
        inserter.place_on(task, machine);
    }
    inserter.into_schedule()
}

fn best_machine(inserter: &mut Inserter<'_>, task: usize, ready_successors: &[u32]) -> usize {
    let mut tried: Vec<(f64, usize)> =
        (0..inserter.machines()).map(|machine| (inserter.finish_on(task, machine), machine)).collect();
    if tried.len() > MAX_TRIED_MACHINES {
        tried.select_nth_unstable_by(MAX_TRIED_MACHINES - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        tried.truncate(MAX_TRIED_MACHINES);
    }
    let mut best = (f64::INFINITY, f64::INFINITY, usize::MAX);
    for (finish, machine) in tried {
        inserter.place_on(task, machine);
        let mut last = 0.0f64;
        for &next in ready_successors {
            last = last.max(inserter.place(next as usize).finish);
        }
        // Removal must undo placements in reverse order.
        for &next in ready_successors.iter().rev() {
            inserter.remove(next as usize);
        }
        inserter.remove(task);
        if (last, finish, machine) < best {
            best = (last, finish, machine);
        }
    }
    best.2
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "lookahead",
    summary: "heft that tries machines for the sake of a task's successors",
    origin: "Bittencourt, Sakellariou and Madeira 2010",
    searches: false,
    plan: |instance, _| Plan::of(lookahead(instance)),
};
