//! The driver: takes what is due from a heap, gives it to the engine, and lets the virtual workers do what the engine
//! then wants. Everything due at one moment goes into one turn.

mod records;

use crate::arrival::{Arrival, RunModel, TimedInput, translated};
use crate::contention::{ContentionTracker, DoubleCounted};
use crate::machine::{AttemptOracle, Machine};
use crate::oracle::{Jobs, Oracle, SimulatedJob};
use crate::record::Record;
use crate::timers::{Timer, TimerQueue};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use warpyard_core::agent::Input;
use warpyard_core::cluster::Worker;
use warpyard_core::engine::{CommandOutcome, Engine, TurnOutcome};
use warpyard_core::event::{Event, WorkerInfo};
use warpyard_core::policy::BackgroundSolve;
use warpyard_core::pool::DeviceState;
use warpyard_core::small::SmallMap;
use warpyard_core::spec::{AfterJob, JobSpec};
use warpyard_core::{
    AttemptId, Cluster, Command, Epoch, JobId, Policy, PolicyChoice, PolicyDef, Rejection, Span, Store,
    TaskId, Time, WorkerId,
};

/// What a simulation begins with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The workers that are there.
    pub workers: Vec<WorkerInfo>,
    /// The policy in force.
    pub policy: PolicyChoice,
    /// From being told to begin an attempt until its process runs.
    pub start_delay: Span,
    /// Whether ended jobs leave the memory. Not with jobs that wait for others by number.
    pub forget: bool,
    /// How much tasks that run on a device at once slow each other: `n` of them each run at 1 / (1 + contention × (n − 1))
    /// of the speed they have alone. 0 is not at all; with 1 they together get done what one alone would.
    pub contention: f64,
    /// What starting again costs a task before it gets anywhere.
    pub restart: Span,
    /// How long what the policy has done beside the loop takes. A stated time, so that the same seed gives the same run.
    pub errand: Span,
}

/// A simulation.
pub struct Sim {
    engine: Engine,
    kept: Count,
    now: Time,
    setup: Setup,
    /// What the policy has done beside the loop, and when it is done.
    errand: Option<(Time, BackgroundSolve)>,
    machines: Vec<Machine>,
    timers: TimerQueue,
    source: std::iter::Peekable<Box<dyn Iterator<Item = TimedInput>>>,
    jobs: Jobs,
    records: Vec<Record>,
    contention: ContentionTracker,
    /// What of the time at the present event is counted for others.
    counted: DoubleCounted,
    refused: Vec<(Time, Rejection)>,
    /// What is asked at the present moment.
    asked: Vec<Command>,
    /// What the last turn made happen.
    turned: TurnOutcome,
    /// Jobs that ended, to leave the memory with the next turn.
    ended: Vec<JobId>,
    /// For each command asked that submits, what really happens, and the number it came with.
    coming: Vec<(usize, RunModel, Option<JobId>)>,
    /// Numbers that jobs came with, and those they have here.
    came_as: BTreeMap<JobId, JobId>,
    /// How many commands meant a job that is not here or were refused.
    unheard: u64,
    /// Workers of which something else may be wanted.
    stirred: Vec<WorkerId>,
    /// Workers with something to say.
    speaking: Vec<WorkerId>,
    /// Workers with a lease whose reports the coming turn takes in.
    to_acknowledge: Vec<WorkerId>,
    watcher: Option<Watcher>,
    /// Work that attempts saved when they were asked to give way: seconds, or steps where those are told apart.
    saved: BTreeMap<TaskId, f64>,
}

/// Whoever is told of every event.
pub type Watcher = Box<dyn FnMut(&Event)>;

/// The store of a simulation: it only counts.
#[derive(Default)]
struct Count(u64);

impl Store for Count {
    type Error = Infallible;

    fn append(&mut self, _: Epoch, _: u64, events: &[Event]) -> Result<(), Infallible> {
        self.0 += events.len() as u64;
        Ok(())
    }
}

