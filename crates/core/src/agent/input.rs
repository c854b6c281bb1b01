//! Inputs of the agent.

use super::ForeignRecordId;
use crate::ids::AttemptId;
use crate::pool::DeviceState;
use crate::protocol::{AttemptStatus, MemoryUse};
use crate::spec::OnLost;
use std::collections::BTreeMap;

/// An input of the agent. Assignments come by [`Agent::assign`](super::Agent::assign).
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A record of an earlier agent was found. All of them come before the first assignments.
    Found(FoundRecord),
    /// The executor observed an attempt.
    Seen(AttemptId, Observation),
    /// The executor refused to launch an attempt.
    Refused(AttemptId, LaunchRefusal),
    /// Launches that have not been seen to start may be lost.
    LaunchesLost,
    /// No process of a foreign record is left.
    ForeignGone(ForeignRecordId),
    /// Device states, by the driver's name.
    Devices(BTreeMap<String, DeviceState>),
    /// Device memory in use, by attempt.
    MemoryUsed(MemoryUse),
    /// The timer fired.
    Timer,
    /// A full scan of the machine ended: outputs that have had no effect yet are repeated, and the next report is a full one.
    Scanned,
    /// The link was re-established.
    Connected,
    /// Shut the agent down.
    Leave {
        /// Whether all attempts are killed first.
        kill: bool,
    },
}

/// An attempt record of an earlier agent.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRecord {
    /// Attempt id stated in the record.
    pub attempt: AttemptId,
    /// Log the record belongs to.
    pub owner: RecordOwner,
    /// Disposition of the attempt when the worker is lost.
    pub on_lost: OnLost,
    /// Observed state of the attempt.
    pub seen: Observation,
}

/// Owner of a record: a log that does not know of its predecessor assigns the same job numbers again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordOwner {
    /// The log that numbered the attempt's job, and that this worker serves.
    ThisLog,
    /// A record in this log's directory whose contents name another log, or another attempt.
    Misfiled(String),
    /// Another log, or one from before logs had ids.
    AnotherLog(ForeignRecordId),
}

/// An attempt as its executor observes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// No process has started; a launch may be under way, unless it was called off.
    NotStarted,
    /// A process has started.
    Status(AttemptStatus),
    /// Its record is damaged.
    Unreadable(String),
}

impl From<AttemptStatus> for Observation {
    fn from(status: AttemptStatus) -> Observation {
        Observation::Status(status)
    }
}

/// Reason why an attempt was not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchRefusal {
    /// A foreign process uses one of its devices.
    DeviceInUse(String),
    /// It cannot be started on any worker.
    Impossible(String),
    /// The executor cannot start anything.
    Broken(String),
}
