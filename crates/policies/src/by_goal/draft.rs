//! A plan in the making: the choice of the round, and what of it can be done now. Who waits for devices that are being
//! freed has them kept; what nobody was given goes to whoever else is there.

use super::scene::{Scene, Stance, Standing};
use super::sheet::{Sheet, as_given, kept_whole, on_type, whole};
use std::collections::BTreeSet;
use warpyard_allocate::rounds::{Candidate, Rounds};
use warpyard_core::place::Search;
use warpyard_core::plan::Start;
use warpyard_core::pool::{Ledger, Placement};
use warpyard_core::spec::Needs;
use warpyard_core::{AttemptId, DeviceId, Plan, Span, TaskId};

/// A plan in the making.
pub(super) struct Draft<'a> {
    pub(super) scene: Scene<'a>,
    /// Members that are not fixed, in the order they are considered.
    order: Vec<usize>,
    /// The place each member was given.
    pub(super) given: Vec<Option<Placement>>,
    /// Whom each was given it beside.
    beside: Vec<Option<usize>>,
    start: Vec<Start>,
    resume: Vec<AttemptId>,
}

/// What nobody was given yet.
struct Left<'a> {
    /// What is free now.
    now: Ledger<'a>,
    /// What is not promised to anybody in the round.
    promised: Ledger<'a>,
    /// Devices whose time is not free.
    taken: BTreeSet<DeviceId>,
    /// What tasks are like for which there is no room in that.
    nowhere: BTreeSet<Like<'a>>,
}

/// What decides where a task fits: whether it takes turns, what it needs, and by its profile which types it runs on.
type Like<'a> = (bool, &'a Needs, Option<&'a str>);

