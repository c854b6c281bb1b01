//! Builder of a plan: what it starts, what that takes from the pool, and the reservations of tasks that cannot start yet.

use super::preemption::Preemption;
use super::{BackfillRule, Grant};
use crate::cluster::{Allowance, View};
use crate::fragment::TaskMix;
use crate::ids::{DeviceId, NodeId, TaskId};
use crate::lengths::Lengths;
use crate::limits::LimitExceeded;
use crate::place::{Fit, Search};
use crate::plan::{Plan, Start};
use crate::pool::{Ledger, Placement};
use crate::profile::{PlacementRequest, Profile};
use crate::queue::{QueueItem, SubQueue};
use crate::reserve::{Reservation, reserve};
use crate::small::SmallMap;
use crate::spec::Needs;
use crate::time::{Span, Time};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Outcome of trying to start a task.
pub(super) enum StartOutcome {
    Started(Grant),
    /// The task has a reservation; tasks behind it may get one too.
    Reserved,
    /// There is capacity now, but it is reserved from before the task would end.
    WouldDelay,
    NoRoom,
}

/// Builder of a plan.
pub(super) struct PlanBuilder<'a> {
    pub(super) view: View<'a>,
    pub(super) now: Time,
    pub(super) fit: Fit,
    /// Needs of the tasks there are, for the fit that minimises fragmentation; empty for the others.
    pub(super) task_mix: TaskMix,
    pub(super) backfill: BackfillRule,
    pub(super) plan: Plan,
    pub(super) ledger: Ledger<'a>,
    /// Number of starts charged on the ledger. The last one is charged lazily, when another task is tried: most plans
    /// start a single task.
    charged: usize,
    /// Preemption state, if the policy preempts.
    pub(super) preemption: Option<Preemption<'a>>,
    /// Expected ends of what this plan starts, for the reservation.
    ends: Vec<(Time, Placement)>,
    /// Quotas left to users, less what this plan starts.
    allowance: Allowance<'a>,
    /// Number of tasks this plan starts by node, for arrays with a limit on concurrency.
    started_of: BTreeMap<NodeId, u32>,
    /// Devices withheld from each class, as the order said.
    withheld: SmallMap<u8, Vec<DeviceId>>,
    /// Reservation of the first task that cannot start, under EASY backfill.
    pub(super) reservation: Option<Reservation<'a>>,
    /// Free capacity over time and the number of reservations in it, under conservative backfill.
    profile: Option<(Profile<'a>, u32)>,
    /// Task and start of the first reservation, for explanations.
    pub(super) first_reservation: Option<(TaskId, Time)>,
    /// Run times by device type, if tasks are placed by speed.
    lengths: Option<Lengths<'a>>,
    /// Earliest start of a reservation made by speed. Planned again then: if the device is not free after all, another one
    /// may be better by that time.
    pub(super) revisit_at: Option<Time>,
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn new(
        view: View<'a>,
        now: Time,
        fit: Fit,
        backfill: BackfillRule,
        task_mix: TaskMix,
        lengths: Option<Lengths<'a>>,
    ) -> PlanBuilder<'a> {
        PlanBuilder {
            view,
            now,
            fit,
            task_mix,
            backfill,
            plan: Plan::default(),
            ledger: Ledger::over(view.pool()),
            charged: 0,
            preemption: None,
            ends: Vec::new(),
            allowance: view.allowance(now),
            started_of: BTreeMap::new(),
            withheld: SmallMap::new(),
            reservation: None,
            profile: None,
            first_reservation: None,
            lengths,
            revisit_at: None,
        }
    }

    /// Whether a task's array may have one more task on a worker.
    pub(super) fn has_room(&self, item: &QueueItem) -> bool {
        item.room > self.started_of.get(&item.task.node_id()).copied().unwrap_or(0)
    }

    /// Counts a start against the concurrency limit of the task's array.
    pub(super) fn count_start(&mut self, item: &QueueItem) {
        if item.room < u32::MAX {
            *self.started_of.entry(item.task.node_id()).or_default() += 1;
        }
    }

    /// Devices withheld from a class; requested from the order once per plan.
    pub(super) fn withheld(&mut self, class: u8, ask: impl FnOnce(u8) -> Vec<DeviceId>) -> Vec<DeviceId> {
        if self.withheld.get(&class).is_none() {
            self.withheld.insert(class, ask(class));
        }
        self.withheld.get(&class).cloned().unwrap_or_default()
    }

    /// Whether a task is within its user's quota, counting what this plan starts.
    pub(super) fn allows(&self, sub_queue: &SubQueue, item: &QueueItem) -> Result<(), LimitExceeded> {
        match self.view.spec(item.task).filter(|_| sub_queue.limited.is_some()) {
            Some((job, spec)) => self.allowance.permits(job, spec),
            None => Ok(()),
        }
    }

    /// Starts a task if it fits; otherwise reserves for it, or preempts for it, as the policy allows.
    pub(super) fn start(&mut self, item: &QueueItem, needs: &Needs, withheld: &[DeviceId]) -> StartOutcome {
        self.charge_starts();
        if let BackfillRule::ReserveAll { depth } = self.backfill {
            return self.start_or_reserve(item, needs, withheld, depth);
        }
        let end = self.now + item.expected;
        // A task that ends before the reservation begins may use its devices; a longer one must also fit once the
        // reserved task has started.
        let reserved = self.reservation.as_ref().filter(|r| end > r.at).map(|r| &r.then);
        // With preemption, it must not take what victims are freeing for a more urgent task either.
        let soon = self.preemption.as_ref().map(|preemption| &preemption.soon);
        let (both, one);
        let later: &[&Ledger<'_>] = match (reserved, soon) {
            (Some(reserved), Some(soon)) => {
                both = [reserved, soon];
                &both
            }
            _ => {
                one = reserved.or(soon);
                one.as_slice()
            }
        };
        let search =
            Search { later, withheld, fit: self.fit, workload: &self.task_mix, ..Search::over(&self.ledger) };
        let Some(placement) = search.place(needs) else {
            let without: &[&Ledger<'_>] = soon.as_slice();
            // Told apart from a lack of capacity, because a shorter task of the same needs could start.
            let would_delay =
                reserved.is_some() && Search { later: without, ..search }.place(needs).is_some();
            if would_delay {
                return StartOutcome::WouldDelay;
            }
            if let Some(outcome) = self.preempt_for(item, needs, withheld) {
                return outcome;
            }
            // EASY: only the first task that cannot start gets a reservation.
            if self.backfill == BackfillRule::Reserve && self.reservation.is_none() {
                self.reserve(item, needs, withheld);
            }
            return StartOutcome::NoRoom;
        };
        if let Some(reservation) = &mut self.reservation
            && end > reservation.at
        {
            reservation.then.charge(&placement);
        }
        self.push_start(item, placement)
    }

    /// Starts a task, or reserves the earliest place for it (conservative backfill).
    fn start_or_reserve(
        &mut self,
        item: &QueueItem,
        needs: &Needs,
        withheld: &[DeviceId],
        depth: u32,
    ) -> StartOutcome {
        let (profile, reservations) = self.profile.get_or_insert_with(|| {
            let (view, now, free) = (self.view, self.now, self.ledger.clone());
            let profile = match &self.lengths {
                Some(lengths) => Profile::new(free, now, lengths.ends(now)),
                None => Profile::new(free, now, view.ends().map(|(at, _, placement)| (at, placement))),
            };
            (profile, 0)
        });
        let (fit, workload) = (self.fit, &self.task_mix);
        let request = PlacementRequest { needs, length: item.expected, withheld, fit, workload };
        let each = self.lengths.as_ref().map_or_else(Vec::new, |lengths| lengths.on_each(item.task));
        let by_speed = !each.is_empty();
        // Beyond the depth, a task may still backfill at once, but gets no reservation.
        let look = |request: PlacementRequest<'_>| match *reservations < depth {
            true => profile.earliest(request),
            false => profile.at_once(request).map(|placement| (self.now, placement)),
        };
        let found = match by_speed {
            false => look(request).map(|(from, placement)| (from, request.length, placement)),
            true => earliest_finish(request, &each, look),
        };
        let Some((from, length, placement)) = found else {
            // With equal needs, the next task may be fast on other types; without speeds it would find no place either.
            return if *reservations < depth && !by_speed {
                StartOutcome::NoRoom
            } else {
                StartOutcome::WouldDelay
            };
        };
        // A task that starts now is taken from the profile as well, so that no later reservation counts on its devices.
        profile.take(from, length, &placement);
        if from <= self.now {
            return self.push_start(item, placement);
        }
        *reservations += 1;
        self.first_reservation.get_or_insert((item.task, from));
        if by_speed {
            self.revisit_at = self.revisit_at.into_iter().chain([from]).min();
        }
        StartOutcome::Reserved
    }

    /// Whether a task's speed is known on any device type.
    pub(super) fn knows_speeds_of(&self, task: TaskId) -> bool {
        self.lengths.as_ref().is_some_and(|lengths| !lengths.on_each(task).is_empty())
    }

    /// Charges what was started since the last call on the ledgers.
    pub(super) fn charge_starts(&mut self) {
        for Start { placement, .. } in &self.plan.start[self.charged..] {
            self.ledger.charge(placement);
            if let Some(preemption) = &mut self.preemption {
                preemption.soon.charge(placement);
            }
        }
        self.charged = self.plan.start.len();
    }

    /// Adds a start to the plan.
    fn push_start(&mut self, item: &QueueItem, placement: Placement) -> StartOutcome {
        let grant = Grant::of(self.view.pool(), &placement);
        if self.backfill == BackfillRule::Reserve {
            self.ends.push((self.now + item.expected, placement.clone()));
        }
        self.count_start(item);
        self.allowance.give_task(self.view, item.task);
        self.plan.start.push(Start { task: item.task, placement });
        StartOutcome::Started(grant)
    }

    /// Reserves the earliest place for a task that cannot start (EASY backfill).
    fn reserve(&mut self, item: &QueueItem, needs: &Needs, withheld: &[DeviceId]) {
        let (fit, workload) = (self.fit, &self.task_mix);
        let search = Search { withheld, fit, workload, ..Search::over(&self.ledger) };
        self.reservation = reserve(self.view, self.now, &self.ledger, &self.ends, search, needs);
        self.first_reservation = self.reservation.as_ref().map(|r| (item.task, r.at));
    }
}

