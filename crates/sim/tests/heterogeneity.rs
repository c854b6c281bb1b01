//! `heft` where it is known how fast a task is on each type of GPU.

use std::collections::BTreeMap;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::shares::Speed;
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};
use warpyard_core::{Command, Span, TaskId, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{Record, RunModel, Setup, Sim};

/// A worker with a device of each of these types, on which tasks of so many devices do so many steps a second.
fn sim(gpus: u16, kinds: &[(&str, f64)]) -> Sim {
    let device = |(kind, _): &(&str, f64)| DeviceInfo {
        uuid: format!("GPU-{kind}"),
        kind: (*kind).to_owned(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let devices = kinds.iter().map(device).collect();
    let worker = WorkerInfo { name: "w".into(), devices, cpus: 4000, memory: 64, ..WorkerInfo::default() };
    let setup = Setup { workers: vec![worker], policy: "heft".parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let speed = |&(kind, steps_per_second): &(&str, f64)| Speed {
        profile: "p".into(),
        gpus,
        kind: kind.to_owned(),
        steps_per_second,
        measured: false,
        beside: None,
    };
    let speeds = kinds.iter().map(speed).collect();
    sim.execute(Command::SetSpeeds { speeds, costs: BTreeMap::new() }).unwrap();
    sim
}

/// A task of 100 steps, which takes as long as `seconds` wherever it runs.
fn submit(sim: &mut Sim, gpus: u16, seconds: f64) -> TaskId {
    let task = TaskSpec {
        name: "t".into(),
        needs: Needs { gpus, ..Needs::default() },
        profile: Some("p".into()),
        steps: Some(100),
        ..TaskSpec::default()
    };
    let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
    let job = sim.submit("ann", spec, RunModel::Constant(Span::from_secs(seconds))).unwrap();
    TaskId { job, node: 0, index: 0 }
}

fn record(sim: &Sim, task: TaskId) -> Record {
    sim.record(task).unwrap().clone()
}

#[test]
fn a_task_of_several_gpus_takes_a_mixture_where_no_type_has_enough() {
    let mut sim = sim(2, &[("K80", 10.0), ("V100", 10.0)]);
    let task = submit(&mut sim, 2, 10.0);
    let record = record(&sim, task);
    assert_eq!((record.started, record.devices), (Some(Time(0)), 2));
}

/// By its steps the first has the fast device for 10 s, and the second would take 25 s on the slow one. What is late is
/// taken to be late by as much again (1, 2, 4, 8, 16 s after it was due), so waiting looks better until 26 s have passed
/// and the fast device would be free after 42.
#[test]
fn a_task_waits_for_a_fast_gpu_until_what_has_it_is_too_late() {
    let mut sim = sim(1, &[("K80", 4.0), ("V100", 10.0)]);
    let late = submit(&mut sim, 1, 1000.0);
    let waits = submit(&mut sim, 1, 25.0);
    sim.run_until(Time::from_secs(25.0));
    assert_eq!(record(&sim, waits).started, None, "the fast device should have been free long ago");
    sim.run();
    assert_eq!(record(&sim, late).started, Some(Time(0)));
    assert_eq!(record(&sim, waits).started, Some(Time::from_secs(26.0)));
}

/// As long as the one that has it is as fast as was said.
#[test]
fn a_task_waits_for_a_fast_gpu_that_is_free_soon_enough() {
    let mut sim = sim(1, &[("K80", 4.0), ("V100", 10.0)]);
    submit(&mut sim, 1, 10.0);
    let waits = submit(&mut sim, 1, 10.0);
    sim.run();
    assert_eq!(record(&sim, waits).started, Some(Time::from_secs(10.0)));
}
