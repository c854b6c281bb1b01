//! Limits: what is refused at once, what waits and why, and what is given when there is room for it again.

#[path = "support/yard.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod yard;

use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_core::command::{AttemptStatus, Code, Rejection};
use warpyard_core::event::{End, EndReason, Usage};
use warpyard_core::explain::{WaitReason, without_policy};
use warpyard_core::limits::{Caps, GpuTime, GroupCaps, LimitKind, Limits};
use warpyard_core::small::SmallMap;
use warpyard_core::spec::{Array, Claim, JobSpec, Program, TaskSpec};
use warpyard_core::{Cluster, Command, JobId, Span, TaskId, TaskState, Time, WorkerId};
use yard::{Discard, Yard, one_gpu, task, worker};

fn everyone(caps: Caps) -> Limits {
    Limits { everyone: caps, ..Limits::default() }
}

fn hours(n: f64) -> Span {
    Span::from_secs(n * 3600.0)
}

fn job(gpus: u16, timeout: Option<Span>) -> JobSpec {
    let needs = warpyard_core::spec::Needs { gpus, ..one_gpu() };
    let task =
        TaskSpec { name: "t".into(), program: Program::new(["true"]), needs, timeout, ..TaskSpec::default() };
    JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() }
}

impl Yard {
    fn limit(gpus: usize, limits: Limits) -> Yard {
        let mut yard = Yard::with(worker(gpus, None));
        yard.ask(0.0, vec![Command::SetLimits(Arc::new(limits))]);
        yard
    }

    fn try_submit(&mut self, at: f64, user: &str, spec: JobSpec) -> Result<JobId, Rejection> {
        let submit = Command::Submit { user: user.into(), env: None, spec: spec.into() };
        let turned = self.0.turn(vec![submit], Time::from_secs(at), &mut Discard).expect("nothing fails");
        turned.answers[0].clone().map(|answer| answer.job.expect("a job"))
    }

    fn give(&mut self, at: f64, user: &str, spec: JobSpec) -> JobId {
        self.try_submit(at, user, spec).expect("it is taken")
    }

