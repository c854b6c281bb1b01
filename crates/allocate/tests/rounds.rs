//! Our own rounds: on the published trace they do at least as well as the published mechanism.

mod support;

use proptest::prelude::*;
use warpyard_allocate::rounds::simulate::{Cluster, Outcome, SimulatedJob, by_goal, simulate};
use warpyard_allocate::rounds::{Candidate, Placement, RoundScheduler, Server};
use warpyard_allocate::{GpuType, Options, PlacementModel, ThroughputTable};

/// The published trace of 150 one-GPU jobs on 12 GPUs of each type, one a server.
fn gen150(goal: &'static str, rounds: RoundScheduler) -> Option<Outcome> {
    let run = support::json("traces/gen150_single.max_min_fairness_perf.summary.json")?;
    let (names, counts) = support::cluster(&run);
    let trace = support::trace(&run, &names);
    let types: Vec<GpuType> =
        names.into_iter().zip(&counts).map(|(name, &count)| GpuType::new(name, count)).collect();
    let servers: Vec<Server> = counts
        .iter()
        .enumerate()
        .flat_map(|(gpu_type, &count)| (0..count).map(move |_| Server { gpu_type, gpus: 1 }))
        .collect();
    let trace: Vec<SimulatedJob> = trace.into_iter().map(SimulatedJob::from).collect();
    let cluster = Cluster { rounds, ..Cluster::new(&types, &servers) };
    Some(simulate(&trace, cluster, by_goal(goal, Options::default())).expect("a whole run"))
}

#[test]
fn our_rounds_do_as_well_as_the_published_ones() {
    for (goal, average_h, makespan_h) in [
        ("max-min", 15.71, f64::INFINITY),
        ("finish-time", 15.94, f64::INFINITY),
        ("makespan", f64::INFINITY, 128.4),
    ] {
        let Some(outcome) = gen150(goal, RoundScheduler::default()) else { return };
        let (average, makespan) = (outcome.average_completion_s() / 3600.0, outcome.makespan_s / 3600.0);
        eprintln!(
            "{goal}: average {average:.3} h, makespan {makespan:.3} h, {} restarts, {} solves",
            outcome.restarts, outcome.solves
        );
        assert!(average <= average_h && makespan <= makespan_h, "{goal}: {average} h, {makespan} h");
    }
}

#[test]
fn pricing_restarts_saves_most_of_them_and_time() {
    let dear = RoundScheduler { restart_s: 60.0, ..RoundScheduler::default() };
    let Some(priced) = gen150("max-min", dear) else { return };
    let unpriced = gen150("max-min", RoundScheduler { restart_priced: false, ..dear }).expect("a run");
    eprintln!("restarts: priced {}, unpriced {}", priced.restarts, unpriced.restarts);
    eprintln!(
        "average: priced {} s, unpriced {} s",
        priced.average_completion_s(),
        unpriced.average_completion_s()
    );
    assert!(priced.restarts < unpriced.restarts);
    assert!(priced.average_completion_s() < unpriced.average_completion_s());
}

