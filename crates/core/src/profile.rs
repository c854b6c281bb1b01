//! What is free from now on, if everything ends when it is expected to: for policies in which many tasks that wait hold a
//! reservation each, none of which may be delayed.

use crate::fragment::TaskMix;
use crate::ids::{DeviceId, WorkerId};
use crate::place::{Fit, Search};
use crate::pool::{Ledger, Placement};
use crate::spec::Needs;
use crate::time::{Span, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What is free now, and how that changes.
pub struct Profile<'a> {
    now: Time,
    free: Ledger<'a>,
    /// By moment; at one moment what is given back comes before what is taken.
    changes: BTreeMap<(Time, ChangeKind, usize), Cow<'a, Placement>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    GivenBack,
    Taken,
}

/// Where something goes and how long it stays.
#[derive(Clone, Copy)]
pub struct PlacementRequest<'a> {
    /// What it needs.
    pub needs: &'a Needs,
    /// How long it is taken to run.
    pub length: Span,
    /// Devices withheld from it, in order.
    pub withheld: &'a [DeviceId],
    /// Which of several fitting places is taken.
    pub fit: Fit,
    /// The tasks there are.
    pub workload: &'a TaskMix,
}

impl<'a> Profile<'a> {
    /// What is free now, with nothing kept for anyone, and when what runs will end. What should have ended already is taken to
    /// end in a moment.
    pub fn new(
        free: Ledger<'a>,
        now: Time,
        ends: impl Iterator<Item = (Time, &'a Placement)>,
    ) -> Profile<'a> {
        let soon = now + Span(1);
        let changes =
            ends.enumerate().map(|(i, (at, p))| ((at.max(soon), ChangeKind::GivenBack, i), Cow::Borrowed(p)));
        Profile { now, free, changes: changes.collect() }
    }

    /// A place from now on that delays nobody something is kept for.
    pub fn at_once(&self, wish: PlacementRequest<'_>) -> Option<Placement> {
        self.lasting(&self.free, self.now, wish, |search| search.place(wish.needs))
    }

    /// The earliest moment from which there is such a place. `None` if not even once all is over, as for something that
    /// fits nowhere at present.
    pub fn earliest(&self, wish: PlacementRequest<'_>) -> Option<(Time, Placement)> {
        if let Some(placement) = self.at_once(wish) {
            return Some((self.now, placement));
        }
        let mut then = self.free.clone();
        let mut changes = self.changes.iter().peekable();
        while let Some(&(&(at, ..), _)) = changes.peek() {
            let mut freed: Vec<WorkerId> = Vec::new();
            while let Some((&(_, kind, _), p)) = changes.next_if(|((when, ..), _)| *when == at) {
                match kind {
                    ChangeKind::GivenBack => {
                        then.release(p);
                        freed.push(p.worker);
                    }
                    ChangeKind::Taken => then.charge(p),
                }
            }
            freed.sort_unstable();
            freed.dedup();
            for worker in freed {
                let found = self.lasting(&then, at, wish, |search| search.place_on(worker, wish.needs));
                if let Some(placement) = found {
                    return Some((at, placement));
                }
            }
        }
        None
    }

    /// Takes a place from a moment on, for a while.
    pub fn take(&mut self, from: Time, length: Span, placement: &Placement) {
        let until = (from + length).max(from + Span(1));
        if from <= self.now {
            self.free.charge(placement);
        } else {
            self.note(from, ChangeKind::Taken, placement.clone());
        }
        self.note(until, ChangeKind::GivenBack, placement.clone());
    }

    fn note(&mut self, at: Time, kind: ChangeKind, placement: Placement) {
        self.changes.insert((at, kind, self.changes.len()), Cow::Owned(placement));
    }

    /// A place among what is free at a moment that stays free for as long as it is wanted.
    fn lasting(
        &self,
        then: &Ledger<'_>,
        from: Time,
        wish: PlacementRequest<'_>,
        place: impl Fn(Search<'_>) -> Option<Placement>,
    ) -> Option<Placement> {
        let mut withheld = wish.withheld.to_vec();
        let mut shunned = Vec::new();
        loop {
            let PlacementRequest { fit, workload, .. } = wish;
            let search =
                Search { now: then, later: &[], withheld: &withheld, shunned: &shunned, fit, workload };
            let placement = place(search)?;
            let Some(in_the_way) = self.in_the_way(then, from, wish.length, &placement) else {
                return Some(placement);
            };
            let before = withheld.len();
            withheld.extend(placement.device_ids().filter(|id| in_the_way.device_ids().any(|d| d == *id)));
            withheld.sort_unstable();
            if withheld.len() == before {
                // Not the devices but the machine is short of something.
                shunned.push(placement.worker);
            }
        }
    }

    /// What is kept for another that a placement would have to make room for before it ends.
    fn in_the_way(&self, then: &Ledger<'_>, from: Time, length: Span, p: &Placement) -> Option<&Placement> {
        let mut page = then.page(p.worker);
        page.charge(p);
        let after =
            (std::ops::Bound::Excluded((from, ChangeKind::Taken, usize::MAX)), std::ops::Bound::Unbounded);
        let until = from + length;
        let changes = self.changes.range(after).take_while(|((at, ..), _)| *at < until);
        for ((_, kind, _), other) in changes.filter(|(_, other)| other.worker == p.worker) {
            match kind {
                ChangeKind::GivenBack => page.release(other),
                ChangeKind::Taken if page.admits(other) => page.charge(other),
                ChangeKind::Taken => return Some(other),
            }
        }
        None
    }
}
