//! The Now page: every GPU with its users, the load of the workers, and the head of the queue.

use super::format::{TimeSpan, escape, format_size, percent, timestamp};
use super::palette::Person;
use super::rows::{self, Row};
use super::{Chrome, Frame, PageError, html};
use crate::app::{AppState, UserColours};
use crate::forecast_cache::Forecast;
use crate::remote_workers::RemoteWorkers;
use crate::replica::Reader;
use crate::views;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::collections::BTreeMap;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{ForeignProcess, GpuTask, GpuView, Timestamp, WorkerState, WorkerView};
use warpyard_worker::agent::Watched;

/// Rows of the queue; the rest is on the Queue page.
const QUEUE_ROWS: usize = 12;

/// The most jobs listed on a tile.
const JOBS_PER_TILE: usize = 5;

/// The most users in the legend.
const USERS: usize = 12;

/// The most characters of a user name.
const USER: usize = 18;

#[derive(Template)]
#[template(path = "now.html")]
struct Now {
    chrome: Chrome,
    tiles: Vec<GpuTile>,
    workers: Vec<WorkerTile>,
    line: Vec<Row>,
    /// The number of ready rows that are not shown.
    more: usize,
    running: usize,
    /// The number of ready tasks, queued or over their array's limit.
    ready: u64,
    blocked: usize,
    free: usize,
    has_gpus: bool,
    users: Vec<User>,
    more_users: usize,
}

/// A user with running or waiting tasks.
#[derive(Default)]
struct User {
    person: Option<Person>,
    /// GPUs with one of their tasks, each counted once.
    gpus: usize,
    running: usize,
    waiting: u64,
}

/// The tile of a GPU.
struct GpuTile {
    id: String,
    kind: String,
    memory: String,
    used: String,
    word: &'static str,
    class: &'static str,
    parts: Vec<BarSegment>,
    jobs: Vec<TileJob>,
    /// The number of further jobs on it.
    others: usize,
    foreign: Option<String>,
    note: Option<String>,
    busy: Option<u8>,
    readings: Vec<String>,
}

/// A segment of a memory bar, in percent.
struct BarSegment {
    x: f64,
    width: f64,
    /// The middle, where the initials are.
    middle: f64,
    initials: String,
    class: String,
}

/// The tasks of one job on a device or worker.
struct TileJob {
    person: Person,
    job: String,
    task: String,
    name: String,
    count: usize,
    share: String,
    since: Option<TimeSpan>,
}

/// The tile of a worker: what is reserved and what is in use.
struct WorkerTile {
    name: String,
    word: &'static str,
    class: &'static str,
    /// Empty where a simulated worker has unlimited CPUs and memory.
    meters: Vec<Meter>,
    running: u64,
    /// Jobs whose tasks have no device.
    jobs: Vec<TileJob>,
    others: usize,
}

/// A reserved and a used amount of a total.
struct Meter {
    name: &'static str,
    reserved: String,
    reserved_percent: f64,
    used: Option<String>,
    used_percent: f64,
    whole: String,
}

pub(super) async fn page(State(app): AppState, headers: HeaderMap) -> Result<Response, PageError> {
    let (starts, watched, frame) = (app.forecasts.latest(), app.watched.clone(), Frame::of(&app, &headers));
    let page = app.engine.read(move |f| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        Now::of(f, watched.as_deref(), &starts, frame)
    });
    let page = page.await?;
    rows::await_forecast(&app, &page.line);
    Ok(html(StatusCode::OK, &page))
}

impl Now {
    fn of(f: &Reader<'_>, watched: Option<&Watched>, starts: &Forecast, frame: Frame) -> Now {
        let (cluster, now) = (f.cluster(), f.now());
        let (colours, remote) = (frame.colours.clone(), frame.remote.clone());
        let gpus = views::gpus(cluster, watched);
        let (line, held_back) = (rows::queued(f, 0, QUEUE_ROWS), rows::array_limited(cluster));
        let nodes = cluster.view().ready_count();
        let waiting = line.iter().chain(&held_back).take(QUEUE_ROWS);
        let drawn = waiting.filter_map(|entry| rows::build_row(f, entry, starts, &colours, now));
        let mut users = users(f, &gpus, &colours);
        let more_users = users.len().saturating_sub(USERS);
        users.truncate(USERS);
        Now {
            free: gpus.iter().filter(|g| g.tasks.is_empty() && g.unavailable.is_none()).count(),
            has_gpus: !gpus.is_empty(),
            tiles: gpus.iter().map(|gpu| tile(gpu, &colours, timestamp(now))).collect(),
            workers: worker_tiles(f, watched, &remote, &colours),
            more: usize::saturating_sub(nodes + held_back.len(), QUEUE_ROWS),
            line: drawn.collect(),
            running: cluster.view().active(),
            ready: f.index().tasks().ready,
            blocked: f.index().blocked_nodes(),
            users,
            more_users,
            chrome: Chrome::of(f, "Now", "now", frame),
        }
    }
}

