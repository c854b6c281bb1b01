//! Carrying shares out in rounds: who runs where next, so that over time every job gets its share of every type. A pure
//! function of who waits, who runs where and what each was owed and has received; time, restarts and progress are the
//! caller's. `gavel` is the published mechanism, kept for comparison; `simulate` runs ours over a trace.

pub mod gavel;
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
}

impl Default for Rounds {
    fn default() -> Self {
        Self { round_s: 360.0, restart_s: 0.0, priced: true }
    }
}

impl Rounds {
    /// The part of a round that counts as left to a job that starts in it.
    fn after_restart(&self) -> f64 {
        if self.priced { (1.0 - self.restart_s / self.round_s).max(0.0) } else { 1.0 }
    }

    /// Who runs where in the round that begins: highest priority first, never more than fits, jobs that run stay where
    /// they are when they can, a job's GPUs on as few servers as possible, and what is left goes to whoever can use it.
    ///
    /// A job's priority on a type is what it is owed there over what it has received: under a steady target its share
    /// over its share of time received. A job that would have to start counts for the part of the round its restart
    /// leaves it, so that it takes over only where that is worth the restart.
    pub fn next(&self, servers: &[Server], candidates: &[Candidate]) -> Vec<Option<Placement>> {
        let types =
            candidates.iter().map(|c| c.speeds.len()).chain(servers.iter().map(|s| s.gpu_type + 1)).max();
        let types = types.unwrap_or(0);
        let mut free = vec![0; types];
        servers.iter().for_each(|server| free[server.gpu_type] += server.gpus);
        let mut chosen: Vec<Option<usize>> = vec![None; candidates.len()];
        for (candidate, chosen) in candidates.iter().zip(&mut chosen) {
            if let Some(running) = candidate.running.as_ref().filter(|_| !candidate.movable) {
                free[running.gpu_type] -= candidate.gpus;
                *chosen = Some(running.gpu_type);
            }
        }
        for (_, i, j) in self.by_priority(candidates) {
            if chosen[i].is_none() && candidates[i].gpus <= free[j] {
                free[j] -= candidates[i].gpus;
                chosen[i] = Some(j);
            }
        }
        // Whoever moves up leaves room for others; every move makes a job faster, so this ends.
        self.fill(candidates, &mut free, &mut chosen);
        while self.upgrade(candidates, &mut free, &mut chosen) {
            self.fill(candidates, &mut free, &mut chosen);
        }
        Servers::new(servers).place(candidates, &chosen)
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

    /// Gives what is left to jobs that were not chosen, those who got least of what they are owed first.
    fn fill(&self, candidates: &[Candidate], free: &mut [u32], chosen: &mut [Option<usize>]) {
        let mut rest: Vec<(f64, usize)> = (0..candidates.len())
            .filter(|&i| chosen[i].is_none())
            .map(|i| (candidates[i].served(self.round_s), i))
            .collect();
        rest.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, i) in rest {
            let candidate = &candidates[i];
            let fits = |&j: &usize| candidate.speeds[j] > 0.0 && candidate.gpus <= free[j];
            let worth = |j: usize| {
                candidate.speeds[j] * if candidate.runs_on(j) { 1.0 } else { self.after_restart() }
            };
            let best = (0..free.len()).filter(fits).max_by(|&a, &b| worth(a).total_cmp(&worth(b)));
            if let Some(j) = best {
                free[j] -= candidate.gpus;
                chosen[i] = Some(j);
            }
        }
    }

    /// Moves jobs to faster types that would stand idle, where the restart is worth it; says whether any moved.
    fn upgrade(&self, candidates: &[Candidate], free: &mut [u32], chosen: &mut [Option<usize>]) -> bool {
        let mut moved = false;
        for (candidate, chosen) in candidates.iter().zip(chosen) {
            let Some(j) = *chosen else { continue };
            if candidate.running.is_some() && !candidate.movable {
                continue;
            }
            let speed = candidate.speeds[j];
            let keeps = if candidate.runs_on(j) { self.after_restart() } else { 1.0 };
            let faster = (0..candidate.speeds.len())
                .filter(|&i| candidate.gpus <= free[i] && candidate.speeds[i] * keeps > speed)
                .max_by(|&a, &b| candidate.speeds[a].total_cmp(&candidate.speeds[b]));
            if let Some(i) = faster {
                free[i] -= candidate.gpus;
                free[j] += candidate.gpus;
                *chosen = Some(i);
                moved = true;
            }
        }
        moved
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
