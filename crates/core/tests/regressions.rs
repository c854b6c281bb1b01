//! Things that once went wrong, each told in a few commands.

#[path = "support/yard.rs"]
mod yard;

use std::collections::BTreeMap;
use warpyard_core::command::{AttemptStatus, TaskSelector};
use warpyard_core::event::{End, EndReason, Outcome, Usage};
use warpyard_core::protocol::{Report, ReportId, ReportedAttempt};
use warpyard_core::spec::{AfterJob, AfterNode, DependencyCondition, JobSpec, Needs, Program, TaskSpec};
use warpyard_core::{Command, JobId, Span, TaskId, TaskState, Time, WorkerId};

use yard::{Yard, one_gpu, task, worker};

#[test]
fn a_job_skipped_because_of_another_can_be_retried_once_that_succeeded() {
    let mut yard = Yard::with(worker(1, None));
    let first = yard.submit(0.0, one_gpu(), vec![]);
    let second = yard.submit(0.0, one_gpu(), vec![AfterJob { job: first, on: DependencyCondition::Ok }]);
    yard.over(1.0, first, 1, EndReason::Exited(1));
    assert_eq!(yard.state(second), TaskState::Done(Outcome::Skipped));

    yard.ask(2.0, vec![Command::Retry { target: second.into(), failed_only: false }]);
    assert_eq!(yard.state(second), TaskState::Done(Outcome::Skipped), "the first has still failed");

    yard.ask(3.0, vec![Command::Retry { target: first.into(), failed_only: false }]);
    yard.ask(4.0, vec![Command::Retry { target: second.into(), failed_only: false }]);
    assert_eq!(yard.state(second), TaskState::Blocked, "the first runs again");
    yard.over(5.0, first, 2, EndReason::Exited(0));
    assert!(matches!(yard.state(second), TaskState::Placed(_)));
}

#[test]
fn both_conditions_on_the_same_job_count() {
    let mut yard = Yard::with(worker(1, None));
    let first = yard.submit(0.0, one_gpu(), vec![]);
    let conditions =
        [DependencyCondition::Any, DependencyCondition::Ok].map(|on| AfterJob { job: first, on });
    let second = yard.submit(0.0, one_gpu(), conditions.to_vec());
    yard.over(1.0, first, 1, EndReason::Exited(1));
    assert_eq!(yard.state(second), TaskState::Done(Outcome::Skipped));
}

#[test]
fn a_worker_heard_from_in_the_same_turn_is_not_given_up() {
    let mut yard = Yard::with(worker(1, Some(Span::from_secs(15.0))));
    let job = yard.submit(0.0, one_gpu(), vec![]);
    let attempts = [(task(job).attempt(1), AttemptStatus::Running)].into();
    // The server stood still for longer than the lease, and the worker's report waited for it.
    yard.ask(20.0, vec![Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() }]);
    assert!(matches!(yard.state(job), TaskState::Running(_)));
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().online);
}

#[test]
fn a_worker_that_joins_again_unchanged_keeps_its_lease() {
    let info = worker(1, Some(Span::from_secs(15.0)));
    let mut yard = Yard::with(info.clone());
    yard.ask(10.0, vec![Command::Join(info)]);
    yard.ask(20.0, vec![]);
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().online);
}

#[test]
fn a_worker_that_comes_back_without_a_lease_is_not_held_to_the_old_one() {
    let mut yard = Yard::with(worker(1, Some(Span::from_secs(15.0))));
    yard.ask(10.0, vec![Command::Join(worker(1, None))]);
    yard.ask(60.0, vec![]);
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().online);
}

#[test]
fn a_device_without_a_limit_takes_more_than_a_counter_of_sixteen_bits_holds() {
    let mut info = worker(1, None);
    info.devices[0].overcommit = true;
    let mut yard = Yard::with(info);
    let array = warpyard_core::spec::Array { ranges: vec![(1, 70_000, 1)], at_once: None };
    let whole = TaskSpec { needs: one_gpu(), array: Some(array), ..TaskSpec::default() };
    let spec = JobSpec { name: "many".into(), tasks: vec![whole], ..JobSpec::default() };
    let job =
        yard.ask(0.0, vec![Command::Submit { user: "ann".into(), env: None, spec: spec.into() }]).unwrap();
    assert_eq!(yard.0.cluster().job(job).unwrap().nodes[0].active(), 70_000);
    yard.ask(1.0, vec![Command::Cancel(TaskSelector::Job(job))]);
}

/// More lines than are kept empty, and the same ones again: each task is started once, in order.
#[test]
fn lines_given_up_and_made_anew_lose_nobody() {
    let mut yard = Yard::with(worker(1, None));
    for round in 0..3 {
        let needs = |cpus| Needs { cpus, ..one_gpu() };
        let jobs: Vec<_> = (0..200).map(|cpus| yard.submit(f64::from(round), needs(cpus), vec![])).collect();
        for &job in &jobs {
            assert!(matches!(yard.state(job), TaskState::Placed(_)), "job {job} of round {round}");
            yard.over(f64::from(round), job, 1, EndReason::Exited(0));
        }
        let line = yard.0.policy().queue_order(yard.0.cluster().view(), usize::MAX, Time(0));
        assert_eq!(line, [], "nobody is left in line");
    }
}

