//! Gavel's round mechanism, reproduced step by step from its simulator, defects included. It proves our accounting
//! equal to the published one: given the recorded allocations and type orders, it reproduces every completion time
//! exactly. For comparison only.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Job of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceJob {
    /// Arrival in seconds.
    pub arrival_s: f64,
    /// Total steps.
    pub steps: u64,
    /// GPUs it needs at once.
    pub gpus: u32,
    /// Steps a second on each type.
    pub throughputs: Vec<f64>,
}

/// Recorded run: allocations in order, and the order in which each round visited the types.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Allocations: shares per type of the active jobs.
    pub allocations: Vec<BTreeMap<usize, Vec<f64>>>,
    /// Types in the order visited, a list per round.
    pub type_orders: Vec<Vec<usize>>,
}

/// Settings of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Length of a round.
    pub round_s: f64,
    /// Least time between two allocations.
    pub reset_s: f64,
    /// Whether jobs without a share fill leftover capacity; false under first in, first out.
    pub fill: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { round_s: 360.0, reset_s: 1920.0, fill: true }
    }
}

/// Data that a replay needs and the recording lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// More rounds than type orders.
    #[error("round {0} has no recorded type order")]
    NoOrder(usize),
    /// More resets than allocations.
    #[error("reset {0} has no recorded allocation")]
    NoAllocation(usize),
}

/// Consecutive failures after which a job is dropped.
const MAX_FAILURES: u32 = 5;

#[derive(Debug, Clone)]
struct ActiveJob {
    job: usize,
    left: u64,
    time: Vec<f64>,
    deficit: Vec<f64>,
    failures: u32,
}

/// Run of one job in a round.
#[derive(Debug, Clone, Copy)]
struct RoundRun {
    job: usize,
    gpu_type: usize,
    steps: u64,
    finish: f64,
}

struct Replay<'a> {
    trace: &'a [TraceJob],
    counts: &'a [u32],
    settings: Settings,
    active: Vec<ActiveJob>,
    total: Vec<f64>,
    shares: BTreeMap<usize, Vec<f64>>,
    done: Vec<Option<f64>>,
}

/// Completion time of every job (finish minus arrival), or `None` where it was dropped.
pub fn replay(
    trace: &[TraceJob],
    counts: &[u32],
    recording: &Recording,
    settings: Settings,
) -> Result<Vec<Option<f64>>, ReplayError> {
    let mut replay = Replay {
        trace,
        counts,
        settings,
        active: Vec::new(),
        total: vec![0.0; counts.len()],
        shares: BTreeMap::new(),
        done: vec![None; trace.len()],
    };
    let mut arrivals: Vec<usize> = (0..trace.len()).collect();
    arrivals.sort_by(|&a, &b| trace[a].arrival_s.total_cmp(&trace[b].arrival_s));
    let mut arrivals = arrivals.into_iter().peekable();
    let (mut now, mut last_reset, mut changed) = (0.0_f64, 0.0_f64, false);
    let (mut resets, mut round) = (0, 0);
    let mut running: Vec<RoundRun> = Vec::new();
    loop {
        // 1. Advance.
        let start = now;
        match running.iter().map(|run| run.finish).max_by(f64::total_cmp) {
            Some(finish) => now = finish,
            None => match arrivals.peek() {
                Some(&job) => now = trace[job].arrival_s,
                None if replay.active.is_empty() => return Ok(replay.done),
                None => last_reset = 0.0,
            },
        }
        // 2. Account.
        running.sort_by(|a, b| b.finish.total_cmp(&a.finish));
        for run in running.drain(..) {
            changed |= replay.account(run, start);
        }
        // 3. Admit.
        while let Some(job) = arrivals.next_if(|&job| trace[job].arrival_s <= now) {
            replay.admit(job);
            changed = true;
        }
        if replay.active.is_empty() {
            continue;
        }
        // 4. Reset.
        if changed && (now - last_reset >= settings.reset_s || last_reset == 0.0) {
            let next = recording.allocations.get(resets).ok_or(ReplayError::NoAllocation(resets))?;
            replay.reset(now - last_reset, next);
            (last_reset, changed) = (now, false);
            resets += 1;
        }
        // 5. to 7. Choose by priority, and run.
        let order = recording.type_orders.get(round).ok_or(ReplayError::NoOrder(round))?;
        running = replay.choose(order, now);
        round += 1;
    }
}

