//! Devices, workers and the queue over time, and whether workers take tasks.

use super::chart::Chart;
use super::words::{moment, size, text};
use super::{Chrome, Frame, NoPage, html};
use crate::clock::system_now;
use crate::follower::Follower;
use crate::http::{By, Shared};
use crate::samples::Sample;
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

/// What can be looked back on: the word in the address, its name, and how many seconds.
const SPANS: [(&str, &str, u64); 4] = [
    ("10m", "10 minutes", 600),
    ("1h", "1 hour", 3_600),
    ("24h", "24 hours", 86_400),
    ("30d", "30 days", 2_592_000),
];

/// How many samples a line is made of at most, about.
const POINTS: usize = 150;

/// How many devices have a line of their own.
const LINES: usize = 12;

#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    span: String,
}

#[derive(Template)]
#[template(path = "cluster.html")]
struct ClusterPage {
    chrome: Chrome,
    workers: Vec<Machine>,
    charts: Vec<Chart>,
    spans: Vec<(&'static str, &'static str, bool)>,
    begun: bool,
    admin: bool,
}

/// A worker.
struct Machine {
    name: String,
    word: &'static str,
    class: &'static str,
    cpus: String,
    memory: String,
    gpus: u32,
    running: u64,
    version: String,
    drained: bool,
}

pub(super) async fn page(
    State(app): Shared,
    Extension(who): By,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, NoPage> {
    let frame = Frame::of(&app, &headers);
    let page = app.live.read(move |f| ClusterPage::of(f, &asked.span, frame, who.is_admin())).await??;
    Ok(html(StatusCode::OK, &page))
}

impl ClusterPage {
    fn of(f: &mut Follower, span: &str, frame: Frame, admin: bool) -> rusqlite::Result<ClusterPage> {
        let at = SPANS.iter().position(|(word, ..)| *word == span).unwrap_or(0);
        let samples = f.history().samples(system_now(), SPANS[at].2, POINTS)?;
        Ok(ClusterPage {
            workers: views::workers(f.cluster()).into_iter().map(machine).collect(),
            begun: samples.len() > 1,
            charts: charts(&samples),
            spans: SPANS.iter().enumerate().map(|(i, (word, name, _))| (*word, *name, i == at)).collect(),
            chrome: Chrome::of(f, "Cluster", "cluster", frame),
            admin,
        })
    }
}

fn machine(view: WorkerView) -> Machine {
    let (word, class) = match view.state {
        WorkerState::Up => ("up", "free"),
        WorkerState::Draining => ("draining", "foreign"),
        WorkerState::Lost => ("lost", "gone"),
    };
    Machine {
        name: text(&view.id),
        word,
        class,
        cpus: format!("{} of {} CPUs", MilliCpus(view.used_cpus.0), MilliCpus(view.cpus.0)),
        memory: format!("{} of {}", size(view.used_memory_bytes), size(view.memory_bytes)),
        gpus: view.gpus,
        running: view.running,
        version: text(&view.version),
        drained: view.state == WorkerState::Draining,
    }
}

fn charts(samples: &[(Time, Sample)]) -> Vec<Chart> {
    let moments: Vec<i64> = samples.iter().map(|(at, _)| moment(*at).as_millis()).collect();
    let line = |name: &str, of: &dyn Fn(&Sample) -> Option<f64>| {
        (name.to_owned(), samples.iter().map(|(_, s)| of(s)).collect::<Vec<_>>())
    };
    let devices: BTreeSet<_> =
        samples.iter().flat_map(|(_, s)| s.devices.iter().map(|d| d.id.clone())).collect();
    let workers: BTreeSet<_> =
        samples.iter().flat_map(|(_, s)| s.workers.iter().map(|w| w.id.clone())).collect();
    let per_device = |of: &dyn Fn(&crate::samples::DeviceSample) -> Option<f64>| {
        let one = |id: &String| line(id, &|s| s.devices.iter().find(|d| d.id == *id).and_then(of));
        devices.iter().take(LINES).map(one).collect::<Vec<_>>()
    };
    let longest = samples.iter().map(|(_, s)| s.waited).fold(0.0, f64::max);
    let (unit, seconds) = match longest {
        7_200.0.. => ("h", 3_600.0),
        120.0.. => ("min", 60.0),
        _ => ("s", 1.0),
    };
    let mut all = vec![
        Chart::of(
            "Tasks",
            "tasks",
            None,
            &moments,
            &[line("in line", &|s| Some(s.ready as f64)), line("running", &|s| Some(s.running as f64))],
        ),
        Chart::of(
            "Longest wait in line",
            unit,
            None,
            &moments,
            &[line("wait", &|s| Some(s.waited / seconds))],
        ),
    ];
    if !devices.is_empty() {
        all.push(Chart::of("GPU memory given", "%", Some(100.0), &moments, &per_device(&|d| Some(d.memory))));
        all.push(Chart::of(
            "Tasks on each GPU",
            "tasks",
            None,
            &moments,
            &per_device(&|d| Some(d.tasks as f64)),
        ));
        let busy = per_device(&|d| d.busy);
        if busy.iter().any(|(_, values)| values.iter().any(Option::is_some)) {
            all.push(Chart::of("GPU busy", "%", Some(100.0), &moments, &busy));
        }
    }
    let of_workers = |of: &dyn Fn(&crate::samples::WorkerSample) -> f64| {
        let one = |id: &String| line(id, &|s| s.workers.iter().find(|w| w.id == *id).map(of));
        workers.iter().take(LINES).map(one).collect::<Vec<_>>()
    };
    all.push(Chart::of("CPUs given", "%", Some(100.0), &moments, &of_workers(&|w| w.cpus)));
    all.push(Chart::of("Memory given", "%", Some(100.0), &moments, &of_workers(&|w| w.memory)));
    all
}
