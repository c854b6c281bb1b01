//! Tasks as processes: what they see, what becomes of what they print, how they end, and standing still.

use crate::support::{FAKE, Server, eventually, is_alive, signal, wait_at};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn run_follows_from_the_first_byte_and_exits_with_the_tasks_code() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let script = format!("echo first; echo second >&2; {}; echo last; exit 7", wait_at(&gate));
    let mut run = server.command(&["run", "--gpus", "1", "--timeout", "10m", "--", "sh", "-c", &script]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(run.stdout.take().unwrap());
    let (mut begun, mut rest) = (String::new(), String::new());
    out.read_line(&mut begun).unwrap();
    out.read_line(&mut begun).unwrap();
    assert_eq!(begun, "first\nsecond\n", "both streams, while the task still runs");
    server.open("gate");
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), run.wait().unwrap().code()), ("last\n", Some(7)));
}

#[test]
fn run_tells_signals_and_timeouts_as_shells_do() {
    let server = Server::up(&FAKE);
    assert_eq!(server.ask(&["run", "--", "sh", "-c", "kill -TERM $$"]).code, Some(128 + 15));
    let last = server.json(&["show", "last"]);
    assert_eq!((&last["tasks"][0]["outcome"], &last["tasks"][0]["signal"]), (&"failed".into(), &15.into()));

    let polite =
        "exec 2>/dev/null; trap 'echo saved; exit 0' TERM; echo started; while :; do sleep 0.02; done";
    let answer = server.ask(&["run", "--timeout", "3s", "--grace", "1m", "--", "sh", "-c", polite]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(124), "started\nsaved\n"), "TERM comes first");
    assert_eq!(server.json(&["show", "last"])["outcome"], "timed-out", "even if it then exits with 0");

    let deaf = "trap '' TERM; echo started; while :; do sleep 0.02; done";
    let answer = server.ask(&["run", "--timeout", "3s", "--grace", "100ms", "--", "sh", "-c", deaf]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(124), "started\n"), "KILL comes after the grace");
}

#[test]
fn run_prints_every_attempt_in_order_however_quickly_they_follow_each_other() {
    let server = Server::up(&FAKE);
    let script = "echo try $WARPYARD_ATTEMPT; test $WARPYARD_ATTEMPT = 6";
    let answer = server.ask(&["run", "--retries", "5", "--", "sh", "-c", script]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(0), "try 1\ntry 2\ntry 3\ntry 4\ntry 5\ntry 6\n"));
}

#[test]
fn run_follows_a_second_attempt_while_it_runs() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let script =
        format!("echo try $WARPYARD_ATTEMPT; test $WARPYARD_ATTEMPT = 2 || exit 1; {}", wait_at(&gate));
    // Should nothing be printed before its end, the second attempt ends by its timeout.
    let mut run = server.command(&["run", "--retries", "1", "--timeout", "10s", "--", "sh", "-c", &script]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("try 1"), Some("try 2")));
    server.open("gate");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn a_task_that_names_no_timeout_has_the_configured_one() {
    let mut server = Server::down(&["--gpus", "none", "--config", "warpyard.toml"]);
    server.write("warpyard.toml", "default_timeout = \"200ms\"\n");
    server.start();
    assert_eq!(server.ask(&["run", "--grace", "10s", "--", "sleep", "600"]).code, Some(124));
}

/// The environment a task printed.
fn variable<'a>(env: &'a str, name: &str) -> Option<&'a str> {
    env.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn a_task_sees_the_gpus_it_was_granted_and_no_others() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let holds = format!("echo started; {}", wait_at(&gate));
    let first = server.script(&["--gpus", "1"], &holds);
    server.printed(&first, "started");
    let gpus = server.json(&["gpus"]);
    let free = gpus.as_array().unwrap().iter().find(|gpu| gpu["tasks"] == serde_json::json!([])).unwrap();
    let mut run = server.command(&["run", "--gpus", "1", "--", "env"]);
    let env = crate::support::output(
        run.env("CUDA_VISIBLE_DEVICES", "7").env("CUDA_DEVICE_ORDER", "FASTEST_FIRST"),
    );
    let env = env.fine();
    assert_eq!(
        variable(&env, "CUDA_VISIBLE_DEVICES"),
        free["uuid"].as_str(),
        "by uuid, and not the caller's"
    );
    assert_eq!(variable(&env, "CUDA_DEVICE_ORDER"), Some("PCI_BUS_ID"));

    let mut run = server.command(&["run", "--", "env"]);
    let env =
        crate::support::output(run.env("CUDA_VISIBLE_DEVICES", "0").env("ROCR_VISIBLE_DEVICES", "0")).fine();
    assert_eq!(variable(&env, "CUDA_VISIBLE_DEVICES"), Some(""), "a task for CPUs sees no GPU");
    assert_eq!(variable(&env, "ROCR_VISIBLE_DEVICES"), Some(""));
    server.open("gate");
}

