//! End reasons of attempts, from exit records.

use crate::supervise::{ExitCause, ExitRecord, Status};
use warpyard_core::Span;
use warpyard_core::agent::Observation;
use warpyard_core::event::{End, EndReason, Usage};
use warpyard_core::protocol::AttemptStatus;

/// The end that an exit record states.
pub(super) fn end_of(exit: &ExitRecord) -> End {
    let how = match (&exit.cause, exit.status) {
        (ExitCause::TimedOut, _) => EndReason::TimedOut,
        (ExitCause::Crowded { processes }, _) => EndReason::Crowded(*processes),
        (ExitCause::OutOfMemory { limit_bytes }, _) => EndReason::OutOfMemory(*limit_bytes),
        (ExitCause::Idle { limit_ms }, _) => EndReason::Idle(Span(limit_ms * 1000)),
        (ExitCause::Stopped, _) => EndReason::Stopped,
        (ExitCause::FailedToStart { message }, _) => EndReason::NotStarted(message.clone()),
        (ExitCause::Exited, Some(Status::Code(code))) => EndReason::Exited(code),
        (ExitCause::Exited, Some(Status::Signal(signal))) => EndReason::Signalled(signal),
        (ExitCause::Exited, None) => EndReason::Lost("its exit was not recorded".into()),
    };
    let usage = Usage {
        ran: Span(exit.running_us),
        cpu: Span(exit.usage.cpu_us),
        peak_rss: Some(exit.usage.peak_rss_bytes).filter(|b| *b > 0),
        peak_gpu_memory: None,
    };
    End { how, usage }
}

/// Observation of an attempt whose end was not recorded.
pub(super) fn lost(why: &str) -> Observation {
    AttemptStatus::ended(EndReason::Lost(why.into())).into()
}
