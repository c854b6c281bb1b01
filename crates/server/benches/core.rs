//! What recovery and planning cost: `cargo bench -p warpyard-server`. Prints tables in Markdown; asserts nothing.

use std::time::{Duration, Instant};
use warpyard_core::command::AttemptStatus;
use warpyard_core::engine::Engine;
use warpyard_core::event::{End, EndReason, Usage, WorkerInfo};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::{Array, JobSpec, Needs, Preempt, Program, TaskSpec};
use warpyard_core::store::Discard;
use warpyard_core::{AttemptId, Cluster, Command, PolicyChoice, Time, WorkerId};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_server::store::Log;

fn worker(gpus: usize) -> Command {
    let device = |i| DeviceInfo {
        uuid: format!("gpu-{i}"),
        kind: "V100".into(),
        memory: 16 << 30,
        budget: 16 << 30,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let devices = (0..gpus).map(device).collect();
    Command::Join(WorkerInfo {
        name: "w".into(),
        devices,
        cpus: 64_000,
        memory: 1 << 40,
        ..WorkerInfo::default()
    })
}

fn job(array: Option<u32>) -> Command {
    let array = array.map(|n| Array { ranges: vec![(1, n, 1)], at_once: None });
    job_of(TaskSpec { array, ..whole(1) })
}

fn whole(gpus: u16) -> TaskSpec {
    let needs = Needs { gpus, ..Needs::default() };
    TaskSpec { name: "t".into(), program: Program::new(["true"]), needs, ..TaskSpec::default() }
}

/// One that takes turns with others on a part of a GPU's memory.
fn in_turn() -> TaskSpec {
    let needs = Needs { gpus: 1, gpu_memory: Some(7 << 30), ..Needs::default() };
    TaskSpec { needs, preempt: Preempt::Freeze, ..whole(1) }
}

fn job_of(task: TaskSpec) -> Command {
    let spec = JobSpec { name: "bench".into(), tasks: vec![task], ..JobSpec::default() };
    Command::Submit { user: "ann".into(), env: None, spec: spec.into() }
}

fn engine() -> Engine {
    engine_under(default_policy())
}

fn engine_under(policy: PolicyChoice) -> Engine {
    Engine::new(Cluster::new(policy), POLICIES, Time(0)).expect("the policy can be built")
}

/// Everything on the worker has ended.
fn all_ended(cluster: &Cluster) -> Command {
    let over = AttemptStatus::Over(End { how: EndReason::Exited(0), usage: Usage::default() });
    let on_worker = cluster.desired(WorkerId(0));
    let attempts = on_worker.map(|d| (d.attempt, over.clone())).collect();
    Command::Report { worker: WorkerId(0), attempts, devices: Default::default() }
}

/// A log of at least so many events: one-task jobs, each submitted, placed, started and ended.
fn fill(log: &mut Log, events: u64) {
    let mut engine = engine();
    let mut now = 0;
    engine.turn(vec![worker(64)], Time(now), log).expect("room on the disk");
    while engine.cluster().seq() < events {
        now += 1_000;
        let mut batch = vec![all_ended(engine.cluster())];
        batch.extend((0..64).map(|_| job(None)));
        engine.turn(batch, Time(now), log).expect("room on the disk");
    }
}

fn recovery() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    let mut log = Log::open(&path).expect("a log");
    fill(&mut log, 1_000_000);
    drop(log);
    let begun = Instant::now();
    let loaded =
        Log::open(&path).and_then(|mut log| log.load(&default_policy())).expect("the log can be read");
    let took = begun.elapsed();
    println!("\n| recovery | | target |\n|---|---|---|");
    println!("| {} events after the last snapshot | {:.2} s | 5 s |", loaded.replayed, took.as_secs_f64());
}

/// How long a turn takes in which one task ends and another takes its place, with so many waiting.
fn turn_with_waiting(fill: impl Fn(&mut Engine)) -> Duration {
    let mut engine = engine();
    let Ok(_) = engine.turn(vec![worker(8)], Time(0), &mut Discard);
    fill(&mut engine);
    median_turn(engine, 400)
}

fn median_turn(mut engine: Engine, turns: u64) -> Duration {
    let mut samples: Vec<Duration> = Vec::new();
    for n in 0..turns {
        let first = engine.cluster().desired(WorkerId(0)).next().map(|d| d.attempt);
        let ended = first.map(one_ended).expect("something runs");
        let begun = Instant::now();
        let Ok(_) = engine.turn(vec![ended], Time(n + 1), &mut Discard);
        samples.push(begun.elapsed());
    }
    samples.sort();
    samples[samples.len() / 2]
}

fn one_ended(attempt: AttemptId) -> Command {
    let over = AttemptStatus::Over(End { how: EndReason::Exited(0), usage: Usage::default() });
    Command::Report { worker: WorkerId(0), attempts: [(attempt, over)].into(), devices: Default::default() }
}

fn planning() {
    let arrays = |n: u32| {
        move |engine: &mut Engine| {
            let Ok(_) = engine.turn(vec![job(Some(n))], Time(0), &mut Discard);
        }
    };
    let jobs = |n: u32| {
        move |engine: &mut Engine| {
            let Ok(_) = engine.turn((0..n).map(|_| job(None)).collect(), Time(0), &mut Discard);
        }
    };
    println!(
        "| one turn: a task ends, the next starts | 1,000 waiting | 1,000,000 waiting | ratio | target |"
    );
    println!("|---|---|---|---|---|");
    let row = |what: &str, few: Duration, many: Duration| {
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        println!("| {what} | {few:.1?} | {many:.1?} | {ratio:.2} | 2 |");
    };
    row("one array", turn_with_waiting(arrays(1_000)), turn_with_waiting(arrays(1_000_000)));
    row("single jobs", turn_with_waiting(jobs(1_000)), turn_with_waiting(jobs(1_000_000)));
}

/// The same where time is shared in rounds: every turn chooses among all that wait.
fn rounds() {
    let turn = |n: u32, task: &dyn Fn() -> TaskSpec| {
        let mut engine = engine_under("max-min".parse().expect("a policy"));
        let Ok(_) = engine.turn(vec![worker(128)], Time(0), &mut Discard);
        let Ok(_) = engine.turn((0..n).map(|_| job_of(task())).collect(), Time(0), &mut Discard);
        // One who needs GPUs whole, for whom others are held back.
        let Ok(_) = engine.turn(vec![job_of(whole(64))], Time(0), &mut Discard);
        median_turn(engine, 40)
    };
    println!("\n| one turn in rounds, 128 GPUs | 1,000 waiting | 8,000 waiting | ratio |\n|---|---|---|---|");
    let row = |what: &str, task: &dyn Fn() -> TaskSpec| {
        let [few, many] = [1_128, 8_128].map(|n| turn(n, task));
        println!("| {what} | {few:.1?} | {many:.1?} | {:.2} |", many.as_secs_f64() / few.as_secs_f64());
    };
    row("whole GPUs", &|| whole(1));
    row("taking turns", &in_turn);
}

fn main() {
    planning();
    rounds();
    recovery();
}
