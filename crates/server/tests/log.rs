//! What the log promises, checked on real files. A log that nobody has claimed yet is at epoch 0.

use std::path::Path;
use warpyard_core::event::EventKind;
use warpyard_core::spec::{JobSpec, Program, TaskSpec};
use warpyard_core::{Cluster, Epoch, Event, JobId, LogStore, PolicyChoice, Store, Time};
use warpyard_server::store::{HistoryStore, Log, LogError, SqliteHistory};

#[path = "../../core/tests/contract/log_store.rs"]
mod contract;

#[test]
fn sqlite_keeps_the_contract_of_a_log_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let count = std::cell::Cell::new(0);
    let empty = || {
        count.set(count.get() + 1);
        Log::open(&dir.path().join(format!("{}.db", count.get()))).expect("a log")
    };
    let reopen = |log: Log| {
        let path = log.path().to_owned();
        drop(log);
        Log::open(&path).expect("a log")
    };
    contract::holds(empty, reopen);
}

#[test]
fn a_writer_that_another_process_replaced_is_refused_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    let mut old = Log::open(&path).expect("a log");
    let first = old.claim().expect("claimed");
    old.append(first, 0, &[submitted(1)]).expect("room");
    let mut new = Log::open(&path).expect("a log");
    let second = new.claim().expect("claimed");
    match old.append(first, 1, &[submitted(2)]) {
        Err(LogError::Deposed { epoch: 1, found: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    new.append(second, 1, &[submitted(2)]).expect("the writer in office goes on");
    assert_eq!(new.last_seq().expect("read"), 2);
}

fn policy() -> PolicyChoice {
    "backfill".parse().expect("a policy's name")
}

/// The submission of a job of one task.
fn submitted(n: u64) -> Event {
    let task = TaskSpec { name: "t".into(), program: Program::new(["true"]), ..TaskSpec::default() };
    let spec = JobSpec { name: format!("job {n}"), tasks: vec![task], ..JobSpec::default() };
    Event {
        at: Time(n),
        what: EventKind::JobSubmitted { job: JobId(n), user: "ann".into(), spec: spec.into() },
    }
}

fn state_of(log: &mut Log) -> Cluster {
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
    log.append(Epoch(0), log.seq(), &[submitted(1), submitted(2)]).expect("room");
    log.append(Epoch(0), log.seq(), &[submitted(3)]).expect("room");
    let before = state_of(&mut log);
    drop(log);
    let mut again = Log::open(&path).expect("a log");
    assert_eq!(state_of(&mut again), before);
    assert_eq!(before.jobs().len(), 3);
}

#[test]
fn a_snapshot_and_the_rest_is_the_same_as_everything() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = Log::open(&dir.path().join("log.db")).expect("a log");
    log.append(Epoch(0), log.seq(), &[submitted(1), submitted(2)]).expect("room");
    let state = state_of(&mut log);
    snapshot(&log, &state);
    log.append(Epoch(0), log.seq(), &[submitted(3)]).expect("room");
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
    log.append(Epoch(0), log.seq(), &[submitted(1), submitted(2)]).expect("room");
    let state = state_of(&mut log);
    snapshot(&log, &state);
    let far = Time(u64::MAX / 2);
    assert_eq!(log.prune(far, 100).expect("pruned"), 0, "one snapshot alone is not enough");
    log.append(Epoch(0), log.seq(), &[submitted(3)]).expect("room");
    let state = state_of(&mut log);
    snapshot(&log, &state);
    log.append(Epoch(0), log.seq(), &[submitted(4)]).expect("room");
    let before = state_of(&mut log);
    assert_eq!(log.prune(Time(2), 100).expect("pruned"), 1, "what is young enough stays");
    assert_eq!(log.prune(far, 100).expect("pruned"), 1);
    assert_eq!(log.first_seq().expect("read"), Some(3));
    assert_eq!(state_of(&mut log), before);
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
        log.append(Epoch(0), log.seq(), &[submitted(n)]).expect("room");
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
        let jobs = state_of(&mut log).jobs().len() as u64;
        assert!((1..20).contains(&jobs), "{jobs} jobs after cutting {cut}");
        log.append(Epoch(0), log.seq(), &[submitted(jobs + 1)]).expect("it goes on from there");
        assert_eq!(state_of(&mut log).jobs().len() as u64, jobs + 1);
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
    log.append(Epoch(0), log.seq(), &[submitted(1)]).expect("room");
    // Someone wrote an event of the number this log would use next: the batch fails as a whole.
    let other = rusqlite::Connection::open(&path).expect("a database");
    other.execute("INSERT INTO event (seq, at, body) VALUES (3, 0, x'00')", []).expect("inserted");
    assert!(log.append(Epoch(0), log.seq(), &[submitted(2), submitted(3)]).is_err());
    other.execute("DELETE FROM event WHERE seq = 3", []).expect("deleted");
    assert_eq!(state_of(&mut log).jobs().len(), 1);
    log.append(Epoch(0), log.seq(), &[submitted(2)]).expect("room");
    assert_eq!(state_of(&mut log).jobs().len(), 2);
}

#[test]
fn derived_tables_made_again_are_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::new(policy());
    let events: Vec<_> = (1..=3).map(submitted).collect();
    events.iter().for_each(|e| drop(cluster.apply(e)));
    let path = dir.path().join("history.db");
    let mut history = SqliteHistory::open(&path).expect("tables");
    history.enter(&cluster, &events, 3).expect("entered");
    let before: Vec<_> = (1..=3).map(|n| history.job(JobId(n)).expect("read")).collect();
    history.clear(&cluster, 1, Time(0)).expect("cleared");
    assert_eq!(history.job(JobId(1)).expect("read"), None);
    drop(history);
    let mut history = SqliteHistory::open(&path).expect("tables");
    assert_eq!(history.seq(), 0, "who is killed here begins again where the rows are gone");
    history.enter(&cluster, &events, 3).expect("entered");
    assert_eq!((1..=3).map(|n| history.job(JobId(n)).expect("read")).collect::<Vec<_>>(), before);
}