impl Sim {
    /// A simulation at moment 0, nothing submitted yet.
    pub fn new(setup: Setup, policies: &'static [PolicyDef]) -> Result<Sim, Rejection> {
        let mut engine = Engine::new(Cluster::new(setup.policy.clone()), policies, Time(0))?;
        let mut kept = Count::default();
        let joins = setup.workers.iter().cloned().map(Command::Join).collect();
        let Ok(_) = engine.turn(joins, Time(0), &mut kept);
        Ok(Sim::from_engine(engine, kept, setup, Time(0)))
    }

    fn from_engine(engine: Engine, kept: Count, setup: Setup, now: Time) -> Sim {
        let workers = engine.cluster().workers().count();
        let machine = |(_, worker): (_, &Worker)| Machine::new(setup.contention, worker.info.lease, now);
        let machines = engine.cluster().workers().map(machine).collect();
        let contention = ContentionTracker::on(engine.cluster().workers().map(|(_, worker)| &worker.info));
        let nothing: Box<dyn Iterator<Item = TimedInput>> = Box::new(std::iter::empty());
        let mut sim = Sim {
            engine,
            kept,
            now,
            setup,
            errand: None,
            machines,
            timers: TimerQueue::default(),
            source: nothing.peekable(),
            jobs: Vec::new(),
            records: Vec::new(),
            contention,
            counted: DoubleCounted::new(),
            refused: Vec::new(),
            asked: Vec::new(),
            turned: TurnOutcome::default(),
            ended: Vec::new(),
            coming: Vec::new(),
            came_as: BTreeMap::new(),
            unheard: 0,
            stirred: Vec::new(),
            speaking: Vec::new(),
            to_acknowledge: Vec::new(),
            watcher: None,
            saved: BTreeMap::new(),
        };
        for id in 0..workers as u32 {
            sim.beat_later(WorkerId(id));
        }
        sim
    }

    /// A simulation that goes on from a state: `runs` says what really happens to the jobs in it. Of those no records are
    /// kept. Nobody is missed in it: workers have no leases.
    pub fn going_on(
        cluster: Cluster,
        setup: Setup,
        policies: &'static [PolicyDef],
        now: Time,
        runs: impl Fn(JobId) -> RunModel,
    ) -> Result<Sim, Rejection> {
        let engine = Engine::new(cluster, policies, now)?;
        let mut sim = Sim::from_engine(engine, Count::default(), setup, now);
        sim.machines.iter_mut().for_each(|machine| *machine = Machine::new(sim.setup.contention, None, now));
        for job in sim.engine.cluster().jobs().iter() {
            let at = job.id.0 as usize;
            if sim.jobs.len() <= at {
                sim.jobs.resize_with(at + 1, || None);
            }
            sim.jobs[at] = Some(SimulatedJob { first: None, runs: runs(job.id) });
            sim.came_as.insert(job.id, job.id);
        }
        for worker in (0..sim.machines.len() as u32).map(WorkerId) {
            let known = Oracle {
                cluster: sim.engine.cluster(),
                jobs: &sim.jobs,
                saved: &sim.saved,
                delay: sim.setup.start_delay,
                restart: sim.setup.restart,
            };
            let (engine, timers) = (&sim.engine, &mut sim.timers);
            for begun in engine.cluster().desired(worker).filter(|d| d.started) {
                let brief = known.brief(begun.attempt).expect("what is desired is known");
                let mut later = |at, later| timers.enter(at, Timer::on(worker, later));
                sim.machines[worker.0 as usize].adopt(now, begun.attempt, brief, &mut later);
            }
            sim.stirred.push(worker);
            let mut info = engine.cluster().worker(worker).expect("a worker by number").info.clone();
            if info.lease.take().is_some() {
                sim.asked.push(Command::Join(info));
            }
        }
        sim.let_workers_act(); // what stands still does so from the first moment
        Ok(sim)
    }

    /// Jobs to come, in order of time; taken one by one, so that there may be more of them than memory.
    pub fn feed(&mut self, arrivals: impl Iterator<Item = Arrival> + 'static) {
        self.feed_all(arrivals.map(|arrival| TimedInput::Submission(arrival, None)));
    }

