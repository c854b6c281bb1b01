//! Shares of time, carried out on real processes: three tasks that save and exit when asked, on two types of GPU, with the
//! server killed midway.

use crate::support::{Server, eventually};
use nix::sys::signal::Signal;
use std::thread;
use std::time::{Duration, Instant};

/// How fast each profile is on each type, and the shares that make the worst off as fast as can be.
const TABLE: &str = r#"{
    "v100": {"('a', 1)": {"null": 40}, "('b', 1)": {"null": 12}, "('c', 1)": {"null": 100}},
    "k80": {"('a', 1)": {"null": 10}, "('b', 1)": {"null": 4}, "('c', 1)": {"null": 50}}
}"#;
const SHARES: [(&str, [f64; 2]); 3] = [("a", [0.455, 0.0]), ("b", [0.455, 0.091]), ("c", [0.091, 0.909])];

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: u32 = 20;

/// Counts, and when it is asked to end notes where it ran from when to when, saves its count, and exits; being asked again
/// meanwhile, as when it is cancelled while it gives way, must not end the `date` by which it notes that.
const COUNTS: &str = r#"
    began=$(date +%s.%N); n=$(cat "$WARPYARD_TASK.count" 2>/dev/null || echo 0)
    trap 'trap "" TERM; echo "$WARPYARD_GPUS $began $(date +%s.%N)" >> "$WARPYARD_TASK.times"; echo $n > "$WARPYARD_TASK.count"; exit 3' TERM
    while :; do sleep 0.02; n=$((n + 1)); done"#;

/// Seconds a task had on each type, by its own notes.
fn had(server: &Server, task: &str) -> [f64; 2] {
    let mut had = [0.0, 0.0];
    for line in server.read(&format!("{task}.times")).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [gpu, began, ended] = words[..] else { panic!("{line}") };
        let at = |text: &str| text.parse::<f64>().expect("a moment");
        had[usize::from(gpu.contains("K80"))] += at(ended) - at(began);
    }
    had
}

#[test]
fn shares_of_time_are_kept_over_a_killed_server() {
    let policy = format!("max-min:round={}", ROUND.as_secs_f64());
    let args = ["--gpus", "fake:1xV100:16GiB,1xK80:12GiB", "--policy", &policy];
    let mut server = Server::up(&args);
    let table = server.write("table.json", TABLE);
    server.said(&["throughputs", "--set", &table]);
    let began = Instant::now();
    for (name, _) in SHARES {
        let options = ["--name", name, "--profile", name, "--gpus", "1", "--preempt", "requeue"];
        server.script(&options, COUNTS);
    }
    thread::sleep(ROUND * (ROUNDS / 2));
    server.end_by(Signal::SIGKILL);
    server.start();
    thread::sleep((ROUND * ROUNDS).saturating_sub(began.elapsed()));
    eventually("whoever waits is told its share", || {
        let jobs = server.json(&["ps"]);
        let ready = jobs.as_array().into_iter().flatten().filter(|job| job["state"] == "ready");
        let mut why = ready.map(|job| server.ask(&["why", job["job"].as_str().expect("an id")]).out);
        why.any(|text| text.contains("its share is"))
    });
    server.said(&["cancel", "all", "--yes"]);
    eventually("all have ended", || server.json(&["ps"]).as_array().is_some_and(Vec::is_empty));
    // Of the time that anyone had: how long it takes to change places is the machine's affair.
    let all = SHARES.map(|(name, _)| had(&server, name));
    let used = [0, 1].map(|kind| all.iter().map(|had| had[kind]).sum::<f64>());
    for ((name, target), had) in SHARES.into_iter().zip(all) {
        let shares = [had[0] / used[0], had[1] / used[1]];
        eprintln!("{name}: aimed at {target:.3?}, had {shares:.3?}");
        for (share, target) in shares.into_iter().zip(target) {
            assert!((share - target).abs() <= 0.1, "{name} had {shares:.3?} of {used:.1?} s");
        }
        let count: u64 = server.read(&format!("{name}.count")).trim().parse().expect("it saved its count");
        assert!(count > 0, "{name} got somewhere");
    }
}