/// Earliest-finish placement: of the earliest places on each device type, and on a mixture of types for a task of several
/// devices, the one where the task ends first; on equal ends, the one where it starts first.
fn earliest_finish(
    request: PlacementRequest<'_>,
    each: &[(&str, Span)],
    look: impl Fn(PlacementRequest<'_>) -> Option<(Time, Placement)>,
) -> Option<(Time, Span, Placement)> {
    let types = &request.needs.gpu_types;
    let accepted = |kind: &str| types.is_empty() || types.iter().any(|t| t.eq_ignore_ascii_case(kind));
    let candidates: SmallVec<[(&str, Span); 4]> =
        each.iter().filter(|(kind, _)| accepted(kind)).copied().collect();
    let on = |kinds: &[(&str, Span)]| {
        // A task on several types is as fast as the slowest of them.
        let length = kinds.iter().map(|(_, length)| *length).max()?;
        let gpu_types = kinds.iter().map(|(kind, _)| (*kind).to_owned()).collect();
        let needs = Needs { gpu_types, ..request.needs.clone() };
        look(PlacementRequest { needs: &needs, length, ..request })
            .map(|(from, placement)| (from, length, placement))
    };
    let mixture = if request.needs.gpus > 1 && candidates.len() > 1 { on(&candidates) } else { None };
    let found = candidates.chunks(1).filter_map(on).chain(mixture);
    found.min_by_key(|(from, length, _)| (*from + *length, *from))
}
