//! Plans: what a policy wants to happen. A plan is data; it is validated against the cluster before any of it becomes
//! an event.

use crate::ids::{AttemptId, TaskId};
use crate::pool::Placement;
use crate::spec::Boundary;
use crate::time::Time;
use smallvec::SmallVec;

/// Plan: what should start, pause, resume and stop now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Tasks to start, in this order.
    pub start: SmallVec<[Start; 1]>,
    /// Attempts to freeze in place.
    pub pause: Vec<AttemptId>,
    /// Boundary of their work at which they are frozen.
    pub pause_at: Boundary,
    /// Paused attempts to resume.
    pub resume: Vec<AttemptId>,
    /// Attempts to requeue: asked to save and exit, to run again later.
    pub requeue: Vec<AttemptId>,
    /// End of a round that begins now.
    pub round: Option<Time>,
    /// Time to plan again even without events.
    pub wake_at: Option<Time>,
    /// Whether to plan again at once, because carrying this plan out may free capacity.
    pub again: bool,
}

/// Task to start, and its placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Task.
    pub task: TaskId,
    /// Placement.
    pub placement: Placement,
}

impl Plan {
    /// Whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
            && self.pause.is_empty()
            && self.resume.is_empty()
            && self.requeue.is_empty()
            && self.round.is_none()
    }
}
