//! What became of each task, as far as figures need it.

use serde::Serialize;
use warpyard_core::cluster::Job;
use warpyard_core::event::Outcome;
use warpyard_core::{Span, TaskId, Time};

/// What became of one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Which.
    pub task: TaskId,
    /// Its job's priority when that was submitted.
    pub priority: i64,
    /// When its job was submitted.
    pub submitted: Time,
    /// When it last waited for nothing but room.
    pub ready: Option<Time>,
    /// When its first attempt began to run.
    pub started: Option<Time>,
    /// When it ended for good.
    pub ended: Option<Time>,
    /// How.
    pub outcome: Option<Outcome>,
    /// How many attempts it took.
    pub attempts: u32,
    /// How often it was made to give way: to stand still, or to save and exit.
    pub gave_way: u32,
    /// Running time of all its attempts together, pauses left out: those that saved and exited are part of the whole.
    pub ran: Span,
    /// Running time of all its attempts times the devices each had, in seconds; of a device that n tasks ran on at once, 1/n.
    pub gpu_seconds: f64,
    /// Devices of its latest attempt.
    pub devices: u16,
}

impl Record {
    /// Its job has ended: a task that never ran was cancelled or skipped.
    pub(crate) fn close(&mut self, job: &Job, at: Time) {
        if self.ended.is_none() {
            self.ended = Some(at);
            self.outcome = job.nodes[self.task.node as usize].done.of(self.task.index);
        }
    }

    pub(crate) fn new(task: TaskId, priority: i64, submitted: Time) -> Record {
        Record {
            task,
            priority,
            submitted,
            ready: None,
            started: None,
            ended: None,
            outcome: None,
            attempts: 0,
            gave_way: 0,
            ran: Span::ZERO,
            gpu_seconds: 0.0,
            devices: 0,
        }
    }
}
