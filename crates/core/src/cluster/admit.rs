//! Turning a plan into events. Every placement is checked again here, so that a policy with a mistake, or a plan made
//! from yesterday's view, can waste a turn but never book anything twice.

use super::job::Phase;
use super::{Allowance, Cluster};
use crate::command::{Code, Rejection};
use crate::event::{Event, EventKind, RequestedBy, StopReason};
use crate::ids::{AttemptId, DeviceId, NodeId, TaskId};
use crate::place::acceptable;
use crate::plan::{Plan, Start};
use crate::pool::{Charge, DeviceInfo, Ledger, Placement, charge_for};
use crate::spec::{Boundary, Needs, Preempt, TaskSpec};
use crate::time::Time;
use smallvec::SmallVec;
use std::collections::BTreeSet;

impl Cluster {
    /// What of a plan can be carried out, as events, and what cannot, with the reason.
    pub fn admit(&self, plan: &Plan, now: Time) -> (SmallVec<[Event; 1]>, Vec<Rejection>) {
        let mut events = SmallVec::new();
        let mut rejected = Vec::new();
        let mut note = |what: Result<EventKind, Rejection>| match what {
            Ok(what) => events.push(Event { at: now, what }),
            Err(why) => rejected.push(why),
        };
        if let Some(until) = plan.round {
            note(Ok(EventKind::RoundBegun { until }));
        }
        let mut ledger = Ledger::over(self.pool());
        let mut started = Started::default();
        let mut allowance = self.allowance(now);
        for &attempt in &plan.resume {
            note(self.admit_resume(attempt, &mut ledger));
        }
        let mut last: Option<&Start> = None;
        for (nth, start) in plan.start.iter().enumerate() {
            // Most plans start one task, and need no note of what it takes from others.
            if let Some(Start { task, placement }) = last.take() {
                ledger.charge(placement);
                started.insert(*task);
            }
            let admitted = self.admit_start(start, &ledger, &started, &allowance);
            let admitted =
                admitted.and_then(|what| self.among_friends(start, &plan.start[..nth]).map(|()| what));
            if admitted.is_ok() {
                last = Some(start);
                allowance.give_task(self.view(), start.task);
            }
            note(admitted);
        }
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
        if started.contains(task) || !matches!(self.state(*task), Some(super::TaskState::Ready { .. })) {
            return Err(stale("it is not ready"));
        }
        if ready.room < u32::MAX && count_of(started, task.node_id()) >= ready.room as usize {
            return Err(stale("as many of its array run as may"));
        }
        if !meets(self.worker(placement.worker).map(|w| &w.info.devices[..]), start, &spec.needs) {
            return Err(stale("the place is not what it asked for"));
        }
        if !ledger.admits(placement) {
            return Err(stale("there is no room"));
        }
        allowance.lets(job, spec).map_err(|at| stale(&at.to_string()))?;
        let before = node.live.get(&task.index).map_or(node.base, |l| l.attempts);
        Ok(EventKind::Placed { attempt: task.attempt(before + 1), placement: placement.clone() })
    }

    /// Refuses to put a task beside one that it is not known to get on with, or on only some of its devices.
    /// On devices that may be given more than fits, anyone may be beside anyone.
    fn among_friends(&self, start: &Start, before: &[Start]) -> Result<(), Rejection> {
        let Start { task, placement } = start;
        if placement.devices.iter().all(|(_, charge)| *charge != Charge::Beside) {
            return Ok(());
        }
        let view = self.view();
        let tasks = self.worker(placement.worker).into_iter().flat_map(|w| w.tasks().iter().copied());
        let there = tasks.filter_map(|task| Some((task, &view.attempt(task)?.0.placement)));
        let coming = before.iter().map(|start| (start.task, &start.placement));
        let devices = self.worker(placement.worker).map(|w| &w.info.devices[..]).unwrap_or_default();
        let keeps_count =
            |id: &DeviceId| devices.get(usize::from(id.index)).is_none_or(|info| !info.overcommit);
        let meets = |other: &Placement| {
            placement.device_ids().filter(keeps_count).any(|id| other.device_ids().any(|d| d == id))
        };
        for (other, _) in there.chain(coming).filter(|(_, other)| meets(other)) {
            let get_on = self.get_on(*task, other, placement);
            let all = view.attempt(other).is_none_or(|(a, _)| a.placement.devices == placement.devices);
            if !(get_on && all) {
                let message = format!("{task:?} cannot start: it is not known to get on with {other:?}");
                return Err(Rejection::new(Code::StalePlan, message));
            }
        }
        Ok(())
    }

