//! A second thread that runs ahead of the one that places. Of tasks soon to be placed it finds out when they are ready
//! and which machines are cheapest, so that whoever places them need not wait for memory far away. Nobody waits for the
//! scout either: what it has not told in time is looked up as if there were none, so schedules are the same.

use std::array::from_fn;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::{Arrival, Cheapest, arrival, prefetch};
use crate::instance::Instance;
use crate::schedule::Slot;

/// So many tasks ahead the scout may be.
const LEAD: usize = 32;
/// So many of the cheapest machines it lists.
pub(super) const LISTED: usize = 6;

/// What is known of a task before it is placed.
#[derive(Clone, Copy)]
pub(super) struct Brief {
    pub(super) arrival: Arrival,
    /// What it costs where its data is; nothing where it waits for none.
    pub(super) cost_there: f64,
    /// The keys of its cheapest machines, least first; where there are fewer, infinity follows.
    pub(super) keys: [f64; LISTED],
}

impl Brief {
    /// Without the cheapest machines.
    #[inline]
    pub(super) fn of(instance: &Instance, task: usize, arrival: Arrival) -> Self {
        let cost_there = instance.costs(task).get(arrival.on).copied().unwrap_or_default();
        Self { arrival, cost_there, keys: [f64::INFINITY; LISTED] }
    }
}

/// What the two threads tell each other.
pub(super) struct Scout<'a> {
    instance: &'a Instance,
    cheapest: &'a Cheapest,
    order: &'a [u32],
    placed: Vec<Placed>,
    /// Of the next tasks, each at the remainder of its place in the order.
    reports: Vec<Report>,
    /// Whom the other thread is at, as a place in the order.
    at: AtomicUsize,
    over: AtomicBool,
}

/// Ends the scout's run when dropped.
pub(super) struct CallBack<'a>(&'a AtomicBool);

impl Drop for CallBack<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Where a task is: nowhere while the finish is infinite. The machine is told first.
struct Placed {
    machine: AtomicUsize,
    finish: AtomicU64,
}

/// A brief on its way. Lines of their own, so that neither thread takes the other's.
#[repr(align(128))]
struct Report {
    /// The place in the order it is of, and one. Told last.
    of: AtomicUsize,
    numbers: [AtomicU64; 4 + LISTED],
}

