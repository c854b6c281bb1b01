//! The derived tables on real files: their order, and those an older program left.

use super::*;
use std::path::PathBuf;
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};

/// Tables with jobs of these moments of submission, start and end.
fn with(jobs: &[(i64, Option<i64>, i64)]) -> (tempfile::TempDir, SqliteHistory) {
    let dir = tempfile::tempdir().expect("a directory");
    let history = SqliteHistory::open(&dir.path().join("history.db")).expect("tables");
    for (id, (submitted, started, finished)) in (1..).zip(jobs) {
        let sql = "INSERT INTO job (id, name, user, submitted, started, finished, outcome, tasks, priority)
                   VALUES (?1, 'job', 'ann', ?2, ?3, ?4, 'succeeded', 1, 0)";
        history.db.execute(sql, params![id, submitted, started, finished]).expect("a row");
    }
    (dir, history)
}

fn listed(history: &SqliteHistory, by: &str, down: bool, skip: usize, most: usize) -> Vec<u64> {
    let found = history.finished(None, "", "", (by, down), skip, most).expect("read");
    found.iter().map(|row| row.job.0).collect()
}

#[test]
fn jobs_are_sorted_by_how_long_they_waited_and_ran() {
    // They waited 5, 1 and 3, and ran 1, 9 and 4; one never began.
    let (_dir, history) = with(&[(0, Some(5), 6), (1, Some(2), 11), (2, None, 9), (3, Some(6), 10)]);
    let all = |by, down| listed(&history, by, down, 0, 9);
    assert_eq!(all("waited", false), [2, 4, 1, 3], "what never began did not wait least");
    assert_eq!(all("waited", true), [1, 4, 2, 3]);
    assert_eq!(all("ran", false), [1, 4, 2, 3]);
    assert_eq!(all("ran", true), [2, 4, 1, 3]);
}

#[test]
fn page_after_page_of_every_order_lists_each_job_once() {
    // Many that waited and ran equally long, and many that never began.
    let job = |n: i64| (n, (n % 3 > 0).then_some(n + n % 4), n + 10 + n % 5);
    let (_dir, history) = with(&(0..120).map(job).collect::<Vec<_>>());
    for by in ["waited", "ran", "ended", "submitted", "outcome", ""] {
        for down in [false, true] {
            let pages = (0..120).step_by(25).map(|skip| listed(&history, by, down, skip, 25));
            assert_eq!(
                pages.flatten().collect::<Vec<_>>(),
                listed(&history, by, down, 0, 120),
                "{by} {down}"
            );
        }
    }
}

#[test]
fn no_order_by_time_sorts_all_there_is() {
    let (_dir, history) = with(&[]);
    for (by, index) in
        [("waited", "job_by_wait"), ("ran", "job_by_run"), ("ended", "job_by_end"), ("", "job_by_end")]
    {
        for down in [false, true] {
            let sql = format!("EXPLAIN QUERY PLAN {}", finished_in_order(by, down));
            let mut query = history.db.prepare(&sql).expect("SQL");
            let steps =
                query.query_map(params![None::<&str>, "", 0, 50, ""], |r| r.get::<_, String>("detail"));
            let steps: Vec<_> = steps.expect("a plan").collect::<Result<_, _>>().expect("its steps");
            assert!(steps[0].contains(&format!("USING INDEX {index}")), "{by} {down}: {steps:?}");
            assert!(!steps.contains(&"USE TEMP B-TREE FOR ORDER BY".to_owned()), "{by} {down}: {steps:?}");
        }
    }
}

/// Tables as the first program made them.
fn first_tables() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("history.db");
    let db = Connection::open(&path).expect("a database");
    db.execute_batch(include_str!("first.sql")).expect("the first tables");
    (dir, path)
}

#[test]
fn tables_of_the_first_program_are_taken_over() {
    let (_dir, path) = first_tables();
    for opened in ["by the new program", "again"] {
        let history = SqliteHistory::open(&path).expect("taken over");
        assert!(history.lacks_needs(), "until someone has entered them, {opened}");
        assert_eq!(history.seq(), 12);
        let job = |id| history.job(JobId(id)).expect("read").expect("a row");
        assert_eq!((job(1).started, job(1).needs), (Some(Time(3)), vec![]), "its first attempt, {opened}");
        assert_eq!((job(2).started, job(3).started), (Some(Time(20)), None));
        assert_eq!(listed(&history, "waited", true, 0, 9), [2, 1, 3]);
        assert_eq!(listed(&history, "ran", true, 0, 9), [1, 2, 3]);
        assert_eq!(history.rows().expect("read"), 3, "no attempt is lost");
    }
}

