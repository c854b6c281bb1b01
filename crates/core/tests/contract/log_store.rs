//! The contract of [`LogStore`]: every implementation passes each of these, called with an empty log and a way to reopen
//! it as a restarted process would. Included by path from the tests of the crates that implement one.

use std::fmt::Debug;
use warpyard_core::event::EventKind;
use warpyard_core::spec::{JobSpec, Program, TaskSpec};
use warpyard_core::{Cluster, Epoch, Event, JobId, LogStore, PolicyChoice, Time};

fn policy() -> PolicyChoice {
    "backfill".parse().expect("a policy's name")
}

/// Submission of a job of one task, at as many microseconds as its number.
fn submitted(n: u64) -> Event {
    let task = TaskSpec { name: "t".into(), program: Program::new(["true"]), ..TaskSpec::default() };
    let spec = JobSpec { name: format!("job {n}"), tasks: vec![task], ..JobSpec::default() };
    Event {
        at: Time(n),
        what: EventKind::JobSubmitted { job: JobId(n), user: "ann".into(), spec: spec.into() },
    }
}

fn state_after(events: u64) -> Cluster {
    let mut cluster = Cluster::new(policy());
    (1..=events).for_each(|n| drop(cluster.apply(&submitted(n))));
    cluster
}

fn numbers<L: LogStore<Error: Debug>>(log: &L, after: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut in_order = true;
    let mut take = |seq: u64, event: Event| {
        in_order &= event == submitted(seq);
        numbers.push(seq);
    };
    log.read_from(after, &mut take).expect("the log can be read");
    assert!(in_order, "each event has its own number");
    numbers
}

/// Runs the whole contract on logs made by `empty`; `reopen` returns the log as the next process finds it.
pub(crate) fn holds<L: LogStore<Error: Debug>>(empty: impl Fn() -> L, reopen: impl Fn(L) -> L) {
    appended_events_are_there_after_reopening(empty(), &reopen);
    an_append_after_another_number_is_refused_whole(empty());
    a_deposed_writer_is_refused(empty());
    epochs_only_grow(empty(), &reopen);
    a_snapshot_and_the_events_after_it_are_the_state(empty(), &reopen);
    pruning_never_changes_the_state(empty(), &reopen);
}

fn appended_events_are_there_after_reopening<L: LogStore<Error: Debug>>(
    mut log: L,
    reopen: &impl Fn(L) -> L,
) {
    let epoch = log.claim().expect("claimed");
    assert_eq!(log.last_seq().expect("read"), 0);
    log.append(epoch, 0, &[submitted(1), submitted(2)]).expect("appended");
    log.append(epoch, 2, &[submitted(3)]).expect("appended");
    let mut log = reopen(log);
    assert_eq!(log.last_seq().expect("read"), 3);
    assert_eq!(numbers(&log, 0), [1, 2, 3]);
    assert_eq!(numbers(&log, 2), [3]);
    assert_eq!(log.load_cluster(&policy()).expect("loaded"), state_after(3));
}

fn an_append_after_another_number_is_refused_whole<L: LogStore<Error: Debug>>(mut log: L) {
    let epoch = log.claim().expect("claimed");
    log.append(epoch, 0, &[submitted(1)]).expect("appended");
    log.append(epoch, 0, &[submitted(2), submitted(3)]).expect_err("event 1 is there");
    log.append(epoch, 2, &[submitted(3)]).expect_err("event 2 is not");
    assert_eq!(numbers(&log, 0), [1]);
    log.append(epoch, 1, &[submitted(2)]).expect("the writer goes on");
}

fn a_deposed_writer_is_refused<L: LogStore<Error: Debug>>(mut log: L) {
    let old = log.claim().expect("claimed");
    log.append(old, 0, &[submitted(1)]).expect("appended");
    let new = log.claim().expect("claimed");
    log.append(old, 1, &[submitted(2)]).expect_err("another has claimed the log");
    log.append(Epoch(new.0 + 1), 1, &[submitted(2)]).expect_err("nobody was given that epoch");
    assert_eq!(numbers(&log, 0), [1]);
    log.append(new, 1, &[submitted(2)]).expect("the writer in office goes on");
}

fn epochs_only_grow<L: LogStore<Error: Debug>>(mut log: L, reopen: &impl Fn(L) -> L) {
    let mut last = log.claim().expect("claimed");
    for _ in 0..3 {
        log = reopen(log);
        let next = log.claim().expect("claimed");
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
    }
}

fn a_snapshot_and_the_events_after_it_are_the_state<L: LogStore<Error: Debug>>(
    mut log: L,
    reopen: &impl Fn(L) -> L,
) {
    let epoch = log.claim().expect("claimed");
    log.append(epoch, 0, &[submitted(1), submitted(2)]).expect("appended");
    log.save_snapshot(&state_after(2), Time(2)).expect("kept");
    log.append(epoch, 2, &[submitted(3)]).expect("appended");
    let mut log = reopen(log);
    assert_eq!(log.load_cluster(&policy()).expect("loaded"), state_after(3));
    assert_eq!(numbers(&log, 2), [3]);
}

fn pruning_never_changes_the_state<L: LogStore<Error: Debug>>(mut log: L, reopen: &impl Fn(L) -> L) {
    let (epoch, always) = (log.claim().expect("claimed"), Time(u64::MAX / 2));
    for n in 1..=6 {
        log.append(epoch, n - 1, &[submitted(n)]).expect("appended");
        if n % 2 == 0 {
            log.save_snapshot(&state_after(n), Time(n)).expect("kept");
        }
        log.prune(always, 100).expect("pruned");
    }
    assert!(!numbers(&log, 0).contains(&1), "what no snapshot needs is gone");
    assert_eq!(numbers(&log, 4), [5, 6], "what the older snapshot needs is there");
    let mut log = reopen(log);
    assert_eq!(log.last_seq().expect("read"), 6);
    assert_eq!(log.load_cluster(&policy()).expect("loaded"), state_after(6));
    let epoch = log.claim().expect("claimed");
    log.append(epoch, 6, &[submitted(7)]).expect("it goes on after what was pruned");
}
