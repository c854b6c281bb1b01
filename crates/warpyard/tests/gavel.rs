//! The goals of allocation through the real engine, on the published trace: at least as good as the published mechanism.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// One GPU a server, as the published runs have it.
const CLUSTER: &str = "12xv100/1,12xp100/1,12xk80/1";

/// What `sim` says of the published trace of 150 one-GPU jobs; nothing, loudly, where the shared data is absent.
fn sim(policy: &str) -> Option<Value> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gavel"));
    if !data.exists() {
        eprintln!("SKIPPED: this test needs the shared data beside the repository");
        return None;
    }
    let run = Command::new(env!("CARGO_BIN_EXE_warpyard"))
        .args(["--json", "sim", "--cluster", CLUSTER, "--policy", policy])
        .arg("--throughputs")
        .arg(data.join("simulation_throughputs.json"))
        .arg("--trace")
        .arg(data.join("traces/gen150_single.trace"))
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(serde_json::from_slice(&run.stdout).expect("JSON"))
}

#[test]
fn rounds_in_the_engine_do_as_well_as_the_published_ones() {
    let hours = |report: &Value, name: &str| report[name].as_f64().expect("a figure") / 3600.0;
    for (policy, figure, most) in [
        ("max-min", "average_completion_s", 15.71),
        ("finish-time", "average_completion_s", 15.94),
        ("makespan", "makespan_s", 128.4),
    ] {
        let Some(report) = sim(policy) else { return };
        let ours = hours(&report, figure);
        eprintln!("{policy}: {figure} {ours:.3} h (published {most} h), {} restarts", report["restarts"]);
        assert_eq!(report["finished"], 150, "{policy}");
        assert!(ours <= most, "{policy}: {ours} h");
    }
}

#[test]
fn the_same_run_twice_is_the_same() {
    let Some(mut first) = sim("max-min:round=3600") else { return };
    let mut second = sim("max-min:round=3600").expect("it ran before");
    for report in [&mut first, &mut second] {
        report["wall_seconds"] = Value::Null;
    }
    assert_eq!(first, second);
}

#[test]
fn heft_that_knows_how_fast_gpus_are_ends_sooner_than_heft_that_does_not() {
    let Some(aware) = sim("heft") else { return };
    let blind = sim("heft:types=blind").expect("it ran before");
    for figure in ["average_completion_s", "makespan_s"] {
        let hours = |report: &Value| report[figure].as_f64().expect("a figure") / 3600.0;
        eprintln!("heft, {figure}: {:.3} h, blind {:.3} h", hours(&aware), hours(&blind));
        assert!(hours(&aware) < hours(&blind), "{figure}");
    }
    assert_eq!((&aware["finished"], &blind["finished"]), (&150.into(), &150.into()));
}
