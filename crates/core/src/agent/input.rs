//! What an agent is told.

use super::ForeignRecordId;
use crate::event::End;
use crate::ids::AttemptId;
use crate::pool::DeviceState;
use crate::protocol::MemoryUse;
use crate::spec::OnLost;
use std::collections::BTreeMap;

/// Something an agent is told. Assignments are told by [`Agent::assign`](super::Agent::assign).
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A record that an earlier agent left was found. All of them are told before the first assignments.
    Found(FoundRecord),
    /// The executor sees how an attempt is.
    Seen(AttemptId, Observation),
    /// The executor did not launch an attempt.
    Refused(AttemptId, LaunchRefusal),
    /// Launches that were not seen to begin may be lost.
    LaunchesLost,
    /// Nothing is left of a stranger's processes.
    ForeignGone(ForeignRecordId),
    /// How the devices are, by the driver's name.
    Devices(BTreeMap<String, DeviceState>),
    /// Device memory that attempts use.
    MemoryUsed(MemoryUse),
    /// The timer fired.
    Timer,
    /// Everything was looked at: what is not so yet is asked for again, and the next report is a full one.
    Look,
    /// The link was down and is up.
    Connected,
    /// The agent is to leave.
    Leave {
        /// Whether everything is ended first.
        kill: bool,
    },
}

/// A record that an earlier agent left.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRecord {
    /// The attempt it is about, by its own account.
    pub attempt: AttemptId,
    /// Whose it is.
    pub owner: RecordOwner,
    /// What happens to it when the worker is lost.
    pub on_lost: OnLost,
    /// How the attempt is.
    pub seen: Observation,
}

/// Whose record it is: job numbers are given again by a log that does not know of its predecessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordOwner {
    /// The log that numbered the attempt's job, and that this worker serves.
    ThisLog,
    /// By its place it is this log's; by its contents it is another's, or another attempt's.
    Misfiled(String),
    /// Another log, or one from before logs had ids.
    AnotherLog(ForeignRecordId),
}

/// How an attempt is, as its executor sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Nothing of it has begun; a launch may be on its way, unless it was called off.
    NotStarted,
    /// Its process runs.
    Running,
    /// Its process is frozen.
    Frozen,
    /// It is over.
    Exited(End),
    /// Its record is damaged.
    Unreadable(String),
}

/// Why an attempt was not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchRefusal {
    /// Someone else uses a device of it.
    DeviceInUse(String),
    /// It cannot be started, here or elsewhere.
    Impossible(String),
    /// The executor can start nothing at all.
    Broken(String),
}
