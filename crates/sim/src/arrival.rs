//! A job to come, and what really happens when its tasks run: what only the simulator knows.

use warpyard_core::event::How;
use warpyard_core::spec::JobSpec;
use warpyard_core::{Span, TaskId, Time};

/// A job to come.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When it is submitted.
    pub at: Time,
    /// By whom.
    pub user: String,
    /// What it asks for.
    pub spec: JobSpec,
    /// What really happens.
    pub runs: Runs,
}

/// What really happens when the tasks of a job run.
#[derive(Clone, Debug)]
pub enum Runs {
    /// Every attempt of every task runs for this long and succeeds.
    For(Span),
    /// The attempts of each node have a course of their own.
    Each(Vec<Course>),
}

/// What really happens when the tasks of one node run.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Running time by position in the array; begins again when it is shorter than that.
    pub lengths: Vec<Span>,
    /// Exit code by number of the attempt, counted from the first; the last one goes on. None means 0.
    pub exits: Vec<i32>,
    /// Whether it ignores being asked to end, so that only the end of the grace period ends it.
    pub stubborn: bool,
}

/// How one attempt goes if nothing comes between.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fate {
    pub(crate) length: Span,
    pub(crate) how: How,
    pub(crate) stubborn: bool,
}

impl Runs {
    pub(crate) fn fate(&self, task: TaskId, attempt: u32) -> Fate {
        match self {
            Runs::For(length) => Fate { length: *length, how: How::Exited(0), stubborn: false },
            Runs::Each(courses) => {
                let Course { lengths, exits, stubborn } = &courses[task.node as usize];
                let length = lengths.get(task.index as usize % lengths.len().max(1)).copied();
                let exit = exits.get(attempt as usize - 1).or(exits.last()).copied().unwrap_or(0);
                let how = How::Exited(exit);
                Fate { length: length.unwrap_or_default(), how, stubborn: *stubborn }
            }
        }
    }
}
