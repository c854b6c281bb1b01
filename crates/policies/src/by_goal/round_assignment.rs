//! Assignment of capacity in a round: everything that is free, and everything held by tasks that may be moved or are
//! leaving. A running task keeps its devices where it can; a task that must take devices of others takes those of the
//! last in order. In the assignment a task that is to have devices alone takes them whole, even where a partner may
//! join it later. A time-sliced task takes the memory it states, and the time of its devices besides: memory as long
//! as it is there, time for the round.

use super::round_input::{FreezeState, Member, MemberState, RoundInput};
use std::collections::BTreeSet;
use warpyard_allocate::rounds::RoundCapacity;
use warpyard_core::cluster::Phase;
use warpyard_core::place::{Search, acceptable};
use warpyard_core::pool::{Charge, DeviceInfo, Ledger, Placement};
use warpyard_core::spec::Needs;
use warpyard_core::{AttemptId, DeviceId};

/// Capacity of a round, and its assignment to members.
pub(super) struct RoundAssignment<'a, 's> {
    input: &'s RoundInput<'a>,
    pub(super) ledger: Ledger<'a>,
    /// What is free now, less what was given and is free now.
    now: Ledger<'a>,
    /// What each member has of that, as one that begins at once.
    pub(super) at_once: Vec<Option<Placement>>,
    /// The place each member was given.
    pub(super) given: Vec<Option<Placement>>,
    /// Whom each member was given its place beside.
    pub(super) beside: Vec<Option<usize>>,
    /// The member that each candidate is, those behind them being pairs.
    free: &'s [usize],
    /// Devices whose time was given to one that takes turns.
    pub(super) in_turn: BTreeSet<DeviceId>,
    /// Members that wait for their turn beside others rather than begin on devices that are wanted whole.
    pub(super) held_back: BTreeSet<usize>,
    /// Attempts that go on because they have no turn to wait for.
    pub(super) go_on: Vec<AttemptId>,
    /// Devices that are not free yet.
    leaving: Vec<DeviceId>,
    /// Members whose own devices are kept for them as long as others will do, the last in line first.
    holding: Vec<usize>,
    /// Negative cache: (task class, partner class, GPU type) known not to fit. Valid until the next release, because
    /// free capacity only shrinks between releases.
    nowhere: BTreeSet<(usize, Option<usize>, usize)>,
    /// Whose like was held back on a type since then.
    held_on: BTreeSet<(usize, usize)>,
}

impl<'a, 's> RoundAssignment<'a, 's> {
    /// The room at the beginning; `order` is that of the members in line.
    pub(super) fn new(
        input: &'s RoundInput<'a>,
        free: &'s [usize],
        order: &[usize],
    ) -> RoundAssignment<'a, 's> {
        let mut ledger = Ledger::over(input.view.pool());
        let mut leaving: Vec<DeviceId> =
            input.ending.iter().flat_map(|(placement, _)| placement.device_ids()).collect();
        input.ending.iter().for_each(|(placement, paused)| ledger.release_ending(placement, *paused));
        let mut go_on = Vec::new();
        for &(attempt, placement, still) in &input.adrift {
            if !still || ledger.admits_resumed(placement) {
                if still {
                    ledger.resume(placement);
                }
                go_on.push(attempt);
            }
        }
        let mut holding = Vec::new();
        for &i in order.iter().rev() {
            match input.members[i].state {
                MemberState::Movable(_, placement) => {
                    ledger.release(placement);
                    holding.push(i);
                }
                MemberState::TimeSliced(_, placement, freeze) => {
                    if freeze != FreezeState::Frozen {
                        ledger.pause(placement);
                    }
                    holding.push(i);
                }
                MemberState::Leaving(placement, paused) => {
                    ledger.release_ending(placement, paused);
                    leaving.extend(placement.device_ids());
                }
                MemberState::Waiting | MemberState::Fixed => {}
            }
        }
        let nobody = input.members.len();
        let (given, beside) = (vec![None; nobody], vec![None; nobody]);
        let in_turn = input.in_turn.iter().flat_map(|placement| placement.device_ids()).collect();
        let (held_back, nowhere, held_on) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        RoundAssignment {
            input,
            ledger,
            now: Ledger::over(input.view.pool()),
            at_once: vec![None; nobody],
            given,
            beside,
            free,
            in_turn,
            held_back,
            go_on,
            leaving,
            holding,
            nowhere,
            held_on,
        }
    }

