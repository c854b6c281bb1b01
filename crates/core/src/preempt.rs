//! Victim selection: which running attempts are preempted so that something more urgent fits.
//!
//! [`find_victims`] is the whole decision, for any order and any pool: given the preemptible attempts, the least urgent
//! first, it finds the worker where the fewest have to be preempted. Which task is more urgent, and when a paused attempt
//! resumes, is decided in [`ordered`](crate::ordered). Two rules keep tasks from preempting each other for ever: no task
//! preempts an equal, and a task that started only becomes more urgent relative to the one it displaced, or less urgent
//! in stated steps.

use crate::ids::{AttemptId, WorkerId};
use crate::pool::{Ledger, Placement};
use crate::queue::Key;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Running attempt that may be preempted.
#[derive(Clone, Copy, Debug)]
pub struct PreemptionCandidate<'a> {
    /// The attempt.
    pub attempt: AttemptId,
    /// Urgency of keeping it running; the smallest key is the most urgent.
    pub key: Key,
    /// Its placement.
    pub placement: &'a Placement,
    /// How it is preempted.
    pub method: PreemptionMethod,
}

/// Way of preempting an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptionMethod {
    /// Frozen in place: it keeps its memory, and only its slot on its devices becomes free.
    Freeze,
    /// Ended, to run again later: everything it had becomes free.
    Requeue,
}

impl PreemptionCandidate<'_> {
    /// Notes on a ledger what its preemption frees.
    pub fn free_on(&self, on: &mut Ledger<'_>) {
        match self.method {
            PreemptionMethod::Freeze => on.pause(self.placement),
            PreemptionMethod::Requeue => on.release(self.placement),
        }
    }
}

/// Victims to preempt so that `fits` holds of what is then free on some worker, as indices into `candidates`, which come
/// with the least urgent first. `None` if no preemption helps. Of several workers it chooses the one with the fewest
/// victims, and of those the one whose most urgent victim is least urgent.
pub fn find_victims(
    free: &Ledger<'_>,
    candidates: &[PreemptionCandidate<'_>],
    fits: impl Fn(&Ledger<'_>, WorkerId) -> bool,
) -> Option<Vec<usize>> {
    let mut by_worker: BTreeMap<WorkerId, Vec<usize>> = BTreeMap::new();
    for (at, victim) in candidates.iter().enumerate() {
        by_worker.entry(victim.placement.worker).or_default().push(at);
    }
    let without = |worker: WorkerId, victims: &[usize]| {
        let mut page = free.page(worker);
        victims.iter().for_each(|&at| candidates[at].free_on(&mut page));
        page
    };
    let enough = |(worker, all): (WorkerId, Vec<usize>)| {
        let mut page = free.page(worker);
        // Greedily from the least urgent, until it fits.
        let count = 1 + all.iter().position(|&at| {
            candidates[at].free_on(&mut page);
            fits(&page, worker)
        })?;
        let mut victims = all[..count].to_vec();
        // The last one was needed. Earlier ones may not be (a small victim before a large one): spare the more urgent first.
        for spared in (0..count - 1).rev() {
            let mut others = victims.clone();
            others.remove(spared);
            if fits(&without(worker, &others), worker) {
                victims = others;
            }
        }
        let most_urgent = victims.iter().map(|&at| candidates[at].key).min()?;
        Some(((victims.len(), Reverse(most_urgent), worker), victims))
    };
    by_worker.into_iter().filter_map(enough).min_by_key(|(harm, _)| *harm).map(|(_, victims)| victims)
}
