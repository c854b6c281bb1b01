//! The Cluster page: GPUs, workers and the queue over time, and which workers take tasks.

use super::chart::{Axis, Chart, Heat, Series};
use super::format::{escape, format_size, timestamp};
use super::{Chrome, Frame, PageError, html};
use crate::app::{AppState, CallerExtension};
use crate::replica::Reader;
use crate::store::{BoundCoverage, DeviceSample, HistoryError, Sample, WorkerSample, distance};
use crate::views;
use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use std::collections::BTreeSet;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{WorkerState, WorkerView};
use warpyard_core::Time;
use warpyard_worker::agent::Watched;

/// The time ranges: key in the address, title, seconds, and seconds between two labels.
const SPANS: [(&str, &str, u64, u64); 4] = [
    ("10m", "10 minutes", 600, 120),
    ("1h", "1 hour", 3_600, 600),
    ("24h", "24 hours", 86_400, 14_400),
    ("30d", "30 days", 2_592_000, 432_000),
];

/// The approximate number of samples of a chart.
const POINTS: usize = 150;

/// The most devices or workers with a heat strip of their own.
const ROWS: usize = 64;

#[derive(Deserialize)]
pub(super) struct ClusterQuery {
    #[serde(default)]
    span: String,
}

#[derive(Template)]
#[template(path = "cluster.html")]
struct ClusterPage {
    chrome: Chrome,
    workers: Vec<WorkerRow>,
    charts: Vec<Chart>,
    heat: Vec<Heat>,
    axis: Axis,
    /// Whether the GPUs report their utilisation.
    utilisation: bool,
    spans: Vec<(&'static str, &'static str, bool)>,
    begun: bool,
    /// How admission bounds of estimated models held; empty before any was measured.
    coverage: String,
    admin: bool,
}

/// A row of the table of workers.
struct WorkerRow {
    name: String,
    word: &'static str,
    class: &'static str,
    cpus: String,
    cpus_used: String,
    memory: String,
    memory_used: String,
    gpus: u32,
    running: u64,
    version: String,
    drained: bool,
    drain_reason: Option<String>,
}

pub(super) async fn page(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    Query(query): Query<ClusterQuery>,
) -> Result<Response, PageError> {
    let (frame, watched, target) = (Frame::of(&app, &headers), app.watched.clone(), app.bound_share);
    let draw = move |f: &Reader<'_>| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        let mut page = ClusterPage::of(f, watched.as_deref(), &query.span, frame, who.is_admin())?;
        page.coverage = coverage(f.history().bound_coverage()?, target);
        Ok::<_, HistoryError>(page)
    };
    let page = app.engine.read(draw).await??;
    Ok(html(StatusCode::OK, &page))
}

impl ClusterPage {
    fn of(
        f: &Reader<'_>,
        watched: Option<&Watched>,
        span: &str,
        frame: Frame,
        admin: bool,
    ) -> Result<ClusterPage, HistoryError> {
        let at = SPANS.iter().position(|(word, ..)| *word == span).unwrap_or(0);
        let ((_, _, seconds, tick), now) = (SPANS[at], f.now());
        let samples = f.history().samples(now, seconds, POINTS)?;
        let (step, every) = distance(seconds, POINTS);
        let axis = Axis::ending(timestamp(now).as_millis(), seconds, tick, step * every);
        let (charts, heat) = drawn(&samples, &axis);
        let mut workers = views::workers(f.cluster(), watched);
        frame.remote.annotate(&mut workers, now);
        Ok(ClusterPage {
            workers: workers.into_iter().map(worker_row).collect(),
            begun: !samples.is_empty(),
            charts,
            utilisation: samples.iter().any(|(_, s)| s.devices.iter().any(|d| d.busy.is_some())),
            heat,
            axis,
            spans: SPANS.iter().enumerate().map(|(i, (word, name, ..))| (*word, *name, i == at)).collect(),
            chrome: Chrome::of(f, "Cluster", "cluster", frame),
            coverage: String::new(),
            admin,
        })
    }
}

/// How many of the latest measured runs of estimated models stayed below their bounds.
fn coverage(reached: BoundCoverage, target: f64) -> String {
    let Some(share) = reached.share() else { return String::new() };
    let BoundCoverage { measured, covered } = reached;
    let [share, target] = [share, target].map(|share| (share * 1000.0).round() / 10.0);
    format!(
        "Of the last {measured} measured runs of estimated models, {covered} ({share} %) stayed below their bounds; the \
         target is {target} %."
    )
}

