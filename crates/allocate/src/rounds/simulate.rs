//! Round scheduling over a trace: targets are solved for again whenever jobs arrive or end, the round scheduler
//! realises them, new jobs start at once, and GPUs freed early are filled before the round ends. Two jobs that share
//! GPUs are a candidate of their own (`units`).

mod units;

use std::collections::BTreeMap;

use super::gavel::TraceJob;
use super::{Candidate, Placement, RoundScheduler, Server};
use crate::goal::{Options, PlacementModel, SolveError};
use crate::goals::isolated::isolated_shares;
use crate::instance::{GpuType, Instance, Job};
use crate::problem::Problem;
use crate::solution::{PairShare, Shares};
use crate::table::{Profile, ThroughputTable};
use crate::{TypeAwareness, goal};
use units::Units;

/// Job of a trace, and the speeds reported to the scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedJob {
    /// Job with its true speeds.
    pub job: TraceJob,
    /// Profile by which pairs are looked up.
    pub profile: Option<String>,
    /// Reported steps per second; `None` for the true ones.
    pub reported: Option<Vec<f64>>,
    /// Steps per second with its GPUs spread over servers; `None` means no difference.
    pub spread: Option<Vec<f64>>,
}

impl From<TraceJob> for SimulatedJob {
    fn from(job: TraceJob) -> Self {
        Self { job, profile: None, reported: None, spread: None }
    }
}

/// Cluster that a trace runs on.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// GPU types.
    pub types: &'a [GpuType],
    /// Machines.
    pub servers: &'a [Server],
    /// True throughputs of pairs; `None` where sharing is not allowed.
    pub pairs: Option<&'a ThroughputTable>,
    /// Reported throughputs of pairs; `None` for the true ones.
    pub reported_pairs: Option<&'a ThroughputTable>,
    /// Whether the scheduler knows that jobs wider than a machine are slower.
    pub placement_model: PlacementModel,
    /// Round scheduler.
    pub rounds: RoundScheduler,
}

impl<'a> Cluster<'a> {
    /// Cluster with default rounds, no sharing and no placement model.
    pub fn new(types: &'a [GpuType], servers: &'a [Server]) -> Self {
        let (placement_model, rounds) = (PlacementModel::Ignored, RoundScheduler::default());
        Self { types, servers, pairs: None, reported_pairs: None, placement_model, rounds }
    }

    /// Speeds that the scheduler sees.
    fn reported(&self, job: &SimulatedJob) -> Vec<f64> {
        let mut reported = job.reported.as_ref().unwrap_or(&job.job.throughputs).clone();
        if let (PlacementModel::Modelled, Some(spread)) = (self.placement_model, &job.spread) {
            for (j, speed) in reported.iter_mut().enumerate() {
                let machines = self.servers.iter().filter(|server| server.gpu_type == j);
                if machines.map(|server| server.gpus).max().is_some_and(|largest| job.job.gpus > largest) {
                    *speed = spread[j];
                }
            }
        }
        reported
    }
}

/// Target shares of a solver.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// Share of time of each job alone on each type.
    pub alone: Shares,
    /// Shares of time in pairs.
    pub pairs: Vec<PairShare>,
}

/// Result of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Completion time of every job: end minus arrival.
    pub completion_s: Vec<f64>,
    /// End of the last job.
    pub makespan_s: f64,
    /// Starts on other GPUs than a job last ran on, first starts excluded.
    pub restarts: usize,
    /// Number of solves.
    pub solves: usize,
    /// Steps of every job over those its targets promised while it was active.
    pub delivered: Vec<f64>,
}

impl Outcome {
    /// Mean completion time.
    pub fn average_completion_s(&self) -> f64 {
        self.completion_s.iter().sum::<f64>() / self.completion_s.len().max(1) as f64
    }

    /// Tenth percentile of the delivered fraction: nine jobs in ten got at least this.
    pub fn delivered_p10(&self) -> f64 {
        let mut delivered = self.delivered.clone();
        delivered.sort_unstable_by(f64::total_cmp);
        delivered.get(delivered.len() / 10).copied().unwrap_or(1.0)
    }
}

/// Job that has arrived and not ended.
struct ActiveJob {
    id: usize,
    left: f64,
    isolated_s: f64,
    /// Isolated speed and remaining steps at the last solve.
    since_solve: (f64, f64),
    /// Remaining seconds of a restart.
    restarting_s: f64,
    /// Steps promised so far.
    promised: f64,
    last: Option<Placement>,
    /// Job it shares GPUs with.
    partner: Option<usize>,
    candidate: Candidate,
}

/// Time owed to and received by a pair.
#[derive(Debug, Clone)]
struct PairAccount {
    shares: Vec<f64>,
    owed_s: Vec<f64>,
    received_s: Vec<f64>,
}

