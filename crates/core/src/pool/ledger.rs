//! A sheet laid over the pool: what would be given, were a plan carried out.

use super::{Placement, Pool, WorkerUse};
use crate::bitset::Bitset;
use crate::ids::WorkerId;
use std::collections::BTreeMap;

/// A sheet over the pool on which charges and releases can be tried without changing it.
#[derive(Clone)]
pub struct Ledger<'a> {
    base: &'a Pool,
    touched: BTreeMap<WorkerId, WorkerUse>,
}

impl<'a> Ledger<'a> {
    /// A clean sheet.
    pub fn over(base: &'a Pool) -> Ledger<'a> {
        Ledger { base, touched: BTreeMap::new() }
    }

    /// A worker as the sheet has it.
    pub fn worker(&self, id: WorkerId) -> Option<&WorkerUse> {
        self.touched.get(&id).or_else(|| self.base.worker(id))
    }

    /// Whether a placement would be accepted.
    pub fn admits(&self, p: &Placement) -> bool {
        self.worker(p.worker).is_some_and(|w| w.admits(p))
    }

    /// Notes a placement as given.
    pub fn charge(&mut self, p: &Placement) {
        self.write_on(p.worker).charge(p);
    }

    /// Notes an attempt as standing still.
    pub fn pause(&mut self, p: &Placement) {
        self.write_on(p.worker).pause(p);
    }

    /// Notes an attempt that stood still as going on.
    pub fn resume(&mut self, p: &Placement) {
        self.write_on(p.worker).resume(p);
    }

    /// Whether an attempt that stands still could go on.
    pub fn admits_resumed(&self, p: &Placement) -> bool {
        self.worker(p.worker).is_some_and(|w| w.admits_resumed(p))
    }

    /// Notes a placement as given back by one that runs.
    pub fn release(&mut self, p: &Placement) {
        self.write_on(p.worker).release(p);
    }

    /// Notes a placement as given back by one that is being ended, and may stand still meanwhile.
    pub fn release_ending(&mut self, p: &Placement, paused: bool) {
        if paused {
            self.resume(p);
        }
        self.release(p);
    }

    /// What the sheet says of one worker, on a sheet of its own.
    pub fn page(&self, worker: WorkerId) -> Ledger<'a> {
        let touched = self.touched.get_key_value(&worker).map(|(&id, used)| (id, used.clone()));
        Ledger { base: self.base, touched: touched.into_iter().collect() }
    }

    /// Workers that may have room for a task without devices, or for a share of a device, in order of number.
    pub fn candidates(&self, devices: bool) -> impl Iterator<Item = (WorkerId, &WorkerUse)> + '_ {
        let all = (!devices).then(|| self.base.workers().map(|(id, _)| id));
        let spare =
            devices.then(|| merge(self.base.spare.iter().map(WorkerId), self.touched.keys().copied()));
        let ids = all.into_iter().flatten().chain(spare.into_iter().flatten());
        ids.filter_map(|id| self.worker(id).map(|w| (id, w)))
    }

    /// Workers with at least this many idle devices: those written on, then the others, the fewest idle devices first.
    pub fn with_idle(&self, devices: usize) -> impl Iterator<Item = (WorkerId, &WorkerUse)> + '_ {
        let touched = self.touched.iter().filter(move |(_, w)| w.open && w.idle >= devices);
        let others = self.base.idle.iter().skip(devices).flat_map(Bitset::iter).map(WorkerId);
        let others = others.filter(|id| !self.touched.contains_key(id));
        touched.map(|(&id, w)| (id, w)).chain(others.map(|id| (id, &self.base.workers[id.0 as usize])))
    }

    /// Whether anything was noted of a worker.
    pub fn is_touched(&self, id: WorkerId) -> bool {
        self.touched.contains_key(&id)
    }

    /// The pool under the sheet.
    pub fn pool(&self) -> &'a Pool {
        self.base
    }

    fn write_on(&mut self, id: WorkerId) -> &mut WorkerUse {
        let base = self.base;
        self.touched.entry(id).or_insert_with(|| base.workers[id.0 as usize].clone())
    }
}

/// Two ascending sequences as one, without repeats.
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