    fn members(&self, candidate: usize) -> CandidateMembers {
        match self.free.get(candidate) {
            Some(&i) => CandidateMembers::Alone(i),
            None => CandidateMembers::Pair(self.input.pairs[candidate - self.free.len()].members),
        }
    }

    fn own(&self, i: usize) -> Option<&'a Placement> {
        match self.input.members[i].state {
            MemberState::Movable(_, placement) | MemberState::TimeSliced(_, placement, _) => Some(placement),
            _ => None,
        }
    }

    /// The place of a member's own, if it is of a type, alone.
    fn own_alone(&self, i: usize, gpu_type: usize) -> Option<&'a Placement> {
        let member = &self.input.members[i];
        let on_type = member.candidate.running.as_ref().is_some_and(|running| running.gpu_type == gpu_type);
        self.own(i).filter(|own| {
            on_type
                && match member.takes_turns {
                    true => self.has_time(own) && self.ledger.admits_resumed(own),
                    false => self.ledger.admits(&whole(own)),
                }
        })
    }

    /// Whether nobody who takes turns was given the time of any of these devices.
    fn has_time(&self, placement: &Placement) -> bool {
        placement.device_ids().all(|id| !self.in_turn.contains(&id))
    }

    /// A place alone.
    fn find(&mut self, i: usize, gpu_type: usize) -> Option<Placement> {
        if let Some(own) = self.own_alone(i, gpu_type) {
            return Some(own.clone());
        }
        let member = &self.input.members[i];
        match member.state {
            MemberState::TimeSliced(..) => return None,
            // It cannot begin before these are free, and leaves what is free now to others.
            MemberState::Leaving(own, _) if self.input.type_given(member.task) == Some(gpu_type) => {
                let again = as_assigned(member, own);
                if self.ledger.admits(&again) && self.has_time(&again) {
                    return Some(as_given(member, again));
                }
            }
            _ => {}
        }
        let like = (member.like, None, gpu_type);
        if self.nowhere.contains(&like) {
            return None;
        }
        let needs = on_type(&member.spec.needs, &self.input.kinds[gpu_type]);
        if !member.takes_turns {
            let place = self.search(&[i], &needs, &[]);
            if place.is_none() {
                self.nowhere.insert(like);
            }
            return place.map(|place| as_given(member, place));
        }
        self.find_in_turn(i, gpu_type, &needs)
    }

    /// A place for one that takes turns, where it has the time of its devices.
    fn find_in_turn(&mut self, i: usize, gpu_type: usize, needs: &Needs) -> Option<Placement> {
        let like = self.input.members[i].like;
        if self.held_on.contains(&(like, gpu_type)) {
            self.held_back.insert(i);
            return None;
        }
        let mut unwanted: Vec<DeviceId> = self.in_turn.iter().copied().collect();
        let kept = self.kept_whole(gpu_type, needs);
        let held = !kept.is_empty();
        if held {
            self.held_back.insert(i);
        }
        unwanted.extend(kept);
        let place = self.search(&[i], needs, &unwanted);
        if place.is_none() && held {
            self.held_on.insert((like, gpu_type));
        } else if place.is_none() {
            self.nowhere.insert((like, None, gpu_type));
        }
        place
    }

    /// Devices of a type that one who takes turns leaves to those in line who need them whole.
    fn kept_whole(&self, gpu_type: usize, needs: &Needs) -> Vec<DeviceId> {
        let in_line = self.free.iter().copied().filter(|&i| self.given[i].is_none());
        let wanted = self.input.could_have_whole(in_line, gpu_type);
        let members = self.input.members.iter().zip(&self.given);
        let given = members.filter(|(member, _)| member.takes_turns).filter_map(|(_, given)| given.as_ref());
        kept_whole(self.input, &self.ledger, given, needs, wanted)
    }

    /// A place for two, on the same devices: their own, one's own, or another.
    fn find_for_two(&mut self, [a, b]: [usize; 2], gpu_type: usize) -> Option<[Placement; 2]> {
        let [one, two] = [a, b].map(|i| &self.input.members[i]);
        let (first, second) = (&one.spec.needs, &two.spec.needs);
        let needs = Needs {
            cpus: first.cpus + second.cpus,
            memory: first.memory + second.memory,
            ..on_type(first, &self.input.kinds[gpu_type])
        };
        let on = |place: &Placement| {
            [first, second].map(|needs| Placement { cpus: needs.cpus, memory: needs.memory, ..beside(place) })
        };
        for own in [a, b].into_iter().filter_map(|i| self.own(i)) {
            let room = Placement { cpus: needs.cpus, memory: needs.memory, ..whole(own) };
            let good = self.may_be_shared(own, gpu_type)
                && [one, two].iter().all(|member| self.accepts(member, own))
                && self.ledger.admits(&room);
            if good {
                return Some(on(own));
            }
        }
        let like = (one.like, Some(two.like), gpu_type);
        if self.nowhere.contains(&like) {
            return None;
        }
        let unwanted = self.input.devices().filter(|(id, info)| !acceptable(second, *id, info));
        let unwanted: Vec<DeviceId> = unwanted.map(|(id, _)| id).collect();
        let place = self.search(&[a, b], &needs, &unwanted);
        if place.is_none() {
            self.nowhere.insert(like);
        }
        place.map(|place| on(&place))
    }

    /// What is free now, else what is being freed, else the fewest of the last in line whose devices make it fit.
    fn search(&self, who: &[usize], needs: &Needs, unwanted: &[DeviceId]) -> Option<Placement> {
        let devices = |&m: &usize| match self.own(m) {
            Some(placement) if !who.contains(&m) => placement.device_ids().collect(),
            _ => Vec::new(),
        };
        let held: Vec<Vec<DeviceId>> =
            std::iter::once(self.leaving.clone()).chain(self.holding.iter().map(devices)).collect();
        let place = |victims: usize, also: &[&Ledger<'_>]| {
            let mut withheld = held[victims..].concat();
            withheld.extend(unwanted);
            withheld.sort_unstable();
            Search { withheld: &withheld, later: also, ..Search::over(&self.ledger) }.place(needs)
        };
        // Processors and main memory may not be free yet where devices are.
        if let Some(placement) = place(0, &[&self.now]) {
            return Some(placement);
        }
        let place = |victims: usize| place(victims, &[]);
        place(held.len())?;
        let (mut too_few, mut enough) = (0, held.len());
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if place(middle).is_some() { enough = middle } else { too_few = middle }
        }
        place(enough)
    }

    /// Whether a place is one that two may have, on a type.
    fn may_be_shared(&self, placement: &Placement, gpu_type: usize) -> bool {
        let kind = &self.input.kinds[gpu_type];
        let worker = self.input.view.pool().worker(placement.worker);
        let infos: Vec<&DeviceInfo> = worker.into_iter().flat_map(|w| w.devices().map(|d| d.1)).collect();
        placement.devices.iter().all(|&(index, charge)| {
            let info = infos.get(usize::from(index));
            charge == Charge::Beside && info.is_some_and(|info| info.kind.eq_ignore_ascii_case(kind))
        })
    }

    fn accepts(&self, member: &Member<'_>, placement: &Placement) -> bool {
        let Some(worker) = self.input.view.pool().worker(placement.worker) else { return false };
        let wanted = |id: &DeviceId| {
            let mut devices = worker.devices();
            devices.any(|(index, info, _)| index == id.index && acceptable(&member.spec.needs, *id, info))
        };
        placement.device_ids().all(|id| wanted(&id))
    }

    /// The place in which a member has devices that another might be put beside it on.
    fn host(&self, i: usize) -> Option<Placement> {
        let member = &self.input.members[i];
        if self.beside[i].is_some() {
            return None;
        }
        match member.state {
            MemberState::Fixed => {
                let (node, _) = member.job.node(member.task.node)?;
                match &node.live.get(&member.task.index)?.phase {
                    Phase::Placed(a) | Phase::Running(a) if a.pause.is_none() => Some(a.placement.clone()),
                    _ => None,
                }
            }
            _ => self.given[i].clone(),
        }
    }

    fn is_free(&self, i: usize) -> bool {
        self.given[i].is_none() && !matches!(self.input.members[i].state, MemberState::Fixed)
    }

    /// Gives a member a place alone.
    fn give_alone(&mut self, i: usize, placement: Placement) {
        let member = &self.input.members[i];
        match member.state {
            MemberState::TimeSliced(..) => self.ledger.resume(&placement),
            _ => {
                let charged = as_assigned(member, &placement);
                self.ledger.charge(&charged);
                self.begin_at_once(i, charged);
            }
        }
        if member.in_turn_on(&placement) {
            self.in_turn.extend(placement.device_ids());
        }
        self.given[i] = Some(placement);
        self.holding.retain(|&m| m != i);
    }

    fn give_together(&mut self, pair: [usize; 2], placements: [Placement; 2]) {
        for (i, other, placement) in
            pair.into_iter().zip([pair[1], pair[0]]).zip(placements).map(|((i, o), p)| (i, o, p))
        {
            self.ledger.charge(&placement);
            self.begin_at_once(i, placement.clone());
            (self.given[i], self.beside[i]) = (Some(placement), Some(other));
            self.holding.retain(|&m| m != i);
        }
    }

    /// Notes what is taken of what is free now, if one that waits can have its place at once.
    fn begin_at_once(&mut self, i: usize, charged: Placement) {
        if matches!(self.input.members[i].state, MemberState::Waiting) && self.now.admits(&charged) {
            self.now.charge(&charged);
            self.at_once[i] = Some(charged);
        }
    }

    /// Takes back what was given.
    fn take_back(&mut self, who: CandidateMembers) -> Vec<Placement> {
        let (all, alone) = match who {
            CandidateMembers::Alone(i) => (vec![i], true),
            CandidateMembers::Pair(pair) => (pair.to_vec(), false),
        };
        self.nowhere.clear();
        self.held_on.clear();
        let mut before = Vec::new();
        for i in all {
            if let Some(placement) = self.given[i].take() {
                let member = &self.input.members[i];
                self.ledger.release(&if alone { as_assigned(member, &placement) } else { placement.clone() });
                if member.in_turn_on(&placement) {
                    self.in_turn.retain(|id| placement.device_ids().all(|own| own != *id));
                }
                if let Some(charged) = self.at_once[i].take() {
                    self.now.release(&charged);
                }
                self.beside[i] = None;
                before.push(placement);
            }
        }
        before
    }
}

