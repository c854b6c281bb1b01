//! The real engine thread, log and replica on a clock that the test moves: a day passes as fast as its events are committed.

use crate::clock::Clock;
use crate::testing::{self, Server, machine, task};
use std::collections::BTreeMap;
use warpyard_core::command::AttemptStatus;
use warpyard_core::event::{End, EndReason, Usage, WorkerInfo};
use warpyard_core::protocol::{Report, ReportId};
use warpyard_core::{AttemptId, Command, Span, Time, WorkerId};

const HOUR: Span = hours(1);
const LEASE: Span = Span(15 * 60 * 1_000_000);
const WORKER: WorkerId = WorkerId(0);

const fn hours(n: u64) -> Span {
    Span(n * 3_600 * 1_000_000)
}

/// A server, its clock, and the side of a worker that the test plays.
struct Day {
    server: Server,
    clock: Clock,
}

impl Day {
    async fn command(&self, command: Command) {
        self.server.engine.command(command).await.expect("it is carried out");
    }

    async fn join(&self) {
        self.command(Command::Join(WorkerInfo { lease: Some(LEASE), ..machine(1) })).await;
    }

    /// The attempt that has the GPU.
    async fn placed(&self) -> Option<AttemptId> {
        let assigned = |f: &crate::replica::Reader<'_>| f.cluster().desired(WORKER).next().map(|d| d.attempt);
        self.server.engine.read(assigned).await.expect("a state")
    }

    async fn report(&self, attempt: AttemptId, status: AttemptStatus) {
        let attempts = [(attempt, status)].into_iter().collect();
        self.command(Command::Report { worker: WORKER, attempts, devices: BTreeMap::new() }).await;
    }

    fn pass(&self, time: Span) {
        self.clock.advance_to(self.clock.now() + time);
    }
}

#[tokio::test]
async fn a_day_of_hourly_jobs_and_a_lost_worker_passes_by_the_clock_of_the_server() {
    let clock = Clock::manual(Time(1_700_000_000 * 1_000_000));
    let day = Day { server: testing::server_at(clock.clone()), clock };
    let began = day.clock.now();
    day.join().await;
    for n in 0..24 {
        day.server.submit("ann", &format!("job-{n}"), vec![task("t", 1)]).await;
    }
    let mut lost = None;
    while let Some(attempt) = day.placed().await {
        day.report(attempt, AttemptStatus::Running).await;
        if lost.is_none() && day.clock.now().since(began) >= hours(12) {
            // The worker falls silent: nothing but the engine's own timer can notice.
            let mut changes = day.server.app.notices.listen();
            day.pass(LEASE);
            while day.placed().await.is_some() {
                changes.changed().await;
            }
            lost = Some(attempt);
            day.join().await;
            continue;
        }
        for _ in 0..6 {
            day.pass(Span(HOUR.0 / 6));
            day.report(attempt, AttemptStatus::Running).await;
        }
        let end = End { how: EndReason::Exited(0), usage: Usage { ran: HOUR, ..Usage::default() } };
        day.report(attempt, AttemptStatus::Over(end)).await;
    }
    let lost = lost.expect("the worker was lost at noon");
    assert_eq!(day.clock.now().since(began), hours(24) + LEASE);
    let attempts = move |history: &dyn crate::store::HistoryStore| {
        history.latest(None, None, Time(0)..=Time(i64::MAX as u64), 0, 100).expect("rows")
    };
    let rows = day.server.engine.read_history(attempts).await.expect("tables");
    let (again, whole): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.attempt == lost);
    assert_eq!((again.len(), whole.len()), (1, 24));
    assert!(whole.iter().all(|row| row.outcome.as_deref() == Some("succeeded") && row.ran == HOUR));
    let last = whole.iter().map(|row| row.ended.expect("over")).max();
    assert_eq!(last, Some(began + hours(24) + LEASE), "events are dated by the server's clock");
}

#[tokio::test]
async fn a_full_report_of_an_idle_worker_is_acknowledged() {
    let server = testing::server();
    let info = WorkerInfo { lease: Some(LEASE), ..machine(1) };
    server.engine.command(Command::Join(info)).await.expect("it joins");
    let (deliver, mut delivered) = tokio::sync::mpsc::unbounded_channel();
    server.engine.deliver_to(WORKER, move |assignments| drop(deliver.send(assignments)));
    assert_eq!(delivered.recv().await.expect("what it should run").received, None);
    let report = |session, seq| {
        let id = ReportId { session, seq };
        Command::Receive { worker: WORKER, report: Box::new(Report { id, ..Report::default() }) }
    };
    for (session, seq) in [(7, 1), (7, 2), (6, 9)] {
        server.engine.command(report(session, seq)).await.expect("it is received");
        let acknowledged = delivered.recv().await.expect("an acknowledgement").received;
        // An agent of an earlier session is told of the latest as well, so that it can take a later one.
        assert_eq!(acknowledged, Some(ReportId { session: 7, seq: seq.min(2) }), "{session} {seq}");
    }
    assert_eq!(delivered.try_recv().ok(), None);
}