    /// Whether two tasks may be on the same devices of a type.
    fn get_on(&self, one: TaskId, other: TaskId, on: &Placement) -> bool {
        let view = self.view();
        let kind = || {
            let (index, _) = on.devices.first()?;
            Some(&self.worker(on.worker)?.info.devices.get(usize::from(*index))?.kind)
        };
        let known = || {
            let (one, other) = (view.spec(one)?.1, view.spec(other)?.1);
            let gpus = Some(one.needs.gpus).filter(|gpus| *gpus == other.needs.gpus)?;
            Some(self.shares().get_on(one.profile.as_ref()?, other.profile.as_ref()?, gpus, kind()?))
        };
        known().unwrap_or(false)
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

    /// One that stands still needs its place among the tasks of its devices again; one that was only asked to has it.
    fn admit_resume(&self, attempt: AttemptId, ledger: &mut Ledger<'_>) -> Result<EventKind, Rejection> {
        match self.current(attempt).map(|l| &l.phase) {
            Some(Phase::Running(a)) if a.pause == Some(RequestedBy::Policy) => {
                Ok(EventKind::ResumeAsked { attempt })
            }
            Some(Phase::Paused(a)) if a.pause == Some(RequestedBy::Policy) => {
                if !ledger.admits_resumed(&a.placement) {
                    return Err(stale_attempt(attempt, "others have its place"));
                }
                ledger.resume(&a.placement);
                Ok(EventKind::ResumeAsked { attempt })
            }
            _ => Err(stale_attempt(attempt, "no policy made it stand still")),
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
        self.current(attempt).ok_or_else(|| stale_attempt(attempt, "it is over"))?;
        let job = self.job(attempt.task.job).expect("a current attempt has a job");
        Ok(&job.spec.tasks[attempt.task.node as usize])
    }
}

/// Tasks that a plan starts.
type Started = BTreeSet<TaskId>;

fn count_of(started: &Started, node: NodeId) -> usize {
    started.range(node.task(0)..=node.task(u32::MAX)).count()
}

fn stale_attempt(attempt: AttemptId, why: &str) -> Rejection {
    Rejection::new(Code::StalePlan, format!("attempt {attempt}: {why}"))
}

/// Whether a charge is what a task asked for; all of a device may be beside another.
fn fits(info: &DeviceInfo, needs: &Needs, charge: Charge) -> bool {
    let asked = charge_for(info, needs);
    asked == Some(charge) || (charge == Charge::Beside && asked == Some(Charge::Whole))
}

/// Whether a placement gives exactly what was asked for, on devices it was asked for.
fn meets(devices: Option<&[DeviceInfo]>, start: &Start, needs: &Needs) -> bool {
    let Some(devices) = devices else { return false };
    let p = &start.placement;
    let right_device = |&(index, charge): &(u16, Charge)| {
        devices.get(usize::from(index)).is_some_and(|info| {
            fits(info, needs, charge) && acceptable(needs, DeviceId { worker: p.worker, index }, info)
        })
    };
    let given_once = |at: usize| p.devices[..at].iter().all(|other| other.0 != p.devices[at].0);
    p.devices.len() == usize::from(needs.gpus)
        && p.cpus == needs.cpus
        && p.memory == needs.memory
        && p.devices.iter().all(right_device)
        && (0..p.devices.len()).all(given_once)
}
