//! Records of simulated tasks: the quantities that figures are computed from.

use serde::Serialize;
use warpyard_core::cluster::Job;
use warpyard_core::event::Outcome;
use warpyard_core::{Span, TaskId, Time};

/// Record of one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The task.
    pub task: TaskId,
    /// Priority of its job at submission.
    pub priority: i64,
    /// Submission time of its job.
    pub submitted: Time,
    /// When it last became ready, with all dependencies met.
    pub ready: Option<Time>,
    /// Start of its first attempt.
    pub started: Option<Time>,
    /// End of its last attempt.
    pub ended: Option<Time>,
    /// Outcome.
    pub outcome: Option<Outcome>,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of preemptions, by freezing or by requeueing.
    #[serde(rename = "gave_way")]
    pub preemptions: u32,
    /// Running time of all its attempts, without pauses.
    pub ran: Span,
    /// Device time of all its attempts, in seconds; of a device shared by n running tasks, 1/n.
    pub gpu_seconds: f64,
    /// Number of devices of its latest attempt.
    pub devices: u16,
}

impl Record {
    /// Closes the record when its job finishes: a task that never ran was cancelled or skipped.
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
            preemptions: 0,
            ran: Span::ZERO,
            gpu_seconds: 0.0,
            devices: 0,
        }
    }
}