impl Placed {
    fn at(slot: &Slot) -> Self {
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

impl Report {
    fn none() -> Self {
        Self { of: AtomicUsize::new(0), numbers: from_fn(|_| AtomicU64::new(0)) }
    }

    fn tell(&self, at: usize, brief: &Brief) {
        let Brief { arrival: Arrival { elsewhere, on, there }, cost_there, keys } = brief;
        let [a, b, c, d, rest @ ..] = &self.numbers;
        a.store(elsewhere.to_bits(), Relaxed);
        b.store(*on as u64, Relaxed);
        c.store(there.to_bits(), Relaxed);
        d.store(cost_there.to_bits(), Relaxed);
        rest.iter().zip(keys).for_each(|(told, key)| told.store(key.to_bits(), Relaxed));
        self.of.store(at + 1, Release);
    }

    #[inline]
    fn read(&self, at: usize) -> Option<Brief> {
        if self.of.load(Acquire) != at + 1 {
            return None;
        }
        let number = |i: usize| self.numbers[i].load(Relaxed);
        let [elsewhere, there, cost_there] = [0, 2, 3].map(|i| f64::from_bits(number(i)));
        let arrival = Arrival { elsewhere, on: number(1) as usize, there };
        Some(Brief { arrival, cost_there, keys: from_fn(|i| f64::from_bits(number(4 + i))) })
    }
}

impl<'a> Scout<'a> {
    /// For tasks that will be placed in this order, some of all tasks being placed already.
    pub(super) fn new(
        instance: &'a Instance,
        cheapest: &'a Cheapest,
        order: &'a [u32],
        slots: &[Slot],
    ) -> Self {
        Self {
            instance,
            cheapest,
            order,
            placed: slots.iter().map(Placed::at).collect(),
            reports: (0..LEAD).map(|_| Report::none()).collect(),
            at: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// What was found out of the task at this place in the order, if it was in time.
    #[inline]
    pub(super) fn brief(&self, at: usize) -> Option<Brief> {
        self.reports[at % LEAD].read(at)
    }

    /// Tells whom the placer is at.
    #[inline]
    pub(super) fn follow(&self, at: usize) {
        self.at.store(at, Release);
    }

    /// Tells where a task was placed.
    #[inline]
    pub(super) fn tell(&self, task: usize, slot: Slot) {
        self.placed[task].machine.store(slot.machine as usize, Relaxed);
        self.placed[task].finish.store(slot.finish.to_bits(), Release);
    }

    /// Calls the scout back when it goes out of scope, whatever for: a scout without a placer would wait for ever.
    pub(super) fn called_back_at_last(&self) -> CallBack<'_> {
        CallBack(&self.over)
    }

    /// Runs ahead until called back or done.
    pub(super) fn run(&self) {
        /// A report that would come later than so many tasks before it is wanted is not made.
        const LATE: usize = 4;
        /// So many tasks ahead of a report it is looked up when the task is ready; so many ahead of that, what the
        /// looking up will read is asked for: whom a task waits for, then where those are.
        const READY: usize = 4;
        const BEFORE: [usize; 2] = [READY + 8, READY + 4];
        let mut soon = [Arrival::UNKNOWN; READY];
        let mut at = 0;
        while at < self.order.len() {
            let Some(placer) = self.let_come_near(at + READY) else { return };
            if at < placer + LATE {
                at = placer + 2 * LATE;
                soon = [Arrival::UNKNOWN; READY];
                continue;
            }
            if let Some(&later) = self.order.get(at + BEFORE[0]) {
                prefetch(self.instance.predecessors(later as usize));
                self.cheapest.prefetch(later as usize);
            }
            if let Some(&later) = self.order.get(at + BEFORE[1]) {
                for &(before, _) in self.instance.predecessors(later as usize) {
                    prefetch(std::slice::from_ref(&self.placed[before as usize]));
                }
            }
            let arrival = soon[at % READY];
            if let Some(&later) = self.order.get(at + READY) {
                let arrival = self.arrival(later as usize);
                if let Some(cost) = self.instance.costs(later as usize).get(arrival.on) {
                    prefetch(std::slice::from_ref(cost));
                }
                soon[at % READY] = arrival;
            }
            self.report(at, arrival);
            at += 1;
        }
    }

    /// Waits until a place in the order is not too far ahead. Says whom the placer is at then; nothing when it is over.
    #[inline]
    fn let_come_near(&self, at: usize) -> Option<usize> {
        loop {
            for _ in 0..1000 {
                let placer = self.at.load(Acquire);
                if at < placer + LEAD {
                    return Some(placer);
                }
                if self.over.load(Relaxed) {
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

    fn report(&self, at: usize, arrival: Arrival) {
        let task = self.order[at] as usize;
        let arrival = if arrival.is_known() { arrival } else { self.arrival(task) };
        if !arrival.is_known() {
            return;
        }
        let rest = self.cheapest.rest(task);
        let mut keys = *self.cheapest.keys(task);
        let mut brief = Brief::of(self.instance, task, arrival);
        for listed in &mut brief.keys {
            let key = keys.least();
            let (machine, cost) = self.cheapest.read(key);
            // From there on machines without a key might be cheaper.
            if cost > rest || key == f64::INFINITY {
                break;
            }
            keys.pass(machine);
            *listed = key;
        }
        self.reports[at % LEAD].tell(at, &brief);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Inserter;
    use super::*;
    use crate::generate::Layered;
    use crate::rank::{rank_order, upward_ranks};

    /// Whatever the scout was in time to tell, and where machines are so full that it is called back.
    #[test]
    fn a_scout_changes_nothing() {
        for (tasks, machines, seed) in [(3000, 40, 1), (3000, 40, 2), (2000, 300, 3), (4000, 4, 4), (7, 3, 5)]
        {
            let instance = Layered { tasks, machines, seed, ..Layered::default() }.generate().unwrap();
            let order = rank_order(&instance, &upward_ranks(&instance));
            let cheapest = Cheapest::new(&instance);
            let (mut alone, mut scouted) =
                (Inserter::new(&instance, &cheapest), Inserter::new(&instance, &cheapest));
            alone.place_each(&order, None);
            let (first, rest) = order.split_at(tasks / 3);
            scouted.place_each(first, None);
            let placed = scouted.place_scouted(rest, None);
            assert!(placed > 0, "{tasks} x {machines}: nothing was placed");
            scouted.place_each(&rest[placed..], None);
            assert_eq!(alone.into_schedule(), scouted.into_schedule(), "{tasks} x {machines}");
        }
    }

    #[test]
    fn what_is_told_is_what_is_read() {
        let report = Report::none();
        let keys = from_fn(|i| i as f64);
        let brief = Brief { arrival: Arrival { elsewhere: 7.5, on: 3, there: 6.5 }, cost_there: 2.5, keys };
        report.tell(41, &brief);
        assert!(report.read(40).is_none() && report.read(73).is_none());
        let read = report.read(41).unwrap();
        assert_eq!((read.arrival.elsewhere, read.arrival.on, read.arrival.there), (7.5, 3, 6.5));
        assert_eq!((read.cost_there, read.keys), (2.5, keys));
    }
}
