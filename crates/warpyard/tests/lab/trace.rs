//! `trace`: workloads made, read, counted and written.

use super::*;

const SACCT: &str = "JobID|User|Submit|Elapsed|State|AllocTRES\n\
    1|ann|2026-11-01T12:00:00|01:00|COMPLETED|cpu=2,gres/gpu=1\n\
    1.batch||2026-11-01T12:00:00|01:00|COMPLETED|\n\
    2|bob|2026-11-01T12:00:30|ten|COMPLETED|cpu=2\n\
    3|bob|2026-11-01T12:01:00|1-00:00:00|FAILED|gres/gpu:a100=4\n";

#[test]
fn what_is_imported_can_be_simulated_and_what_cannot_be_read_is_told_by_line() {
    let (dir, [log]) = files([("log.txt", SACCT)]);
    let out = dir.path().join("t.csv");
    let out = out.to_str().unwrap();
    let said = ask(&["trace", "import", &log, "--out", out]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in
        ["looks like sacct", "left out: 1 × a step", "log.txt: line 4: Elapsed: 'ten'", "2 jobs read without"]
    {
        assert!(said.err.contains(part), "{part:?} in {}", said.err);
    }
    let report = ask(&["sim", "--cluster", "4xA100", "--trace", out, "--json"]).json();
    assert_eq!((&report["jobs"], &report["finished"]), (&json!(2), &json!(1)), "one failed");
    let jobs = ask(&["sim", "--cluster", "4xA100", "--trace", out, "--json", "--per-job"]).json();
    assert_eq!((&jobs["per_job"][1]["name"], &jobs["per_job"][1]["user"]), (&json!("3"), &json!("bob")));
    let told = ask(&["trace", "import", &log, "--out", out, "--json"]).json();
    assert_eq!(
        (&told["format"], &told["jobs"], &told["bad"][0]["line"]),
        (&json!("sacct"), &json!(2), &json!(4))
    );
    assert_eq!(told["left_out"], json!({"a step of a job": 1}));
    ask(&["trace", "import", &log, "--json"]).refused(&["--json", "--out"]);
    ask(&["trace", "import", &log, "--strict"]).refused(&["log.txt: line 4: Elapsed: 'ten'"]);
    ask(&["sim", "--cluster", "4xA100", "--trace", &log]).refused(&["log.txt: line 4"]);
    ask(&["trace", "import", &log, "--format", "sact"]).refused(&["did you mean 'sacct'?", "wfcommons"]);
    ask(&["trace", "import", &log, "--format", "swf"]).refused(&["log.txt", "column instead of 18"]);
}

#[test]
fn what_a_simulation_leaves_out_of_a_trace_is_told() {
    let swf =
        "1 0 0 60 1 -1 -1 1 120 -1 1 3 1 -1 1 -1 -1 -1\n2 5 -1 0 -1 -1 -1 1 120 -1 5 3 1 -1 1 -1 -1 -1\n";
    let (_dir, [log]) = files([("log.swf", swf)]);
    let said = ask(&["sim", "--cluster", "1xV100", "--trace", &log, "--json"]);
    assert!(said.err.contains("left out: 1 × a job that never ran"), "{said:?}");
    assert!(said.err.contains("a processor is taken for a GPU"), "{said:?}");
    assert!(said.err.contains("`warpyard trace import`"), "options are told with what takes them: {said:?}");
    assert_eq!(said.json()["jobs"], 1);
}

#[test]
fn a_trace_goes_through_every_format_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut generate = vec!["trace", "generate", "--jobs", "30", "--seed", "3", "--graph", "random:2-6,0.4"];
    generate.extend(["--gpu-memory", "2GiB:1,whole:1", "--gpu-types", "V100:1,any:1", "--users", "4"]);
    generate.extend(["--timeouts", "log-normal:2,0.5", "--guesses", "even:0.5,2", "--preempt", "freeze"]);
    let made = ask(&generate).out;
    assert_eq!(ask(&generate).out, made, "the same bytes every time");
    std::fs::write(path("a.csv"), &made).unwrap();
    for (from, to) in [("a.csv", "b.json"), ("b.json", "c.jsonl"), ("c.jsonl", "d.csv")] {
        let said = ask(&["trace", "convert", &path(from), "--out", &path(to)]);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    assert_eq!(std::fs::read_to_string(path("d.csv")).unwrap(), made);
    let said = ask(&["trace", "convert", &path("a.csv"), "--out", &path("e.swf")]);
    assert!(said.err.contains("swf cannot say everything"), "{said:?}");
    let (ours, theirs) = (
        ask(&["trace", "stats", &path("a.csv"), "--json"]).json(),
        ask(&["trace", "stats", &path("e.swf"), "--json"]).json(),
    );
    assert_eq!(ours["tasks"], theirs["jobs"], "every task became a job");
    assert!(ours["edges"].as_u64() > Some(30), "{ours}");
    let report = ask(&["sim", "--cluster", "8xV100", "--trace", &path("a.csv"), "--json"]).json();
    assert_eq!(report["jobs"], 30);
}

#[test]
fn every_public_trace_that_is_here_is_read_whole() {
    let read = |path: &str, more: &[&str]| {
        let path = shared(path)?;
        let answer = ask(&[&["trace", "stats", path.to_str().unwrap(), "--json"], more].concat());
        assert!(!answer.err.contains("bad row"), "{}", answer.err);
        Some(answer.json())
    };
    if let Some(pods) = read("traces/openb_pod_list_default.csv", &[]) {
        assert_eq!(pods["jobs"], 8152 - 897, "all but those that never got a machine");
        assert!(pods["sharing"].as_u64() > Some(1000), "{pods}");
    }
    if let Some(philly) = read("traces/philly_job_distribution.json", &[]) {
        assert_eq!(philly["jobs"], 33_192);
    }
    if let Some(table) = shared("gavel/simulation_throughputs.json") {
        let table = ["--throughputs", table.to_str().unwrap()];
        let gavel = read("gavel/traces/gen150_single.trace", &table).expect("traces lie beside their speeds");
        assert_eq!(gavel["jobs"], 150);
    }
    if let Some(workflow) = read("dag/workflows/montage-chameleon-2mass-015d-001.json", &[]) {
        assert_eq!(workflow["jobs"], 1);
        assert!(workflow["tasks"].as_u64() > Some(50) && workflow["edges"].as_u64() > Some(50), "{workflow}");
    }
}

#[test]
fn what_is_no_workload_is_refused_for_what_it_is() {
    let (_dir, [table, long, size, none]) = files([
        ("t.csv", "submitted,runs\n0,5\n"),
        ("long.csv", "submitted,runs\n1e300,5\n"),
        ("size.csv", "submitted,runs,gpu_memory\n0,5,6GiB\n"),
        ("none.csv", "submitted,runs\n"),
    ]);
    ask(&["trace", "import", &table, "--format", "warpyard"]).refused(&["t.csv is not a server's log"]);
    let sim = |args: &[&str]| ask(&[&["sim", "--cluster", "1xV100:16GiB"], args].concat());
    sim(&["--trace", &long]).refused(&["long.csv: line 2: submitted: '1e300' is not a number of seconds"]);
    sim(&["--trace", &size]).refused(&["gpu_memory: '6GiB' is not a whole number of bytes"]);
    sim(&["--trace", &none]).refused(&["none.csv: there is no job to simulate"]);
    sim(&["--generate", "0"]).refused(&["there is no job to simulate"]);
}

/// By such a table nobody would ever end.
#[test]
fn a_job_without_a_speed_on_any_type_is_refused() {
    let (_dir, [speeds, trace]) = files([
        ("speeds.json", r#"{"v100": {"('net', 1)": {"null": 4.0}}}"#),
        ("t.csv", "submitted,runs,profile,steps\n0,10,net,40\n0,10,net,40\n"),
    ]);
    let on = |cluster: &str| {
        let args = ["sim", "--policy", "max-min", "--throughputs", &speeds, "--trace", &trace, "--json"];
        ask(&[&args[..], &["--cluster", cluster]].concat())
    };
    on("2xH100").refused(&["net on 1 GPU has no throughput on any GPU type of the cluster (h100)"]);
    // A type on which it gets nowhere is as good as none.
    let [alone, more] = ["2xV100", "2xV100,2xH100"].map(|cluster| on(cluster).json());
    assert_eq!(alone["makespan_s"], more["makespan_s"]);
    assert_eq!((&more["restarts"], &more["finished"]), (&json!(0), &json!(2)));
}
