//! Figures of whole simulations: reports, the same bytes for the same seed, and published tables.

use warpyard_core::Span;
use warpyard_policies::POLICIES;
use warpyard_sim::reproduce::{self, Verdict};
use warpyard_sim::workload::format::csv;
use warpyard_sim::workload::{Estimate, Generator, cluster};
use warpyard_sim::{Setup, Sim, SimReport};

fn report(policy: &str, seed: u64) -> SimReport {
    let workers = cluster("12xV100:16GiB,8xK80/8").unwrap();
    let setup = Setup {
        workers,
        policy: policy.parse().unwrap(),
        start_delay: Span::ZERO,
        forget: true,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let generator = Generator {
        jobs: 300,
        gap: 20.0,
        gpus: vec![(1, 0.7), (2, 0.2), (4, 0.05), (16, 0.05)],
        timeouts: Estimate::Even { from: 1.0, to: 2.0 },
        priorities: 3,
        users: 4,
        ..Generator::default()
    };
    sim.feed(generator.generate(seed).map(Into::into));
    sim.run();
    SimReport::of(&sim, seed, 0.0, true)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    for def in POLICIES {
        let text = |seed| serde_json::to_string(&report(def.name, seed)).unwrap();
        assert_eq!(text(1), text(1), "{}", def.name);
        assert_ne!(text(1), text(2), "{}", def.name);
    }
}

#[test]
fn every_job_ends_and_is_accounted_for() {
    for def in POLICIES {
        let report = report(def.name, 7);
        assert_eq!(report.jobs, 300, "{}", def.name);
        assert_eq!(report.finished + report.rejected, report.jobs, "{}", def.name);
        assert!(report.rejected > 0, "no server has 16 GPUs");
        assert!(report.utilisation > 0.0 && report.utilisation <= 1.0, "{}", def.name);
        assert!(report.response.p50 <= report.response.p95 && report.response.p95 <= report.response.max);
        assert_eq!(report.per_job.unwrap().len() as u64, report.finished);
    }
}

/// The figures of a trace.
fn traced(line: &str, policy: &str, trace: &str) -> SimReport {
    let workers = cluster(line).unwrap();
    let setup = Setup { workers, policy: policy.parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let jobs = csv::read(trace).unwrap().jobs;
    sim.feed(jobs.into_iter().map(|(_, job)| job.into()));
    sim.run();
    SimReport::of(&sim, 0, 0.0, true)
}

#[test]
fn a_job_that_saved_and_exited_counts_as_long_as_it_ran_in_all() {
    let trace = "submitted,runs,timeout,gpus,preempt\n0,100,100,1,requeue\n40,50,50,1,requeue\n";
    let report = traced("1xV100", "srtf", trace);
    assert_eq!(report.restarts, 1);
    let jobs = report.per_job.unwrap();
    // It had 40 s, gave way for 50, and had the other 60.
    assert_eq!((jobs[0].completion_s(), jobs[0].slowdown), (Some(150.0), Some(1.5)));
}

#[test]
fn a_gpu_that_several_share_by_memory_is_in_use_once() {
    let gib = 1u64 << 30;
    let trace = format!("submitted,runs,gpus,gpu_memory\n0,40,1,{gib}\n10,30,1,{gib}\n20,10,1,{gib}\n");
    let report = traced("1xV100", "backfill", &trace);
    assert_eq!((report.makespan, report.utilisation), (40.0, 1.0));
    let used: Vec<f64> = report.per_job.unwrap().iter().map(|job| job.gpu_seconds).collect();
    // Alone for 10 s, two for 10, three for 10, two for 10 again.
    let parts = [10.0 + 5.0 + 10.0 / 3.0 + 5.0, 5.0 + 10.0 / 3.0 + 5.0, 10.0 / 3.0];
    for (used, part) in used.iter().zip(parts) {
        assert!((used - part).abs() < 1e-6, "{used} is not {part}");
    }
}

#[test]
fn times_are_whole_microseconds_however_late_they_are() {
    let trace = "submitted,runs,gpus\n1700000000.000001,0.3,1\n1700000000.000002,0.1,1\n";
    let report = traced("1xV100", "fifo", trace);
    assert_eq!((report.response.max, report.wait.max), (0.299999, 0.299999));
    assert_eq!(report.completion.max, 0.399999);
    assert_eq!(report.makespan, 0.4);
}

#[test]
fn the_figures_of_nothing_are_nothing() {
    let report = traced("1xV100", "fifo", "submitted,runs,gpus\n");
    assert!(report.weighted_turnaround.is_sign_positive(), "no -0 anywhere");
    assert_eq!((report.jobs, report.makespan, report.utilisation), (0, 0.0, 0.0));
}

#[test]
fn the_report_has_the_names_others_rely_on() {
    let value = serde_json::to_value(report("backfill", 1)).unwrap();
    for name in [
        "policy",
        "seed",
        "jobs",
        "finished",
        "rejected",
        "average_wait_s",
        "average_response_s",
        "average_completion_s",
        "p50_wait_s",
        "p95_response_s",
        "p99_completion_s",
        "max_wait_s",
        "makespan_s",
        "utilisation",
        "weighted_turnaround_s",
        "preemptions",
        "restarts",
        "events",
        "wall_seconds",
        "per_job",
    ] {
        assert!(value.get(name).is_some(), "{name}");
    }
}

#[test]
fn short_tasks_come_out_as_published() {
    let rows = reproduce::short_tasks(200, |_, _| ()).unwrap();
    let (longest_wait, published) = rows.split_last().unwrap();
    assert_eq!(published.len(), 6);
    for row in published {
        assert_eq!(row.verdict, Verdict::Agrees, "{row:?}");
    }
    assert_eq!((longest_wait.published, &longest_wait.verdict), (None, &Verdict::NoPublishedFigure));
    assert!(longest_wait.ours < 1.0, "short-first starves nobody for longer than sjf: {longest_wait:?}");
}

#[test]
fn the_hybrid_experiments_come_out_as_published() {
    let rows = reproduce::hybrid().unwrap();
    let (started, published) = rows.split_last().unwrap();
    assert_eq!(published.len(), 8);
    for row in published {
        assert_eq!(row.verdict, Verdict::Agrees, "{row:?}");
    }
    assert_eq!(
        (started.published, started.ours, &started.verdict),
        (None, 60.0, &Verdict::NoPublishedFigure)
    );
}

#[test]
fn model_scheduling_is_fitted_to_two_rows_and_predicts_three() {
    let (rows, notes) = reproduce::model_scheduling().unwrap();
    assert_eq!(rows.len(), 10);
    assert!(notes.iter().any(|note| note.contains("polled")), "differences are explained: {notes:?}");
    for (row, published) in [(0, 101.7), (2, 36.1)] {
        assert_eq!(rows[row].verdict, Verdict::Agrees);
        assert!(rows[row].row.ends_with("(fitted)"), "{:?}", rows[row]);
        assert!((rows[row].ours - published).abs() < 0.01, "{:?}", rows[row]);
    }
}
