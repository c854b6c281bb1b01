//! Gavel's study at a small size: every table is there, the worked example agrees with the paper, rounds on the generated trace
//! do no worse than Gavel's simulator, and every line has its points.

use std::path::Path;
use warpyard_sim::reproduce::Verdict;
use warpyard_sim::reproduce::gavel::{GavelData, GavelDataError, TraceSampling, gavel};

fn data() -> Option<GavelData> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gavel"));
    if !folder.exists() {
        eprintln!("SKIPPED: this test needs the shared data beside the repository");
        return None;
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).expect("readable");
    Some(
        GavelData::read(&text("simulation_throughputs.json"), &text("traces/gen150_single.trace"))
            .expect("data"),
    )
}

#[test]
fn the_study_has_every_table_and_a_picture_of_each() {
    let Some(data) = data() else { return };
    let study = gavel(&data, TraceSampling { traces: 1, jobs: 30 }, |_, _| {}).expect("a study");
    let of = |about: &str| study.rows.iter().filter(|row| row.row.contains(about)).collect::<Vec<_>>();
    assert_eq!(of("example").len(), 6);
    for row in of("example") {
        assert!(row.published.is_some() && row.verdict == Verdict::Agrees, "{row:?}");
    }
    assert_eq!(of("gen150").len(), 4);
    for row in of("gen150") {
        assert!(row.published.is_none() && row.verdict == Verdict::NoPublishedFigure, "{row:?}");
        assert!(
            row.row.contains("blind") || row.reference.is_some_and(|theirs| row.ours <= theirs),
            "{row:?}"
        );
    }
    for about in
        ["jobs an hour, aware", "blind, sharing", "rounds of 30 s", "wrong by up to 50 %", "price counted"]
    {
        assert!(!of(about).is_empty(), "{about}");
    }
    let restarts = |price: &str| of(&format!("restarts of 60 s, price {price}: restarts"))[0].ours;
    assert!(restarts("counted") < restarts("ignored"));
    for panel in &study.panels {
        let points = panel.lines[0].1.len();
        assert!(points >= 4 && panel.lines.iter().all(|(_, line)| line.len() == points), "{}", panel.title);
    }
    let finite = |row: &warpyard_sim::reproduce::Row| row.ours.is_finite() && row.low <= row.high;
    assert!(study.rows.iter().all(finite));
}

#[test]
fn a_line_that_is_no_job_is_named() {
    let table = r#"{"k80": {}, "p100": {}, "v100": {}}"#;
    let line = |kind: &str, steps: &str| format!("{kind}\tx\tx\tx\t1\t{steps}\t1\t1\t-1\t0\n");
    let bad = |trace: &str| GavelData::read(table, trace).expect_err("it cannot be read").to_string();
    assert_eq!(bad("\nnothing\n"), "line 2: not a job of a Gavel trace");
    assert_eq!(bad(&line("A", "many")), "line 1: not a job of a Gavel trace");
    assert_eq!(bad(&line("A", "5")), "line 1: 'A' is not in the throughput table");
    assert!(matches!(GavelData::read("{", ""), Err(GavelDataError::Table(_))));
}