#[test]
fn a_task_is_told_who_it_is_and_takes_the_environment_along_but_not_the_token() {
    let server = Server::up(&FAKE);
    let mut run = server.command(&["run", "--name", "train", "--env", "LEVEL=3", "--", "env"]);
    let token = fs::read_to_string(server.data().join("token")).unwrap();
    let env =
        crate::support::output(run.env("OF_THE_CALLER", "yes").env("WARPYARD_TOKEN", token.trim())).fine();
    let has = |name: &str| variable(&env, name);
    assert_eq!(
        (has("WARPYARD_JOB_ID"), has("WARPYARD_TASK"), has("WARPYARD_ATTEMPT")),
        (Some("1"), Some("train"), Some("1"))
    );
    assert_eq!((has("OF_THE_CALLER"), has("LEVEL")), (Some("yes"), Some("3")));
    for absent in ["WARPYARD_ARRAY_INDEX", "WARPYARD_RESTARTED", "WARPYARD_TOKEN"] {
        assert_eq!(has(absent), None, "{absent}");
    }

    let array = server.script(&["--array", "3-4"], "echo %{job} %{index} $WARPYARD_ARRAY_INDEX");
    assert_eq!(server.outcome(&array), "succeeded");
    for index in [3, 4] {
        let log = server.said(&["logs", &format!("{array}[{index}]")]);
        assert_eq!(log, format!("{array} {index} {index}\n"));
    }
}

#[test]
fn a_task_runs_where_it_is_told_and_its_streams_go_where_it_says() {
    let server = Server::up(&FAKE);
    fs::create_dir(server.path("sub")).unwrap();
    let here = server.said(&["run", "--", "pwd"]);
    assert_eq!(
        here.trim(),
        server.dir.path().canonicalize().unwrap().to_str().unwrap(),
        "where it was submitted"
    );
    let args = ["--workdir", "sub", "--stdout", "out-%{job}.txt", "--stderr", "err.txt"];
    let job = server.script(&args, "pwd; echo oops >&2");
    assert_eq!(server.outcome(&job), "succeeded");
    let sub = format!("{}/sub\n", here.trim());
    assert_eq!(
        (server.read(&format!("sub/out-{job}.txt")), server.read("sub/err.txt")),
        (sub.clone(), "oops\n".into())
    );
    let both = server.said(&["logs", &job]);
    assert!(both.contains(&sub) && both.contains("oops\n"), "beside the log, not instead of it: {both}");

    let plain = server.script(&[], "echo out; echo oops >&2");
    assert_eq!(server.outcome(&plain), "succeeded");
    assert_eq!(server.said(&["logs", "--stream", "stdout", &plain]), "out\n");
    assert_eq!(server.said(&["logs", "--stream", "stderr", &plain]), "oops\n");
}

#[test]
fn a_program_that_is_not_there_fails_and_says_what_was_tried() {
    let server = Server::up(&FAKE);
    let job = server.submit(&["--", "/no/such/program"]);
    assert_eq!(server.outcome(&job), "failed");
    let shown = server.json(&["show", &job]);
    let why = shown["tasks"][0]["why"].as_str().unwrap_or_default();
    assert!(why.contains("/no/such/program"), "{shown}");
}

