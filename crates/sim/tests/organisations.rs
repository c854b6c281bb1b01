//! `hierarchical` in the engine: projects are organisations with weights, and parts of others to any depth.

use std::sync::Arc;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::{JobSpec, Needs, Preempt, TaskSpec};
use warpyard_core::{JobId, TaskId};
use warpyard_policies::POLICIES;
use warpyard_sim::{RunModel, Setup, Sim, StepSpeeds, StepWork};

/// When jobs of these projects end, each of which takes 100 s alone, on one GPU.
fn ends(policy: &str, projects: &[&str]) -> Vec<f64> {
    let device = DeviceInfo {
        uuid: "GPU-0".into(),
        kind: "V100".into(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker = WorkerInfo {
        name: "w".into(),
        devices: vec![device],
        cpus: 8000,
        memory: 64,
        ..WorkerInfo::default()
    };
    let setup = Setup { workers: vec![worker], policy: policy.parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let jobs: Vec<JobId> = projects.iter().map(|project| submit(&mut sim, project)).collect();
    sim.run();
    let end = |&job: &JobId| sim.record(TaskId { job, node: 0, index: 0 }).unwrap().ended.unwrap().secs();
    jobs.iter().map(end).collect()
}

fn submit(sim: &mut Sim, project: &str) -> JobId {
    let task = TaskSpec {
        name: "t".into(),
        needs: Needs { gpus: 1, ..Needs::default() },
        profile: Some("p".into()),
        steps: Some(100),
        preempt: Preempt::Requeue,
        ..TaskSpec::default()
    };
    let alone = [("v100".to_owned(), 1.0)].into();
    let speeds = Arc::new(StepSpeeds { profile: "p".into(), alone, beside: Default::default() });
    let project = Some(project.to_owned());
    let spec = JobSpec { name: "j".into(), project, tasks: vec![task], ..JobSpec::default() };
    sim.submit("ann", spec, RunModel::Steps(vec![StepWork { steps: 100.0, speeds }])).unwrap()
}

#[test]
fn a_project_gets_what_it_weighs_however_many_parts_another_has() {
    let projects = ["vision", "nlp/speech", "nlp/text/old", "nlp/text/new"];
    // Three of four parts of the time: 100 s of it take 133.
    let weighed = ends("hierarchical:organisations=vision=3,round=1", &projects)[0];
    assert!((weighed - 400.0 / 3.0).abs() < 6.0, "it ended after {weighed} s");
    // As much as all of the other together, which has three jobs.
    let equal = ends("hierarchical:round=1", &projects)[0];
    assert!((equal - 200.0).abs() < 6.0, "it ended after {equal} s");
}

#[test]
fn inside_each_organisation_is_shared_as_is_said_of_it() {
    let projects = ["vision", "vision", "nlp", "nlp"];
    let ends = ends("hierarchical:organisations=nlp=1=fifo,round=1", &projects);
    // Each of vision's two has a quarter of the time; of nlp's the first has half of it.
    assert!((ends[2] - 200.0).abs() < 6.0, "the first of nlp ended after {} s", ends[2]);
    assert!((ends[0] - ends[1]).abs() < 6.0 && ends[0] > 380.0, "vision's ended after {ends:?} s");
}
