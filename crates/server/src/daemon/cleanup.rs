//! Removal of old output, and of snapshots and working directories that no job needs any more.

use super::Options;
use crate::engine::EngineHandle;
use crate::replica::Reader;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Handle;
use warpyard_core::Span;
use warpyard_core::cluster::Job;
use warpyard_snapshot::Store;
use warpyard_worker::agent::{Layout, WorkPruner, prune_logs, snapshots_dir, work_dir};

/// How long a snapshot is kept before a job refers to it.
const SNAPSHOT_GRACE: Duration = Duration::from_secs(3600);

/// How long after one cleanup the next begins.
const INTERVAL: Duration = Duration::from_secs(3600);

/// The same where more was found than is removed at once.
const SHORT_INTERVAL: Duration = Duration::from_secs(5);

/// Starts the thread that cleans up, now and once an hour.
pub(super) fn start(layout: Layout, options: &Options, engine: &EngineHandle, runtime: Handle) {
    let age = Duration::from_micros(options.config.log_age.map_or(30 * 24 * 3600 * 1_000_000, |a| a.0));
    let work = work_dir(layout.data(), options.shared || options.config.shared);
    let (data, log) = (layout.data().to_owned(), layout.lineage().current().log.clone());
    let engine = engine.clone();
    let mut pruner = WorkPruner::new(options.spawner.0.clone());
    let clean_up = move || {
        loop {
            if let Err(e) = prune_logs(&data, age, engine.clock().file_time()) {
                tracing::warn!("old output cannot be removed: {e}");
            }
            let Ok(needed) = runtime.block_on(engine.read(move |f| with_snapshots(f, age))) else { return };
            let ids = needed.values().cloned().collect();
            if let Err(e) =
                Store::prune(&snapshots_dir(&data), &ids, engine.clock().file_time() - SNAPSHOT_GRACE)
            {
                tracing::warn!("old snapshots cannot be removed: {e}");
            }
            let old = engine.clock().file_time() - age;
            let pruned = pruner.prune(&work, log.as_ref(), old, |job| needed.contains_key(&job));
            let more = pruned.unwrap_or_else(|e| {
                tracing::warn!("{} cannot be looked through: {e}", work.display());
                false
            });
            std::thread::sleep(if more { SHORT_INTERVAL } else { INTERVAL });
        }
    };
    std::thread::Builder::new().name("cleanup".into()).spawn(clean_up).expect("a thread can be started");
}

/// Jobs that may still run in their snapshot, and which that is.
fn with_snapshots(f: &Reader<'_>, age: Duration) -> BTreeMap<u64, String> {
    let age = Span(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    let open = |job: &&Job| job.finished.is_none_or(|at| at + age > f.now());
    let jobs = f.cluster().jobs().iter().filter(open);
    jobs.filter_map(|job| Some((job.id.0, job.spec.snapshot.as_ref()?.id.clone()))).collect()
}
