//! The server as a whole: what it says when it starts, policies, draining, history, the demonstration.

use crate::support::{FAKE, Server, eventually, output, wait_at};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn up_says_what_it_has_and_without_a_gpu_offers_processors() {
    let mut server = Server::down(&["--gpus", "none", "--cpus", "3"]);
    let said = server.start();
    let address = fs::read_to_string(server.data().join("address")).unwrap();
    assert!(said.contains(&format!(" at {}\n", address.trim())), "{said}");
    assert!(said.contains("gpus     none") && said.contains("tasks run on CPUs only"), "{said}");
    assert_eq!(server.said(&["run", "--", "echo", "hello"]), "hello\n");
    assert_eq!(server.json(&["gpus"]), json!([]));
    assert_eq!(server.json(&["workers"])[0]["cpus"], 3);
    let refused = server.ask(&["submit", "--gpus", "1", "--", "true"]);
    assert_eq!(refused.code, Some(2), "no worker could ever run it: {refused:?}");
}

#[test]
fn declared_gpus_are_those_declared() {
    let server = Server::up(&["--gpus", "fake:2xV100:16GiB,1xK80:12GiB"]);
    let gpus = server.json(&["gpus"]);
    let kinds: Vec<_> =
        gpus.as_array().unwrap().iter().map(|gpu| json!([gpu["type"], gpu["memory_bytes"]])).collect();
    assert_eq!(json!(kinds), json!([["V100", 16u64 << 30], ["V100", 16u64 << 30], ["K80", 12u64 << 30]]));
    let table = server.said(&["gpus"]);
    assert_eq!(table.lines().count(), 3, "a line per device: {table}");
    let job = server.script(&["--gpus", "1", "--gpu-type", "K80"], "exit 0");
    assert_eq!(server.outcome(&job), "succeeded");
    let devices = server.json(&["show", &job])["tasks"][0]["attempts"][0]["devices"].clone();
    assert_eq!(devices, json!([gpus[2]["id"]]), "only a type that it accepts");
    let scoped = server.script(&["--gpus", "1", "--gpu-scope", "1"], "exit 0");
    assert_eq!(server.outcome(&scoped), "succeeded");
    let devices = server.json(&["show", &scoped])["tasks"][0]["attempts"][0]["devices"].clone();
    assert_eq!(devices, json!([gpus[1]["id"]]), "only a device in its scope");
}

#[test]
fn settings_come_from_the_flag_then_the_environment_then_the_file() {
    let mut server = Server::down(&["--config", "warpyard.toml", "--policy", "sjf"])
        .with("WARPYARD_POLICY", "wsjf")
        .with("WARPYARD_CPUS", "4");
    server.write("warpyard.toml", "policy = \"fifo\"\ngpus = \"fake:3xA100:80GiB\"\ncpus = 5\n");
    server.start();
    let active = server.json(&["policy"]);
    assert_eq!(active["name"], "sjf");
    assert_eq!(server.json(&["gpus"]).as_array().map(Vec::len), Some(3));
    assert_eq!(server.json(&["workers"])[0]["cpus"], 4);

    let other = Server::down(&["--config", "wrong.toml"]);
    other.write("wrong.toml", "listen = \"127.0.0.1:0\"\npolciy = \"fifo\"\n");
    let refused = crate::support::output(&mut other.up_command());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("wrong.toml") && refused.err.contains("polciy"), "{refused:?}");
}

