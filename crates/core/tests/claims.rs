//! Claims: devices held for work that warpyard did not start.

#[path = "support/yard.rs"]
mod yard;

use warpyard_core::engine::Engine;
use warpyard_core::event::{EndReason, Outcome};
use warpyard_core::pool::DeviceState;
use warpyard_core::spec::{Claim, ClaimHolder, JobSpec, TaskSpec};
use warpyard_core::{Cluster, Command, DeviceId, JobId, Span, TaskState, Time, WorkerId};
use yard::{Discard, POLICIES, Yard, one_gpu, task, worker};

fn claim(process: Option<i32>, lasts: Option<f64>) -> JobSpec {
    let claim = Claim {
        process: process.map(|pid| ClaimHolder { pid, seen_us: 1 }),
        lease: Span::from_secs(60.0),
        lasts: lasts.map(Span::from_secs),
    };
    let task = TaskSpec { name: "claim".into(), needs: one_gpu(), claim: Some(claim), ..TaskSpec::default() };
    JobSpec { name: "claim".into(), tasks: vec![task], ..JobSpec::default() }
}

impl Yard {
    fn claim(&mut self, at: f64, spec: JobSpec) -> JobId {
        self.ask(at, vec![Command::Submit { user: "ann".into(), env: None, spec: spec.into() }])
            .expect("it is taken")
    }

    /// A turn in which nothing is asked.
    fn wait(&mut self, at: f64) {
        self.ask(at, vec![]);
    }

    fn refused(&mut self, at: f64, command: Command) -> String {
        let turned = self.0.turn(vec![command], Time::from_secs(at), &mut Discard).expect("nothing fails");
        turned.answers[0].clone().expect_err("it is refused").message
    }

    /// The same state, read from a snapshot by a new engine.
    fn restarted(self, at: f64) -> Yard {
        let text = serde_json::to_string(self.0.cluster()).expect("a state can be written");
        let cluster: Cluster = serde_json::from_str(&text).expect("and read");
        Yard(Engine::new(cluster.restored(), POLICIES, Time::from_secs(at)).expect("the policy is there"))
    }
}

#[test]
fn a_claim_stands_in_line_and_ends_when_it_is_let_go() {
    let mut yard = Yard::with(worker(1, None));
    let job = yard.submit(0.0, one_gpu(), vec![]);
    let claim = yard.claim(1.0, claim(Some(7), None));
    assert!(matches!(yard.state(claim), TaskState::Ready { .. }));
    yard.over(2.0, job, 1, EndReason::Exited(0));
    assert!(matches!(yard.state(claim), TaskState::Placed(_)));
    assert_eq!(yard.0.cluster().assignments(WorkerId(0)).attempts[0].holds_for.map(|h| h.pid), Some(7));
    yard.ask(3.0, vec![Command::Release(claim.into())]);
    yard.over(4.0, claim, 1, EndReason::Stopped);
    assert_eq!(yard.state(claim), TaskState::Done(Outcome::Succeeded));
    assert!(
        yard.refused(5.0, Command::Retry { target: claim.into(), failed_only: false })
            .contains("make a new claim")
    );
}

#[test]
fn a_claim_whose_holder_falls_silent_while_waiting_is_given_up() {
    let mut yard = Yard::with(worker(1, None));
    yard.submit(0.0, one_gpu(), vec![]);
    let claim = yard.claim(0.0, claim(Some(7), None));
    yard.ask(50.0, vec![Command::Heard(claim)]);
    assert_eq!(yard.0.next_deadline(), Some(Time::from_secs(110.0)));
    yard.wait(109.0);
    assert!(matches!(yard.state(claim), TaskState::Ready { .. }));
    yard.wait(110.0);
    assert_eq!(yard.state(claim), TaskState::Done(Outcome::Cancelled));
    assert_eq!(yard.0.next_deadline(), None);
}

#[test]
fn once_granted_a_process_is_watched_and_one_without_must_be_heard_of() {
    let mut yard = Yard::with(worker(2, None));
    let (watched, heard) = (yard.claim(0.0, claim(Some(7), None)), yard.claim(0.0, claim(None, None)));
    assert_eq!(yard.0.next_deadline(), Some(Time::from_secs(60.0)));
    yard.wait(60.0);
    assert!(matches!(yard.state(watched), TaskState::Placed(_)));
    assert!(matches!(yard.state(heard), TaskState::Stopping(..)));
}

#[test]
fn a_claim_for_a_time_ends_then_unless_extended_and_a_restart_changes_nothing() {
    let mut yard = Yard::with(worker(1, None));
    let claim = yard.claim(0.0, claim(Some(7), Some(100.0)));
    assert_eq!(yard.0.next_deadline(), Some(Time::from_secs(100.0)));
    yard.ask(90.0, vec![Command::Extend { job: claim, by: Span::from_secs(50.0) }]);
    let mut yard = yard.restarted(95.0);
    yard.wait(149.0);
    assert!(matches!(yard.state(claim), TaskState::Placed(_)));
    yard.wait(150.0);
    assert!(matches!(yard.state(claim), TaskState::Stopping(..)));
    assert_eq!(yard.0.next_deadline(), None, "it is asked to end once");
}

#[test]
fn a_claim_that_was_lost_is_not_run_elsewhere() {
    let mut yard = Yard::with(worker(1, None));
    let claim = yard.claim(0.0, claim(Some(7), None));
    yard.over(1.0, claim, 1, EndReason::Lost("the machine restarted".into()));
    assert_eq!(yard.state(claim), TaskState::Done(Outcome::Lost));
}

#[test]
fn what_a_process_uses_already_becomes_its_claim_at_once() {
    let mut yard = Yard::with({
        let mut info = worker(2, None);
        info.devices[1].state = DeviceState::Foreign;
        info
    });
    let device = |index| DeviceId { worker: WorkerId(0), index };
    let adopt = |index| Command::Adopt {
        user: "bob".into(),
        spec: claim(Some(7), None),
        devices: vec![device(index)],
    };
    let adopted = yard.ask(1.0, vec![adopt(1)]).expect("it is taken");
    let (attempt, _) = yard.0.cluster().view().attempt(task(adopted)).expect("it is granted");
    assert_eq!(attempt.placement.devices[0].0, 1);
    assert!(yard.refused(2.0, adopt(1)).contains("already allocated"));
    yard.over(3.0, adopted, 1, EndReason::Exited(0));
    assert_eq!(yard.state(adopted), TaskState::Done(Outcome::Succeeded));
}

#[test]
fn what_is_no_claim_is_neither_heard_of_nor_extended() {
    let mut yard = Yard::with(worker(1, None));
    let job = yard.submit(0.0, one_gpu(), vec![]);
    for command in [Command::Heard(job), Command::Extend { job, by: Span::from_secs(1.0) }] {
        assert!(yard.refused(1.0, command).contains("not a claim"));
    }
    let open_ended = yard.claim(2.0, claim(Some(7), None));
    let refused = yard.refused(3.0, Command::Extend { job: open_ended, by: Span::from_secs(1.0) });
    assert!(refused.contains("granted without a time limit"), "{refused}");
}
