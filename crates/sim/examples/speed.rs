//! How fast the simulator is: `speed POLICY JOBS GPUS LOAD` prints events, seconds and events per second;
//! `speed growth POLICY` what an event costs with ten thousand jobs and with a million, as a ratio.

use std::time::Instant;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::{JobSpec, Needs, TaskSpec, default_grace};
use warpyard_core::{Span, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::random::Random;
use warpyard_sim::{Arrival, RunModel, Setup, Sim};

/// From so many jobs to so many, the cost of an event may grow as the logarithm does.
const GROWTH: [u64; 2] = [10_000, 1_000_000];

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let policy = next("backfill");
    if policy == "growth" {
        return growth(&next("backfill"));
    }
    let jobs: u64 = next("100000").parse().expect("a number of jobs");
    let gpus: u64 = next("1000").parse().expect("a number of GPUs");
    let load: f64 = next("0.9").parse().expect("a load");
    let Ran { events, wall, cpu, ended, wait } = run(&policy, jobs, gpus, load);
    let (million, n) = (1e6, events as f64);
    println!(
        "{policy}: {ended} jobs, {events} events in {wall:.2} s: {:.0} events/s; {cpu:.2} s of a core: {:.0} events/s, {:.2} us/event; mean wait {wait:.1} s",
        n / wall,
        n / cpu,
        cpu * million / n,
    );
}

/// Prints what an event costs with few jobs and with many, as a ratio beside that of the logarithms.
fn growth(policy: &str) {
    let [few, many] = GROWTH.map(|jobs| {
        let cost = |ran: Ran| ran.cpu * 1e6 / ran.events as f64;
        // The least of several: whatever else the machine does only adds to it.
        let times = (1_000_000 / jobs).clamp(1, 5);
        (0..times).map(|_| cost(run(policy, jobs, 1000, 0.9))).fold(f64::INFINITY, f64::min)
    });
    let allowed = (GROWTH[1] as f64).ln() / (GROWTH[0] as f64).ln();
    let ratio = many / few;
    let verdict = if ratio <= allowed { "met" } else { "missed" };
    println!(
        "{policy}: {few:.2} us of a core an event with {} jobs, {many:.2} us with {}: {ratio:.2}x (log n: {allowed:.2}x, {verdict})",
        GROWTH[0], GROWTH[1],
    );
}

struct Ran {
    events: u64,
    /// Seconds by the clock, and of a core.
    wall: f64,
    cpu: f64,
    ended: usize,
    /// The mean, in seconds.
    wait: f64,
}

fn run(policy: &str, jobs: u64, gpus: u64, load: f64) -> Ran {
    let setup = Setup {
        workers: (0..gpus / 4).map(worker).collect(),
        policy: policy.parse().expect("a policy"),
        start_delay: Span::ZERO,
        forget: true,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup, POLICIES).expect("the policy exists");
    sim.feed(arrivals(jobs, gpus as f64, load));
    let (began, cpu) = (Instant::now(), on_cpu());
    sim.run();
    let (wall, cpu) = (began.elapsed().as_secs_f64(), on_cpu() - cpu);
    let ended = sim.records().iter().filter(|r| r.ended.is_some()).count();
    let wait = sim.records().iter().map(|r| r.started.unwrap().since(r.submitted).secs()).sum::<f64>();
    Ran { events: sim.events(), wall, cpu, ended, wait: wait / ended as f64 }
}

/// Seconds this thread has been on a core, as Linux counts them.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = stat.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.expect("a number") / 1e9
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
        let runs = RunModel::Constant(Span::from_secs(length));
        Arrival { at: Time::from_secs(at), user: "u".into(), spec: spec.into(), runs }
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
        ..WorkerInfo::default()
    }
}
