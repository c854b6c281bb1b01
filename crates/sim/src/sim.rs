//! The simulation: the live engine, virtual workers and a virtual clock. `turn` takes the steps, `records` keeps account of
//! what happens.

mod records;
mod turn;

use crate::arrival::{Arrival, RunModel, TimedInput};
use crate::contention::{ContentionTracker, DoubleCounted};
use crate::machine::Machine;
use crate::oracle::{Jobs, Oracle, SimulatedJob};
use crate::record::Record;
use crate::timers::{Timer, TimerQueue};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use crate::machine::AttemptOracle;
use warpyard_core::agent::Input;
use warpyard_core::cluster::Worker;
use warpyard_core::engine::{CommandOutcome, Engine, TurnOutcome};
use warpyard_core::event::{Event, WorkerInfo};
use warpyard_core::policy::BackgroundSolve;
use warpyard_core::pool::DeviceState;
use warpyard_core::small::SmallMap;
use warpyard_core::spec::JobSpec;
use warpyard_core::{
    AttemptId, Cluster, Command, Epoch, JobId, Policy, PolicyChoice, PolicyDef, Rejection, Span, Store,
    TaskId, Time, WorkerId,
};

/// Initial conditions and parameters of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Workers.
    pub workers: Vec<WorkerInfo>,
    /// Policy.
    pub policy: PolicyChoice,
    /// Delay from the launch of an attempt to the start of its process.
    pub start_delay: Span,
    /// Whether finished jobs are removed from the state. Not possible where jobs depend on others by number.
    pub forget: bool,
    /// Contention of tasks on one device: `n` of them each run at 1 / (1 + contention × (n − 1)) of the speed they have
    /// alone. 0 is none; with 1 their total throughput is that of one alone.
    pub contention: f64,
    /// Time that every attempt but the first loses before it makes progress.
    pub restart: Span,
    /// Duration of a background solve. It is stated, not measured, so that the same seed gives the same run.
    pub errand: Span,
}

/// Simulation in progress.
pub struct Sim {
    engine: Engine,
    store: EventCounter,
    now: Time,
    setup: Setup,
    /// Background solve in progress, and when it ends.
    background_solve: Option<(Time, BackgroundSolve)>,
    machines: Vec<Machine>,
    timers: TimerQueue,
    /// Inputs to come, in order of time.
    source: std::iter::Peekable<Box<dyn Iterator<Item = TimedInput>>>,
    jobs: Jobs,
    records: Vec<Record>,
    contention: ContentionTracker,
    /// Buffer for the device time that the current event shows to be double-counted.
    double_counted: DoubleCounted,
    rejections: Vec<(Time, Rejection)>,
    /// Batch of the next turn.
    commands: Vec<Command>,
    /// Outcome of the last turn.
    outcome: TurnOutcome,
    /// Finished jobs, to be forgotten in the next turn.
    finished: Vec<JobId>,
    /// For each submission in the batch: its index, its run model, and the job number of its source.
    submissions: Vec<(usize, RunModel, Option<JobId>)>,
    /// Job numbers of the source, and those the jobs have here.
    job_ids: BTreeMap<JobId, JobId>,
    /// Commands of the source that named an unknown job or were rejected.
    dropped_commands: u64,
    /// Workers whose assignments may have changed.
    to_assign: Vec<WorkerId>,
    /// Workers that may have something to report.
    to_report: Vec<WorkerId>,
    watcher: Option<Watcher>,
    /// Work saved by attempts that were stopped to be requeued, in the units of [`RunModel::work_rate`].
    saved: BTreeMap<TaskId, f64>,
}

/// Observer of every committed event.
pub type Watcher = Box<dyn FnMut(&Event)>;

/// Store that only counts events.
#[derive(Default)]
struct EventCounter(u64);

impl Store for EventCounter {
    type Error = Infallible;

    fn append(&mut self, _: Epoch, _: u64, events: &[Event]) -> Result<(), Infallible> {
        self.0 += events.len() as u64;
        Ok(())
    }
}

impl Sim {
    /// Starts a simulation at time 0 with no jobs.
    pub fn new(setup: Setup, policies: &'static [PolicyDef]) -> Result<Sim, Rejection> {
        let mut engine = Engine::new(Cluster::new(setup.policy.clone()), policies, Time(0))?;
        let mut store = EventCounter::default();
        let joins = setup.workers.iter().cloned().map(Command::Join).collect();
        let Ok(_) = engine.turn(joins, Time(0), &mut store);
        Ok(Sim::from_engine(engine, store, setup, Time(0)))
    }