/// Simulates a trace to its end with targets from `solve`.
pub fn simulate(
    trace: &[SimulatedJob],
    cluster: Cluster<'_>,
    mut solve: impl FnMut(&Instance) -> Result<Targets, SolveError>,
) -> Result<Outcome, SolveError> {
    let mut order: Vec<usize> = (0..trace.len()).collect();
    let arrival = |job: usize| trace[job].job.arrival_s;
    order.sort_by(|&a, &b| arrival(a).total_cmp(&arrival(b)));
    let mut arrivals = order.into_iter().peekable();
    let mut run = Simulation {
        trace,
        cluster,
        active: Vec::new(),
        pair_accounts: BTreeMap::new(),
        table: cluster.reported_pairs.or(cluster.pairs).cloned(),
        restarts: 0,
    };
    let mut outcome = Outcome {
        completion_s: vec![0.0; trace.len()],
        makespan_s: 0.0,
        restarts: 0,
        solves: 0,
        delivered: vec![1.0; trace.len()],
    };
    let (mut now, mut round_end) = (0.0_f64, 0.0_f64);
    loop {
        let mut changed = false;
        while let Some(job) = arrivals.next_if(|&job| arrival(job) <= now) {
            run.active.push(ActiveJob::new(job, &trace[job], cluster.reported(&trace[job])));
            changed = true;
        }
        changed |= run.retire(|live| {
            outcome.completion_s[live.id] = now - arrival(live.id);
            outcome.delivered[live.id] = trace[live.id].job.steps as f64 / live.promised.max(1e-9);
        });
        if run.active.is_empty() {
            match arrivals.peek() {
                None => return Ok(Outcome { makespan_s: now, restarts: run.restarts, ..outcome }),
                Some(&next) => {
                    now = arrival(next);
                    round_end = now;
                    continue;
                }
            }
        }
        if changed {
            run.solve_targets(now, &mut solve)?;
            outcome.solves += 1;
        }
        let boundary = now >= round_end;
        if boundary {
            round_end = now + cluster.rounds.round_s;
        }
        if boundary || changed {
            run.assign(boundary);
        }
        let next_arrival = arrivals.peek().map_or(f64::INFINITY, |&job| arrival(job));
        let until = run.next_end(now).min(round_end).min(next_arrival);
        run.advance(until - now);
        now = until;
    }
}

struct Simulation<'a> {
    trace: &'a [SimulatedJob],
    cluster: Cluster<'a>,
    active: Vec<ActiveJob>,
    /// Pairs by their job numbers, the smaller first.
    pair_accounts: BTreeMap<(usize, usize), PairAccount>,
    /// Pair table of the instance, moved back and forth between solves.
    table: Option<ThroughputTable>,
    restarts: usize,
}

impl ActiveJob {
    fn new(id: usize, job: &SimulatedJob, reported: Vec<f64>) -> Self {
        let steps = job.job.steps as f64;
        let types = job.job.throughputs.len();
        Self {
            id,
            left: steps,
            isolated_s: 0.0,
            since_solve: (0.0, steps),
            restarting_s: 0.0,
            promised: 0.0,
            last: None,
            partner: None,
            candidate: Candidate {
                gpus: job.job.gpus,
                speeds: reported,
                spread_speeds: None,
                shares: vec![0.0; types],
                owed_s: vec![0.0; types],
                received_s: vec![0.0; types],
                running: None,
                movable: true,
            },
        }
    }
}

