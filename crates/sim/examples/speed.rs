//! How fast the simulator is: `speed POLICY JOBS GPUS LOAD` prints events, seconds and events per second.

use std::time::Instant;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::{JobSpec, Needs, TaskSpec, default_grace};
use warpyard_core::{Span, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::random::Random;
use warpyard_sim::{Arrival, Runs, Setup, Sim};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let policy = next("backfill");
    let jobs: u64 = next("100000").parse().expect("a number of jobs");
    let gpus: u64 = next("1000").parse().expect("a number of GPUs");
    let load: f64 = next("0.9").parse().expect("a load");
    let setup = Setup {
        workers: (0..gpus / 4).map(worker).collect(),
        policy: policy.parse().expect("a policy"),
        start_delay: Span::ZERO,
        forget: true,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup, POLICIES).expect("the policy exists");
    sim.feed(arrivals(jobs, gpus as f64, load));
    let began = Instant::now();
    sim.run();
    let took = began.elapsed().as_secs_f64();
    let ended = sim.records().iter().filter(|r| r.ended.is_some()).count();
    let wait = sim.records().iter().map(|r| r.started.unwrap().since(r.submitted).secs()).sum::<f64>();
    println!(
        "{policy}: {ended} jobs, {} events in {took:.2} s: {:.0} events/s, {:.2} us/event, mean wait {:.1} s",
        sim.events(),
        sim.events() as f64 / took,
        took * 1e6 / sim.events() as f64,
        wait / ended as f64,
    );
}

/// Poisson arrivals of jobs of 1, 2 or 4 GPUs that run for 10 to 1,000 s and promise up to twice that.
fn arrivals(jobs: u64, gpus: f64, load: f64) -> impl Iterator<Item = Arrival> {
    let mut random = Random::new(5);
    let (mean_length, mean_gpus) = (990.0 / 100f64.ln(), 0.7 + 0.2 * 2.0 + 0.1 * 4.0);
    let gap = mean_length * mean_gpus / (gpus * load);
    let mut at = 0.0;
    (0..jobs).map(move |_| {
        at += random.exponential(gap);
        let length = 10f64.powf(1.0 + 2.0 * random.unit());
        let gpus = match random.unit() {
            x if x < 0.7 => 1,
            x if x < 0.9 => 2,
            _ => 4,
        };
        let task = TaskSpec {
            name: "t".into(),
            needs: Needs { gpus, ..Needs::default() },
            timeout: Some(Span::from_secs(length * (1.0 + random.unit()))),
            grace: default_grace(),
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
        let runs = Runs::For(Span::from_secs(length));
        Arrival { at: Time::from_secs(at), user: "u".into(), spec, runs }
    })
}

fn worker(i: u64) -> WorkerInfo {
    let device = |d: u64| DeviceInfo {
        uuid: format!("GPU-{i}-{d}"),
        kind: "V100".into(),
        memory: 16 << 30,
        budget: 16 << 30,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    WorkerInfo {
        name: format!("w{i}"),
        devices: (0..4).map(device).collect(),
        cpus: 64_000,
        memory: 256 << 30,
        lease: None,
    }
}