/// Users with running or ready tasks, those with most GPUs first.
fn users(f: &Reader<'_>, gpus: &[GpuView], colours: &UserColours) -> Vec<User> {
    let mut users: BTreeMap<String, User> = BTreeMap::new();
    for gpu in gpus {
        let here: std::collections::BTreeSet<_> = gpu.tasks.iter().map(|task| &task.user).collect();
        here.into_iter().for_each(|user| users.entry(user.clone()).or_default().gpus += 1);
    }
    for (name, of_user) in f.index().users().filter(|(_, of_user)| of_user.running + of_user.ready > 0) {
        let user = users.entry(name.to_owned()).or_default();
        (user.running, user.waiting) = (of_user.running as usize, of_user.ready);
    }
    let named = |(name, user): (String, User)| User { person: Some(colours.person(&name, USER)), ..user };
    let mut users: Vec<_> = users.into_iter().map(named).collect();
    users.sort_by_key(|user| std::cmp::Reverse((user.gpus, user.running, user.waiting)));
    users
}

fn tile(gpu: &GpuView, colours: &UserColours, now: Timestamp) -> GpuTile {
    let (word, class) = match (&gpu.unavailable, gpu.foreign_bytes, gpu.tasks.len()) {
        (Some(_), 1.., _) => ("other process", "foreign"),
        (Some(_), _, _) => ("unavailable", "gone"),
        (None, _, 0) => ("free", "free"),
        (None, _, 1) => ("in use", "busy"),
        (None, _, _) => ("shared", "busy"),
    };
    let mut parts = Vec::new();
    let mut x = 0.0;
    for task in &gpu.tasks {
        let person = colours.person(&task.user, USER);
        let width = percent(task.memory_bytes, gpu.memory_bytes).min(100.0 - x);
        let initials = if width >= 11.0 { person.initials } else { String::new() };
        parts.push(BarSegment {
            x,
            width,
            middle: x + width / 2.0,
            initials,
            class: format!("u{}", person.colour),
        });
        x += width;
    }
    if gpu.foreign_bytes > 0 {
        let width = percent(gpu.foreign_bytes, gpu.memory_bytes).min(100.0 - x);
        let middle = x + width / 2.0;
        parts.push(BarSegment { x, width, middle, initials: String::new(), class: "hatched".into() });
    }
    let promised: u64 = gpu.tasks.iter().map(|t| t.memory_bytes).sum();
    let jobs = jobs_on(gpu, colours, now);
    GpuTile {
        id: escape(&gpu.id),
        kind: escape(&gpu.kind),
        memory: format_size(gpu.memory_bytes),
        used: format_size(promised.saturating_add(gpu.foreign_bytes).min(gpu.memory_bytes)),
        word,
        class,
        parts,
        others: jobs.len().saturating_sub(JOBS_PER_TILE),
        jobs: jobs.into_iter().take(JOBS_PER_TILE).collect(),
        foreign: (gpu.foreign_bytes > 0).then(|| foreign(gpu)),
        note: gpu.unavailable.as_deref().map(escape),
        busy: gpu.utilisation_percent.map(|busy| busy.min(100)),
        readings: readings(gpu),
    }
}

/// The jobs on a GPU, with the tasks of each together.
fn jobs_on(gpu: &GpuView, colours: &UserColours, now: Timestamp) -> Vec<TileJob> {
    let job_of = |task: &GpuTask| task.task.split(['.', '[']).next().unwrap_or_default().to_owned();
    let mut jobs: Vec<(String, Vec<&GpuTask>)> = Vec::new();
    for task in &gpu.tasks {
        let job = job_of(task);
        match jobs.iter_mut().find(|(known, _)| *known == job) {
            Some((_, tasks)) => tasks.push(task),
            None => jobs.push((job, vec![task])),
        }
    }
    let one = |(job, tasks): (String, Vec<&GpuTask>)| {
        let bytes: u64 = tasks.iter().map(|task| task.memory_bytes).sum();
        TileJob {
            person: colours.person(&tasks[0].user, USER),
            task: escape(if tasks.len() == 1 { &tasks[0].task } else { &job }),
            name: escape(tasks[0].name.as_deref().unwrap_or_default()),
            count: tasks.len(),
            share: if bytes >= gpu.memory_bytes && tasks.len() == 1 {
                "whole GPU".into()
            } else if let Some(requested) = over_request(&tasks) {
                format!("{}, requested {}", format_size(bytes), format_size(requested))
            } else {
                format_size(bytes)
            },
            since: tasks.iter().filter_map(|task| task.since).min().map(|at| TimeSpan::since(at, now)),
            job,
        }
    };
    jobs.into_iter().map(one).collect()
}

