//! A small yard to tell stories in: one engine, one worker, devices of one kind, first in first out.

use std::collections::BTreeMap;
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::command::AttemptStatus;
use warpyard_core::engine::Engine;
use warpyard_core::event::{End, EndReason, Usage, WorkerInfo};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::policy::PolicyGroup;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::queue::Key;
use warpyard_core::spec::{AfterJob, JobSpec, Needs, TaskSpec};
pub(crate) use warpyard_core::store::Discard;
use warpyard_core::{
    Cluster, Command, JobId, PolicyChoice, PolicyDef, Span, TaskId, TaskState, Time, WorkerId,
};

struct Arrival;

impl Order for Arrival {
    fn key(&self, _: &ReadyTask<'_>) -> Key {
        Key::ARRIVAL
    }

    fn formula(&self) -> &'static str {
        ""
    }

    fn formula_values(&self, _: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        String::new()
    }
}

pub(crate) const POLICIES: &[PolicyDef] = &[PolicyDef {
    name: "arrival",
    summary: "",
    group: PolicyGroup::Arrival,
    when: "",
    source: "",
    params: &[],
    build: |_| Box::new(Ordered::new(Arrival, BackfillRule::Anyone)),
}];

pub(crate) struct Yard(pub(crate) Engine);

impl Yard {
    pub(crate) fn with(info: WorkerInfo) -> Yard {
        let policy = PolicyChoice { name: "arrival".into(), ..PolicyChoice::default() };
        let mut yard = Yard(Engine::new(Cluster::new(policy), POLICIES, Time(0)).unwrap());
        yard.ask(0.0, vec![Command::Join(info)]);
        yard
    }

    pub(crate) fn ask(&mut self, at: f64, batch: Vec<Command>) -> Option<JobId> {
        let turned = self.0.turn(batch, Time::from_secs(at), &mut Discard).unwrap();
        turned.answers.into_iter().next_back().and_then(|a| a.expect("refused").job)
    }

    pub(crate) fn submit(&mut self, at: f64, needs: Needs, after: Vec<AfterJob>) -> JobId {
        let task = TaskSpec { name: "t".into(), needs, ..TaskSpec::default() };
        let spec = JobSpec { name: "j".into(), after, tasks: vec![task], ..JobSpec::default() };
        self.ask(at, vec![Command::Submit { user: "ann".into(), env: None, spec: spec.into() }]).unwrap()
    }

    pub(crate) fn over(&mut self, at: f64, job: JobId, number: u32, how: EndReason) {
        let standing = AttemptStatus::Over(End { how, usage: Usage::default() });
        let attempts = [(task(job).attempt(number), standing)].into();
        self.ask(at, vec![Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() }]);
    }

    pub(crate) fn state(&self, job: JobId) -> TaskState<'_> {
        self.0.cluster().state(task(job)).unwrap()
    }
}

pub(crate) fn task(job: JobId) -> TaskId {
    TaskId { job, node: 0, index: 0 }
}

pub(crate) fn worker(devices: usize, lease: Option<Span>) -> WorkerInfo {
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
        ..WorkerInfo::default()
    }
}

pub(crate) fn one_gpu() -> Needs {
    Needs { gpus: 1, ..Needs::default() }
}
