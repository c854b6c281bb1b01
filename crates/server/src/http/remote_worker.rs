//! Endpoints of workers on other machines: registration, reports, assignments by long poll, and the output of attempts. A
//! worker speaks for itself only: its key says which it is.

use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::caller::Caller;
use crate::remote_workers::RemoteWorker;
use crate::replica::Reader;
use crate::worker_protocol::{AssignmentsReply, LogReply, Registration, STREAMS};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path as FilePath;
use std::sync::Arc;
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::Micros;
use warpyard_api::wire::{LogGeneration, WorkerIdentity, WorkerSettings};
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::Report;
use warpyard_core::{AttemptId, Command, WorkerId};

/// The most labels of a worker, and the most bytes of a label's key or value.
const MOST_LABELS: (usize, usize) = (64, 64);

/// The most GPUs of a worker.
const MOST_DEVICES: usize = 4096;

/// The name of the worker that calls.
fn name_of(who: &Caller) -> Result<&str, Refusal> {
    match who {
        Caller::Worker(name) => Ok(name),
        _ => Err(Refusal::internal("only workers are let in")),
    }
}

/// The worker that the caller's key belongs to, and how it is to run tasks.
pub(super) async fn identity(
    State(app): AppState,
    Extension(who): CallerExtension,
) -> Result<Json<WorkerIdentity>, Refusal> {
    let name = name_of(&who)?;
    let generations = app.layout.lineage().generations().iter();
    let logs = generations.map(|generation| LogGeneration {
        log: generation.log.as_ref().map(ToString::to_string),
        first_job: generation.first_job.0,
    });
    let settings = WorkerSettings {
        lease: Micros(app.remote.lease.0),
        shared: app.sharing.is_some(),
        log_cap: app.log_cap,
        max_grace: Micros(app.defaults.longest_grace.unwrap_or_default().0),
        logs: logs.collect(),
    };
    let vouch = app.may_vouch(name);
    Ok(Json(WorkerIdentity { worker: name.to_owned(), vouch, settings: Some(settings) }))
}

