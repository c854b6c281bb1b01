//! Attacks on what the server keeps, and on the clock it goes by: files removed, replaced, cut and garbled while it runs and
//! while it does not, and a wall clock that is set to anything.

use crate::support::{Answer, FAKE, Server, eventually, is_alive, output, wait_at};
use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// That a server does not start, and says these things.
fn refused(server: &Server, words: &[&str]) {
    let answer = output(&mut server.up_command());
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(!answer.err.contains("panicked"), "{answer:?}");
    for word in words {
        assert!(answer.err.contains(word), "{word:?} is not in {answer:?}");
    }
}

/// Removes a database with all that belongs to it.
fn remove(data: &Path, name: &str) {
    for end in ["", "-wal", "-shm"] {
        let _not_there = fs::remove_file(data.join(format!("{name}{end}")));
    }
}

fn cut(path: &Path) {
    OpenOptions::new().write(true).open(path).expect("opened").set_len(0).expect("cut");
}

/// The records of attempts, by the attempt's key.
fn records(server: &Server, key: &str) -> PathBuf {
    let entries = fs::read_dir(server.data().join("attempts")).expect("attempts").flatten();
    let mut found = entries.map(|entry| entry.path());
    found.find(|path| path.to_string_lossy().ends_with(key)).expect("its records are there")
}

/// A script that notes that it began, waits for a gate and notes that it ended.
fn noting(server: &Server, gate: &str) -> String {
    let ran = server.path("ran");
    let ran = ran.display();
    format!("echo began $$ >> {ran}; {}; echo ended >> {ran}; echo secret", wait_at(&server.path(gate)))
}

fn lines(server: &Server, starting: &str) -> Vec<String> {
    server.read("ran").lines().filter(|line| line.starts_with(starting)).map(str::to_owned).collect()
}

/// The number of a process that [`noting`] wrote down.
fn pid(line: &str) -> u32 {
    line.split(' ').nth(1).and_then(|pid| pid.parse().ok()).expect("a number")
}

#[test]
fn a_lost_log_stops_the_server_and_no_job_number_is_given_again() {
    let mut server = Server::up(&FAKE);
    let done = server.script(&[], "echo secret");
    assert_eq!(server.outcome(&done), "succeeded");
    let running = server.script(&[], &noting(&server, "gate"));
    eventually("it runs", || !lines(&server, "began").is_empty());
    server.said(&["history"]);
    server.end_by(Signal::SIGKILL);
    remove(server.data(), "log.db");
    refused(&server, &["history.db was made from log", "is another log", "warpyard admin new-log"]);
    // Nor does it start where the history is gone as well: what tasks printed is evidence enough.
    let aside = server.path("aside");
    fs::rename(server.data().join("history.db"), &aside).expect("moved");
    remove(server.data(), "history.db");
    refused(&server, &["belongs to a job that", "does not know", "warpyard admin new-log"]);
    fs::rename(aside, server.data().join("history.db")).expect("moved back");

    let begun = server.json(&["admin", "new-log"]);
    assert_eq!(begun["next_job"], 3, "{begun}");
    assert_eq!(begun["to_be_ended"].as_array().map(Vec::len), Some(1), "{begun}");
    assert!(server.ask(&["admin", "new-log"]).err.contains("is in order"), "once is enough");
    server.start();
    // Nothing begins before what the lost log left running has ended.
    let old = pid(&lines(&server, "began")[0]);
    let next = server.script(&[], &format!("kill -0 {old} 2> /dev/null && echo beside || echo alone"));
    assert_eq!(next, "3");
    assert_eq!(server.outcome(&next), "succeeded");
    assert_eq!(server.said(&["logs", &next]), "alone\n", "not the output of another job");
    assert!(!is_alive(old));
    assert_eq!(server.said(&["logs", &done]), "secret\n", "the history still leads to it");
    let rows = server.json(&["history", "--job", &running]);
    assert_eq!(rows[0]["attempt"]["outcome"], "lost", "{rows}");
}

