//! Samples of utilisation and queue length, taken every few seconds for the charts.

use crate::engine::EngineHandle;
use crate::replica::Reader;
use crate::store::{DeviceSample, STEPS, Sample, WorkerSample};
use crate::views;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use warpyard_api::wire::GpuView;
use warpyard_core::{Span, TaskState, Time};
use warpyard_worker::agent::Watched;

/// How often a sample is taken of a live server.
pub(crate) const EVERY: Duration = Duration::from_secs(STEPS[0].0);

/// Utilisation and queue length now.
pub(crate) fn sample(f: &Reader<'_>, watched: Option<&Watched>, now: Time) -> Sample {
    let cluster = f.cluster();
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
    let device = |gpu: &GpuView| DeviceSample {
        id: gpu.id.clone(),
        memory: share(gpu.used_bytes + gpu.foreign_bytes, gpu.memory_bytes),
        busy: gpu.utilisation_percent.map(f64::from),
        tasks: gpu.tasks.len() as u64,
    };
    let worker = |w: &warpyard_api::wire::WorkerView| WorkerSample {
        id: w.id.clone(),
        cpus: share(w.used_cpus.0.into(), w.cpus.0.into()),
        memory: share(w.used_memory_bytes, w.memory_bytes),
        cpus_used: w.busy_cpus.map(|busy| share(busy.0.into(), w.cpus.0.into()).min(100.0)),
        memory_used: w.memory_in_use_bytes.map(|used| share(used, w.memory_bytes).min(100.0)),
    };
    let line = f.policy().queue_order(cluster.view(), 100, now);
    let waiting = line.iter().filter_map(|task| match cluster.state(*task) {
        Some(TaskState::Ready { since }) => Some(now.since(since)),
        _ => None,
    });
    Sample {
        ready: f.index().tasks().ready,
        running: cluster.view().active() as u64,
        waited: waiting.max().unwrap_or(Span::ZERO).secs(),
        devices: views::gpus(cluster, watched).iter().map(device).collect(),
        workers: views::workers(cluster, watched).iter().map(worker).collect(),
    }
}

/// Takes samples for as long as the server lives.
pub(crate) async fn sample_periodically(
    engine: EngineHandle,
    watched: Option<Arc<Mutex<Watched>>>,
    every: Duration,
) {
    let mut every = tokio::time::interval(every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        every.tick().await;
        let watched = watched.clone();
        let taken = engine.read(move |f| {
            let now = f.now();
            let sample = {
                let watched =
                    watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
                sample(f, watched.as_deref(), now)
            };
            f.keep_sample(now, &sample)
        });
        match taken.await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => tracing::warn!("a sample could not be kept: {e}"),
            Err(_) => return,
        }
    }
}
