//! How an attempt ended, in the words of the log.

use crate::supervise::{Cause, Exit, Status};
use warpyard_core::Span;
use warpyard_core::event::{End, EndReason, Usage};

/// The end that an exit record tells of.
pub(super) fn end_of(exit: &Exit) -> End {
    let how = match (&exit.cause, exit.status) {
        (Cause::TimedOut, _) => EndReason::TimedOut,
        (Cause::Crowded { processes }, _) => EndReason::Crowded(*processes),
        (Cause::OutOfMemory { limit_bytes }, _) => EndReason::OutOfMemory(*limit_bytes),
        (Cause::Idle { limit_ms }, _) => EndReason::Idle(Span(limit_ms * 1000)),
        (Cause::Stopped, _) => EndReason::Stopped,
        (Cause::FailedToStart { message }, _) => EndReason::NotStarted(message.clone()),
        (Cause::Exited, Some(Status::Code(code))) => EndReason::Exited(code),
        (Cause::Exited, Some(Status::Signal(signal))) => EndReason::Signalled(signal),
        (Cause::Exited, None) => EndReason::Lost("its exit was not recorded".into()),
    };
    let usage = Usage {
        ran: Span(exit.running_us),
        cpu: Span(exit.usage.cpu_us),
        peak_rss: Some(exit.usage.peak_rss_bytes).filter(|b| *b > 0),
        peak_gpu_memory: None,
    };
    End { how, usage }
}

/// The end of an attempt that was not recorded.
pub(super) fn lost(why: &str) -> End {
    End { how: EndReason::Lost(why.into()), usage: Usage::default() }
}
