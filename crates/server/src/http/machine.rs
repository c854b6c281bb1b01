//! The server itself, its workers, policies and history, and the stream of changes.

use super::refusal::{Refusal, stream_body};
use super::{AppState, CallerExtension};
use crate::change_feed::Visibility;
use crate::{convert, views};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use tokio::sync::mpsc;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::{
    HistoryFilter, HistoryRow, InfoView, Page, PolicySpec, PolicyView, ProcessLimit, RebuildResult,
    ShutdownRequest, WorkerState, WorkerView,
};
use warpyard_core::{Command, JobId, Time};

/// Attempts on a page of the history unless the request says otherwise.
const HISTORY_PER_PAGE: u32 = 100;

pub(super) async fn info(State(app): AppState) -> Result<Json<InfoView>, Refusal> {
    let (url, data, started) = (app.url.clone(), app.data.display().to_string(), app.started);
    let processes =
        app.bounds.as_ref().map(|b| ProcessLimit { most: b.most, contained: b.processes.is_some() });
    let enforces = crate::enforcement::of(app.bounds.as_ref(), app.watched.as_ref());
    let look = move |f: &crate::replica::Reader<'_>| {
        let cluster = f.cluster();
        InfoView {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            address: url,
            data,
            started_at: views::time(started),
            policy: cluster.policy().to_string(),
            workers: cluster.workers().count() as u64,
            gpus: cluster.workers().map(|(_, w)| w.info.devices.len() as u64).sum(),
            waiting: f.index().tasks().ready,
            running: cluster.view().active() as u64,
            processes,
            enforces,
        }
    };
    Ok(Json(app.engine.read(look).await?))
}

pub(super) async fn workers(State(app): AppState) -> Result<Json<Vec<WorkerView>>, Refusal> {
    Ok(Json(all_workers(&app).await?))
}

/// Every worker, with what contact with it and readings of its machine tell.
pub(super) async fn all_workers(app: &super::App) -> Result<Vec<WorkerView>, Refusal> {
    let watched = app.watched.clone();
    let look = move |f: &crate::replica::Reader<'_>| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        views::workers(f.cluster(), watched.as_deref())
    };
    let mut workers = app.engine.read(look).await?;
    app.remote.annotate(&mut workers, app.engine.clock().now());
    // A worker that was forgotten is listed until its lease has expired.
    workers.retain(|worker| {
        worker.local || worker.state != WorkerState::Lost || app.tokens.has_joined(&worker.id)
    });
    Ok(workers)
}

pub(super) async fn drain(
    State(app): AppState,
    Path(name): Path<String>,
) -> Result<Json<WorkerView>, Refusal> {
    set_drained(&app, name, true).await
}

pub(super) async fn resume(
    State(app): AppState,
    Path(name): Path<String>,
) -> Result<Json<WorkerView>, Refusal> {
    set_drained(&app, name, false).await
}

async fn set_drained(app: &super::App, name: String, drained: bool) -> Result<Json<WorkerView>, Refusal> {
    let wanted = name.clone();
    let unknown = move |known: Vec<String>| {
        Problem::new(code::UNKNOWN_WORKER, "", format!("there is no worker '{name}'"))
            .with_help(format!("there are: {}", known.join(", ")))
    };
    let find = move |f: &crate::replica::Reader<'_>| {
        let known = || f.cluster().workers().map(|(_, w)| w.info.name.clone()).collect();
        f.cluster().worker_named(&wanted).ok_or_else(|| unknown(known()))
    };
    let worker = app.engine.read(find).await??;
    app.engine.command(Command::Drain { worker, drained, reason: None }).await?;
    let look = move |f: &crate::replica::Reader<'_>| views::workers(f.cluster(), None);
    let view = app.engine.read(look).await?.into_iter().nth(worker.0 as usize);
    view.map(Json).ok_or_else(|| Refusal::internal("a worker vanished"))
}

pub(super) async fn policies(State(app): AppState) -> Result<Json<Vec<PolicyView>>, Refusal> {
    let defs = app.policies;
    Ok(Json(app.engine.read(move |f| views::policies(Some(f.cluster().policy()), defs)).await?))
}

