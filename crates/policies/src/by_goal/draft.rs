//! Plan under construction: the round's assignment, and the part of it that can be carried out now. A task that waits
//! for devices being freed has them reserved; unassigned capacity is backfilled.

use super::round_assignment::{RoundAssignment, as_given, kept_whole, on_type, whole};
use super::round_input::{FreezeState, MemberState, RoundInput};
use std::collections::BTreeSet;
use warpyard_allocate::rounds::{Candidate, RoundScheduler};
use warpyard_core::place::Search;
use warpyard_core::plan::Start;
use warpyard_core::pool::{Ledger, Placement};
use warpyard_core::spec::Needs;
use warpyard_core::{AttemptId, DeviceId, Plan, Span, TaskId};

/// Plan under construction.
pub(super) struct PlanDraft<'a> {
    pub(super) input: RoundInput<'a>,
    /// Members that are not fixed, in the order they are considered.
    order: Vec<usize>,
    /// The place each member was given.
    pub(super) given: Vec<Option<Placement>>,
    /// Whom each was given it beside.
    beside: Vec<Option<usize>>,
    start: Vec<Start>,
    resume: Vec<AttemptId>,
}

/// Capacity that is not assigned.
struct LeftoverCapacity<'a> {
    /// What is free now.
    now: Ledger<'a>,
    /// What is not promised to anybody in the round.
    promised: Ledger<'a>,
    /// Devices whose time is not free.
    taken: BTreeSet<DeviceId>,
    /// What tasks are like for which there is no room in that.
    nowhere: BTreeSet<FitClass<'a>>,
}

/// Class of tasks that fit alike: whether time-sliced, needs, and profile (which decides the types it runs on).
type FitClass<'a> = (bool, &'a Needs, Option<&'a str>);

