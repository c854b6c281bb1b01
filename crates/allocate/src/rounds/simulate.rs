//! Our rounds over a trace: targets are solved anew when jobs come or go, the round mechanism carries them out, new
//! jobs run at once, and GPUs that a job leaves early are filled before the round ends.

use super::gavel::TraceJob;
use super::{Candidate, Placement, Rounds, Server};
use crate::answer::Shares;
use crate::goal::SolveError;
use crate::goals::isolated::alone;
use crate::instance::{GpuType, Instance, Job};
use crate::problem::Problem;
use crate::{Types, goal};

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
}

impl Outcome {
    /// The mean completion time.
    pub fn average_completion_s(&self) -> f64 {
        self.completion_s.iter().sum::<f64>() / self.completion_s.len().max(1) as f64
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
    last: Option<Placement>,
    candidate: Candidate,
}

/// Runs `trace` to its end on `servers`, its targets given by `solve`.
pub fn simulate(
    trace: &[TraceJob],
    types: &[GpuType],
    servers: &[Server],
    rounds: Rounds,
    mut solve: impl FnMut(&Instance) -> Result<Shares, SolveError>,
) -> Result<Outcome, SolveError> {
    let mut order: Vec<usize> = (0..trace.len()).collect();
    order.sort_by(|&a, &b| trace[a].arrival_s.total_cmp(&trace[b].arrival_s));
    let mut arrivals = order.into_iter().peekable();
    let mut run = Run { trace, types, servers, rounds, live: Vec::new(), restarts: 0 };
    let mut completion_s = vec![0.0; trace.len()];
    let (mut now, mut round_end, mut solves) = (0.0_f64, 0.0_f64, 0);
    loop {
        let mut changed = false;
        while let Some(job) = arrivals.next_if(|&job| trace[job].arrival_s <= now) {
            run.live.push(Live::new(job, &trace[job]));
            changed = true;
        }
        changed |= run.retire(|job| completion_s[job] = now - trace[job].arrival_s);
        if run.live.is_empty() {
            match arrivals.peek() {
                None => return Ok(Outcome { completion_s, makespan_s: now, restarts: run.restarts, solves }),
                Some(&next) => {
                    now = trace[next].arrival_s;
                    round_end = now;
                    continue;
                }
            }
        }
        if changed {
            run.aim(now, &mut solve)?;
            solves += 1;
        }
        let boundary = now >= round_end;
        if boundary {
            round_end = now + rounds.round_s;
        }
        if boundary || changed {
            run.assign(boundary);
        }
        let next_arrival = arrivals.peek().map_or(f64::INFINITY, |&job| trace[job].arrival_s);
        let until = run.next_end(now).min(round_end).min(next_arrival);
        run.advance(until - now);
        now = until;
    }
}

struct Run<'a> {
    trace: &'a [TraceJob],
    types: &'a [GpuType],
    servers: &'a [Server],
    rounds: Rounds,
    live: Vec<Live>,
    restarts: usize,
}

impl Live {
    fn new(id: usize, job: &TraceJob) -> Self {
        let types = job.throughputs.len();
        Self {
            id,
            left: job.steps as f64,
            isolated_s: 0.0,
            since_solve: (0.0, job.steps as f64),
            restarting_s: 0.0,
            last: None,
            candidate: Candidate {
                gpus: job.gpus,
                speeds: job.throughputs.clone(),
                spread_speeds: None,
                shares: vec![0.0; types],
                owed_s: vec![0.0; types],
                received_s: vec![0.0; types],
                running: None,
                movable: true,
            },
        }
    }

    fn speed(&self) -> f64 {
        self.candidate.running.as_ref().map_or(0.0, |placement| self.candidate.speed_in(placement))
    }

    /// Seconds until it ends, as it runs now.
    fn remaining_s(&self) -> f64 {
        let speed = self.speed();
        if speed > 0.0 { self.restarting_s + self.left / speed } else { f64::INFINITY }
    }
}

impl Run<'_> {
    /// Takes out the jobs that have ended; says whether any has.
    fn retire(&mut self, mut ended: impl FnMut(usize)) -> bool {
        let before = self.live.len();
        self.live.retain(|live| {
            let going = live.left > 1e-6;
            if !going {
                ended(live.id);
            }
            going
        });
        self.live.len() < before
    }

    /// Solves for new targets.
    fn aim(
        &mut self,
        now: f64,
        solve: &mut impl FnMut(&Instance) -> Result<Shares, SolveError>,
    ) -> Result<(), SolveError> {
        for live in &mut self.live {
            let (speed, left) = live.since_solve;
            if speed > 0.0 {
                live.isolated_s += (left - live.left) / speed;
            }
        }
        let job = |live: &Live| Job {
            gpus: live.candidate.gpus,
            steps: Some(live.left),
            age_s: now - self.trace[live.id].arrival_s,
            isolated_time_s: live.isolated_s,
            ..Job::new(live.id as u64, live.candidate.speeds.clone())
        };
        let jobs = self.live.iter().map(job).collect();
        let instance = Instance { types: self.types.to_vec(), jobs, pairs: None, entities: None };
        let shares = solve(&instance)?;
        let problem = Problem::new(&instance, Types::Aware);
        let isolated = alone(&problem);
        for (m, live) in self.live.iter_mut().enumerate() {
            live.candidate.shares = shares.job(m).to_vec();
            live.since_solve = (problem.throughput(m, &isolated), live.left);
        }
        Ok(())
    }

    /// Decides who runs where. Between rounds only what is free is given out.
    fn assign(&mut self, boundary: bool) {
        for live in &mut self.live {
            live.candidate.movable = boundary;
        }
        let candidates: Vec<Candidate> = self.live.iter().map(|live| live.candidate.clone()).collect();
        let placements = self.rounds.next(self.servers, &candidates);
        for (live, placement) in self.live.iter_mut().zip(placements) {
            if placement.is_some() && placement != live.last {
                live.restarting_s = self.rounds.restart_s;
                self.restarts += usize::from(live.last.is_some());
            }
            if placement.is_some() {
                live.last.clone_from(&placement);
            }
            live.candidate.running = placement;
        }
    }

    fn next_end(&self, now: f64) -> f64 {
        now + self.live.iter().map(Live::remaining_s).fold(f64::INFINITY, f64::min)
    }

    fn advance(&mut self, seconds: f64) {
        for live in &mut self.live {
            for (owed, share) in live.candidate.owed_s.iter_mut().zip(&live.candidate.shares) {
                *owed += share * seconds;
            }
            let Some(gpu_type) = live.candidate.running.as_ref().map(|placement| placement.gpu_type) else {
                continue;
            };
            live.candidate.received_s[gpu_type] += seconds;
            let restarting = live.restarting_s.min(seconds);
            live.restarting_s -= restarting;
            live.left -= live.speed() * (seconds - restarting);
        }
    }
}

/// A solver for [`simulate`] that follows a goal of the registry.
pub fn by_goal(name: &'static str) -> impl FnMut(&Instance) -> Result<Shares, SolveError> {
    move |instance| {
        let goal = goal(name).ok_or(SolveError::NoSuchGoal { goal: name })?;
        Ok(goal.solve(instance, crate::Options::default())?.allocation)
    }
}