impl<'a> Draft<'a> {
    /// Makes one; speeds count for what they cost, by type.
    pub(super) fn make(scene: Scene<'a>, rounds: &Rounds, costs: &[f64]) -> Draft<'a> {
        let free: Vec<usize> = (0..scene.members.len())
            .filter(|&i| !matches!(scene.members[i].standing, Standing::Fixed))
            .collect();
        let mut candidates: Vec<Candidate> =
            free.iter().map(|&i| scene.members[i].candidate.clone()).collect();
        let order: Vec<usize> = rounds.order(&candidates).into_iter().map(|c| free[c]).collect();
        candidates.extend(scene.pairs.iter().map(|pair| pair.candidate.clone()));
        for candidate in &mut candidates {
            candidate.speeds.iter_mut().zip(costs).for_each(|(speed, cost)| *speed /= cost);
        }
        let place = |i: usize| free.binary_search(&i).ok();
        let places = |[a, b]: [usize; 2]| Some([place(a)?, place(b)?]);
        let pairs: Vec<Option<[usize; 2]>> = scene.pairs.iter().map(|pair| places(pair.members)).collect();
        let mut sheet = Sheet::new(&scene, &free, &order);
        rounds.choose_with_pairs(&candidates, &pairs, &mut sheet);
        let Sheet { ledger: promised, given, beside, in_turn, held_back, go_on, at_once, .. } = sheet;
        let (start, resume) = (Vec::new(), Vec::new());
        // Who was given what is free now counts on it: one that only might begin, as it turned out, comes after.
        let waits = |&i: &usize| matches!(scene.members[i].standing, Standing::Waits);
        let mut waiting: Vec<usize> = order.iter().copied().filter(waits).collect();
        waiting.sort_by_key(|&i| at_once[i].is_none());
        let mut draft = Draft { order, given, beside, start, resume, scene };
        let now = draft.resume_now(&go_on);
        // Neither the time of those that run still is free, nor what was given to others.
        let taken = in_turn.union(&draft.scene.running).copied().collect();
        let left = Left { now, promised, taken, nowhere: BTreeSet::new() };
        draft.start_now(&waiting, left, &held_back);
        draft
    }

    /// Starts what was given a place that is free now, and then whoever fits into what nobody was given.
    fn start_now(&mut self, waiting: &[usize], mut left: Left<'a>, held_back: &BTreeSet<usize>) {
        for &i in waiting {
            let room = |placement: &Placement| {
                if self.scene.members[i].in_turn_on(placement) {
                    return self.is_still(placement) && left.now.admits(placement);
                }
                // Nobody but whom it is to be beside may be there, not even one that is about to leave.
                let joins = self.beside[i].is_some_and(|other| self.is_there(other, placement));
                if joins { left.now.admits(placement) } else { left.now.admits(&whole(placement)) }
            };
            if let Some(placement) = self.given[i].clone().filter(room) {
                left.now.charge(&placement);
                self.start.push(Start { task: self.scene.members[i].task, placement });
            }
        }
        let left_over = waiting.iter().copied().filter(|&i| self.given[i].is_none());
        let (back, left_out): (Vec<usize>, Vec<usize>) = left_over.partition(|i| held_back.contains(i));
        for i in left_out {
            let task = self.scene.members[i].task;
            self.start_where_room_is_left(task, &mut left, |draft, _| draft.useless_to(i));
        }
        for task in self.scene.plain.clone() {
            self.start_where_room_is_left(task, &mut left, |_, _| Vec::new());
        }
        // Who was held back need not be where all who need devices whole have theirs, or no room beside others is left.
        left.nowhere.clear();
        for i in back {
            let task = self.scene.members[i].task;
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
        let (member, mut kept) = (&self.scene.members[i], Vec::new());
        for (j, kind) in
            self.scene.kinds.iter().enumerate().filter(|&(j, _)| member.candidate.speeds[j] > 0.0)
        {
            let waits = |i: &usize| self.given[*i].is_none() && !self.starts(self.scene.members[*i].task);
            let wanted = self.scene.could_have_whole(self.order.iter().copied().filter(waits), j);
            let needs = on_type(&member.spec.needs, kind);
            kept.extend(kept_whole(&self.scene, room, self.take_turns(), &needs, wanted));
        }
        kept
    }

    /// The places of those that are to take turns there, as given by the round or out of what was left.
    fn take_turns(&self) -> impl Iterator<Item = &Placement> {
        let members = self.scene.members.iter().zip(&self.given);
        members.filter(|(member, _)| member.takes_turns).filter_map(|(member, given)| {
            let started = || self.start.iter().find(|start| start.task == member.task);
            given.as_ref().or_else(|| started().map(|start| &start.placement))
        })
    }

    /// Starts one that fits into what nobody was given, less what is withheld from it; says whether it does.
    fn start_where_room_is_left(
        &mut self,
        task: TaskId,
        left: &mut Left<'a>,
        withheld: impl FnOnce(&Self, &Left<'a>) -> Vec<DeviceId>,
    ) -> bool {
        let Some((_, spec)) = self.scene.view.spec(task) else { return false };
        let member = self.scene.member(task).map(|i| &self.scene.members[i]);
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
        if member.is_some_and(|member| self.scene.would_take_turns(member, &placement)) {
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
        let mut now = Ledger::over(self.scene.view.pool());
        let adrift = self.scene.adrift.iter().filter(|(attempt, ..)| go_on.contains(attempt)).copied();
        let given = |&i: &usize| match self.scene.members[i].standing {
            Standing::Stands(attempt, placement, Stance::Asked) => Some((attempt, placement, false)),
            Standing::Stands(attempt, placement, Stance::Still) => {
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
        placement.device_ids().all(|id| !self.scene.running.contains(&id))
    }

    /// Whether a member is on the devices of a placement, or starts there.
    fn is_there(&self, i: usize, placement: &Placement) -> bool {
        let task = self.scene.members[i].task;
        let same = |other: &Placement| other.worker == placement.worker && other.devices == placement.devices;
        let runs = self.scene.view.attempt(task).is_some_and(|(attempt, _)| same(&attempt.placement));
        runs || self.start.iter().any(|start| start.task == task && same(&start.placement))
    }

    /// Devices of types a member is known not to run on.
    fn useless_to(&self, i: usize) -> Vec<DeviceId> {
        let barred = &self.scene.members[i].barred;
        if barred.is_empty() {
            return Vec::new();
        }
        self.of_kinds(|j| barred.contains(&j)).collect()
    }

    /// Devices of some types.
    fn of_kinds(&self, wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = DeviceId> {
        self.scene.devices().filter_map(move |(id, info)| {
            let kind = self.scene.kinds.iter().position(|kind| kind.eq_ignore_ascii_case(&info.kind));
            kind.filter(|&j| wanted(j)).map(|_| id)
        })
    }

    /// Whether it starts a task.
    pub(super) fn starts(&self, task: TaskId) -> bool {
        self.start.iter().any(|start| start.task == task)
    }

    /// Whether a member was given a place that it cannot have yet.
    fn keeps_a_place(&self, i: usize) -> bool {
        let member = &self.scene.members[i];
        self.given[i].is_some()
            && match member.standing {
                Standing::Waits => !self.starts(member.task),
                Standing::Leaves(..) => true,
                _ => false,
            }
    }

    /// Every ready task, in the order they are considered: whoever the round gives a place, then those it leaves out.
    pub(super) fn line(&self) -> Vec<TaskId> {
        let waits = |i: &&usize| matches!(self.scene.members[**i].standing, Standing::Waits);
        let (given, left_out): (Vec<usize>, Vec<usize>) =
            self.order.iter().filter(waits).partition(|&&i| self.given[i].is_some());
        let members = given.into_iter().chain(left_out).map(|i| self.scene.members[i].task);
        members.chain(self.scene.plain.iter().copied()).chain(self.scene.later.iter().copied()).collect()
    }

    pub(super) fn plan(self, rounds: &Rounds) -> Plan {
        let gives_way = |(i, placement): (usize, &Option<Placement>)| match self.scene.members[i].standing {
            Standing::Movable(attempt, own) if placement.as_ref() != Some(own) => Some(attempt),
            _ => None,
        };
        let requeue = self.given.iter().enumerate().filter_map(gives_way).collect();
        let stands_still = |(i, placement): (usize, &Option<Placement>)| match self.scene.members[i].standing
        {
            Standing::Stands(attempt, _, Stance::Runs) if placement.is_none() => Some(attempt),
            _ => None,
        };
        let pause = self.given.iter().enumerate().filter_map(stands_still).collect();
        let shares_time = !self.scene.members.is_empty();
        let begins =
            (shares_time && self.scene.boundary).then(|| self.scene.now + Span::from_secs(rounds.round_s));
        let until = begins.or(self.scene.view.shares().round_until());
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