    fn from_engine(engine: Engine, store: EventCounter, setup: Setup, now: Time) -> Sim {
        let workers = engine.cluster().workers().count();
        let machine = |(_, worker): (_, &Worker)| Machine::new(setup.contention, worker.info.lease, now);
        let machines = engine.cluster().workers().map(machine).collect();
        let contention = ContentionTracker::on(engine.cluster().workers().map(|(_, worker)| &worker.info));
        let no_inputs: Box<dyn Iterator<Item = TimedInput>> = Box::new(std::iter::empty());
        let mut sim = Sim {
            engine,
            store,
            now,
            setup,
            background_solve: None,
            machines,
            timers: TimerQueue::default(),
            source: no_inputs.peekable(),
            jobs: Vec::new(),
            records: Vec::new(),
            contention,
            double_counted: DoubleCounted::new(),
            rejections: Vec::new(),
            commands: Vec::new(),
            outcome: TurnOutcome::default(),
            finished: Vec::new(),
            submissions: Vec::new(),
            job_ids: BTreeMap::new(),
            dropped_commands: 0,
            to_assign: Vec::new(),
            to_report: Vec::new(),
            watcher: None,
            saved: BTreeMap::new(),
        };
        for id in 0..workers as u32 {
            sim.set_heartbeat(WorkerId(id));
        }
        sim
    }

    /// Continues from a state. `runs` gives the run model of each job in it; those jobs get no records. Workers lose
    /// their leases, because none of them is ever silent here.
    pub fn resume_from(
        cluster: Cluster,
        setup: Setup,
        policies: &'static [PolicyDef],
        now: Time,
        runs: impl Fn(JobId) -> RunModel,
    ) -> Result<Sim, Rejection> {
        let engine = Engine::new(cluster, policies, now)?;
        let mut sim = Sim::from_engine(engine, EventCounter::default(), setup, now);
        sim.machines.iter_mut().for_each(|machine| *machine = Machine::new(sim.setup.contention, None, now));
        for job in sim.engine.cluster().jobs().iter() {
            let at = job.id.0 as usize;
            if sim.jobs.len() <= at {
                sim.jobs.resize_with(at + 1, || None);
            }
            sim.jobs[at] = Some(SimulatedJob { first_record: None, runs: runs(job.id) });
            sim.job_ids.insert(job.id, job.id);
        }
        for worker in (0..sim.machines.len() as u32).map(WorkerId) {
            sim.adopt_started(worker);
        }
        // Attempts that are paused in the state freeze before time passes.
        sim.run_workers();
        Ok(sim)
    }

    /// Gives a worker the processes of the attempts that the state says have started there.
    fn adopt_started(&mut self, worker: WorkerId) {
        let oracle = Oracle {
            cluster: self.engine.cluster(),
            jobs: &self.jobs,
            saved: &self.saved,
            start_delay: self.setup.start_delay,
            restart: self.setup.restart,
        };
        let (engine, timers) = (&self.engine, &mut self.timers);
        for started in engine.cluster().desired(worker).filter(|d| d.started) {
            let spec = oracle.process_spec(started.attempt).expect("a desired attempt is in the state");
            let mut set = |at, timer| timers.set(at, Timer::on(worker, timer));
            self.machines[worker.0 as usize].adopt(self.now, started.attempt, spec, &mut set);
        }
        self.to_assign.push(worker);
        let mut info = engine.cluster().worker(worker).expect("workers are numbered from 0").info.clone();
        if info.lease.take().is_some() {
            self.commands.push(Command::Join(info));
        }
    }

    /// Sets the arrivals to come, in order of time. They are drawn one by one, so there may be more than fit into memory.
    pub fn feed(&mut self, arrivals: impl Iterator<Item = Arrival> + 'static) {
        self.feed_all(arrivals.map(|arrival| TimedInput::Submission(arrival, None)));
    }

    /// Sets all inputs to come, in order of time.
    pub fn feed_all(&mut self, inputs: impl Iterator<Item = TimedInput> + 'static) {
        let inputs: Box<dyn Iterator<Item = TimedInput>> = Box::new(inputs);
        self.source = inputs.peekable();
    }

