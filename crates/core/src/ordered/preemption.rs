//! Preemption in an ordered plan: which running attempts are paused or requeued for more urgent tasks, and which paused
//! attempts resume.
//!
//! Pausing and stopping take a while. A second ledger (`soon`) shows the pool as it will be once every preemption that was
//! requested has happened, with what those preemptions are for already charged. So no attempt is preempted twice for the
//! same task, and no other task is given what is being freed.

use super::plan_builder::{PlanBuilder, StartOutcome};
use super::{Order, Ordered};
use crate::cluster::{Phase, PlacedTask, View};
use crate::event::RequestedBy;
use crate::ids::{AttemptId, DeviceId};
use crate::place::Search;
use crate::pool::{Ledger, Placement};
use crate::preempt::{PreemptionCandidate, PreemptionMethod, find_victims};
use crate::queue::{Key, QueueItem};
use crate::spec::{Boundary, Needs, Preempt};
use crate::time::{Span, Time};

/// Preemption state of a plan under construction.
pub(super) struct Preemption<'a> {
    /// The pool once all requested preemptions have happened, less what is promised to more urgent tasks.
    pub(super) soon: Ledger<'a>,
    /// Preemptible running attempts, the least urgent first.
    candidates: Vec<PreemptionCandidate<'a>>,
    /// Running time after which the first of their keys grows.
    key_grows_after: Option<Span>,
    /// Boundary at which attempts are paused.
    at: Boundary,
}

/// Attempt that a policy paused, or asked to pause.
#[derive(Clone, Copy)]
pub(super) struct PausedAttempt<'a> {
    pub(super) key: Key,
    attempt: AttemptId,
    placement: &'a Placement,
    /// Whether it has yet to pause.
    runs: bool,
}

impl<'a> Preemption<'a> {
    /// Preemption state with all earlier requests taken as done, and the attempts that might resume, the most urgent first.
    pub(super) fn new<O: Order>(
        policy: &Ordered<O>,
        at: Boundary,
        view: View<'a>,
        now: Time,
    ) -> (Preemption<'a>, Vec<PausedAttempt<'a>>) {
        let mut soon = Ledger::over(view.pool());
        let mut paused_attempts = Vec::new();
        for task in view.unsettled() {
            let on = view.under_way(task, now).expect("an unsettled task is on a worker");
            let placement = &on.attempt.placement;
            match on.phase {
                // Its devices will be free soon, whether a policy or a user asked for the stop.
                Phase::Stopping { paused, .. } => soon.release_ending(placement, *paused),
                Phase::Running(a) | Phase::Paused(a) if a.pause == Some(RequestedBy::Policy) => {
                    let runs = matches!(on.phase, Phase::Running(_));
                    // The pool already counts a paused attempt as such; one that still runs is counted here.
                    if runs {
                        soon.pause(placement);
                    }
                    let (key, attempt) = (policy.order.key(&on.as_ready), attempt_id(&on));
                    paused_attempts.push(PausedAttempt { key, attempt, placement, runs });
                }
                _ => {}
            }
        }
        paused_attempts.sort_by_key(|s| (s.key, s.attempt));
        let mut candidates = Vec::new();
        let mut key_grows_after: Option<Span> = None;
        for task in view.preemptible() {
            let on = view.under_way(task, now).expect("a preemptible task is on a worker");
            let placement = &on.attempt.placement;
            let method = match on.as_ready.spec.preempt {
                Preempt::Freeze => PreemptionMethod::Freeze,
                Preempt::Requeue | Preempt::Yield => PreemptionMethod::Requeue,
                Preempt::None => continue,
            };
            // Only what runs and was asked for nothing yet can be preempted now.
            if matches!(on.phase, Phase::Running(a) if a.pause.is_none()) {
                let grows_after = policy.order.key_grows_after(&on.as_ready);
                key_grows_after = key_grows_after.into_iter().chain(grows_after).min();
                let key = policy.order.running_key(&on.as_ready);
                candidates.push(PreemptionCandidate { attempt: attempt_id(&on), key, placement, method });
            }
        }
        candidates.sort_by_key(|r| (std::cmp::Reverse(r.key), r.attempt));
        (Preemption { soon, candidates, key_grows_after, at }, paused_attempts)
    }

    /// Time at which a running attempt's key grows, and the order with it.
    pub(super) fn key_grows_at(&self, now: Time) -> Option<Time> {
        self.key_grows_after.map(|after| now + after.max(Span(1)))
    }

