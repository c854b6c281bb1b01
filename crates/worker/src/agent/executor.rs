//! The executor interface. An executor carries out the agent's outputs and reports observations; whether an attempt is
//! launched, stopped or retired is decided by the core's [`Agent`](warpyard_core::agent::Agent). Every call may be repeated,
//! and an attempt starts at most once, however often it is launched.

use super::devices::Watched;
use super::handle::AgentError;
use std::collections::BTreeSet;
use warpyard_core::agent::{ForeignRecordId, FoundRecord, LaunchRefusal, Observation, StopCause};
use warpyard_core::protocol::Assignment;
use warpyard_core::{AttemptId, Span};

/// Starts, signals, freezes, limits, measures and lists the processes of attempts.
pub trait Executor: Send {
    /// Records of attempts that an earlier executor left.
    fn find(&mut self) -> Result<Vec<FoundRecord>, AgentError>;

    /// Starts an attempt within the limits of its assignment, on its devices among these.
    fn launch(&mut self, assignment: &Assignment, devices: &Watched) -> Result<(), LaunchRefusal>;

    /// Whether launches may have been lost since the last call.
    fn launches_lost(&mut self) -> bool;

    /// Observes an attempt; none where its record cannot be read for now, which is no evidence about it.
    fn observe(&mut self, attempt: AttemptId) -> Option<Observation>;

    /// Observes an attempt that this executor has not launched: its record may belong to another.
    fn examine(&mut self, attempt: AttemptId) -> Option<Observation>;

    /// Stops an attempt: SIGTERM, then SIGKILL after the grace period. The cause is stored in the record of its end.
    fn stop(&mut self, attempt: AttemptId, grace: Span, cause: StopCause);

    /// Freezes an attempt.
    fn freeze(&mut self, attempt: AttemptId);

    /// Thaws an attempt.
    fn thaw(&mut self, attempt: AttemptId);

    /// Prevents an attempt from starting; returns an observation, since it may have started meanwhile.
    fn call_off(&mut self, attempt: AttemptId) -> Option<Observation>;

    /// Kills the processes of an attempt whose record is damaged, and sets the record aside.
    fn discard(&mut self, attempt: AttemptId, why: &str);

    /// Removes an attempt's record, at the latest when many wait for removal.
    fn retire(&mut self, attempt: AttemptId);

    /// Stops an attempt of another log; returns whether no process of it is left.
    fn stop_foreign(&mut self, record: ForeignRecordId, grace: Span) -> bool;

    /// Removes the record of an attempt of another log.
    fn retire_foreign(&mut self, record: ForeignRecordId);

    /// Processes of an attempt, by which GPU processes are attributed to it. Only the executor knows them: a container's
    /// processes descend from its runtime rather than from the supervisor.
    fn processes(&self, attempt: AttemptId) -> BTreeSet<u32>;

    /// Removes retired records: a batch while the worker is idle, all beyond a limit in any case.
    fn tidy(&mut self, idle: bool);

    /// Removes as many retired records as the time allows. Attempts continue, for the next executor to adopt.
    fn leave(&mut self, within: std::time::Duration);
}