#[test]
fn an_attempt_that_does_nothing_is_ended_once_and_its_task_not_tried_again() {
    let mut yard = Yard::with(worker(1, None));
    let spec =
        TaskSpec { needs: one_gpu(), retries: 3, program: Program::new(["true"]), ..TaskSpec::default() };
    let spec = JobSpec { tasks: vec![spec], ..JobSpec::default() };
    let submit = Command::Submit { user: "ann".into(), env: None, spec: spec.into() };
    let job = yard.ask(0.0, vec![submit]).expect("a job");
    let end = |number| vec![Command::EndIdle(task(job).attempt(number), Span::from_secs(60.0))];
    yard.ask(1.0, end(2));
    assert!(matches!(yard.state(job), TaskState::Placed(_)), "it was another attempt that did nothing");
    yard.ask(2.0, end(1));
    let seq = yard.0.cluster().seq();
    yard.ask(3.0, end(1));
    assert_eq!(yard.0.cluster().seq(), seq, "it is asked already");
    yard.over(4.0, job, 1, EndReason::Signalled(15));
    assert_eq!(yard.state(job), TaskState::Done(Outcome::Cancelled));
}

/// A report of a worker with a number, that says this of the job's first attempt.
fn report(session: u64, seq: u64, job: JobId, standing: AttemptStatus) -> Command {
    let attempt = ReportedAttempt { attempt: task(job).attempt(1), standing, rank: 0 };
    let id = ReportId { session, seq };
    let report = Report { id, attempts: [attempt].into_iter().collect(), ..Report::default() };
    Command::Receive { worker: WorkerId(0), report: Box::new(report) }
}

#[test]
fn a_late_report_changes_nothing_and_does_not_renew_the_lease() {
    let mut yard = Yard::with(worker(1, Some(Span::from_secs(15.0))));
    let job = yard.submit(0.0, one_gpu(), vec![]);
    yard.ask(1.0, vec![report(7, 2, job, AttemptStatus::Running)]);
    yard.ask(2.0, vec![report(7, 3, job, AttemptStatus::Frozen)]);
    assert!(matches!(yard.state(job), TaskState::Paused(_)));
    for (session, seq) in [(7, 3), (7, 2), (6, 9)] {
        yard.ask(16.0, vec![report(session, seq, job, AttemptStatus::Running)]);
        assert!(matches!(yard.state(job), TaskState::Paused(_)), "{session}.{seq}");
    }
    yard.ask(17.0, vec![]);
    assert!(!yard.0.cluster().worker(WorkerId(0)).unwrap().online, "last heard of at 2 s");
}

#[test]
fn a_worker_that_can_start_nothing_is_drained_before_it_is_given_the_same_task_again() {
    let mut yard = Yard::with(worker(1, None));
    let job = yard.submit(0.0, one_gpu(), vec![]);
    let declined =
        End { how: EndReason::Declined("no process can be forked".into()), usage: Usage::default() };
    let mut told = report(1, 1, job, AttemptStatus::Over(declined));
    if let Command::Receive { report, .. } = &mut told {
        report.quarantined = Some("no process can be forked".into());
    }
    yard.ask(1.0, vec![told]);
    assert!(yard.0.cluster().worker(WorkerId(0)).unwrap().drained);
    assert!(matches!(yard.state(job), TaskState::Ready { .. }), "placed nowhere");
    yard.ask(2.0, vec![Command::Drain { worker: WorkerId(0), drained: false, reason: None }]);
    assert!(matches!(yard.state(job), TaskState::Placed(_)), "until someone has it resume");
}

#[test]
fn a_task_cancelled_before_what_it_depends_on_had_ended_can_be_retried() {
    let mut yard = Yard::with(worker(1, None));
    let task = |name: &str, after: &[u32]| TaskSpec {
        name: name.into(),
        needs: one_gpu(),
        after: after.iter().map(|&node| AfterNode { node, on: DependencyCondition::Ok }).collect(),
        ..TaskSpec::default()
    };
    let spec =
        JobSpec { name: "j".into(), tasks: vec![task("a", &[]), task("b", &[0])], ..JobSpec::default() };
    let submit = Command::Submit { user: "ann".into(), env: None, spec: spec.into() };
    let job = yard.ask(0.0, vec![submit]).unwrap();
    let second = TaskId { job, node: 1, index: 0 };
    yard.ask(1.0, vec![Command::Cancel(TaskSelector::Task(second))]);
    yard.over(2.0, job, 1, EndReason::Exited(0));
    yard.ask(3.0, vec![Command::Retry { target: TaskSelector::Task(second), failed_only: false }]);
    let state = yard.0.cluster().state(second).unwrap();
    assert!(matches!(state, TaskState::Placed(_)), "{state:?}");
}
