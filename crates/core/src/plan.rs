//! What a policy wants to happen. A plan is data: it is checked against the cluster before any of it becomes an event.

use crate::ids::{AttemptId, TaskId};
use crate::pool::Placement;
use crate::spec::Boundary;
use crate::time::Time;
use smallvec::SmallVec;

/// What should start, pause, go on and stop now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Tasks to start, in this order.
    pub start: SmallVec<[Start; 1]>,
    /// Attempts to freeze in place.
    pub pause: Vec<AttemptId>,
    /// At which moments of their work.
    pub pause_at: Boundary,
    /// Frozen attempts to let go on.
    pub resume: Vec<AttemptId>,
    /// Attempts to ask to save and exit, to be run again later.
    pub requeue: Vec<AttemptId>,
    /// A round begins now and ends then.
    pub round: Option<Time>,
    /// When to plan again even if nothing happens.
    pub wake_at: Option<Time>,
    /// Whether to plan again at once, as carrying this out may make room for more.
    pub again: bool,
}

/// A task to start and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Which task.
    pub task: TaskId,
    /// Where.
    pub placement: Placement,
}

impl Plan {
    /// Whether nothing is to happen.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
            && self.pause.is_empty()
            && self.resume.is_empty()
            && self.requeue.is_empty()
            && self.round.is_none()
    }
}