/// Members that a candidate stands for.
#[derive(Clone, Copy)]
enum CandidateMembers {
    Alone(usize),
    Pair([usize; 2]),
}

impl RoundCapacity for RoundAssignment<'_, '_> {
    fn take(&mut self, candidate: usize, gpu_type: usize) -> bool {
        match self.members(candidate) {
            CandidateMembers::Alone(i) => {
                let free = self.is_free(i);
                let Some(placement) = free.then(|| self.find(i, gpu_type)).flatten() else { return false };
                self.give_alone(i, placement);
            }
            CandidateMembers::Pair(pair) => {
                let free = pair.into_iter().all(|i| self.is_free(i));
                let Some(placements) = free.then(|| self.find_for_two(pair, gpu_type)).flatten() else {
                    return false;
                };
                self.give_together(pair, placements);
            }
        }
        true
    }

    fn shift(&mut self, candidate: usize, _from: usize, to: usize) -> bool {
        let who = self.members(candidate);
        match who {
            CandidateMembers::Alone(i) => {
                let Some(placement) = self.find(i, to) else { return false };
                self.take_back(who);
                self.give_alone(i, placement);
            }
            CandidateMembers::Pair(pair) => {
                let Some(placements) = self.find_for_two(pair, to) else { return false };
                self.take_back(who);
                self.give_together(pair, placements);
            }
        }
        true
    }

