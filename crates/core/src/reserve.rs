//! The moment at which a task that cannot start now is sure of a place, if running tasks end when they are expected to.

use crate::cluster::View;
use crate::ids::WorkerId;
use crate::place::Search;
use crate::pool::{Ledger, Placement};
use crate::spec::Needs;
use crate::time::Time;
use smallvec::{SmallVec, smallvec};

/// A place kept for a task from some moment on.
pub struct Reservation<'a> {
    /// From when.
    pub at: Time,
    /// Where.
    pub placement: Placement,
    /// What is free at that moment, the reserved place taken.
    pub then: Ledger<'a>,
}

/// Reserves the earliest place for a task, given what is free now (`ledger`) and when what was started on it but is not
/// in the view yet (`started`) will end. `None` if it would not fit even on idle machines, as when its worker is
/// drained.
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
        // What ends at one moment is free at once, whichever comes first here.
        let mut freed: SmallVec<[WorkerId; 4]> = smallvec![first.worker];
        while let Some((_, placement)) = next(Some(at)) {
            then.release(placement);
            freed.push(placement.worker);
        }
        freed.sort_unstable();
        freed.dedup();
        let search = Search { now: &then, later: &[], ..search };
        let found = freed.into_iter().find_map(|worker| search.place_on(worker, needs));
        if let Some(placement) = found {
            then.charge(&placement);
            return Some(Reservation { at: at.max(now), placement, then });
        }
    }
}
