//! Prints the tables of planning: time against streaming over the costs, makespans against HEFT, mean turnaround by
//! size. Every figure is measured in the same run. `cargo bench -p warpyard-dag [-- part...]`, parts being `time`,
//! `quality`, `learned`, `stg`, `turnaround`, `workflows`, `portfolio`; with `--features train` also `seen` and `published`.

mod chart;

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use warpyard_dag::algorithm::{ALGORITHMS, Objective, Plan, SearchOptions, find, heft};
use warpyard_dag::read::{Machines, parse};
use warpyard_dag::{Bounds, Edge, Instance, Layered, Links, check};

const HEADLINE: (usize, usize) = (84_654, 188);

/// Nothing was trained, set or chosen by looking at these.
const FRESH: std::ops::RangeInclusive<u64> = 7001..=7020;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let parts: &[(&str, fn())] = &[
        ("time", time),
        ("quality", quality),
        ("learned", learned),
        ("stg", standard_task_graphs),
        ("workflows", workflows),
        ("portfolio", portfolio),
        ("turnaround", turnaround),
        #[cfg(feature = "train")]
        ("seen", seen),
        #[cfg(feature = "train")]
        ("published", published),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            part();
            println!();
        }
    }
}

fn layered(tasks: usize, machines: usize, seed: u64) -> Instance {
    Layered { tasks, machines, seed, ..Layered::default() }.generate().expect("the generator makes instances")
}