impl Replay<'_> {
    fn admit(&mut self, job: usize) {
        let (half, types) = (self.settings.round_s / 2.0, self.counts.len());
        self.total.iter_mut().for_each(|total| *total += half);
        let left = self.trace[job].steps;
        self.active.push(ActiveJob {
            job,
            left,
            time: vec![half; types],
            deficit: vec![0.0; types],
            failures: 0,
        });
    }

    /// Accounts a run; returns whether the job ended or failed.
    fn account(&mut self, run: RoundRun, round_start: f64) -> bool {
        let Some(place) = self.active.iter().position(|active| active.job == run.job) else { return false };
        let job = &self.trace[run.job];
        let executed = run.finish - round_start;
        let active = &mut self.active[place];
        // Steps are split evenly over the GPUs, the last takes the remainder: with fewer steps than GPUs some get
        // none, which counts as a failure.
        let failed = run.steps / u64::from(job.gpus) == 0 || executed <= 0.0;
        if failed {
            active.failures += 1;
            if active.failures >= MAX_FAILURES {
                self.active.remove(place);
            }
            return true;
        }
        active.failures = 0;
        active.left -= run.steps;
        active.time[run.gpu_type] += executed;
        self.total[run.gpu_type] += executed;
        if active.left > 0 {
            return false;
        }
        self.done[run.job] = Some(run.finish - job.arrival_s);
        self.active.remove(place);
        true
    }

    fn reset(&mut self, elapsed: f64, next: &BTreeMap<usize, Vec<f64>>) {
        let half = self.settings.round_s / 2.0;
        for (w, total) in self.total.iter_mut().enumerate() {
            *total = 0.0;
            for active in &mut self.active {
                let share = self.shares.get(&active.job).map_or(0.0, |shares| shares[w]);
                active.deficit[w] += share * elapsed - (active.time[w] - half);
                active.time[w] = half;
                *total += half;
            }
        }
        self.shares.clone_from(next);
    }

    fn share(&self, active: &ActiveJob, w: usize) -> f64 {
        self.shares.get(&active.job).map_or(0.0, |shares| shares[w])
    }

    fn priority(&self, active: &ActiveJob, w: usize) -> f64 {
        let share = self.share(active, w);
        if share == 0.0 || self.trace[active.job].throughputs[w] == 0.0 {
            return 0.0;
        }
        let received = if self.total[w] == 0.0 { 0.0 } else { active.time[w] / self.total[w] };
        if received == 0.0 { share * 1e9 } else { share / received }
    }

    fn choose(&self, order: &[usize], now: f64) -> Vec<RoundRun> {
        let mut taken = vec![false; self.active.len()];
        let mut runs = Vec::new();
        for &w in order {
            let mut free = self.counts[w];
            let key = |i: &usize| {
                let active = &self.active[*i];
                (self.priority(active, w), active.deficit[w], self.share(active, w))
            };
            let mut queue: Vec<(usize, (f64, f64, f64))> =
                (0..self.active.len()).filter(|&i| !taken[i]).map(|i| (i, key(&i))).collect();
            queue.sort_by(|(_, a), (_, b)| {
                let one = b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1));
                one.then(b.2.total_cmp(&a.2))
            });
            for (i, (priority, ..)) in queue {
                let active = &self.active[i];
                let job = &self.trace[active.job];
                let speed = job.throughputs[w];
                if priority == 0.0 && !self.settings.fill {
                    break;
                }
                if free == 0 || job.gpus > free || speed == 0.0 {
                    continue;
                }
                free -= job.gpus;
                taken[i] = true;
                // A job without an allocation occupies GPUs and does not run: that is the published behaviour.
                if self.shares.contains_key(&active.job) {
                    let steps = active.left.min((speed * self.settings.round_s).floor() as u64);
                    runs.push(RoundRun {
                        job: active.job,
                        gpu_type: w,
                        steps,
                        finish: now + steps as f64 / speed,
                    });
                }
            }
        }
        runs.sort_by_key(|run| Reverse(run.job));
        runs
    }
}
