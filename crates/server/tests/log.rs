//! What the log promises, checked on real files.

use std::path::Path;
use warpyard_core::engine::Store;
use warpyard_core::event::What;
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{Cluster, Event, JobId, PolicyChoice, Time};
use warpyard_server::store::{History, Log, LogError};

fn policy() -> PolicyChoice {
    "backfill".parse().expect("a policy's name")
}

/// The submission of a job of one task.
fn submitted(n: u64) -> Event {
    let task = TaskSpec { name: "t".into(), command: vec!["true".into()], ..TaskSpec::default() };
    let spec = JobSpec { name: format!("job {n}"), tasks: vec![task], ..JobSpec::default() };
    Event { at: Time(n), what: What::JobSubmitted { job: JobId(n), user: "ann".into(), spec: spec.into() } }
}

fn state_of(log: &Log) -> Cluster {
    log.load(&policy()).expect("the log can be read").cluster
}

fn snapshot(log: &Log, cluster: &Cluster) {
    let body = serde_json::to_vec(cluster).expect("a state is JSON");
    log.save_snapshot(cluster.seq(), Time(cluster.seq()), &body).expect("a snapshot can be kept");
}

#[test]
fn what_was_appended_is_there_after_opening_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    let mut log = Log::open(&path).expect("a log");
    log.append(&[submitted(1), submitted(2)]).expect("room");
    log.append(&[submitted(3)]).expect("room");
    let before = state_of(&log);
    drop(log);
    let again = Log::open(&path).expect("a log");
    assert_eq!(state_of(&again), before);
    assert_eq!(before.jobs().len(), 3);
}

#[test]
fn a_snapshot_and_the_rest_is_the_same_as_everything() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = Log::open(&dir.path().join("log.db")).expect("a log");
    log.append(&[submitted(1), submitted(2)]).expect("room");
    snapshot(&log, &state_of(&log));
    log.append(&[submitted(3)]).expect("room");
    let loaded = log.load(&policy()).expect("the log can be read");
    assert_eq!(loaded.replayed, 1);
    let mut all = Cluster::new(policy());
    (1..=3).for_each(|n| drop(all.apply(&submitted(n))));
    assert_eq!(loaded.cluster, all);
}

#[test]
fn pruning_takes_only_what_both_snapshots_have_and_nothing_is_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = Log::open(&dir.path().join("log.db")).expect("a log");
    log.append(&[submitted(1), submitted(2)]).expect("room");
    snapshot(&log, &state_of(&log));
    let far = Time(u64::MAX / 2);
    assert_eq!(log.prune(far, 100).expect("pruned"), 0, "one snapshot alone is not enough");
    log.append(&[submitted(3)]).expect("room");
    snapshot(&log, &state_of(&log));
    log.append(&[submitted(4)]).expect("room");
    let before = state_of(&log);
    assert_eq!(log.prune(Time(2), 100).expect("pruned"), 1, "what is young enough stays");
    assert_eq!(log.prune(far, 100).expect("pruned"), 1);
    assert_eq!(log.first_seq().expect("read"), Some(3));
    assert_eq!(state_of(&log), before);
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    drop(Log::open(&path).expect("a log"));
    let db = rusqlite::Connection::open(&path).expect("a database");
    db.pragma_update(None, "user_version", 99).expect("set");
    drop(db);
    match Log::open(&path).map(drop) {
        Err(LogError::Newer { found: 99, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// The log as it is on disk after a crash: the database and its write-ahead log, copied while open.
fn crashed_copy(from: &Path, to: &Path) {
    for name in ["log.db", "log.db-wal"] {
        std::fs::copy(from.join(name), to.join(name)).expect("copied");
    }
}

#[test]
fn a_torn_or_zeroed_tail_costs_at_most_what_it_hit() {
    let (dir, copy) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let mut log = Log::open(&dir.path().join("log.db")).expect("a log");
    for n in 1..=20 {
        log.append(&[submitted(n)]).expect("room");
    }
    let wal = dir.path().join("log.db-wal");
    let whole = std::fs::metadata(&wal).expect("a write-ahead log").len();
    for (cut, zeroed) in [(1, false), (5_000, false), (5_000, true), (whole / 2, true)] {
        crashed_copy(dir.path(), copy.path());
        let file =
            std::fs::OpenOptions::new().write(true).open(copy.path().join("log.db-wal")).expect("opened");
        file.set_len(whole - cut).expect("cut");
        if zeroed {
            file.set_len(whole).expect("filled with zeros");
        }
        drop(file);
        let mut log = Log::open(&copy.path().join("log.db")).expect("a log with a torn tail opens");
        let jobs = state_of(&log).jobs().len() as u64;
        assert!((1..20).contains(&jobs), "{jobs} jobs after cutting {cut}");
        log.append(&[submitted(jobs + 1)]).expect("it goes on from there");
        assert_eq!(state_of(&log).jobs().len() as u64, jobs + 1);
    }
}

#[test]
fn what_is_no_database_is_said_to_be_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    std::fs::write(&path, vec![7u8; 8192]).expect("written");
    assert!(matches!(Log::open(&path).map(drop), Err(LogError::Damaged { .. })));
}

#[test]
fn a_failed_append_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    let mut log = Log::open(&path).expect("a log");
    log.append(&[submitted(1)]).expect("room");
    // Someone wrote an event of the number this log would use next: the batch fails as a whole.
    let other = rusqlite::Connection::open(&path).expect("a database");
    other.execute("INSERT INTO event (seq, at, body) VALUES (3, 0, x'00')", []).expect("inserted");
    assert!(log.append(&[submitted(2), submitted(3)]).is_err());
    other.execute("DELETE FROM event WHERE seq = 3", []).expect("deleted");
    assert_eq!(state_of(&log).jobs().len(), 1);
    log.append(&[submitted(2)]).expect("room");
    assert_eq!(state_of(&log).jobs().len(), 2);
}

#[test]
fn derived_tables_made_again_are_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::new(policy());
    let events: Vec<_> = (1..=3).map(submitted).collect();
    events.iter().for_each(|e| drop(cluster.apply(e)));
    let path = dir.path().join("history.db");
    let mut history = History::open(&path).expect("tables");
    history.enter(&cluster, &events, 3).expect("entered");
    let before: Vec<_> = (1..=3).map(|n| history.job(JobId(n)).expect("read")).collect();
    history.clear(&cluster, 1, Time(0)).expect("cleared");
    assert_eq!(history.job(JobId(1)).expect("read"), None);
    drop(history);
    let mut history = History::open(&path).expect("tables");
    assert_eq!(history.seq(), 0, "who is killed here begins again where the rows are gone");
    history.enter(&cluster, &events, 3).expect("entered");
    assert_eq!((1..=3).map(|n| history.job(JobId(n)).expect("read")).collect::<Vec<_>>(), before);
}