#[test]
fn records_of_another_log_are_not_taken_for_a_jobs_own() {
    let server = Server::up(&FAKE);
    let db = Connection::open(server.data().join("log.db")).expect("the log");
    let log: String = db.query_row("SELECT log FROM generation", [], |row| row.get(0)).expect("an id");
    drop(db);
    // What a server with another log would have left for its job 1, in the place of ours.
    let dir = server.data().join("attempts").join(format!("{}-1.0.0.1", &log[..8]));
    fs::create_dir(&dir).expect("made");
    let running = json!({"v": 1, "key": "1.0.0.1", "log": "aaaaaaaa-0000-4000-8000-000000000000", "boot": "another",
                         "supervisor": {"pid": 1, "seen_us": 1}});
    let exit = json!({"v": 1, "key": "1.0.0.1", "cause": "exited", "status": {"code": 0}, "started_at": 0, "ended_at": 0,
                      "running_us": 1, "usage": {"peak_rss_bytes": 1, "cpu_us": 1},
                      "output": {"out_bytes": 0, "err_bytes": 0, "out_truncated": false, "err_truncated": false,
                                 "log_truncated": false}});
    fs::write(dir.join("running"), format!("{running}\n")).expect("written");
    fs::write(dir.join("exit"), format!("{exit}\n")).expect("written");
    let job = server.script(&[], "echo ran");
    assert_eq!((job.as_str(), server.outcome(&job).as_str()), ("1", "succeeded"));
    assert_eq!(server.said(&["logs", &job]), "ran\n", "it did not succeed without running");
    let attempts = server.json(&["show", &job])["tasks"][0]["attempts"].clone();
    assert_eq!((&attempts[0]["outcome"], &attempts[1]["outcome"]), (&json!("lost"), &json!("succeeded")));
    assert!(server.data().join("damaged").is_dir(), "what was found is kept");
}

