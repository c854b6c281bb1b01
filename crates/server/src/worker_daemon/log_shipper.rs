//! Ships the output of a worker's attempts to its server, by offset, on connections of its own: reports and assignments wait for
//! none of it. The files here are the buffer; a task that prints faster than the network takes is not slowed down. Once the
//! server has all of an attempt's output, its files are removed.

use crate::logs::LogWatches;
use crate::worker_protocol::{LogReply, STREAMS};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use warpyard_api::client::{Client, ClientError};
use warpyard_core::AttemptId;
use warpyard_core::command::AttemptStatus;
use warpyard_core::protocol::Report;
use warpyard_worker::agent::{Layout, split_name};

/// The largest part that is sent at once.
const PART: usize = 1 << 20;

/// Parts of different attempts that are sent at the same time.
const AT_ONCE: usize = 2;

/// The shortest and longest pause after a failed request.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Handle to the shipping tasks.
#[derive(Clone)]
pub(super) struct LogShipper {
    notes: mpsc::UnboundedSender<Note>,
}

/// What a report says of attempts.
struct Note {
    /// Whether it lists every attempt.
    full: bool,
    /// Attempts, and whether each has ended.
    attempts: Vec<(AttemptId, bool)>,
}

/// Sends parts to the server.
#[derive(Clone)]
struct Shipping {
    client: Client,
    layout: Layout,
    watches: Arc<LogWatches>,
    slots: Arc<Semaphore>,
}

impl LogShipper {
    /// Starts shipping. Output that an earlier run of the worker left is shipped with the first full report.
    pub(super) fn start(client: Client, layout: Layout, runtime: &Handle) -> LogShipper {
        let (notes, received) = mpsc::unbounded_channel();
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let shipping = Shipping { client, layout, watches: Arc::default(), slots };
        runtime.spawn(dispatch(shipping, received));
        LogShipper { notes }
    }

    /// Notes which attempts a report says are running and have ended.
    pub(super) fn note(&self, report: &Report) {
        let ended = |status: &AttemptStatus| matches!(status, AttemptStatus::Over(_));
        let attempts = report.attempts.iter().map(|one| (one.attempt, ended(&one.standing))).collect();
        // It only fails when the runtime has stopped.
        let _stopped = self.notes.send(Note { full: report.base.is_none(), attempts });
    }
}

/// Keeps a task for each attempt whose output is not shipped whole.
async fn dispatch(shipping: Shipping, mut notes: mpsc::UnboundedReceiver<Note>) {
    let mut tasks: BTreeMap<AttemptId, watch::Sender<bool>> = BTreeMap::new();
    let mut left_behind = true;
    while let Some(Note { full, attempts }) = notes.recv().await {
        for &(attempt, ended) in &attempts {
            let task = tasks.entry(attempt).or_insert_with(|| shipping.spawn(attempt, ended));
            task.send_if_modified(|known| std::mem::replace(known, ended) != ended);
        }
        if full {
            if std::mem::take(&mut left_behind) {
                for attempt in unshipped(&shipping.layout) {
                    tasks.entry(attempt).or_insert_with(|| shipping.spawn(attempt, true));
                }
            }
            // An attempt stays in reports until the server has acknowledged its end, shipped or not.
            tasks.retain(|attempt, task| {
                attempts.iter().any(|(reported, _)| reported == attempt) || task.receiver_count() > 0
            });
        }
    }
}

/// Attempts with output in the data directory.
fn unshipped(layout: &Layout) -> Vec<AttemptId> {
    let list = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let attempts = list(&layout.data().join("logs")).into_iter().flat_map(|job| list(&job));
    let named = attempts.filter_map(|path| {
        let attempt: AttemptId = split_name(path.file_name()?.to_str()?).1.parse().ok()?;
        // Output of jobs that another log numbered is not this server's.
        (layout.log_dir(attempt) == path).then_some(attempt)
    });
    named.collect()
}

impl Shipping {
    fn spawn(&self, attempt: AttemptId, ended: bool) -> watch::Sender<bool> {
        let (over, known) = watch::channel(ended);
        tokio::spawn(self.clone().ship(attempt, known));
        over
    }

    /// Ships an attempt's output until it has ended and the server has all of it.
    async fn ship(self, attempt: AttemptId, mut over: watch::Receiver<bool>) {
        let dir = self.layout.log_dir(attempt);
        // Before the first look at the files, so that nothing written after that look is missed.
        let mut watch = self.watches.watch(&dir);
        let mut offsets = [0u64; STREAMS.len()];
        loop {
            // Asked before reading: what an attempt that is over wrote is all in the files.
            let ended = *over.borrow_and_update();
            for (stream, offset) in STREAMS.into_iter().zip(&mut offsets) {
                let complete = ended && stream == "log";
                if let Err(e) = self.ship_stream(attempt, stream, offset, complete).await {
                    // The files stay, for whoever looks for them here.
                    tracing::warn!("the output of attempt {attempt} is not taken by the server: {e}");
                    return;
                }
            }
            if ended {
                remove(&dir);
                return;
            }
            tokio::select! {
                () = watch.changed() => {}
                changed = over.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Ships the rest of a stream; fails only where the server refuses it.
    async fn ship_stream(
        &self,
        attempt: AttemptId,
        stream: &'static str,
        offset: &mut u64,
        complete: bool,
    ) -> Result<(), ClientError> {
        let path = self.layout.log_dir(attempt).join(stream);
        let mut pause = PAUSES.0;
        loop {
            let slot = self.slots.acquire().await;
            let (client, path, from) = (self.client.clone(), path.clone(), *offset);
            let sending = tokio::task::spawn_blocking(move || {
                let part = read_part(&path, from).unwrap_or_default();
                // A part that is not full is the last for now.
                let last = part.len() < PART;
                if part.is_empty() && !complete {
                    return Ok((from, true));
                }
                let address = format!("/v1/workers/self/logs/{attempt}/{stream}");
                let query = json!({"offset": from, "complete": complete && last});
                let LogReply { size } = client.post_bytes(&address, &query, &part)?;
                let is_full = size == from && !part.is_empty();
                // Where the server has less than it had, as after a restored backup, the rest is sent again.
                Ok((size, is_full || last && size >= from + part.len() as u64))
            });
            let sent = sending.await.expect("sending does not panic");
            drop(slot);
            match sent {
                Ok((size, caught_up)) => {
                    *offset = size;
                    pause = PAUSES.0;
                    if caught_up {
                        return Ok(());
                    }
                }
                Err(ClientError::Refused(problem)) if problem.status == 404 => {
                    return Err(ClientError::Refused(problem));
                }
                // Not reached, or not registered yet.
                Err(_) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }
}

/// Up to a part of a file, from an offset; nothing where there is no file.
fn read_part(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut part = Vec::new();
    file.take(PART as u64).read_to_end(&mut part)?;
    Ok(part)
}

/// Removes output that was shipped, and the directory of its job with the last.
fn remove(dir: &Path) {
    for stream in STREAMS {
        let _not_there = std::fs::remove_file(dir.join(stream));
    }
    let _not_there = std::fs::remove_dir(dir);
    if let Some(job) = dir.parent() {
        let _others_are_left = std::fs::remove_dir(job);
    }
}