impl<'a> PlanDraft<'a> {
    /// Makes one; speeds count for what they cost, by type.
    pub(super) fn make(input: RoundInput<'a>, rounds: &RoundScheduler, costs: &[f64]) -> PlanDraft<'a> {
        let free: Vec<usize> = (0..input.members.len())
            .filter(|&i| !matches!(input.members[i].state, MemberState::Fixed))
            .collect();
        let mut candidates: Vec<Candidate> =
            free.iter().map(|&i| input.members[i].candidate.clone()).collect();
        let order: Vec<usize> = rounds.order(&candidates).into_iter().map(|c| free[c]).collect();
        candidates.extend(input.pairs.iter().map(|pair| pair.candidate.clone()));
        for candidate in &mut candidates {
            candidate.speeds.iter_mut().zip(costs).for_each(|(speed, cost)| *speed /= cost);
        }
        let place = |i: usize| free.binary_search(&i).ok();
        let places = |[a, b]: [usize; 2]| Some([place(a)?, place(b)?]);
        let pairs: Vec<Option<[usize; 2]>> = input.pairs.iter().map(|pair| places(pair.members)).collect();
        let mut sheet = RoundAssignment::new(&input, &free, &order);
        rounds.choose_with_pairs(&candidates, &pairs, &mut sheet);
        let RoundAssignment { ledger: promised, given, beside, in_turn, held_back, go_on, at_once, .. } =
            sheet;
        let (start, resume) = (Vec::new(), Vec::new());
        // Who was given what is free now counts on it: one that only might begin, as it turned out, comes after.
        let waits = |&i: &usize| matches!(input.members[i].state, MemberState::Waiting);
        let mut waiting: Vec<usize> = order.iter().copied().filter(waits).collect();
        waiting.sort_by_key(|&i| at_once[i].is_none());
        let mut draft = PlanDraft { order, given, beside, start, resume, input };
        let now = draft.resume_now(&go_on);
        // Neither the time of those that run still is free, nor what was given to others.
        let taken = in_turn.union(&draft.input.running).copied().collect();
        let left = LeftoverCapacity { now, promised, taken, nowhere: BTreeSet::new() };
        draft.start_now(&waiting, left, &held_back);
        draft
    }

    /// Starts what was given a place that is free now, and then whoever fits into what nobody was given.
    fn start_now(&mut self, waiting: &[usize], mut left: LeftoverCapacity<'a>, held_back: &BTreeSet<usize>) {
        for &i in waiting {
            let room = |placement: &Placement| {
                if self.input.members[i].in_turn_on(placement) {
                    return self.is_still(placement) && left.now.admits(placement);
                }
                // Nobody but whom it is to be beside may be there, not even one that is about to leave.
                let joins = self.beside[i].is_some_and(|other| self.is_there(other, placement));
                if joins { left.now.admits(placement) } else { left.now.admits(&whole(placement)) }
            };
            if let Some(placement) = self.given[i].clone().filter(room) {
                left.now.charge(&placement);
                self.start.push(Start { task: self.input.members[i].task, placement });
            }
        }
        let left_over = waiting.iter().copied().filter(|&i| self.given[i].is_none());
        let (back, left_out): (Vec<usize>, Vec<usize>) = left_over.partition(|i| held_back.contains(i));
        for i in left_out {
            let task = self.input.members[i].task;
            self.start_where_room_is_left(task, &mut left, |draft, _| draft.useless_to(i));
        }
        for task in self.input.plain.clone() {
            self.start_where_room_is_left(task, &mut left, |_, _| Vec::new());
        }
        // Who was held back need not be where all who need devices whole have theirs, or no room beside others is left.
        left.nowhere.clear();
        for i in back {
            let task = self.input.members[i].task;
            let started = self.start_where_room_is_left(task, &mut left, |draft, left| {
                let mut withheld = draft.useless_to(i);
                withheld.extend(draft.kept_whole(i, &left.promised));
                withheld
            });
            if started {
                left.nowhere.clear();
            }
        }
    }

    /// Devices that a member who takes turns leaves to those that still wait for them whole, as it may wait beside others.
    fn kept_whole(&self, i: usize, room: &Ledger<'a>) -> Vec<DeviceId> {
        let (member, mut kept) = (&self.input.members[i], Vec::new());
        for (j, kind) in
            self.input.kinds.iter().enumerate().filter(|&(j, _)| member.candidate.speeds[j] > 0.0)
        {
            let waits = |i: &usize| self.given[*i].is_none() && !self.starts(self.input.members[*i].task);
            let wanted = self.input.could_have_whole(self.order.iter().copied().filter(waits), j);
            let needs = on_type(&member.spec.needs, kind);
            kept.extend(kept_whole(&self.input, room, self.take_turns(), &needs, wanted));
        }
        kept
    }

    /// The places of those that are to take turns there, as given by the round or out of what was left.
    fn take_turns(&self) -> impl Iterator<Item = &Placement> {
        let members = self.input.members.iter().zip(&self.given);
        members.filter(|(member, _)| member.takes_turns).filter_map(|(member, given)| {
            let started = || self.start.iter().find(|start| start.task == member.task);
            given.as_ref().or_else(|| started().map(|start| &start.placement))
        })
    }

    /// Starts one that fits into what nobody was given, less what is withheld from it; says whether it does.
    fn start_where_room_is_left(
        &mut self,
        task: TaskId,
        left: &mut LeftoverCapacity<'a>,
        withheld: impl FnOnce(&Self, &LeftoverCapacity<'a>) -> Vec<DeviceId>,
    ) -> bool {
        let Some((_, spec)) = self.input.view.spec(task) else { return false };
        let member = self.input.member(task).map(|i| &self.input.members[i]);
        let takes_turns = member.is_some_and(|member| member.takes_turns);
        let like = (takes_turns, &spec.needs, spec.profile.as_deref());
        if left.nowhere.contains(&like) {
            return false;
        }
        let mut withheld = withheld(self, left);
        if takes_turns {
            withheld.extend(&left.taken);
        }
        withheld.sort_unstable();
        let search = Search { later: &[&left.promised], withheld: &withheld, ..Search::over(&left.now) };
        let Some(placement) = search.place(&spec.needs) else {
            left.nowhere.insert(like);
            return false;
        };
        left.promised.charge(&placement);
        if member.is_some_and(|member| self.input.would_take_turns(member, &placement)) {
            left.taken.extend(placement.device_ids());
        }
        let placement = match member {
            Some(member) => as_given(member, placement),
            None => placement,
        };
        left.now.charge(&placement);
        self.start.push(Start { task, placement });
        true
    }

    /// Lets those go on that stand still, or were asked to, and have their turn; gives what is free then.
    fn resume_now(&mut self, go_on: &[AttemptId]) -> Ledger<'a> {
        let mut now = Ledger::over(self.input.view.pool());
        let adrift = self.input.adrift.iter().filter(|(attempt, ..)| go_on.contains(attempt)).copied();
        let given = |&i: &usize| match self.input.members[i].state {
            MemberState::TimeSliced(attempt, placement, FreezeState::FreezeRequested) => {
                Some((attempt, placement, false))
            }
            MemberState::TimeSliced(attempt, placement, FreezeState::Frozen) => {
                self.is_still(placement).then_some((attempt, placement, true))
            }
            _ => None,
        };
        let in_turn = self.order.iter().filter(|&&i| self.given[i].is_some()).filter_map(given);
        for (attempt, placement, still) in adrift.chain(in_turn).collect::<Vec<_>>() {
            if !still {
                self.resume.push(attempt);
            } else if now.admits_resumed(placement) {
                now.resume(placement);
                self.resume.push(attempt);
            }
        }
        now
    }

    /// Whether nobody who takes turns runs on the devices of a place, not even one that is about to stand still.
    fn is_still(&self, placement: &Placement) -> bool {
        placement.device_ids().all(|id| !self.input.running.contains(&id))
    }

    /// Whether a member is on the devices of a placement, or starts there.
    fn is_there(&self, i: usize, placement: &Placement) -> bool {
        let task = self.input.members[i].task;
        let same = |other: &Placement| other.worker == placement.worker && other.devices == placement.devices;
        let runs = self.input.view.attempt(task).is_some_and(|(attempt, _)| same(&attempt.placement));
        runs || self.start.iter().any(|start| start.task == task && same(&start.placement))
    }

    /// Devices of types a member is known not to run on.
    fn useless_to(&self, i: usize) -> Vec<DeviceId> {
        let barred = &self.input.members[i].barred;
        if barred.is_empty() {
            return Vec::new();
        }
        self.devices_of_types(|j| barred.contains(&j)).collect()
    }

    /// Devices of some types.
    fn devices_of_types(&self, wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = DeviceId> {
        self.input.devices().filter_map(move |(id, info)| {
            let kind = self.input.kinds.iter().position(|kind| kind.eq_ignore_ascii_case(&info.kind));
            kind.filter(|&j| wanted(j)).map(|_| id)
        })
    }

    /// Whether it starts a task.
    pub(super) fn starts(&self, task: TaskId) -> bool {
        self.start.iter().any(|start| start.task == task)
    }

    /// Whether a member was given a place that it cannot have yet.
    fn keeps_a_place(&self, i: usize) -> bool {
        let member = &self.input.members[i];
        self.given[i].is_some()
            && match member.state {
                MemberState::Waiting => !self.starts(member.task),
                MemberState::Leaving(..) => true,
                _ => false,
            }
    }

    /// Every ready task, in the order they are considered: whoever the round gives a place, then those it leaves out.
    pub(super) fn line(&self) -> Vec<TaskId> {
        let waits = |i: &&usize| matches!(self.input.members[**i].state, MemberState::Waiting);
        let (given, left_out): (Vec<usize>, Vec<usize>) =
            self.order.iter().filter(waits).partition(|&&i| self.given[i].is_some());
        let members = given.into_iter().chain(left_out).map(|i| self.input.members[i].task);
        members.chain(self.input.plain.iter().copied()).chain(self.input.later.iter().copied()).collect()
    }

    pub(super) fn plan(self, rounds: &RoundScheduler) -> Plan {
        let gives_way = |(i, placement): (usize, &Option<Placement>)| match self.input.members[i].state {
            MemberState::Movable(attempt, own) if placement.as_ref() != Some(own) => Some(attempt),
            _ => None,
        };
        let requeue = self.given.iter().enumerate().filter_map(gives_way).collect();
        let stands_still = |(i, placement): (usize, &Option<Placement>)| match self.input.members[i].state {
            MemberState::TimeSliced(attempt, _, FreezeState::Running) if placement.is_none() => Some(attempt),
            _ => None,
        };
        let pause = self.given.iter().enumerate().filter_map(stands_still).collect();
        let shares_time = !self.input.members.is_empty();
        let begins =
            (shares_time && self.input.boundary).then(|| self.input.now + Span::from_secs(rounds.round_s));
        let until = begins.or(self.input.view.shares().round_until());
        // A place that is kept may be elsewhere once this is carried out, and leave room where it was.
        let again = !self.start.is_empty() && (0..self.given.len()).any(|i| self.keeps_a_place(i));
        Plan {
            start: self.start.into(),
            pause,
            resume: self.resume,
            requeue,
            round: begins,
            wake_at: until.filter(|_| shares_time),
            again,
            ..Plan::default()
        }
    }
}