#[test]
fn a_log_that_is_taken_away_while_the_server_runs_ends_it_before_anything_is_acknowledged() {
    type Attack = fn(&Path);
    let attacks: [(&str, Attack); 4] = [
        ("log.db was removed", |data| remove(data, "log.db")),
        ("log.db was replaced", |data| {
            fs::copy(data.join("log.db"), data.join("copy")).expect("copied");
            fs::rename(data.join("copy"), data.join("log.db")).expect("moved");
        }),
        ("log.db was cut", |data| cut(&data.join("log.db"))),
        ("log.db-wal was cut", |data| cut(&data.join("log.db-wal"))),
    ];
    for (told, attack) in attacks {
        let mut server = Server::up(&["--gpus", "none"]);
        server.said(&["drain"]);
        server.submit(&["--", "true"]);
        attack(server.data());
        let after = server.ask(&["submit", "--", "true"]);
        assert_ne!(after.code, Some(0), "{told}: acknowledged: {after:?}");
        let (status, said) = server.ended();
        assert!(!status.success(), "{told}");
        assert!(said.contains(told) && said.contains("warpyard admin restore"), "{told}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_garbled_record_costs_its_attempt_and_nothing_else() {
    type Attack = fn(&Path);
    let attacks: [Attack; 4] = [
        |dir| cut(&dir.join("running")),
        |dir| fs::write(dir.join("running"), b"{\"v\":1,\xff\0").expect("written"),
        |dir| {
            fs::remove_file(dir.join("running")).expect("removed");
            fs::create_dir(dir.join("running")).expect("made");
        },
        |dir| fs::write(dir.join("exit"), b"").expect("written"),
    ];
    for attack in attacks {
        let mut server = Server::up(&FAKE);
        let job = server.script(&[], &noting(&server, "gate"));
        let other = server.script(&[], &wait_at(&server.path("gate")));
        eventually("both run", || !lines(&server, "began").is_empty() && server.state(&other) == "running");
        server.end_by(Signal::SIGKILL);
        attack(&records(&server, &format!("{job}.0.0.1")));
        let banner = server.start();
        assert!(
            banner.contains("repaired") && banner.contains(&format!("attempt {job}.0.0.1 is lost")),
            "{banner}"
        );
        eventually("it runs again", || lines(&server, "began").len() == 2);
        assert!(!is_alive(pid(&lines(&server, "began")[0])), "and only once at a time");
        server.open("gate");
        for job in [&job, &other] {
            assert_eq!(server.outcome(job), "succeeded");
        }
        assert_eq!(lines(&server, "ended").len(), 1);
        let tries = server.json(&["show", &other])["tasks"][0]["attempts"].as_array().map(Vec::len);
        assert_eq!(tries, Some(1), "the other one was found again");
        let metrics = server.read("data/repairs.jsonl");
        assert!(metrics.contains("is lost"), "kept for the doctor: {metrics}");
    }
}

/// A server that ended twice in peace, and so left two state snapshots, with three jobs.
fn ended_twice() -> Server {
    let mut server = Server::up(&FAKE);
    for script in ["exit 0", "exit 3"] {
        server.outcome(&server.script(&[], script));
        server.said(&["down"]);
        server.ended();
        server.start();
    }
    server.outcome(&server.script(&[], "exit 0"));
    server.said(&["history"]);
    server.end_by(Signal::SIGKILL);
    server
}

fn outcomes(server: &Server) -> Vec<String> {
    ["1", "2", "3"].iter().map(|job| server.outcome(job)).collect()
}

#[test]
fn an_unreadable_state_snapshot_and_a_damaged_history_are_made_again() {
    let mut server = ended_twice();
    let db = Connection::open(server.data().join("log.db")).expect("the log");
    let newest = "UPDATE snapshot SET body = x'00ff' WHERE seq = (SELECT max(seq) FROM snapshot)";
    assert_eq!(db.execute(newest, []).expect("garbled"), 1);
    drop(db);
    // Behind the first page, so that it opens well.
    let history = server.data().join("history.db");
    let mut bytes = fs::read(&history).expect("read");
    assert!(bytes.len() > 12_288, "it has pages to damage");
    bytes[4096..].fill(0x5a);
    remove(server.data(), "history.db");
    fs::write(&history, bytes).expect("written");
    let banner = server.start();
    assert!(banner.contains("state snapshot at event"), "{banner}");
    assert!(banner.contains("history.db is damaged"), "{banner}");
    assert_eq!(outcomes(&server), ["succeeded", "failed", "succeeded"]);
    assert_eq!(server.json(&["history"]).as_array().map(Vec::len), Some(3));
    let (_, said) = server.end_by(Signal::SIGTERM);
    assert!(!said.contains("panicked"), "{said}");
    let banner = server.start();
    assert!(!banner.contains("repaired"), "once is enough: {banner}");
}

#[test]
fn a_log_with_a_gap_or_an_event_out_of_order_is_refused_by_its_number_and_without_a_panic() {
    for (sql, said) in [
        ("DELETE FROM snapshot; DELETE FROM event WHERE seq = 3", "entry 3 is missing"),
        ("DELETE FROM snapshot; UPDATE event SET body = x'7b' WHERE seq = 2", "entry 2 cannot be read"),
        (
            "DELETE FROM snapshot; UPDATE event SET body = (SELECT body FROM event WHERE CAST(body AS TEXT) LIKE '%\"ended\"%' LIMIT 1) WHERE seq = 2",
            "entry 2 does not follow",
        ),
    ] {
        let server = ended_twice();
        let db = Connection::open(server.data().join("log.db")).expect("the log");
        db.execute_batch(sql).expect("tampered");
        drop(db);
        refused(&server, &["log.db", said, "warpyard admin restore", "warpyard admin new-log"]);
    }
}

/// Has the wall clock of a server say something else, at once and without a break of `CLOCK_BOOTTIME`.
fn set_clock(file: &Path, offset: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, offset).expect("written");
    fs::rename(beside, file).expect("moved");
}

#[test]
fn a_wall_clock_that_jumps_holds_no_claim_and_makes_no_run_time_wrong() {
    let server = Server::down(&FAKE);
    let clock = server.path("clock");
    set_clock(&clock, "+0");
    let clock_file: &'static str = clock.to_str().expect("text").to_owned().leak();
    let mut server = server
        .with("LD_PRELOAD", FAKETIME)
        .with("FAKETIME_TIMESTAMP_FILE", clock_file)
        .with("FAKETIME_NO_CACHE", "1")
        .with("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    server.start();
    for (gate, offset) in [("hour", "+1h"), ("year", "+1y"), ("past", "-1y")] {
        let job = server.script(&["--gpus", "1", "--timeout", "10m"], &noting(&server, gate));
        eventually("it runs", || server.state(&job) == "running");
        set_clock(&clock, offset);
        // Granted while the clock is wrong, and over in its own time once it is right again.
        let mut claim = server.command(&["claim", "--gpus", "1", "--for", "1s", "--", "sh", "-c", "read go"]);
        let mut claim = claim.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
        let claims = || server.json(&["claims"]).as_array().expect("a list").clone();
        eventually("it is granted", || claims().iter().any(|claim| claim["state"] == "held"));
        set_clock(&clock, "+0");
        eventually("it lapses", || claims().is_empty());
        drop(claim.stdin.take());
        claim.wait().expect("it ends");
        server.open(gate);
        assert_eq!(server.outcome(&job), "succeeded", "{offset}");
        let attempt = server.json(&["history", "--job", &job])[0]["attempt"].clone();
        let ran = attempt["gpu_seconds"].as_f64().unwrap_or_else(|| panic!("{attempt}"));
        assert!(ran > 0.0 && ran < 300.0, "{offset}: it ran for {ran} s");
        let [started, ended] =
            ["started_at", "ended_at"].map(|name| attempt[name].as_str().expect("a time")[..10].to_owned());
        assert_eq!(started[..4], ended[..4], "{offset}: {attempt}");
    }
}

#[test]
fn a_server_in_another_time_namespace_knows_what_runs() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can make time namespaces");
    }
    let mut server = Server::up(&FAKE);
    let job = server.script(&["--gpus", "1", "--timeout", "10m"], &noting(&server, "gate"));
    eventually("it runs", || server.path("ran").exists() && server.state(&job) == "running");
    server.end_by(Signal::SIGKILL);
    // There the machine was started a year earlier, and so was every process in `/proc`.
    let year = "exec unshare --time --boottime 31536000 --monotonic 31536000 \"$0\" \"$@\"";
    let mut server = server.after(year);
    server.start();
    let second = server.script(&["--gpus", "1", "--timeout", "10m"], &noting(&server, "gate"));
    eventually("both run", || lines(&server, "began").len() == 2);
    server.open("gate");
    for job in [&job, &second] {
        assert_eq!(server.outcome(job), "succeeded");
        let attempts = server.json(&["history", "--job", job]);
        assert_eq!(attempts.as_array().map(Vec::len), Some(1), "{attempts}");
        let ran = attempts[0]["attempt"]["gpu_seconds"].as_f64().unwrap_or_else(|| panic!("{attempts}"));
        assert!(ran > 0.0 && ran < 300.0, "it ran for {ran} s");
    }
    assert_eq!(lines(&server, "began").len(), 2, "nothing began twice");
}

