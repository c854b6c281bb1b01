//! The first page: every device and who is on it, and the line.

use super::rows::{self, Entry, Row};
use super::words::{Moment, moment, percent, size, text};
use super::{Chrome, Frame, NoPage, html};
use crate::clock::system_now;
use crate::follower::Follower;
use crate::http::Shared;
use crate::outlooks::Starts;
use crate::views;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{ForeignProcess, GpuView, Timestamp, WorkerState};
use warpyard_worker::agent::Watched;

/// How much of the line the page shows; the rest has a page of its own.
const SHOWN: usize = 12;

/// How many tasks a tile names.
const NAMED: usize = 6;

#[derive(Template)]
#[template(path = "now.html")]
struct Now {
    chrome: Chrome,
    tiles: Vec<Tile>,
    workers: Vec<Machine>,
    line: Vec<Row>,
    /// How many rows of what is ready are not shown.
    more: usize,
    running: usize,
    /// How many tasks could start, in line or held back by their own array.
    ready: u64,
    blocked: usize,
    free: usize,
    has_gpus: bool,
}

/// A device.
struct Tile {
    id: String,
    kind: String,
    memory: String,
    used: String,
    word: &'static str,
    class: &'static str,
    parts: Vec<Part>,
    tasks: Vec<Someone>,
    /// How many more are on it.
    others: usize,
    foreign: Option<String>,
    note: Option<String>,
    readings: Vec<Reading>,
}

/// A part of a memory bar, in percent.
struct Part {
    x: f64,
    width: f64,
    /// The middle, for the letter.
    middle: f64,
    letter: String,
    class: String,
}

/// A task on a device or worker.
struct Someone {
    letter: String,
    class: String,
    job: String,
    task: String,
    name: String,
    user: String,
    share: String,
    since: Option<Moment>,
}

struct Reading {
    label: &'static str,
    value: String,
    meter: Option<f64>,
}

/// A worker's processors and memory.
struct Machine {
    name: String,
    word: &'static str,
    class: &'static str,
    cpus: String,
    cpus_percent: f64,
    memory: String,
    memory_percent: f64,
    running: u64,
    /// Those of its tasks that have no device.
    tasks: Vec<Someone>,
    others: usize,
}

pub(super) async fn page(State(app): Shared, headers: HeaderMap) -> Result<Response, NoPage> {
    let (starts, watched, frame) =
        (app.outlooks.latest(&app.live), app.watched.clone(), Frame::of(&app, &headers));
    let page = app.live.read(move |f| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        Now::of(f, watched.as_deref(), &starts, frame)
    });
    Ok(html(StatusCode::OK, &page.await?))
}

impl Now {
    fn of(f: &Follower, watched: Option<&Watched>, starts: &Starts, frame: Frame) -> Now {
        let (cluster, now) = (f.cluster(), system_now());
        let gpus = views::gpus(cluster, watched);
        let (line, held_back) = (rows::in_line(f, SHOWN), rows::held_back(cluster));
        let in_line = cluster.view().ready_nodes();
        let (nodes, ready) =
            in_line.fold((0, 0), |(nodes, tasks), node| (nodes + 1, tasks + rows::ready_of(cluster, node)));
        let waiting = line.iter().chain(&held_back).take(SHOWN);
        let drawn = waiting.filter_map(|entry| rows::row(f, entry, starts, now));
        Now {
            chrome: Chrome::of(f, "Now", "now", frame),
            free: gpus.iter().filter(|g| g.tasks.is_empty() && g.unavailable.is_none()).count(),
            has_gpus: !gpus.is_empty(),
            tiles: gpus.iter().map(|gpu| tile(gpu, moment(now))).collect(),
            workers: machines(f, moment(now)),
            more: usize::saturating_sub(nodes + held_back.len(), SHOWN),
            line: drawn.collect(),
            running: cluster.view().active(),
            ready: ready + held_back.iter().map(Entry::ready).sum::<u64>(),
            blocked: rows::blocked(cluster).len(),
        }
    }
}