    /// Number of input commands that named an unknown job or were rejected.
    pub fn dropped_commands(&self) -> u64 {
        self.dropped_commands
    }

    /// Job number here of a job that has this number in the source.
    pub fn job_id_of(&self, source: JobId) -> Option<JobId> {
        self.job_ids.get(&source).copied()
    }

    /// Calls `watcher` with every event once it is committed.
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
        self.push_submission(Arrival { at: self.now, user: user.to_owned(), spec: spec.into(), runs }, None);
        let answer = self.execute_batch()?;
        Ok(answer.job.expect("an accepted job has a number"))
    }

    /// Executes a command now.
    pub fn execute(&mut self, command: Command) -> Result<CommandOutcome, Rejection> {
        self.commands.push(command);
        self.execute_batch()
    }

    /// Executes the batch; returns the outcome of its last command.
    fn execute_batch(&mut self) -> Result<CommandOutcome, Rejection> {
        let len = self.commands.len();
        self.turn();
        let answer = self.outcome.answers.swap_remove(len - 1);
        self.settle();
        answer
    }

    /// Cuts the connection between server and worker.
    pub fn cut(&mut self, worker: WorkerId) {
        self.machines[worker.0 as usize].cut = true;
    }

    /// Restores the connection.
    pub fn heal(&mut self, worker: WorkerId) {
        let machine = &mut self.machines[worker.0 as usize];
        machine.cut = false;
        machine.agent.step(Input::Connected, self.now);
        let info = self.engine.cluster().worker(worker).expect("a healed worker is known").info.clone();
        self.commands.push(Command::Join(info));
        self.to_assign.push(worker);
        self.set_heartbeat(worker);
        self.settle();
    }

    /// Reboots a worker's machine: every process on it is gone.
    pub fn wipe(&mut self, worker: WorkerId) {
        self.machines[worker.0 as usize].wipe(self.now);
        self.to_assign.push(worker);
        self.settle();
    }

    /// Reports a change of a worker's device.
    pub fn report_device(&mut self, worker: WorkerId, index: u16, state: DeviceState) {
        let info = &self.engine.cluster().worker(worker).expect("the worker is known").info;
        let uuid = info.devices[usize::from(index)].uuid.clone();
        let devices = BTreeMap::from([(uuid, state)]);
        self.commands.push(Command::Report { worker, attempts: SmallMap::new(), devices });
        self.settle();
    }

    /// Runs until nothing is pending but heartbeats.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Advances to the next moment at which something is due; returns whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_moment() else {
            self.forget_finished();
            return false;
        };
        let idle =
            self.timers.one_shot == 0 && self.background_solve.is_none() && self.source.peek().is_none();
        if idle && !self.awaits_lease_expiry() {
            self.forget_finished();
            return false;
        }
        self.advance_to(at);
        true
    }

    /// Forgets the jobs that finished in the last turn; there is no later one to do it.
    fn forget_finished(&mut self) {
        if !self.finished.is_empty() {
            self.turn();
        }
    }

    /// Whether a worker is cut off whose lease has yet to expire.
    fn awaits_lease_expiry(&self) -> bool {
        let mut workers = self.engine.cluster().workers();
        workers.any(|(id, w)| w.online && w.info.lease.is_some() && self.machines[id.0 as usize].cut)
    }

    /// Advances to this moment, including everything due at it.
    pub fn run_until(&mut self, until: Time) {
        while let Some(at) = self.next_moment().filter(|at| *at <= until) {
            self.advance_to(at);
        }
        self.now = self.now.max(until);
    }

    /// Current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Current state.
    pub fn cluster(&self) -> &Cluster {
        self.engine.cluster()
    }

    /// Policy in force.
    pub fn policy(&self) -> &dyn Policy {
        self.engine.policy()
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.store.0
    }

    /// Records of all tasks, in order of submission.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Record of a task.
    pub fn record(&self, task: TaskId) -> Option<&Record> {
        let at = self.record_at(task)?;
        self.records.get(at)
    }

    /// Rejected jobs, with the time of each.
    pub fn rejections(&self) -> &[(Time, Rejection)] {
        &self.rejections
    }

    /// Attempts that have a process on a worker, whatever the server knows.
    pub fn processes(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.machines[worker.0 as usize].processes().collect()
    }
}