    /// Everything to come, in order of time.
    pub fn feed_all(&mut self, coming: impl Iterator<Item = TimedInput> + 'static) {
        let coming: Box<dyn Iterator<Item = TimedInput>> = Box::new(coming);
        self.source = coming.peekable();
    }

    /// How many commands that were to come meant a job that was not there, or were refused.
    pub fn unheard(&self) -> u64 {
        self.unheard
    }

    /// The number that a job has here, by the number it came with.
    pub fn job_that_came_as(&self, number: JobId) -> Option<JobId> {
        self.came_as.get(&number).copied()
    }

    /// Calls this with every event, once it is kept.
    pub fn watch(&mut self, watcher: impl FnMut(&Event) + 'static) {
        self.watcher = Some(Box::new(watcher));
    }

    /// Submits a job now.
    pub fn submit(
        &mut self,
        user: &str,
        spec: impl Into<Arc<JobSpec>>,
        runs: RunModel,
    ) -> Result<JobId, Rejection> {
        self.put(Arrival { at: self.now, user: user.to_owned(), spec: spec.into(), runs }, None);
        let answer = self.answer()?;
        Ok(answer.job.expect("a job that was taken has a number"))
    }

    /// Asks for something now.
    pub fn ask(&mut self, command: Command) -> Result<CommandOutcome, Rejection> {
        self.asked.push(command);
        self.answer()
    }

    /// Does what is asked; gives the answer to the last of it.
    fn answer(&mut self) -> Result<CommandOutcome, Rejection> {
        let asked = self.asked.len();
        self.turn();
        let answer = self.turned.answers.swap_remove(asked - 1);
        self.settle();
        answer
    }

    /// Nothing gets through between the server and a worker any more.
    pub fn cut(&mut self, worker: WorkerId) {
        self.machines[worker.0 as usize].cut = true;
    }

    /// It does again.
    pub fn heal(&mut self, worker: WorkerId) {
        let machine = &mut self.machines[worker.0 as usize];
        machine.cut = false;
        machine.agent.step(Input::Connected, self.now);
        let info = self.engine.cluster().worker(worker).expect("a healed worker is known").info.clone();
        self.asked.push(Command::Join(info));
        self.stirred.push(worker);
        self.beat_later(worker);
        self.settle();
    }

    /// A worker's machine goes down and comes up again with nothing of what ran there.
    pub fn wipe(&mut self, worker: WorkerId) {
        self.machines[worker.0 as usize].wipe(self.now);
        self.stirred.push(worker);
        self.settle();
    }

    /// A worker says that a device of its changed.
    pub fn device(&mut self, worker: WorkerId, index: u16, state: DeviceState) {
        let info = &self.engine.cluster().worker(worker).expect("the worker is known").info;
        let uuid = info.devices[usize::from(index)].uuid.clone();
        let devices = BTreeMap::from([(uuid, state)]);
        self.asked.push(Command::Report { worker, attempts: SmallMap::new(), devices });
        self.settle();
    }

