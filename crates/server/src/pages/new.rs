//! The form of a new job. The form itself is made by its script from the job document's schema; here is what it stands
//! beside: who submits, and what is free now.

use super::words::{size, text};
use super::{Chrome, Frame, NoPage, html};
use crate::http::{By, Shared};
use crate::views;
use crate::who::Caller;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{GpuView, WorkerState, WorkerView};

#[derive(Template)]
#[template(path = "new.html")]
struct New {
    chrome: Chrome,
    user: String,
    /// Whether they submit as themselves only.
    fixed: bool,
    home: String,
    devices: Vec<Free>,
    cpus: Vec<String>,
}

/// A device and what it has to give.
struct Free {
    id: String,
    kind: String,
    free: String,
    word: &'static str,
}

pub(super) async fn page(
    State(app): Shared,
    Extension(who): By,
    headers: HeaderMap,
) -> Result<Response, NoPage> {
    let (frame, watched) = (Frame::of(&app, &headers), app.watched.clone());
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (user, home) = match &who {
        Caller::Owner => (variable("USER"), variable("HOME")),
        Caller::Account { person, .. } => (person.name.clone(), person.home.display().to_string()),
    };
    let fixed = !who.is_admin();
    let page = app.live.read(move |f| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        let gpus = views::gpus(f.cluster(), watched.as_deref());
        New {
            chrome: Chrome::of(f, "New job", "new", frame),
            user: text(if user.is_empty() { "owner" } else { &user }),
            fixed,
            home: text(if home.is_empty() { "/" } else { &home }),
            devices: gpus.iter().map(free).collect(),
            cpus: views::workers(f.cluster()).iter().map(cpus).collect(),
        }
    });
    Ok(html(StatusCode::OK, &page.await?))
}

fn free(gpu: &GpuView) -> Free {
    let word = match (&gpu.unavailable, gpu.tasks.len(), gpu.free_bytes) {
        (Some(_), ..) => "unavailable",
        (None, 0, _) => "free",
        (None, _, 0) => "taken",
        _ => "shared",
    };
    let bytes = if gpu.unavailable.is_some() { 0 } else { gpu.free_bytes };
    Free { id: text(&gpu.id), kind: text(&gpu.kind), free: size(bytes), word }
}

fn cpus(worker: &WorkerView) -> String {
    let left =
        if worker.state == WorkerState::Up { worker.cpus.0.saturating_sub(worker.used_cpus.0) } else { 0 };
    let memory = worker.memory_bytes.saturating_sub(worker.used_memory_bytes);
    format!("{}: {} CPUs and {} of memory. ", text(&worker.id), MilliCpus(left), size(memory))
}
