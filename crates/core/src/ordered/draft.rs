//! A plan in the making: what it starts, what it has taken of the pool for that, and what it keeps for those that wait.

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

/// What came of trying to start a task.
pub(super) enum StartOutcome {
    Started(Grant),
    /// A place is kept for it, and others after it may have one too.
    Kept,
    /// There is room, but it is kept for another by the time this one would end.
    WouldDelay,
    NoRoom,
}

pub(super) struct PlanBuilder<'a> {
    pub(super) view: View<'a>,
    pub(super) now: Time,
    pub(super) fit: Fit,
    /// The tasks there are, where what is left should be of use to them.
    pub(super) workload: TaskMix,
    pub(super) behind: BackfillRule,
    pub(super) plan: Plan,
    pub(super) ledger: Ledger<'a>,
    /// How many of those it starts are noted on the ledger: the last is when something else is tried.
    noted: usize,
    /// Who gives way to whom, where anyone does.
    pub(super) preemption: Option<Preemption<'a>>,
    /// When what this plan starts is expected to end.
    ends: Vec<(Time, Placement)>,
    /// What users may have beside what this plan gives them.
    allowance: Allowance<'a>,
    /// How many of each node this plan starts, of nodes that may not all be on workers at once.
    begun: BTreeMap<NodeId, u32>,
    withheld: SmallMap<u8, Vec<DeviceId>>,
    /// What is kept for the first that cannot start, where one place is kept.
    pub(super) kept: Option<Reservation<'a>>,
    /// What is free and kept from now on, once many places are to be; and how many are.
    profile: Option<(Profile<'a>, u32)>,
    /// For whom the first place is kept, and from when.
    pub(super) kept_first: Option<(TaskId, Time)>,
    /// How long tasks run on each type, where that decides where they go.
    lengths: Option<Lengths<'a>>,
    /// When a place that is waited for on the word of speeds should be free.
    pub(super) thinks_again_at: Option<Time>,
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn new(
        view: View<'a>,
        now: Time,
        fit: Fit,
        behind: BackfillRule,
        workload: TaskMix,
        lengths: Option<Lengths<'a>>,
    ) -> PlanBuilder<'a> {
        PlanBuilder {
            view,
            now,
            fit,
            workload,
            behind,
            plan: Plan::default(),
            ledger: Ledger::over(view.pool()),
            noted: 0,
            preemption: None,
            ends: Vec::new(),
            allowance: view.allowance(now),
            begun: BTreeMap::new(),
            withheld: SmallMap::new(),
            kept: None,
            profile: None,
            kept_first: None,
            lengths,
            thinks_again_at: None,
        }
    }

    pub(super) fn has_room(&self, item: &QueueItem) -> bool {
        item.room > self.begun.get(&item.task.node_id()).copied().unwrap_or(0)
    }

    /// Counts one more of its node, where not all of them may be on workers at once.
    pub(super) fn count(&mut self, item: &QueueItem) {
        if item.room < u32::MAX {
            *self.begun.entry(item.task.node_id()).or_default() += 1;
        }
    }

    pub(super) fn withheld(&mut self, class: u8, ask: impl FnOnce(u8) -> Vec<DeviceId>) -> Vec<DeviceId> {
        if self.withheld.get(&class).is_none() {
            self.withheld.insert(class, ask(class));
        }
        self.withheld.get(&class).cloned().unwrap_or_default()
    }

    /// Whether a task's user may have it too, beside what this plan gives them already.
    pub(super) fn allows(&self, line: &SubQueue, item: &QueueItem) -> Result<(), LimitExceeded> {
        match self.view.spec(item.task).filter(|_| line.limited.is_some()) {
            Some((job, spec)) => self.allowance.lets(job, spec),
            None => Ok(()),
        }
    }

    /// Starts a task if it may, and keeps a place for it if it cannot and is to have one.
    pub(super) fn start(&mut self, item: &QueueItem, needs: &Needs, withheld: &[DeviceId]) -> StartOutcome {
        self.note_what_started();
        if let BackfillRule::ReserveAll { depth } = self.behind {
            return self.start_or_keep(item, needs, withheld, depth);
        }
        let end = self.now + item.expected;
        let kept = self.kept.as_ref().filter(|kept| end > kept.at).map(|kept| &kept.then);
        let soon = self.preemption.as_ref().map(|preemption| &preemption.soon);
        let (both, one);
        let later: &[&Ledger<'_>] = match (kept, soon) {
            (Some(kept), Some(soon)) => {
                both = [kept, soon];
                &both
            }
            _ => {
                one = kept.or(soon);
                one.as_slice()
            }
        };
        let search =
            Search { later, withheld, fit: self.fit, workload: &self.workload, ..Search::over(&self.ledger) };
        let Some(placement) = search.place(needs) else {
            let without: &[&Ledger<'_>] = soon.as_slice();
            let would_delay = kept.is_some() && Search { later: without, ..search }.place(needs).is_some();
            if would_delay {
                return StartOutcome::WouldDelay;
            }
            if let Some(promised) = self.promise(item, needs, withheld) {
                return promised;
            }
            if self.behind == BackfillRule::Reserve && self.kept.is_none() {
                self.reserve(item, needs, withheld);
            }
            return StartOutcome::NoRoom;
        };
        if let Some(kept) = &mut self.kept
            && end > kept.at
        {
            kept.then.charge(&placement);
        }
        self.begin(item, placement)
    }

    fn start_or_keep(
        &mut self,
        item: &QueueItem,
        needs: &Needs,
        withheld: &[DeviceId],
        depth: u32,
    ) -> StartOutcome {
        let (profile, keeps) = self.profile.get_or_insert_with(|| {
            let (view, now, free) = (self.view, self.now, self.ledger.clone());
            let profile = match &self.lengths {
                Some(lengths) => Profile::new(free, now, lengths.ends(now)),
                None => Profile::new(free, now, view.ends().map(|(at, _, placement)| (at, placement))),
            };
            (profile, 0)
        });
        let (fit, workload) = (self.fit, &self.workload);
        let wish = PlacementRequest { needs, length: item.expected, withheld, fit, workload };
        let each = self.lengths.as_ref().map_or_else(Vec::new, |lengths| lengths.on_each(item.task));
        let by_speed = !each.is_empty();
        let look = |wish: PlacementRequest<'_>| match *keeps < depth {
            true => profile.earliest(wish),
            false => profile.at_once(wish).map(|placement| (self.now, placement)),
        };
        let found = match by_speed {
            false => look(wish).map(|(from, placement)| (from, wish.length, placement)),
            true => ends_first(wish, &each, look),
        };
        let Some((from, length, placement)) = found else {
            // One of the same needs behind it may be at home on other types.
            return if *keeps < depth && !by_speed { StartOutcome::NoRoom } else { StartOutcome::WouldDelay };
        };
        profile.take(from, length, &placement);
        if from <= self.now {
            return self.begin(item, placement);
        }
        *keeps += 1;
        self.kept_first.get_or_insert((item.task, from));
        if by_speed {
            self.thinks_again_at = self.thinks_again_at.into_iter().chain([from]).min();
        }
        StartOutcome::Kept
    }

    /// Whether it is known how fast a task is on the types there are.
    pub(super) fn knows_speeds_of(&self, task: TaskId) -> bool {
        self.lengths.as_ref().is_some_and(|lengths| !lengths.on_each(task).is_empty())
    }

    pub(super) fn note_what_started(&mut self) {
        for Start { placement, .. } in &self.plan.start[self.noted..] {
            self.ledger.charge(placement);
            if let Some(preemption) = &mut self.preemption {
                preemption.soon.charge(placement);
            }
        }
        self.noted = self.plan.start.len();
    }

    fn begin(&mut self, item: &QueueItem, placement: Placement) -> StartOutcome {
        let given = Grant::by(self.view.pool(), &placement);
        if self.behind == BackfillRule::Reserve {
            self.ends.push((self.now + item.expected, placement.clone()));
        }
        self.count(item);
        self.allowance.give_task(self.view, item.task);
        self.plan.start.push(Start { task: item.task, placement });
        StartOutcome::Started(given)
    }

    fn reserve(&mut self, item: &QueueItem, needs: &Needs, withheld: &[DeviceId]) {
        let (fit, workload) = (self.fit, &self.workload);
        let search = Search { withheld, fit, workload, ..Search::over(&self.ledger) };
        self.kept = reserve(self.view, self.now, &self.ledger, &self.ends, search, needs);
        self.kept_first = self.kept.as_ref().map(|kept| (item.task, kept.at));
    }
}

