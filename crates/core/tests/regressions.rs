//! Things that once went wrong, each told in a few commands.

use std::collections::BTreeMap;
use std::convert::Infallible;
use warpyard_core::cluster::ReadyTask;
use warpyard_core::command::{Standing, Target};
use warpyard_core::engine::{Engine, Store};
use warpyard_core::event::{End, How, Outcome, Usage, WorkerInfo};
use warpyard_core::ordered::{Behind, Order, Ordered};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::queue::Key;
use warpyard_core::spec::{AfterJob, JobSpec, Needs, On, TaskSpec};
use warpyard_core::{
    Cluster, Command, Event, JobId, PolicyChoice, PolicyDef, Span, TaskId, TaskState, Time, WorkerId,
};

struct Arrival;

impl Order for Arrival {
    fn key(&self, _: &ReadyTask<'_>) -> Key {
        Key::ARRIVAL
    }
}

const POLICIES: &[PolicyDef] = &[PolicyDef {
    name: "arrival",
    summary: "",
    source: "",
    params: &[],
    build: |_| Box::new(Ordered::new(Arrival, Behind::Anyone)),
}];

/// Keeps nothing.
struct Nowhere;

impl Store for Nowhere {
    type Error = Infallible;

    fn append(&mut self, _: &[Event]) -> Result<(), Infallible> {
        Ok(())
    }
}

struct Yard(Engine);

impl Yard {
    fn with(info: WorkerInfo) -> Yard {
        let policy = PolicyChoice { name: "arrival".into(), ..PolicyChoice::default() };
        let mut yard = Yard(Engine::new(Cluster::new(policy), POLICIES, Time(0)).unwrap());
        yard.ask(0.0, vec![Command::Join(info)]);
        yard
    }

    fn ask(&mut self, at: f64, batch: Vec<Command>) -> Option<JobId> {
        let turned = self.0.turn(batch, Time::from_secs(at), &mut Nowhere).unwrap();
        turned.answers.into_iter().next_back().and_then(|a| a.expect("refused").job)
    }

    fn submit(&mut self, at: f64, needs: Needs, after: Vec<AfterJob>) -> JobId {
        let task = TaskSpec { name: "t".into(), needs, ..TaskSpec::default() };
        let spec = JobSpec { name: "j".into(), after, tasks: vec![task], ..JobSpec::default() };
        self.ask(at, vec![Command::Submit { user: "ann".into(), env: None, spec }]).unwrap()
    }

    fn over(&mut self, at: f64, job: JobId, number: u32, how: How) {
        let standing = Standing::Over(End { how, usage: Usage::default() });
        let attempts = BTreeMap::from([(task(job).attempt(number), standing)]);
        self.ask(at, vec![Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() }]);
    }

    fn state(&self, job: JobId) -> TaskState<'_> {
        self.0.cluster().state(task(job)).unwrap()
    }
}

fn task(job: JobId) -> TaskId {
    TaskId { job, node: 0, index: 0 }
}

fn worker(devices: usize, lease: Option<Span>) -> WorkerInfo {
    let device = |i: usize| DeviceInfo {
        uuid: format!("GPU-{i}"),
        kind: "V100".into(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    WorkerInfo {
        name: "w".into(),
        devices: (0..devices).map(device).collect(),
        cpus: 4000,
        memory: 64,
        lease,
    }
}

fn one_gpu() -> Needs {
    Needs { gpus: 1, ..Needs::default() }
}

#[test]
fn a_job_skipped_because_of_another_can_be_retried_once_that_succeeded() {
    let mut yard = Yard::with(worker(1, None));
    let first = yard.submit(0.0, one_gpu(), vec![]);
    let second = yard.submit(0.0, one_gpu(), vec![AfterJob { job: first, on: On::Ok }]);
    yard.over(1.0, first, 1, How::Exited(1));
    assert_eq!(yard.state(second), TaskState::Done(Outcome::Skipped));

    yard.ask(2.0, vec![Command::Retry { job: second, failed_only: false }]);
    assert_eq!(yard.state(second), TaskState::Done(Outcome::Skipped), "the first has still failed");

    yard.ask(3.0, vec![Command::Retry { job: first, failed_only: false }]);
    yard.ask(4.0, vec![Command::Retry { job: second, failed_only: false }]);
    assert_eq!(yard.state(second), TaskState::Blocked, "the first runs again");
    yard.over(5.0, first, 2, How::Exited(0));
    assert!(matches!(yard.state(second), TaskState::Placed(_)));
}

#[test]
fn both_conditions_on_the_same_job_count() {
    let mut yard = Yard::with(worker(1, None));
    let first = yard.submit(0.0, one_gpu(), vec![]);
    let conditions = [On::Any, On::Ok].map(|on| AfterJob { job: first, on });
    let second = yard.submit(0.0, one_gpu(), conditions.to_vec());
    yard.over(1.0, first, 1, How::Exited(1));
    assert_eq!(yard.state(second), TaskState::Done(Outcome::Skipped));
}

#[test]
fn a_worker_heard_from_in_the_same_turn_is_not_given_up() {
    let mut yard = Yard::with(worker(1, Some(Span::from_secs(15.0))));
    let job = yard.submit(0.0, one_gpu(), vec![]);
    let attempts = BTreeMap::from([(task(job).attempt(1), Standing::Running)]);
    // The server stood still for longer than the lease, and the worker's report waited for it.
    yard.ask(20.0, vec![Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() }]);
    assert!(matches!(yard.state(job), TaskState::Running(_)));
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().online);
}

#[test]
fn a_worker_that_joins_again_unchanged_keeps_its_lease() {
    let info = worker(1, Some(Span::from_secs(15.0)));
    let mut yard = Yard::with(info.clone());
    yard.ask(10.0, vec![Command::Join(info)]);
    yard.ask(20.0, vec![]);
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().online);
}

#[test]
fn a_worker_that_comes_back_without_a_lease_is_not_held_to_the_old_one() {
    let mut yard = Yard::with(worker(1, Some(Span::from_secs(15.0))));
    yard.ask(10.0, vec![Command::Join(worker(1, None))]);
    yard.ask(60.0, vec![]);
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().online);
}

#[test]
fn a_device_without_a_limit_takes_more_than_a_counter_of_sixteen_bits_holds() {
    let mut info = worker(1, None);
    info.devices[0].overcommit = true;
    let mut yard = Yard::with(info);
    let array = warpyard_core::spec::Array { ranges: vec![(1, 70_000, 1)], at_once: None };
    let whole = TaskSpec { needs: one_gpu(), array: Some(array), ..TaskSpec::default() };
    let spec = JobSpec { name: "many".into(), tasks: vec![whole], ..JobSpec::default() };
    let job = yard.ask(0.0, vec![Command::Submit { user: "ann".into(), env: None, spec }]).unwrap();
    assert_eq!(yard.0.cluster().job(job).unwrap().nodes[0].active(), 70_000);
    yard.ask(1.0, vec![Command::Cancel(Target::Job(job))]);
}
