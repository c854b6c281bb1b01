//! What happened, told in lines a person can follow. Lines are only made when someone wants them: a run that fails is
//! run again to be told.

use std::collections::VecDeque;
use warpyard_core::event::{By, End, How, StopWhy, Then};
use warpyard_core::{Event, Time, What};

/// How many of the last lines are kept.
const KEPT: usize = 60;

/// The last lines of a run.
#[derive(Default)]
pub(super) struct Story {
    told: bool,
    lines: VecDeque<String>,
}

impl Story {
    /// One that keeps lines.
    pub(super) fn told() -> Story {
        Story { told: true, lines: VecDeque::new() }
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
        What::WorkerJoined { worker, info } => format!("{worker} joined ({})", info.name),
        What::WorkerLost { worker } => format!("{worker} given up"),
        What::WorkerDrained { worker, drained } => {
            format!("{worker} {}", if *drained { "drained" } else { "takes tasks again" })
        }
        What::DeviceChanged { device, state } => format!("device {device} is {state:?}"),
        What::EnvKept { env, .. } => format!("environment {} kept", env.0),
        What::JobSubmitted { job, spec, .. } => format!("job {job} submitted ({})", spec.name),
        What::JobHeld { job, held } => format!("job {job} {}", if *held { "held" } else { "released" }),
        What::JobPriority { job, priority } => format!("job {job} has priority {priority}"),
        What::Cancelled { node, tasks } => {
            format!("{} of {}.{} cancelled", tasks.len(), node.job, node.node)
        }
        What::Retried { job, failed_only } => {
            format!("job {job} tried again{}", if *failed_only { ", what failed" } else { "" })
        }
        What::JobForgotten { job } => format!("job {job} forgotten"),
        What::Placed { attempt, placement } => {
            let devices: Vec<_> = placement.devices.iter().map(|d| d.0.to_string()).collect();
            format!("{attempt} placed on {} [{}]", placement.worker, devices.join(","))
        }
        What::MemoryCharged { attempt, device, bytes } => {
            format!("{attempt} charged {bytes} bytes of device {device}")
        }
        What::Started { attempt } => format!("{attempt} started"),
        What::PauseAsked { attempt, by: By::Policy, .. } => format!("{attempt} to pause for the policy"),
        What::PauseAsked { attempt, by: By::User, .. } => format!("{attempt} to pause"),
        What::Paused { attempt } => format!("{attempt} stands still"),
        What::ResumeAsked { attempt } => format!("{attempt} to go on"),
        What::Resumed { attempt } => format!("{attempt} goes on"),
        What::StopAsked { attempt, why: StopWhy::Killed } => format!("{attempt} to end at once"),
        What::StopAsked { attempt, why: StopWhy::Cancelled | StopWhy::Idle(_) } => {
            format!("{attempt} to end")
        }
        What::StopAsked { attempt, why: StopWhy::Requeued } => format!("{attempt} to give way"),
        What::Ended { attempt, end, then } => {
            let then = match then {
                Then::Done(outcome) => outcome.word().to_owned(),
                Then::Again => "again".to_owned(),
                Then::Later(from) => format!("again from {} s", from.secs()),
                Then::Hold => "held".to_owned(),
            };
            format!("{attempt} ended: {}, so {then}", how(end))
        }
        // Kinds of events only ever grow; one that nobody found words for is shown as it is.
        other => format!("{other:?}"),
    }
}

pub(super) fn how(end: &End) -> String {
    match &end.how {
        How::Exited(code) => format!("exit {code}"),
        How::Signalled(signal) => format!("signal {signal}"),
        How::TimedOut => "out of time".into(),
        How::Crowded(_) => "too many processes".into(),
        How::OutOfMemory(_) => "out of memory".into(),
        How::Idle(_) => "idle".into(),
        How::Stopped => "stopped".into(),
        How::NotStarted(_) => "not started".into(),
        How::Declined(_) => "declined".into(),
        How::Lost(why) => format!("lost ({why})"),
    }
}