fn tile(gpu: &GpuView, now: Timestamp) -> Tile {
    let (word, class) = match (&gpu.unavailable, gpu.foreign_bytes, gpu.tasks.len()) {
        (Some(_), 1.., _) => ("not ours", "foreign"),
        (Some(_), _, _) => ("unavailable", "gone"),
        (None, _, 0) => ("free", "free"),
        (None, _, 1) => ("in use", "busy"),
        (None, _, _) => ("shared", "busy"),
    };
    let letter = |at: usize| ((b'A' + (at % 26) as u8) as char).to_string();
    let mut parts = Vec::new();
    let mut x = 0.0;
    for (at, task) in gpu.tasks.iter().enumerate() {
        let width = percent(task.memory_bytes, gpu.memory_bytes).min(100.0 - x);
        let letter = if width >= 7.0 { letter(at) } else { String::new() };
        parts.push(Part { x, width, middle: x + width / 2.0, letter, class: format!("s{}", at % 6) });
        x += width;
    }
    if gpu.foreign_bytes > 0 {
        let width = percent(gpu.foreign_bytes, gpu.memory_bytes).min(100.0 - x);
        parts.push(Part {
            x,
            width,
            middle: x + width / 2.0,
            letter: String::new(),
            class: "hatched".into(),
        });
    }
    let someone = |(at, task): (usize, &warpyard_api::wire::GpuTask)| Someone {
        letter: letter(at),
        class: format!("s{}", at % 6),
        job: task.task.split(['.', '[']).next().unwrap_or_default().to_owned(),
        task: text(&task.task),
        name: text(task.name.as_deref().unwrap_or_default()),
        user: text(&task.user),
        share: if task.memory_bytes >= gpu.memory_bytes {
            "all of it".into()
        } else {
            size(task.memory_bytes)
        },
        since: task.since.map(|at| Moment::since(at, now)),
    };
    let promised: u64 = gpu.tasks.iter().map(|t| t.memory_bytes).sum();
    Tile {
        id: text(&gpu.id),
        kind: text(&gpu.kind),
        memory: size(gpu.memory_bytes),
        used: size(promised.saturating_add(gpu.foreign_bytes).min(gpu.memory_bytes)),
        word,
        class,
        parts,
        tasks: gpu.tasks.iter().enumerate().take(NAMED).map(someone).collect(),
        others: gpu.tasks.len().saturating_sub(NAMED),
        foreign: (gpu.foreign_bytes > 0).then(|| foreign(gpu)),
        note: gpu.unavailable.as_deref().map(text),
        readings: readings(gpu),
    }
}

/// How much of a device is not ours, and which processes have it.
fn foreign(gpu: &GpuView) -> String {
    let process = |p: &ForeignProcess| format!("pid {}", p.pid);
    let some: Vec<_> = gpu.foreign.iter().take(NAMED).map(process).collect();
    let who = if some.is_empty() { String::new() } else { format!(" ({})", some.join(", ")) };
    format!("{} by processes that are not warpyard's{who}", size(gpu.foreign_bytes))
}

/// What the device tells of itself; what it does not tell is left out.
fn readings(gpu: &GpuView) -> Vec<Reading> {
    let mut all = Vec::new();
    if let Some(percent) = gpu.utilisation_percent {
        all.push(Reading {
            label: "busy",
            value: format!("{percent} %"),
            meter: Some(f64::from(percent.min(100))),
        });
    }
    if let Some(degrees) = gpu.temperature_celsius {
        all.push(Reading { label: "heat", value: format!("{degrees} °C"), meter: None });
    }
    if let Some(watts) = gpu.power_watts {
        all.push(Reading { label: "power", value: format!("{watts} W"), meter: None });
    }
    all
}

/// A simulated worker of which nothing but GPUs was said has as much of the rest as anyone may want.
const ENDLESS: u64 = 1 << 50;

fn machines(f: &Follower, now: Timestamp) -> Vec<Machine> {
    let cluster = f.cluster();
    let machine =
        |(view, (_, worker)): (warpyard_api::wire::WorkerView, (_, &warpyard_core::cluster::Worker))| {
            let (word, class) = match view.state {
                WorkerState::Up => ("up", "free"),
                WorkerState::Draining => ("draining", "foreign"),
                WorkerState::Lost => ("lost", "gone"),
            };
            let bare = worker.tasks().iter().filter_map(|&id| {
                let (attempt, _) =
                    cluster.view().attempt(id).filter(|(a, _)| a.placement.devices.is_empty())?;
                let job = cluster.job(id.job)?;
                Some(Someone {
                    letter: String::new(),
                    class: String::new(),
                    job: job.id.to_string(),
                    task: text(&views::task_name(cluster, id)),
                    name: text(&job.spec.name),
                    user: text(&job.user),
                    share: cpus(job.spec.tasks[id.node as usize].needs.cpus),
                    since: Some(Moment::since(moment(attempt.started.unwrap_or(attempt.placed)), now)),
                })
            });
            let mut tasks: Vec<_> = bare.take(200).collect();
            let others = tasks.len().saturating_sub(NAMED);
            tasks.truncate(NAMED);
            Machine {
                name: text(&view.id),
                word,
                class,
                cpus: match view.memory_bytes {
                    ENDLESS.. => "not counted".into(),
                    _ => format!("{} of {}", MilliCpus(view.used_cpus.0), cpus(view.cpus.0)),
                },
                cpus_percent: percent(view.used_cpus.0.into(), view.cpus.0.into()),
                memory: match view.memory_bytes {
                    ENDLESS.. => "not counted".into(),
                    all => format!("{} of {}", size(view.used_memory_bytes), size(all)),
                },
                memory_percent: percent(view.used_memory_bytes, view.memory_bytes),
                running: view.running,
                tasks,
                others,
            }
        };
    views::workers(cluster).into_iter().zip(cluster.workers()).map(machine).collect()
}

fn cpus(milli: u32) -> String {
    match milli {
        1000 => "1 CPU".into(),
        milli => format!("{} CPUs", MilliCpus(milli)),
    }
}
