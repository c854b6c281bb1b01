//! The link of a worker on another machine: reports by POST, assignments by long poll, each on a thread and a connection of its
//! own. It only dials out. Messages may be lost: a failed report is dropped, and the next full one makes up for it.

use super::log_shipper::LogShipper;
use crate::remote_workers::POLL;
use crate::worker_protocol::{ASSIGNMENTS, AssignmentsReply, REPORTS, Registration, SELF};
use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::problem::code;
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::Report;
use warpyard_worker::agent::{AgentError, Deliver, Link};

/// The shortest and longest pause after a failed request.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Called once when the server's jobs are numbered by another event log, so that the paths here have to change.
type OnAnotherLog = Box<dyn Fn() + Send>;

/// The link over HTTPS.
pub(super) struct HttpsLink {
    client: Client,
    log: Option<String>,
    reports: Sender<Report>,
    unsent: Option<Receiver<Report>>,
    shipper: LogShipper,
    contact: Arc<Contact>,
    another_log: Option<OnAnotherLog>,
}

/// Whether the server knows the worker, and whether that was said.
#[derive(Debug, Default)]
struct Contact {
    registered: AtomicBool,
    reached: AtomicBool,
}

impl Contact {
    fn failed(&self, error: &ClientError) {
        self.registered.store(false, Ordering::Release);
        // The server answered: it was restarted, or has given the worker up, and will know it again at once.
        if matches!(error, ClientError::Refused(problem) if problem.code == code::NOT_REGISTERED) {
            return tracing::info!("registering again: {error}");
        }
        if !self.reached.swap(false, Ordering::AcqRel) {
            return;
        }
        match error {
            ClientError::Unauthorised { url, .. } => tracing::warn!(
                "the server at {url} does not accept this worker's key: it was forgotten there, or the server lost its keys; \
                 to join again, give `warpyard worker` a new token and another data directory"
            ),
            _ => tracing::warn!("contact with the server is lost: {error}"),
        }
    }

    fn succeeded(&self) {
        if !self.reached.swap(true, Ordering::AcqRel) {
            tracing::info!("in contact with the server");
        }
    }
}

impl HttpsLink {
    /// A link with the worker's key; `log` is the event log whose jobs it runs.
    pub(super) fn new(
        client: Client,
        log: Option<String>,
        shipper: LogShipper,
        another_log: impl Fn() + Send + 'static,
    ) -> HttpsLink {
        let (reports, unsent) = unbounded();
        let (unsent, another_log) = (Some(unsent), Some(Box::new(another_log) as OnAnotherLog));
        HttpsLink { client, log, reports, unsent, shipper, contact: Arc::default(), another_log }
    }
}

impl Link for HttpsLink {
    /// Starts registering and does not wait for it: attempts of an earlier agent may run here, whose lease this agent has to
    /// watch whether the server answers or not.
    fn join(&mut self, info: &WorkerInfo, deliver: Deliver) -> Result<(), AgentError> {
        let unsent = self.unsent.take().expect("a worker joins once");
        let another_log = self.another_log.take().expect("a worker joins once");
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let registration = Registration { info: info.clone(), version, log: self.log.clone() };
        let (client, contact) = (self.client.clone(), self.contact.clone());
        let poll = move || poll(&client, &registration, &contact, &deliver, &another_log);
        let (client, contact) = (self.client.clone(), self.contact.clone());
        let send = move || send(&client, &unsent, &contact);
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        spawn("assignments").spawn(poll).expect("a thread can be started");
        spawn("reports").spawn(send).expect("a thread can be started");
        Ok(())
    }

    fn report(&self, report: Report) {
        self.shipper.note(&report);
        // It only fails when the sending thread has panicked.
        let _gone = self.reports.send(report);
    }
}

/// Registers the worker and delivers assignments.
///
/// A refused key ends nothing: the server may have lost its keys. A worker that was forgotten is given nothing, and its
/// attempts end with its lease.
fn poll(
    client: &Client,
    registration: &Registration,
    contact: &Contact,
    deliver: &Deliver,
    another_log: &OnAnotherLog,
) {
    let (mut known, mut pause) = (None, PAUSES.0);
    loop {
        let polled = match contact.registered.load(Ordering::Acquire) {
            true => next_assignments(client, known),
            false => client.put(SELF, registration).map(|()| {
                contact.registered.store(true, Ordering::Release);
                None
            }),
        };
        match polled {
            Ok(next) => {
                contact.succeeded();
                pause = PAUSES.0;
                if let Some(AssignmentsReply { version, assignments }) = next {
                    known = Some(version);
                    deliver(Arc::unwrap_or_clone(assignments));
                }
            }
            Err(e) => {
                if matches!(&e, ClientError::Refused(problem) if problem.code == code::ANOTHER_LOG) {
                    return another_log();
                }
                contact.failed(&e);
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

fn next_assignments(client: &Client, known: Option<u64>) -> Result<Option<AssignmentsReply>, ClientError> {
    client.poll(ASSIGNMENTS, &json!({ "known": known }), POLL)
}

/// Sends reports in order. What cannot be sent is dropped with all that waits behind it, since each entry is absolute and the
/// next full report has every one.
fn send(client: &Client, unsent: &Receiver<Report>, contact: &Contact) {
    let mut failed_at: Option<Instant> = None;
    for report in unsent {
        if failed_at.is_some_and(|at| at.elapsed() < PAUSES.0) || !contact.registered.load(Ordering::Acquire)
        {
            continue;
        }
        match client.post_only(REPORTS, &report) {
            Ok(()) => {
                failed_at = None;
                contact.succeeded();
            }
            Err(e) => {
                failed_at = Some(Instant::now());
                contact.failed(&e);
            }
        }
    }
}