/// A log of four jobs with state snapshots after the second and the third.
fn with_two_snapshots(path: &Path) -> Cluster {
    let mut log = Log::open(path).expect("a log");
    log.append(Epoch(0), log.seq(), &[submitted(1), submitted(2)]).expect("room");
    for job in 3..=4 {
        let state = state_of(&mut log);
        snapshot(&log, &state);
        log.append(Epoch(0), log.seq(), &[submitted(job)]).expect("room");
    }
    state_of(&mut log)
}

fn tamper(path: &Path, sql: &str) {
    let db = rusqlite::Connection::open(path).expect("a database");
    db.execute_batch(sql).expect("it can be changed");
}

#[test]
fn an_unreadable_state_snapshot_is_removed_and_what_is_older_serves_instead() {
    for (sql, replayed, repairs) in [
        ("UPDATE snapshot SET body = x'7b' WHERE seq = 3", 2, 1),
        ("UPDATE snapshot SET body = (SELECT body FROM snapshot WHERE seq = 2) WHERE seq = 3", 2, 1),
        ("UPDATE snapshot SET body = 'text, and not bytes'", 4, 2),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log.db");
        let before = with_two_snapshots(&path);
        tamper(&path, sql);
        let loaded = Log::open(&path).expect("a log").load(&policy()).expect("it can be read");
        assert_eq!(loaded.cluster, before, "{sql}");
        assert_eq!(
            (loaded.replayed, loaded.repairs.len()),
            (replayed, repairs),
            "{sql}: {:?}",
            loaded.repairs
        );
        assert!(loaded.repairs[0].contains("state snapshot at event 3"), "{:?}", loaded.repairs);
        let again = Log::open(&path).expect("a log").load(&policy()).expect("it can be read");
        assert_eq!(again.repairs, Vec::<String>::new(), "once is enough");
    }
}

