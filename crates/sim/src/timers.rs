//! What is due when. Among things due at one moment, those entered first come first.

use crate::machine::MachineTimer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use warpyard_core::{AttemptId, Time, WorkerId};

#[derive(Default)]
pub(crate) struct TimerQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    entered: u64,
    /// How many entries are more than a worker saying that it is there, or watching over its lease.
    pub(crate) alarms: usize,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Time,
    number: u64,
    due: Timer,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Something happens to a process by itself.
    Ring(WorkerId, AttemptId),
    /// A worker says that it is there.
    Beat(WorkerId),
    /// The timer of a worker's agent fires.
    Timer(WorkerId),
}

impl Timer {
    /// Whether it is due again and again, whatever happens.
    fn recurs(&self) -> bool {
        matches!(self, Timer::Beat(_) | Timer::Timer(_))
    }

    /// What a machine has to do later.
    pub(crate) fn on(worker: WorkerId, later: MachineTimer) -> Timer {
        match later {
            MachineTimer::Ring(attempt) => Timer::Ring(worker, attempt),
            MachineTimer::Timer => Timer::Timer(worker),
        }
    }
}

impl TimerQueue {
    pub(crate) fn enter(&mut self, at: Time, due: Timer) {
        self.entered += 1;
        self.alarms += usize::from(!due.recurs());
        self.heap.push(Reverse(Entry { at, number: self.entered, due }));
    }

    /// The next thing due by now.
    pub(crate) fn take(&mut self, now: Time) -> Option<Timer> {
        self.heap.peek().filter(|e| e.0.at <= now)?;
        let due = self.heap.pop()?.0.due;
        self.alarms -= usize::from(!due.recurs());
        Some(due)
    }

    /// When the next thing is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|e| e.0.at)
    }
}
