//! The room a round has: everything that is free, and everything held by tasks that may be moved or are leaving. Who runs
//! stays on its devices where it can; who must take devices of others takes those of the last in line. On the sheet whoever
//! is to have devices alone takes them whole, also where another may be put beside it later.

use super::scene::{Member, Scene, Standing};
use warpyard_allocate::rounds::Room;
use warpyard_core::DeviceId;
use warpyard_core::cluster::Phase;
use warpyard_core::place::{Search, acceptable};
use warpyard_core::pool::{Charge, DeviceInfo, Ledger, Placement};
use warpyard_core::spec::Needs;

/// The room, and who was given which part of it.
pub(super) struct Sheet<'a, 's> {
    scene: &'s Scene<'a>,
    pub(super) ledger: Ledger<'a>,
    /// The place each member was given.
    pub(super) given: Vec<Option<Placement>>,
    /// Whom each member was given its place beside.
    pub(super) beside: Vec<Option<usize>>,
    /// The member that each candidate is, those behind them being pairs.
    free: &'s [usize],
    /// Devices that are not free yet.
    leaving: Vec<DeviceId>,
    /// Members whose own devices are kept for them as long as others will do, the last in line first.
    holding: Vec<usize>,
    /// Devices of each type that would be given away whole; none counted where one may be over-committed.
    idle: Vec<Option<u32>>,
}

impl<'a, 's> Sheet<'a, 's> {
    /// The room at the beginning; `order` is that of the members in line.
    pub(super) fn new(scene: &'s Scene<'a>, free: &'s [usize], order: &[usize]) -> Sheet<'a, 's> {
        let mut ledger = Ledger::over(scene.view.pool());
        let mut leaving: Vec<DeviceId> =
            scene.ending.iter().flat_map(|(placement, _)| placement.device_ids()).collect();
        scene.ending.iter().for_each(|(placement, paused)| ledger.release_ending(placement, *paused));
        let mut holding = Vec::new();
        for &i in order.iter().rev() {
            match scene.members[i].standing {
                Standing::Movable(_, placement) => {
                    ledger.release(placement);
                    holding.push(i);
                }
                Standing::Leaves(placement) => {
                    ledger.release(placement);
                    leaving.extend(placement.device_ids());
                }
                Standing::Waits | Standing::Fixed => {}
            }
        }
        let idle = idle(scene, &ledger);
        let nobody = scene.members.len();
        let (given, beside) = (vec![None; nobody], vec![None; nobody]);
        Sheet { scene, ledger, given, beside, free, leaving, holding, idle }
    }

    fn members(&self, candidate: usize) -> Who {
        match self.free.get(candidate) {
            Some(&i) => Who::Alone(i),
            None => Who::Pair(self.scene.pairs[candidate - self.free.len()].members),
        }
    }