#[test]
fn two_that_gain_by_sharing_end_sooner() {
    // On one GPU each of two runs at 0.8 of its speed beside the other; alone they would take turns.
    let mut table = ThroughputTable::default();
    let profile = |name: &str| warpyard_allocate::Profile { name: name.into(), gpus: 1 };
    table.insert_pair("type0", profile("a"), profile("b"), [8.0, 16.0]);
    let job = |name: &str, speed: f64| SimulatedJob {
        profile: Some(name.to_owned()),
        ..SimulatedJob::from(warpyard_allocate::rounds::gavel::TraceJob {
            arrival_s: 0.0,
            steps: (speed * 36_000.0) as u64,
            gpus: 1,
            throughputs: vec![speed],
        })
    };
    let trace = [job("a", 10.0), job("b", 20.0)];
    let (types, servers) = (support::types(&[1]), [Server { gpu_type: 0, gpus: 1 }]);
    let run = |sharing: bool, servers: &[Server], types: &[GpuType]| {
        let pairs = sharing.then_some(&table);
        let options = Options { sharing, ..Options::default() };
        let cluster = Cluster { pairs, ..Cluster::new(types, servers) };
        simulate(&trace, cluster, by_goal("max-min", options)).expect("a run")
    };
    let (alone, shared) = (run(false, &servers, &types), run(true, &servers, &types));
    assert!((alone.makespan_s - 72_000.0).abs() < 1.0, "{alone:?}");
    assert!((shared.makespan_s - 45_000.0).abs() < 1.0, "{shared:?}");
    // With a GPU for each, nobody shares.
    let two = [Server { gpu_type: 0, gpus: 2 }];
    assert!((run(true, &two, &support::types(&[2])).makespan_s - 36_000.0).abs() < 1.0);
}

#[test]
fn a_job_wider_than_the_fast_machines_goes_where_it_is_faster_if_placement_is_modelled() {
    // Two GPUs on one slow machine, or two fast ones apart, where it crawls; and a small job that could use those.
    let wide = SimulatedJob {
        spread: Some(vec![4.0, 2.0]),
        ..SimulatedJob::from(warpyard_allocate::rounds::gavel::TraceJob {
            arrival_s: 0.0,
            steps: 4 * 36_000,
            gpus: 2,
            throughputs: vec![4.0, 10.0],
        })
    };
    let small = SimulatedJob::from(warpyard_allocate::rounds::gavel::TraceJob {
        arrival_s: 0.0,
        steps: 5 * 36_000,
        gpus: 1,
        throughputs: vec![1.0, 5.0],
    });
    let servers =
        [Server { gpu_type: 0, gpus: 2 }, Server { gpu_type: 1, gpus: 1 }, Server { gpu_type: 1, gpus: 1 }];
    let types = support::types(&[2, 2]);
    let run = |placement_model: PlacementModel| {
        let cluster = Cluster { placement_model, ..Cluster::new(&types, &servers) };
        let trace = [wide.clone(), small.clone()];
        simulate(&trace, cluster, by_goal("makespan", Options::default())).expect("a run").makespan_s
    };
    assert!((run(PlacementModel::Modelled) - 36_000.0).abs() < 1.0);
    assert!(run(PlacementModel::Ignored) > 40_000.0, "{}", run(PlacementModel::Ignored));
}

fn idle_candidate(gpus: u32, speeds: &[f64], shares: &[f64]) -> Candidate {
    Candidate {
        gpus,
        speeds: speeds.to_vec(),
        spread_speeds: None,
        shares: shares.to_vec(),
        owed_s: vec![0.0; speeds.len()],
        received_s: vec![0.0; speeds.len()],
        running: None,
        movable: true,
    }
}

#[test]
fn over_time_everyone_gets_the_shares_promised() {
    // The worked example: three jobs on one GPU of each of two types.
    let servers = [Server { gpu_type: 0, gpus: 1 }, Server { gpu_type: 1, gpus: 1 }];
    let target = [[0.4545, 0.0], [0.4545, 0.0909], [0.0909, 0.9090]];
    let speeds = [[40.0, 10.0], [12.0, 4.0], [100.0, 50.0]];
    let mut jobs: Vec<Candidate> = target.iter().zip(&speeds).map(|(x, t)| idle_candidate(1, t, x)).collect();
    let rounds = RoundScheduler::default();
    for _ in 0..400 {
        let placed = rounds.next(&servers, &jobs);
        for (job, placement) in jobs.iter_mut().zip(placed) {
            let gained = job.shares.iter().map(|share| share * rounds.round_s).collect::<Vec<_>>();
            job.owed_s.iter_mut().zip(gained).for_each(|(owed, more)| *owed += more);
            if let Some(placement) = &placement {
                job.received_s[placement.gpu_type] += rounds.round_s;
            }
            job.running = placement;
        }
    }
    for (job, target) in jobs.iter().zip(target) {
        for (received, share) in job.received_s.iter().zip(target) {
            assert!((received / (400.0 * rounds.round_s) - share).abs() < 0.02, "{received} for {share}");
        }
    }
}