#[test]
fn what_a_task_says_of_its_progress_becomes_its_measured_speed() {
    let args = ["--gpus", "fake:1xV100:16GiB", "--policy", "max-min:round=60"];
    let server = Server::up(&args);
    // Two hundred steps in a little more than two seconds.
    let tells = r#"
        "$WARPYARD_BIN" progress 0; sleep 2.2; "$WARPYARD_BIN" progress 200"#;
    let bin = format!("WARPYARD_BIN={}", env!("CARGO_BIN_EXE_warpyard"));
    let options = ["--name", "a", "--profile", "a", "--steps", "200", "--gpus", "1", "--env", &bin];
    let began = Instant::now();
    let job = server.script(&options, tells);
    server.said(&["wait", &job]);
    let slowest = 200.0 / began.elapsed().as_secs_f64();
    let measured = || {
        let known = server.json(&["throughputs"]);
        let rows = known["throughputs"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["profile"] == "a" && row["measured"] == true)
    };
    eventually("its speed is known", || measured().is_some());
    let speed = measured().and_then(|row| row["steps_per_second"].as_f64()).expect("a speed");
    assert!((slowest..=101.0).contains(&speed), "{speed} steps a second, and not less than {slowest}");
    // Outside a task there is nothing to tell of.
    let outside = server.ask(&["progress", "5"]);
    assert!(outside.code == Some(2) && outside.err.contains("WARPYARD_JOB_ID"), "{outside:?}");
}

/// Nothing is done to them: they are told when they say how far they are, save, and exit.
#[test]
fn tasks_that_yield_take_turns_at_moments_of_their_own() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB", "--policy", "max-min:round=1"]);
    let yields = r#"
        trap 'echo told by a signal > "$WARPYARD_TASK.signalled"' TERM
        n=$(cat "$WARPYARD_TASK.count" 2>/dev/null || echo 0)
        while [ $n -lt 60 ]; do
            sleep 0.05; n=$((n + 1))
            "$WARPYARD_BIN" progress $n || { code=$?; echo $n > "$WARPYARD_TASK.count"; exit $code; }
        done; echo $n > "$WARPYARD_TASK.count""#;
    let bin = format!("WARPYARD_BIN={}", env!("CARGO_BIN_EXE_warpyard"));
    let jobs = ["a", "b"].map(|name| {
        let options = ["--name", name, "--gpus", "1", "--steps", "60", "--preempt", "yield", "--env", &bin];
        server.script(&options, yields)
    });
    let mut attempts = 0;
    for (job, name) in jobs.iter().zip(["a", "b"]) {
        server.said(&["wait", job]);
        let shown = server.json(&["show", job]);
        let tries = shown["tasks"][0]["attempts"].as_array().cloned().unwrap_or_default();
        let codes: Vec<_> = tries.iter().map(|a| a["exit_code"].as_i64()).collect();
        assert!(
            codes.split_last().is_some_and(|(last, gave_way)| {
                *last == Some(0) && gave_way.iter().all(|code| *code == Some(75))
            }),
            "{name} exited with {codes:?}"
        );
        assert_eq!(server.read(&format!("{name}.count")).trim(), "60", "{name}");
        assert!(!server.path(&format!("{name}.signalled")).exists(), "{name} was signalled");
        attempts += tries.len();
    }
    assert!(attempts > 2, "nobody gave way");
}

/// The same from a program in Python, which also runs where there is no warpyard.
#[test]
fn a_program_in_python_says_how_far_it_is_and_gives_way() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB", "--policy", "max-min:round=1"]);
    let program = r#"
import os, sys, time, warpyard
name = os.environ.get("WARPYARD_TASK", "alone") + ".count"
done = int(open(name).read()) if warpyard.restarted() else 0
for step in range(done, 40):
    time.sleep(0.05)
    if warpyard.progress(step + 1, every=0.2):
        open(name, "w").write(str(step + 1))
        warpyard.leave()