/// The requested memory of tasks, where one of them uses more.
fn over_request(tasks: &[&GpuTask]) -> Option<u64> {
    let over = tasks.iter().any(|task| task.requested_bytes.is_some());
    over.then(|| tasks.iter().map(|task| task.requested_bytes.unwrap_or(task.memory_bytes)).sum())
}

/// The memory used by foreign processes, and which they are.
fn foreign(gpu: &GpuView) -> String {
    let process = |p: &ForeignProcess| format!("pid {}", p.pid);
    let some: Vec<_> = gpu.foreign.iter().take(JOBS_PER_TILE).map(process).collect();
    let who = if some.is_empty() { String::new() } else { format!(" ({})", some.join(", ")) };
    format!("{} used by processes outside warpyard{who}", format_size(gpu.foreign_bytes))
}

/// Temperature and power, where the device reports them.
fn readings(gpu: &GpuView) -> Vec<String> {
    let degrees = gpu.temperature_celsius.map(|degrees| format!("{degrees} °C"));
    let watts = gpu.power_watts.map(|watts| format!("{watts} W"));
    degrees.into_iter().chain(watts).collect()
}

/// The memory from which on a simulated worker counts as unlimited.
const UNLIMITED: u64 = 1 << 50;

fn worker_tiles(
    f: &Reader<'_>,
    watched: Option<&Watched>,
    remote: &RemoteWorkers,
    colours: &UserColours,
) -> Vec<WorkerTile> {
    let (cluster, now) = (f.cluster(), timestamp(f.now()));
    let machine = |(view, (_, worker)): (WorkerView, (_, &warpyard_core::cluster::Worker))| {
        let (word, class) = match view.state {
            WorkerState::Up => ("up", "free"),
            WorkerState::Silent => ("silent", "foreign"),
            WorkerState::Draining => ("draining", "foreign"),
            WorkerState::Quarantined => ("quarantined", "foreign"),
            WorkerState::Lost => ("lost", "gone"),
        };
        let bare = worker.tasks().iter().filter_map(|&id| {
            let (attempt, _) = cluster.view().attempt(id).filter(|(a, _)| a.placement.devices.is_empty())?;
            let job = cluster.job(id.job)?;
            Some(TileJob {
                person: colours.person(&job.user, USER),
                job: job.id.to_string(),
                task: escape(&views::task_name(cluster, id)),
                name: escape(&job.spec.name),
                count: 1,
                share: cpus(job.spec.tasks[id.node as usize].needs.cpus),
                since: Some(TimeSpan::since(timestamp(attempt.started.unwrap_or(attempt.placed)), now)),
            })
        });
        let mut jobs: Vec<_> = bare.take(200).collect();
        let others = jobs.len().saturating_sub(JOBS_PER_TILE);
        jobs.truncate(JOBS_PER_TILE);
        let meters = [
            Meter {
                name: "CPU",
                reserved: MilliCpus(view.used_cpus.0).to_string(),
                reserved_percent: percent(view.used_cpus.0.into(), view.cpus.0.into()),
                used: view.busy_cpus.map(|busy| format!("{:.1}", f64::from(busy.0) / 1000.0)),
                used_percent: percent(view.busy_cpus.map_or(0, |busy| busy.0.into()), view.cpus.0.into()),
                whole: cpus(view.cpus.0),
            },
            Meter {
                name: "memory",
                reserved: format_size(view.used_memory_bytes),
                reserved_percent: percent(view.used_memory_bytes, view.memory_bytes),
                used: view.memory_in_use_bytes.map(format_size),
                used_percent: percent(view.memory_in_use_bytes.unwrap_or(0), view.memory_bytes),
                whole: format_size(view.memory_bytes),
            },
        ];
        let counted = view.memory_bytes < UNLIMITED;
        WorkerTile {
            name: escape(&view.id),
            word,
            class,
            meters: meters.into_iter().filter(|_| counted).collect(),
            running: view.running,
            jobs,
            others,
        }
    };
    let mut views = views::workers(cluster, watched);
    remote.annotate(&mut views, f.now());
    views.into_iter().zip(cluster.workers()).map(machine).collect()
}

fn cpus(milli: u32) -> String {
    match milli {
        1000 => "1 CPU".into(),
        milli => format!("{} CPUs", MilliCpus(milli)),
    }
}