    fn split(&mut self, candidate: usize, goes: usize, to: usize) -> bool {
        let CandidateMembers::Pair(pair) = self.members(candidate) else { return false };
        let Some(placement) = self.find(pair[goes], to) else { return false };
        let mut before = self.take_back(CandidateMembers::Pair(pair));
        self.give_alone(pair[1 - goes], before.swap_remove(1 - goes));
        self.give_alone(pair[goes], placement);
        true
    }

    fn join(&mut self, candidate: usize, gpu_type: usize) -> bool {
        let CandidateMembers::Pair([a, b]) = self.members(candidate) else { return false };
        let (host, guest) = match (self.is_free(a), self.is_free(b)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return false,
        };
        let Some(place) = self.host(host).filter(|place| self.may_be_shared(place, gpu_type)) else {
            return false;
        };
        let member = &self.input.members[guest];
        if !self.accepts(member, &place) {
            return false;
        }
        let Needs { cpus, memory, .. } = member.spec.needs;
        let placement = Placement { cpus, memory, ..beside(&place) };
        // Who was given devices on this sheet has them whole there.
        let alone_here = self.given[host].is_some();
        if alone_here {
            self.ledger.release(&whole(&place));
            self.ledger.charge(&place);
        }
        if !self.ledger.admits(&placement) {
            if alone_here {
                self.ledger.release(&place);
                self.ledger.charge(&whole(&place));
            }
            return false;
        }
        self.ledger.charge(&placement);
        if let Some(alone) = self.at_once[host].take() {
            self.now.release(&alone);
            self.begin_at_once(host, place);
        }
        self.begin_at_once(guest, placement.clone());
        self.given[guest] = Some(placement);
        (self.beside[guest], self.beside[host]) = (Some(host), Some(guest));
        self.holding.retain(|&m| m != guest);
        true
    }
}

