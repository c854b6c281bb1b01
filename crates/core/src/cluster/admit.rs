//! Admission: turns a plan into events. Every placement is validated again here, so that a faulty policy, or a plan
//! made from an outdated view, can waste a turn but never double-book a device.

use super::job::Phase;
use super::{Allowance, Cluster};
use crate::command::{Code, Rejection};
use crate::event::{Event, EventKind, RequestedBy, StopReason};
use crate::ids::{AttemptId, DeviceId, NodeId, TaskId};
use crate::plan::{Plan, Start};
use crate::pool::{Charge, DeviceInfo, Ledger, Placement, acceptable, charge_for};
use crate::spec::{Boundary, Needs, Preempt, TaskSpec};
use crate::time::Time;
use smallvec::SmallVec;
use std::collections::BTreeSet;

impl Cluster {
    /// Events for the parts of a plan that can be carried out, and rejections for the others.
    pub fn admit(&self, plan: &Plan, now: Time) -> (SmallVec<[Event; 1]>, Vec<Rejection>) {
        let mut events = SmallVec::new();
        let mut rejected = Vec::new();
        let mut note = |admitted: Result<EventKind, Rejection>| match admitted {
            Ok(what) => events.push(Event { at: now, what }),
            Err(rejection) => rejected.push(rejection),
        };
        if let Some(until) = plan.round {
            note(Ok(EventKind::RoundBegun { until }));
        }
        let mut ledger = Ledger::over(self.pool());
        let mut started = Started::default();
        let mut allowance = self.allowance(now);
        // Resumes come first: a resumed attempt takes its slot back, which no start may be given as well.
        for &attempt in &plan.resume {
            note(self.admit_resume(attempt, &mut ledger));
        }
        let mut last: Option<&Start> = None;
        for (nth, start) in plan.start.iter().enumerate() {
            // Charged only once another start follows: most plans start a single task and never need the ledger's
            // copy of its worker.
            if let Some(Start { task, placement }) = last.take() {
                ledger.charge(placement);
                started.insert(*task);
            }
            let admitted = self.admit_start(start, &ledger, &started, &allowance);
            let admitted =
                admitted.and_then(|event| self.admit_colocation(start, &plan.start[..nth]).map(|()| event));
            // Only an admitted start uses up its user's quota; a rejected one must not keep later starts out.
            if admitted.is_ok() {
                last = Some(start);
                allowance.give_task(self.view(), start.task);
            }
            note(admitted);
        }
        // Preemptions free nothing on the ledger: what a victim holds is free once it has stopped, not now.
        for &attempt in &plan.pause {
            note(self.admit_pause(attempt, plan.pause_at));
        }
        for &attempt in &plan.requeue {
            note(self.admit_requeue(attempt));
        }
        (events, rejected)
    }

    fn admit_start(
        &self,
        start: &Start,
        ledger: &Ledger<'_>,
        started: &Started,
        allowance: &Allowance<'_>,
    ) -> Result<EventKind, Rejection> {
        let Start { task, placement } = start;
        let stale = |why: &str| Rejection::new(Code::StalePlan, format!("{task:?} cannot start: {why}"));
        let job = self.job(task.job).ok_or_else(|| stale("its job is gone"))?;
        let (node, spec) = job.node(task.node).ok_or_else(|| stale("its job has no such node"))?;
        let ready = job.ready(task.node).next().ok_or_else(|| stale("it is not ready"))?;
        // The same task twice in one plan is as stale as a task that is not ready.
        if started.contains(task) || !matches!(self.state(*task), Some(super::TaskState::Ready { .. })) {
            return Err(stale("it is not ready"));
        }
        if ready.room < u32::MAX && count_of(started, task.node_id()) >= ready.room as usize {
            return Err(stale("its array runs as many tasks at once as it may"));
        }
        // A wrong placement is a policy's mistake, not a race; it is rejected before capacity is looked at.
        if !matches_request(self.worker(placement.worker).map(|w| &w.info.devices[..]), start, &spec.needs) {
            return Err(stale("the placement is not what it requested"));
        }
        if !ledger.admits(placement) {
            return Err(stale("the devices or the host have no free capacity"));
        }
        allowance.permits(job, spec).map_err(|at| stale(&at.to_string()))?;
        let before = node.live.get(&task.index).map_or(node.base, |l| l.attempts);
        Ok(EventKind::Placed { attempt: task.attempt(before + 1), placement: placement.clone() })
    }

    /// Rejects co-locating two tasks that may not be, or on only part of the other task's devices. Overcommitted devices
    /// are exempt: any tasks may share those.
    fn admit_colocation(&self, start: &Start, before: &[Start]) -> Result<(), Rejection> {
        let Start { task, placement } = start;
        if placement.devices.iter().all(|(_, charge)| *charge != Charge::Beside) {
            return Ok(());
        }
        let view = self.view();
        let tasks = self.worker(placement.worker).into_iter().flat_map(|w| w.tasks().iter().copied());
        let placed = tasks.filter_map(|task| Some((task, &view.attempt(task)?.0.placement)));
        // Earlier starts of the same plan are not in the view yet, but share the devices just the same.
        let planned = before.iter().map(|start| (start.task, &start.placement));
        let devices = self.worker(placement.worker).map(|w| &w.info.devices[..]).unwrap_or_default();
        let is_exclusive =
            |id: &DeviceId| devices.get(usize::from(id.index)).is_none_or(|info| !info.overcommit);
        let overlaps = |other: &Placement| {
            placement.device_ids().filter(is_exclusive).any(|id| other.device_ids().any(|d| d == id))
        };
        for (other, _) in placed.chain(planned).filter(|(_, other)| overlaps(other)) {
            let compatible = self.may_colocate(*task, other, placement);
            // Speeds are measured for pairs on exactly the same devices; on part of them neither speed would be known.
            let same_devices =
                view.attempt(other).is_none_or(|(a, _)| a.placement.devices == placement.devices);
            if !(compatible && same_devices) {
                let message = format!("{task:?} cannot start: it may not be co-located with {other:?}");
                return Err(Rejection::new(Code::StalePlan, message));
            }
        }
        Ok(())
    }

