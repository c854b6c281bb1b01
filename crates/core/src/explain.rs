//! Why something does not run. Computed when asked, never while planning.

use crate::cluster::{Cause, View};
use crate::event::{By, Outcome, StopWhy};
use crate::ids::{DeviceId, JobId, TaskId};
use crate::limits::AtLimit;
use crate::place::Search;
use crate::pool::Ledger;
use crate::spec::Needs;
use crate::{TaskState, Time};

/// Why a task does not run, and who is before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The reason.
    pub reason: Reason,
    /// How many ready tasks are considered before it; only for one that is ready.
    pub ahead: Option<u64>,
    /// The first few of those.
    pub first_ahead: Vec<TaskId>,
}

/// The reasons there are.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
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
    AtLimit(Box<AtLimit>),
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
    Round(Box<InRounds>),
    /// There is room, but others go first.
    NotItsTurn,
    /// It would start at the next plan.
    Next,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It stands still.
    Paused(Option<By>),
    /// It is being ended.
    Stopping(StopWhy),
    /// It is over.
    Done(Outcome),
    /// It was skipped because of this.
    Skipped(Cause),
}

/// How a task stands that gets shares of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InRounds {
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

impl Reason {
    /// A stable word for it, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Held => "held",
            Reason::Backoff { .. } => "backoff",
            Reason::AfterTasks(_) => "after-tasks",
            Reason::AfterJobs(_) => "after-jobs",
            Reason::ArrayFull { .. } => "array-full",
            Reason::AtLimit(_) => "at-limit",
            Reason::NoWorker => "no-worker",
            Reason::NoRoom => "no-room",
            Reason::Reserved { .. } => "reserved",
            Reason::EndsSooner { .. } => "ends-sooner",
            Reason::Withheld(_) => "withheld",
            Reason::Round(_) => "round",
            Reason::NotItsTurn => "not-its-turn",
            Reason::Next => "next",
            Reason::Starting => "starting",
            Reason::Running => "running",
            Reason::Paused(_) => "paused",
            Reason::Stopping(_) => "stopping",
            Reason::Done(_) => "done",
            Reason::Skipped(_) => "skipped",
        }
    }
}

impl Why {
    /// A reason that has nothing to do with a queue.
    pub fn plain(reason: Reason) -> Why {
        Why { reason, ahead: None, first_ahead: Vec::new() }
    }
}

/// The reason for anything but a ready task, for which only the policy knows. `None` for that, and for a task there is
/// not.
pub fn without_policy(view: View<'_>, task: TaskId, now: Time) -> Option<Why> {
    let job = view.job(task.job)?;
    let (node, spec) = job.node(task.node)?;
    let reason = match view.state(task)? {
        TaskState::Blocked if job.held => Reason::Held,
        TaskState::Blocked if !job.waiting.is_empty() => {
            Reason::AfterJobs(job.waiting.iter().map(|w| w.job).collect())
        }
        TaskState::Blocked if node.unmet == 0 => {
            let put_off = node.live.get(&task.index).and_then(|live| Some((live.not_before?, live.failures)));
            match put_off.filter(|_| !node.held.contains(task.index)) {
                Some((until, failures)) => Reason::Backoff { until, failures },
                None => Reason::Held,
            }
        }
        TaskState::Blocked => {
            let unmet =
                spec.after.iter().filter(|d| job.nodes[d.node as usize].satisfies(d.on) != Some(true));
            Reason::AfterTasks(unmet.map(|d| d.node).collect())
        }
        TaskState::Ready { .. } => {
            let full = |at_once: &u32| node.active() >= *at_once;
            match spec.at_once().filter(full) {
                Some(at_once) => Reason::ArrayFull { at_once },
                None => Reason::AtLimit(Box::new(view.allowance(now).lets(job, spec).err()?)),
            }
        }
        TaskState::Placed(_) => Reason::Starting,
        TaskState::Running(_) => Reason::Running,
        TaskState::Paused(a) => Reason::Paused(a.pause),
        TaskState::Stopping(_, why) => Reason::Stopping(why),
        TaskState::Done(Outcome::Skipped) => {
            node.skipped_by.map_or(Reason::Done(Outcome::Skipped), Reason::Skipped)
        }
        TaskState::Done(outcome) => Reason::Done(outcome),
    };
    Some(Why::plain(reason))
}

/// Whether there is room for a task now, apart from everyone else's claims; and if so, whether there still is with some
/// devices withheld from it.
pub fn room(view: View<'_>, needs: &Needs, withheld: &[DeviceId]) -> Result<(), Reason> {
    let ledger = Ledger::over(view.pool());
    if !view.pool().workers().any(|(_, w)| w.is_open()) {
        return Err(Reason::NoWorker);
    }
    if Search::over(&ledger).place(needs).is_none() {
        return Err(Reason::NoRoom);
    }
    if (Search { withheld, ..Search::over(&ledger) }).place(needs).is_none() {
        return Err(Reason::Withheld(withheld.to_vec()));
    }
    Ok(())
}
