//! Who gives way so that something more urgent fits.
//!
//! [`make_room`] is the whole decision, for any order and any pool: given who may give way, the least urgent first, it finds
//! the machine where the fewest have to. Who is more urgent than whom is the order's affair, and so is when one that stands
//! still goes on; both are in [`ordered`](crate::ordered). What keeps tasks from taking turns for ever is that nobody gives
//! way to an equal, and that what has begun to run only ever becomes more urgent against what it displaced, or sinks by
//! stated steps.

use crate::ids::{AttemptId, WorkerId};
use crate::pool::{Ledger, Placement};
use crate::queue::Key;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A running attempt that may be made to give way.
#[derive(Clone, Copy, Debug)]
pub struct PreemptionCandidate<'a> {
    /// Which.
    pub attempt: AttemptId,
    /// How urgent it is to keep it running; smaller is more urgent.
    pub key: Key,
    /// Where it runs.
    pub placement: &'a Placement,
    /// How it gives way.
    pub way: PreemptionMethod,
}

/// How an attempt gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptionMethod {
    /// It stands still where it is and keeps its memory: only its place among the tasks of its devices is free then.
    Freeze,
    /// It ends and runs again later: all it had is free then.
    Requeue,
}

impl PreemptionCandidate<'_> {
    /// Notes what is free once it has given way.
    pub fn gives_way(&self, on: &mut Ledger<'_>) {
        match self.way {
            PreemptionMethod::Freeze => on.pause(self.placement),
            PreemptionMethod::Requeue => on.release(self.placement),
        }
    }
}

/// Those who have to give way, as places in `victims`, so that `fits` holds of what is then free on some worker. `None` if
/// nothing they could do would help. `victims` come with the least urgent first. Of several workers it is the one where
/// the fewest give way, and of those the one where the most urgent of them is least urgent.
pub fn make_room(
    free: &Ledger<'_>,
    victims: &[PreemptionCandidate<'_>],
    fits: impl Fn(&Ledger<'_>, WorkerId) -> bool,
) -> Option<Vec<usize>> {
    let mut by_worker: BTreeMap<WorkerId, Vec<usize>> = BTreeMap::new();
    for (at, victim) in victims.iter().enumerate() {
        by_worker.entry(victim.placement.worker).or_default().push(at);
    }
    let without = |worker: WorkerId, gone: &[usize]| {
        let mut page = free.page(worker);
        gone.iter().for_each(|&at| victims[at].gives_way(&mut page));
        page
    };
    let enough = |(worker, all): (WorkerId, Vec<usize>)| {
        let mut page = free.page(worker);
        let count = 1 + all.iter().position(|&at| {
            victims[at].gives_way(&mut page);
            fits(&page, worker)
        })?;
        let mut gone = all[..count].to_vec();
        // The last was needed; of those before it, the more urgent are spared first.
        for spared in (0..count - 1).rev() {
            let mut others = gone.clone();
            others.remove(spared);
            if fits(&without(worker, &others), worker) {
                gone = others;
            }
        }
        let most_urgent = gone.iter().map(|&at| victims[at].key).min()?;
        Some(((gone.len(), Reverse(most_urgent), worker), gone))
    };
    by_worker.into_iter().filter_map(enough).min_by_key(|(harm, _)| *harm).map(|(_, gone)| gone)
}
