//! Output of tasks: from the first byte, and on as they print more.

mod watch;

use crate::engine::{EngineHandle, EngineStopped};
use crate::remote_workers::RemoteWorkers;
use crate::replica::Reader;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;
use warpyard_api::wire::LogStream;
use warpyard_core::{AttemptId, TaskId, TaskState};
use warpyard_worker::agent::Layout;

pub(crate) use watch::{LogWatch, LogWatches};

const CHUNK: usize = 64 << 10;

/// The most of a log that one request for a part of it gets.
const PART: u64 = 8 << 20;

/// Which output is wanted.
#[derive(Clone, Debug)]
pub(crate) struct LogRequest {
    pub(crate) task: TaskId,
    /// Which try; unless one is named the latest, and where it is followed, those after it too.
    pub(crate) attempt: Option<u32>,
    pub(crate) stream: LogStream,
    pub(crate) follow: bool,
    /// How many bytes of the first attempt to leave out.
    pub(crate) from: u64,
}

/// What comes of following a log; an error breaks the answer off, so that nobody takes a log cut short for a whole one.
pub(crate) type Chunk = Result<Bytes, EngineStopped>;

/// Sends the output until there is no more, nobody listens, or the server stops.
pub(crate) async fn send(
    engine: EngineHandle,
    layout: Layout,
    watches: Arc<LogWatches>,
    remote: Arc<RemoteWorkers>,
    wanted: LogRequest,
    to: mpsc::Sender<Chunk>,
) {
    if let Err(stopped) = send_all(engine, layout, &watches, &remote, wanted, &to).await {
        let _gone = to.send(Err(stopped)).await;
    }
}

/// With no try named, it begins with the latest and goes on with those after it.
async fn send_all(
    engine: EngineHandle,
    layout: Layout,
    watches: &LogWatches,
    remote: &RemoteWorkers,
    wanted: LogRequest,
    to: &mpsc::Sender<Chunk>,
) -> Result<(), EngineStopped> {
    let task = wanted.task;
    let latest = move |f: &Reader<'_>| latest_attempt(f, task);
    let mut number = match wanted.attempt {
        Some(named) => named,
        None => engine.read(latest).await?.0.max(1),
    };
    let mut from = wanted.from;
    loop {
        let attempt = task.attempt(number);
        // Before the first look at the file, so that nothing written after that look is missed.
        let mut watch = wanted.follow.then(|| watches.watch(&layout.log_dir(attempt)));
        let mut output = LogReader::new(&layout, attempt, wanted.stream, std::mem::take(&mut from));
        let over = loop {
            // Asked before reading: what an attempt that is over wrote is all in the file.
            let (newest, over) = engine.read(latest).await?;
            let is_open = output.send_rest(to).await;
            let Some(watch) = watch.as_mut().filter(|_| is_open) else { return Ok(()) };
            if over || newest > number {
                if !send_late(&engine, remote, attempt, watch, &mut output, to).await? {
                    return Ok(());
                }
                break over && newest <= number;
            }
            let mut superseded = std::pin::pin!(engine.superseded(attempt));
            loop {
                tokio::select! {
                    () = watch.changed() => {
                        if !output.send_rest(to).await {
                            return Ok(());
                        }
                    }
                    superseded = &mut superseded => break superseded?,
                    () = to.closed() => return Ok(()),
                }
            }
        };
        if over || wanted.attempt.is_some() {
            return Ok(());
        }
        number += 1;
    }
}

/// How long the output of an attempt that ended on another machine may still be on its way, without any of it arriving.
const LATE: Duration = Duration::from_secs(10);

/// Sends what arrives of an attempt's output after its end, where it ran on another machine; says whether anyone still listens.
async fn send_late(
    engine: &EngineHandle,
    remote: &RemoteWorkers,
    attempt: AttemptId,
    watch: &mut LogWatch,
    output: &mut LogReader,
    to: &mpsc::Sender<Chunk>,
) -> Result<bool, EngineStopped> {
    if !engine.read(move |f| may_be_late(f, attempt)).await? {
        return Ok(true);
    }
    loop {
        let completed = remote.log_completed();
        // Asked before reading: a complete log is all in the file.
        let complete = remote.has_log_of(attempt);
        if !output.send_rest(to).await {
            return Ok(false);
        }
        let progressed = async {
            tokio::select! {
                () = watch.changed() => {}
                () = completed => {}
            }
        };
        if complete || tokio::time::timeout(LATE, progressed).await.is_err() {
            return Ok(true);
        }
    }
}

