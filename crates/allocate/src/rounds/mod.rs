//! Round-based scheduling: which jobs run where in the next round, so that over time every job gets its share of every
//! type. A pure function of the waiting and running jobs and of the time each is owed and has received; the clock,
//! restarts and progress are the caller's. `gavel` is the published mechanism, for comparison; `simulate` runs ours
//! over a trace.

pub mod gavel;
mod pairs;
mod placement;
pub mod simulate;

use placement::FreeGpus;

/// Machine with GPUs of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Index of the type.
    pub gpu_type: usize,
    /// Number of GPUs.
    pub gpus: u32,
}

/// Placement of a job: GPUs on servers of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Index of the type.
    pub gpu_type: usize,
    /// Servers by index, with the number of GPUs on each.
    pub servers: Vec<(usize, u32)>,
}

/// Job that could run in the next round.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// GPUs it needs at once.
    pub gpus: u32,
    /// Speed on each type; 0 where it cannot run.
    pub speeds: Vec<f64>,
    /// Speed on each type with its GPUs spread over servers; `None` means no difference.
    pub spread_speeds: Option<Vec<f64>>,
    /// Target share of time on each type.
    pub shares: Vec<f64>,
    /// Seconds on each type that its targets have promised so far.
    pub owed_s: Vec<f64>,
    /// Seconds received on each type.
    pub received_s: Vec<f64>,
    /// Current placement.
    pub running: Option<Placement>,
    /// Whether it may be preempted.
    pub movable: bool,
}

/// Round scheduler and its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundScheduler {
    /// Length of a round in seconds.
    pub round_s: f64,
    /// Cost of a restart in seconds.
    pub restart_s: f64,
    /// Whether the restart cost counts: a job is then moved or preempted only for more than it is worth.
    pub restart_priced: bool,
    /// Whether jobs move up to faster types that would be idle; not where use must be paid for.
    pub upgrades: bool,
}

impl Default for RoundScheduler {
    fn default() -> Self {
        Self { round_s: 360.0, restart_s: 0.0, restart_priced: true, upgrades: true }
    }
}

impl RoundScheduler {
    /// Fraction of a round left after a restart, as far as it counts.
    fn fraction_after_restart(&self) -> f64 {
        if self.restart_priced { (1.0 - self.restart_s / self.round_s).max(0.0) } else { 1.0 }
    }

    /// Placements of the next round: highest priority first, within capacity; running jobs stay in place if they can,
    /// a job's GPUs are on as few servers as possible, and leftover capacity is backfilled.
    pub fn next(&self, servers: &[Server], candidates: &[Candidate]) -> Vec<Option<Placement>> {
        let types =
            candidates.iter().map(|c| c.speeds.len()).chain(servers.iter().map(|s| s.gpu_type + 1)).max();
        let mut capacity = TypeCapacity { free: vec![0; types.unwrap_or(0)], candidates };
        servers.iter().for_each(|server| capacity.free[server.gpu_type] += server.gpus);
        for candidate in candidates.iter().filter(|candidate| !candidate.movable) {
            if let Some(running) = &candidate.running {
                capacity.free[running.gpu_type] -= candidate.gpus;
            }
        }
        let chosen = self.choose(candidates, &mut capacity);
        FreeGpus::new(servers).place(candidates, &chosen)
    }

    /// Type of each job in the next round, within capacity. GPUs of unmovable jobs are not part of the capacity; those
    /// of the others are.
    ///
    /// The priority of a job on a type is time owed over time received; under a steady target that is its share over
    /// its share of time received. A job that would have to start is weighted by the fraction of the round that a
    /// restart leaves, so that it takes over only where that is worth the restart.
    pub fn choose(&self, candidates: &[Candidate], capacity: &mut impl RoundCapacity) -> Vec<Option<usize>> {
        let mut chosen: Vec<Option<usize>> = vec![None; candidates.len()];
        for (candidate, chosen) in candidates.iter().zip(&mut chosen) {
            *chosen =
                candidate.running.as_ref().filter(|_| !candidate.movable).map(|running| running.gpu_type);
        }
        for (_, i, j) in self.by_priority(candidates) {
            if chosen[i].is_none() && capacity.take(i, j) {
                chosen[i] = Some(j);
            }
        }
        // An upgraded job frees its type for others; every upgrade makes a job faster, so this terminates.
        let order = self.order(candidates);
        self.backfill(candidates, &order, capacity, &mut chosen);
        while self.upgrade(candidates, capacity, &mut chosen) {
            self.backfill(candidates, &order, capacity, &mut chosen);
        }
        chosen
    }

    /// Jobs in the order of consideration.
    pub fn order(&self, candidates: &[Candidate]) -> Vec<usize> {
        let mut seen = vec![false; candidates.len()];
        let by_priority = self.by_priority(candidates).into_iter().map(|(_, i, _)| i);
        let everyone = self.least_served_first(candidates);
        by_priority.chain(everyone).filter(|&i| !std::mem::replace(&mut seen[i], true)).collect()
    }