open(name, "w").write("40")
"#;
    server.write("train.py", program);
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");
    let (path, tidy) = (format!("PYTHONPATH={package}"), "PYTHONDONTWRITEBYTECODE=1");
    let bin = format!("WARPYARD_BIN={}", env!("CARGO_BIN_EXE_warpyard"));
    let jobs = ["a", "b"].map(|name| {
        let needs = [
            "--gpus",
            "1",
            "--steps",
            "40",
            "--preempt",
            "yield",
            "--env",
            &bin,
            "--env",
            &path,
            "--env",
            tidy,
        ];
        server.submit(&[&["--name", name][..], &needs, &["--", "python3", "train.py"]].concat())
    });
    let mut attempts = 0;
    for (job, name) in jobs.iter().zip(["a", "b"]) {
        server.said(&["wait", job]);
        assert_eq!(server.read(&format!("{name}.count")), "40", "{name}");
        attempts += server.json(&["show", job])["tasks"][0]["attempts"].as_array().map_or(0, Vec::len);
    }
    assert!(attempts > 2, "nobody gave way");
    let mut alone = std::process::Command::new("python3");
    let alone = alone
        .arg("train.py")
        .env("PYTHONPATH", package)
        .current_dir(server.path("."))
        .output()
        .expect("python3");
    assert!(alone.status.success() && alone.stderr.is_empty(), "{alone:?}");
}

/// Three that state their memory: at a round's end whoever runs is frozen, and the next goes on where it stood.
#[test]
fn tasks_that_are_frozen_take_turns_over_a_killed_server() {
    let mut server = Server::up(&["--gpus", "fake:1xV100:16GiB", "--policy", "max-min:round=1"]);
    let ticks = r#"until test -e enough; do sleep 0.05; echo >> "$WARPYARD_TASK.ticks"; done"#;
    let names = ["a", "b", "c"];
    let began = Instant::now();
    let jobs = names.map(|name| {
        let needs = ["--name", name, "--gpus", "1", "--gpu-memory", "5GiB", "--preempt", "freeze"];
        server.script(&needs, ticks)
    });
    let counted = |server: &Server| names.map(|name| server.read(&format!("{name}.ticks")).len());
    eventually("all have begun", || counted(&server).iter().all(|n| *n > 0));
    server.end_by(Signal::SIGKILL);
    server.start();
    eventually("whoever stands still is told until when", || {
        let jobs = server.json(&["ps"]);
        let paused = jobs.as_array().into_iter().flatten().filter(|job| job["state"] == "paused");
        let mut why = paused.map(|job| server.ask(&["why", job["job"].as_str().expect("an id")]).out);
        why.any(|text| {
            text.contains("suspended on its GPU until its turn") && text.contains("the next round begins in")
        })
    });
    eventually("all have got somewhere", || {
        let all = server.json(&["ps"]);
        let running = all.as_array().into_iter().flatten().filter(|job| job["state"] == "running").count();
        assert!(running <= 1, "{running} run on one GPU: {all}");
        counted(&server).iter().all(|n| *n >= 80)
    });
    server.open("enough");
    let ran = jobs.map(|job| {
        assert_eq!(server.outcome(&job), "succeeded");
        let attempts = &server.json(&["show", &job])["tasks"][0]["attempts"];
        assert_eq!(attempts.as_array().map(Vec::len), Some(1), "nobody began again: {attempts}");
        attempts[0]["gpu_seconds"].as_f64().expect("a time")
    });
    let (all, took) = (ran.iter().sum::<f64>(), began.elapsed().as_secs_f64());
    assert!(all <= took, "one GPU was used for {all:.1} s in {took:.1} s");
    for (name, ran) in names.iter().zip(ran) {
        let share = ran / all;
        assert!((share - 1.0 / 3.0).abs() <= 0.1, "{name} had {share:.3} of {all:.1} s");
    }
}