/// Whether more of an ended attempt's output may arrive: it ran on a worker of another machine that is in contact.
fn may_be_late(f: &Reader<'_>, attempt: AttemptId) -> bool {
    let rows = f.history().attempts_of(attempt.task.job, Some(attempt.task)).unwrap_or_default();
    let row = rows.into_iter().find(|row| row.attempt == attempt);
    let worker = row.and_then(|row| f.cluster().worker_named(&row.worker));
    let worker = worker.and_then(|id| f.cluster().worker(id));
    worker.is_some_and(|worker| worker.online && worker.info.lease.is_some())
}

/// A part of what an attempt printed.
pub(crate) struct LogPart {
    bytes: Vec<u8>,
    from: u64,
    size: u64,
}

impl IntoResponse for LogPart {
    fn into_response(self) -> Response {
        let LogPart { bytes, from, size } = self;
        let last = (from + bytes.len() as u64).saturating_sub(1);
        let headers = [
            (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
            (CONTENT_RANGE, format!("bytes {from}-{last}/{size}")),
        ];
        (StatusCode::PARTIAL_CONTENT, headers, bytes).into_response()
    }
}

/// The part of a log that a `Range` asks for, at most [`PART`] of it; where the log has no such part, its size.
pub(crate) async fn part(
    engine: &EngineHandle,
    layout: &Layout,
    wanted: &LogRequest,
    range: &str,
) -> Result<Result<LogPart, u64>, EngineStopped> {
    let task = wanted.task;
    let number = match wanted.attempt {
        Some(named) => named,
        None => engine.read(move |f| latest_attempt(f, task)).await?.0.max(1),
    };
    let path = layout.log_dir(task.attempt(number)).join(file_name(wanted.stream));
    let Ok(file) = File::open(path).await else { return Ok(Err(0)) };
    let Ok(about) = file.metadata().await else { return Ok(Err(0)) };
    Ok(read_part(file, about.len(), range).await.ok_or(about.len()))
}

async fn read_part(mut file: File, size: u64, range: &str) -> Option<LogPart> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = match (from.trim(), to.trim()) {
        ("", last) => (size.saturating_sub(last.parse().ok()?), size),
        (from, "") => (from.parse().ok()?, size),
        (from, last) => (from.parse().ok()?, last.parse::<u64>().ok()?.saturating_add(1).min(size)),
    };
    if from >= to {
        return None;
    }
    file.seek(SeekFrom::Start(from)).await.ok()?;
    let mut bytes = vec![0; (to - from).min(PART) as usize];
    file.read_exact(&mut bytes).await.ok()?;
    Some(LogPart { bytes, from, size })
}

/// The number of a task's latest attempt, and whether the task is over.
pub(crate) fn latest_attempt(f: &Reader<'_>, task: TaskId) -> (u32, bool) {
    let over = !matches!(f.cluster().state(task), Some(s) if !matches!(s, TaskState::Done(_)));
    let live = f.cluster().job(task.job).and_then(|j| j.nodes[task.node as usize].live.get(&task.index));
    let number = match live {
        Some(live) => live.attempts,
        None => {
            let rows = f.history().attempts_of(task.job, Some(task)).unwrap_or_default();
            rows.last().map_or(0, |r| r.attempt.number)
        }
    };
    (number, over)
}

fn file_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Both => "log",
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    }
}

/// A file that grows, and may not be there yet.
struct LogReader {
    layout: Layout,
    attempt: AttemptId,
    name: &'static str,
    /// How many bytes to leave out.
    from: u64,
    file: Option<File>,
}

impl LogReader {
    fn new(layout: &Layout, attempt: AttemptId, stream: LogStream, from: u64) -> LogReader {
        LogReader { layout: layout.clone(), attempt, name: file_name(stream), from, file: None }
    }

    /// Sends what is in the file and was not sent yet; says whether anyone still listens.
    async fn send_rest(&mut self, to: &mpsc::Sender<Chunk>) -> bool {
        while let Some(chunk) = self.next().await {
            if to.send(Ok(chunk)).await.is_err() {
                return false;
            }
        }
        true
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.file.is_none() {
            let path = self.layout.log_dir(self.attempt).join(self.name);
            let mut file = File::open(path).await.ok()?;
            file.seek(SeekFrom::Start(self.from)).await.ok()?;
            self.file = Some(file);
        }
        let mut chunk = vec![0; CHUNK];
        let n = self.file.as_mut()?.read(&mut chunk).await.ok()?;
        if n == 0 {
            return None;
        }
        chunk.truncate(n);
        Some(chunk.into())
    }
}
