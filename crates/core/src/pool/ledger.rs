//! Ledger: the pool as it would be if a plan were carried out.

use super::{Placement, Pool, WorkerUse};
use crate::bitset::Bitset;
use crate::ids::WorkerId;
use std::collections::BTreeMap;

/// Overlay on the pool, on which allocations can be tried without changing it. Copies a worker on first write.
#[derive(Clone)]
pub struct Ledger<'a> {
    base: &'a Pool,
    touched: BTreeMap<WorkerId, WorkerUse>,
}

impl<'a> Ledger<'a> {
    /// Ledger without changes.
    pub fn over(base: &'a Pool) -> Ledger<'a> {
        Ledger { base, touched: BTreeMap::new() }
    }

    /// Worker as the ledger has it.
    pub fn worker(&self, id: WorkerId) -> Option<&WorkerUse> {
        self.touched.get(&id).or_else(|| self.base.worker(id))
    }

    /// Whether a placement fits.
    pub fn admits(&self, p: &Placement) -> bool {
        self.worker(p.worker).is_some_and(|w| w.admits(p))
    }

    /// Allocates a placement.
    pub fn charge(&mut self, p: &Placement) {
        self.write_on(p.worker).charge(p);
    }

    /// Pauses an attempt.
    pub fn pause(&mut self, p: &Placement) {
        self.write_on(p.worker).pause(p);
    }

    /// Resumes an attempt.
    pub fn resume(&mut self, p: &Placement) {
        self.write_on(p.worker).resume(p);
    }

    /// Whether a paused attempt could resume.
    pub fn admits_resumed(&self, p: &Placement) -> bool {
        self.worker(p.worker).is_some_and(|w| w.admits_resumed(p))
    }

    /// Releases the placement of a running attempt.
    pub fn release(&mut self, p: &Placement) {
        self.write_on(p.worker).release(p);
    }

    /// Releases the placement of an attempt that is stopping, and may be paused meanwhile.
    pub fn release_ending(&mut self, p: &Placement, paused: bool) {
        if paused {
            self.resume(p);
        }
        self.release(p);
    }

    /// Ledger with the changes of a single worker.
    pub fn page(&self, worker: WorkerId) -> Ledger<'a> {
        let touched = self.touched.get_key_value(&worker).map(|(&id, used)| (id, used.clone()));
        Ledger { base: self.base, touched: touched.into_iter().collect() }
    }

    /// Workers that may have capacity for a task without devices, or for a share of a device, by id.
    pub fn candidates(&self, devices: bool) -> impl Iterator<Item = (WorkerId, &WorkerUse)> + '_ {
        let all = (!devices).then(|| self.base.workers().map(|(id, _)| id));
        let spare =
            devices.then(|| merge(self.base.spare.iter().map(WorkerId), self.touched.keys().copied()));
        let ids = all.into_iter().flatten().chain(spare.into_iter().flatten());
        ids.filter_map(|id| self.worker(id).map(|w| (id, w)))
    }

    /// Workers with at least this many idle devices: changed ones first, then the others, the fewest idle devices
    /// first.
    pub fn with_idle(&self, devices: usize) -> impl Iterator<Item = (WorkerId, &WorkerUse)> + '_ {
        let touched = self.touched.iter().filter(move |(_, w)| w.open && w.idle >= devices);
        let others = self.base.idle.iter().skip(devices).flat_map(Bitset::iter).map(WorkerId);
        let others = others.filter(|id| !self.touched.contains_key(id));
        touched.map(|(&id, w)| (id, w)).chain(others.map(|id| (id, &self.base.workers[id.0 as usize])))
    }

    /// Whether a worker was changed.
    pub fn is_touched(&self, id: WorkerId) -> bool {
        self.touched.contains_key(&id)
    }

    /// The pool below.
    pub fn pool(&self) -> &'a Pool {
        self.base
    }

    fn write_on(&mut self, id: WorkerId) -> &mut WorkerUse {
        let base = self.base;
        self.touched.entry(id).or_insert_with(|| base.workers[id.0 as usize].clone())
    }
}

/// Merge of two ascending sequences, without duplicates.
fn merge<T: Ord>(a: impl Iterator<Item = T>, b: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) => match x.cmp(y) {
            std::cmp::Ordering::Less => a.next(),
            std::cmp::Ordering::Greater => b.next(),
            std::cmp::Ordering::Equal => {
                b.next();
                a.next()
            }
        },
        (Some(_), None) => a.next(),
        _ => b.next(),
    })
}