/// A place as its member is really given it.
pub(super) fn as_given(member: &Member<'_>, placement: Placement) -> Placement {
    if member.shares { beside(&placement) } else { placement }
}

/// A place as the sheet has it, for one that is to have it alone.
fn as_assigned(member: &Member<'_>, placement: &Placement) -> Placement {
    if member.takes_turns { placement.clone() } else { whole(placement) }
}

/// The same devices, all of them for one.
pub(super) fn whole(placement: &Placement) -> Placement {
    charged(placement, Charge::Whole)
}

/// The same devices, all of them for two.
fn beside(placement: &Placement) -> Placement {
    charged(placement, Charge::Beside)
}

fn charged(placement: &Placement, charge: Charge) -> Placement {
    let devices = placement.devices.iter().map(|&(index, _)| (index, charge)).collect();
    Placement { devices, ..placement.clone() }
}

/// The same needs, on one type only.
pub(super) fn on_type(needs: &Needs, kind: &str) -> Needs {
    Needs { gpu_types: vec![kind.to_owned()], ..needs.clone() }
}

/// Of devices that others want whole, those on which nobody stands who takes turns or was given a place to: they are left to
/// them where there is room beside one who does, time apart. Who begins elsewhere would keep devices from those that need
/// them whole until it ends, which no turn makes good.
pub(super) fn kept_whole<'p>(
    input: &'p RoundInput<'_>,
    room: &Ledger<'_>,
    given: impl Iterator<Item = &'p Placement>,
    needs: &Needs,
    wanted: Vec<DeviceId>,
) -> Vec<DeviceId> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let in_turn: Vec<&Placement> = input.in_turn.iter().copied().chain(given).collect();
    let stands = input.members.iter().filter_map(|member| match member.state {
        MemberState::TimeSliced(_, placement, _) => Some(placement),
        _ => None,
    });
    let there: BTreeSet<DeviceId> =
        in_turn.iter().copied().chain(stands).flat_map(|placement| placement.device_ids()).collect();
    if there.is_empty() {
        return Vec::new();
    }
    let elsewhere: Vec<DeviceId> =
        input.devices().map(|(id, _)| id).filter(|id| !there.contains(id)).collect();
    let mut still = room.clone();
    in_turn.into_iter().for_each(|placement| still.pause(placement));
    let beside = Search { withheld: &elsewhere, ..Search::over(&still) }.place(needs);
    let left = wanted.into_iter().filter(|id| !there.contains(id));
    beside.map_or_else(Vec::new, |_| left.collect())
}