#[test]
fn what_older_jobs_asked_for_is_entered_once_and_for_all_also_if_that_was_cut_short() {
    let (_dir, path) = first_tables();
    let submitted = |n: u64| Event {
        at: Time(n),
        what: EventKind::JobSubmitted {
            job: JobId(n),
            user: "ann".into(),
            spec: JobSpec { tasks: vec![TaskSpec::default()], ..JobSpec::default() }.into(),
        },
    };
    let mut cut_short = SqliteHistory::open(&path).expect("taken over");
    cut_short.enter_needs(&[submitted(1)]).expect("entered");
    drop(cut_short);
    let mut history = SqliteHistory::open(&path).expect("opened");
    assert!(history.lacks_needs(), "of the second job");
    history.enter_needs(&[submitted(1), submitted(2)]).expect("entered");
    history.needs_are_entered().expect("noted");
    drop(history);
    let history = SqliteHistory::open(&path).expect("opened");
    let needs = |id| history.job(JobId(id)).expect("read").expect("a row").needs.len();
    assert_eq!((history.lacks_needs(), needs(1), needs(2), needs(3)), (false, 1, 1, 0));
}

#[test]
fn tables_of_a_newer_program_are_refused_and_left_as_they_are() {
    let (_dir, history) = with(&[]);
    let (path, db) = (PathBuf::from(history.db.path().expect("a file")), history.db);
    db.pragma_update(None, "user_version", 99).expect("set");
    match SqliteHistory::open(&path).map(drop) {
        Err(LogError::Newer { found: 99, .. }) => {}
        other => panic!("{other:?}"),
    }
    let found: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0)).expect("read");
    assert_eq!(found, 99);
}

#[test]
fn opening_waits_for_nobody_who_is_writing() {
    let (_dir, history) = with(&[]);
    let path = PathBuf::from(history.db.path().expect("a file"));
    let other = Connection::open(&path).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("it may write");
    SqliteHistory::open(&path).expect("opened");
}

#[test]
fn a_job_is_remembered_by_the_first_kinds_of_what_it_asked_for_and_the_first_with_a_gpu() {
    let needs = |cpus, gpus| Needs { cpus, gpus, ..Needs::default() };
    let remembered = |all: &[Needs]| {
        let tasks = all.iter().map(|needs| TaskSpec { needs: needs.clone(), ..TaskSpec::default() });
        let job = JobSpec { tasks: tasks.collect(), ..JobSpec::default() };
        kinds(&job).into_iter().cloned().collect::<Vec<_>>()
    };
    let [one, two, three, four, gpu] = [needs(1, 0), needs(2, 0), needs(3, 0), needs(4, 0), needs(1, 1)];
    assert_eq!(remembered(&[one.clone(), one.clone(), two.clone()]), [one.clone(), two.clone()]);
    let many = [one.clone(), two.clone(), three, four, gpu.clone(), needs(1, 2)];
    assert_eq!(remembered(&many), [one, two, gpu]);
}

#[test]
fn an_array_says_no_more_of_what_limits_mean_than_one_task_does() {
    let (_dir, history) = with(&[]);
    let add = |job: i64, name: &str, tasks: i64, outcome: &str, ran: i64| {
        for position in 0..tasks {
            let sql = "INSERT INTO attempt (job, node, position, number, job_name, task_name, user, outcome, ran, timeout, ended)
                       VALUES (?1, 0, ?2, 1, ?3, ?3, 'ann', ?4, ?5, 100, ?1)";
            history.db.execute(sql, params![job, position, name, outcome, ran]).expect("a row");
        }
    };
    add(1, "sweep", 50, "succeeded", 25);
    add(2, "train", 1, "succeeded", 50);
    add(3, "train", 1, "succeeded", 100);
    add(4, "endless", 1, "timed-out", 101);
    add(5, "broken", 1, "failed", 1);
    assert_eq!(history.promises_kept().expect("read"), [1.0, 0.75, 0.25], "the latest first");
}

#[test]
fn each_user_is_listed_once_in_order_and_two_hundred_at_most() {
    let (_dir, history) = with(&[]);
    assert_eq!(history.users().expect("read"), Vec::<String>::new());
    for id in 1..=900 {
        let sql =
            "INSERT INTO job (id, name, user, submitted, tasks, priority) VALUES (?1, 'job', ?2, 0, 1, 0)";
        history.db.execute(sql, params![id, format!("user{:03}", id % 300)]).expect("a row");
    }
    let expected: Vec<_> = (0..200).map(|n| format!("user{n:03}")).collect();
    assert_eq!(history.users().expect("read"), expected);
}
