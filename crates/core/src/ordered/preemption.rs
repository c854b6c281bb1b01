//! The part of a plan in which the less urgent give way, and those that stand still go on.
//!
//! Standing still and ending take a while. Until it has happened, what was asked for counts as if it had on a sheet of its
//! own, and what it was asked for is taken there, so that nobody is asked twice and nobody else is given the place.

use super::draft::{PlanBuilder, StartOutcome};
use super::{Order, Ordered};
use crate::cluster::{Phase, PlacedTask, View};
use crate::event::RequestedBy;
use crate::ids::{AttemptId, DeviceId};
use crate::place::Search;
use crate::pool::{Ledger, Placement};
use crate::preempt::{PreemptionCandidate, PreemptionMethod, make_room};
use crate::queue::{Key, QueueItem};
use crate::spec::{Boundary, Needs, Preempt};
use crate::time::{Span, Time};

/// What a plan knows of those that run.
pub(super) struct Preemption<'a> {
    /// What is free once all that was asked for has happened, less what is promised to the more urgent.
    pub(super) soon: Ledger<'a>,
    /// Those that may give way, the least urgent first.
    running: Vec<PreemptionCandidate<'a>>,
    /// When the first of them becomes less urgent by having run.
    sinks: Option<Span>,
    at: Boundary,
}

/// An attempt that stands still by a policy's wish, or was asked to.
#[derive(Clone, Copy)]
pub(super) struct PausedAttempt<'a> {
    pub(super) key: Key,
    attempt: AttemptId,
    placement: &'a Placement,
    /// Whether it still runs.
    runs: bool,
}

impl<'a> Preemption<'a> {
    /// What was asked for, taken as done; with those that might go on, the most urgent first.
    pub(super) fn new<O: Order>(
        policy: &Ordered<O>,
        at: Boundary,
        view: View<'a>,
        now: Time,
    ) -> (Preemption<'a>, Vec<PausedAttempt<'a>>) {
        let mut soon = Ledger::over(view.pool());
        let mut still = Vec::new();
        for task in view.unsettled() {
            let on = view.under_way(task, now).expect("what is unsettled is on a worker");
            let placement = &on.attempt.placement;
            match on.phase {
                Phase::Stopping { paused, .. } => soon.release_ending(placement, *paused),
                Phase::Running(a) | Phase::Paused(a) if a.pause == Some(RequestedBy::Policy) => {
                    let runs = matches!(on.phase, Phase::Running(_));
                    if runs {
                        soon.pause(placement);
                    }
                    let (key, attempt) = (policy.order.key(&on.as_ready), number(&on));
                    still.push(PausedAttempt { key, attempt, placement, runs });
                }
                _ => {}
            }
        }
        still.sort_by_key(|s| (s.key, s.attempt));
        let mut running = Vec::new();
        let mut sinks: Option<Span> = None;
        for task in view.preemptible() {
            let on = view.under_way(task, now).expect("who may give way is on a worker");
            let placement = &on.attempt.placement;
            let way = match on.as_ready.spec.preempt {
                Preempt::Freeze => PreemptionMethod::Freeze,
                Preempt::Requeue | Preempt::Yield => PreemptionMethod::Requeue,
                Preempt::None => continue,
            };
            if matches!(on.phase, Phase::Running(a) if a.pause.is_none()) {
                sinks = sinks.into_iter().chain(policy.order.sinks_after(&on.as_ready)).min();
                let key = policy.order.kept_running(&on.as_ready);
                running.push(PreemptionCandidate { attempt: number(&on), key, placement, way });
            }
        }
        running.sort_by_key(|r| (std::cmp::Reverse(r.key), r.attempt));
        (Preemption { soon, running, sinks, at }, still)
    }

    /// When the order changes because something ran for so long.
    pub(super) fn sinks_at(&self, now: Time) -> Option<Time> {
        self.sinks.map(|after| now + after.max(Span(1)))
    }

    /// Has the least urgent give way so that `fits` holds; says whether that was possible.
    fn make_room(
        &mut self,
        plan: &mut crate::Plan,
        key: Key,
        fits: impl Fn(&Ledger<'_>, crate::WorkerId) -> bool,
    ) -> bool {
        let less_urgent = self.running.partition_point(|r| r.key > key);
        let Some(mut gone) = make_room(&self.soon, &self.running[..less_urgent], fits) else { return false };
        gone.sort_unstable();
        for at in gone.into_iter().rev() {
            let victim = self.running.remove(at);
            victim.gives_way(&mut self.soon);
            match victim.way {
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

fn number(on: &PlacedTask<'_>) -> AttemptId {
    on.as_ready.task.attempt(on.as_ready.attempts)
}

impl<'a> PlanBuilder<'a> {
    /// Promises a task for which there is no room yet what was asked of others for it, asking for more where that helps.
    pub(super) fn promise(
        &mut self,
        item: &QueueItem,
        needs: &Needs,
        withheld: &[DeviceId],
    ) -> Option<StartOutcome> {
        let preemption = self.preemption.as_mut()?;
        let end = self.now + item.expected;
        let kept = self.kept.as_ref().filter(|kept| end > kept.at).map(|kept| &kept.then);
        let later: Vec<&Ledger<'_>> = kept.into_iter().collect();
        let (fit, workload) = (self.fit, &self.workload);
        let search = Search { later: &later, withheld, fit, workload, ..Search::over(&preemption.soon) };
        let placement = match search.place(needs) {
            Some(placement) => placement,
            None => {
                let fits = |page: &Ledger<'_>, worker| {
                    let search = Search { later: &later, withheld, fit, workload, ..Search::over(page) };
                    search.place_on(worker, needs).is_some()
                };
                if !preemption.make_room(&mut self.plan, item.key, fits) {
                    return None;
                }
                let search =
                    Search { later: &later, withheld, fit, workload, ..Search::over(&preemption.soon) };
                search.place(needs).expect("room was made")
            }
        };
        preemption.soon.charge(&placement);
        if kept.is_some()
            && let Some(kept) = &mut self.kept
        {
            kept.then.charge(&placement);
        }
        self.count(item);
        Some(StartOutcome::Kept)
    }

    /// Where nobody gives way, lets those go on that another policy made stand still: nobody else would.
    pub(super) fn let_go_on(&mut self) {
        for task in self.view.unsettled() {
            let Some(on) = self.view.under_way(task, self.now) else { continue };
            let placement = &on.attempt.placement;
            match on.phase {
                Phase::Running(a) if a.pause == Some(RequestedBy::Policy) => {
                    self.plan.resume.push(number(&on))
                }
                Phase::Paused(a)
                    if a.pause == Some(RequestedBy::Policy) && self.ledger.admits_resumed(placement) =>
                {
                    self.ledger.resume(placement);
                    self.plan.resume.push(number(&on));
                }
                _ => {}
            }
        }
    }

    /// Lets one that stands still go on, or has the less urgent give way to it.
    pub(super) fn go_on(&mut self, still: PausedAttempt<'a>) {
        self.note_what_started();
        let Some(preemption) = self.preemption.as_mut() else { return };
        let PausedAttempt { key, attempt, placement, runs } = still;
        if !preemption.soon.admits_resumed(placement) {
            let fits =
                |page: &Ledger<'_>, worker| worker == placement.worker && page.admits_resumed(placement);
            if !preemption.make_room(&mut self.plan, key, fits) {
                return;
            }
        }
        preemption.soon.resume(placement);
        if runs {
            self.plan.resume.push(attempt);
        } else if self.ledger.admits_resumed(placement) {
            self.ledger.resume(placement);
            self.plan.resume.push(attempt);
        }
    }
}