fn worker_row(view: WorkerView) -> WorkerRow {
    let (word, class) = match view.state {
        WorkerState::Up => ("up", "free"),
        WorkerState::Silent => ("silent", "foreign"),
        WorkerState::Draining => ("draining", "foreign"),
        WorkerState::Quarantined => ("quarantined", "foreign"),
        WorkerState::Lost => ("lost", "gone"),
    };
    WorkerRow {
        name: escape(&view.id),
        word,
        class,
        cpus: format!("{} of {}", MilliCpus(view.used_cpus.0), MilliCpus(view.cpus.0)),
        cpus_used: view.busy_cpus.map_or("–".into(), |busy| format!("{:.1}", f64::from(busy.0) / 1000.0)),
        memory: format!("{} of {}", format_size(view.used_memory_bytes), format_size(view.memory_bytes)),
        memory_used: view.memory_in_use_bytes.map_or("–".into(), format_size),
        gpus: view.gpus,
        running: view.running,
        version: escape(&view.version),
        drained: matches!(view.state, WorkerState::Draining | WorkerState::Quarantined),
        drain_reason: view.drain_reason.as_deref().map(escape),
    }
}

/// Line charts and heat strips of the samples.
fn drawn(samples: &[(Time, Sample)], axis: &Axis) -> (Vec<Chart>, Vec<Heat>) {
    let moments: Vec<i64> = samples.iter().map(|(at, _)| timestamp(*at).as_millis()).collect();
    let series = |name: &str, of: &dyn Fn(&Sample) -> Option<f64>| {
        (name.to_owned(), samples.iter().map(|(_, s)| of(s)).collect::<Vec<_>>())
    };
    let longest = samples.iter().map(|(_, s)| s.waited).fold(0.0, f64::max);
    let (unit, seconds) = match longest {
        7_200.0.. => ("h", 3_600.0),
        120.0.. => ("min", 60.0),
        _ => ("s", 1.0),
    };
    let tasks = [series("running", &|s| Some(s.running as f64)), series("queued", &|s| Some(s.ready as f64))];
    let wait = [series("longest wait", &|s| Some(s.waited / seconds))];
    let charts = vec![
        Chart::of("Tasks", "tasks", None, axis, &moments, &tasks),
        Chart::of("Longest wait in the queue", unit, None, axis, &moments, &wait),
    ];
    let per_device = |of: &dyn Fn(&DeviceSample) -> Option<f64>| {
        let one = |id: &String| series(id, &|s| s.devices.iter().find(|d| d.id == *id).and_then(of));
        ids(samples, |s| s.devices.iter().map(|d| &d.id)).iter().map(one).collect::<Vec<_>>()
    };
    let per_worker = |of: &dyn Fn(&WorkerSample) -> Option<f64>| {
        let one = |id: &String| series(id, &|s| s.workers.iter().find(|w| w.id == *id).and_then(of));
        ids(samples, |s| s.workers.iter().map(|w| &w.id)).iter().map(one).collect::<Vec<_>>()
    };
    let strips = [
        ("GPU utilisation", "how busy each GPU was", per_device(&|d| d.busy)),
        ("GPU memory", "reserved by tasks or used by other processes", per_device(&|d| Some(d.memory))),
        ("CPU", ABOUT, both(per_worker(&|w| w.cpus_used), per_worker(&|w| Some(w.cpus)))),
        ("Memory", ABOUT, both(per_worker(&|w| w.memory_used), per_worker(&|w| Some(w.memory)))),
    ];
    // Values that no device reports get no strip.
    let measured = |(_, values): &Series| values.iter().any(Option::is_some);
    let strips = strips.map(|(title, about, all)| (title, about, all.into_iter().filter(measured).collect()));
    let strips = strips.into_iter().filter(|(_, _, all): &(_, _, Vec<Series>)| !all.is_empty());
    let heat = strips.map(|(title, about, all)| Heat::of(title, about, axis, &moments, &all)).collect();
    (charts, heat)
}

const ABOUT: &str = "used by all processes on the machine, and reserved by tasks";

/// Heat strips of what is used of each worker above those of what is reserved.
fn both(used: Vec<Series>, reserved: Vec<Series>) -> Vec<Series> {
    let named = |(name, values): Series, what: &str| (format!("{name} {what}"), values);
    let pairs = used.into_iter().zip(reserved);
    pairs.flat_map(|(used, reserved)| [named(used, "used"), named(reserved, "reserved")]).collect()
}

/// The names of all devices or workers in the samples, as many as have a row.
fn ids<'s, I: Iterator<Item = &'s String>>(
    samples: &'s [(Time, Sample)],
    of: impl Fn(&'s Sample) -> I,
) -> Vec<String> {
    let all: BTreeSet<_> = samples.iter().flat_map(|(_, s)| of(s)).collect();
    all.into_iter().take(ROWS).cloned().collect()
}