    fn own(&self, i: usize) -> Option<&'a Placement> {
        match self.scene.members[i].standing {
            Standing::Movable(_, placement) => Some(placement),
            _ => None,
        }
    }

    /// The place of a member's own, if it is of a type, alone.
    fn own_alone(&self, i: usize, gpu_type: usize) -> Option<&'a Placement> {
        let running = self.scene.members[i].candidate.running.as_ref();
        let on_type = running.is_some_and(|running| running.gpu_type == gpu_type);
        self.own(i).filter(|own| on_type && self.ledger.admits(&whole(own)))
    }

    /// A place alone.
    fn find(&self, i: usize, gpu_type: usize) -> Option<Placement> {
        if let Some(own) = self.own_alone(i, gpu_type) {
            return Some(own.clone());
        }
        let member = &self.scene.members[i];
        let needs =
            Needs { gpu_types: vec![self.scene.kinds[gpu_type].clone()], ..member.spec.needs.clone() };
        Some(as_given(member, self.search(&[i], &needs, &[])?))
    }

    /// A place for two, on the same devices: their own, one's own, or another.
    fn find_for_two(&self, [a, b]: [usize; 2], gpu_type: usize) -> Option<[Placement; 2]> {
        let [one, two] = [a, b].map(|i| &self.scene.members[i]);
        let (first, second) = (&one.spec.needs, &two.spec.needs);
        let needs = Needs {
            gpu_types: vec![self.scene.kinds[gpu_type].clone()],
            cpus: first.cpus + second.cpus,
            memory: first.memory + second.memory,
            ..first.clone()
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
        let unwanted = self.devices().filter(|(id, info)| !acceptable(second, *id, info));
        let unwanted: Vec<DeviceId> = unwanted.map(|(id, _)| id).collect();
        Some(on(&self.search(&[a, b], &needs, &unwanted)?))
    }

    /// What is free now, else what is being freed, else the fewest of the last in line whose devices make it fit.
    fn search(&self, who: &[usize], needs: &Needs, unwanted: &[DeviceId]) -> Option<Placement> {
        let devices = |&m: &usize| match self.own(m) {
            Some(placement) if !who.contains(&m) => placement.device_ids().collect(),
            _ => Vec::new(),
        };
        let held: Vec<Vec<DeviceId>> =
            std::iter::once(self.leaving.clone()).chain(self.holding.iter().map(devices)).collect();
        let place = |victims: usize| {
            let mut withheld = held[victims..].concat();
            withheld.extend(unwanted);
            Search { withheld: &withheld, ..Search::over(&self.ledger) }.place(needs)
        };
        if let Some(placement) = place(0) {
            return Some(placement);
        }
        place(held.len())?;
        let (mut too_few, mut enough) = (0, held.len());
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if place(middle).is_some() { enough = middle } else { too_few = middle }
        }
        place(enough)
    }

    fn devices(&self) -> impl Iterator<Item = (DeviceId, &'a DeviceInfo)> + use<'a> {
        let workers = self.scene.view.pool().workers();
        workers.flat_map(|(worker, w)| {
            w.devices().map(move |(index, info, _)| (DeviceId { worker, index }, info))
        })
    }

    /// Whether a place is one that two may have, on a type.
    fn may_be_shared(&self, placement: &Placement, gpu_type: usize) -> bool {
        let kind = &self.scene.kinds[gpu_type];
        let worker = self.scene.view.pool().worker(placement.worker);
        let infos: Vec<&DeviceInfo> = worker.into_iter().flat_map(|w| w.devices().map(|d| d.1)).collect();
        placement.devices.iter().all(|&(index, charge)| {
            let info = infos.get(usize::from(index));
            charge == Charge::Beside && info.is_some_and(|info| info.kind.eq_ignore_ascii_case(kind))
        })
    }

    fn accepts(&self, member: &Member<'_>, placement: &Placement) -> bool {
        let Some(worker) = self.scene.view.pool().worker(placement.worker) else { return false };
        let wanted = |id: &DeviceId| {
            let mut devices = worker.devices();
            devices.any(|(index, info, _)| index == id.index && acceptable(&member.spec.needs, *id, info))
        };
        placement.device_ids().all(|id| wanted(&id))
    }

    /// The place in which a member has devices that another might be put beside it on.
    fn host(&self, i: usize) -> Option<Placement> {
        let member = &self.scene.members[i];
        if self.beside[i].is_some() {
            return None;
        }
        match member.standing {
            Standing::Fixed => {
                let (node, _) = member.job.node(member.task.node)?;
                match &node.live.get(&member.task.index)?.phase {
                    Phase::Placed(a) | Phase::Running(a) if a.pause.is_none() => Some(a.placement.clone()),
                    _ => None,
                }
            }
            _ => self.given[i].clone(),
        }
    }

    fn has(&self, gpu_type: usize, gpus: u32) -> bool {
        self.idle[gpu_type].is_none_or(|idle| idle >= gpus)
    }

    fn change_idle(&mut self, gpu_type: usize, change: impl FnOnce(u32) -> u32) {
        self.idle[gpu_type] = self.idle[gpu_type].map(change);
    }

    fn gpus(&self, i: usize) -> u32 {
        self.scene.members[i].candidate.gpus
    }

    fn is_free(&self, i: usize) -> bool {
        self.given[i].is_none() && !matches!(self.scene.members[i].standing, Standing::Fixed)
    }

    fn give_alone(&mut self, i: usize, placement: Placement) {
        self.ledger.charge(&whole(&placement));
        self.given[i] = Some(placement);
        self.holding.retain(|&m| m != i);
    }

    fn give_together(&mut self, pair: [usize; 2], placements: [Placement; 2]) {
        for (i, other, placement) in
            pair.into_iter().zip([pair[1], pair[0]]).zip(placements).map(|((i, o), p)| (i, o, p))
        {
            self.ledger.charge(&placement);
            (self.given[i], self.beside[i]) = (Some(placement), Some(other));
            self.holding.retain(|&m| m != i);
        }
    }

    /// Takes back what was given.
    fn take_back(&mut self, who: Who) -> Vec<Placement> {
        let (all, alone) = match who {
            Who::Alone(i) => (vec![i], true),
            Who::Pair(pair) => (pair.to_vec(), false),
        };
        let mut before = Vec::new();
        for i in all {
            if let Some(placement) = self.given[i].take() {
                self.ledger.release(&if alone { whole(&placement) } else { placement.clone() });
                self.beside[i] = None;
                before.push(placement);
            }
        }
        before
    }
}

