//! What a worker of another machine and its server say to each other over HTTPS: messages of [`warpyard_core::protocol`], and
//! what the transport adds to them.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::Assignments;

/// The address where a worker registers (PUT), and learns who it is (GET).
pub(crate) const SELF: &str = "/v1/workers/self";

/// The address where a worker sends reports.
pub(crate) const REPORTS: &str = "/v1/workers/self/reports";

/// The address where a worker waits for assignments.
pub(crate) const ASSIGNMENTS: &str = "/v1/workers/self/assignments";

/// The address where a worker sends the output of an attempt, by stream.
pub(crate) const LOGS: &str = "/v1/workers/self/logs/{attempt}/{stream}";

/// The streams of an attempt's output, by the names of their files. The log comes last: with its end the output is complete.
pub(crate) const STREAMS: [&str; 3] = ["stdout", "stderr", "log"];

/// A worker that registers: at its start, and whenever the server has lost it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// Its description; name and lease are the server's to say.
    pub(crate) info: WorkerInfo,
    /// Its version of warpyard.
    pub(crate) version: String,
    /// The event log whose jobs it runs; a server with another refuses it.
    pub(crate) log: Option<String>,
}

/// Assignments with a number that every delivery changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AssignmentsReply {
    pub(crate) version: u64,
    pub(crate) assignments: Arc<Assignments>,
}

/// How much of a stream the server has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LogReply {
    pub(crate) size: u64,
}
