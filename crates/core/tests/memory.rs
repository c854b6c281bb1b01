//! Device memory that is used but was not requested: what it keeps others from, and that it is an event only where it
//! changes what may be admitted.

#[path = "support/yard.rs"]
mod yard;

use std::collections::BTreeMap;
use warpyard_core::event::{EndReason, Outcome};
use warpyard_core::spec::Needs;
use warpyard_core::{Command, JobId, TaskState, Time, WorkerId};
use yard::{Yard, one_gpu, task, worker};

const GIB: u64 = 1 << 30;

/// One worker with one GPU of 16 GiB.
fn yard() -> Yard {
    let mut info = worker(1, None);
    (info.devices[0].memory, info.devices[0].budget) = (16 * GIB, 16 * GIB);
    Yard::with(info)
}

fn share(bytes: u64) -> Needs {
    Needs { gpus: 1, gpu_memory: Some(bytes), ..Needs::default() }
}

fn uses(job: JobId, bytes: u64) -> Command {
    let used = BTreeMap::from([("GPU-0".to_owned(), bytes)]);
    Command::MeasuredMemory { worker: WorkerId(0), used: BTreeMap::from([(task(job).attempt(1), used)]) }
}

fn runs(yard: &Yard, job: JobId) -> bool {
    matches!(yard.state(job), TaskState::Placed(_) | TaskState::Running(_))
}

#[test]
fn memory_used_beyond_the_request_keeps_others_out_until_it_is_free_again() {
    let mut yard = yard();
    let hungry = yard.submit(0.0, share(GIB), vec![]);
    yard.ask(1.0, vec![uses(hungry, 9 * GIB)]);
    let other = yard.submit(2.0, share(8 * GIB), vec![]);
    assert!(!runs(&yard, other), "9 + 8 GiB are more than 16");
    assert_eq!(yard.0.cluster().over_request(task(hungry)).collect::<Vec<_>>(), [(0, 9 * GIB)]);
    yard.ask(3.0, vec![uses(hungry, GIB / 2)]);
    assert!(runs(&yard, other), "what is charged never falls below the request, but to it");
    assert_eq!(yard.0.cluster().over_request(task(hungry)).count(), 0);
    yard.over(4.0, hungry, 1, EndReason::OutOfMemory(GIB));
    assert_eq!(yard.state(hungry), TaskState::Done(Outcome::Failed));
    let device = yard.0.cluster().pool().worker(WorkerId(0)).unwrap().devices().next().unwrap().2;
    assert_eq!(device.shared_bytes(), 8 * GIB, "all that was charged is given back");
}

#[test]
fn use_within_the_request_or_within_a_step_is_no_event() {
    let mut yard = yard();
    let job = yard.submit(0.0, share(4 * GIB), vec![]);
    let events =
        |yard: &Yard, bytes| yard.0.cluster().decide(uses(job, bytes), Time::from_secs(1.0)).unwrap().len();
    assert_eq!([0, GIB, 4 * GIB].map(|bytes| events(&yard, bytes)), [0; 3]);
    assert_eq!(events(&yard, 4 * GIB + 1), 1);
    // A step is 256 MiB: charged for 5 GiB, use anywhere down to two steps below changes nothing.
    yard.ask(1.0, vec![uses(job, 5 * GIB)]);
    let below = [5 * GIB, 5 * GIB - 1, 5 * GIB - (256 << 20), 5 * GIB - (300 << 20)];
    assert_eq!(below.map(|bytes| events(&yard, bytes)), [0; 4]);
    assert_eq!(events(&yard, 5 * GIB - (600 << 20)), 1);
    assert_eq!(events(&yard, 5 * GIB + 1), 1, "but more is charged at once");
    // No more than there is, whatever a driver says.
    yard.ask(2.0, vec![uses(job, u64::MAX)]);
    assert_eq!(yard.0.cluster().over_request(task(job)).collect::<Vec<_>>(), [(0, 16 * GIB)]);
}

#[test]
fn whole_devices_and_attempts_of_other_workers_are_not_charged_by_use() {
    let mut yard = yard();
    let whole = yard.submit(0.0, one_gpu(), vec![]);
    let decided = |command| yard.0.cluster().decide(command, Time::from_secs(1.0)).unwrap().len();
    assert_eq!(decided(uses(whole, 12 * GIB)), 0);
    let Command::MeasuredMemory { used, .. } = uses(whole, 12 * GIB) else { unreachable!() };
    assert_eq!(decided(Command::MeasuredMemory { worker: WorkerId(7), used }), 0);
}
