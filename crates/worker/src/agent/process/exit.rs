//! How an attempt ended, in the words of the log.

use crate::supervise::{Cause, Exit, Status};
use warpyard_core::Span;
use warpyard_core::event::{End, How, Usage};

/// The end that an exit record tells of.
pub(super) fn end_of(exit: &Exit) -> End {
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
        peak_gpu_memory: None,
    };
    End { how, usage }
}

/// The end of an attempt that was not recorded.
pub(super) fn lost(why: &str) -> End {
    End { how: How::Lost(why.into()), usage: Usage::default() }
}
