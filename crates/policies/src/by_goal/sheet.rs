//! The room a round has: everything that is free, and everything held by tasks that may be moved or are leaving. Who runs
//! stays on its devices where it can; who must take devices of others takes those of the last in line.

use super::scene::{Scene, Standing};
use warpyard_allocate::rounds::Room;
use warpyard_core::DeviceId;
use warpyard_core::place::Search;
use warpyard_core::pool::{Charge, Ledger, Placement};
use warpyard_core::spec::Needs;

/// The room, and who was given which part of it.
pub(super) struct Sheet<'a, 's> {
    scene: &'s Scene<'a>,
    pub(super) ledger: Ledger<'a>,
    /// The place each member was given.
    pub(super) given: Vec<Option<Placement>>,
    /// Devices that are not free yet.
    leaving: Vec<DeviceId>,
    /// Members whose own devices are kept for them as long as others will do, the last in line first.
    holding: Vec<usize>,
    /// Devices of each type that would be given away whole; none counted where one may be over-committed.
    idle: Vec<Option<u32>>,
}

impl<'a, 's> Sheet<'a, 's> {
    /// The room at the beginning; `order` is that of the members in line.
    pub(super) fn new(scene: &'s Scene<'a>, order: &[usize]) -> Sheet<'a, 's> {
        let mut ledger = Ledger::over(scene.view.pool());
        let mut leaving: Vec<DeviceId> =
            scene.ending.iter().flat_map(|placement| placement.device_ids()).collect();
        scene.ending.iter().for_each(|placement| ledger.release(placement));
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
        Sheet { scene, ledger, given: vec![None; scene.members.len()], leaving, holding, idle }
    }

    fn own(&self, i: usize, gpu_type: usize) -> Option<&'a Placement> {
        let member = &self.scene.members[i];
        let Standing::Movable(_, placement) = member.standing else { return None };
        let on_type = member.candidate.running.as_ref().is_some_and(|running| running.gpu_type == gpu_type);
        (on_type && self.ledger.admits(placement)).then_some(placement)
    }

    fn find(&self, i: usize, gpu_type: usize) -> Option<Placement> {
        if let Some(own) = self.own(i, gpu_type) {
            return Some(own.clone());
        }
        let needs = &self.scene.members[i].spec.needs;
        let needs = Needs { gpu_types: vec![self.scene.kinds[gpu_type].clone()], ..needs.clone() };
        let devices = |&m: &usize| match self.scene.members[m].standing {
            Standing::Movable(_, placement) if m != i => placement.device_ids().collect(),
            _ => Vec::new(),
        };
        let held: Vec<Vec<DeviceId>> =
            std::iter::once(self.leaving.clone()).chain(self.holding.iter().map(devices)).collect();
        let place = |victims: usize| {
            let withheld = held[victims..].concat();
            Search { withheld: &withheld, ..Search::over(&self.ledger) }.place(&needs)
        };
        // What is free now, else what is being freed, else the fewest of the last in line whose devices make it fit.
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

    fn has(&self, gpu_type: usize, gpus: u32) -> bool {
        self.idle[gpu_type].is_none_or(|idle| idle >= gpus)
    }

    fn change_idle(&mut self, gpu_type: usize, change: impl FnOnce(u32) -> u32) {
        self.idle[gpu_type] = self.idle[gpu_type].map(change);
    }
}

impl Room for Sheet<'_, '_> {
    fn take(&mut self, i: usize, gpu_type: usize) -> bool {
        let gpus = self.scene.members[i].candidate.gpus;
        if !self.has(gpu_type, gpus) {
            return false;
        }
        let Some(placement) = self.find(i, gpu_type) else { return false };
        self.ledger.charge(&placement);
        self.change_idle(gpu_type, |idle| idle - gpus);
        self.given[i] = Some(placement);
        self.holding.retain(|&m| m != i);
        true
    }

    fn shift(&mut self, i: usize, from: usize, to: usize) -> bool {
        let gpus = self.scene.members[i].candidate.gpus;
        let before = self.given[i].clone();
        if !self.take(i, to) {
            return false;
        }
        if let Some(before) = before {
            self.ledger.release(&before);
            self.change_idle(from, |idle| idle + gpus);
        }
        true
    }
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