    /// Whether two tasks may be co-located on these devices: both have a profile and need the same number of GPUs, and
    /// the profiles make progress together ([`Shares::may_colocate`](crate::shares::Shares::may_colocate)).
    fn may_colocate(&self, one: TaskId, other: TaskId, on: &Placement) -> bool {
        let view = self.view();
        let kind = || {
            let (index, _) = on.devices.first()?;
            Some(&self.worker(on.worker)?.info.devices.get(usize::from(*index))?.kind)
        };
        let colocates = || {
            let (one, other) = (view.spec(one)?.1, view.spec(other)?.1);
            let gpus = Some(one.needs.gpus).filter(|gpus| *gpus == other.needs.gpus)?;
            Some(self.shares().may_colocate(one.profile.as_ref()?, other.profile.as_ref()?, gpus, kind()?))
        };
        colocates().unwrap_or(false)
    }

    fn admit_pause(&self, attempt: AttemptId, at: Boundary) -> Result<EventKind, Rejection> {
        let spec = self.preemptible(attempt)?;
        match &self.current(attempt).expect("seen above").phase {
            Phase::Running(a) if spec.preempt == Preempt::Freeze && a.pause.is_none() => {
                Ok(EventKind::PauseAsked { attempt, by: RequestedBy::Policy, at })
            }
            _ => Err(stale_attempt(attempt, "it cannot be frozen now")),
        }
    }

    /// An attempt that is paused needs a free slot on its devices again; one that was only asked to pause still has
    /// its slot.
    fn admit_resume(&self, attempt: AttemptId, ledger: &mut Ledger<'_>) -> Result<EventKind, Rejection> {
        match self.current(attempt).map(|l| &l.phase) {
            Some(Phase::Running(a)) if a.pause == Some(RequestedBy::Policy) => {
                Ok(EventKind::ResumeAsked { attempt })
            }
            Some(Phase::Paused(a)) if a.pause == Some(RequestedBy::Policy) => {
                if !ledger.admits_resumed(&a.placement) {
                    return Err(stale_attempt(attempt, "its slot on its devices is taken"));
                }
                ledger.resume(&a.placement);
                Ok(EventKind::ResumeAsked { attempt })
            }
            _ => Err(stale_attempt(attempt, "it was not paused by a policy")),
        }
    }

    fn admit_requeue(&self, attempt: AttemptId) -> Result<EventKind, Rejection> {
        let spec = self.preemptible(attempt)?;
        match &self.current(attempt).expect("seen above").phase {
            Phase::Running(_) if spec.preempt.ends() => {
                Ok(EventKind::StopAsked { attempt, why: StopReason::Requeued })
            }
            _ => Err(stale_attempt(attempt, "it cannot be requeued now")),
        }
    }

    fn preemptible(&self, attempt: AttemptId) -> Result<&TaskSpec, Rejection> {
        self.current(attempt).ok_or_else(|| stale_attempt(attempt, "it has ended"))?;
        let job = self.job(attempt.task.job).expect("a current attempt has a job");
        Ok(&job.spec.tasks[attempt.task.node as usize])
    }
}

/// Tasks that the plan starts.
type Started = BTreeSet<TaskId>;

fn count_of(started: &Started, node: NodeId) -> usize {
    started.range(node.task(0)..=node.task(u32::MAX)).count()
}

fn stale_attempt(attempt: AttemptId, why: &str) -> Rejection {
    Rejection::new(Code::StalePlan, format!("attempt {attempt}: {why}"))
}

/// Whether a charge is the one a task requested. A co-located task is charged for a whole device that another shares.
fn is_requested_charge(info: &DeviceInfo, needs: &Needs, charge: Charge) -> bool {
    let asked = charge_for(info, needs);
    asked == Some(charge) || (charge == Charge::Beside && asked == Some(Charge::Whole))
}

/// Whether a placement is exactly what the task requested: the right number of acceptable devices, none of them
/// twice, on a worker it accepts.
fn matches_request(devices: Option<&[DeviceInfo]>, start: &Start, needs: &Needs) -> bool {
    let Some(devices) = devices else { return false };
    let p = &start.placement;
    let right_device = |&(index, charge): &(u16, Charge)| {
        devices.get(usize::from(index)).is_some_and(|info| {
            is_requested_charge(info, needs, charge)
                && acceptable(needs, DeviceId { worker: p.worker, index }, info)
        })
    };
    let given_once = |at: usize| p.devices[..at].iter().all(|other| other.0 != p.devices[at].0);
    p.devices.len() == usize::from(needs.gpus)
        && needs.accepts_worker(p.worker)
        && p.cpus == needs.cpus
        && p.memory == needs.memory
        && p.devices.iter().all(right_device)
        && (0..p.devices.len()).all(given_once)
}
