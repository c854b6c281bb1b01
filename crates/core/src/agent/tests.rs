use super::*;
use crate::cluster::DesiredState;
use crate::ids::{JobId, TaskId};
use crate::protocol::Report;

const LEASE: Span = Span(15_000_000);
const RUNNING: Observation = Observation::Status(AttemptStatus::Running);
const FROZEN: Observation = Observation::Status(AttemptStatus::Frozen);

fn id(job: u64) -> AttemptId {
    TaskId { job: JobId(job), node: 0, index: 0 }.attempt(1)
}

fn wanted(job: u64, want: DesiredState) -> Desired {
    let (grace, on_lost) = (Span::from_secs(5.0), OnLost::Rerun);
    Desired { attempt: id(job), started: false, want, grace, on_lost }
}

fn started(job: u64, want: DesiredState) -> Desired {
    Desired { started: true, ..wanted(job, want) }
}

fn exited(how: EndReason) -> Observation {
    AttemptStatus::ended(how).into()
}

/// An agent, with the event its next assignments are as of.
struct Rig(Agent, u64);

impl Rig {
    fn new() -> Rig {
        Rig::with(Settings::default())
    }

    fn with(settings: Settings) -> Rig {
        Rig(Agent::new(settings, Time(0)), 0)
    }

    /// What comes of assignments that acknowledge all reports.
    fn assign(&mut self, at: f64, desired: &[Desired]) -> Vec<Output> {
        self.1 += 1;
        let received = Some(ReportId { session: self.0.session, seq: self.0.seq });
        self.0.assign_desired(self.1, received, desired.iter().cloned(), Time::from_secs(at));
        self.outputs()
    }

    fn step(&mut self, at: f64, input: Input) -> Vec<Output> {
        self.0.step(input, Time::from_secs(at));
        self.outputs()
    }

    fn see(&mut self, job: u64, seen: Observation) -> Vec<Output> {
        self.step(0.0, Input::Seen(id(job), seen))
    }

    fn outputs(&mut self) -> Vec<Output> {
        let all = std::iter::from_fn(|| self.0.next_output());
        all.filter(|output| !matches!(output, Output::SetTimer(_))).collect()
    }

    fn report(&mut self, at: f64) -> Option<Report> {
        self.0.report(Time::from_secs(at))
    }

    fn told(&mut self, at: f64) -> Vec<(AttemptId, AttemptStatus)> {
        let attempts = self.report(at).map(|report| report.attempts).unwrap_or_default();
        attempts.into_iter().map(|one| (one.attempt, one.standing)).collect()
    }
}

fn stop(job: u64, grace: f64) -> Output {
    Output::Stop { attempt: id(job), grace: Span::from_secs(grace), cause: StopCause::Wanted }
}

fn expire(job: u64) -> Output {
    Output::Stop { attempt: id(job), grace: Span::ZERO, cause: StopCause::LeaseExpired }
}

fn lost(why: &str) -> AttemptStatus {
    AttemptStatus::ended(EndReason::Lost(why.into()))
}

#[test]
fn nothing_begins_while_what_was_given_up_still_runs() {
    for seen in [None, Some(RUNNING), Some(FROZEN)] {
        let mut rig = Rig::new();
        assert_eq!(rig.assign(0.0, &[wanted(1, DesiredState::Run)]), [Output::Launch(id(1))]);
        seen.into_iter().for_each(|seen| drop(rig.see(1, seen)));
        assert_eq!(rig.assign(1.0, &[wanted(2, DesiredState::Run)]), [stop(1, 10.0)]);
        assert_eq!(rig.see(1, exited(EndReason::Stopped)), [Output::Retire(id(1)), Output::Launch(id(2))]);
    }
}

#[test]
fn a_freeze_that_is_taken_back_before_it_took_hold_is_undone() {
    let mut rig = Rig::new();
    rig.assign(0.0, &[wanted(1, DesiredState::Run)]);
    rig.see(1, RUNNING);
    assert_eq!(rig.assign(1.0, &[started(1, DesiredState::Freeze)]), [Output::Freeze(id(1))]);
    assert_eq!(rig.assign(2.0, &[started(1, DesiredState::Run)]), [Output::Thaw(id(1))]);
    assert_eq!(rig.assign(3.0, &[started(1, DesiredState::Run)]), []);
}