#[test]
fn a_log_with_a_missing_an_unreadable_or_a_misplaced_entry_is_refused_with_its_number() {
    for (sql, seq, problem) in [
        ("DELETE FROM event WHERE seq = 4", 0, ""),
        ("DELETE FROM snapshot; DELETE FROM event WHERE seq = 2", 2, "is missing"),
        ("DELETE FROM snapshot; DELETE FROM event WHERE seq = 1", 1, "is missing"),
        ("UPDATE event SET body = x'00' WHERE seq = 4", 4, "cannot be read"),
        ("UPDATE event SET body = 17 WHERE seq = 4", 4, "cannot be read"),
        // A task that ends before it was placed.
        (
            r#"UPDATE event SET body = CAST('{"at":4,"what":{"started":{"attempt":{"task":{"job":9,"node":0,"index":0},"number":1}}}}' AS BLOB) WHERE seq = 4"#,
            4,
            "does not follow from those before it",
        ),
        ("DELETE FROM event; UPDATE snapshot SET body = x'7b'", 3, "events before it are gone"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log.db");
        with_two_snapshots(&path);
        tamper(&path, sql);
        let loaded = Log::open(&path).and_then(|mut log| log.load(&policy()));
        match loaded.map(|loaded| loaded.cluster.seq()) {
            // Cut off at the end it is a shorter log; what else is there tells that something is missing.
            Ok(3) if seq == 0 => {}
            Err(e @ LogError::Entry { seq: found, .. }) if found == seq => {
                let told = e.to_string();
                assert!(told.contains(problem) && told.contains("warpyard admin new-log"), "{told}");
                assert!(told.contains(path.to_str().expect("text")), "{told}");
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

/// As `replay` and `sim --trace` read it, from a file that anyone may have written.
#[test]
fn a_recording_of_a_log_with_a_misplaced_entry_is_refused_with_its_number() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    with_two_snapshots(&path);
    let recording = || warpyard_server::recording(&Log::open_to_read(&path)?, Time(0), policy());
    assert!(recording().is_ok());
    tamper(
        &path,
        r#"UPDATE event SET body = CAST('{"at":4,"what":{"started":{"attempt":{"task":{"job":9,"node":0,"index":0},"number":1}}}}' AS BLOB) WHERE seq = 4"#,
    );
    match recording().map(drop) {
        Err(LogError::Entry { seq: 4, problem, .. }) => {
            assert!(problem.contains("does not follow from those before it"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_kept_in_a_log_that_was_taken_away() {
    type Attack = fn(&Path);
    let attacks: [(&str, Attack); 6] = [
        ("log.db was removed", |dir| std::fs::remove_file(dir.join("log.db")).expect("removed")),
        ("log.db was replaced", |dir| {
            std::fs::copy(dir.join("log.db"), dir.join("copy")).expect("copied");
            std::fs::rename(dir.join("copy"), dir.join("log.db")).expect("moved");
        }),
        ("log.db was cut", |dir| cut(&dir.join("log.db"))),
        ("log.db-wal was removed", |dir| std::fs::remove_file(dir.join("log.db-wal")).expect("removed")),
        ("log.db-wal was replaced", |dir| {
            std::fs::copy(dir.join("log.db-wal"), dir.join("copy")).expect("copied");
            std::fs::rename(dir.join("copy"), dir.join("log.db-wal")).expect("moved");
        }),
        ("log.db-wal was cut", |dir| cut(&dir.join("log.db-wal"))),
    ];
    for (told, attack) in attacks {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::open(&dir.path().join("log.db")).expect("a log");
        log.append(Epoch(0), 0, &[submitted(1)]).expect("room");
        attack(dir.path());
        match log.append(Epoch(0), 1, &[submitted(2)]) {
            Err(e @ LogError::TakenAway { seq: 1, .. }) => assert!(e.to_string().contains(told), "{e}"),
            other => panic!("{told}: {other:?}"),
        }
        assert!(Log::open_existing(&dir.path().join("nothing")).is_err(), "and none is made in its place");
    }
}

fn cut(path: &Path) {
    std::fs::OpenOptions::new().write(true).open(path).expect("opened").set_len(0).expect("cut");
}

#[test]
fn who_does_not_know_the_last_event_may_not_append() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = Log::open(&dir.path().join("log.db")).expect("a log");
    log.append(Epoch(0), 0, &[submitted(1)]).expect("room");
    assert!(matches!(
        log.append(Epoch(0), 0, &[submitted(2)]),
        Err(LogError::Overtaken { expected: 0, found: 1, .. })
    ));
}

#[test]
fn a_log_has_an_id_from_its_first_use_on_and_an_older_one_keeps_the_paths_of_its_jobs() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log.db");
    let lineage = |path: &Path| {
        let mut log = Log::open(path).expect("a log");
        state_of(&mut log);
        log.lineage().expect("it was loaded").clone()
    };
    let fresh = lineage(&path);
    assert_eq!(fresh, lineage(&path), "it is drawn once");
    assert_eq!(fresh.generations().len(), 1);
    let mut log = Log::open(&path).expect("a log");
    log.append(Epoch(0), 0, &[submitted(1), submitted(2)]).expect("room");
    drop(log);
    // As the first schema was.
    tamper(&path, "DROP TABLE generation; DROP TABLE dismissed; PRAGMA user_version = 1");
    let upgraded = lineage(&path);
    let logs = [1, 2, 3].map(|job| upgraded.log_of(JobId(job)).is_some());
    assert_eq!(logs, [false, false, true]);
}
