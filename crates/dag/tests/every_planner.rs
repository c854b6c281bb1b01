//! Every planner of the registry against generated instances, judged by the checker and the lower bounds.

use proptest::prelude::*;
use warpyard_dag::algorithm::{ALGORITHMS, SearchOptions, find, heft};
use warpyard_dag::{Bounds, Edge, Instance, Layered, Links, check};

/// Small edge-case instances: zero-length tasks, equal costs, edges without data, skewed links, late releases.
fn instances() -> impl Strategy<Value = Instance> {
    (1usize..24, 1usize..20, any::<u64>(), any::<bool>(), any::<bool>(), 0u64..3).prop_map(
        |(tasks, machines, seed, pairs, releases, kind)| {
            let mut draw = warpyard_dag::SplitMix64::new(seed);
            let mut number = |most: u64| match kind {
                0 => draw.below(most) as f64,
                1 => draw.below(3) as f64,
                _ => draw.unit() * most as f64,
            };
            let costs: Vec<f64> = (0..tasks * machines).map(|_| number(30)).collect();
            let mut edges = Vec::new();
            // Edges go from higher to lower index, so that index order is not the order of running.
            for from in 0..tasks as u32 {
                for to in 0..from {
                    if number(30) < 5.0 {
                        edges.push(Edge { from, to, data: number(20) });
                    }
                }
            }
            let links = if pairs {
                let size = machines * machines;
                Links::Pairs {
                    latency: (0..size).map(|_| number(5)).collect(),
                    bandwidth: (0..size).map(|_| number(4) + 0.5).collect(),
                }
            } else {
                Links::Uniform
            };
            let release = (0..tasks).map(|_| if releases { number(40) } else { 0.0 }).collect();
            Instance::new(machines, costs, &edges, links).unwrap().with_releases(release).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_schedule_is_valid_and_not_below_the_bounds(instance in instances(), seed in any::<u64>()) {
        let bound = Bounds::of(&instance).makespan();
        for algorithm in ALGORITHMS {
            let plan = algorithm.plan(&instance, &mut SearchOptions::iterations(30).seed(seed));
            prop_assert_eq!(check(&instance, &plan.schedule), Ok(()), "{}", algorithm.name);
            prop_assert!(plan.schedule.makespan() >= bound * (1.0 - 1e-9), "{}", algorithm.name);
            let again = algorithm.plan(&instance, &mut SearchOptions::iterations(30).seed(seed));
            prop_assert_eq!(plan, again, "{} is not repeatable", algorithm.name);
        }
    }

    #[test]
    fn heft_equals_the_naive_implementation(instance in instances()) {
        prop_assert_eq!(heft(&instance).slots, naive_heft(&instance));
    }
}

/// HEFT as the paper states it, without optimisations.
fn naive_heft(instance: &Instance) -> Vec<warpyard_dag::Slot> {
    let ranks = warpyard_dag::upward_ranks(instance);
    let mut order: Vec<usize> = (0..instance.tasks()).collect();
    order.sort_by(|a, b| {
        ranks[*b]
            .total_cmp(&ranks[*a])
            .then(instance.topological_position(*a).cmp(&instance.topological_position(*b)))
    });
    let mut slots = vec![warpyard_dag::Slot::default(); instance.tasks()];
    let mut lanes: Vec<Vec<(f64, f64)>> = vec![Vec::new(); instance.machines()];
    for task in order {
        let mut best = (f64::INFINITY, 0, 0.0, 0);
        for (machine, lane) in lanes.iter().enumerate() {
            let cost = instance.costs(task)[machine];
            let arrivals = instance.predecessors(task).iter().map(|&(before, data)| {
                let slot = &slots[before as usize];
                slot.finish + instance.transfer(data, slot.machine as usize, machine)
            });
            let ready = arrivals.fold(instance.release(task), f64::max);
            let mut start = ready;
            let mut place = lane.len();
            for (at, (from, to)) in lane.iter().enumerate() {
                if start + cost <= *from {
                    place = at;
                    break;
                }
                start = start.max(*to);
            }
            if start + cost < best.0 {
                best = (start + cost, machine, start, place);
            }
        }
        let (finish, machine, start, place) = best;
        lanes[machine].insert(place, (start, finish));
        slots[task] = warpyard_dag::Slot { machine: machine as u32, start, finish };
    }
    slots
}

#[test]
fn heft_equals_the_naive_implementation_with_many_or_dense_machines() {
    for (tasks, machines, ccr, alpha) in [(600, 70, 100, 100), (900, 40, 5, 400), (2500, 100, 0, 800)] {
        let layered = Layered { tasks, machines, ccr, alpha, seed: 9, ..Default::default() };
        let instance = layered.generate().unwrap();
        let schedule = heft(&instance);
        assert_eq!(schedule.slots, naive_heft(&instance), "{tasks}x{machines}");
    }
}

#[test]
fn radix_sorted_ranks_equal_comparison_sorted_ones() {
    let tasks = 10_000;
    let instance = Instance::new(1, vec![1.0; tasks], &[], Links::Uniform).unwrap();
    let mut draw = warpyard_dag::SplitMix64::new(3);
    let whole: Vec<f64> = (0..tasks).map(|_| draw.below(3_000_000) as f64).collect();
    let tied: Vec<f64> = (0..tasks).map(|_| draw.below(50) as f64).collect();
    let broken: Vec<f64> = (0..tasks).map(|_| draw.unit() * 10f64.powi(draw.below(40) as i32 - 20)).collect();
    for ranks in [whole, tied, broken, vec![0.0; tasks]] {
        let mut expected: Vec<u32> = (0..tasks as u32).collect();
        expected.sort_by(|a, b| ranks[*b as usize].total_cmp(&ranks[*a as usize]));
        assert_eq!(warpyard_dag::rank_order(&instance, &ranks), expected);
    }
}

/// Costs of this size are scanned by two threads.
#[test]
fn heft_with_two_threads_equals_the_naive_implementation() {
    let instance = Layered { tasks: 2048, machines: 2048, seed: 3, ..Layered::default() }.generate().unwrap();
    assert_eq!(heft(&instance).slots, naive_heft(&instance));
}

/// Under a budget by count only the climb's own schedules count, so that the portfolio contains it with the whole of it.
#[test]
fn the_portfolio_contains_the_hill_climb() {
    for (tasks, machines) in [(200, 8), (60, 3), (100, 20)] {
        for seed in 1..=3 {
            let instance = Layered { tasks, machines, seed, ..Layered::default() }.generate().unwrap();
            for iterations in [0, 1, 25, 400] {
                let plan = |name: &str| {
                    let mut options = SearchOptions::iterations(iterations).seed(seed);
                    find(name).unwrap().plan(&instance, &mut options)
                };
                let (best, climb) = (plan("best"), plan("climb"));
                let what = format!("{tasks}x{machines}, seed {seed}, {iterations} iterations");
                assert!(best.schedule.makespan() <= climb.schedule.makespan(), "{what}");
                assert_eq!(climb.iterations, iterations, "{what}");
                // What the other members cost is a fixed number to begin with, and in proportion to the climb after it.
                assert!(best.iterations <= 3 * iterations + 100, "{what}: {}", best.iterations);
            }
        }
    }
}

/// Under a time budget the climb has a thread of its own, so that no timing of the other one can make the portfolio worse.
#[test]
fn the_portfolio_is_never_worse_than_the_hill_climb_in_as_many_steps() {
    for (tasks, machines) in [(200, 8), (60, 3), (100, 20)] {
        for seed in 1..=3 {
            let instance = Layered { tasks, machines, seed, ..Layered::default() }.generate().unwrap();
            let makespan = |name: &str| {
                // The clock stands still while other threads work: it is read as often by `best` as by `climb`.
                let mut readings = 0;
                let mut options = SearchOptions::until(|| {
                    readings += 1;
                    readings > 200
                });
                let plan = find(name).unwrap().plan(&instance, &mut options);
                assert_eq!(check(&instance, &plan.schedule), Ok(()), "{name}");
                plan.schedule.makespan()
            };
            assert!(makespan("best") <= makespan("climb"), "{tasks}x{machines}, seed {seed}");
        }
    }
}
