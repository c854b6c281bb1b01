//! What a queued job costs in memory, structure by structure: `cargo bench -p warpyard-sim --bench memory`. Counts the
//! bytes that are allocated, so that fragmentation and what the allocator keeps for itself are left out; `bench/reads.py`
//! measures a whole server. Prints a table in Markdown; asserts nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use warpyard_core::engine::Engine;
use warpyard_core::event::EventKind;
use warpyard_core::{Cluster, Event, JobId, Time};
use warpyard_policies::{POLICIES, default_policy};

/// How many jobs are queued.
const JOBS: u64 = 200_000;

/// The system's allocator, counting.
struct Counting;

/// Bytes allocated, with what the system's allocator adds to each allocation.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The size of the block that glibc uses for an allocation: a header of eight bytes, multiples of 16, at least 32.
fn block(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

#[expect(
    unsafe_code,
    reason = "an allocator can only be wrapped by an unsafe trait; each call is passed on as it is"
)]
// SAFETY: every method passes its arguments on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(block(layout.size()), Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(block(layout.size()), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A submission as the log has it: what `bench/reads.py` submits.
fn submission(job: u64) -> Event {
    let body = format!(
        r#"{{"at": 0, "what": {{"job_submitted": {{"job": {job}, "user": "user{}", "spec": {{"name": "job-{job}", "priority": 0,
        "tasks": [{{"name": "job-{job}", "command": ["sleep", "100000"], "workdir": "/", "needs": {{"gpus": 1, "cpus": 1000}},
        "timeout": 7200000000}}]}}}}}}}}"#,
        job % 20
    );
    serde_json::from_str(&body).expect("an event")
}

fn main() {
    let mut last = LIVE.load(Relaxed);
    let mut row = |name: &str| {
        let live = LIVE.load(Relaxed);
        println!("| {name} | {} |", (live as i64 - last as i64) / JOBS as i64);
        last = live;
    };
    println!("| with {JOBS} jobs queued | bytes each |\n|---|---|");
    let mut cluster = Cluster::new(default_policy());
    let events: Vec<_> = (1..=JOBS).map(submission).collect();
    row("events");
    for event in &events {
        cluster.apply(event);
    }
    row("the cluster: progress of jobs, and its indexes");
    let specs = |event: &Event| matches!(event.what, EventKind::JobSubmitted { .. });
    assert!(events.iter().all(specs));
    drop(events);
    row("events that are only in the log by now");
    let copy = cluster.clone();
    row("a copy of the cluster, which shares jobs");
    let engine = Engine::new(cluster, POLICIES, Time(0)).expect("a policy");
    row("the engine's queue");
    let replica = Engine::new(copy, POLICIES, Time(0)).expect("a policy");
    row("the replica's queue");
    assert!(engine.cluster().job(JobId(JOBS)).is_some() && replica.cluster().job(JobId(JOBS)).is_some());
}
