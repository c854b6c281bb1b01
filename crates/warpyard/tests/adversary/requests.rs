//! Requests: small ones that would cost much, and many of them.

use crate::machine::{Machine, Person, request};
use crate::support::{BINARY, FAKE, Server, eventually, output};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Posts a body too large for an argument through the socket; gives the answer.
#[track_caller]
fn post(person: &Person<'_>, path: &str, body: &Value) -> String {
    let file = person.home.join("body");
    fs::write(&file, request("POST", path, &body.to_string())).expect("a file can be written");
    let program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                   s.sendall(open(sys.argv[2], 'rb').read()); print(s.makefile(newline='').read())";
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(&person.machine.socket).arg(&file).uid(person.uid).gid(person.gid);
    output(&mut command).fine()
}

/// Takes both GPUs, so that what asks for them waits.
fn busy(person: &Person<'_>) -> String {
    let job = person.submit(&["--gpus", "2", "--grace", "0s", "--", "sleep", "600"]);
    eventually("it runs", || person.json(&["show", &job])["state"] == "running");
    job
}

/// A submission of `true` with a few more fields.
fn job(fields: &Value) -> Value {
    let mut doc = json!({"name": "x", "command": ["true"]});
    doc.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    json!({"doc": doc, "workdir": "/"})
}

/// The most memory the server ever had, in bytes.
fn peak(machine: &Machine) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", machine.server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a Linux kernel");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn ranges_that_reach_into_each_other_are_not_written_out() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let many: Vec<String> = (0..5_000).map(|i| format!("{i}-{}:5000", 5_000 * 1_999 + i)).collect();
    for array in [many.join(","), "0-9999998,9999998".to_owned(), "0-9999998:2,1-9999999:2,7".to_owned()] {
        let answer = post(&ann, "/v1/jobs", &job(&json!({"array": array})));
        assert!(answer.contains("422 "), "{answer}");
        assert!(answer.contains("array-too-large") || answer.contains("duplicate-index"), "{answer}");
    }
    assert_eq!(bob.run("echo fine"), "fine\n");
}

#[test]
fn a_selector_costs_what_it_finds_and_only_its_owner_may_use_it() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let busy = busy(&bob);
    let hers = ann.submit(&["--gpus", "2", "--array", "1-10000000", "--", "true"]);
    let before = peak(&machine);
    for _ in 0..3 {
        for indices in ["1-10000000", "1-9999999:2", "2-10000000:3"] {
            let answer = bob.ask(&["cancel", &format!("{hers}[{indices}]")]);
            assert!(
                answer.code != Some(0) && answer.err.contains("only they and admins can change it"),
                "{answer:?}"
            );
        }
    }
    let scattered = ann.ask(&["cancel", &format!("{hers}[1-9999999:2]")]);
    assert!(scattered.err.contains("more than 10000 separate ranges"), "{scattered:?}");
    let cancelled = ann.json(&["cancel", &format!("{hers}[2-9999999]")]);
    assert_eq!(cancelled["tasks"], 9_999_998);
    assert!(peak(&machine) < before + (200 << 20), "{} after {before}", peak(&machine));
    assert_eq!(ann.json(&["cancel", &hers])["tasks"], 2);
    bob.ask(&["cancel", &busy]).fine();
}

#[test]
fn environments_are_bounded_and_kept_once() {
    let settings = "[limits.everyone]\njobs_size = \"4MiB\"\n";
    let Some(machine) = Machine::up(settings) else { return };
    let ann = machine.person("ann");
    let with = |size: usize, fill: &str| {
        let mut submission = job(&json!({"array": "1-10", "retries": 1}));
        submission["env"] = json!({"FILL": fill.repeat(size)});
        submission
    };
    let answer = post(&ann, "/v1/jobs", &with(10 << 20, "a"));
    assert!(answer.contains("422 ") && answer.contains("a program can inherit at most 2 MiB"), "{answer}");
    let answer = post(&ann, "/v1/jobs", &with(14 << 20, "a"));
    assert!(answer.contains("(submission_size)"), "{answer}");
    // The same again and again takes no more than once; another each time soon is too much.
    for _ in 0..20 {
        assert!(post(&ann, "/v1/jobs", &with(1 << 20, "b")).contains("201 Created"));
    }
    let answers: Vec<_> =
        ["c", "d", "e", "f"].iter().map(|fill| post(&ann, "/v1/jobs", &with(1 << 20, fill))).collect();
    let refused = answers.iter().find(|answer| answer.contains("422 ")).expect("one is too much");
    assert!(refused.contains("(jobs_size)") && refused.contains("over-limit"), "{refused}");
    let log = fs::metadata(machine.server.data().join("log.db")).expect("a log").len();
    assert!(log < 12 << 20, "the log has {log} bytes after 20 submissions of the same environment");
}

#[test]
fn everyone_on_a_shared_server_has_quotas_that_name_themselves() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let limits = ann.json(&["limits"]);
    let most = |name: &str| {
        let row = limits.as_array().expect("a list").iter().find(|row| row["limit"] == name);
        row.unwrap_or_else(|| panic!("{name} is not in {limits}"))["most"].as_f64().expect("a number")
    };
    assert!(most("queued") >= 2_000_000.0);
    for name in ["submission_bytes", "jobs_bytes", "snapshots", "snapshots_bytes", "requests"] {
        assert!(most(name) > 0.0, "{name}");
    }
    let busy = busy(&ann);
    let many = ann.submit(&["--gpus", "2", "--array", "1-2000000", "--", "true"]);
    assert_eq!(ann.json(&["cancel", &many])["tasks"], 2_000_000, "nobody who is honest comes near");
    ann.ask(&["cancel", &busy]).fine();
}

