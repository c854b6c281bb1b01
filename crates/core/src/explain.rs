//! Wait reasons: why a task does not run. Computed on demand, never while planning.

use crate::cluster::{Cause, View};
use crate::event::{Outcome, RequestedBy, StopReason};
use crate::ids::{DeviceId, JobId, TaskId};
use crate::limits::LimitExceeded;
use crate::place::Search;
use crate::pool::Ledger;
use crate::spec::Needs;
use crate::{TaskState, Time};

/// Explanation of why a task does not run, with its position in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Wait reason.
    pub reason: WaitReason,
    /// Number of ready tasks considered before it; only for a ready task.
    pub ahead: Option<u64>,
    /// First few of those.
    pub first_ahead: Vec<TaskId>,
}

/// Wait reasons, and the states of tasks that do not wait.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitReason {
    /// The job, or the task itself, is held.
    Held,
    /// The task failed several times and is in backoff.
    Backoff {
        /// End of the backoff.
        until: Time,
        /// Number of failures.
        failures: u32,
    },
    /// Dependencies: these nodes of the job must end first.
    AfterTasks(Vec<u32>),
    /// Dependencies: these jobs must end first.
    AfterJobs(Vec<JobId>),
    /// The array runs as many tasks at once as it may.
    ArrayFull {
        /// Limit on tasks at once.
        at_once: u32,
    },
    /// A limit of the user is reached.
    AtLimit(Box<LimitExceeded>),
    /// No worker accepts new tasks.
    NoWorker,
    /// Not enough capacity is free.
    NoRoom,
    /// Capacity is free, but reserved for a task before it.
    Reserved {
        /// Task with the reservation.
        for_task: TaskId,
        /// Start of the reservation; in the past if it is overdue.
        from: Time,
    },
    /// Capacity is free, but the task ends sooner on faster devices that are reserved for it.
    EndsSooner {
        /// Start of the reservation.
        from: Time,
    },
    /// Capacity is free, but the policy withholds these devices from the task.
    Withheld(Vec<DeviceId>),
    /// The task gets its share of time in rounds.
    Round(Box<RoundStatus>),
    /// Capacity is free, but other tasks go first.
    NotItsTurn,
    /// The next plan starts it.
    Next,
    /// It is starting.
    Starting,
    /// It is running.
    Running,
    /// It is paused.
    Paused(Option<RequestedBy>),
    /// It is stopping.
    Stopping(StopReason),
    /// It has ended.
    Done(Outcome),
    /// It was skipped because of this dependency.
    Skipped(Cause),
}

/// Status of a task that gets a share of time in rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundStatus {
    /// By device type: target share of time, and share it has had.
    pub shares: Vec<(String, f64, f64)>,
    /// End of the current round.
    pub next: Option<Time>,
    /// Whether it is paused on its devices until its turn.
    pub still: bool,
    /// Whether devices, or time on them, are being freed for it.
    pub freeing: bool,
    /// Why the solver found no newer target, if it failed.
    pub failed: Option<String>,
}

impl WaitReason {
    /// Stable name, for programs.
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
    /// Explanation of a task that is not in the queue.
    pub fn plain(reason: WaitReason) -> Explanation {
        Explanation { reason, ahead: None, first_ahead: Vec::new() }
    }
}

/// Explanation of any task that is not ready. `None` for a ready task, which only the policy can explain, and for a
/// task that does not exist.
pub fn without_policy(view: View<'_>, task: TaskId, now: Time) -> Option<Explanation> {
    let job = view.job(task.job)?;
    let (node, spec) = job.node(task.node)?;
    let reason = match view.state(task)? {
        TaskState::Blocked if job.held => WaitReason::Held,
        TaskState::Blocked if !job.waiting.is_empty() => {
            WaitReason::AfterJobs(job.waiting.iter().map(|w| w.job).collect())
        }
        TaskState::Blocked if node.unmet == 0 => {
            let in_backoff =
                node.live.get(&task.index).and_then(|live| Some((live.not_before?, live.failures)));
            match in_backoff.filter(|_| !node.held.contains(task.index)) {
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
                None => WaitReason::AtLimit(Box::new(view.allowance(now).permits(job, spec).err()?)),
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

/// Whether a task fits now, apart from all reservations, and still does without the devices withheld from it; the
/// wait reason if not.
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
