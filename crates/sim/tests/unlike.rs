//! `heft` where it is known how fast a task is on each type of GPU.

use std::collections::BTreeMap;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::shares::Speed;
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};
use warpyard_core::{Command, Span, TaskId, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{Runs, Setup, Sim};

/// A worker with one device of each type, and a task of both that says on which types it is how fast.
#[test]
fn a_task_of_several_gpus_takes_a_mixture_where_no_type_has_enough() {
    let kinds = ["K80", "V100"];
    let device = |kind: &str| DeviceInfo {
        uuid: format!("GPU-{kind}"),
        kind: kind.to_owned(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let devices = kinds.map(device).to_vec();
    let worker = WorkerInfo { name: "w".into(), devices, cpus: 4000, memory: 64, lease: None };
    let setup = Setup { workers: vec![worker], policy: "heft".parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let speed = |kind: &str| Speed {
        profile: "p".into(),
        gpus: 2,
        kind: kind.to_owned(),
        steps_per_second: 10.0,
        measured: false,
    };
    let speeds = kinds.map(speed).to_vec();
    sim.ask(Command::SetSpeeds { speeds, costs: BTreeMap::new() }).unwrap();
    let task = TaskSpec {
        name: "t".into(),
        needs: Needs { gpus: 2, ..Needs::default() },
        profile: Some("p".into()),
        steps: Some(100),
        ..TaskSpec::default()
    };
    let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
    let job = sim.submit("ann", spec, Runs::For(Span::from_secs(10.0))).unwrap();
    let record = sim.record(TaskId { job, node: 0, index: 0 }).unwrap();
    assert_eq!((record.started, record.devices), (Some(Time(0)), 2));
}