/// Everything `admin backup` prints as JSON.
fn backup(server: &Server, name: &str) -> (PathBuf, Value) {
    let dir = server.path(name);
    let made = server.json(&["admin", "backup", "--outputs", dir.to_str().expect("text")]);
    (dir, made)
}

fn restore(server: &Server, from: &Path) -> Answer {
    server.ask(&["--json", "admin", "restore", from.to_str().expect("text")])
}

#[test]
fn a_restored_server_runs_nothing_again_that_ran_after_its_backup() {
    let mut server = Server::up(&FAKE);
    let done = server.script(&[], "echo done");
    assert_eq!(server.outcome(&done), "succeeded");
    let running = server.script(&["--gpus", "2"], &noting(&server, "gate"));
    eventually("it runs", || !lines(&server, "began").is_empty());
    // One that waits when the backup is made, because nothing new starts.
    server.said(&["drain"]);
    let count = format!("echo counted >> {}", server.path("count").display());
    let waiting = server.script(&[], &count);
    let (dir, made) = backup(&server, "backup");
    assert_eq!((&made["jobs"], &made["unfinished"]), (&json!(3), &json!(2)), "{made}");
    for file in ["", "log.db", "history.db", "token", "backup.json"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(dir.join(file)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} is nobody else's");
    }
    // What the backup does not know of: the job it has waiting runs, and one it never saw.
    server.said(&["resume"]);
    assert_eq!(server.outcome(&waiting), "succeeded");
    let quick = server.script(&[], "echo quick");
    assert_eq!(server.outcome(&quick), "succeeded");
    let began = pid(&lines(&server, "began")[0]);
    server.said(&["history"]);
    server.end_by(Signal::SIGKILL);

    assert!(restore(&server, &dir).err.contains("has a log already"), "nothing is overwritten");
    remove(server.data(), "log.db");
    refused(&server, &["warpyard admin restore"]);
    let restored: Value = serde_json::from_str(&restore(&server, &dir).fine()).expect("JSON");
    assert_eq!((&restored["held"], &restored["next_job"]), (&json!([2, 3]), &json!(5)), "{restored}");
    server.start();
    assert_eq!(server.outcome(&done), "succeeded");
    assert_eq!(server.said(&["logs", &done]), "done\n");
    assert!(is_alive(began), "it goes on");
    assert_eq!((server.state(&running), server.state(&waiting)), ("running".into(), "blocked".into()));
    server.said(&["resume"]);
    let next = server.script(&[], "echo next");
    assert_eq!((next.as_str(), server.outcome(&next).as_str()), ("5", "succeeded"), "4 is someone else's");
    assert_eq!(server.said(&["logs", &next]), "next\n");
    server.open("gate");
    assert_eq!(server.outcome(&running), "succeeded");
    assert_eq!((lines(&server, "began").len(), lines(&server, "ended").len()), (1, 1), "it ran once");
    assert_eq!(server.read("count"), "counted\n", "nobody released it");
    // Whoever releases it has it run again, unless the worker still has the record of how it ended.
    server.said(&["release", &waiting]);
    assert_eq!(server.outcome(&waiting), "succeeded");
}