impl Simulation<'_> {
    /// True steps per second of a job beside another on a type.
    fn paired_speed(&self, job: usize, other: usize, gpu_type: usize) -> f64 {
        let (one, two) = (&self.trace[job], &self.trace[other]);
        let profile = |job: &SimulatedJob| Some(Profile { name: job.profile.clone()?, gpus: job.job.gpus });
        let found = self.cluster.pairs.and_then(|table| {
            table.paired(&self.cluster.types[gpu_type].name, &profile(one)?, &profile(two)?)
        });
        found.map_or(0.0, |both| both[0])
    }

    /// Current true speed of a job.
    fn speed(&self, live: &ActiveJob) -> f64 {
        let Some(placement) = &live.candidate.running else { return 0.0 };
        if let Some(other) = live.partner {
            return self.paired_speed(live.id, other, placement.gpu_type);
        }
        let SimulatedJob { job, spread, .. } = &self.trace[live.id];
        let spread = spread.as_ref().filter(|_| placement.servers.len() > 1);
        spread.unwrap_or(&job.throughputs)[placement.gpu_type]
    }

    /// Removes ended jobs; returns whether there were any.
    fn retire(&mut self, mut ended: impl FnMut(&ActiveJob)) -> bool {
        let mut gone = Vec::new();
        self.active.retain(|live| {
            let going = live.left > 1e-6;
            if !going {
                ended(live);
                gone.push(live.id);
            }
            going
        });
        self.pair_accounts.retain(|(a, b), _| !gone.contains(a) && !gone.contains(b));
        for live in &mut self.active {
            live.partner = live.partner.filter(|other| !gone.contains(other));
        }
        !gone.is_empty()
    }

    /// Solves for new targets.
    fn solve_targets(
        &mut self,
        now: f64,
        solve: &mut impl FnMut(&Instance) -> Result<Targets, SolveError>,
    ) -> Result<(), SolveError> {
        for live in &mut self.active {
            let (speed, left) = live.since_solve;
            if speed > 0.0 {
                live.isolated_s += (left - live.left) / speed;
            }
        }
        let job = |live: &ActiveJob| Job {
            gpus: live.candidate.gpus,
            profile: self.trace[live.id].profile.clone(),
            steps: Some(live.left),
            age_s: now - self.trace[live.id].job.arrival_s,
            isolated_time_s: live.isolated_s,
            ..Job::new(live.id as u64, live.candidate.speeds.clone())
        };
        let jobs = self.active.iter().map(job).collect();
        let types = self.cluster.types.to_vec();
        let mut instance = Instance { types, jobs, pairs: self.table.take(), entities: None };
        let targets = solve(&instance);
        self.table = instance.pairs.take();
        let targets = targets?;
        let problem = Problem::new(&instance, TypeAwareness::Aware);
        let isolated = isolated_shares(&problem);
        for (m, live) in self.active.iter_mut().enumerate() {
            live.candidate.shares = targets.alone.job(m).to_vec();
            live.since_solve = (problem.throughput(m, &isolated), live.left);
        }
        let nothing = vec![0.0; self.cluster.types.len()];
        self.pair_accounts.values_mut().for_each(|account| account.shares.clone_from(&nothing));
        for pair in targets.pairs {
            let [a, b] = pair.jobs.map(|m| self.active[m].id);
            let fresh = || PairAccount {
                shares: nothing.clone(),
                owed_s: nothing.clone(),
                received_s: nothing.clone(),
            };
            self.pair_accounts.entry((a.min(b), a.max(b))).or_insert_with(fresh).shares = pair.shares;
        }
        Ok(())
    }

    /// Assigns placements. Within a round only free capacity is given out.
    fn assign(&mut self, boundary: bool) {
        let placed = Units::new(self, boundary).place(self);
        for (i, (placement, beside)) in placed.into_iter().enumerate() {
            let live = &mut self.active[i];
            if placement.is_some() && placement != live.last {
                live.restarting_s = self.cluster.rounds.restart_s;
                self.restarts += usize::from(live.last.is_some());
            }
            if placement.is_some() {
                live.last.clone_from(&placement);
            }
            (live.candidate.running, live.partner) = (placement, beside);
        }
    }

    fn next_end(&self, now: f64) -> f64 {
        let remaining = |live: &ActiveJob| {
            let speed = self.speed(live);
            if speed > 0.0 { live.restarting_s + live.left / speed } else { f64::INFINITY }
        };
        now + self.active.iter().map(remaining).fold(f64::INFINITY, f64::min)
    }

    fn advance(&mut self, seconds: f64) {
        let speeds: Vec<f64> = self.active.iter().map(|live| self.speed(live)).collect();
        self.accrue_promises(seconds);
        for (live, speed) in self.active.iter_mut().zip(speeds) {
            let Some(gpu_type) = live.candidate.running.as_ref().map(|placement| placement.gpu_type) else {
                continue;
            };
            match live.partner {
                None => live.candidate.received_s[gpu_type] += seconds,
                // Once per pair.
                Some(other) if live.id < other => {
                    if let Some(account) = self.pair_accounts.get_mut(&(live.id, other)) {
                        account.received_s[gpu_type] += seconds;
                    }
                }
                Some(_) => {}
            }
            let restarting = live.restarting_s.min(seconds);
            live.restarting_s -= restarting;
            live.left -= speed * (seconds - restarting);
        }
    }

    /// Accrues what the targets promise for the next seconds.
    fn accrue_promises(&mut self, seconds: f64) {
        for live in &mut self.active {
            for (owed, share) in live.candidate.owed_s.iter_mut().zip(&live.candidate.shares) {
                *owed += share * seconds;
            }
            let speed: f64 =
                live.candidate.shares.iter().zip(&live.candidate.speeds).map(|(x, t)| x * t).sum();
            live.promised += speed * seconds;
        }
        let mut more = Vec::new();
        for (&(a, b), account) in &mut self.pair_accounts {
            account.owed_s.iter_mut().zip(&account.shares).for_each(|(owed, share)| *owed += share * seconds);
            for (j, share) in account.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                more.extend([(a, b, j, share * seconds), (b, a, j, share * seconds)]);
            }
        }
        for (job, other, j, time) in more {
            let speed = self.paired_speed(job, other, j);
            if let Some(live) = self.active.iter_mut().find(|live| live.id == job) {
                live.promised += speed * time;
            }
        }
    }
}

/// Solver for [`simulate`] that follows a goal of the registry.
pub fn by_goal(name: &'static str, options: Options) -> impl FnMut(&Instance) -> Result<Targets, SolveError> {
    move |instance| {
        let goal = goal(name).ok_or(SolveError::UnknownGoal { goal: name })?;
        let answer = goal.solve(instance, options)?;
        Ok(Targets { alone: answer.allocation, pairs: answer.pairs })
    }
}