/// Registers the worker: it is given tasks from now on.
pub(super) async fn register(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Refusal> {
    let name = name_of(&who)?;
    let Registration { info, version, log } = app.parsed(&who, &headers, body).await?;
    let own_log = app.layout.lineage().current().log.as_ref().map(ToString::to_string);
    if log != own_log {
        let said = "the server's jobs are numbered by another event log now; ask for the settings again";
        return Err(Refusal::new(409, code::ANOTHER_LOG, said));
    }
    let info = WorkerInfo { name: name.to_owned(), lease: Some(app.remote.lease), ..info };
    check(&info)?;
    let version: String = version.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    app.engine.command(Command::Join(info)).await?;
    let wanted = name.to_owned();
    let id = app.engine.read(move |f| f.cluster().worker_named(&wanted)).await?;
    let id = id.ok_or_else(|| Refusal::internal("a worker that registered is not known"))?;
    app.remote.connect(&app.engine, name, id, version);
    tracing::info!("worker {name} registered");
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a description that no machine has.
fn check(info: &WorkerInfo) -> Result<(), Problem> {
    let wrong = |field: &str, why: &str| Err(Problem::new(code::BAD_REQUEST, field, why));
    if info.devices.len() > MOST_DEVICES {
        return wrong("info.devices", "no worker has so many GPUs");
    }
    let (most, longest) = MOST_LABELS;
    let is_word = |text: &String| is_label_word(text) && text.len() <= longest;
    if info.labels.len() > most || !info.labels.iter().all(|(key, value)| is_word(key) && is_word(value)) {
        return wrong(
            "info.labels",
            "a worker has up to 64 labels; keys and values have 1 to 64 letters, digits, '-', '_' and '.'",
        );
    }
    Ok(())
}

/// Whether a text can be the key or value of a label.
pub(crate) fn is_label_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// The worker that calls, if it registered since the server started and was not given up since.
async fn registered(app: &App, who: &Caller) -> Result<Arc<RemoteWorker>, Refusal> {
    let name = name_of(who)?;
    let not_known = || {
        let said =
            "this server does not know the worker, or gave it up because it was silent: register again";
        Refusal::new(409, code::NOT_REGISTERED, said)
    };
    let worker = app.remote.get(name).ok_or_else(not_known)?;
    let id = worker.id;
    let is_online = app.engine.read(move |f| f.cluster().worker(id).is_some_and(|w| w.online)).await?;
    worker.hear(app.engine.clock().now());
    if is_online { Ok(worker) } else { Err(not_known()) }
}

/// Takes a report. It is acknowledged by assignments.
pub(super) async fn report(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Refusal> {
    let worker = registered(&app, &who).await?;
    let mut report: Report = app.parsed(&who, &headers, body).await?;
    // A description comes by registration, where its name and lease are the server's to say.
    report.info = None;
    app.engine.tell(Command::Receive { worker: worker.id, report: Box::new(report) });
    Ok(StatusCode::ACCEPTED)
}

/// The assignments that a worker knows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AssignmentsQuery {
    /// The version of the assignments received last; the answer waits for another.
    known: Option<u64>,
}

/// Waits for new assignments; without content where there are none for a while.
pub(super) async fn assignments(
    State(app): AppState,
    Extension(who): CallerExtension,
    query: Result<Query<AssignmentsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(AssignmentsQuery { known }) = query?;
    let worker = registered(&app, &who).await?;
    match worker.assignments(known).await {
        Some(latest) => {
            let reply = AssignmentsReply { version: latest.version, assignments: latest.assignments };
            Ok(Json(reply).into_response())
        }
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// A part of a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    /// The offset of the part in the stream.
    offset: u64,
    /// Whether the output of the attempt is complete with it.
    #[serde(default)]
    complete: bool,
}

/// Appends to a stream of an attempt's output. Bytes that are there already are skipped, so that a part may be sent again; the
/// answer says how much there is, which a worker that is ahead or behind continues from.
pub(super) async fn append_log(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path((attempt, stream)): Path<(String, String)>,
    query: Result<Query<LogQuery>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<LogReply>, Refusal> {
    let Query(LogQuery { offset, complete }) = query?;
    let refused = |e: BytesRejection| Refusal::new(e.status().as_u16(), code::BAD_REQUEST, e.body_text());
    let bytes = body.map_err(refused)?;
    let name = name_of(&who)?.to_owned();
    let not_its_own = || {
        let said = format!("attempt {attempt} has no such output on this worker");
        Refusal::new(404, code::NOT_FOUND, said)
    };
    let attempt: AttemptId = attempt.parse().map_err(|_| not_its_own())?;
    let stream = STREAMS.into_iter().find(|known| *known == stream).ok_or_else(not_its_own)?;
    let worker = app.remote.get(&name).ok_or_else(|| {
        Refusal::new(409, code::NOT_REGISTERED, "this server does not know the worker: register first")
    })?;
    let id = worker.id;
    if !app.engine.read(move |f| ran_on(f, attempt, id, &name)).await? {
        return Err(not_its_own());
    }
    let (path, most) = (app.layout.log_dir(attempt).join(stream), app.log_cap.saturating_add(LOG_SLACK));
    let appending = move || {
        let _one_at_a_time = worker.appending.lock().expect("nothing panics while appending");
        append(&path, offset, &bytes, most)
    };
    let size = tokio::task::spawn_blocking(appending).await.map_err(Refusal::internal)?;
    let size = size.map_err(Refusal::internal)?;
    if complete {
        app.remote.log_is_complete(attempt);
    }
    Ok(Json(LogReply { size }))
}

/// What a stream may have beyond its limit: the note that it was cut.
const LOG_SLACK: u64 = 64 << 10;

/// Whether an attempt is or was placed on a worker.
fn ran_on(f: &Reader<'_>, attempt: AttemptId, worker: WorkerId, name: &str) -> bool {
    let task = attempt.task;
    let placed =
        f.cluster().view().attempt(task).is_some_and(|(placed, _)| placed.placement.worker == worker);
    let is_latest = || crate::logs::latest_attempt(f, task).0 == attempt.number;
    if placed && is_latest() {
        return true;
    }
    let rows = f.history().attempts_of(task.job, Some(task)).unwrap_or_default();
    rows.iter().any(|row| row.attempt == attempt && row.worker == name)
}

/// Appends what is new of a part; gives the size afterwards. Nothing is made for output that is empty.
fn append(path: &FilePath, offset: u64, bytes: &[u8], most: u64) -> io::Result<u64> {
    let size = match std::fs::metadata(path) {
        Ok(about) => about.len(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(e),
    };
    let known = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let new = bytes.get(known..).filter(|new| !new.is_empty() && offset <= size && size < most);
    let Some(new) = new else { return Ok(size) };
    let new = &new[..new.len().min(usize::try_from(most - size).unwrap_or(usize::MAX))];
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(new)?;
    Ok(size + new.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_log_are_appended_once_whatever_is_repeated_or_missing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("1/log");
        assert_eq!(append(&path, 0, b"", 100).expect("nothing to do"), 0);
        assert!(!path.exists(), "nothing is made for nothing");
        assert_eq!(append(&path, 0, b"hello ", 100).expect("appended"), 6);
        assert_eq!(append(&path, 0, b"hello ", 100).expect("repeated"), 6);
        assert_eq!(append(&path, 3, b"lo world", 100).expect("overlapping"), 11);
        assert_eq!(append(&path, 20, b"later", 100).expect("ahead"), 11, "a gap is refused");
        assert_eq!(append(&path, 11, b"!!!!", 13).expect("bounded"), 13);
        assert_eq!(append(&path, 13, b"!", 13).expect("full"), 13);
        assert_eq!(std::fs::read(&path).expect("a file"), b"hello world!!");
    }
}
