//! HEFT that tries before it chooses: each machine is tried for a task, the task's successors are placed after it,
//! and the machine where the last of them finishes first is taken. From Bittencourt, Sakellariou and Madeira, *DAG
//! scheduling using a lookahead variant of the heterogeneous earliest finish time algorithm* (2010). Where there are
//! many machines, only those where the task itself finishes soonest are tried.

use super::run::{Algorithm, Plan};
use crate::insertion::{Cheapest, Inserter};
use crate::instance::Instance;
use crate::rank::{rank_order, upward_ranks_of};
use crate::schedule::Schedule;

/// So many machines are tried at most.
const TRIED: usize = 16;
/// So many successors are placed at most, the most urgent ones.
const FOLLOWED: usize = 32;

/// Plans with one step of lookahead.
pub fn lookahead(instance: &Instance) -> Schedule {
    let cheapest = Cheapest::new(instance);
    let ranks = upward_ranks_of(instance, cheapest.sums().to_vec());
    let order = rank_order(instance, &ranks);
    let mut position = vec![0u32; order.len()];
    order.iter().enumerate().for_each(|(at, task)| position[*task as usize] = at as u32);
    let mut inserter = Inserter::new(instance, &cheapest);
    let mut placed = vec![false; order.len()];
    let mut followers = Vec::new();
    for &task in &order {
        let task = task as usize;
        placed[task] = true;
        followers.clear();
        // Only those that could be placed now: everything else they wait for has its place.
        followers.extend(instance.successors(task).iter().map(|e| e.0).filter(|next| {
            instance.predecessors(*next as usize).iter().all(|(before, _)| placed[*before as usize])
        }));
        followers.sort_unstable_by_key(|next| position[*next as usize]);
        followers.dedup();
        followers.truncate(FOLLOWED);
        if followers.is_empty() {
            inserter.place(task);
            continue;
        }
        let machine = best_machine(&mut inserter, task, &followers);
        inserter.place_on(task, machine);
    }
    inserter.into_schedule()
}

fn best_machine(inserter: &mut Inserter<'_>, task: usize, followers: &[u32]) -> usize {
    let mut tried: Vec<(f64, usize)> =
        (0..inserter.machines()).map(|machine| (inserter.finish_on(task, machine), machine)).collect();
    if tried.len() > TRIED {
        tried.select_nth_unstable_by(TRIED - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        tried.truncate(TRIED);
    }
    let mut best = (f64::INFINITY, f64::INFINITY, usize::MAX);
    for (finish, machine) in tried {
        inserter.place_on(task, machine);
        let mut last = 0.0f64;
        for &next in followers {
            last = last.max(inserter.place(next as usize).finish);
        }
        for &next in followers.iter().rev() {
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
