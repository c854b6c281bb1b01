//! A new program in the place of an old one: it goes on from the log the old one wrote, and takes over what the old one
//! left running. Both are kept as they were written by the first of each format: events and launches only ever grow.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::fs;
use std::path::Path;
use support::{BINARY, Server, eventually, wait_at};
use warpyard_worker::supervise::{AttemptDir, Launch, RecordedAttempt, Spawner};

const LOG: &str = include_str!("upgrade/log-1.sql");
const SNAPSHOT: &str = include_str!("upgrade/snapshot-1.sql");
const LAUNCH: &str = include_str!("upgrade/launch-1.json");

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "local".into() } else { name.trim().to_owned() }
}

/// Puts an old log where a server looks for one.
fn write_log(data: &Path, sql: &[&str]) {
    let db = rusqlite::Connection::open(data.join("log.db")).expect("a database");
    for sql in sql {
        let sql = sql.replace("\"HOST\"", &format!("\"{}\"", host_name()));
        db.execute_batch(&sql).expect("the log is SQL");
    }
}

/// Starts the supervisor of attempt 4.0.0.1 with the words of an old worker.
fn start_supervisor(data: &Path, script: &str) -> Spawner {
    let text = LAUNCH.replace("DATA", data.to_str().expect("text")).replace("SCRIPT", script);
    let launch: Launch = serde_json::from_str(&text).expect("an old launch can be read");
    let mut spawner = Spawner::start(BINARY, ["spawner"]).expect("it starts");
    spawner.launch(&launch).expect("it is delivered");
    let runs =
        || matches!(AttemptDir::new(launch.dir.clone()).inspect(), Ok(RecordedAttempt::Supervised(..)));
    eventually("it runs", runs);
    spawner
}

#[test]
fn a_new_server_goes_on_with_the_log_and_the_attempts_of_an_old_one() {
    goes_on_from(&[LOG]);
}

#[test]
fn a_new_server_goes_on_from_the_state_an_old_one_kept_of_events_that_are_gone() {
    goes_on_from(&[LOG, SNAPSHOT]);
}

fn goes_on_from(sql: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, gate) = (dir.path().join("data"), dir.path().join("gate"));
    fs::create_dir_all(data.join("attempts")).expect("made");
    write_log(&data, sql);
    let spawner = start_supervisor(&data, &format!("{}; echo woke", wait_at(&gate)));
    drop(spawner);

    let mut server = Server::at(dir, data, &["--gpus", "fake:2xV100:16GiB,1xK80:12GiB", "--cpus", "4"]);
    let banner = server.start();
    assert!(banner.contains("resumed  1 running task"), "{banner}");
    assert!(banner.contains("short-first:beta=2"), "{banner}");
    let all: Vec<_> = (1..=6).map(|job: u32| server.state(&job.to_string())).collect();
    assert_eq!(all, ["done", "done", "done", "running", "blocked", "done"].map(str::to_owned));
    let outcome = |job: &str| server.outcome(job);
    assert_eq!(
        [outcome("1"), outcome("2"), outcome("3"), outcome("6")],
        ["succeeded", "failed", "failed", "cancelled"]
    );
    let held = server.json(&["show", "5"]);
    assert_eq!((held["held"].as_bool(), held["priority"].as_i64()), (Some(true), Some(7)));

    // What ran under the old program ends under the new one, and what it kept waiting starts.
    server.open("gate");
    server.said(&["wait", "4"]);
    assert_eq!(server.said(&["logs", "4"]), "woke\n");
    server.said(&["release", "5"]);
    server.said(&["wait", "5"]);
}
