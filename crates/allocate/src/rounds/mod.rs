//! Carrying shares out in rounds: who runs where next, so that over time every job gets its share of every type. A pure
//! function of who waits, who runs where and what each was owed and has received; time, restarts and progress are the
//! caller's. `gavel` is the published mechanism, kept for comparison; `simulate` runs ours over a trace.

pub mod gavel;
mod pairs;
mod place;
pub mod simulate;

use place::Servers;

/// A machine with GPUs of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// The type's place.
    pub gpu_type: usize,
    /// How many GPUs it has.
    pub gpus: u32,
}

/// Where a job runs: GPUs on servers of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The type's place.
    pub gpu_type: usize,
    /// Servers by place, and how many GPUs on each.
    pub servers: Vec<(usize, u32)>,
}

/// A job that could run in the next round.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// GPUs it needs at once.
    pub gpus: u32,
    /// Its speed on each type; 0 where it cannot run.
    pub speeds: Vec<f64>,
    /// Its speed on each type when its GPUs are spread over servers; the same where that is not known.
    pub spread_speeds: Option<Vec<f64>>,
    /// Its target share of time on each type.
    pub shares: Vec<f64>,
    /// Seconds on each type its targets have promised it so far.
    pub owed_s: Vec<f64>,
    /// Seconds on each type it has had.
    pub received_s: Vec<f64>,
    /// Where it runs now.
    pub running: Option<Placement>,
    /// Whether it may be taken off where it runs.
    pub movable: bool,
}

/// How rounds are run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// A round's length in seconds.
    pub round_s: f64,
    /// What a restart costs a job, in seconds.
    pub restart_s: f64,
    /// Whether that cost counts: a job is then moved, or makes way, only for more than it is worth.
    pub priced: bool,
    /// Whether jobs move up to faster types that would stand idle; not where what is used must be paid for.
    pub moves_up: bool,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { round_s: 360.0, restart_s: 0.0, priced: true, moves_up: true }
    }
}

impl Rounds {
    /// The part of a round that counts as left to a job that starts in it.
    fn after_restart(&self) -> f64 {
        if self.priced { (1.0 - self.restart_s / self.round_s).max(0.0) } else { 1.0 }
    }

    /// Who runs where in the round that begins: highest priority first, never more than fits, jobs that run stay where
    /// they are when they can, a job's GPUs on as few servers as possible, and what is left goes to whoever can use it.
    pub fn next(&self, servers: &[Server], candidates: &[Candidate]) -> Vec<Option<Placement>> {
        let types =
            candidates.iter().map(|c| c.speeds.len()).chain(servers.iter().map(|s| s.gpu_type + 1)).max();
        let mut totals = Totals { free: vec![0; types.unwrap_or(0)], candidates };
        servers.iter().for_each(|server| totals.free[server.gpu_type] += server.gpus);
        for candidate in candidates.iter().filter(|candidate| !candidate.movable) {
            if let Some(running) = &candidate.running {
                totals.free[running.gpu_type] -= candidate.gpus;
            }
        }
        let chosen = self.choose(candidates, &mut totals);
        Servers::new(servers).place(candidates, &chosen)
    }

    /// The type each job gets in the round that begins, as far as there is room. What those hold that may not be moved is
    /// no longer part of the room; what the others hold is.
    ///
    /// A job's priority on a type is what it is owed there over what it has received: under a steady target its share
    /// over its share of time received. A job that would have to start counts for the part of the round its restart
    /// leaves it, so that it takes over only where that is worth the restart.
    pub fn choose(&self, candidates: &[Candidate], room: &mut impl Room) -> Vec<Option<usize>> {
        let mut chosen: Vec<Option<usize>> = vec![None; candidates.len()];
        for (candidate, chosen) in candidates.iter().zip(&mut chosen) {
            *chosen =
                candidate.running.as_ref().filter(|_| !candidate.movable).map(|running| running.gpu_type);
        }
        for (_, i, j) in self.by_priority(candidates) {
            if chosen[i].is_none() && room.take(i, j) {
                chosen[i] = Some(j);
            }
        }
        // Whoever moves up leaves room for others; every move makes a job faster, so this ends.
        let order = self.order(candidates);
        self.fill(candidates, &order, room, &mut chosen);
        while self.upgrade(candidates, room, &mut chosen) {
            self.fill(candidates, &order, room, &mut chosen);
        }
        chosen
    }

    /// The jobs in the order they are considered.
    pub fn order(&self, candidates: &[Candidate]) -> Vec<usize> {
        let mut seen = vec![false; candidates.len()];
        let by_priority = self.by_priority(candidates).into_iter().map(|(_, i, _)| i);
        let everyone = self.by_need(candidates);
        by_priority.chain(everyone).filter(|&i| !std::mem::replace(&mut seen[i], true)).collect()
    }