#[test]
fn an_attempt_that_is_called_off_and_has_begun_ends_as_any_other() {
    let mut rig = Rig::new();
    assert_eq!(rig.assign(0.0, &[wanted(1, DesiredState::Stop)]), [Output::CallOff(id(1))]);
    assert_eq!(rig.see(1, RUNNING), [stop(1, 5.0)], "with the grace it was promised");
    rig.see(1, exited(EndReason::Exited(3)));
    assert_eq!(rig.told(0.0), [(id(1), AttemptStatus::ended(EndReason::Exited(3)))]);
}

#[test]
fn what_ran_and_is_not_here_is_lost_and_never_launched() {
    let mut rig = Rig::with(Settings { machine_restarted: true, ..Settings::default() });
    assert_eq!(rig.assign(0.0, &[started(1, DesiredState::Run)]), [Output::CallOff(id(1))]);
    rig.see(1, Observation::NotStarted);
    assert_eq!(rig.told(0.0), [(id(1), lost(MACHINE_RESTARTED))]);
    rig.assign(1.0, &[started(2, DesiredState::Run)]);
    rig.see(2, Observation::NotStarted);
    assert_eq!(rig.told(1.0), [(id(2), lost(NOTHING_LEFT))], "that was not the restart");
}

#[test]
fn a_lost_launch_is_repeated_if_it_is_still_wanted() {
    let timeout = Span::from_secs(20.0);
    let mut rig = Rig::with(Settings { launch_timeout: Some(timeout), ..Settings::default() });
    rig.assign(0.0, &[wanted(1, DesiredState::Run)]);
    assert_eq!(rig.step(19.0, Input::Timer), []);
    assert_eq!(rig.step(20.0, Input::Timer), [Output::Launch(id(1))]);
    assert_eq!(rig.step(21.0, Input::LaunchesLost), [Output::Launch(id(1))], "as when a spawner died");
    rig.assign(22.0, &[wanted(1, DesiredState::Stop)]);
    assert_eq!(rig.step(42.0, Input::Timer), [Output::CallOff(id(1))]);
}

#[test]
fn an_end_is_kept_until_the_server_knows_it() {
    let mut rig = Rig::new();
    rig.assign(0.0, &[wanted(1, DesiredState::Run)]);
    rig.see(1, exited(EndReason::Exited(0)));
    let told = rig.told(0.0);
    assert_eq!(told.len(), 1);
    assert_eq!(rig.assign(1.0, &[wanted(1, DesiredState::Run)]), [], "the server has not heard it");
    rig.step(2.0, Input::Scanned);
    assert_eq!(rig.told(2.0), told, "so it is told again");
    assert_eq!(rig.assign(3.0, &[]), [Output::Retire(id(1))]);
}

#[test]
fn before_the_first_assignments_nothing_is_unwanted() {
    let mut rig = Rig::new();
    let found =
        FoundRecord { attempt: id(1), owner: RecordOwner::ThisLog, on_lost: OnLost::Rerun, seen: RUNNING };
    assert_eq!(rig.step(0.0, Input::Found(found)), []);
    assert_eq!(rig.step(1.0, Input::Scanned), []);
    assert_eq!(rig.told(1.0), [(id(1), AttemptStatus::Running)]);
    assert_eq!(rig.assign(2.0, &[]), [stop(1, 10.0)]);
}

#[test]
fn assignments_that_arrive_late_change_nothing() {
    let mut rig = Rig::new();
    rig.assign(0.0, &[wanted(1, DesiredState::Run)]);
    rig.0.assign_desired(0, None, std::iter::empty(), Time(1));
    assert_eq!(rig.outputs(), []);
}

#[test]
fn what_another_log_left_is_ended_first() {
    let mut rig = Rig::new();
    let record = ForeignRecordId(4);
    let (owner, seen) = (RecordOwner::AnotherLog(record), RUNNING);
    let found = FoundRecord { attempt: id(1), owner, on_lost: OnLost::Rerun, seen };
    let stop = [Output::StopForeign { record, grace: FOREIGN_GRACE }];
    assert_eq!(rig.step(0.0, Input::Found(found)), stop);
    assert_eq!(rig.assign(1.0, &[wanted(1, DesiredState::Run)]), [], "it may be on any device");
    assert_eq!(rig.told(1.0), [], "and is not the attempt of the same name");
    assert_eq!(rig.step(2.0, Input::Scanned), stop, "asked again");
    let gone = [Output::RetireForeign(record), Output::Launch(id(1))];
    assert_eq!(rig.step(3.0, Input::ForeignGone(record)), gone);
}