#[test]
fn a_job_stays_on_its_gpus_and_a_wide_one_on_one_server() {
    let servers = [Server { gpu_type: 0, gpus: 2 }, Server { gpu_type: 0, gpus: 4 }];
    let mut stays = idle_candidate(1, &[1.0], &[1.0]);
    stays.running = Some(Placement { gpu_type: 0, servers: vec![(1, 1)] });
    let jobs = [idle_candidate(2, &[1.0], &[1.0]), stays.clone(), idle_candidate(3, &[1.0], &[1.0])];
    let placed = RoundScheduler::default().next(&servers, &jobs);
    assert_eq!(placed[1], stays.running);
    assert_eq!(placed[2], Some(Placement { gpu_type: 0, servers: vec![(1, 3)] }));
    assert_eq!(placed[0], Some(Placement { gpu_type: 0, servers: vec![(0, 2)] }));
}

fn some_round() -> impl Strategy<Value = (Vec<Server>, Vec<Candidate>)> {
    let servers = prop::collection::vec((0..3usize, 1..5u32), 1..8).prop_map(|servers| {
        servers.into_iter().map(|(gpu_type, gpus)| Server { gpu_type, gpus }).collect::<Vec<_>>()
    });
    let number = || prop::collection::vec(prop_oneof![Just(0.0), 0.01..1.0f64], 3);
    let job = (1..6u32, number(), number(), number(), number()).prop_map(
        |(gpus, speeds, shares, owed, received)| {
            let mut job = idle_candidate(gpus, &speeds, &shares);
            job.owed_s = owed.into_iter().map(|o| o * 1e4).collect();
            job.received_s = received.into_iter().map(|r| r * 1e4).collect();
            job
        },
    );
    (servers, prop::collection::vec(job, 0..12))
}

proptest! {
    #[test]
    fn a_round_never_gives_out_more_than_there_is_and_leaves_nothing_usable_idle((servers, mut jobs) in some_round()) {
        let rounds = RoundScheduler { restart_s: 30.0, ..RoundScheduler::default() };
        // A first round, then one in which half of those running must not be moved.
        let first = rounds.next(&servers, &jobs);
        for (i, (job, placement)) in jobs.iter_mut().zip(first).enumerate() {
            job.movable = i % 2 == 0;
            job.running = placement;
            job.received_s.rotate_left(1);
        }
        let placed = rounds.next(&servers, &jobs);
        let mut free: Vec<u32> = servers.iter().map(|s| s.gpus).collect();
        for (job, placement) in jobs.iter().zip(&placed) {
            if !job.movable && job.running.is_some() {
                prop_assert_eq!(&job.running, placement);
            }
            let Some(placement) = placement else { continue };
            prop_assert!(job.speeds[placement.gpu_type] > 0.0);
            prop_assert_eq!(placement.servers.iter().map(|(_, gpus)| gpus).sum::<u32>(), job.gpus);
            for &(server, gpus) in &placement.servers {
                prop_assert_eq!(servers[server].gpu_type, placement.gpu_type);
                prop_assert!(gpus <= free[server]);
                free[server] -= gpus;
            }
        }
        for (job, _) in jobs.iter().zip(&placed).filter(|(_, placement)| placement.is_none()) {
            for gpu_type in (0..3).filter(|&j| job.speeds[j] > 0.0) {
                let left: u32 = servers.iter().zip(&free).filter(|(s, _)| s.gpu_type == gpu_type).map(|(_, f)| f).sum();
                prop_assert!(left < job.gpus);
            }
        }
    }
}
