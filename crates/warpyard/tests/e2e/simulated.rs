//! The simulator beside the real thing: the same pages, and the same starts.

use crate::support::{Server, eventually, output, signal, wait_at, warpyard};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A process that ends with the test.
struct Shown(Child);

impl Drop for Shown {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn a_simulation_is_shown_by_the_interface_of_the_live_server() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "sim",
        "--cluster",
        "2xV100",
        "--generate",
        "200",
        "--gap",
        "5s",
        "--serve",
        "--speed",
        "50",
        "--json",
    ];
    let mut command = warpyard(dir.path(), &args);
    let mut shown =
        Shown(command.env("TMPDIR", dir.path()).stdout(Stdio::piped()).spawn().expect("the binary runs"));
    let mut line = String::new();
    BufReader::new(shown.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let url = ready["url"].as_str().unwrap();
    assert!(
        url.starts_with("http://127.0.0.1:") && ready["login"].as_str().unwrap().contains("/login?once="),
        "{ready}"
    );
    let data =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.path()).find(|p| p.join("token").exists());
    let data = data.expect("a place for what pages ask for");
    let ask = |args: &[&str]| output(&mut warpyard(&data, args));
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let jobs: Value = serde_json::from_str(&ask(&["ps", "--all", "--json"]).fine()).unwrap();
        let running = jobs.as_array().unwrap().iter().filter(|job| job["state"] == "running").count();
        if running == 2 {
            break;
        }
        assert!(Instant::now() < until, "never: two of them running: {jobs}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ask(&["policy", "set", "sjf"]).code, Some(0), "people may change the policy of a simulation");
    let refused = ask(&["submit", "--", "true"]);
    assert!(refused.err.contains("this is a simulation"), "{refused:?}");
    assert!(!data.display().to_string().ends_with(&shown.0.id().to_string()), "nobody knows its name before");
    signal(shown.0.id(), Signal::SIGINT);
    shown.0.wait().unwrap();
    assert!(!data.exists(), "it is taken away");
}

/// Sleeps on one GPU, under three policies, which begin once all of them wait; then the same arrivals and lengths simulated.
/// How close it comes on a quiet machine, with 200 of them, is in bench/RESULTS.md.
#[test]
fn a_simulation_of_the_same_arrivals_starts_them_in_the_same_order() {
    for policy in ["fifo", "sjf", "short-first"] {
        let server = Server::up(&["--gpus", "fake:1xV100:16GiB", "--policy", policy]);
        // Nothing else may start while they arrive: what starts first would be a matter of milliseconds.
        let gate = server.path("gate");
        let first = server.script(&["--gpus", "1", "--timeout", "60s"], &wait_at(&gate));
        eventually("it has the GPU", || server.state(&first) == "running");
        let lengths = [0.18, 0.06, 0.14, 0.02, 0.1, 0.22, 0.04, 0.12, 0.08, 0.16];
        let rest: Vec<String> = lengths
            .iter()
            .map(|s| {
                server.submit(&[
                    "--gpus",
                    "1",
                    "--timeout",
                    &format!("{:.1}s", s * 20.0),
                    "--",
                    "sleep",
                    &s.to_string(),
                ])
            })
            .collect();
        server.open("gate");
        for job in &rest {
            assert_eq!(server.outcome(job), "succeeded");
        }
        let live = server.json(&["replay", "--per-job"]);
        let trace = server.path("own.csv");
        let trace = trace.to_str().unwrap();
        server.said(&["trace", "import", server.data().to_str().unwrap(), "--out", trace]);
        let args = ["sim", "--cluster", "1xV100", "--trace", trace, "--policy", policy, "--per-job"];
        let simulated = server.json(&args);
        let order = |report: &Value| {
            let jobs = report["per_job"].as_array().unwrap();
            let mut starts: Vec<(f64, u64)> = jobs
                .iter()
                .map(|job| (job["started_s"].as_f64().unwrap(), job["job"].as_u64().unwrap()))
                .collect();
            starts.sort_by(|a, b| a.0.total_cmp(&b.0));
            starts.into_iter().map(|(_, job)| job).collect::<Vec<_>>()
        };
        assert_eq!(order(&live["recorded"]), order(&simulated), "{policy}");
    }
}
