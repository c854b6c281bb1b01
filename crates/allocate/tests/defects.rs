//! Defects of Gavel's own code, each tested here for the correct behaviour.

mod support;

use warpyard_allocate::rounds::Server;
use warpyard_allocate::rounds::gavel::TraceJob;
use warpyard_allocate::rounds::simulate::{Cluster, Outcome, SimulatedJob, by_goal, simulate};
use warpyard_allocate::{Job, Options, Profile, ThroughputTable, check, goal};

fn run(goal: &'static str, counts: &[u32], trace: &[(f64, u64, &[f64])]) -> Outcome {
    let types = support::types(counts);
    let servers: Vec<Server> =
        counts.iter().enumerate().map(|(gpu_type, &gpus)| Server { gpu_type, gpus }).collect();
    let work = |&(arrival_s, steps, speeds): &(f64, u64, &[f64])| {
        SimulatedJob::from(TraceJob { arrival_s, steps, gpus: 1, throughputs: speeds.to_vec() })
    };
    let cluster = Cluster::new(&types, &servers);
    let trace: Vec<SimulatedJob> = trace.iter().map(work).collect();
    simulate(&trace, cluster, by_goal(goal, Options::default())).expect("a whole run")
}

/// Gavel takes both jobs of a pair to need as many GPUs as the first of them.
#[test]
fn jobs_of_unlike_width_do_not_share() {
    let mut instance = support::plain(&[2, 2], &[&[10.0, 4.0], &[10.0, 4.0], &[10.0, 4.0]]);
    let mut table = ThroughputTable::default();
    for (job, gpus) in instance.jobs.iter_mut().zip([1, 2, 2]) {
        (job.gpus, job.profile) = (gpus, Some("p".to_owned()));
    }
    let profile = |gpus| Profile { name: "p".into(), gpus };
    for kind in ["type0", "type1"] {
        table.insert_pair(kind, profile(1), profile(2), [9.0, 9.0]);
        table.insert_pair(kind, profile(2), profile(2), [3.9, 3.9]);
    }
    instance.pairs = Some(table);
    let sharing = Options { sharing: true, ..Options::default() };
    for name in ["max-min", "max-min-fill", "throughput", "gandiva"] {
        let goal = goal(name).expect("a goal");
        let answer = goal.solve(&instance, sharing).expect("an answer");
        check(&instance, goal, sharing, &answer).expect("it stands up to checking");
        let wide = |m: usize| instance.jobs[m].gpus;
        let unlike = answer.pairs.iter().find(|pair| wide(pair.jobs[0]) != wide(pair.jobs[1]));
        assert_eq!(unlike, None, "{name}");
    }
}

/// Gavel leaves jobs it gives up out of its averages.
#[test]
fn every_job_counts_in_the_average() {
    // The second can only run on the slow type, and takes a thousand times as long.
    let trace: [(f64, u64, &[f64]); 3] =
        [(0.0, 100, &[10.0, 0.0]), (0.0, 100, &[0.0, 0.01]), (50.0, 100, &[10.0, 0.0])];
    let outcome = run("max-min", &[1, 1], &trace);
    assert_eq!(outcome.completion_s.len(), 3);
    assert!((outcome.average_completion_s() - (10.0 + 10_000.0 + 10.0) / 3.0).abs() < 1e-6);
}

/// Gavel's FIFO has everyone wait for the one type that is fastest.
#[test]
fn first_in_first_out_uses_every_type() {
    let rows: [&[f64]; 3] = [&[10.0, 8.0, 6.0]; 3];
    let instance = support::plain(&[1, 1, 1], &rows);
    let answer =
        goal("fifo-hetero").expect("a goal").solve(&instance, Options::default()).expect("an answer");
    let shares: Vec<&[f64]> = answer.allocation.rows().collect();
    assert_eq!(shares, [&[1.0, 0.0, 0.0][..], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]]);
    let outcome = run("fifo-hetero", &[1, 1, 1], &rows.map(|row| (0.0, 1000, row)));
    assert!(outcome.makespan_s < 170.0, "one after another on the fastest they take 300 s");
}

/// In Gavel a job that comes within a round waits for its end, and for a target until the next reset.
#[test]
fn a_new_job_starts_at_once_where_there_is_room() {
    let outcome = run("max-min", &[2], &[(0.0, 36_000, &[10.0]), (17.0, 1000, &[10.0])]);
    assert_eq!(outcome.completion_s[1], 100.0, "it came 17 s into a round of 360 s");
}

/// Gavel compares the moment a job must be done by with how long it runs.
#[test]
fn a_deadline_is_the_time_left_and_not_the_time_there_was() {
    // Half of its steps are done and half an hour is left of two: it needs 10 steps a second, not 2.5.
    let job = Job {
        steps: Some(18_000.0),
        age_s: 5400.0,
        deadline_s: Some(1800.0),
        ..Job::new(0, vec![10.0, 4.0])
    };
    let mut instance = support::plain(&[1, 1], &[&[10.0, 4.0], &[30.0, 4.0]]);
    instance.jobs[0] = job;
    (instance.types[0].cost_per_hour, instance.types[1].cost_per_hour) = (Some(10.0), Some(1.0));
    let answer = goal("cost").expect("a goal").solve(&instance, Options::default()).expect("an answer");
    assert!(answer.shortfalls.is_empty(), "{:?}", answer.shortfalls);
    assert!((answer.allocation.job(0)[0] - 1.0).abs() < 1e-6, "{:?}", answer.allocation.job(0));
}