#[test]
fn a_misfiled_record_is_no_evidence() {
    let mut rig = Rig::new();
    let (owner, seen) = (RecordOwner::Misfiled("it is log b's".into()), exited(EndReason::Exited(0)));
    let found = FoundRecord { attempt: id(1), owner, on_lost: OnLost::Rerun, seen };
    let discard = Output::Discard { attempt: id(1), why: "it is log b's".into() };
    assert_eq!(rig.step(0.0, Input::Found(found)), [discard]);
    rig.see(1, Observation::NotStarted);
    assert_eq!(rig.told(1.0), [(id(1), lost("its record on the worker was damaged: it is log b's"))]);
}

#[test]
fn what_runs_elsewhere_on_loss_is_over_before_the_lease_lapses() {
    let mut rig = Rig::with(Settings { lease: Some(LEASE), ..Settings::default() });
    let hold = Desired { on_lost: OnLost::Hold, ..wanted(2, DesiredState::Run) };
    rig.report(1.0);
    rig.assign(2.0, &[wanted(1, DesiredState::Run), hold, wanted(3, DesiredState::Run)]);
    rig.see(1, RUNNING);
    rig.see(2, RUNNING);
    rig.report(5.0); // which nobody hears
    assert_eq!(rig.step(10.9, Input::Timer), [], "ten seconds after the report of second 1");
    assert_eq!(rig.step(11.0, Input::Timer), [expire(1), expire(3), Output::CallOff(id(3))]);
    assert_eq!(rig.step(11.5, Input::Scanned), [expire(1), Output::CallOff(id(3))], "until it is so");
    rig.see(1, exited(StopCause::LeaseExpired.how()));
    rig.see(3, Observation::NotStarted);
    let held = (id(2), AttemptStatus::Running);
    let all = [(id(1), lost(CONTACT_LOST)), held, (id(3), lost(CONTACT_LOST))];
    assert_eq!(rig.told(12.0), all, "nobody asked for it to stop");
    rig.0.assign_desired(9, None, std::iter::empty(), Time::from_secs(12.0));
    assert_eq!(rig.outputs(), [], "assignments from before the server heard of this do not count");
    assert_eq!(rig.assign(13.0, &[]).len(), 3, "those after do");
}

#[test]
fn the_timer_follows_the_latest_report_received() {
    let mut rig = Rig::with(Settings { lease: Some(LEASE), ..Settings::default() });
    let timers = |rig: &mut Rig| std::iter::from_fn(|| rig.0.next_output()).collect::<Vec<_>>();
    rig.report(4.0);
    rig.0.assign_desired(1, Some(ReportId { session: 0, seq: 1 }), std::iter::empty(), Time::from_secs(5.0));
    assert_eq!(timers(&mut rig), [Output::SetTimer(Time::from_secs(14.0))]);
    rig.step(6.0, Input::Scanned);
    rig.report(6.0);
    rig.0.assign_desired(2, Some(ReportId { session: 0, seq: 2 }), std::iter::empty(), Time::from_secs(7.0));
    assert_eq!(timers(&mut rig), [], "the one that is set comes first");
    rig.0.step(Input::Timer, Time::from_secs(14.0));
    assert_eq!(timers(&mut rig), [Output::SetTimer(Time::from_secs(16.0))], "not expired, and set again");
    assert!(rig.0.in_force());
}

#[test]
fn a_worker_that_can_start_nothing_is_quarantined_until_the_server_knows() {
    let mut rig = Rig::new();
    let fails = |rig: &mut Rig, job: u64| {
        assert_eq!(rig.assign(0.0, &[wanted(job, DesiredState::Run)]), [Output::Launch(id(job))]);
        let broken = LaunchRefusal::Broken("no process can be forked".into());
        assert_eq!(rig.step(0.0, Input::Refused(id(job), broken)), [Output::CallOff(id(job))]);
        rig.see(job, Observation::NotStarted);
        let report = rig.report(0.0).expect("an end to tell of");
        rig.assign(0.0, &[]);
        report.quarantined
    };
    assert_eq!((fails(&mut rig, 1), fails(&mut rig, 2)), (None, None));
    rig.assign(0.0, &[wanted(3, DesiredState::Run)]);
    rig.see(3, exited(EndReason::NotStarted("no such file".into())));
    rig.assign(0.0, &[]);
    assert_eq!((fails(&mut rig, 4), fails(&mut rig, 5)), (None, None), "not in a row");
    let why = fails(&mut rig, 6).expect("three are");
    assert!(why.ends_with("no process can be forked"), "{why}");
    assert_eq!(
        rig.assign(0.0, &[wanted(7, DesiredState::Run)]),
        [Output::Launch(id(7))],
        "the server lifted it"
    );
}

