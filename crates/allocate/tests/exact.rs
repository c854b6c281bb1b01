//! Every goal against independent solvers: each is stated as plain linear programs, from its definition and not from
//! its algorithm, for a general solver on random instances and for brute force on small ones.

#[path = "support/odd.rs"]
mod odd;
#[path = "support/program.rs"]
mod program;
mod support;

use odd::{odd, odd_within, with_pairs};
use program::Program;
use warpyard_allocate::{
    Certificate, Entities, EntityPolicy, Instance, Job, Options, PairShare, Shares, Solution, goal,
};

/// Whom our answers are compared with.
type Solver = fn(&Program) -> f64;

fn solved(instance: &Instance, name: &str, sharing: bool) -> Solution {
    let options = Options { sharing, ..Options::default() };
    goal(name).expect("a goal").solve(instance, options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn close(what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-6 * theirs.abs(), "{what}: ours {ours}, theirs {theirs}");
}

/// P_m: how fast a job is on the mean GPU.
fn mean(instance: &Instance, job: &Job) -> f64 {
    let all: f64 = instance.types.iter().map(|t| f64::from(t.count)).sum();
    job.throughputs.iter().zip(&instance.types).map(|(s, t)| s * f64::from(t.count)).sum::<f64>() / all
}

fn steps(job: &Job) -> f64 {
    job.steps.expect("steps")
}

/// Everyone's speed at least its rate times one number: the largest such number.
fn maximise_level(instance: &Instance, sharing: bool, solver: Solver, rate: impl Fn(&Job) -> f64) -> f64 {
    let mut program = Program::new(instance, sharing);
    let theta = program.variable(1.0);
    for (m, job) in instance.jobs.iter().enumerate() {
        program.demand(m, 0.0, &[(theta, rate(job))]);
    }
    solver(&program)
}

/// How fast a job is alone on its part of everything: x = (c/n)/s, scaled down where that is more than all its time.
fn alone(instance: &Instance, job: &Job) -> f64 {
    let n = instance.jobs.len() as f64;
    let fits = |(_, (t, s)): &(usize, (&warpyard_allocate::GpuType, &f64))| t.count >= job.gpus && **s > 0.0;
    let each = instance.types.iter().zip(&job.throughputs).enumerate().filter(fits);
    let shares: Vec<(f64, f64)> =
        each.map(|(_, (t, s))| (f64::from(t.count) / n / f64::from(job.gpus), *s)).collect();
    let all = shares.iter().map(|(x, _)| x).sum::<f64>().max(1.0);
    shares.iter().map(|(x, s)| x * s).sum::<f64>() / all
}

/// Whether everyone can have this ratio of finish times, by how much of the speeds it asks for can be had.
fn part_of_ratio(instance: &Instance, sharing: bool, solver: Solver, ratio: f64) -> f64 {
    let n = instance.jobs.len();
    let ends_alone = |job: &Job| job.isolated_time_s + steps(job) / alone(instance, job);
    let left = |job: &Job| ratio * ends_alone(job) - job.age_s;
    assert!(n > 0 && instance.jobs.iter().all(|job| left(job) > 0.0), "a ratio of the past");
    maximise_level(instance, sharing, solver, |job| steps(job) / left(job))
}

/// The goals whose objective is one number.
fn objectives_agree(seed: u64, instance: &Instance, sharing: bool, solver: Solver) {
    let said = |name: &str| format!("seed {seed}, {name}, sharing {sharing}");
    let ours = |name: &str| solved(instance, name, sharing).objective;

    let theirs = maximise_level(instance, sharing, solver, |job| {
        job.weight * mean(instance, job) / f64::from(job.gpus)
    });
    close(&said("max-min"), ours("max-min"), theirs);
    close(&said("max-min-fill"), ours("max-min-fill"), theirs);

    let theirs = maximise_level(instance, sharing, solver, |job| steps(job) / 1e4);
    close(&said("makespan"), ours("makespan"), 1e4 / theirs);

    let mut program = Program::new(instance, sharing);
    program.gain(|_, _| 1.0);
    close(&said("throughput"), ours("throughput"), solver(&program));

    let ratio = ours("finish-time");
    let (reached, beyond) = (
        part_of_ratio(instance, sharing, solver, ratio),
        part_of_ratio(instance, sharing, solver, ratio * (1.0 - 1e-6)),
    );
    assert!(reached >= 1.0 - 1e-7, "{}: {ratio} is out of reach: {reached}", said("finish-time"));
    assert!(beyond < 1.0 + 1e-7, "{}: less than {ratio} can be reached: {beyond}", said("finish-time"));

    cost_agrees(&said("cost"), instance, sharing, solver);
}

/// Deadlines first, as much of them as can be kept, and then as many steps for the money as that leaves.
fn cost_agrees(said: &str, instance: &Instance, sharing: bool, solver: Solver) {
    let needs = |job: &Job| job.deadline_s.map(|left| steps(job) / left.max(1.0));
    let program = |kept: Option<f64>| {
        let mut program = Program::new(instance, sharing);
        if kept.is_some() {
            program.gain(|_, j| 1.0 / instance.types[j].cost_per_hour.expect("a cost"));
        }
        let mut counts = Vec::new();
        for (m, job) in instance.jobs.iter().enumerate() {
            let Some(needs) = needs(job) else { continue };
            let part = program.variable(if kept.is_none() { 1.0 } else { 0.0 });
            program.bound(&[(part, 1.0)], needs);
            program.demand(m, 0.0, &[(part, 1.0)]);
            counts.push((part, -1.0));
        }
        if let Some(kept) = kept {
            program.bound(&counts, -kept);
        }
        program
    };
    let ours = solved(instance, "cost", sharing);
    let all: f64 = instance.jobs.iter().filter_map(needs).sum();
    let kept = if all > 0.0 { solver(&program(None)) } else { 0.0 };
    let short: f64 = ours.shortfalls.iter().map(|short| short.needed - short.achieved).sum();
    assert!((all - kept - short).abs() <= 1e-6 * all, "{said}: ours {short} short, theirs {}", all - kept);
    close(said, ours.objective, solver(&program(Some(kept * (1.0 - 1e-9)))));
}

#[test]
fn a_general_solver_agrees() {
    for seed in 1000..1040 {
        let instance = with_pairs(odd(seed), seed);
        objectives_agree(seed, &instance, false, Program::optimum);
    }
}

#[test]
fn a_general_solver_agrees_where_two_may_share() {
    for seed in 1040..1060 {
        let instance = with_pairs(odd_within(seed, 3, 8), seed);
        objectives_agree(seed, &instance, true, Program::optimum);
    }
}

#[test]
fn brute_force_agrees() {
    for seed in 1100..1140 {
        let instance = odd_within(seed, 2, 3);
        let instance = Instance { pairs: None, ..instance };
        objectives_agree(seed, &instance, false, Program::by_brute_force);
    }
}

#[test]
fn brute_force_agrees_where_two_may_share() {
    for seed in 1140..1160 {
        let instance = with_pairs(odd_within(seed, 2, 2), seed);
        objectives_agree(seed, &instance, true, Program::by_brute_force);
    }
}

/// Of concave sums of logarithms, the largest is where no direction rises: at these speeds u, no others v have Σ v/u above
/// the number of jobs. The part of its speed a job keeps is what the others' product is to what it would be without it.
fn product_agrees(seed: u64, instance: &Instance, solver: Solver) {
    let ours = solved(instance, "strategy-proof", true);
    let Certificate::SharedDiscounts { discounts, alone, pairs, .. } = &ours.certificate else {
        panic!("seed {seed}: {:?}", ours.certificate)
    };
    let speeds = |alone: &Shares, pairs: &[PairShare]| -> Vec<f64> {
        let mut speeds: Vec<f64> = (instance.jobs.iter().zip(alone.rows()))
            .map(|(job, row)| job.throughputs.iter().zip(row).map(|(speed, share)| speed * share).sum())
            .collect();
        for PairShare { jobs: [a, b], shares } in pairs {
            let [one, other] = [*a, *b].map(|m| &instance.jobs[m]);
            for (t, share) in instance.types.iter().zip(shares).filter(|(_, share)| **share > 0.0) {
                let table = instance.pairs.as_ref().expect("a table");
                let both = table.paired(&t.name, &odd::profile(one), &odd::profile(other));
                let both = both.expect("a pair that can share");
                speeds[*a] += both[0] * share;
                speeds[*b] += both[1] * share;
            }
        }
        speeds
    };
    let (before, after) = (speeds(alone, pairs), speeds(&ours.allocation, &ours.pairs));
    let mut program = Program::new(instance, true);
    program.gain(|m, _| 1.0 / before[m]);
    let (n, most) = (before.len() as f64, solver(&program));
    assert!(most <= n + 1e-5, "seed {seed}: {most} is more than {n}");
    let levels = instance.jobs.iter().zip(&before);
    let level =
        |(job, speed): (&Job, &f64)| (f64::from(job.gpus) * speed / (job.weight * mean(instance, job))).ln();
    let each: Vec<f64> = levels.map(level).collect();
    let sum: f64 = each.iter().sum();
    assert!((ours.objective - sum).abs() <= 1e-6, "seed {seed}: ours {}, theirs {sum}", ours.objective);
    for m in 0..before.len() {
        let mut others = instance.clone();
        others.jobs.remove(m);
        let without =
            if others.jobs.is_empty() { 0.0 } else { solved(&others, "strategy-proof", true).objective };
        let kept = (sum - each[m] - without).exp();
        close(&format!("seed {seed}, job {m}: the part kept"), discounts[m], kept);
        close(&format!("seed {seed}, job {m}: its speed"), after[m], discounts[m] * before[m]);
    }
}

#[test]
fn products_of_speeds_agree_where_two_may_share() {
    for seed in 1300..1330 {
        let instance = Instance { entities: None, ..with_pairs(odd_within(seed, 3, 8), seed) };
        product_agrees(seed, &instance, Program::optimum);
    }
    for seed in 1330..1350 {
        let instance = Instance { entities: None, ..with_pairs(odd_within(seed, 2, 2), seed) };
        product_agrees(seed, &instance, Program::by_brute_force);
    }
}

/// What those who stopped give back, so that a solver that goes through the inside of what can be had finds one.
const SLACK: f64 = 1e-7;

/// How fast each job rises: what the tree says of those who still can, as shares of everything.
fn rates(instance: &Instance, open: &[bool]) -> Vec<f64> {
    let mut rates = vec![0.0; open.len()];
    match &instance.entities {
        Some(entities) => share(instance, entities, EntityPolicy::Fair, 1.0, open, &mut rates),
        None => {
            for (m, job) in instance.jobs.iter().enumerate().filter(|(m, _)| open[*m]) {
                rates[m] = job.weight;
            }
        }
    }
    rates
}

/// Shares a rate out among entities.
fn share(i: &Instance, all: &Entities, policy: EntityPolicy, rate: f64, open: &[bool], rates: &mut [f64]) {
    let rises = |name: &String| members(i, all, name).into_iter().any(|m| open[m]);
    let mut names: Vec<&String> = all.weights.keys().filter(|name| rises(name)).collect();
    if policy == EntityPolicy::Fifo {
        names.truncate(1);
    }
    let total: f64 = names.iter().map(|name| all.weights[*name]).sum();
    for name in names {
        let rate = rate * all.weights[name] / total;
        if let Some(inner) = all.entities.get(name) {
            share(i, inner, all.policies[name], rate, open, rates);
            continue;
        }
        let mut jobs: Vec<usize> = members(i, all, name).into_iter().filter(|&m| open[m]).collect();
        if all.policies[name] == EntityPolicy::Fifo {
            rates[jobs[0]] = rate;
            jobs.clear();
        }
        let total: f64 = jobs.iter().map(|&m| i.jobs[m].weight).sum();
        jobs.into_iter().for_each(|m| rates[m] = rate * i.jobs[m].weight / total);
    }
}

/// The places of an entity's jobs, in order of arrival.
fn members(instance: &Instance, all: &Entities, name: &String) -> Vec<usize> {
    let place = |id: &u64| instance.jobs.iter().position(|job| job.id == *id).expect("a job");
    let mut found: Vec<usize> = all.jobs.get(name).into_iter().flatten().map(place).collect();
    if let Some(inner) = all.entities.get(name) {
        found.extend(inner.weights.keys().flat_map(|name| members(instance, inner, name)));
    }
    found
}

/// Progressive filling as it is written down: rise until someone can rise no more, ask of each whether it is him.
fn filled(instance: &Instance, sharing: bool) -> Vec<f64> {
    let n = instance.jobs.len();
    let per_level = |m: usize| mean(instance, &instance.jobs[m]) / f64::from(instance.jobs[m].gpus);
    let (mut levels, mut open) = (vec![0.0; n], vec![true; n]);
    while open.iter().any(|open| *open) {
        let rates = rates(instance, &open);
        let mut program = Program::new(instance, sharing);
        let further = program.variable(1.0);
        for m in 0..n {
            program.demand(
                m,
                levels[m] * (1.0 - SLACK) * per_level(m),
                &[(further, rates[m] * per_level(m))],
            );
        }
        let by = program.optimum().max(0.0);
        (0..n).for_each(|m| levels[m] += rates[m] * by);
        let stopped: Vec<usize> =
            (0..n).filter(|&m| rates[m] > 0.0 && !rises(instance, sharing, &levels, m)).collect();
        assert!(!stopped.is_empty(), "nobody was stopped at {levels:?}");
        stopped.into_iter().for_each(|m| open[m] = false);
    }
    (0..n).map(|m| levels[m] / f64::from(instance.jobs[m].gpus)).collect()
}

/// Whether a job can rise while everyone else keeps what he has.
fn rises(instance: &Instance, sharing: bool, levels: &[f64], who: usize) -> bool {
    let mut program = Program::new(instance, sharing);
    let more = program.variable(1.0);
    for (m, job) in instance.jobs.iter().enumerate() {
        let per_level = mean(instance, job) / f64::from(job.gpus);
        let part = if m == who { &[(more, per_level)][..] } else { &[] };
        program.demand(m, levels[m] * (1.0 - SLACK) * per_level, part);
    }
    program.optimum() > 1e-5 * levels[who].max(1e-3)
}

fn levels_agree(seed: u64, name: &str, instance: &Instance, sharing: bool) {
    let (ours, theirs) = (solved(instance, name, sharing).normalised, filled(instance, sharing));
    for (m, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let near = (ours - theirs).abs() <= 2e-4 * theirs.max(1.0);
        assert!(near, "seed {seed}, {name}, sharing {sharing}, job {m}: ours {ours}, theirs {theirs}");
    }
}

#[test]
fn filling_by_definition_gives_the_same_levels() {
    for seed in 1200..1240 {
        let instance = with_pairs(odd_within(seed, 3, 6), seed);
        let flat = Instance { entities: None, ..instance.clone() };
        for sharing in [false, true] {
            levels_agree(seed, "max-min-fill", &flat, sharing);
            levels_agree(seed, "hierarchical", &instance, sharing);
        }
    }
}