    /// Jobs and types by falling priority; ties go to the running job, then to the earlier one.
    fn by_priority(&self, candidates: &[Candidate]) -> Vec<(f64, usize, usize)> {
        let mut order = Vec::new();
        for (i, candidate) in candidates.iter().enumerate() {
            for (j, &share) in candidate.shares.iter().enumerate() {
                if share > 1e-9 && candidate.speeds[j] > 0.0 {
                    // Half a round on both sides keeps the ratio finite and damps it while little time has passed.
                    let half = 0.5 * self.round_s;
                    let priority = (candidate.owed_s[j] + share * half) / (candidate.received_s[j] + half);
                    let stays = candidate.runs_on(j);
                    order.push((
                        if stays { priority } else { priority * self.fraction_after_restart() },
                        i,
                        j,
                        stays,
                    ));
                }
            }
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.3.cmp(&a.3)).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        order.into_iter().map(|(priority, i, j, _)| (priority, i, j)).collect()
    }

    /// Jobs by rising ratio of time received to time owed.
    fn least_served_first(&self, candidates: &[Candidate]) -> Vec<usize> {
        let service_ratio: Vec<f64> =
            candidates.iter().map(|candidate| candidate.service_ratio(self.round_s)).collect();
        let mut who: Vec<usize> = (0..candidates.len()).collect();
        who.sort_by(|&a, &b| service_ratio[a].total_cmp(&service_ratio[b]).then(a.cmp(&b)));
        who
    }

    /// Gives leftover capacity to jobs that were not chosen.
    fn backfill(
        &self,
        candidates: &[Candidate],
        order: &[usize],
        capacity: &mut impl RoundCapacity,
        chosen: &mut [Option<usize>],
    ) {
        for &i in order {
            if chosen[i].is_some() {
                continue;
            }
            let candidate = &candidates[i];
            let worth = |j: usize| {
                candidate.speeds[j] * if candidate.runs_on(j) { 1.0 } else { self.fraction_after_restart() }
            };
            chosen[i] = types_by_value(&candidate.speeds, |j| candidate.speeds[j] > 0.0, worth)
                .into_iter()
                .find(|&j| capacity.take(i, j));
        }
    }

    /// Moves jobs to faster types that would be idle, where that is worth the restart; returns whether any moved.
    fn upgrade(
        &self,
        candidates: &[Candidate],
        capacity: &mut impl RoundCapacity,
        chosen: &mut [Option<usize>],
    ) -> bool {
        let mut moved = false;
        for (i, (candidate, chosen)) in candidates.iter().zip(chosen).enumerate().filter(|_| self.upgrades) {
            let Some(j) = *chosen else { continue };
            if candidate.running.is_some() && !candidate.movable {
                continue;
            }
            let speeds = &candidate.speeds;
            let keeps = if candidate.runs_on(j) { self.fraction_after_restart() } else { 1.0 };
            let faster = types_by_value(speeds, |to| speeds[to] * keeps > speeds[j], |to| speeds[to]);
            if let Some(to) = faster.into_iter().find(|&to| capacity.shift(i, j, to)) {
                *chosen = Some(to);
                moved = true;
            }
        }
        moved
    }
}

/// Qualifying types by falling value; ties go to the later type.
fn types_by_value(
    speeds: &[f64],
    qualifies: impl Fn(usize) -> bool,
    worth: impl Fn(usize) -> f64,
) -> Vec<usize> {
    let mut types: Vec<usize> = (0..speeds.len()).rev().filter(|&j| qualifies(j)).collect();
    types.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
    types
}

/// Capacity that a choice of types draws from.
pub trait RoundCapacity {
    /// Allocates GPUs of a type to a job, if available.
    fn take(&mut self, candidate: usize, gpu_type: usize) -> bool;

    /// Exchanges a job's GPUs for those of another type, if available.
    fn shift(&mut self, candidate: usize, from: usize, to: usize) -> bool;

    /// Gives one member of a pair (`goes`, the first or the second) GPUs of its own, if available.
    fn split(&mut self, candidate: usize, goes: usize, to: usize) -> bool {
        let _ = (candidate, goes, to);
        false
    }

    /// Co-locates the unplaced member of a pair with the other, which has GPUs of this type alone, if allowed.
    fn join(&mut self, candidate: usize, gpu_type: usize) -> bool {
        let _ = (candidate, gpu_type);
        false
    }
}

/// Free GPUs per type, regardless of servers.
struct TypeCapacity<'a> {
    free: Vec<u32>,
    candidates: &'a [Candidate],
}

impl RoundCapacity for TypeCapacity<'_> {
    fn take(&mut self, candidate: usize, gpu_type: usize) -> bool {
        let gpus = self.candidates[candidate].gpus;
        let fits = gpus <= self.free[gpu_type];
        if fits {
            self.free[gpu_type] -= gpus;
        }
        fits
    }

    fn shift(&mut self, candidate: usize, from: usize, to: usize) -> bool {
        let fits = self.take(candidate, to);
        if fits {
            self.free[from] += self.candidates[candidate].gpus;
        }
        fits
    }
}

impl Candidate {
    fn runs_on(&self, gpu_type: usize) -> bool {
        self.running.as_ref().is_some_and(|placement| placement.gpu_type == gpu_type)
    }

    /// Time received over time owed, over all types.
    fn service_ratio(&self, round_s: f64) -> f64 {
        (self.received_s.iter().sum::<f64>() + 0.5 * round_s)
            / (self.owed_s.iter().sum::<f64>() + 0.5 * round_s)
    }

    /// Speed in a placement.
    pub fn speed_in(&self, placement: &Placement) -> f64 {
        let spread = self.spread_speeds.as_ref().filter(|_| placement.servers.len() > 1);
        spread.unwrap_or(&self.speeds)[placement.gpu_type]
    }
}
