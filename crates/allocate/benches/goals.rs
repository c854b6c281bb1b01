//! How long each goal takes, by size: jobs that all differ, and jobs of the published kinds, which fall into classes.
//! Run with `cargo bench -p warpyard-allocate`; a largest number of jobs and names of goals narrow it down.

use std::time::Instant;

use warpyard_allocate::{
    Entities, EntityPolicy, GOALS, GoalDef, Instance, Job, Options, Profile, ThroughputTable, check,
};

#[path = "../tests/support/mod.rs"]
mod support;

/// Goals that are solved at every size; the others stop at 2,048 jobs.
const LARGE: [&str; 4] = ["max-min", "makespan", "throughput", "cost"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let largest = arguments.iter().find_map(|a| a.parse::<usize>().ok()).unwrap_or(1_000_000);
    let wanted = |goal: &GoalDef| {
        let names: Vec<&String> = arguments.iter().filter(|a| a.parse::<usize>().is_err()).collect();
        names.is_empty() || names.iter().any(|name| *name == goal.name)
    };
    println!("{:>9}  {:<9} {:<16} {:>10}  {:>9}  {:>14}", "jobs", "which", "goal", "ms", "gap", "objective");
    for n in [128, 2_048].into_iter().filter(|n| *n <= largest) {
        if let Some(instance) = published(n) {
            for goal in GOALS.iter().filter(|goal| wanted(goal)) {
                measure(&instance, "classes", goal, Options::default());
                if ["max-min", "throughput", "cost"].contains(&goal.name) {
                    measure(&instance, "sharing", goal, Options { sharing: true, ..Options::default() });
                }
            }
        }
    }
    for n in [128, 2_048, 100_000, 1_000_000].into_iter().filter(|n| *n <= largest) {
        let instance = distinct(n);
        for goal in GOALS.iter().filter(|goal| wanted(goal)) {
            if n <= 2_048 || LARGE.contains(&goal.name) {
                measure(&instance, "distinct", goal, Options::default());
            }
        }
    }
}

fn measure(instance: &Instance, which: &str, goal: &GoalDef, options: Options) {
    let start = Instant::now();
    let solved = goal.solve(instance, options);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let n = instance.jobs.len();
    match solved {
        Ok(answer) => {
            let gap = check(instance, goal, options, &answer)
                .map_or_else(|e| e.to_string(), |c| format!("{:.0e}", c.gap));
            println!("{n:>9}  {which:<9} {:<16} {ms:>10.2}  {gap:>9}  {:>14.6}", goal.name, answer.objective);
        }
        Err(error) => println!("{n:>9}  {which:<9} {:<16} {error}", goal.name),
    }
}

/// Jobs with speeds of their own, scarce GPUs of three types, deadlines for some, eight organisations.
fn distinct(n: usize) -> Instance {
    let count = (n as u32 / 8).max(8);
    let mut instance = support::distinct(n, &[count, count, count], 1);
    dress(&mut instance);
    instance
}

/// Jobs of the published kinds, as many as asked for, on an eighth as many GPUs of each type.
fn published(n: usize) -> Option<Instance> {
    let table = std::fs::read_to_string(support::data("simulation_throughputs.json")?).ok()?;
    let table: ThroughputTable = serde_json::from_str(&table).ok()?;
    let names = ["k80", "p100", "v100"];
    let profiles: Vec<Profile> = table.profiles("v100").filter(|p| p.gpus == 1).cloned().collect();
    let mut random = support::Random(7);
    let jobs = (0..n).map(|id| {
        let profile = &profiles[random.below(profiles.len())];
        let row = names.iter().map(|t| table.alone(t, profile).unwrap_or(0.0)).collect();
        Job {
            profile: Some(profile.name.clone()),
            weight: [1.0, 5.0][random.below(2)],
            steps: Some((1e4 + 1e6 * random.unit()).round()),
            age_s: (1e5 * random.unit()).round(),
            ..Job::new(id as u64, row)
        }
    });
    let mut instance = Instance { jobs: jobs.collect(), ..support::plain(&[n as u32 / 4; 3], &[]) };
    instance.types.iter_mut().zip(names).for_each(|(t, name)| t.name = name.into());
    instance.pairs = Some(table);
    dress(&mut instance);
    instance.jobs.iter_mut().for_each(|job| job.deadline_s = None);
    Some(instance)
}

/// Costs, deadlines for one job in eight, and eight organisations, every other one first in, first out.
fn dress(instance: &mut Instance) {
    instance.types.iter_mut().zip([0.135, 0.43, 0.74]).for_each(|(t, cost)| t.cost_per_hour = Some(cost));
    let mut entities = Entities::default();
    for e in 0..8 {
        let policy = if e % 2 == 0 { EntityPolicy::Fair } else { EntityPolicy::Fifo };
        entities.weights.insert(format!("org{e}"), 1.0 + (e % 3) as f64);
        entities.policies.insert(format!("org{e}"), policy);
    }
    for (m, job) in instance.jobs.iter_mut().enumerate() {
        entities.jobs.entry(format!("org{}", m % 8)).or_default().push(job.id);
        if m % 8 == 3 {
            job.deadline_s = job.steps.map(|steps| 20.0 * steps / job.throughputs[0]);
        }
    }
    instance.entities = Some(entities);
}