#[test]
fn a_quarantined_worker_declines_until_the_server_has_heard() {
    let mut rig = Rig::new();
    for job in 1..=3 {
        rig.assign(0.0, &[wanted(job, DesiredState::Run)]);
        rig.step(0.0, Input::Refused(id(job), LaunchRefusal::Broken("full".into())));
        rig.see(job, Observation::NotStarted);
    }
    rig.1 += 1;
    rig.0.assign_desired(rig.1, None, [wanted(4, DesiredState::Run)].into_iter(), Time(0));
    let retired = (1..=3).map(|job| Output::Retire(id(job)));
    let retired: Vec<_> = retired.chain([Output::CallOff(id(4))]).collect();
    assert_eq!(rig.outputs(), retired[2..], "not launched");
}

#[test]
fn launches_that_fail_together_are_one_failure() {
    let mut rig = Rig::new();
    let broken = || LaunchRefusal::Broken("the spawner died".into());
    let at_once: Vec<_> = (1..=3).map(|job| wanted(job, DesiredState::Run)).collect();
    assert_eq!(rig.assign(0.0, &at_once).len(), 3, "all are launched");
    for job in 1..=3 {
        rig.step(0.0, Input::Refused(id(job), broken()));
        rig.see(job, Observation::NotStarted);
    }
    let report = rig.report(0.0).expect("ends to tell of");
    assert_eq!(report.quarantined, None, "the spawner died once");
    rig.assign(1.0, &[]);
    for job in [4, 5] {
        assert_eq!(rig.assign(1.0, &[wanted(job, DesiredState::Run)]), [Output::Launch(id(job))]);
        rig.step(1.0, Input::Refused(id(job), broken()));
        rig.see(job, Observation::NotStarted);
        rig.assign(1.0, &[]);
    }
    let why = rig.0.launch_health.quarantined().expect("two more rounds are three");
    assert!(why.starts_with("3 launches in a row failed"), "{why}");
}

#[test]
fn a_launch_is_not_forgotten_while_nobody_says_whether_it_is_wanted() {
    let timeout = Span::from_secs(20.0);
    let lease = Some(LEASE);
    let mut rig = Rig::with(Settings { lease, launch_timeout: Some(timeout), ..Settings::default() });
    let hold = |job| Desired { on_lost: OnLost::Hold, ..wanted(job, DesiredState::Run) };
    assert_eq!(rig.assign(0.0, &[hold(1)]), [Output::Launch(id(1))]);
    assert_eq!(rig.step(10.0, Input::Timer), [], "the lease expires, and what is held stays");
    assert!(!rig.0.in_force());
    assert_eq!(rig.step(20.0, Input::Timer), []);
    assert!(rig.0.state(id(1)).is_some(), "it may start at any moment");
    rig.step(21.0, Input::Scanned);
    let timers: Vec<_> = std::iter::from_fn(|| rig.0.next_output()).collect();
    assert_eq!(timers, [], "and no timer fires for it meanwhile");
    rig.report(22.0);
    assert_eq!(rig.assign(23.0, &[]), [stop(1, 10.0)], "not wanted any more");
    assert_eq!(
        rig.step(23.0, Input::Timer),
        [Output::CallOff(id(1))],
        "and over once it is known not to have started"
    );
    rig.see(1, Observation::NotStarted);
    assert_eq!(rig.outputs(), []);
    assert_eq!(rig.0.state(id(1)), None, "retired");
}

#[test]
fn an_attempt_that_was_ended_with_the_lease_does_not_go_on() {
    for (seen, want) in
        [(FROZEN, DesiredState::Run), (RUNNING, DesiredState::Freeze), (RUNNING, DesiredState::Stop)]
    {
        let mut rig = Rig::with(Settings { lease: Some(LEASE), ..Settings::default() });
        rig.assign(0.0, &[wanted(1, want)]);
        rig.see(1, seen.clone());
        assert_eq!(rig.step(10.0, Input::Timer), [expire(1)]);
        rig.step(10.0, Input::Scanned);
        rig.report(11.0);
        assert_eq!(
            rig.assign(12.0, &[started(1, want)]),
            [],
            "{seen:?} {want:?}: it ends, and there is no way back"
        );
        assert_eq!(rig.step(13.0, Input::Scanned), [expire(1)], "asked again until it has");
    }
}

