//! Availability profile: free capacity from now on, if everything ends when it is expected to. For conservative
//! backfill, in which many waiting tasks have a reservation each and none of them may be delayed.

use crate::fragment::TaskMix;
use crate::ids::{DeviceId, WorkerId};
use crate::place::{Fit, Search};
use crate::pool::{Ledger, Placement};
use crate::spec::Needs;
use crate::time::{Span, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Availability profile: free capacity now, and its changes over time.
pub struct Profile<'a> {
    now: Time,
    free: Ledger<'a>,
    /// Changes by time. At one time, releases come before charges, so that a reservation may begin exactly when
    /// another ends. The last number keeps keys apart.
    changes: BTreeMap<(Time, ChangeKind, usize), Cow<'a, Placement>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    Released,
    Charged,
}

/// Request for a placement of a certain duration.
#[derive(Clone, Copy)]
pub struct PlacementRequest<'a> {
    /// Resources the task needs.
    pub needs: &'a Needs,
    /// Expected run time.
    pub length: Span,
    /// Devices withheld from the task, sorted.
    pub withheld: &'a [DeviceId],
    /// Fit: which of several places is chosen.
    pub fit: Fit,
    /// Needs of the tasks there are, for the fit that minimises fragmentation.
    pub workload: &'a TaskMix,
}

impl<'a> Profile<'a> {
    /// Profile without reservations, from what is free now and the expected ends of what runs. An attempt that should
    /// have ended already is expected to end in a moment.
    pub fn new(
        free: Ledger<'a>,
        now: Time,
        ends: impl Iterator<Item = (Time, &'a Placement)>,
    ) -> Profile<'a> {
        let soon = now + Span(1);
        let changes =
            ends.enumerate().map(|(i, (at, p))| ((at.max(soon), ChangeKind::Released, i), Cow::Borrowed(p)));
        Profile { now, free, changes: changes.collect() }
    }

    /// Placement from now on that delays no reservation.
    pub fn at_once(&self, request: PlacementRequest<'_>) -> Option<Placement> {
        self.place_lasting(&self.free, self.now, request, |search| search.place(request.needs))
    }

    /// Earliest time and placement that delay no reservation. `None` if the task does not fit even once everything
    /// has ended, such as one for a drained worker.
    pub fn earliest(&self, request: PlacementRequest<'_>) -> Option<(Time, Placement)> {
        if let Some(placement) = self.at_once(request) {
            return Some((self.now, placement));
        }
        let mut then = self.free.clone();
        let mut changes = self.changes.iter().peekable();
        // Only a release can make the task fit, and only on the worker it happened on: nothing else has to be
        // searched.
        while let Some(&(&(at, ..), _)) = changes.peek() {
            let mut freed: Vec<WorkerId> = Vec::new();
            while let Some((&(_, kind, _), p)) = changes.next_if(|((when, ..), _)| *when == at) {
                match kind {
                    ChangeKind::Released => {
                        then.release(p);
                        freed.push(p.worker);
                    }
                    ChangeKind::Charged => then.charge(p),
                }
            }
            freed.sort_unstable();
            freed.dedup();
            for worker in freed {
                let found =
                    self.place_lasting(&then, at, request, |search| search.place_on(worker, request.needs));
                if let Some(placement) = found {
                    return Some((at, placement));
                }
            }
        }
        None
    }

    /// Charges a placement from a time on, for a duration.
    pub fn take(&mut self, from: Time, length: Span, placement: &Placement) {
        // Never an empty interval: a task of no expected length still keeps its devices for a moment.
        let until = (from + length).max(from + Span(1));
        if from <= self.now {
            self.free.charge(placement);
        } else {
            self.note(from, ChangeKind::Charged, placement.clone());
        }
        self.note(until, ChangeKind::Released, placement.clone());
    }

    fn note(&mut self, at: Time, kind: ChangeKind, placement: Placement) {
        self.changes.insert((at, kind, self.changes.len()), Cow::Owned(placement));
    }

    /// Placement on `then`, the free capacity at `from`, that stays free for the requested duration.
    fn place_lasting(
        &self,
        then: &Ledger<'_>,
        from: Time,
        request: PlacementRequest<'_>,
        place: impl Fn(Search<'_>) -> Option<Placement>,
    ) -> Option<Placement> {
        let mut withheld = request.withheld.to_vec();
        let mut excluded = Vec::new();
        // Each turn withholds a device or a worker, so this ends; it avoids trying every combination of devices.
        loop {
            let PlacementRequest { fit, workload, .. } = request;
            let search =
                Search { now: then, later: &[], withheld: &withheld, excluded: &excluded, fit, workload };
            let placement = place(search)?;
            let Some(delayed_reservation) = self.delayed_reservation(then, from, request.length, &placement)
            else {
                return Some(placement);
            };
            let before = withheld.len();
            withheld.extend(
                placement.device_ids().filter(|id| delayed_reservation.device_ids().any(|d| d == *id)),
            );
            withheld.sort_unstable();
            if withheld.len() == before {
                // The devices are free for long enough, but CPUs or memory of the host are not.
                excluded.push(placement.worker);
            }
        }
    }

    /// Reservation that a placement would delay, if there is one.
    fn delayed_reservation(
        &self,
        then: &Ledger<'_>,
        from: Time,
        length: Span,
        p: &Placement,
    ) -> Option<&Placement> {
        let mut page = then.page(p.worker);
        page.charge(p);
        // Changes at `from` are part of `then` already.
        let after =
            (std::ops::Bound::Excluded((from, ChangeKind::Charged, usize::MAX)), std::ops::Bound::Unbounded);
        let until = from + length;
        let changes = self.changes.range(after).take_while(|((at, ..), _)| *at < until);
        for ((_, kind, _), other) in changes.filter(|(_, other)| other.worker == p.worker) {
            match kind {
                ChangeKind::Released => page.release(other),
                ChangeKind::Charged if page.admits(other) => page.charge(other),
                ChangeKind::Charged => return Some(other),
            }
        }
        None
    }
}