    fn over_after(&mut self, at: f64, job: JobId, ran: Span) {
        let usage = Usage { ran, ..Usage::default() };
        let standing = AttemptStatus::Over(End { how: EndReason::Exited(0), usage });
        let attempts = SmallMap::from([(task(job).attempt(1), standing)]);
        self.ask(at, vec![Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() }]);
    }

    fn is_placed(&self, job: JobId) -> bool {
        matches!(self.state(job), TaskState::Placed(_))
    }

    fn why(&self, job: JobId, at: f64) -> WaitReason {
        let (task, now) = (TaskId { job, node: 0, index: 0 }, Time::from_secs(at));
        let view = self.0.cluster().view();
        without_policy(view, task, now).unwrap_or_else(|| self.0.policy().explain(view, task, now)).reason
    }

    fn limited_by(&self, job: JobId, at: f64) -> (LimitKind, u64, u64, u64) {
        match self.why(job, at) {
            WaitReason::AtLimit(at) => (at.what, at.most, at.has, at.asks),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_has_their_gpus_waits_and_others_pass() {
    let mut yard = Yard::limit(2, everyone(Caps { gpus: Some(1), ..Caps::default() }));
    let first = yard.give(1.0, "ann", job(1, None));
    let second = yard.give(2.0, "ann", job(1, None));
    let others = yard.give(3.0, "bob", job(1, None));
    assert!(yard.is_placed(first) && yard.is_placed(others), "bob does not wait behind ann");
    assert_eq!(yard.limited_by(second, 3.0), (LimitKind::Gpus, 1, 1, 1));
    assert_eq!(yard.0.policy().queue_order(yard.0.cluster().view(), 9, Time::from_secs(3.0)), []);
    yard.over(4.0, first, 1, EndReason::Exited(0));
    assert!(yard.is_placed(second));
}

#[test]
fn one_plan_gives_nobody_more_than_they_may_have() {
    let mut yard = Yard::limit(4, everyone(Caps { running: Some(3), ..Caps::default() }));
    let mut array = job(1, None);
    array.tasks[0].array = Some(Array { ranges: vec![(1, 9, 1)], at_once: None });
    yard.give(1.0, "ann", array);
    assert_eq!(yard.0.cluster().view().active(), 3);
    // What is no longer limited starts.
    yard.ask(2.0, vec![Command::SetLimits(Arc::default())]);
    assert_eq!(yard.0.cluster().view().active(), 4);
}

#[test]
fn what_could_never_start_is_refused_with_its_numbers() {
    let caps = Caps {
        gpus: Some(2),
        queued: Some(3),
        timeout: Some(hours(24.0)),
        gpu_time: Some(GpuTime { most: hours(10.0), window: hours(168.0) }),
        priority: Some(5),
        ..Caps::default()
    };
    let mut yard = Yard::limit(4, everyone(caps));
    let mut refused = |spec| {
        let refused = yard.try_submit(1.0, "ann", spec).expect_err("it is refused");
        assert_eq!(refused.code, Code::OverLimit);
        assert!(refused.help.is_some(), "{refused:?}");
        (refused.path.unwrap_or_default(), refused.message)
    };
    let (path, said) = refused(job(3, None));
    assert_eq!((path.as_str(), said.contains("2 GPUs")), ("tasks[0].gpus", true), "{said}");
    let (path, said) = refused(job(0, Some(hours(25.0))));
    assert_eq!((path.as_str(), said.contains("1d")), ("tasks[0].timeout", true), "{said}");
    let (path, said) = refused(job(2, Some(hours(6.0))));
    assert_eq!((path.as_str(), said.contains("may use 12")), ("tasks[0].timeout", true), "{said}");
    let (path, said) = refused(JobSpec { priority: 6, ..job(1, None) });
    assert_eq!((path.as_str(), said.contains("up to 5")), ("priority", true), "{said}");
    let mut array = job(0, None);
    array.tasks[0].array = Some(Array { ranges: vec![(1, 4, 1)], at_once: None });
    let (path, said) = refused(array);
    assert_eq!((path.as_str(), said.contains("adds 4")), ("", true), "{said}");
    // What is not said is as much as may be.
    let given = yard.give(1.0, "ann", job(2, None));
    assert_eq!(yard.0.cluster().job(given).expect("it is there").spec.tasks[0].timeout, Some(hours(5.0)));
}

#[test]
fn gpu_time_is_promised_first_then_used_and_comes_back_when_the_window_has_passed() {
    let time = GpuTime { most: hours(10.0), window: hours(64.0) };
    let mut yard = Yard::limit(4, everyone(Caps { gpu_time: Some(time), ..Caps::default() }));
    let long = yard.give(1.0, "ann", job(1, Some(hours(8.0))));
    let next = yard.give(2.0, "ann", job(1, Some(hours(3.0))));
    let short = yard.give(3.0, "ann", job(1, Some(hours(2.0))));
    assert!(yard.is_placed(long) && yard.is_placed(short), "what promises less may pass");
    let (limited, most, has, asks) = yard.limited_by(next, 3.0);
    assert!(matches!(limited, LimitKind::GpuTime { .. }));
    assert_eq!((most, has, asks), (hours(10.0).0, hours(10.0).0, hours(3.0).0));
    // It used all it promised: that counts for a window more.
    yard.over_after(hours(8.0).secs(), long, hours(8.0));
    assert!(!yard.is_placed(next));
    let opens = yard.0.next_deadline().expect("it looks again");
    assert!(opens >= Time::from_secs(hours(72.0).secs()) && opens <= Time::from_secs(hours(73.0).secs()));
    yard.over_after(hours(9.0).secs(), short, hours(0.5));
    assert!(!yard.is_placed(next), "8.5 of 10 are used");
    yard.ask(opens.secs(), vec![]);
    assert!(yard.is_placed(next));
}

#[test]
fn what_says_no_length_promises_what_is_left_and_starts() {
    let time = GpuTime { most: hours(10.0), window: hours(64.0) };
    let mut yard = Yard::limit(4, everyone(Caps { gpu_time: Some(time), ..Caps::default() }));
    let before = yard.give(0.0, "ann", job(1, Some(hours(1.0))));
    yard.over_after(hours(0.5).secs(), before, hours(0.5));
    let mut claim = job(2, None);
    claim.tasks[0].claim = Some(Claim { process: None, lease: hours(9.0), lasts: None });
    let claim = yard.give(hours(1.0).secs(), "ann", claim);
    assert!(yard.is_placed(claim), "half an hour used does not cost it the next 64");
    let until = yard.0.cluster().job(claim).expect("it is there").until;
    assert_eq!(until, Some(Time::from_secs(hours(1.0 + 9.5 / 2.0).secs())));
    // With less than half left, half is what it waits for.
    let next = yard.give(hours(2.0).secs(), "ann", job(1, None));
    assert_eq!(yard.0.cluster().job(next).expect("it is there").spec.tasks[0].timeout, Some(hours(5.0)));
    assert!(!yard.is_placed(next));
}

#[test]
fn a_group_shares_what_it_has_and_its_members_may_have_more_each() {
    let each = Caps { gpus: Some(3), priority: Some(9), ..Caps::default() };
    let group = GroupCaps { each, together: Caps { gpus: Some(4), ..Caps::default() } };
    let limits = Limits {
        everyone: Caps { gpus: Some(1), priority: Some(0), ..Caps::default() },
        groups: BTreeMap::from([("lab".to_owned(), group)]),
        ..Limits::default()
    };
    let mut yard = Yard::limit(8, limits);
    for user in ["ann", "bob"] {
        yard.ask(0.5, vec![Command::TellGroups { user: user.into(), groups: vec!["lab".into()] }]);
    }
    assert!(yard.try_submit(1.0, "eve", job(2, None)).is_err());
    assert!(yard.try_submit(1.0, "eve", JobSpec { priority: 1, ..job(1, None) }).is_err());
    let first = yard.give(1.0, "ann", JobSpec { priority: 9, ..job(3, None) });
    let second = yard.give(2.0, "bob", job(2, None));
    let third = yard.give(3.0, "bob", job(1, None));
    assert!(yard.is_placed(first) && yard.is_placed(third));
    assert_eq!(yard.limited_by(second, 3.0), (LimitKind::Gpus, 4, 4, 2));
}

#[test]
fn a_claim_lasts_no_longer_than_its_user_may_have_gpus() {
    let mut yard = Yard::limit(1, everyone(Caps { timeout: Some(hours(2.0)), ..Caps::default() }));
    let mut claim = job(1, None);
    claim.tasks[0].claim = Some(Claim { process: None, lease: hours(9.0), lasts: None });
    let id = yard.give(0.0, "ann", claim);
    assert_eq!(
        yard.0.cluster().job(id).expect("it is there").until,
        Some(Time::from_secs(hours(2.0).secs()))
    );
    let longer = Command::Extend { job: id, by: hours(1.0) };
    let turned = yard.0.turn(vec![longer], Time::from_secs(60.0), &mut Discard).expect("nothing fails");
    assert_eq!(turned.answers[0].as_ref().map_err(|e| e.code), Err(Code::OverLimit));
}

#[test]
fn a_state_read_back_counts_the_same() {
    let caps = Caps { gpus: Some(2), queued: Some(9), ..Caps::default() };
    let mut yard = Yard::limit(4, everyone(caps));
    for at in 1..5 {
        yard.give(f64::from(at), "ann", job(1, None));
    }
    let cluster = yard.0.cluster();
    let text = serde_json::to_string(cluster).expect("a state can be written");
    let read: Cluster = serde_json::from_str(&text).expect("and read");
    let (now, read) = (Time::from_secs(9.0), read.restored());
    assert_eq!(read.quotas("ann", now), cluster.quotas("ann", now));
    let (_, quota) = &cluster.quotas("ann", now)[0];
    assert_eq!((quota.running, quota.gpus, quota.queued), (2, 2, 2));
}

/// Whoever has nothing any more is as one who never had anything, and a state read back is the state.
#[test]
fn a_user_whose_jobs_are_forgotten_is_forgotten_with_them() {
    let mut yard = Yard::limit(1, everyone(Caps { gpus: Some(1), ..Caps::default() }));
    let done = yard.give(1.0, "ann", job(1, None));
    yard.over_after(2.0, done, Span::ZERO);
    yard.ask(3.0, vec![Command::Forget(done)]);
    let cluster = yard.0.cluster();
    assert!(cluster.job(done).is_none());
    let text = serde_json::to_string(cluster).expect("it can be written");
    let read: Cluster = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(read.restored(), *cluster);
}