#[test]
fn each_quota_refuses_by_its_name_and_value() {
    let settings =
        "[limits.everyone]\nqueued = 5\nsubmission_size = \"32KiB\"\nsnapshots = 1\nrequests = 3\n";
    let Some(machine) = Machine::up(settings) else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let refused = |args: &[&str], words: &[&str]| {
        let answer = ann.ask(args);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        for word in words {
            assert!(answer.err.contains(word), "{word:?} is not in {}", answer.err);
        }
    };
    let busy = busy(&bob);
    refused(&["submit", "--array", "1-6", "--", "true"], &["5 tasks waiting (queued)", "this adds 6"]);
    let answer = post(&ann, "/v1/jobs", &job(&json!({"env": {"A": "a".repeat(40 << 10)}})));
    assert!(answer.contains("32 KiB in one submission (submission_size)"), "{answer}");
    for name in ["one", "two"] {
        fs::create_dir(ann.home.join(name)).expect("a directory");
        fs::write(ann.home.join(name).join("file"), name).expect("a file");
    }
    let snapshot = |dir: &str| {
        let mut command = ann.command(&["submit", "--snapshot", "--gpus", "2", "--", "true"]);
        output(command.current_dir(ann.home.join(dir)))
    };
    snapshot("one").fine();
    let second = snapshot("two");
    assert!(second.err.contains("1 snapshots kept (snapshots)"), "{second:?}");
    // Three who wait for an end are three requests.
    let held = ann.submit(&["--gpus", "2", "--", "true"]);
    let wait = || ann.command(&["wait", &held]).spawn().expect("the binary runs");
    let mut waiting = [wait(), wait(), wait()];
    eventually("the fourth is one too many", || {
        // Whichever comes last is refused, and that may have been one of these.
        for child in &mut waiting {
            if child.try_wait().expect("it can be waited for").is_some() {
                *child = wait();
            }
        }
        ann.ask(&["ps"]).err.contains("3 concurrent requests")
    });
    assert_eq!(bob.run("echo fine"), "fine\n", "others are answered");
    machine.server.said(&["cancel", &held, &busy]);
    for mut child in waiting {
        child.wait().expect("it ends");
    }
    ann.ask(&["ps"]).fine();
}

#[test]
fn a_task_that_always_fails_is_not_started_again_and_again() {
    let server = Server::up(&FAKE);
    let job = server.submit(&["--retries", "4294967295", "--", "false"]);
    eventually("it waits before it is tried again", || server.json(&["why", &job])["code"] == "backoff");
    assert!(server.said(&["why", &job]).contains("retries in"), "{}", server.said(&["why", &job]));
    let tries = server.json(&["history", "--job", &job]).as_array().expect("a list").len();
    assert!((2..30).contains(&tries), "{tries} tries");
    // Whoever has mended it need not wait.
    assert_eq!(server.json(&["retry", &job])["tasks"], 1);
    server.said(&["cancel", &job]);
    assert_eq!(server.outcome(&job), "cancelled");
}

#[test]
fn many_waiting_claims_are_told_of_with_one_forecast() {
    // So many places in line are forecast, in the background.
    const FORECAST: usize = 200;
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    busy(&bob);
    let claim = request("POST", "/v1/claims", &json!({"needs": {"gpus": 2}, "lease": "1h"}).to_string());
    let program = "import socket, sys\n\
                   for _ in range(int(sys.argv[3])):\n \
                   s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode())\n \
                   assert ' 201 ' in s.makefile(newline='').read()";
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(&machine.socket).arg(claim).arg((FORECAST + 5).to_string());
    output(command.uid(ann.uid).gid(ann.gid)).fine();
    let list = || bob.json(&["claims"]).as_array().expect("a list").clone();
    let forecast =
        |claim: &&Value| !claim["expected_start"].is_null() || !claim["expected_start_reason"].is_null();
    // And those that were asked for by themselves, as each was when it was made.
    eventually("as many as are forecast", || list().iter().filter(forecast).count() >= FORECAST);
    let claims = list();
    assert_eq!(claims.len(), FORECAST + 5);
    let places: Vec<_> = claims.iter().map(|claim| claim["position"].as_u64()).collect();
    assert_eq!(places, (1..=claims.len() as u64).map(Some).collect::<Vec<_>>());
}

#[test]
fn simulations_that_do_not_fit_into_memory_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("cluster.toml");
    fs::write(&file, "[[server]]\ngpus = '4xV100'\ncount = 1000000000000\n").expect("a file");
    let file = file.to_str().expect("text");
    for (cluster, jobs, most) in [
        ("4294967295xV100", "10", "(1000000)"),
        ("1xV100/4294967295,70000xV100/70000", "10", "(10000)"),
        (file, "10", "(1000000)"),
        ("4xV100", "1000000000", "(10000000)"),
    ] {
        let answer = output(Command::new(BINARY).args(["sim", "--cluster", cluster, "--generate", jobs]));
        assert_eq!(answer.code, Some(2), "{cluster} {jobs}: {answer:?}");
        assert!(answer.err.contains("more than") && answer.err.contains(most), "{answer:?}");
    }
}