#[test]
fn an_agent_that_starts_again_continues_the_lease_of_the_one_before() {
    let confirmed = Some(Time::from_secs(100.0));
    let settings = Settings { session: 2, lease: Some(LEASE), confirmed, ..Settings::default() };
    let mut agent = Agent::new(settings, Time::from_secs(112.0));
    let found =
        FoundRecord { attempt: id(1), owner: RecordOwner::ThisLog, on_lost: OnLost::Rerun, seen: RUNNING };
    agent.step(Input::Found(found), Time::from_secs(112.0));
    agent.step(Input::Timer, Time::from_secs(112.0));
    let ended = std::iter::from_fn(|| agent.next_output()).any(|output| output == expire(1));
    assert!(ended, "the server counts from the last report, whatever happened to the agent");
    let deadlines = agent.deadlines().expect("it has a lease");
    assert!(Time::from_secs(110.0) < deadlines.stop_at && deadlines.stop_at < deadlines.kill_at);
    assert!(deadlines.kill_at < Time::from_secs(100.0) + LEASE, "all is over before the lease is");
}

#[test]
fn an_agent_whose_session_is_not_the_latest_takes_a_later_one() {
    let mut rig = Rig::with(Settings { session: 6, lease: Some(LEASE), ..Settings::default() });
    let first = rig.report(1.0).expect("an agent presents itself");
    assert_eq!(first.id, ReportId { session: 6, seq: 1 });
    for received in [ReportId { session: 9, seq: 4 }, ReportId { session: 10, seq: 70 }] {
        rig.0.assign_desired(1, Some(received), std::iter::empty(), Time::from_secs(2.0));
        assert_eq!(rig.0.confirmed(), Some(Time(0)), "none of its own reports counted");
        let again = rig.report(3.0).expect("the server knows nothing yet");
        assert_eq!((again.id.session, again.base), (received.session + 1, None));
        assert!(again.id > received);
    }
    let seq = rig.0.seq;
    rig.0.assign_desired(2, Some(ReportId { session: 11, seq }), std::iter::empty(), Time::from_secs(4.0));
    assert_eq!(rig.0.confirmed(), Some(Time::from_secs(3.0)));
    assert_eq!(rig.report(5.0), None, "its session is the latest");
}

#[test]
fn deltas_name_what_they_build_on() {
    let mut rig = Rig::with(Settings { session: 6, ..Settings::default() });
    let first = rig.report(0.0).expect("an agent presents itself");
    assert_eq!((first.id, first.base), (ReportId { session: 6, seq: 1 }, None));
    assert_eq!(rig.report(1.0), None, "nothing to tell");
    rig.assign(1.0, &[wanted(1, DesiredState::Run), wanted(2, DesiredState::Run)]);
    rig.see(1, RUNNING);
    rig.report(2.0);
    rig.see(2, RUNNING);
    let delta = rig.report(3.0).expect("news");
    assert_eq!((delta.id.seq, delta.base, delta.attempts.len()), (3, Some(2), 1));
    rig.0.assign(&Assignments { as_of: 9, send_all: true, ..Assignments::default() }, Time(4));
    let full = rig.report(4.0).expect("it was asked for");
    assert_eq!((full.base, full.attempts.len()), (None, 2));
}

#[test]
fn one_that_leaves_ends_everything_or_nothing_and_forgets_neither() {
    let mut rig = Rig::new();
    rig.assign(0.0, &[wanted(1, DesiredState::Run)]);
    rig.see(1, RUNNING);
    assert_eq!(rig.step(1.0, Input::Leave { kill: true }), [stop(1, 5.0)]);
    assert!(!rig.0.may_leave());
    assert_eq!(rig.see(1, exited(EndReason::Stopped)), [], "it has not been told yet");
    assert!(rig.0.may_leave() && rig.told(2.0).len() == 1);
    assert_eq!(rig.assign(3.0, &[wanted(2, DesiredState::Run)]), [], "nothing begins any more");
}
