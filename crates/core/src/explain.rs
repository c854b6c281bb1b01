//! Why something does not run. Computed when asked, never while planning.

use crate::cluster::{Cause, View};
use crate::event::{Outcome, RequestedBy, StopReason};
use crate::ids::{DeviceId, JobId, TaskId};
use crate::limits::LimitExceeded;
use crate::place::Search;
use crate::pool::Ledger;
use crate::spec::Needs;
use crate::{TaskState, Time};

/// Why a task does not run, and who is before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The reason.
    pub reason: WaitReason,
    /// How many ready tasks are considered before it; only for one that is ready.
    pub ahead: Option<u64>,
    /// The first few of those.
    pub first_ahead: Vec<TaskId>,
}

/// The reasons there are.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitReason {
    /// Someone holds the job, or the task.
    Held,
    /// It failed several times, and is tried again at this moment.
    Backoff {
        /// When.
        until: Time,
        /// How often it failed.
        failures: u32,
    },
    /// Other tasks of the job must end first: these nodes.
    AfterTasks(Vec<u32>),
    /// Other jobs must end first.
    AfterJobs(Vec<JobId>),
    /// As many of its array run as may.
    ArrayFull {
        /// At most this many at once.
        at_once: u32,
    },
    /// Its user has as much as they may have.
    AtLimit(Box<LimitExceeded>),
    /// No worker takes new work.
    NoWorker,
    /// Nothing that is free now is enough.
    NoRoom,
    /// There is room, but it is kept for a task before it from this moment on.
    Reserved {
        /// The task it is kept for.
        for_task: TaskId,
        /// From when; past if it should already be so.
        from: Time,
    },
    /// There is room, but it ends sooner on faster devices, which are kept for it from this moment on.
    EndsSooner {
        /// From when.
        from: Time,
    },
    /// There is room, but the policy keeps these devices for others.
    Withheld(Vec<DeviceId>),
    /// Its time comes in rounds.
    Round(Box<RoundStatus>),
    /// There is room, but others go first.
    NotItsTurn,
    /// It would start at the next plan.
    Next,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It stands still.
    Paused(Option<RequestedBy>),
    /// It is being ended.
    Stopping(StopReason),
    /// It is over.
    Done(Outcome),
    /// It was skipped because of this.
    Skipped(Cause),
}

/// How a task stands that gets shares of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundStatus {
    /// By type: its target share of time, and the share it has had.
    pub shares: Vec<(String, f64, f64)>,
    /// When the round that runs ends.
    pub next: Option<Time>,
    /// Whether it stands still on its devices until its turn.
    pub still: bool,
    /// Whether devices, or their time, are being freed for it.
    pub freeing: bool,
    /// Why there is no newer target, if finding one failed.
    pub failed: Option<String>,
}

impl WaitReason {
    /// A stable word for it, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            WaitReason::Held => "held",
            WaitReason::Backoff { .. } => "backoff",
            WaitReason::AfterTasks(_) => "after-tasks",
            WaitReason::AfterJobs(_) => "after-jobs",
            WaitReason::ArrayFull { .. } => "array-full",
            WaitReason::AtLimit(_) => "at-limit",
            WaitReason::NoWorker => "no-worker",
            WaitReason::NoRoom => "no-room",
            WaitReason::Reserved { .. } => "reserved",
            WaitReason::EndsSooner { .. } => "ends-sooner",
            WaitReason::Withheld(_) => "withheld",
            WaitReason::Round(_) => "round",
            WaitReason::NotItsTurn => "not-its-turn",
            WaitReason::Next => "next",
            WaitReason::Starting => "starting",
            WaitReason::Running => "running",
            WaitReason::Paused(_) => "paused",
            WaitReason::Stopping(_) => "stopping",
            WaitReason::Done(_) => "done",
            WaitReason::Skipped(_) => "skipped",
        }
    }
}

impl Explanation {
    /// A reason that has nothing to do with a queue.
    pub fn plain(reason: WaitReason) -> Explanation {
        Explanation { reason, ahead: None, first_ahead: Vec::new() }
    }
}

/// The reason for anything but a ready task, for which only the policy knows. `None` for that, and for a task there is
/// not.
pub fn without_policy(view: View<'_>, task: TaskId, now: Time) -> Option<Explanation> {
    let job = view.job(task.job)?;
    let (node, spec) = job.node(task.node)?;
    let reason = match view.state(task)? {
        TaskState::Blocked if job.held => WaitReason::Held,
        TaskState::Blocked if !job.waiting.is_empty() => {
            WaitReason::AfterJobs(job.waiting.iter().map(|w| w.job).collect())
        }
        TaskState::Blocked if node.unmet == 0 => {
            let put_off = node.live.get(&task.index).and_then(|live| Some((live.not_before?, live.failures)));
            match put_off.filter(|_| !node.held.contains(task.index)) {
                Some((until, failures)) => WaitReason::Backoff { until, failures },
                None => WaitReason::Held,
            }
        }
        TaskState::Blocked => {
            let unmet =
                spec.after.iter().filter(|d| job.nodes[d.node as usize].satisfies(d.on) != Some(true));
            WaitReason::AfterTasks(unmet.map(|d| d.node).collect())
        }
        TaskState::Ready { .. } => {
            let full = |at_once: &u32| node.active() >= *at_once;
            match spec.at_once().filter(full) {
                Some(at_once) => WaitReason::ArrayFull { at_once },
                None => WaitReason::AtLimit(Box::new(view.allowance(now).lets(job, spec).err()?)),
            }
        }
        TaskState::Placed(_) => WaitReason::Starting,
        TaskState::Running(_) => WaitReason::Running,
        TaskState::Paused(a) => WaitReason::Paused(a.pause),
        TaskState::Stopping(_, why) => WaitReason::Stopping(why),
        TaskState::Done(Outcome::Skipped) => {
            node.skipped_by.map_or(WaitReason::Done(Outcome::Skipped), WaitReason::Skipped)
        }
        TaskState::Done(outcome) => WaitReason::Done(outcome),
    };
    Some(Explanation::plain(reason))
}

/// Whether there is room for a task now, apart from everyone else's claims; and if so, whether there still is with some
/// devices withheld from it.
pub fn room(view: View<'_>, needs: &Needs, withheld: &[DeviceId]) -> Result<(), WaitReason> {
    let ledger = Ledger::over(view.pool());
    if !view.pool().workers().any(|(_, w)| w.is_open()) {
        return Err(WaitReason::NoWorker);
    }
    if Search::over(&ledger).place(needs).is_none() {
        return Err(WaitReason::NoRoom);
    }
    if (Search { withheld, ..Search::over(&ledger) }).place(needs).is_none() {
        return Err(WaitReason::Withheld(withheld.to_vec()));
    }
    Ok(())
}