/// Of the earliest places on each type, and on a mixture of them for a task of several devices, the one where the task
/// ends first; among equals the one where it starts first.
fn ends_first(
    wish: PlacementRequest<'_>,
    each: &[(&str, Span)],
    look: impl Fn(PlacementRequest<'_>) -> Option<(Time, Placement)>,
) -> Option<(Time, Span, Placement)> {
    let types = &wish.needs.gpu_types;
    let wanted = |kind: &str| types.is_empty() || types.iter().any(|t| t.eq_ignore_ascii_case(kind));
    let able: SmallVec<[(&str, Span); 4]> = each.iter().filter(|(kind, _)| wanted(kind)).copied().collect();
    let on = |kinds: &[(&str, Span)]| {
        // A mixture is as fast as the slowest of it.
        let length = kinds.iter().map(|(_, length)| *length).max()?;
        let gpu_types = kinds.iter().map(|(kind, _)| (*kind).to_owned()).collect();
        let needs = Needs { gpu_types, ..wish.needs.clone() };
        look(PlacementRequest { needs: &needs, length, ..wish })
            .map(|(from, placement)| (from, length, placement))
    };
    let mixture = if wish.needs.gpus > 1 && able.len() > 1 { on(&able) } else { None };
    let found = able.chunks(1).filter_map(on).chain(mixture);
    found.min_by_key(|(from, length, _)| (*from + *length, *from))
}
