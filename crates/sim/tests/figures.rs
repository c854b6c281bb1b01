//! Figures of whole simulations: reports, the same bytes for the same seed, and published tables.

use warpyard_core::Span;
use warpyard_policies::POLICIES;
use warpyard_sim::workload::{Estimate, Generator, cluster};
use warpyard_sim::{Setup, Sim, SimReport, reproduce};

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
    let rows = reproduce::short_tasks(200).unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows {
        assert_eq!(row.verdict, "holds", "{row:?}");
    }
}

#[test]
fn the_hybrid_experiments_come_out_as_published() {
    let rows = reproduce::hybrid().unwrap();
    assert_eq!(rows.len(), 9);
    for row in rows {
        assert_eq!(row.verdict, "holds", "{row:?}");
    }
}

#[test]
fn model_scheduling_is_fitted_to_two_rows_and_predicts_three() {
    let (rows, notes) = reproduce::model_scheduling().unwrap();
    assert_eq!(rows.len(), 10);
    assert!(notes.iter().any(|note| note.contains("polled")), "it is said where they part: {notes:?}");
    for (row, published) in [(0, 101.7), (2, 36.1)] {
        assert_eq!(rows[row].verdict, "holds (fitted to this row)");
        assert!((rows[row].ours - published).abs() < 0.01, "{:?}", rows[row]);
    }
}
