//! Precomputing thread that runs ahead of the placing thread: for tasks soon to be placed it computes ready times and
//! lists the cheapest machines, so that the placing thread does not wait for memory. Neither waits for the other: an
//! input not published in time is computed by the placing thread itself, so schedules are the same.

use std::array::from_fn;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::{Arrival, CheapestMachines, arrival, prefetch};
use crate::instance::Instance;
use crate::schedule::Slot;

/// Tasks the thread may be ahead, and the size of the ring of inputs.
const MAX_LEAD: usize = 32;
/// Cheapest machines listed per task.
pub(super) const LISTED_KEYS: usize = 6;

/// Inputs to placing a task.
#[derive(Clone, Copy)]
pub(super) struct PlacementInput {
    pub(super) arrival: Arrival,
    /// Cost on the machine `arrival.home`; 0 where there is none.
    pub(super) home_cost: f64,
    /// Keys of its cheapest machines, least first; padded with infinity.
    pub(super) keys: [f64; LISTED_KEYS],
}

impl PlacementInput {
    /// Input without listed machines.
    #[inline]
    pub(super) fn of(instance: &Instance, task: usize, arrival: Arrival) -> Self {
        let home_cost = instance.costs(task).get(arrival.home).copied().unwrap_or_default();
        Self { arrival, home_cost, keys: [f64::INFINITY; LISTED_KEYS] }
    }
}

/// State shared by the precomputing and the placing thread.
pub(super) struct Precompute<'a> {
    instance: &'a Instance,
    cheapest: &'a CheapestMachines,
    order: &'a [u32],
    placed: Vec<SharedSlot>,
    /// Ring of inputs: the one for position `at` is in slot `at % MAX_LEAD`.
    slots: Vec<InputSlot>,
    /// Position in the order of the task being placed.
    placer_at: AtomicUsize,
    stopped: AtomicBool,
}

/// Guard that stops the precomputing thread when dropped.
pub(super) struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Slot of a task, unplaced while `finish` is infinite. The machine is written first and `finish` released after it.
struct SharedSlot {
    machine: AtomicUsize,
    finish: AtomicU64,
}

/// Ring entry. On cache lines of its own, so that the threads do not invalidate each other's (false sharing).
#[repr(align(128))]
struct InputSlot {
    /// Position in the order plus one, 0 when empty. Released after the other words.
    position: AtomicUsize,
    words: [AtomicU64; 4 + LISTED_KEYS],
}

impl SharedSlot {
    fn new(slot: &Slot) -> Self {
        Self {
            machine: AtomicUsize::new(slot.machine as usize),
            finish: AtomicU64::new(slot.finish.to_bits()),
        }
    }

    #[inline]
    fn read(&self) -> (f64, usize) {
        let finish = f64::from_bits(self.finish.load(Acquire));
        (finish, self.machine.load(Relaxed))
    }
}

impl InputSlot {
    fn empty() -> Self {
        Self { position: AtomicUsize::new(0), words: from_fn(|_| AtomicU64::new(0)) }
    }

    fn publish(&self, at: usize, input: &PlacementInput) {
        let PlacementInput { arrival: Arrival { remote, home, at_home }, home_cost, keys } = input;
        let [a, b, c, d, listed @ ..] = &self.words;
        a.store(remote.to_bits(), Relaxed);
        b.store(*home as u64, Relaxed);
        c.store(at_home.to_bits(), Relaxed);
        d.store(home_cost.to_bits(), Relaxed);
        listed.iter().zip(keys).for_each(|(slot, key)| slot.store(key.to_bits(), Relaxed));
        self.position.store(at + 1, Release);
    }

    #[inline]
    fn read(&self, at: usize) -> Option<PlacementInput> {
        if self.position.load(Acquire) != at + 1 {
            return None;
        }
        // No torn read: the slot is reused only for position `at + MAX_LEAD`, which waits until the placer is past
        // `at`.
        let word = |i: usize| self.words[i].load(Relaxed);
        let [remote, at_home, home_cost] = [0, 2, 3].map(|i| f64::from_bits(word(i)));
        let arrival = Arrival { remote, home: word(1) as usize, at_home };
        Some(PlacementInput { arrival, home_cost, keys: from_fn(|i| f64::from_bits(word(4 + i))) })
    }
}