#[test]
fn a_log_is_kept_up_to_its_cap() {
    let mut server = Server::down(&["--gpus", "none", "--config", "warpyard.toml"]);
    server.write("warpyard.toml", "log_cap = \"4KiB\"\n");
    server.start();
    let job = server.script(&[], "head -c 100000 /dev/zero | tr '\\0' x");
    assert_eq!(server.outcome(&job), "succeeded", "a task never waits for its log");
    let log = server.said(&["logs", &job]);
    assert!(log.starts_with("xxxx") && log.len() < 8192, "{}", log.len());
}

#[test]
fn pausing_freezes_a_task_and_the_time_does_not_count() {
    let server = Server::up(&FAKE);
    let (gate, counter) = (server.path("gate"), server.path("counter"));
    let script = format!(
        "echo started; until test -e {}; do echo >> {}; sleep 0.01; done",
        gate.display(),
        counter.display()
    );
    let length = || fs::metadata(&counter).map_or(0, |file| file.len());
    let began = Instant::now();
    let job = server.script(&["--gpus", "1", "--preempt", "freeze"], &script);
    server.printed(&job, "started");
    server.said(&["pause", &job]);
    eventually("it stands still", || server.state(&job) == "paused");
    let (still, paused) = (length(), Instant::now());
    // The passing of time is what this is about.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(length(), still, "a frozen task does nothing");
    assert_eq!(server.state(&job), "paused");
    let gpus = server.json(&["gpus"]);
    let held = gpus.as_array().unwrap().iter().filter(|gpu| gpu["tasks"][0]["task"] == job.as_str()).count();
    assert_eq!(held, 1, "its memory stays charged: {gpus}");
    let paused = paused.elapsed();
    server.said(&["resume", &job]);
    eventually("it goes on", || length() > still);
    server.open("gate");
    assert_eq!(server.outcome(&job), "succeeded");
    let shown = server.json(&["show", &job]);
    let (ran, at_most) = (&shown["tasks"][0]["attempts"][0]["gpu_seconds"], began.elapsed() - paused);
    assert!(ran.as_f64().unwrap() <= at_most.as_secs_f64(), "paused time is not running time: {shown}");
}

#[test]
fn a_paused_job_that_waits_starts_only_when_resumed() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let hog = server.script(&["--gpus", "2"], &wait_at(&gate));
    let waiting = server.submit(&["--gpus", "2", "--", "true"]);
    server.said(&["pause", &waiting]);
    server.open("gate");
    assert_eq!(server.outcome(&hog), "succeeded");
    assert_eq!(server.said(&["run", "--gpus", "2", "--", "echo", "room"]), "room\n");
    assert_eq!(server.state(&waiting), "blocked", "there was room for it meanwhile");
    server.said(&["resume", &waiting]);
    assert_eq!(server.outcome(&waiting), "succeeded");
}

#[test]
fn a_requeued_task_may_save_and_is_told_that_it_begins_again() {
    let server = Server::up(&FAKE);
    let script = "if [ \"$WARPYARD_RESTARTED\" = 1 ]; then echo again from $(cat saved); exit 0; fi
        exec 2>/dev/null; trap 'echo step-4 > saved; exit 0' TERM; echo started; while :; do sleep 0.02; done";
    let job = server.script(&["--gpus", "2", "--preempt", "requeue", "--grace", "1m"], script);
    server.printed(&job, "started");
    server.said(&["pause", &job]);
    assert_eq!(server.said(&["run", "--gpus", "2", "--", "echo", "room"]), "room\n", "it gave its GPUs back");
    assert_eq!(server.state(&job), "blocked");
    server.said(&["resume", &job]);
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(server.said(&["logs", &job]), "again from step-4\n");
    assert_eq!(server.said(&["logs", "--attempt", "1", &job]), "started\n");
    let shown = server.json(&["show", &job]);
    assert_eq!(shown["tasks"][0]["attempts"].as_array().map(Vec::len), Some(2), "{shown}");
}

