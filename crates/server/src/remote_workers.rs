//! Workers on other machines, as this run of the server knows them: how each is sent its assignments, when it was last heard
//! of, and which logs have arrived whole. Nothing here is state: a worker that finds a server which does not know it
//! registers again, and what it reports is decided on by the engine.

use crate::engine::EngineHandle;
use crate::summary::time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use warpyard_api::wire::{WorkerState, WorkerView};
use warpyard_core::protocol::Assignments;
use warpyard_core::{AttemptId, Span, Time, WorkerId};

/// How long a worker may be silent unless something else is configured: as long as Slurm's and Kubernetes' defaults.
pub(crate) const LEASE: Span = Span(5 * 60 * 1_000_000);

/// After how long without a word a worker is shown as silent.
pub(crate) const SILENT_AFTER: Span = Span(15 * 1_000_000);

/// How long a request for assignments waits for new ones.
pub(crate) const POLL: Duration = Duration::from_secs(20);

/// The most attempts whose logs are known to have arrived whole; readers wait for no log that ended earlier.
const COMPLETE_KEPT: usize = 10_000;

/// The workers that registered since the server started.
#[derive(Debug)]
pub(crate) struct RemoteWorkers {
    /// How long a worker may be silent before it is given up.
    pub(crate) lease: Span,
    connected: Mutex<BTreeMap<String, Arc<RemoteWorker>>>,
    complete: Mutex<CompleteLogs>,
    /// Wakes readers of logs when one has arrived whole.
    completed: Notify,
}

impl Default for RemoteWorkers {
    fn default() -> RemoteWorkers {
        RemoteWorkers::with_lease(LEASE)
    }
}

/// Logs that arrived whole, the oldest first.
#[derive(Debug, Default)]
struct CompleteLogs {
    known: BTreeSet<AttemptId>,
    order: VecDeque<AttemptId>,
}

/// A worker that registered.
#[derive(Debug)]
pub(crate) struct RemoteWorker {
    pub(crate) id: WorkerId,
    /// Its version of warpyard.
    pub(crate) version: String,
    assignments: watch::Sender<Versioned>,
    heard: Mutex<Time>,
    /// Serialises what it appends to logs: a request that is repeated while the first still runs must not append twice.
    pub(crate) appending: Mutex<()>,
}

/// Assignments with a number that every delivery changes.
#[derive(Clone, Debug)]
pub(crate) struct Versioned {
    pub(crate) version: u64,
    pub(crate) assignments: Arc<Assignments>,
}

impl RemoteWorkers {
    /// No workers yet, each to be given up after this long a silence.
    pub(crate) fn with_lease(lease: Span) -> RemoteWorkers {
        RemoteWorkers {
            lease,
            connected: Mutex::default(),
            complete: Mutex::default(),
            completed: Notify::new(),
        }
    }

    /// Connects a worker that registered: from now on it is delivered its assignments.
    pub(crate) fn connect(
        &self,
        engine: &EngineHandle,
        name: &str,
        id: WorkerId,
        version: String,
    ) -> Arc<RemoteWorker> {
        let now = engine.clock().now();
        // Versions of two runs of a server must differ, since a worker outlives both.
        let first = Versioned { version: now.0, assignments: Arc::default() };
        let worker = Arc::new(RemoteWorker {
            id,
            version,
            assignments: watch::Sender::new(first),
            heard: Mutex::new(now),
            appending: Mutex::new(()),
        });
        let receiver = worker.clone();
        engine.deliver_to(id, move |assignments| {
            receiver.assignments.send_modify(|latest| {
                *latest = Versioned { version: latest.version + 1, assignments: Arc::new(assignments) };
            });
        });
        self.connected().insert(name.to_owned(), worker.clone());
        worker
    }

    /// The worker of this name, if it registered since the server started.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<RemoteWorker>> {
        self.connected().get(name).cloned()
    }

    /// Disconnects a worker that was forgotten.
    pub(crate) fn disconnect(&self, name: &str) {
        self.connected().remove(name);
    }

    /// Adds to views of workers what only contact tells: when each was last heard of, whether it is silent, and its version.
    /// A worker that has a lease and has not registered since the server started is silent too.
    pub(crate) fn annotate(&self, views: &mut [WorkerView], now: Time) {
        let connected = self.connected();
        for view in views.iter_mut().filter(|view| !view.local) {
            let contact = connected.get(&view.id);
            let heard = contact.map(|worker| *worker.heard());
            view.last_heard = heard.map(time);
            view.version = contact.map(|worker| worker.version.clone()).unwrap_or_default();
            if heard.is_none_or(|heard| heard + SILENT_AFTER < now) && view.state == WorkerState::Up {
                view.state = WorkerState::Silent;
            }
        }
    }

    /// Notes that all of an attempt's log has arrived.
    pub(crate) fn log_is_complete(&self, attempt: AttemptId) {
        let mut complete = self.complete.lock().expect("nothing panics while holding it");
        if complete.known.insert(attempt) {
            complete.order.push_back(attempt);
        }
        if complete.order.len() > COMPLETE_KEPT
            && let Some(oldest) = complete.order.pop_front()
        {
            complete.known.remove(&oldest);
        }
        drop(complete);
        self.completed.notify_waiters();
    }

    /// Whether all of an attempt's log has arrived.
    pub(crate) fn has_log_of(&self, attempt: AttemptId) -> bool {
        self.complete.lock().expect("nothing panics while holding it").known.contains(&attempt)
    }

    /// Resolves when some log arrives whole, counted from this call.
    pub(crate) fn log_completed(&self) -> Notified<'_> {
        self.completed.notified()
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RemoteWorker>>> {
        self.connected.lock().expect("nothing panics while holding it")
    }
}

impl RemoteWorker {
    /// Notes that it was heard of.
    pub(crate) fn hear(&self, now: Time) {
        let mut heard = self.heard();
        *heard = now.max(*heard);
    }

    /// Waits for assignments of another version than this one, for at most [`POLL`].
    pub(crate) async fn assignments(&self, known: Option<u64>) -> Option<Versioned> {
        let mut latest = self.assignments.subscribe();
        let new = latest.wait_for(|latest| Some(latest.version) != known);
        tokio::time::timeout(POLL, new).await.ok()?.ok().map(|latest| latest.clone())
    }

    fn heard(&self) -> MutexGuard<'_, Time> {
        self.heard.lock().expect("nothing panics while holding it")
    }
}
