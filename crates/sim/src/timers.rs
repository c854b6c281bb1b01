//! The timer queue: a heap of what is due when. Timers of the same moment fire in the order they were set, so that a run
//! depends on nothing but its inputs.

use crate::machine::MachineTimer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use warpyard_core::{AttemptId, Time, WorkerId};

/// Queue of pending timers.
#[derive(Default)]
pub(crate) struct TimerQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    next_number: u64,
    /// Number of pending timers that do not recur. At zero only heartbeats and lease timers are left, which would go on for
    /// ever.
    pub(crate) one_shot: usize,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Time,
    number: u64,
    timer: Timer,
}

/// Timer of a worker.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Next event of a process.
    Process(WorkerId, AttemptId),
    /// Heartbeat of a worker with a lease.
    Heartbeat(WorkerId),
    /// Timer of a worker's agent.
    Agent(WorkerId),
}

impl Timer {
    fn recurs(&self) -> bool {
        matches!(self, Timer::Heartbeat(_) | Timer::Agent(_))
    }

    /// Timer that a machine has set.
    pub(crate) fn on(worker: WorkerId, timer: MachineTimer) -> Timer {
        match timer {
            MachineTimer::Process(attempt) => Timer::Process(worker, attempt),
            MachineTimer::Agent => Timer::Agent(worker),
        }
    }
}

impl TimerQueue {
    pub(crate) fn set(&mut self, at: Time, timer: Timer) {
        self.next_number += 1;
        self.one_shot += usize::from(!timer.recurs());
        self.heap.push(Reverse(Entry { at, number: self.next_number, timer }));
    }

    /// Removes the next timer that has expired.
    pub(crate) fn take(&mut self, now: Time) -> Option<Timer> {
        self.heap.peek().filter(|e| e.0.at <= now)?;
        let timer = self.heap.pop()?.0.timer;
        self.one_shot -= usize::from(!timer.recurs());
        Some(timer)
    }

    /// Moment of the next timer.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|e| e.0.at)
    }
}