#[test]
fn a_policy_set_is_in_force_at_once_and_after_a_restart() {
    let mut server = Server::up(&["--gpus", "fake:1xV100:16GiB"]);
    let order = |server: &Server| {
        let gate = server.path("gate");
        let _closed = fs::remove_file(&gate);
        server.write("order", "");
        let hog = server.script(&["--gpus", "1"], &format!("echo started; {}", wait_at(&gate)));
        server.printed(&hog, "started");
        let long = server.script(&["--gpus", "1", "--expected", "1h"], "echo long >> order");
        let short = server.script(&["--gpus", "1", "--expected", "1s"], "echo short >> order");
        server.open("gate");
        assert_eq!(server.outcome(&long), "succeeded");
        assert_eq!(server.outcome(&short), "succeeded");
        server.read("order")
    };
    server.said(&["policy", "set", "fifo"]);
    assert_eq!(order(&server), "long\nshort\n");
    server.said(&["policy", "set", "sjf"]);
    assert_eq!(order(&server), "short\nlong\n");
    server.said(&["policy", "set", "short-first", "beta=2"]);
    server.said(&["down"]);
    server.ended();
    server.start();
    let active = server.json(&["policy"]);
    assert_eq!(active["name"], "short-first");
    let beta = active["params"].as_array().unwrap().iter().find(|p| p["name"] == "beta").unwrap();
    assert_eq!(beta["value"], 2.0, "{active}");
    let policies = server.json(&["policies"]);
    let names: Vec<_> = policies.as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    for name in ["fifo", "backfill", "priority-serial", "all-at-once", "sjf", "short-first", "wsjf", "hybrid"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn a_drained_worker_finishes_and_takes_no_more() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let running = server.script(&["--gpus", "1"], &format!("echo started; {}", wait_at(&gate)));
    server.printed(&running, "started");
    server.said(&["drain"]);
    let waiting = server.submit(&["--gpus", "1", "--", "true"]);
    server.open("gate");
    assert_eq!(server.outcome(&running), "succeeded");
    assert_eq!(server.state(&waiting), "ready");
    assert_eq!(server.json(&["why", &waiting])["code"], "no-worker");
    assert_eq!(server.json(&["workers"])[0]["state"], "draining");
    server.said(&["resume"]);
    assert_eq!(server.outcome(&waiting), "succeeded");
}

#[test]
fn history_is_made_again_from_the_log() {
    let mut server = Server::up(&FAKE);
    for script in ["exit 0", "exit 4", "kill -9 $$"] {
        let job = server.script(&["--gpus", "1", "--project", "vision"], script);
        server.outcome(&job);
    }
    let rows = server.json(&["history"]);
    let jobs: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| json!([row["job"], row["attempt"]["outcome"]])).collect();
    assert_eq!(json!(jobs), json!([["3", "failed"], ["2", "failed"], ["1", "succeeded"]]), "newest first");
    assert_eq!(server.json(&["admin", "rebuild"]), json!({"rows": 3}));
    assert_eq!(server.json(&["history"]), rows);
    server.said(&["down"]);
    server.ended();
    for file in ["history.db", "history.db-wal", "history.db-shm"] {
        let _not_there = fs::remove_file(server.data().join(file));
    }
    server.start();
    assert_eq!(server.json(&["history"]), rows, "derived tables may be thrown away");
    assert_eq!(server.json(&["history", "--project", "vision", "-n", "1"]).as_array().map(Vec::len), Some(1));
    assert_eq!(server.json(&["history", "--job", "2"])[0]["attempt"]["exit_code"], 4);
}

#[test]
fn a_history_that_cannot_be_opened_is_left_alone_and_a_damaged_one_set_aside() {
    let mut server = Server::up(&FAKE);
    assert_eq!(server.outcome(&server.script(&[], "exit 0")), "succeeded");
    let rows = server.json(&["history"]);
    server.said(&["down"]);
    server.ended();
    let [history, beside] = ["history.db", "history.db-wal"].map(|name| server.data().join(name));
    let kept = fs::read(&history).unwrap();
    // Something is wrong with the machine and not with the file. Readers may have left a write-ahead log behind.
    let _not_there = fs::remove_file(&beside);
    fs::create_dir(&beside).unwrap();
    let refused = output(&mut server.up_command());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("history.db cannot be written; check"), "{refused:?}");
    assert!(fs::read(&history).unwrap() == kept, "it is as it was");
    fs::remove_dir(beside).unwrap();

    fs::write(&history, [7; 8192]).unwrap();
    let banner = server.start();
    assert_eq!(server.json(&["history"]), rows, "the log still has it");
    let aside = server.data().join("history.db.damaged-1");
    assert!(fs::read(&aside).is_ok_and(|text| text == [7; 8192]), "it is kept");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(banner.contains(&aside.display().to_string()), "{banner}");
    let doctor: serde_json::Value = serde_json::from_str(&server.ask(&["--json", "doctor"]).out).unwrap();
    let repairs = doctor.as_array().unwrap().iter().find(|finding| finding["check"] == "repairs").unwrap();
    assert!(repairs["found"].as_str().unwrap().starts_with("1 repair so far"), "{repairs}");
}

#[test]
fn the_demonstration_fills_the_server() {
    let server = Server::up(&["--demo"]);
    let busy = || {
        let jobs = server.json(&["ps", "--all"]);
        let states: Vec<_> =
            jobs.as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect();
        let users: std::collections::BTreeSet<_> =
            jobs.as_array().unwrap().iter().map(|job| job["user"].to_string()).collect();
        states.len() >= 5
            && users.len() >= 3
            && states.contains(&"running".into())
            && states.iter().any(|s| s == "ready")
    };
    eventually("several people's jobs run and wait", busy);
    let gpus = server.json(&["gpus"]);
    assert!(gpus.as_array().unwrap().iter().any(|gpu| gpu["tasks"] != json!([])), "{gpus}");
}

#[test]
fn log_output_is_quiet_by_default_and_json_where_asked() {
    let told = |args: &[&str]| {
        let mut server = Server::up(&[&["--gpus", "none"], args].concat());
        let job = server.submit(&["--", "true"]);
        server.ask(&["wait", &job]).fine();
        server.end_by(Signal::SIGTERM).1
    };
    assert_eq!(told(&[]), "");
    let told = told(&["--log-level", "info", "--log-format", "json"]);
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let of_job = lines.iter().filter(|line| line["job"] == 1).map(|line| line["message"].as_str());
    assert_eq!(
        of_job.collect::<Vec<_>>(),
        [Some("job submitted"), Some("attempt started"), Some("attempt ended")],
        "{told}"
    );
    assert_eq!(lines[lines.len() - 1]["attempt"], "1.0.0.1", "{told}");
}
