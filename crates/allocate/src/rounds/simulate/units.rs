//! Who can be chosen for a round: every job alone, and every two that have a share of time together.

use super::super::place::Servers;
use super::super::{Candidate, Placement, Room};
use super::Run;

/// A job alone, or two together, by their places among those that are there.
struct Unit {
    members: [usize; 2],
    pair: bool,
}

impl Unit {
    fn members(&self) -> &[usize] {
        &self.members[..1 + usize::from(self.pair)]
    }
}

/// The units; the first are the jobs alone, in order.
pub(super) struct Units {
    units: Vec<Unit>,
    candidates: Vec<Candidate>,
    jobs: usize,
}

/// A job's place, and whom it shares it with.
type Given = (Option<Placement>, Option<usize>);

impl Units {
    pub(super) fn new(run: &Run<'_>, boundary: bool) -> Self {
        let jobs = run.live.len();
        let mut units: Vec<Unit> = (0..jobs).map(|i| Unit { members: [i, i], pair: false }).collect();
        // Of two that shared, the first would stay where they were; within a round neither leaves the other.
        let alone = run.live.iter().map(|live| {
            let stays = live.beside.is_none_or(|other| boundary && live.id < other);
            let running = live.candidate.running.clone().filter(|_| stays);
            Candidate { running, movable: boundary, ..live.candidate.clone() }
        });
        let mut candidates: Vec<Candidate> = alone.collect();
        let place = |job: usize| run.live.iter().position(|live| live.id == job);
        for (&(a, b), account) in &run.together {
            let (Some(i), Some(k)) = (place(a), place(b)) else { continue };
            let (one, two) = (&run.live[i], &run.live[k]);
            let together = one.beside == Some(b);
            if !together && account.shares.iter().all(|share| *share <= 1e-9) {
                continue;
            }
            let part = |live: &super::Live, other: usize, j: usize| {
                run.beside(live.id, other, j) / live.candidate.speeds[j].max(1e-300)
            };
            let speeds = (0..account.shares.len()).map(|j| part(one, b, j) + part(two, a, j)).collect();
            candidates.push(Candidate {
                gpus: one.candidate.gpus,
                speeds,
                spread_speeds: None,
                shares: account.shares.clone(),
                owed_s: account.owed_s.clone(),
                received_s: account.received_s.clone(),
                running: one.candidate.running.clone().filter(|_| together),
                movable: boundary,
            });
            units.push(Unit { members: [i, k], pair: true });
        }
        Self { units, candidates, jobs }
    }

    /// Every job's place in the round.
    pub(super) fn place(&self, run: &Run<'_>) -> Vec<Given> {
        let servers = run.cluster.servers;
        let mut room =
            Exclusive { free: vec![0; run.cluster.types.len()], busy: vec![false; self.jobs], of: self };
        servers.iter().for_each(|server| room.free[server.gpu_type] += server.gpus);
        for (i, candidate) in self.candidates.iter().enumerate().filter(|(_, candidate)| !candidate.movable) {
            if let Some(running) = &candidate.running {
                room.free[running.gpu_type] -= candidate.gpus;
                room.occupy(i);
            }
        }
        let pairs: Vec<_> = self.units[self.jobs..].iter().map(|unit| Some(unit.members)).collect();
        let chosen = run.cluster.rounds.choose_with_pairs(&self.candidates, &pairs, &mut room);
        let placed = Servers::new(servers).place(&self.candidates, &chosen);
        let mut given: Vec<Given> = vec![(None, None); self.jobs];
        for (unit, placement) in self.units.iter().zip(placed).filter(|(_, placement)| placement.is_some()) {
            let [a, b] = unit.members;
            for (job, other) in [(a, b), (b, a)].into_iter().take(unit.members().len()) {
                given[job] = (placement.clone(), unit.pair.then(|| run.live[other].id));
            }
        }
        given
    }
}

/// Free GPUs of each type, and jobs not chosen yet.
struct Exclusive<'a> {
    free: Vec<u32>,
    busy: Vec<bool>,
    of: &'a Units,
}

impl Exclusive<'_> {
    fn occupy(&mut self, unit: usize) {
        self.of.units[unit].members().iter().for_each(|&job| self.busy[job] = true);
    }
}

impl Room for Exclusive<'_> {
    fn take(&mut self, unit: usize, gpu_type: usize) -> bool {
        let gpus = self.of.candidates[unit].gpus;
        let fits =
            gpus <= self.free[gpu_type] && !self.of.units[unit].members().iter().any(|&job| self.busy[job]);
        if fits {
            self.free[gpu_type] -= gpus;
            self.occupy(unit);
        }
        fits
    }

    fn shift(&mut self, unit: usize, from: usize, to: usize) -> bool {
        let gpus = self.of.candidates[unit].gpus;
        let fits = gpus <= self.free[to];
        if fits {
            self.free[to] -= gpus;
            self.free[from] += gpus;
        }
        fits
    }

    fn part(&mut self, unit: usize, _: usize, to: usize) -> bool {
        let gpus = self.of.candidates[unit].gpus;
        let fits = gpus <= self.free[to];
        if fits {
            self.free[to] -= gpus;
        }
        fits
    }
}
