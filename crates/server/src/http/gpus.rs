//! GPUs: listed as JSON or as plain text for scripts, and whether given ones are free.

use super::refusal::Refusal;
use super::{AppState, CallerExtension, HIDDEN, SOMEONE};
use crate::caller::Caller;
use crate::http::App;
use crate::views;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use std::fmt::Write;
use warpyard_api::job::DeviceRef;
use warpyard_api::problem::{Problem, code};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{AvailabilityView, GpuAvailability, GpuView};
use warpyard_worker::accounts::{Account, process_owner};

pub(super) async fn all(app: &App) -> Result<Vec<GpuView>, crate::engine::EngineStopped> {
    let watched = app.watched.clone();
    let look = move |f: &crate::replica::Reader<'_>| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        views::gpus(f.cluster(), watched.as_deref())
    };
    let mut gpus = app.engine.read(look).await?;
    for process in gpus.iter_mut().flat_map(|gpu| &mut gpu.foreign) {
        let owner = i32::try_from(process.pid).ok().and_then(process_owner);
        process.user = owner.and_then(|uid| Account::by_uid(uid).ok().flatten()).map(|person| person.name);
    }
    Ok(gpus)
}

/// Every GPU as the caller may see it: in private mode the tasks of others have no names.
pub(crate) async fn seen(app: &App, who: &Caller) -> Result<Vec<GpuView>, crate::engine::EngineStopped> {
    let mut gpus = all(app).await?;
    for gpu in &mut gpus {
        gpu.foreign.retain(|process| !app.hides(who, process.user.as_deref().unwrap_or_default()));
    }
    let others = gpus.iter_mut().flat_map(|gpu| &mut gpu.tasks).filter(|task| app.hides(who, &task.user));
    for task in others {
        (task.task, task.user, task.name) = (HIDDEN.into(), SOMEONE.into(), None);
    }
    Ok(gpus)
}

pub(super) async fn list(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let gpus = seen(&app, &who).await?;
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if accept.trim_start().starts_with("text/plain") {
        let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (VARY, "accept")];
        return Ok((headers, as_text(&gpus)).into_response());
    }
    Ok(([(VARY, "accept")], Json(gpus)).into_response())
}

/// One line for each GPU: id, type, reserved of total memory, and its tasks, separated by tabs.
fn as_text(gpus: &[GpuView]) -> String {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let mut out = String::new();
    for gpu in gpus {
        let who: Vec<_> = gpu
            .tasks
            .iter()
            .map(|t| format!("{}({})", escape_controls(&t.task), escape_controls(&t.user)))
            .collect();
        let state = match occupied(gpu) {
            None => "free".to_owned(),
            Some(why) if who.is_empty() => why,
            Some(_) => who.join(" "),
        };
        writeln!(
            out,
            "{}\t{}\t{:.1}/{:.1} GiB\t{state}",
            escape_controls(&gpu.id),
            escape_controls(&gpu.kind),
            gib(gpu.memory_bytes.saturating_sub(gpu.free_bytes)),
            gib(gpu.memory_bytes)
        )
        .expect("a string takes all");
    }
    out
}

/// Why a GPU is not free.
fn occupied(gpu: &GpuView) -> Option<String> {
    let whose = |t: &warpyard_api::wire::GpuTask| {
        format!("{} of {}", escape_controls(&t.task), escape_controls(&t.user))
    };
    gpu.unavailable.as_deref().map(|why| escape_controls(why).into_owned()).or_else(|| {
        (!gpu.tasks.is_empty()).then(|| gpu.tasks.iter().map(whose).collect::<Vec<_>>().join(", "))
    })
}

pub(super) async fn free(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(ids): Path<String>,
) -> Result<Json<AvailabilityView>, Refusal> {
    let gpus = seen(&app, &who).await?;
    let mut found: Vec<GpuAvailability> = Vec::new();
    for id in ids.split(',').map(str::trim) {
        let wanted: DeviceRef = id.parse().map_err(|_| {
            Problem::new(code::BAD_DEVICE, "", format!("'{id}' does not name a device"))
                .with_help("a device is an index, or a worker and an index: gpu1/0")
        })?;
        let mine = gpus.iter().filter(|g| {
            wanted.worker().is_none_or(|w| w == g.worker) && u64::from(g.index) == u64::from(wanted.index())
        });
        let before = found.len();
        for gpu in mine {
            let why = occupied(gpu);
            let entry = GpuAvailability { id: gpu.id.clone(), free: why.is_none(), why };
            if !found.contains(&entry) {
                found.push(entry);
            }
        }
        if found.len() == before && !gpus.iter().any(|g| u64::from(g.index) == u64::from(wanted.index())) {
            return Err(Problem::new(code::NO_SUCH_DEVICE, "", format!("there is no device {id}"))
                .with_help("`warpyard gpus` lists the devices with their numbers")
                .into());
        }
    }
    Ok(Json(AvailabilityView { free: !found.is_empty() && found.iter().all(|g| g.free), gpus: found }))
}
