//! Our rounds over a trace: targets are solved anew when jobs come or go, the round mechanism carries them out, new
//! jobs run at once, and GPUs that a job leaves early are filled before the round ends. Two jobs that share GPUs are a
//! candidate of their own, with time owed and received of its own; `units` says who can be chosen.

mod units;

use std::collections::BTreeMap;

use super::gavel::TraceJob;
use super::{Candidate, Placement, Rounds, Server};
use crate::answer::{PairShare, Shares};
use crate::goal::{Options, Placing, SolveError};
use crate::goals::isolated::alone;
use crate::instance::{GpuType, Instance, Job};
use crate::problem::Problem;
use crate::table::{Profile, ThroughputTable};
use crate::{Types, goal};
use units::Units;

/// A job of a trace, and what the scheduler is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// What it is and how fast it really runs.
    pub job: TraceJob,
    /// The name pairs are looked up by.
    pub profile: Option<String>,
    /// Steps a second as the scheduler is told; what is true, where none are given.
    pub told: Option<Vec<f64>>,
    /// Steps a second with its GPUs spread over servers; the same as together, where none are given.
    pub spread: Option<Vec<f64>>,
}

impl From<TraceJob> for Work {
    fn from(job: TraceJob) -> Self {
        Self { job, profile: None, told: None, spread: None }
    }
}

/// What a trace runs on.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// The types.
    pub types: &'a [GpuType],
    /// The machines.
    pub servers: &'a [Server],
    /// How fast two jobs are that share GPUs, where they may.
    pub pairs: Option<&'a ThroughputTable>,
    /// The same as the scheduler is told; what is true, where nothing else is said.
    pub told_pairs: Option<&'a ThroughputTable>,
    /// Whether the scheduler knows that jobs wider than a machine are slower.
    pub placing: Placing,
    /// How rounds are run.
    pub rounds: Rounds,
}

impl<'a> Cluster<'a> {
    /// These machines, in rounds as they are unless said otherwise, where nobody shares and it does not matter where GPUs are.
    pub fn new(types: &'a [GpuType], servers: &'a [Server]) -> Self {
        let (placing, rounds) = (Placing::Ignored, Rounds::default());
        Self { types, servers, pairs: None, told_pairs: None, placing, rounds }
    }

    /// The speeds the scheduler goes by.
    fn told(&self, work: &Work) -> Vec<f64> {
        let mut told = work.told.as_ref().unwrap_or(&work.job.throughputs).clone();
        if let (Placing::Modelled, Some(spread)) = (self.placing, &work.spread) {
            for (j, speed) in told.iter_mut().enumerate() {
                let machines = self.servers.iter().filter(|server| server.gpu_type == j);
                if machines.map(|server| server.gpus).max().is_some_and(|largest| work.job.gpus > largest) {
                    *speed = spread[j];
                }
            }
        }
        told
    }
}

/// What a solver aims at.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// Each job's share of time on each type alone.
    pub alone: Shares,
    /// Shares of time in pairs.
    pub pairs: Vec<PairShare>,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Every job's completion time: its end less its arrival.
    pub completion_s: Vec<f64>,
    /// When the last job ended.
    pub makespan_s: f64,
    /// How often a job was started on other GPUs than it last ran on, its first start not counted.
    pub restarts: usize,
    /// How often targets were solved.
    pub solves: usize,
    /// Every job's steps over those its targets promised it for the time it was there.
    pub kept: Vec<f64>,
}

impl Outcome {
    /// The mean completion time.
    pub fn average_completion_s(&self) -> f64 {
        self.completion_s.iter().sum::<f64>() / self.completion_s.len().max(1) as f64
    }

    /// The part of what it was promised that all but one job in ten got at least.
    pub fn kept_to_most(&self) -> f64 {
        let mut kept = self.kept.clone();
        kept.sort_unstable_by(f64::total_cmp);
        kept.get(kept.len() / 10).copied().unwrap_or(1.0)
    }
}

/// A job that has come and not yet ended.
struct Live {
    id: usize,
    left: f64,
    isolated_s: f64,
    /// Speed alone and steps left when targets were last solved.
    since_solve: (f64, f64),
    /// Seconds of a restart still to go.
    restarting_s: f64,
    /// Steps it was promised so far.
    promised: f64,
    last: Option<Placement>,
    /// The job it shares its GPUs with.
    beside: Option<usize>,
    candidate: Candidate,
}

