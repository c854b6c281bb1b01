//! Run log: the last events of a run as readable lines. Lines are formatted only if the log is enabled; a failing run is
//! repeated with it.

use std::collections::VecDeque;
use warpyard_core::event::{Disposition, End, EndReason, RequestedBy, StopReason};
use warpyard_core::{Event, EventKind, Time};

/// Number of lines kept.
const MAX_LINES: usize = 60;

/// Last lines of a run.
#[derive(Default)]
pub(super) struct RunLog {
    enabled: bool,
    lines: VecDeque<String>,
}

impl RunLog {
    /// Log that keeps lines.
    pub(super) fn enabled() -> RunLog {
        RunLog { enabled: true, lines: VecDeque::new() }
    }

    pub(super) fn line(&mut self, step: u64, at: Time, what: impl FnOnce() -> String) {
        if self.enabled {
            if self.lines.len() == MAX_LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(format!("step {step:>5}  {:>9.3}s  {}", at.secs(), what()));
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

/// Describes an event in a few words.
pub(super) fn describe(event: &Event) -> String {
    match &event.what {
        EventKind::WorkerJoined { worker, info } => format!("{worker} joined ({})", info.name),
        EventKind::WorkerLost { worker } => format!("{worker} lost"),
        EventKind::WorkerDrained { worker, drained, .. } => {
            format!("{worker} {}", if *drained { "drained" } else { "undrained" })
        }
        EventKind::DeviceChanged { device, state } => format!("device {device} is {state:?}"),
        EventKind::EnvKept { env, .. } => format!("environment {} kept", env.0),
        EventKind::JobSubmitted { job, spec, .. } => format!("job {job} submitted ({})", spec.name),
        EventKind::JobHeld { job, held } => format!("job {job} {}", if *held { "held" } else { "released" }),
        EventKind::JobPriority { job, priority } => format!("job {job} has priority {priority}"),
        EventKind::Cancelled { node, tasks } => {
            format!("{} of {}.{} cancelled", tasks.len(), node.job, node.node)
        }
        EventKind::Retried { job, failed_only } => {
            format!("job {job} retried{}", if *failed_only { ", failed tasks only" } else { "" })
        }
        EventKind::JobForgotten { job } => format!("job {job} forgotten"),
        EventKind::Placed { attempt, placement } => {
            let devices: Vec<_> = placement.devices.iter().map(|d| d.0.to_string()).collect();
            format!("{attempt} placed on {} [{}]", placement.worker, devices.join(","))
        }
        EventKind::MemoryCharged { attempt, device, bytes } => {
            format!("{attempt} charged {bytes} bytes of device {device}")
        }
        EventKind::Started { attempt } => format!("{attempt} started"),
        EventKind::PauseAsked { attempt, by: RequestedBy::Policy, .. } => {
            format!("{attempt} to pause for the policy")
        }
        EventKind::PauseAsked { attempt, by: RequestedBy::User, .. } => format!("{attempt} to pause"),
        EventKind::Paused { attempt } => format!("{attempt} paused"),
        EventKind::ResumeAsked { attempt } => format!("{attempt} to resume"),
        EventKind::Resumed { attempt } => format!("{attempt} resumed"),
        EventKind::StopAsked { attempt, why: StopReason::Killed } => format!("{attempt} to be killed"),
        EventKind::StopAsked { attempt, why: StopReason::Cancelled | StopReason::Idle(_) } => {
            format!("{attempt} to end")
        }
        EventKind::StopAsked { attempt, why: StopReason::Requeued } => format!("{attempt} to be requeued"),
        EventKind::Ended { attempt, end, then } => {
            let then = match then {
                Disposition::Done(outcome) => outcome.word().to_owned(),
                Disposition::Again => "again".to_owned(),
                Disposition::Later(from) => format!("again from {} s", from.secs()),
                Disposition::Hold => "held".to_owned(),
            };
            format!("{attempt} ended: {}, so {then}", how(end))
        }
        // New kinds of events are shown by their debug format.
        other => format!("{other:?}"),
    }
}

pub(super) fn how(end: &End) -> String {
    match &end.how {
        EndReason::Exited(code) => format!("exit {code}"),
        EndReason::Signalled(signal) => format!("signal {signal}"),
        EndReason::TimedOut => "timed out".into(),
        EndReason::Crowded(_) => "too many processes".into(),
        EndReason::OutOfMemory(_) => "out of memory".into(),
        EndReason::Idle(_) => "idle".into(),
        EndReason::Stopped => "stopped".into(),
        EndReason::NotStarted(_) => "not started".into(),
        EndReason::Declined(_) => "declined".into(),
        EndReason::Lost(why) => format!("lost ({why})"),
    }
}