#[test]
fn a_backup_that_is_incomplete_or_changed_is_not_restored() {
    type Attack = fn(&Path);
    let server = Server::up(&FAKE);
    server.outcome(&server.script(&[], "exit 0"));
    let attacks: [(&str, Attack); 4] = [
        ("is no complete backup", |dir| fs::remove_file(dir.join("backup.json")).expect("removed")),
        ("its content is not what was written", |dir| {
            let mut bytes = fs::read(dir.join("log.db")).expect("read");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(dir.join("log.db"), bytes).expect("written");
        }),
        ("a backup holds no such file", |dir| {
            let text = fs::read_to_string(dir.join("backup.json")).expect("read");
            let text = text.replace("\"history.db\"", "\"../../../../tmp/history.db\"");
            fs::write(dir.join("backup.json"), text).expect("written");
        }),
        ("newer than this program knows", |dir| {
            let text = fs::read_to_string(dir.join("backup.json")).expect("read");
            fs::write(dir.join("backup.json"), text.replace("\"format\": 1", "\"format\": 2"))
                .expect("written");
        }),
    ];
    for (n, (told, attack)) in attacks.into_iter().enumerate() {
        let (dir, _) = backup(&server, &format!("backup-{n}"));
        attack(&dir);
        let target = server.path(&format!("target-{n}"));
        let args =
            ["--data", target.to_str().expect("text"), "admin", "restore", dir.to_str().expect("text")];
        let answer = server.ask(&args);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains(told), "{told}: {answer:?}");
        assert!(!target.exists(), "nothing is left of it");
    }
}

#[test]
fn a_backup_is_neither_made_in_a_directory_of_anothers_nor_restored_from_one() {
    const NOBODY: u32 = 65_534;
    let server = Server::up(&FAKE);
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can give directories away");
    }
    server.outcome(&server.script(&[], "exit 0"));
    let prepared = server.path("prepared");
    fs::create_dir(&prepared).expect("made");
    chown(&prepared, Some(NOBODY), Some(NOBODY)).expect("it can be given");
    // Where everyone may put something, someone else's link.
    let common = server.path("common");
    fs::create_dir(&common).expect("made");
    fs::set_permissions(&common, fs::Permissions::from_mode(0o1777)).expect("its rights can be set");
    let elsewhere = server.path("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    std::os::unix::fs::symlink(&elsewhere, common.join("link")).expect("a link");
    std::os::unix::fs::lchown(common.join("link"), Some(NOBODY), Some(NOBODY)).expect("it can be given");
    for place in [&prepared, &common.join("link"), &prepared.join("below")] {
        let before = fs::metadata(&prepared).expect("it is there").permissions().mode();
        let answer = server.ask(&["admin", "backup", place.to_str().expect("text")]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains("is no place for a backup"), "{answer:?}");
        for dir in [&prepared, &elsewhere] {
            assert_eq!(fs::read_dir(dir).expect("a directory").count(), 0, "nothing was written");
        }
        assert_eq!(fs::metadata(&prepared).expect("it is there").permissions().mode(), before);
    }
    let (dir, _) = backup(&server, "backup");
    chown(&dir, Some(NOBODY), Some(NOBODY)).expect("it can be given");
    let target = server.path("target");
    let args = ["--data", target.to_str().expect("text"), "admin", "restore", dir.to_str().expect("text")];
    let answer = server.ask(&args);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("it belongs to"), "{answer:?}");
    assert!(!target.exists(), "nothing is left of it");
}