/// What two jobs are owed and have had together.
#[derive(Debug, Clone)]
struct Account {
    shares: Vec<f64>,
    owed_s: Vec<f64>,
    received_s: Vec<f64>,
}

/// Runs a trace to its end, its targets given by `solve`.
pub fn simulate(
    trace: &[Work],
    cluster: Cluster<'_>,
    mut solve: impl FnMut(&Instance) -> Result<Targets, SolveError>,
) -> Result<Outcome, SolveError> {
    let mut order: Vec<usize> = (0..trace.len()).collect();
    let arrival = |job: usize| trace[job].job.arrival_s;
    order.sort_by(|&a, &b| arrival(a).total_cmp(&arrival(b)));
    let mut arrivals = order.into_iter().peekable();
    let mut run = Run {
        trace,
        cluster,
        live: Vec::new(),
        together: BTreeMap::new(),
        table: cluster.told_pairs.or(cluster.pairs).cloned(),
        restarts: 0,
    };
    let mut outcome = Outcome {
        completion_s: vec![0.0; trace.len()],
        makespan_s: 0.0,
        restarts: 0,
        solves: 0,
        kept: vec![1.0; trace.len()],
    };
    let (mut now, mut round_end) = (0.0_f64, 0.0_f64);
    loop {
        let mut changed = false;
        while let Some(job) = arrivals.next_if(|&job| arrival(job) <= now) {
            run.live.push(Live::new(job, &trace[job], cluster.told(&trace[job])));
            changed = true;
        }
        changed |= run.retire(|live| {
            outcome.completion_s[live.id] = now - arrival(live.id);
            outcome.kept[live.id] = trace[live.id].job.steps as f64 / live.promised.max(1e-9);
        });
        if run.live.is_empty() {
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
            run.aim(now, &mut solve)?;
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

struct Run<'a> {
    trace: &'a [Work],
    cluster: Cluster<'a>,
    live: Vec<Live>,
    /// Pairs by the numbers of their jobs, the smaller first.
    together: BTreeMap<(usize, usize), Account>,
    /// The instance's table of pairs, kept here between solves.
    table: Option<ThroughputTable>,
    restarts: usize,
}

impl Live {
    fn new(id: usize, work: &Work, told: Vec<f64>) -> Self {
        let steps = work.job.steps as f64;
        let types = work.job.throughputs.len();
        Self {
            id,
            left: steps,
            isolated_s: 0.0,
            since_solve: (0.0, steps),
            restarting_s: 0.0,
            promised: 0.0,
            last: None,
            beside: None,
            candidate: Candidate {
                gpus: work.job.gpus,
                speeds: told,
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

impl Run<'_> {
    /// Steps a second of a job beside another on a type.
    fn beside(&self, job: usize, other: usize, gpu_type: usize) -> f64 {
        let (one, two) = (&self.trace[job], &self.trace[other]);
        let profile = |work: &Work| Some(Profile { name: work.profile.clone()?, gpus: work.job.gpus });
        let found = self.cluster.pairs.and_then(|table| {
            table.together(&self.cluster.types[gpu_type].name, &profile(one)?, &profile(two)?)
        });
        found.map_or(0.0, |both| both[0])
    }

    /// How fast a job really runs now.
    fn speed(&self, live: &Live) -> f64 {
        let Some(placement) = &live.candidate.running else { return 0.0 };
        if let Some(other) = live.beside {
            return self.beside(live.id, other, placement.gpu_type);
        }
        let Work { job, spread, .. } = &self.trace[live.id];
        let spread = spread.as_ref().filter(|_| placement.servers.len() > 1);
        spread.unwrap_or(&job.throughputs)[placement.gpu_type]
    }

    /// Takes out the jobs that have ended; says whether any has.
    fn retire(&mut self, mut ended: impl FnMut(&Live)) -> bool {
        let mut gone = Vec::new();
        self.live.retain(|live| {
            let going = live.left > 1e-6;
            if !going {
                ended(live);
                gone.push(live.id);
            }
            going
        });
        self.together.retain(|(a, b), _| !gone.contains(a) && !gone.contains(b));
        for live in &mut self.live {
            live.beside = live.beside.filter(|other| !gone.contains(other));
        }
        !gone.is_empty()
    }

    /// Solves for new targets.
    fn aim(
        &mut self,
        now: f64,
        solve: &mut impl FnMut(&Instance) -> Result<Targets, SolveError>,
    ) -> Result<(), SolveError> {
        for live in &mut self.live {
            let (speed, left) = live.since_solve;
            if speed > 0.0 {
                live.isolated_s += (left - live.left) / speed;
            }
        }
        let job = |live: &Live| Job {
            gpus: live.candidate.gpus,
            profile: self.trace[live.id].profile.clone(),
            steps: Some(live.left),
            age_s: now - self.trace[live.id].job.arrival_s,
            isolated_time_s: live.isolated_s,
            ..Job::new(live.id as u64, live.candidate.speeds.clone())
        };
        let jobs = self.live.iter().map(job).collect();
        let types = self.cluster.types.to_vec();
        let mut instance = Instance { types, jobs, pairs: self.table.take(), entities: None };
        let targets = solve(&instance);
        self.table = instance.pairs.take();
        let targets = targets?;
        let problem = Problem::new(&instance, Types::Aware);
        let isolated = alone(&problem);
        for (m, live) in self.live.iter_mut().enumerate() {
            live.candidate.shares = targets.alone.job(m).to_vec();
            live.since_solve = (problem.throughput(m, &isolated), live.left);
        }
        let nothing = vec![0.0; self.cluster.types.len()];
        self.together.values_mut().for_each(|account| account.shares.clone_from(&nothing));
        for pair in targets.pairs {
            let [a, b] = pair.jobs.map(|m| self.live[m].id);
            let fresh =
                || Account { shares: nothing.clone(), owed_s: nothing.clone(), received_s: nothing.clone() };
            self.together.entry((a.min(b), a.max(b))).or_insert_with(fresh).shares = pair.shares;
        }
        Ok(())
    }

    /// Decides who runs where. Between rounds only what is free is given out.
    fn assign(&mut self, boundary: bool) {
        let placed = Units::new(self, boundary).place(self);
        for (i, (placement, beside)) in placed.into_iter().enumerate() {
            let live = &mut self.live[i];
            if placement.is_some() && placement != live.last {
                live.restarting_s = self.cluster.rounds.restart_s;
                self.restarts += usize::from(live.last.is_some());
            }
            if placement.is_some() {
                live.last.clone_from(&placement);
            }
            (live.candidate.running, live.beside) = (placement, beside);
        }
    }

    fn next_end(&self, now: f64) -> f64 {
        let remaining = |live: &Live| {
            let speed = self.speed(live);
            if speed > 0.0 { live.restarting_s + live.left / speed } else { f64::INFINITY }
        };
        now + self.live.iter().map(remaining).fold(f64::INFINITY, f64::min)
    }

    fn advance(&mut self, seconds: f64) {
        let speeds: Vec<f64> = self.live.iter().map(|live| self.speed(live)).collect();
        self.promise(seconds);
        for (live, speed) in self.live.iter_mut().zip(speeds) {
            let Some(gpu_type) = live.candidate.running.as_ref().map(|placement| placement.gpu_type) else {
                continue;
            };
            match live.beside {
                None => live.candidate.received_s[gpu_type] += seconds,
                // Once for the two.
                Some(other) if live.id < other => {
                    if let Some(account) = self.together.get_mut(&(live.id, other)) {
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

    /// Books what the targets promise for the next seconds.
    fn promise(&mut self, seconds: f64) {
        for live in &mut self.live {
            for (owed, share) in live.candidate.owed_s.iter_mut().zip(&live.candidate.shares) {
                *owed += share * seconds;
            }
            let speed: f64 =
                live.candidate.shares.iter().zip(&live.candidate.speeds).map(|(x, t)| x * t).sum();
            live.promised += speed * seconds;
        }
        let mut more = Vec::new();
        for (&(a, b), account) in &mut self.together {
            account.owed_s.iter_mut().zip(&account.shares).for_each(|(owed, share)| *owed += share * seconds);
            for (j, share) in account.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                more.extend([(a, b, j, share * seconds), (b, a, j, share * seconds)]);
            }
        }
        for (job, other, j, time) in more {
            let speed = self.beside(job, other, j);
            if let Some(live) = self.live.iter_mut().find(|live| live.id == job) {
                live.promised += speed * time;
            }
        }
    }
}

/// A solver for [`simulate`] that follows a goal of the registry.
pub fn by_goal(name: &'static str, options: Options) -> impl FnMut(&Instance) -> Result<Targets, SolveError> {
    move |instance| {
        let goal = goal(name).ok_or(SolveError::NoSuchGoal { goal: name })?;
        let answer = goal.solve(instance, options)?;
        Ok(Targets { alone: answer.allocation, pairs: answer.pairs })
    }
}