/// The shortest of several times, in milliseconds.
fn shortest(times: usize, mut what: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..times {
        let start = Instant::now();
        what();
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    best
}

fn for_seconds(name: &str, instance: &Instance, seconds: f64, objective: Objective) -> Plan {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let mut run = SearchOptions::until(|| Instant::now() >= until).objective(objective);
    let plan = find(name).expect("a registered name").plan(instance, &mut run);
    assert_eq!(check(instance, &plan.schedule), Ok(()), "{name}");
    plan
}

fn stream(costs: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for chunk in costs.as_chunks::<8>().0 {
        lanes.iter_mut().zip(chunk).for_each(|(lane, cost)| *lane += cost);
    }
    lanes.iter().sum()
}

fn time() {
    let (tasks, machines) = HEADLINE;
    let instance = layered(tasks, machines, 1);
    println!("time at {tasks} tasks x {machines} machines x {} edges", instance.edge_count());
    let passes = shortest(15, || {
        black_box(stream(instance.cost_matrix()));
        black_box(stream(instance.cost_matrix()));
    });
    println!("  two streaming passes over the costs  {passes:8.1} ms");
    let uniform = shortest(15, || drop(black_box(heft(&instance))));
    println!(
        "  heft, uniform links                  {uniform:8.1} ms  {:5.2}x (at most 3x)",
        uniform / passes
    );
    if let Some(peak) = peak_memory() {
        let matrix = size_of_val(instance.cost_matrix()) as f64;
        println!(
            "  most memory held so far              {:8.0} MB  {:5.2}x the costs (under 3x)",
            peak / 1e6,
            peak / matrix
        );
    }
    let pairs = with_pairs(&instance);
    let general = shortest(5, || drop(black_box(heft(&pairs))));
    println!(
        "  heft, links per pair                 {general:8.1} ms  {:5.2}x (under 150 ms)",
        general / passes
    );
    let base = heft(&instance).makespan();
    for name in ["blend", "peft", "learned"] {
        let Some(algorithm) = find(name) else { continue };
        let mut makespan = 0.0;
        let took = shortest(3, || {
            makespan = algorithm.plan(&instance, &mut SearchOptions::iterations(1)).schedule.makespan();
        });
        println!("  {name:<36} {took:8.1} ms  {:5.2}x heft, makespan {:.4}", took / uniform, makespan / base);
    }
    let small = layered(1000, machines, *FRESH.start());
    let by_heft = shortest(50, || drop(black_box(heft(&small))));
    let learned = find("learned").expect("a registered name");
    let took = shortest(50, || drop(black_box(learned.plan(&small, &mut SearchOptions::iterations(1)))));
    println!(
        "  learned at 1000 tasks                {took:8.2} ms  {:5.2}x heft's {by_heft:.2} ms (at most 5x)",
        took / by_heft
    );
    let start = Instant::now();
    let plan = for_seconds("best", &instance, 1.0, Objective::Makespan);
    let share = plan.schedule.makespan() / base;
    println!(
        "  best, 1 s ({:.2} s)                   makespan {share:.4} of heft (at most 0.98), by {}",
        start.elapsed().as_secs_f64(),
        plan.winner.unwrap_or("-")
    );
}

/// The most memory the process has held, where the system tells.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// The same instance with links that differ by up to a factor of three.
fn with_pairs(instance: &Instance) -> Instance {
    let p = instance.machines();
    let mut draw = warpyard_dag::SplitMix64::new(7);
    let bandwidth = (0..p * p).map(|_| 0.5 + draw.unit()).collect();
    let latency = (0..p * p).map(|_| draw.unit() * 10.0).collect();
    let edges: Vec<Edge> = instance.edges().collect();
    Instance::new(p, instance.cost_matrix().to_vec(), &edges, Links::Pairs { latency, bandwidth })
        .expect("only the links differ")
}

fn quality() {
    println!("makespan as a share of heft's, mean over 20 fresh seeds (searches: 1 s each)");
    println!("  {:<12} {:>12} {:>12} {:>12}", "", "1000x188", "1000x32", "1000x8");
    for algorithm in ALGORITHMS.iter().filter(|a| a.name != "heft") {
        let cells = [188, 32, 8].map(|machines| {
            let shares = FRESH.map(|seed| {
                let instance = layered(1000, machines, seed);
                let plan = for_seconds(algorithm.name, &instance, 1.0, Objective::Makespan);
                plan.schedule.makespan() / heft(&instance).makespan()
            });
            format!("{:12.4}", shares.sum::<f64>() / 20.0)
        });
        println!("  {:<12} {}", algorithm.name, cells.join(" "));
    }
}

fn shared(path: &str) -> Option<String> {
    let path = format!("{}/../../../shared/data/dag/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).inspect_err(|e| eprintln!("SKIPPED: {path}: {e}")).ok()
}

fn standard_task_graphs() {
    let Some(optima) = shared("stg/optima.json") else { return };
    let optima: serde_json::Value = serde_json::from_str(&optima).expect("the optima are JSON");
    let (mut proven, mut reached) = (0, 0);
    for (name, by_count) in optima["results"].as_object().expect("results by file") {
        let Some(text) = shared(&format!("stg/{name}")) else { return };
        for (count, result) in by_count.as_object().expect("results by count") {
            let Some(optimum) = result["optimal"].as_f64() else { continue };
            let machines = Machines::identical(count.parse().expect("a count"));
            let instance = parse(&text).and_then(|i| i.instantiate(Some(&machines))).expect("a task graph");
            let found = for_seconds("best", &instance, 1.0, Objective::Makespan).schedule.makespan();
            proven += 1;
            reached += u32::from(found == optimum);
        }
    }
    println!(
        "standard task graphs: best with 1 s is optimal on {reached} of {proven} proven cases (at least 13)"
    );
}

fn workflows() {
    println!("real workflows on 8 machines of 4 speeds: makespan as a share of heft's (searches: 1 s)");
    let machines = Machines::from_toml(
        "bandwidth = 1e8\n[[machine]]\nname = \"a\"\ncount = 2\nspeed = 4\n[[machine]]\nname = \"b\"\ncount = 2\n\
         speed = 2\n[[machine]]\nname = \"c\"\ncount = 2\nspeed = 1.5\n[[machine]]\nname = \"d\"\ncount = 2\n",
    );
    let machines = machines.expect("machines");
    let names: Vec<&str> = ALGORITHMS.iter().map(|a| a.name).filter(|n| *n != "heft").collect();
    println!("  {:<36} {}  heft/bound", "", names.iter().map(|n| format!("{n:>10}")).collect::<String>());
    for name in [
        "1000genome-chameleon-2ch-100k-001",
        "bwa-chameleon-small-005",
        "cycles-chameleon-2l-2c-9p-001",
        "helloworld-forkjoin-10-chameleon",
        "montage-chameleon-2mass-015d-001",
        "rnaseq-dirt02-001",
        "srasearch-chameleon-10a-001",
    ] {
        let Some(text) = shared(&format!("workflows/{name}.json")) else { return };
        let instance = parse(&text).and_then(|i| i.instantiate(Some(&machines))).expect("a workflow");
        let base = heft(&instance).makespan();
        let share = |n: &&str| for_seconds(n, &instance, 1.0, Objective::Makespan).schedule.makespan() / base;
        let cells: String = names.iter().map(|n| format!("{:10.4}", share(n))).collect();
        println!("  {name:<36} {cells}  {:10.4}", base / Bounds::of(&instance).makespan());
    }
}

/// CPU time of this thread, in seconds: what a search did on a machine that others use, too.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has this clock");
    Duration::from(time).as_secs_f64()
}

/// The portfolio against its strongest member, each with as much CPU time of its first thread.
fn portfolio() {
    println!("best against climb: makespan as a share of heft's, by CPU time of the first thread");
    for (tasks, machines, seeds, seconds) in [
        (200, 8, 1..=3, 0.25),
        (200, 8, 1..=3, 1.0),
        (1000, 8, 7001..=7003, 1.0),
        (1000, 188, 7001..=7003, 1.0),
        (40, 4, 1..=4, 0.3),
    ] {
        for seed in seeds {
            let instance = layered(tasks, machines, seed);
            let base = heft(&instance).makespan();
            let shares = ["climb", "best"].map(|name| {
                let until = cpu_seconds() + seconds;
                let search_seed = if tasks == 200 { seed } else { 1 };
                let mut options = SearchOptions::until(|| cpu_seconds() >= until).seed(search_seed);
                let plan = find(name).expect("a registered name").plan(&instance, &mut options);
                format!("{name} {:.4}", plan.schedule.makespan() / base)
            });
            println!("  {tasks}x{machines} seed {seed}, {seconds} s: {}", shares.join("  "));
        }
    }
}

fn turnaround() {
    println!("mean turnaround by size on 188 machines (genetic: 1 s for mean turnaround)");
    let names = ["heft", "genetic", "learned"];
    println!("  {:>8} {}", "tasks", names.iter().map(|n| format!("{n:>12}")).collect::<String>());
    let sizes = [486, 1_000, 10_000, 50_000, HEADLINE.0];
    let mut columns: Vec<chart::Series<'_>> =
        names.iter().map(|name| chart::Series { name, values: Vec::new() }).collect();
    for tasks in sizes {
        let instance = layered(tasks, HEADLINE.1, *FRESH.start());
        print!("  {tasks:>8} ");
        for column in &mut columns {
            let plan = for_seconds(column.name, &instance, 1.0, Objective::MeanTurnaround);
            column.values.push(plan.schedule.mean_turnaround(&instance));
            print!("{:12.1}", column.values[column.values.len() - 1]);
        }
        println!();
    }
    let svg = chart::svg("Mean turnaround on 188 machines, by planner", "tasks", &sizes, &columns);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/turnaround.svg");
    std::fs::write(path, svg).expect("the chart can be written");
    println!("  drawn in bench/turnaround.svg");
}

/// Single passes on shapes and sizes that training did not have.
fn learned() {
    println!("single passes: makespan as a share of heft's, mean over 20 fresh seeds");
    println!("  {:<34} {:>8} {:>8} {:>8}", "", "peft", "blend", "learned");
    let usual = Layered { mean_cost: 1000, ..Layered::default() };
    let shapes = [
        ("1,000 x 188", Layered { tasks: 1000, machines: 188, ..usual }),
        ("1,000 x 32", Layered { tasks: 1000, machines: 32, ..usual }),
        ("1,000 x 8", Layered { tasks: 1000, machines: 8, ..usual }),
        ("300 x 100", Layered { tasks: 300, machines: 100, ..usual }),
        ("10,000 x 188", Layered { tasks: 10_000, machines: 188, ..usual }),
        ("1,000 x 20, multiversion (alpha 400)", Layered { tasks: 1000, machines: 20, alpha: 400, ..usual }),
        ("1,000 x 20, narrow (alpha 30)", Layered { tasks: 1000, machines: 20, alpha: 30, ..usual }),
        ("1,000 x 20, much data (ccr 1000)", Layered { tasks: 1000, machines: 20, ccr: 1000, ..usual }),
        ("1,000 x 20, little data (ccr 5)", Layered { tasks: 1000, machines: 20, ccr: 5, ..usual }),
        ("1,000 x 20, nearly alike (beta 20)", Layered { tasks: 1000, machines: 20, beta: 20, ..usual }),
    ];
    for (name, shape) in shapes {
        let mut sums = [0.0; 3];
        for seed in FRESH {
            let instance = Layered { seed, ..shape }.generate().expect("the generator makes instances");
            let base = heft(&instance).makespan();
            for (sum, name) in sums.iter_mut().zip(["peft", "blend", "learned"]) {
                *sum += for_seconds(name, &instance, 1.0, Objective::Makespan).schedule.makespan() / base;
            }
        }
        let count = FRESH.count() as f64;
        println!("  {name:<34} {}", sums.map(|sum| format!("{:8.4}", sum / count)).join(" "));
    }
}

#[cfg(feature = "train")]
fn seen() {
    use warpyard_dag::learned::train::{TrainingConfig, instances};
    let training = TrainingConfig { seed: 1, instances: 2000, search: 40, imitate: 3, improve: 5000 };
    let all = instances(&training);
    let shares = all.iter().map(|instance| {
        let plan = for_seconds("learned", instance, 1.0, Objective::Makespan);
        plan.schedule.makespan() / heft(instance).makespan()
    });
    let mean = shares.sum::<f64>() / all.len() as f64;
    println!("learned on the {} instances it was trained on: {mean:.4} of heft", all.len());
}

#[cfg(feature = "train")]
fn published() {
    use warpyard_dag::learned::supervised::SupervisedModel;
    println!(
        "the published form of the network, small: trained on heft's schedules of 200 instances of 100 tasks"
    );
    println!("  {:<14} {:>10} {:>10} {:>12} {:>14}", "", "inference", "heft", "agreement", "makespan/heft");
    for machines in [8, 188] {
        let lessons: Vec<Instance> = (1..=200).map(|seed| layered(100, machines, seed)).collect();
        let network = SupervisedModel::train(&lessons, 4, 1).expect("candle trains");
        for tasks in [100, 1000, 10_000] {
            let instance = layered(tasks, machines, *FRESH.start());
            let mut prediction = None;
            let took = shortest(3, || prediction = network.predict(&instance).ok());
            let prediction = prediction.expect("candle predicts");
            let by_heft = shortest(3, || drop(black_box(heft(&instance))));
            let (schedule, base) = (prediction.repair(&instance), heft(&instance));
            assert_eq!(check(&instance, &schedule), Ok(()));
            println!(
                "  {:<14} {took:7.1} ms {by_heft:7.2} ms {:12.3} {:14.3}",
                format!("{tasks} x {machines}"),
                prediction.agreement(&base),
                schedule.makespan() / base.makespan()
            );
        }
    }
}