    /// Preempts attempts less urgent than `key` so that `fits` holds, the least urgent first; false if no preemption helps.
    fn preempt_until(
        &mut self,
        plan: &mut crate::Plan,
        key: Key,
        fits: impl Fn(&Ledger<'_>, crate::WorkerId) -> bool,
    ) -> bool {
        // Strictly less urgent: if equals preempted each other, they would do so for ever.
        let less_urgent = self.candidates.partition_point(|r| r.key > key);
        let Some(mut victims) = find_victims(&self.soon, &self.candidates[..less_urgent], fits) else {
            return false;
        };
        // From the back, so that removing one leaves the other positions valid.
        victims.sort_unstable();
        for at in victims.into_iter().rev() {
            let victim = self.candidates.remove(at);
            victim.free_on(&mut self.soon);
            match victim.method {
                PreemptionMethod::Freeze => {
                    plan.pause_at = self.at;
                    plan.pause.push(victim.attempt);
                }
                PreemptionMethod::Requeue => plan.requeue.push(victim.attempt),
            }
        }
        true
    }
}

fn attempt_id(on: &PlacedTask<'_>) -> AttemptId {
    on.as_ready.task.attempt(on.as_ready.attempts)
}

impl<'a> PlanBuilder<'a> {
    /// Promises a task that does not fit now what earlier preemptions are freeing, preempting more attempts if that helps.
    pub(super) fn preempt_for(
        &mut self,
        item: &QueueItem,
        needs: &Needs,
        withheld: &[DeviceId],
    ) -> Option<StartOutcome> {
        let preemption = self.preemption.as_mut()?;
        let end = self.now + item.expected;
        let reserved = self.reservation.as_ref().filter(|r| end > r.at).map(|r| &r.then);
        let later: Vec<&Ledger<'_>> = reserved.into_iter().collect();
        let (fit, workload) = (self.fit, &self.task_mix);
        let search = Search { later: &later, withheld, fit, workload, ..Search::over(&preemption.soon) };
        let placement = match search.place(needs) {
            // An earlier plan's preemptions are freeing enough: no other attempt has to be preempted.
            Some(placement) => placement,
            None => {
                let fits = |page: &Ledger<'_>, worker| {
                    let search = Search { later: &later, withheld, fit, workload, ..Search::over(page) };
                    search.place_on(worker, needs).is_some()
                };
                if !preemption.preempt_until(&mut self.plan, item.key, fits) {
                    return None;
                }
                let search =
                    Search { later: &later, withheld, fit, workload, ..Search::over(&preemption.soon) };
                search.place(needs).expect("the victims make room")
            }
        };
        preemption.soon.charge(&placement);
        if reserved.is_some()
            && let Some(reservation) = &mut self.reservation
        {
            reservation.then.charge(&placement);
        }
        self.count_start(item);
        Some(StartOutcome::Reserved)
    }

    /// Resumes attempts that an earlier policy paused, under a policy that does not preempt: nothing else would.
    pub(super) fn resume_all(&mut self) {
        for task in self.view.unsettled() {
            let Some(on) = self.view.under_way(task, self.now) else { continue };
            let placement = &on.attempt.placement;
            match on.phase {
                Phase::Running(a) if a.pause == Some(RequestedBy::Policy) => {
                    self.plan.resume.push(attempt_id(&on))
                }
                Phase::Paused(a)
                    if a.pause == Some(RequestedBy::Policy) && self.ledger.admits_resumed(placement) =>
                {
                    self.ledger.resume(placement);
                    self.plan.resume.push(attempt_id(&on));
                }
                _ => {}
            }
        }
    }

    /// Resumes a paused attempt, preempting less urgent ones for its slot if necessary.
    pub(super) fn resume(&mut self, paused: PausedAttempt<'a>) {
        self.charge_starts();
        let Some(preemption) = self.preemption.as_mut() else { return };
        let PausedAttempt { key, attempt, placement, runs } = paused;
        if !preemption.soon.admits_resumed(placement) {
            // It resumes where its memory is: only preemption on its own worker helps.
            let fits =
                |page: &Ledger<'_>, worker| worker == placement.worker && page.admits_resumed(placement);
            if !preemption.preempt_until(&mut self.plan, key, fits) {
                return;
            }
        }
        preemption.soon.resume(placement);
        if runs {
            // Not paused yet, so it still has its slot: taking the request back is always possible.
            self.plan.resume.push(attempt);
        } else if self.ledger.admits_resumed(placement) {
            self.ledger.resume(placement);
            self.plan.resume.push(attempt);
        }
    }
}