    /// Jobs and types by falling priority; on a tie those that run there, then the earlier job.
    fn by_priority(&self, candidates: &[Candidate]) -> Vec<(f64, usize, usize)> {
        let mut order = Vec::new();
        for (i, candidate) in candidates.iter().enumerate() {
            for (j, &share) in candidate.shares.iter().enumerate() {
                if share > 1e-9 && candidate.speeds[j] > 0.0 {
                    let half = 0.5 * self.round_s;
                    let priority = (candidate.owed_s[j] + share * half) / (candidate.received_s[j] + half);
                    let stays = candidate.runs_on(j);
                    order.push((if stays { priority } else { priority * self.after_restart() }, i, j, stays));
                }
            }
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.3.cmp(&a.3)).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        order.into_iter().map(|(priority, i, j, _)| (priority, i, j)).collect()
    }

    /// Those who got least of what they are owed first.
    fn by_need(&self, candidates: &[Candidate]) -> Vec<usize> {
        let served: Vec<f64> = candidates.iter().map(|candidate| candidate.served(self.round_s)).collect();
        let mut who: Vec<usize> = (0..candidates.len()).collect();
        who.sort_by(|&a, &b| served[a].total_cmp(&served[b]).then(a.cmp(&b)));
        who
    }

    /// Gives what is left to jobs that were not chosen.
    fn fill(
        &self,
        candidates: &[Candidate],
        order: &[usize],
        room: &mut impl Room,
        chosen: &mut [Option<usize>],
    ) {
        for &i in order {
            if chosen[i].is_some() {
                continue;
            }
            let candidate = &candidates[i];
            let worth = |j: usize| {
                candidate.speeds[j] * if candidate.runs_on(j) { 1.0 } else { self.after_restart() }
            };
            chosen[i] = best_first(&candidate.speeds, |j| candidate.speeds[j] > 0.0, worth)
                .into_iter()
                .find(|&j| room.take(i, j));
        }
    }

    /// Moves jobs to faster types that would stand idle, where the restart is worth it; says whether any moved.
    fn upgrade(&self, candidates: &[Candidate], room: &mut impl Room, chosen: &mut [Option<usize>]) -> bool {
        let mut moved = false;
        for (i, (candidate, chosen)) in candidates.iter().zip(chosen).enumerate().filter(|_| self.moves_up) {
            let Some(j) = *chosen else { continue };
            if candidate.running.is_some() && !candidate.movable {
                continue;
            }
            let speeds = &candidate.speeds;
            let keeps = if candidate.runs_on(j) { self.after_restart() } else { 1.0 };
            let faster = best_first(speeds, |to| speeds[to] * keeps > speeds[j], |to| speeds[to]);
            if let Some(to) = faster.into_iter().find(|&to| room.shift(i, j, to)) {
                *chosen = Some(to);
                moved = true;
            }
        }
        moved
    }
}

/// The types that qualify, the one worth most first, on a tie the later one.
fn best_first(speeds: &[f64], qualifies: impl Fn(usize) -> bool, worth: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut types: Vec<usize> = (0..speeds.len()).rev().filter(|&j| qualifies(j)).collect();
    types.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
    types
}

/// What a choice of types is made over.
pub trait Room {
    /// Gives a job GPUs of a type, if it has them.
    fn take(&mut self, candidate: usize, gpu_type: usize) -> bool;

    /// Gives a job GPUs of another type for those it was given, if it has them.
    fn shift(&mut self, candidate: usize, from: usize, to: usize) -> bool;

    /// Gives one of two that were given GPUs together (`goes`, the first or the second) others of its own, if it has them.
    fn part(&mut self, candidate: usize, goes: usize, to: usize) -> bool {
        let _ = (candidate, goes, to);
        false
    }

    /// Puts one of two that was given nothing beside the other, which has GPUs of this type alone, if that may be.
    fn join(&mut self, candidate: usize, gpu_type: usize) -> bool {
        let _ = (candidate, gpu_type);
        false
    }
}

/// So many free GPUs of each type, wherever they are.
struct Totals<'a> {
    free: Vec<u32>,
    candidates: &'a [Candidate],
}

impl Room for Totals<'_> {
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

    /// Time received over time owed, all types together.
    fn served(&self, round_s: f64) -> f64 {
        (self.received_s.iter().sum::<f64>() + 0.5 * round_s)
            / (self.owed_s.iter().sum::<f64>() + 0.5 * round_s)
    }

    /// Its speed in a placement.
    pub fn speed_in(&self, placement: &Placement) -> f64 {
        let spread = self.spread_speeds.as_ref().filter(|_| placement.servers.len() > 1);
        spread.unwrap_or(&self.speeds)[placement.gpu_type]
    }
}
