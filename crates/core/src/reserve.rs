//! Reservations for EASY backfill: the earliest time at which a task that cannot start now fits, if running tasks end
//! when they are expected to.

use crate::cluster::View;
use crate::ids::WorkerId;
use crate::place::Search;
use crate::pool::{Ledger, Placement};
use crate::spec::Needs;
use crate::time::Time;
use smallvec::{SmallVec, smallvec};

/// Reservation: a placement kept free for a task from some time on.
pub struct Reservation<'a> {
    /// Start of the reservation.
    pub at: Time,
    /// Reserved placement.
    pub placement: Placement,
    /// Free capacity at that time, with the reserved placement charged.
    pub then: Ledger<'a>,
}

/// Reserves the earliest placement for a task. `ledger` is what is free now, `started` are the expected ends of what
/// was started on it and is not in the view yet. `None` if the task would not fit even on idle workers, as when its
/// worker is drained.
pub fn reserve<'a>(
    view: View<'a>,
    now: Time,
    ledger: &Ledger<'a>,
    started: &[(Time, Placement)],
    search: Search<'_>,
    needs: &Needs,
) -> Option<Reservation<'a>> {
    let mut then = ledger.clone();
    let mut started: Vec<_> = started.iter().map(|(at, p)| (*at, p)).collect();
    started.sort_by_key(|(at, _)| *at);
    let mut started = started.into_iter().peekable();
    let mut running = view.ends().map(|(at, _, p)| (at, p)).peekable();
    // Merges the two sequences of ends, both in order of time.
    let mut next = |until: Option<Time>| {
        let sooner = match (running.peek(), started.peek()) {
            (Some((r, _)), Some((s, _))) => r <= s,
            (r, _) => r.is_some(),
        };
        let due = |end: &(Time, &Placement)| until.is_none_or(|until| end.0 <= until);
        if sooner { running.next_if(due) } else { started.next_if(due) }
    };
    loop {
        let (at, first) = next(None)?;
        then.release(first);
        // All that ends at one time is free at that time: searching after each release would reserve on whichever
        // worker came first.
        let mut freed: SmallVec<[WorkerId; 4]> = smallvec![first.worker];
        while let Some((_, placement)) = next(Some(at)) {
            then.release(placement);
            freed.push(placement.worker);
        }
        freed.sort_unstable();
        freed.dedup();
        // A release makes the task fit on its own worker only, so no other has to be searched.
        let search = Search { now: &then, later: &[], ..search };
        let found = freed.into_iter().find_map(|worker| search.place_on(worker, needs));
        if let Some(placement) = found {
            then.charge(&placement);
            // An overdue attempt ends any moment: the reservation begins now, not in the past.
            return Some(Reservation { at: at.max(now), placement, then });
        }
    }
}