    /// Goes on until nothing more is due, or only what goes on for ever.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Goes on to the next moment at which something is due; says whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_moment() else {
            self.forget_the_ended();
            return false;
        };
        let idle = self.timers.alarms == 0 && self.errand.is_none() && self.source.peek().is_none();
        if idle && !self.someone_is_missed() {
            self.forget_the_ended();
            return false;
        }
        self.go_to(at);
        true
    }

    /// Those that ended last are forgotten too, though nothing more happens.
    fn forget_the_ended(&mut self) {
        if !self.ended.is_empty() {
            self.turn();
        }
    }

    /// Whether a worker is cut off that the engine still hopes to hear of.
    fn someone_is_missed(&self) -> bool {
        let mut workers = self.engine.cluster().workers();
        workers.any(|(id, w)| w.online && w.info.lease.is_some() && self.machines[id.0 as usize].cut)
    }

    /// Goes on until this moment, everything due at it included.
    pub fn run_until(&mut self, until: Time) {
        while let Some(at) = self.next_moment().filter(|at| *at <= until) {
            self.go_to(at);
        }
        self.now = self.now.max(until);
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The state.
    pub fn cluster(&self) -> &Cluster {
        self.engine.cluster()
    }

    /// The policy in force.
    pub fn policy(&self) -> &dyn Policy {
        self.engine.policy()
    }

    /// How many events happened.
    pub fn events(&self) -> u64 {
        self.kept.0
    }

    /// What became of each task, in order of submission.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What became of one task.
    pub fn record(&self, task: TaskId) -> Option<&Record> {
        let at = self.record_at(task)?;
        self.records.get(at)
    }

    /// Jobs that were refused, and when.
    pub fn refused(&self) -> &[(Time, Rejection)] {
        &self.refused
    }

    /// Attempts a worker really has, whatever the server thinks.
    pub fn processes(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.machines[worker.0 as usize].processes().collect()
    }

    fn next_moment(&mut self) -> Option<Time> {
        let timers = self.timers.next();
        let arrival = self.source.peek().map(|coming| coming.at().max(self.now));
        let errand = self.errand.as_ref().map(|(at, _)| *at);
        [timers, arrival, errand, self.engine.next_deadline()].into_iter().flatten().min()
    }

    /// Does all that is due at a moment.
    fn go_to(&mut self, at: Time) {
        self.now = self.now.max(at);
        if let Some((_, errand)) = self.errand.take_if(|(at, _)| *at <= self.now) {
            self.asked.push(errand());
        }
        while let Some(due) = self.timers.take(self.now) {
            self.happen(due);
        }
        // Asked first and taken then: to take it on a condition would move it there and back.
        while self.source.peek().is_some_and(|coming| coming.at() <= self.now)
            && let Some(coming) = self.source.next()
        {
            match coming {
                TimedInput::Submission(arrival, number) => self.put(arrival, number),
                TimedInput::Command(_, command) => match translated(command, &self.came_as) {
                    Some(command) => self.asked.push(command),
                    None => self.unheard += 1,
                },
            }
        }
        self.settle();
    }

    fn happen(&mut self, due: Timer) {
        match due {
            Timer::Ring(worker, attempt) => {
                let timers = &mut self.timers;
                let machine = &mut self.machines[worker.0 as usize];
                machine.ring(self.now, attempt, |at, later| timers.enter(at, Timer::on(worker, later)));
                if machine.agent.has_outputs() {
                    self.stirred.push(worker);
                }
                self.speaking.push(worker);
            }
            Timer::Beat(worker) => {
                let machine = &mut self.machines[worker.0 as usize];
                if !machine.cut {
                    machine.agent.step(Input::Connected, self.now);
                    self.speaking.push(worker);
                    self.beat_later(worker);
                }
            }
            Timer::Timer(worker) => {
                self.machines[worker.0 as usize].agent.step(Input::Timer, self.now);
                self.stirred.push(worker);
            }
        }
    }

    fn put(&mut self, arrival: Arrival, number: Option<JobId>) {
        let Arrival { user, mut spec, runs, .. } = arrival;
        if number.is_some() && !spec.after.is_empty() {
            let spec = Arc::make_mut(&mut spec);
            let here = |after: AfterJob| Some(AfterJob { job: *self.came_as.get(&after.job)?, ..after });
            spec.after = std::mem::take(&mut spec.after).into_iter().filter_map(here).collect();
        }
        self.coming.push((self.asked.len(), runs, number));
        self.asked.push(Command::Submit { user, env: None, spec });
    }

    /// Turns until nobody has anything more to say at this moment.
    fn settle(&mut self) {
        loop {
            self.let_workers_act();
            if self.asked.is_empty() && !self.deadline_passed() {
                break;
            }
            self.turn();
            self.stirred.append(&mut self.to_acknowledge);
        }
    }

    fn deadline_passed(&self) -> bool {
        self.engine.next_deadline().is_some_and(|at| at <= self.now)
    }

    /// One turn of the engine with all that is asked.
    fn turn(&mut self) {
        // Taken out while they are read, and put back for the next turn to use their memory.
        let mut turned = std::mem::take(&mut self.turned);
        let batch = self.asked.drain(..).chain(self.ended.drain(..).map(Command::Forget));
        let Ok(()) = self.engine.turn_into(batch, self.now, &mut self.kept, &mut turned);
        assert!(
            turned.stale.is_empty(),
            "a plan made and carried out in one turn is not stale: {:?}",
            turned.stale
        );
        if !turned.events.is_empty()
            && let Some(errand) = self.engine.background_solve(self.now)
        {
            self.errand = Some((self.now + self.setup.errand, errand));
        }
        let refused = turned.answers.iter().filter(|answer| answer.is_err()).count();
        let jobs_refused = self.refused.len();
        let mut coming = std::mem::take(&mut self.coming);
        for (at, runs, number) in coming.drain(..) {
            match &turned.answers[at] {
                Ok(answer) => {
                    let id = answer.job.expect("a job that was taken has a number");
                    self.came_as.extend(number.map(|number| (number, id)));
                    self.take(id, runs);
                }
                Err(why) => self.refused.push((self.now, why.clone())),
            }
        }
        self.coming = coming;
        self.unheard += (refused - (self.refused.len() - jobs_refused)) as u64;
        for event in &turned.events {
            self.note(event);
        }
        for &id in &turned.finished {
            self.close(id);
        }
        if self.setup.forget {
            self.ended.extend(&turned.finished);
        }
        self.turned = turned;
    }

    /// Lets every worker that has reason to make what is what should be, and say what became of it.
    fn let_workers_act(&mut self) {
        let mut stirred = std::mem::take(&mut self.stirred);
        sort_out(&mut stirred);
        for worker in stirred.drain(..) {
            let machine = &mut self.machines[worker.0 as usize];
            let (engine, timers) = (&self.engine, &mut self.timers);
            if !machine.cut {
                let (as_of, received) = (engine.cluster().seq(), engine.inbox().latest(worker));
                machine.agent.assign_desired(as_of, received, engine.cluster().desired(worker), self.now);
            }
            let known = Oracle {
                cluster: engine.cluster(),
                jobs: &self.jobs,
                saved: &self.saved,
                delay: self.setup.start_delay,
                restart: self.setup.restart,
            };
            machine.pump(self.now, &known, |at, later| timers.enter(at, Timer::on(worker, later)));
            self.speaking.push(worker);
        }
        self.stirred = stirred;
        let mut speaking = std::mem::take(&mut self.speaking);
        sort_out(&mut speaking);
        for worker in speaking.drain(..) {
            let machine = &mut self.machines[worker.0 as usize];
            for (id, work) in machine.saved.drain(..) {
                let kind = self.engine.cluster().view().kind_given(id.task);
                let runs =
                    self.jobs.get(id.task.job.0 as usize).and_then(|taken| Some(&taken.as_ref()?.runs));
                let pace = runs.map_or(1.0, |runs| runs.pace(id.task, kind));
                self.saved.insert(id.task, work.secs() * pace);
            }
            if let Some(report) = machine.report(self.now) {
                self.asked.push(Command::Receive { worker, report: Box::new(report) });
                if machine.agent.confirmed().is_some() {
                    self.to_acknowledge.push(worker);
                }
            }
        }
        self.speaking = speaking;
    }

    fn lease(&self, worker: WorkerId) -> Option<Span> {
        self.engine.cluster().worker(worker).and_then(|w| w.info.lease)
    }

    fn beat_later(&mut self, worker: WorkerId) {
        if let Some(lease) = self.lease(worker) {
            self.put_off(self.now + Span(lease.0 / 3), Timer::Beat(worker));
        }
    }

    fn put_off(&mut self, at: Time, due: Timer) {
        self.timers.enter(at, due);
    }
}

fn sort_out(workers: &mut Vec<WorkerId>) {
    workers.sort_unstable();
    workers.dedup();
}
