//! Candidates of a round: every job alone, and every pair with a share of time together.

use super::super::placement::FreeGpus;
use super::super::{Candidate, Placement, RoundCapacity};
use super::Simulation;

/// Single job or pair, by index among the active jobs.
struct RoundUnit {
    members: [usize; 2],
    pair: bool,
}

impl RoundUnit {
    fn members(&self) -> &[usize] {
        &self.members[..1 + usize::from(self.pair)]
    }
}

/// All units; the first are the single jobs, in order.
pub(super) struct Units {
    units: Vec<RoundUnit>,
    candidates: Vec<Candidate>,
    jobs: usize,
}

/// Placement of a job, and the job it shares it with.
type AssignedPlacement = (Option<Placement>, Option<usize>);

impl Units {
    pub(super) fn new(simulation: &Simulation<'_>, boundary: bool) -> Self {
        let jobs = simulation.active.len();
        let mut units: Vec<RoundUnit> =
            (0..jobs).map(|i| RoundUnit { members: [i, i], pair: false }).collect();
        // At a round boundary the first of two partners keeps their GPUs as a single job; within a round neither
        // leaves the other.
        let alone = simulation.active.iter().map(|live| {
            let stays = live.partner.is_none_or(|other| boundary && live.id < other);
            let running = live.candidate.running.clone().filter(|_| stays);
            Candidate { running, movable: boundary, ..live.candidate.clone() }
        });
        let mut candidates: Vec<Candidate> = alone.collect();
        let place = |job: usize| simulation.active.iter().position(|live| live.id == job);
        for (&(a, b), account) in &simulation.pair_accounts {
            let (Some(i), Some(k)) = (place(a), place(b)) else { continue };
            let (one, two) = (&simulation.active[i], &simulation.active[k]);
            let sharing = one.partner == Some(b);
            if !sharing && account.shares.iter().all(|share| *share <= 1e-9) {
                continue;
            }
            let relative_speed = |live: &super::ActiveJob, other: usize, j: usize| {
                simulation.paired_speed(live.id, other, j) / live.candidate.speeds[j].max(1e-300)
            };
            let speeds = (0..account.shares.len())
                .map(|j| relative_speed(one, b, j) + relative_speed(two, a, j))
                .collect();
            candidates.push(Candidate {
                gpus: one.candidate.gpus,
                speeds,
                spread_speeds: None,
                shares: account.shares.clone(),
                owed_s: account.owed_s.clone(),
                received_s: account.received_s.clone(),
                running: one.candidate.running.clone().filter(|_| sharing),
                movable: boundary,
            });
            units.push(RoundUnit { members: [i, k], pair: true });
        }
        Self { units, candidates, jobs }
    }

    /// Placement of every job in the round.
    pub(super) fn place(&self, simulation: &Simulation<'_>) -> Vec<AssignedPlacement> {
        let servers = simulation.cluster.servers;
        let mut capacity = ExclusiveCapacity {
            free: vec![0; simulation.cluster.types.len()],
            busy: vec![false; self.jobs],
            units: self,
        };
        servers.iter().for_each(|server| capacity.free[server.gpu_type] += server.gpus);
        for (i, candidate) in self.candidates.iter().enumerate().filter(|(_, candidate)| !candidate.movable) {
            if let Some(running) = &candidate.running {
                capacity.free[running.gpu_type] -= candidate.gpus;
                capacity.occupy(i);
            }
        }
        let pairs: Vec<_> = self.units[self.jobs..].iter().map(|unit| Some(unit.members)).collect();
        let chosen = simulation.cluster.rounds.choose_with_pairs(&self.candidates, &pairs, &mut capacity);
        let placed = FreeGpus::new(servers).place(&self.candidates, &chosen);
        let mut assigned: Vec<AssignedPlacement> = vec![(None, None); self.jobs];
        for (unit, placement) in self.units.iter().zip(placed).filter(|(_, placement)| placement.is_some()) {
            let [a, b] = unit.members;
            for (job, other) in [(a, b), (b, a)].into_iter().take(unit.members().len()) {
                assigned[job] = (placement.clone(), unit.pair.then(|| simulation.active[other].id));
            }
        }
        assigned
    }
}

/// Free GPUs per type, and the jobs already chosen: a job runs alone or in one pair, not both.
struct ExclusiveCapacity<'a> {
    free: Vec<u32>,
    busy: Vec<bool>,
    units: &'a Units,
}

impl ExclusiveCapacity<'_> {
    fn occupy(&mut self, unit: usize) {
        self.units.units[unit].members().iter().for_each(|&job| self.busy[job] = true);
    }
}

impl RoundCapacity for ExclusiveCapacity<'_> {
    fn take(&mut self, unit: usize, gpu_type: usize) -> bool {
        let gpus = self.units.candidates[unit].gpus;
        let fits = gpus <= self.free[gpu_type]
            && !self.units.units[unit].members().iter().any(|&job| self.busy[job]);
        if fits {
            self.free[gpu_type] -= gpus;
            self.occupy(unit);
        }
        fits
    }

    fn shift(&mut self, unit: usize, from: usize, to: usize) -> bool {
        let gpus = self.units.candidates[unit].gpus;
        let fits = gpus <= self.free[to];
        if fits {
            self.free[to] -= gpus;
            self.free[from] += gpus;
        }
        fits
    }

    fn split(&mut self, unit: usize, _: usize, to: usize) -> bool {
        let gpus = self.units.candidates[unit].gpus;
        let fits = gpus <= self.free[to];
        if fits {
            self.free[to] -= gpus;
        }
        fits
    }
}