/// Whom a candidate stands for.
#[derive(Clone, Copy)]
enum Who {
    Alone(usize),
    Pair([usize; 2]),
}

impl Room for Sheet<'_, '_> {
    fn take(&mut self, candidate: usize, gpu_type: usize) -> bool {
        let who = self.members(candidate);
        let (Who::Alone(first) | Who::Pair([first, _])) = who;
        let gpus = self.gpus(first);
        if !self.has(gpu_type, gpus) {
            return false;
        }
        match who {
            Who::Alone(i) => {
                let Some(placement) = self.find(i, gpu_type).filter(|_| self.is_free(i)) else {
                    return false;
                };
                self.give_alone(i, placement);
            }
            Who::Pair(pair) => {
                if !pair.into_iter().all(|i| self.is_free(i)) {
                    return false;
                }
                let Some(placements) = self.find_for_two(pair, gpu_type) else { return false };
                self.give_together(pair, placements);
            }
        }
        self.change_idle(gpu_type, |idle| idle - gpus);
        true
    }

    fn shift(&mut self, candidate: usize, from: usize, to: usize) -> bool {
        let who = self.members(candidate);
        let (Who::Alone(first) | Who::Pair([first, _])) = who;
        let gpus = self.gpus(first);
        if !self.has(to, gpus) {
            return false;
        }
        match who {
            Who::Alone(i) => {
                let Some(placement) = self.find(i, to) else { return false };
                self.take_back(who);
                self.give_alone(i, placement);
            }
            Who::Pair(pair) => {
                let Some(placements) = self.find_for_two(pair, to) else { return false };
                self.take_back(who);
                self.give_together(pair, placements);
            }
        }
        self.change_idle(to, |idle| idle - gpus);
        self.change_idle(from, |idle| idle + gpus);
        true
    }

    fn part(&mut self, candidate: usize, goes: usize, to: usize) -> bool {
        let Who::Pair(pair) = self.members(candidate) else { return false };
        let gpus = self.gpus(pair[goes]);
        if !self.has(to, gpus) {
            return false;
        }
        let Some(placement) = self.find(pair[goes], to) else { return false };
        let mut before = self.take_back(Who::Pair(pair));
        self.give_alone(pair[1 - goes], before.swap_remove(1 - goes));
        self.give_alone(pair[goes], placement);
        self.change_idle(to, |idle| idle - gpus);
        true
    }

    fn join(&mut self, candidate: usize, gpu_type: usize) -> bool {
        let Who::Pair([a, b]) = self.members(candidate) else { return false };
        let (host, guest) = match (self.is_free(a), self.is_free(b)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return false,
        };
        let Some(place) = self.host(host).filter(|place| self.may_be_shared(place, gpu_type)) else {
            return false;
        };
        let member = &self.scene.members[guest];
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

fn idle(scene: &Scene<'_>, ledger: &Ledger<'_>) -> Vec<Option<u32>> {
    let mut idle = vec![Some(0); scene.kinds.len()];
    for (id, worker) in scene.view.pool().workers().filter(|(_, w)| w.is_open()) {
        let Some(now) = ledger.worker(id) else { continue };
        for (index, info, _) in worker.devices() {
            let kind = info.kind.to_ascii_lowercase();
            let Some(j) = scene.kinds.iter().position(|k| *k == kind) else { continue };
            if info.overcommit {
                idle[j] = None;
            } else if now.device_admits(index, Charge::Whole) {
                idle[j] = idle[j].map(|n: u32| n + 1);
            }
        }
    }
    idle
}