pub(super) async fn set_policy(
    State(app): AppState,
    body: Result<Json<PolicySpec>, JsonRejection>,
) -> Result<Json<PolicyView>, Refusal> {
    let choice = convert::policy_choice(&body?.0);
    let shares = choice.params.get("sharing").is_some_and(|sharing| sharing == "true");
    if shares && !app.engine.read(|f| f.cluster().shares().knows_pairs()).await? {
        let message = "the throughput of tasks that share a GPU is unknown";
        let help = "set it with `warpyard throughputs --set FILE`, with pairs in the table";
        return Err(Problem::new(code::BAD_PARAMETER, "params.sharing", message).with_help(help).into());
    }
    app.engine.command(Command::SetPolicy(choice)).await?;
    let defs = app.policies;
    let active = app
        .engine
        .read(move |f| views::policies(Some(f.cluster().policy()), defs).into_iter().find(|p| p.active))
        .await?;
    active.map(Json).ok_or_else(|| Refusal::internal("no policy is in force"))
}

pub(super) async fn history(
    State(app): AppState,
    Extension(who): CallerExtension,
    filter: Result<Query<HistoryFilter>, QueryRejection>,
) -> Result<Json<Page<HistoryRow>>, Refusal> {
    let Query(mut filter) = filter?;
    if app.private() && !who.is_admin() {
        filter.user = who.name().map(str::to_owned);
    }
    let job = match filter.job.as_deref().map(str::parse) {
        None => None,
        Some(Ok(job)) => Some(JobId(job)),
        Some(Err(_)) => return Err(Problem::new(code::BAD_SELECTOR, "job", "not the id of a job").into()),
    };
    let (until, skip) = match filter.cursor.as_deref().map(place_in_history) {
        None => (Time(u64::MAX / 2), 0),
        Some(Some(place)) => place,
        Some(None) => return Err(Problem::new(code::BAD_REQUEST, "cursor", "this is not a cursor").into()),
    };
    let look = move |history: &dyn crate::store::HistoryStore| {
        let limit = filter.limit.unwrap_or(HISTORY_PER_PAGE).clamp(1, 10_000);
        let since = Time(filter.since.map_or(0, |t| t.as_millis().max(0) as u64 * 1000));
        let rows = history.latest(filter.user.as_deref(), job, since..=until, skip, limit)?;
        let mut jobs = HashMap::new();
        for row in &rows {
            let id = row.attempt.task.job;
            if let std::collections::hash_map::Entry::Vacant(slot) = jobs.entry(id) {
                slot.insert(history.job(id)?);
            }
        }
        let of = |id: JobId| jobs.get(&id).and_then(Option::as_ref);
        let next = (rows.len() as u32 == limit).then(|| rows.last()).flatten();
        let next = next.and_then(|r| r.ended).map(|at| {
            let here = rows.iter().filter(|r| r.ended == Some(at)).count() as u32;
            format!("{}.{}", at.0, if at == until { here + skip } else { here })
        });
        let mut items: Vec<_> = rows.iter().map(|r| views::history_row(r, of(r.attempt.task.job))).collect();
        items.retain(|row| filter.project.is_none() || row.project == filter.project);
        Ok::<_, crate::store::HistoryError>(Page { items, next })
    };
    app.engine.read_history(look).await?.map(Json).map_err(Refusal::internal)
}

/// The position of a cursor: the end of the last attempt listed, and how many with this very end were listed.
fn place_in_history(cursor: &str) -> Option<(Time, u32)> {
    let (at, given) = cursor.split_once('.')?;
    let at = at.parse().ok().filter(|at| *at < u64::MAX / 2)?;
    Some((Time(at), given.parse().ok()?))
}

/// The position in the event stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// The last event received; the header `Last-Event-ID`, which browsers send when they reconnect, takes
    /// precedence.
    after: Option<u64>,
}

pub(super) async fn events(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let last_seen = headers.get("last-event-id").and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let after = last_seen.or(query?.0.after);
    let (to, from) = mpsc::channel(16);
    let reader = if app.private() && !who.is_admin() { Visibility::ChangesOnly } else { Visibility::AllJobs };
    tokio::spawn(crate::change_feed::send(
        app.notices.clone(),
        reader,
        after,
        to,
        crate::change_feed::LONGEST,
    ));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, stream_body(from)).into_response())
}

pub(super) async fn shutdown(
    State(app): AppState,
    body: Result<Json<ShutdownRequest>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let _stopping_already = app.stop.send(body?.0.kill_tasks);
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn rebuild(State(app): AppState) -> Result<Json<RebuildResult>, Refusal> {
    let rows = app.engine.read(|f| f.rebuild()).await?.map_err(Refusal::internal)?;
    Ok(Json(RebuildResult { rows }))
}
