//! Turning a plan into events. Every placement is checked again here, so that a policy with a mistake, or a plan made
//! from yesterday's view, can waste a turn but never book anything twice.

use super::job::Phase;
use super::{Allowance, Cluster};
use crate::command::{Code, Rejected};
use crate::event::{By, Event, StopWhy, What};
use crate::ids::{AttemptId, DeviceId, NodeId, TaskId};
use crate::place::acceptable;
use crate::plan::{Plan, Start};
use crate::pool::{Charge, DeviceInfo, Ledger, charge_for};
use crate::spec::{Boundary, Needs, Preempt, TaskSpec};
use crate::time::Time;
use smallvec::SmallVec;
use std::collections::BTreeSet;

impl Cluster {
    /// What of a plan can be carried out, as events, and what cannot, with the reason.
    pub fn admit(&self, plan: &Plan, now: Time) -> (SmallVec<[Event; 1]>, Vec<Rejected>) {
        let mut events = SmallVec::new();
        let mut rejected = Vec::new();
        let mut note = |what: Result<What, Rejected>| match what {
            Ok(what) => events.push(Event { at: now, what }),
            Err(why) => rejected.push(why),
        };
        if let Some(until) = plan.round {
            note(Ok(What::RoundBegun { until }));
        }
        let mut ledger = Ledger::over(self.pool());
        let mut started = Started::default();
        let mut allowance = self.allowance(now);
        for &attempt in &plan.resume {
            note(self.admit_resume(attempt, &mut ledger));
        }
        let mut last: Option<&Start> = None;
        for start in &plan.start {
            // Most plans start one task, and need no note of what it takes from others.
            if let Some(Start { task, placement }) = last.take() {
                ledger.charge(placement);
                started.insert(*task);
            }
            let admitted = self.admit_start(start, &ledger, &started, &allowance);
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
    ) -> Result<What, Rejected> {
        let Start { task, placement } = start;
        let stale = |why: &str| Rejected::new(Code::StalePlan, format!("{task:?} cannot start: {why}"));
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
        Ok(What::Placed { attempt: task.attempt(before + 1), placement: placement.clone() })
    }

    fn admit_pause(&self, attempt: AttemptId, at: Boundary) -> Result<What, Rejected> {
        let spec = self.preemptible(attempt)?;
        match &self.current(attempt).expect("seen above").phase {
            Phase::Running(a) if spec.preempt == Preempt::Freeze && a.pause.is_none() => {
                Ok(What::PauseAsked { attempt, by: By::Policy, at })
            }
            _ => Err(stale_attempt(attempt, "it cannot be frozen now")),
        }
    }

    /// One that stands still needs its place among the tasks of its devices again; one that was only asked to has it.
    fn admit_resume(&self, attempt: AttemptId, ledger: &mut Ledger<'_>) -> Result<What, Rejected> {
        match self.current(attempt).map(|l| &l.phase) {
            Some(Phase::Running(a)) if a.pause == Some(By::Policy) => Ok(What::ResumeAsked { attempt }),
            Some(Phase::Paused(a)) if a.pause == Some(By::Policy) => {
                if !ledger.admits_resumed(&a.placement) {
                    return Err(stale_attempt(attempt, "others have its place"));
                }
                ledger.resume(&a.placement);
                Ok(What::ResumeAsked { attempt })
            }
            _ => Err(stale_attempt(attempt, "no policy made it stand still")),
        }
    }

    fn admit_requeue(&self, attempt: AttemptId) -> Result<What, Rejected> {
        let spec = self.preemptible(attempt)?;
        match &self.current(attempt).expect("seen above").phase {
            Phase::Running(_) if spec.preempt == Preempt::Requeue => {
                Ok(What::StopAsked { attempt, why: StopWhy::Requeued })
            }
            _ => Err(stale_attempt(attempt, "it cannot be requeued now")),
        }
    }

    fn preemptible(&self, attempt: AttemptId) -> Result<&TaskSpec, Rejected> {
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

fn stale_attempt(attempt: AttemptId, why: &str) -> Rejected {
    Rejected::new(Code::StalePlan, format!("attempt {attempt}: {why}"))
}

/// Whether a placement gives exactly what was asked for, on devices it was asked for.
fn meets(devices: Option<&[DeviceInfo]>, start: &Start, needs: &Needs) -> bool {
    let Some(devices) = devices else { return false };
    let p = &start.placement;
    let right_device = |&(index, charge): &(u16, Charge)| {
        devices.get(usize::from(index)).is_some_and(|info| {
            charge_for(info, needs) == Some(charge)
                && acceptable(needs, DeviceId { worker: p.worker, index }, info)
        })
    };
    let given_once = |at: usize| p.devices[..at].iter().all(|other| other.0 != p.devices[at].0);
    p.devices.len() == usize::from(needs.gpus)
        && p.cpus == needs.cpus
        && p.memory == needs.memory
        && p.devices.iter().all(right_device)
        && (0..p.devices.len()).all(given_once)
}
