//! An attempt that is here, as the agent knows it.

use crate::supervise::{AttemptDir, Cause, Exit, Status};
use std::time::Instant;
use warpyard_core::Span;
use warpyard_core::event::{End, How, Usage};
use warpyard_core::reconcile::Local;
use warpyard_core::spec::Held;

/// An attempt's directory and what is known of it.
pub(super) struct Mine {
    pub(super) dir: AttemptDir,
    pub(super) is: Is,
    pub(super) uuids: Vec<String>,
    /// The process a claim is for, which with its descendants is ours to the devices.
    pub(super) holds_for: Option<Held>,
}

/// What it is at.
pub(super) enum Is {
    /// Launched then; whether its process runs is not known yet.
    Beginning(Instant),
    Running,
    Frozen,
    Over(End),
}

impl Is {
    pub(super) fn local(&self) -> Local {
        match self {
            Is::Beginning(_) => Local::Beginning,
            Is::Running => Local::Running,
            Is::Frozen => Local::Frozen,
            Is::Over(_) => Local::Over,
        }
    }
}

/// How an attempt ended, in the words of the log.
pub(super) fn end_of(exit: &Exit, peak_gpu_memory: Option<u64>) -> End {
    let how = match (&exit.cause, exit.status) {
        (Cause::TimedOut, _) => How::TimedOut,
        (Cause::Crowded { processes }, _) => How::Crowded(*processes),
        (Cause::OutOfMemory { limit_bytes }, _) => How::OutOfMemory(*limit_bytes),
        (Cause::Idle { limit_ms }, _) => How::Idle(Span(limit_ms * 1000)),
        (Cause::Stopped, _) => How::Stopped,
        (Cause::FailedToStart { message }, _) => How::NotStarted(message.clone()),
        (Cause::Exited, Some(Status::Code(code))) => How::Exited(code),
        (Cause::Exited, Some(Status::Signal(signal))) => How::Signalled(signal),
        (Cause::Exited, None) => How::Lost("its exit was not recorded".into()),
    };
    let usage = Usage {
        ran: Span(exit.running_us),
        cpu: Span(exit.usage.cpu_us),
        peak_rss: Some(exit.usage.peak_rss_bytes).filter(|b| *b > 0),
        peak_gpu_memory,
    };
    End { how, usage }
}
