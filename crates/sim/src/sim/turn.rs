//! The steps of a simulation: everything due at a moment goes into one turn of the engine, and the workers then act on what
//! the engine wants, until nothing more happens at that moment.

use super::Sim;
use crate::arrival::{Arrival, TimedInput, translate_job_ids};
use crate::oracle::Oracle;
use crate::timers::Timer;
use std::sync::Arc;
use warpyard_core::agent::Input;
use warpyard_core::engine::TurnOutcome;
use warpyard_core::spec::AfterJob;
use warpyard_core::{Command, JobId, Span, Time, WorkerId};

impl Sim {
    pub(super) fn next_moment(&mut self) -> Option<Time> {
        let timer = self.timers.next();
        let input = self.source.peek().map(|input| input.at().max(self.now));
        let solve = self.background_solve.as_ref().map(|(at, _)| *at);
        [timer, input, solve, self.engine.next_deadline()].into_iter().flatten().min()
    }

    /// Advances to a moment and does everything due at it.
    pub(super) fn advance_to(&mut self, at: Time) {
        self.now = self.now.max(at);
        if let Some((_, solve)) = self.background_solve.take_if(|(at, _)| *at <= self.now) {
            self.commands.push(solve());
        }
        while let Some(timer) = self.timers.take(self.now) {
            self.fire(timer);
        }
        // Peeked and then taken: `next_if` would move the large input out and back in when it is not due.
        while self.source.peek().is_some_and(|input| input.at() <= self.now)
            && let Some(input) = self.source.next()
        {
            match input {
                TimedInput::Submission(arrival, number) => self.push_submission(arrival, number),
                TimedInput::Command(_, command) => match translate_job_ids(command, &self.job_ids) {
                    Some(command) => self.commands.push(command),
                    None => self.dropped_commands += 1,
                },
            }
        }
        self.settle();
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Process(worker, attempt) => {
                let timers = &mut self.timers;
                let machine = &mut self.machines[worker.0 as usize];
                machine.process_due(self.now, attempt, |at, timer| timers.set(at, Timer::on(worker, timer)));
                if machine.agent.has_outputs() {
                    self.to_assign.push(worker);
                }
                self.to_report.push(worker);
            }
            Timer::Heartbeat(worker) => {
                let machine = &mut self.machines[worker.0 as usize];
                if !machine.cut {
                    machine.agent.step(Input::Connected, self.now);
                    self.to_report.push(worker);
                    self.set_heartbeat(worker);
                }
            }
            Timer::Agent(worker) => {
                self.machines[worker.0 as usize].agent.step(Input::Timer, self.now);
                self.to_assign.push(worker);
            }
        }
    }

    /// Adds a submission to the batch; `number` is its job number in the source.
    pub(super) fn push_submission(&mut self, arrival: Arrival, number: Option<JobId>) {
        let Arrival { user, mut spec, runs, .. } = arrival;
        if number.is_some() && !spec.after.is_empty() {
            // Dependencies name jobs by their numbers in the source; those that were rejected here are dropped.
            let spec = Arc::make_mut(&mut spec);
            let here = |after: AfterJob| Some(AfterJob { job: *self.job_ids.get(&after.job)?, ..after });
            spec.after = std::mem::take(&mut spec.after).into_iter().filter_map(here).collect();
        }
        self.submissions.push((self.commands.len(), runs, number));
        self.commands.push(Command::Submit { user, env: None, spec });
    }

    /// Alternates between workers and engine until neither has anything left to do at this moment.
    pub(super) fn settle(&mut self) {
        loop {
            self.run_workers();
            if self.commands.is_empty() && !self.deadline_passed() {
                break;
            }
            self.turn();
            self.to_assign.extend(&self.outcome.to_acknowledge);
        }
    }

    fn deadline_passed(&self) -> bool {
        self.engine.next_deadline().is_some_and(|at| at <= self.now)
    }

    /// Takes one turn of the engine with the batch.
    pub(super) fn turn(&mut self) {
        // The outcome is moved out while it is read and back afterwards, so that its buffers are reused.
        let mut outcome = std::mem::take(&mut self.outcome);
        let batch = self.commands.drain(..).chain(self.finished.drain(..).map(Command::Forget));
        let Ok(()) = self.engine.turn_into(batch, self.now, &mut self.store, &mut outcome);
        assert!(
            outcome.stale.is_empty(),
            "a plan made and carried out in one turn is not stale: {:?}",
            outcome.stale
        );
        if !outcome.events.is_empty()
            && let Some(solve) = self.engine.background_solve(self.now)
        {
            self.background_solve = Some((self.now + self.setup.errand, solve));
        }
        self.record_answers(&outcome);
        for event in &outcome.events {
            self.record_event(event);
        }
        for &id in &outcome.finished {
            self.close_records(id);
        }
        if self.setup.forget {
            self.finished.extend(&outcome.finished);
        }
        self.outcome = outcome;
    }

    /// Records which submissions were accepted, and counts the commands that were not.
    fn record_answers(&mut self, outcome: &TurnOutcome) {
        let rejected = outcome.answers.iter().filter(|answer| answer.is_err()).count();
        let rejected_jobs = self.rejections.len();
        let mut submissions = std::mem::take(&mut self.submissions);
        for (at, runs, number) in submissions.drain(..) {
            match &outcome.answers[at] {
                Ok(answer) => {
                    let id = answer.job.expect("an accepted job has a number");
                    self.job_ids.extend(number.map(|number| (number, id)));
                    self.open_records(id, runs);
                }
                Err(why) => self.rejections.push((self.now, why.clone())),
            }
        }
        self.submissions = submissions;
        self.dropped_commands += (rejected - (self.rejections.len() - rejected_jobs)) as u64;
    }

    /// Hands new assignments to the workers concerned, and collects their reports.
    pub(super) fn run_workers(&mut self) {
        let mut workers = std::mem::take(&mut self.to_assign);
        sort_and_dedup(&mut workers);
        workers.drain(..).for_each(|worker| self.assign(worker));
        self.to_assign = workers;
        let mut workers = std::mem::take(&mut self.to_report);
        sort_and_dedup(&mut workers);
        workers.drain(..).for_each(|worker| self.collect_report(worker));
        self.to_report = workers;
    }

    fn assign(&mut self, worker: WorkerId) {
        let machine = &mut self.machines[worker.0 as usize];
        let (engine, timers) = (&self.engine, &mut self.timers);
        if !machine.cut {
            let (as_of, received) = (engine.cluster().seq(), engine.inbox().latest(worker));
            machine.agent.assign_desired(as_of, received, engine.cluster().desired(worker), self.now);
        }
        let oracle = Oracle {
            cluster: engine.cluster(),
            jobs: &self.jobs,
            saved: &self.saved,
            start_delay: self.setup.start_delay,
            restart: self.setup.restart,
        };
        machine.execute_outputs(self.now, &oracle, |at, timer| timers.set(at, Timer::on(worker, timer)));
        self.to_report.push(worker);
    }

    fn collect_report(&mut self, worker: WorkerId) {
        let machine = &mut self.machines[worker.0 as usize];
        for (id, work) in machine.saved.drain(..) {
            let kind = self.engine.cluster().view().kind_given(id.task);
            let runs = self.jobs.get(id.task.job.0 as usize).and_then(|job| Some(&job.as_ref()?.runs));
            let rate = runs.map_or(1.0, |runs| runs.work_rate(id.task, kind));
            self.saved.insert(id.task, work.secs() * rate);
        }
        if let Some(report) = machine.report(self.now) {
            self.commands.push(Command::Receive { worker, report: Box::new(report) });
        }
    }

    /// Sets the next heartbeat of a worker with a lease: three in each.
    pub(super) fn set_heartbeat(&mut self, worker: WorkerId) {
        let lease = self.engine.cluster().worker(worker).and_then(|w| w.info.lease);
        if let Some(lease) = lease {
            self.timers.set(self.now + Span(lease.0 / 3), Timer::Heartbeat(worker));
        }
    }
}

fn sort_and_dedup(workers: &mut Vec<WorkerId>) {
    workers.sort_unstable();
    workers.dedup();
}
