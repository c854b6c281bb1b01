//! The interface to what runs attempts. An executor does what it is asked to and says what it sees; whether an attempt is
//! launched, stopped or forgotten is decided by the core's [`Agent`](warpyard_core::agent::Agent). Everything asked may be
//! asked again, and an attempt starts at most once, however often it is launched.

use super::devices::Watched;
use super::handle::AgentError;
use std::collections::BTreeSet;
use warpyard_core::agent::{ForeignRecordId, FoundRecord, LaunchRefusal, Observation, StopCause};
use warpyard_core::protocol::Assignment;
use warpyard_core::{AttemptId, Span};

/// Starts, signals, freezes, limits, measures and lists the processes of attempts.
pub trait Executor: Send {
    /// What an earlier executor left.
    fn find(&mut self) -> Result<Vec<FoundRecord>, AgentError>;

    /// Starts an attempt within the limits of its assignment, on devices of these.
    fn launch(&mut self, assignment: &Assignment, devices: &Watched) -> Result<(), LaunchRefusal>;

    /// Whether launches that were handed over may be lost since this was last asked.
    fn launches_lost(&mut self) -> bool;

    /// How an attempt is; none where that cannot be told just now, which says nothing about it.
    fn look(&mut self, attempt: AttemptId) -> Option<Observation>;

    /// How an attempt is that nobody launched here, as far as is known: its record may be another's.
    fn examine(&mut self, attempt: AttemptId) -> Option<Observation>;

    /// Asks an attempt to end, and ends it after its grace. The record of its end tells the cause.
    fn stop(&mut self, attempt: AttemptId, grace: Span, cause: StopCause);

    /// Freezes an attempt.
    fn freeze(&mut self, attempt: AttemptId);

    /// Has an attempt go on.
    fn thaw(&mut self, attempt: AttemptId);

    /// Has an attempt that has not begun never do so; says how it is then, as it may have begun meanwhile.
    fn call_off(&mut self, attempt: AttemptId) -> Option<Observation>;

    /// Ends what is left of an attempt whose record cannot be relied on, and sets the record aside.
    fn discard(&mut self, attempt: AttemptId, why: &str);

    /// Lets go of an attempt's record, once there is time.
    fn retire(&mut self, attempt: AttemptId);

    /// Asks an attempt of another log to end; says whether nothing is left of it.
    fn stop_stranger(&mut self, stranger: ForeignRecordId, grace: Span) -> bool;

    /// Lets go of the record of an attempt of another log.
    fn retire_stranger(&mut self, stranger: ForeignRecordId);

    /// The processes of an attempt, by which the work on a GPU is told from that of others. Only the executor knows them: a
    /// container's processes descend from its runtime rather than from anything of ours.
    fn processes(&self, attempt: AttemptId) -> BTreeSet<u32>;

    /// Removes records that were let go of: a few where there is time, all but the latest in any case.
    fn tidy(&mut self, idle: bool);

    /// Puts away what there is time for, and leaves what runs to the next executor.
    fn leave(&mut self, within: std::time::Duration);
}
