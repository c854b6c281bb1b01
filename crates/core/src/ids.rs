//! Identifiers. All are small, ordered and copyable; order is by submission wherever that has a meaning.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Job id, assigned in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// Node of a job's graph: a single task, or a whole array of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Job of the node.
    pub job: JobId,
    /// Index in the job's list of tasks.
    pub node: u32,
}

/// Task: a node and, for arrays, the position in it (0 for a single task).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// Job of the task.
    pub job: JobId,
    /// Index in the job's list of tasks.
    pub node: u32,
    /// Position in the array, counted from 0 whatever values the array has.
    pub index: u32,
}

/// Attempt of a task. The number is a fencing token: reports about any but the latest attempt are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// Task of the attempt.
    pub task: TaskId,
    /// Attempt number, counted from 1 and never used twice for a task.
    pub number: u32,
}

/// Worker: a machine's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub u32);

/// Device of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId {
    /// Worker of the device.
    pub worker: WorkerId,
    /// Index in the worker's list of devices.
    pub index: u16,
}

/// Environment that is stored once for all jobs submitted with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EnvId(pub u64);

impl TaskId {
    /// Node of this task.
    pub fn node_id(self) -> NodeId {
        NodeId { job: self.job, node: self.node }
    }

    /// Attempt of this task with a number.
    pub fn attempt(self, number: u32) -> AttemptId {
        AttemptId { task: self, number }
    }
}

impl NodeId {
    /// Task of this node at a position.
    pub fn task(self, index: u32) -> TaskId {
        TaskId { job: self.job, node: self.node, index }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}", self.0)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.worker, self.index)
    }
}

/// `job.node.index.number`: unambiguous and fit for a file name; people are shown names instead.
impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskId { job, node, index } = self.task;
        write!(f, "{job}.{node}.{index}.{}", self.number)
    }
}

impl std::str::FromStr for AttemptId {
    type Err = ParseAttemptIdError;

    fn from_str(s: &str) -> Result<Self, ParseAttemptIdError> {
        let mut parts = s.split('.');
        let mut next = || parts.next().ok_or(ParseAttemptIdError);
        let (job, node, index, number) = (next()?, next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(ParseAttemptIdError);
        }
        let small = |s: &str| s.parse::<u32>().map_err(|_| ParseAttemptIdError);
        let job = JobId(job.parse().map_err(|_| ParseAttemptIdError)?);
        Ok(TaskId { job, node: small(node)?, index: small(index)? }.attempt(small(number)?))
    }
}

/// The text does not have the form `job.node.index.number`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not an attempt id (job.node.index.number)")]
pub struct ParseAttemptIdError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempts_name_reads_back() {
        let a = TaskId { job: JobId(412), node: 2, index: 7 }.attempt(3);
        assert_eq!(a.to_string().parse(), Ok(a));
        assert_eq!("412.2.7".parse::<AttemptId>(), Err(ParseAttemptIdError));
        assert_eq!("412.2.7.1.1".parse::<AttemptId>(), Err(ParseAttemptIdError));
    }
}
