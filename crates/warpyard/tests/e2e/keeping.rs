//! What was acknowledged stays, whatever becomes of the disk, and a person is told what to do.

use crate::support::{Answer, FAKE, Server, eventually, is_alive, output, wait_at};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, for as long as this lives.
struct Small(PathBuf);

impl Small {
    /// Nothing where this user may not mount, which is said.
    fn mounted(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=0700");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output();
        if mount.as_ref().is_ok_and(|mount| mount.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("SKIPPED: a small file system cannot be mounted here (root is needed): {mount:?}");
        None
    }

    fn remount(&self, how: &str) {
        let mount =
            Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.0).output().unwrap();
        assert!(mount.status.success(), "{mount:?}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _left_to_the_system = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn ids(server: &Server) -> Vec<String> {
    let jobs = server.json(&["ps", "--all"]);
    jobs.as_array().unwrap().iter().rev().map(|job| job["job"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn refused(server: &Server, parts: &[&str]) -> Answer {
    let answer = output(&mut server.up_command());
    assert_eq!(answer.code, Some(2), "{answer:?}");
    for part in parts {
        assert!(answer.err.contains(part), "{part:?}: {}", answer.err);
    }
    assert!(answer.err.lines().count() < 8 && !answer.err.contains("panicked"), "{}", answer.err);
    answer
}

#[test]
fn a_full_disk_stops_the_server_and_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let Some(_small) = Small::mounted(&data, "4m") else { return };
    let mut server = Server::at(dir, data.clone(), &FAKE);
    server.start();
    let gate = server.path("gate");
    let running =
        server.script(&["--gpus", "1"], &format!("echo $$; echo started; {}; exit 5", wait_at(&gate)));
    server.printed(&running, "started");
    let task: u32 = server.said(&["logs", &running]).lines().next().unwrap().parse().unwrap();
    let filler = data.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let filled = file.metadata().unwrap().len();
    file.set_len(filled - (128 << 10)).unwrap();
    drop(file);
    let long = "x".repeat(8000);
    let mut acknowledged = vec![running.clone()];
    let refusal = loop {
        let answer =
            server.ask(&["submit", "--gpus", "2", "--json", "--env", &format!("LONG={long}"), "--", "true"]);
        if answer.code != Some(0) {
            break answer;
        }
        let job: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
        acknowledged.push(job["job"].as_str().unwrap().to_owned());
        assert!(acknowledged.len() < 2000, "the disk is never full");
    };
    assert!(acknowledged.len() > 1, "there was some room left");
    assert_eq!(refusal.code, Some(3), "it is not the request that was wrong: {refusal:?}");
    let (status, said) = server.ended();
    assert!(!status.success());
    assert!(said.contains("is full") && said.contains("free some space and start again"), "{said}");
    assert!(is_alive(task), "what runs goes on");
    server.open("gate");
    eventually("the task ends", || !is_alive(task));
    fs::remove_file(filler).unwrap();
    server.start();
    let found = ids(&server);
    assert_eq!(found[..acknowledged.len()], acknowledged);
    assert!(found.len() <= acknowledged.len() + 1, "{found:?}");
    assert_eq!(server.outcome(&running), "failed");
    let shown = server.json(&["show", &running]);
    assert_eq!(
        (&shown["tasks"][0]["exit_code"], shown["tasks"][0]["attempts"].as_array().map(Vec::len)),
        (&json!(5), Some(1))
    );
    assert_eq!(server.outcome("last"), "succeeded", "it goes on where it was");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let Some(small) = Small::mounted(&data, "16m") else { return };
    let mut server = Server::at(dir, data.clone(), &FAKE);
    small.remount("ro");
    refused(&server, &[data.to_str().unwrap()]);
    small.remount("rw");
    server.start();
    server.said(&["run", "--", "true"]);
    server.end_by(Signal::SIGTERM);
    small.remount("ro");
    refused(&server, &[data.to_str().unwrap()]);
    small.remount("rw");
    server.start();
    assert_eq!(ids(&server), ["1"]);
}

#[test]
fn data_of_a_newer_version_is_left_alone() {
    let mut server = Server::up(&FAKE);
    server.said(&["run", "--", "true"]);
    server.end_by(Signal::SIGTERM);
    let log = server.data().join("log.db");
    let set = |version: i64| {
        rusqlite::Connection::open(&log).unwrap().pragma_update(None, "user_version", version).unwrap()
    };
    let version: i64 = rusqlite::Connection::open(&log)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    set(version + 1);
    refused(&server, &["log.db", "newer", "use the warpyard that wrote it"]);
    set(version);
    server.start();
    assert_eq!(ids(&server), ["1"]);
}

/// A server killed right after it acknowledged some jobs.
fn killed_with(jobs: usize) -> (Server, PathBuf) {
    let mut server = Server::up(&FAKE);
    server.said(&["drain"]);
    for _ in 0..jobs {
        server.submit(&["--", "true"]);
    }
    // Whoever asks for the history has everything entered in it.
    server.said(&["history"]);
    server.end_by(Signal::SIGKILL);
    let wal = server.data().join("log.db-wal");
    assert!(fs::metadata(&wal).unwrap().len() > 4096, "the jobs are in it");
    (server, wal)
}

#[test]
fn a_torn_write_behind_what_was_acknowledged_is_passed_over() {
    let (mut server, wal) = killed_with(3);
    let mut file = OpenOptions::new().append(true).open(&wal).unwrap();
    // A frame that was begun and never finished, and the blocks a file system gave it beyond.
    file.write_all(&[0x5a; 1000]).unwrap();
    file.write_all(&[0; 20_000]).unwrap();
    server.start();
    assert_eq!(ids(&server), ["1", "2", "3"]);
    server.said(&["resume"]);
    for job in ["1", "2", "3"] {
        assert_eq!(server.outcome(job), "succeeded");
    }
}

#[test]
fn a_zeroed_tail_costs_at_most_what_it_held() {
    let (mut server, wal) = killed_with(3);
    let mut file = OpenOptions::new().write(true).open(&wal).unwrap();
    file.seek(SeekFrom::End(-1000)).unwrap();
    file.write_all(&[0; 1000]).unwrap();
    drop(file);
    // The history has what the disk lost, so that it does not go unnoticed.
    refused(&server, &["history.db has events up to", "warpyard admin adopt-log"]);
    let adopted = server.json(&["admin", "adopt-log"]);
    assert_eq!((&adopted["held"], &adopted["next_job"]), (&json!([1, 2]), &json!(4)), "{adopted}");
    server.start();
    assert_eq!(ids(&server), ["1", "2"], "the disk lost the last transaction, and nothing else is lost");
    assert_eq!(server.submit(&["--name", "other", "--", "true"]), "4", "no number is given twice");
    server.said(&["resume"]);
    assert_eq!(server.outcome("4"), "succeeded");
    for job in ["1", "2"] {
        server.said(&["release", job]);
        assert_eq!(server.outcome(job), "succeeded");
    }
    assert_eq!(server.json(&["history", "--job", "3"]), json!([]), "nothing is left of what the disk lost");
}

#[test]
fn a_log_that_is_damaged_is_said_to_be() {
    let mut server = Server::up(&FAKE);
    server.said(&["run", "--", "true"]);
    server.end_by(Signal::SIGTERM);
    let log = server.data().join("log.db");
    let mut file = OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all(&[0x5a; 100]).unwrap();
    drop(file);
    refused(&server, &["log.db", "is damaged"]);
}

#[test]
fn a_clean_end_leaves_a_snapshot_to_go_on_from() {
    let mut server = Server::up(&FAKE);
    let job = server.script(&[], "exit 0");
    server.said(&["wait", &job]);
    server.said(&["down"]);
    server.ended();
    let log = rusqlite::Connection::open(server.data().join("log.db")).unwrap();
    let number = |sql: &str| log.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let (snapshot, last) = (number("SELECT max(seq) FROM snapshot"), number("SELECT max(seq) FROM event"));
    assert_eq!(snapshot, last, "the snapshot has every event");
    // With every event gone, the snapshot alone must be enough.
    log.execute("DELETE FROM event", []).unwrap();
    drop(log);
    server.start();
    assert_eq!(server.outcome(&job), "succeeded");
    let next = server.script(&[], "exit 0");
    assert!(next.parse::<u64>().unwrap() > job.parse::<u64>().unwrap(), "numbers are not used twice");
}