#[test]
fn cancelling_ends_children_that_went_away_too() {
    let server = Server::up(&FAKE);
    let pids = server.path("pids");
    let pids = pids.display();
    let script = format!(
        "setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & \
         (setsid -f sh -c 'trap \"\" TERM HUP; echo $$ >> {pids}; exec sleep 600') ; \
         until test $(wc -l < {pids}) = 2; do sleep 0.01; done; echo started; sleep 600"
    );
    let job = server.script(&["--grace", "200ms"], &script);
    server.printed(&job, "started");
    let escaped: Vec<u32> = server.read("pids").lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(escaped.len() == 2 && escaped.iter().all(|&pid| is_alive(pid)));
    server.said(&["cancel", &job]);
    assert_eq!(server.outcome(&job), "cancelled");
    assert!(!escaped.iter().any(|&pid| is_alive(pid)), "nothing of a task is left once it is over");
}

#[test]
fn what_is_lost_says_how_and_is_held_where_it_asked_for_that() {
    let server = Server::up(&FAKE);
    let job = server.script(&["--on-lost", "hold"], "echo started; sleep 600");
    server.printed(&job, "started");
    for supervisor in server.supervisors() {
        signal(supervisor, Signal::SIGKILL);
    }
    eventually("it is lost", || server.json(&["show", &job])["tasks"][0]["attempts"][0]["outcome"] == "lost");
    let shown = server.said(&["show", &job]);
    assert!(shown.contains("lost: its supervisor was killed"), "{shown}");
    assert_eq!(server.json(&["show", &job])["held"], true);
    let why =
        "held: its last attempt was lost (its supervisor was killed); `warpyard release 1` lets it run again";
    assert!(shown.contains(why) && server.said(&["ps"]).contains(why), "{shown}");
    assert!(server.said(&["why", &job]).contains(why), "{}", server.said(&["why", &job]));
    server.said(&["release", &job]);
    eventually("it runs again", || server.state(&job) == "running");
    assert!(!server.said(&["show", &job]).contains("held"));
}

#[test]
fn a_job_can_be_cancelled_in_every_state() {
    let server = Server::up(&FAKE);
    let running = server.script(&["--gpus", "1", "--name", "running"], "echo started; sleep 600");
    let paused = server.script(&["--gpus", "1"], "echo started; sleep 600");
    let ready = server.submit(&["--gpus", "2", "--", "true"]);
    let blocked = server.submit(&["--after", &running, "--", "true"]);
    let held = server.submit(&["--gpus", "2", "--", "true"]);
    server.printed(&running, "started");
    server.printed(&paused, "started");
    server.said(&["hold", &held]);
    server.said(&["pause", &paused]);
    eventually("it stands still", || server.state(&paused) == "paused");
    let states = [&running, &paused, &ready, &blocked, &held].map(|job| server.state(job));
    assert_eq!(states, ["running", "paused", "ready", "blocked", "blocked"]);
    for job in [&held, &blocked, &ready, &paused, &running] {
        server.said(&["cancel", job]);
        assert_eq!(server.outcome(job), "cancelled");
    }

    let deaf = server.script(&["--grace", "10m"], "trap '' TERM; echo started; while :; do sleep 0.02; done");
    server.printed(&deaf, "started");
    server.said(&["cancel", &deaf]);
    assert_eq!(server.state(&deaf), "stopping", "it has time to save");
    let again = server.ask(&["cancel", &deaf]);
    assert!(again.code == Some(0) || again.code == Some(2), "{again:?}");
    let done = server.ask(&["cancel", &running]);
    assert_eq!(done.code, Some(2), "what is over cannot be cancelled: {done:?}");
}

#[test]
fn what_attempts_used_is_measured() {
    let server = Server::up(&FAKE);
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let job = server.script(&["--gpus", "2", "--project", "vision"], script);
    assert_eq!(server.outcome(&job), "succeeded");
    let rows = server.json(&["history"]);
    let attempt = &rows[0]["attempt"];
    assert!(attempt["peak_rss_bytes"].as_u64().is_some_and(|bytes| bytes > 100 << 10), "{rows}");
    assert!(attempt["cpu_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{rows}");
    assert!(attempt["gpu_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{rows}");
    assert_eq!((&rows[0]["job"], &rows[0]["project"]), (&job.as_str().into(), &"vision".into()));
    assert_eq!(&server.json(&["show", &job])["tasks"][0]["attempts"][0], attempt);
}
