//! What happened, told in lines a person can follow. Lines are only made when someone wants them: a run that fails is
//! run again to be told.

use std::collections::VecDeque;
use warpyard_core::event::{Disposition, End, EndReason, RequestedBy, StopReason};
use warpyard_core::{Event, EventKind, Time};

/// How many of the last lines are kept.
const KEPT: usize = 60;

/// The last lines of a run.
#[derive(Default)]
pub(super) struct RunLog {
    told: bool,
    lines: VecDeque<String>,
}

impl RunLog {
    /// One that keeps lines.
    pub(super) fn told() -> RunLog {
        RunLog { told: true, lines: VecDeque::new() }
    }

    pub(super) fn line(&mut self, step: u64, at: Time, what: impl FnOnce() -> String) {
        if self.told {
            if self.lines.len() == KEPT {
                self.lines.pop_front();
            }
            self.lines.push_back(format!("step {step:>5}  {:>9.3}s  {}", at.secs(), what()));
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

/// An event in a few words.
pub(super) fn words(event: &Event) -> String {
    match &event.what {
        EventKind::WorkerJoined { worker, info } => format!("{worker} joined ({})", info.name),
        EventKind::WorkerLost { worker } => format!("{worker} given up"),
        EventKind::WorkerDrained { worker, drained } => {
            format!("{worker} {}", if *drained { "drained" } else { "takes tasks again" })
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
            format!("job {job} tried again{}", if *failed_only { ", what failed" } else { "" })
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
        EventKind::Paused { attempt } => format!("{attempt} stands still"),
        EventKind::ResumeAsked { attempt } => format!("{attempt} to go on"),
        EventKind::Resumed { attempt } => format!("{attempt} goes on"),
        EventKind::StopAsked { attempt, why: StopReason::Killed } => format!("{attempt} to end at once"),
        EventKind::StopAsked { attempt, why: StopReason::Cancelled | StopReason::Idle(_) } => {
            format!("{attempt} to end")
        }
        EventKind::StopAsked { attempt, why: StopReason::Requeued } => format!("{attempt} to give way"),
        EventKind::Ended { attempt, end, then } => {
            let then = match then {
                Disposition::Done(outcome) => outcome.word().to_owned(),
                Disposition::Again => "again".to_owned(),
                Disposition::Later(from) => format!("again from {} s", from.secs()),
                Disposition::Hold => "held".to_owned(),
            };
            format!("{attempt} ended: {}, so {then}", how(end))
        }
        // Kinds of events only ever grow; one that nobody found words for is shown as it is.
        other => format!("{other:?}"),
    }
}

pub(super) fn how(end: &End) -> String {
    match &end.how {
        EndReason::Exited(code) => format!("exit {code}"),
        EndReason::Signalled(signal) => format!("signal {signal}"),
        EndReason::TimedOut => "out of time".into(),
        EndReason::Crowded(_) => "too many processes".into(),
        EndReason::OutOfMemory(_) => "out of memory".into(),
        EndReason::Idle(_) => "idle".into(),
        EndReason::Stopped => "stopped".into(),
        EndReason::NotStarted(_) => "not started".into(),
        EndReason::Declined(_) => "declined".into(),
        EndReason::Lost(why) => format!("lost ({why})"),
    }
}