impl<'a> Precompute<'a> {
    /// State for placing tasks in `order`; `slots` has the tasks placed so far.
    pub(super) fn new(
        instance: &'a Instance,
        cheapest: &'a CheapestMachines,
        order: &'a [u32],
        slots: &[Slot],
    ) -> Self {
        Self {
            instance,
            cheapest,
            order,
            placed: slots.iter().map(SharedSlot::new).collect(),
            slots: (0..MAX_LEAD).map(|_| InputSlot::empty()).collect(),
            placer_at: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Input of the task at position `at`, if it was published in time.
    #[inline]
    pub(super) fn input(&self, at: usize) -> Option<PlacementInput> {
        self.slots[at % MAX_LEAD].read(at)
    }

    /// Publishes the position of the placing thread.
    #[inline]
    pub(super) fn advance_to(&self, at: usize) {
        self.placer_at.store(at, Release);
    }

    /// Publishes where a task was placed.
    #[inline]
    pub(super) fn publish_slot(&self, task: usize, slot: Slot) {
        self.placed[task].machine.store(slot.machine as usize, Relaxed);
        self.placed[task].finish.store(slot.finish.to_bits(), Release);
    }

    /// Guard that stops the thread on every way out of the placing scope: without a placer it would wait forever.
    pub(super) fn stop_on_drop(&self) -> StopGuard<'_> {
        StopGuard(&self.stopped)
    }

    /// Runs ahead of the placing thread until stopped or done.
    pub(super) fn run(&self) {
        /// Least useful lead: inputs needed sooner than this are skipped.
        const MIN_LEAD: usize = 4;
        /// Distance in tasks at which ready times are computed ahead of publishing.
        const READY_AHEAD: usize = 4;
        /// Distances at which a task's edges, then its predecessors' slots, are prefetched.
        const PREFETCH_AHEAD: [usize; 2] = [READY_AHEAD + 8, READY_AHEAD + 4];
        let mut arrivals = [Arrival::UNKNOWN; READY_AHEAD];
        let mut at = 0;
        while at < self.order.len() {
            let Some(placer) = self.wait_for_placer(at + READY_AHEAD) else { return };
            if at < placer + MIN_LEAD {
                // The placer has caught up: skip ahead, and forget ready times of other positions.
                at = placer + 2 * MIN_LEAD;
                arrivals = [Arrival::UNKNOWN; READY_AHEAD];
                continue;
            }
            if let Some(&later) = self.order.get(at + PREFETCH_AHEAD[0]) {
                prefetch(self.instance.predecessors(later as usize));
                self.cheapest.prefetch(later as usize);
            }
            if let Some(&later) = self.order.get(at + PREFETCH_AHEAD[1]) {
                for &(before, _) in self.instance.predecessors(later as usize) {
                    prefetch(std::slice::from_ref(&self.placed[before as usize]));
                }
            }
            let arrival = arrivals[at % READY_AHEAD];
            if let Some(&later) = self.order.get(at + READY_AHEAD) {
                let arrival = self.arrival(later as usize);
                if let Some(cost) = self.instance.costs(later as usize).get(arrival.home) {
                    prefetch(std::slice::from_ref(cost));
                }
                arrivals[at % READY_AHEAD] = arrival;
            }
            self.publish_input(at, arrival);
            at += 1;
        }
    }

    /// Waits until position `at` is within the lead; returns the placer's position, or `None` when stopped.
    #[inline]
    fn wait_for_placer(&self, at: usize) -> Option<usize> {
        loop {
            for _ in 0..1000 {
                let placer = self.placer_at.load(Acquire);
                if at < placer + MAX_LEAD {
                    return Some(placer);
                }
                if self.stopped.load(Relaxed) {
                    return None;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    fn arrival(&self, task: usize) -> Arrival {
        arrival(self.instance, task, |before| self.placed[before].read())
    }

    /// Publishes the input of the task at position `at`, unless a predecessor is still unplaced.
    fn publish_input(&self, at: usize, arrival: Arrival) {
        let task = self.order[at] as usize;
        let arrival = if arrival.is_known() { arrival } else { self.arrival(task) };
        if !arrival.is_known() {
            return;
        }
        let unlisted_bound = self.cheapest.unlisted_bound(task);
        let mut keys = *self.cheapest.keys(task);
        let mut input = PlacementInput::of(self.instance, task, arrival);
        for listed in &mut input.keys {
            let key = keys.least();
            let (machine, cost) = self.cheapest.decode(key);
            // Beyond this cost a machine without a key might be cheaper; the list must stay sorted and complete.
            if cost > unlisted_bound || key == f64::INFINITY {
                break;
            }
            keys.take(machine);
            *listed = key;
        }
        self.slots[at % MAX_LEAD].publish(at, &input);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Inserter;
    use super::*;
    use crate::generate::Layered;
    use crate::rank::{rank_order, upward_ranks};

    /// Includes instances whose timelines become so dense that precomputing stops early.
    #[test]
    fn precomputing_changes_no_schedule() {
        for (tasks, machines, seed) in [(3000, 40, 1), (3000, 40, 2), (2000, 300, 3), (4000, 4, 4), (7, 3, 5)]
        {
            let instance = Layered { tasks, machines, seed, ..Layered::default() }.generate().unwrap();
            let order = rank_order(&instance, &upward_ranks(&instance));
            let cheapest = CheapestMachines::new(&instance);
            let (mut alone, mut precomputed) =
                (Inserter::new(&instance, &cheapest), Inserter::new(&instance, &cheapest));
            alone.place_each(&order, None);
            let (first, others) = order.split_at(tasks / 3);
            precomputed.place_each(first, None);
            let placed = precomputed.place_with_precompute(others, None);
            assert!(placed > 0, "{tasks} x {machines}: nothing was placed");
            precomputed.place_each(&others[placed..], None);
            assert_eq!(alone.into_schedule(), precomputed.into_schedule(), "{tasks} x {machines}");
        }
    }

    #[test]
    fn an_input_slot_returns_what_was_published() {
        let report = InputSlot::empty();
        let keys = from_fn(|i| i as f64);
        let input =
            PlacementInput { arrival: Arrival { remote: 7.5, home: 3, at_home: 6.5 }, home_cost: 2.5, keys };
        report.publish(41, &input);
        assert!(report.read(40).is_none() && report.read(73).is_none());
        let read = report.read(41).unwrap();
        assert_eq!((read.arrival.remote, read.arrival.home, read.arrival.at_home), (7.5, 3, 6.5));
        assert_eq!((read.home_cost, read.keys), (2.5, keys));
    }
}
