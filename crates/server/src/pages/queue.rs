//! The Queue page: every task that has not ended, running ones first, then the queue in order, then those over their
//! array's limit, then blocked ones.

use super::format::escape;
use super::rows::{self, Row, RowSource};
use super::table::{Column, Head, TableQuery};
use super::{Chrome, Frame, PageError, html};
use crate::app::AppState;
use crate::forecast_cache::Forecast;
use crate::replica::Reader;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_core::{Cluster, Time};

/// Rows on a page.
const ROWS: usize = 50;

/// Up to this many jobs of a user are looked up one by one; above it all jobs are scanned.
const FEW: usize = 2_000;

/// The most users in the filter's menu.
const USERS: usize = 200;

const COLUMNS: [Column; 16] = [
    Column::number("#", ""),
    Column::text("state", "state"),
    Column::text("job", "name"),
    Column::text("user", "user"),
    Column::number("priority", "priority").choosable(true),
    Column::text("needs", "gpus").choosable(true),
    Column::number("limit", "limit").choosable(true),
    Column::text("mode", "").choosable(false),
    Column::text("scope", "").choosable(false),
    Column::text("on", "").choosable(true),
    Column::number("heard", "").choosable(false),
    Column::number("submitted", "submitted").choosable(false),
    Column::number("waited", "waited").choosable(true),
    Column::number("ran", "ran").choosable(true),
    Column::number("starts", "").choosable(true),
    Column::text("why", "").choosable(true),
];

/// The states of a task that has not ended.
const STATES: [&str; 6] = ["running", "placed", "paused", "stopping", "ready", "blocked"];

#[derive(Template)]
#[template(path = "queue.html")]
struct Queue {
    chrome: Chrome,
    rows: Vec<Row>,
    query: TableQuery,
    heads: Vec<Head>,
    users: Vec<String>,
    states: &'static [&'static str],
    total: usize,
    filtered: bool,
    has_gpus: bool,
    first: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

pub(super) async fn page(
    State(app): AppState,
    headers: HeaderMap,
    Query(query): Query<TableQuery>,
) -> Result<Response, PageError> {
    let (starts, frame) = (app.forecasts.latest(), Frame::of(&app, &headers));
    let page = app.engine.read(move |f| Queue::of(f, query, &starts, frame)).await?;
    rows::await_forecast(&app, &page.rows);
    Ok(html(StatusCode::OK, &page))
}

impl Queue {
    fn of(f: &Reader<'_>, query: TableQuery, starts: &Forecast, frame: Frame) -> Queue {
        let (cluster, now) = (f.cluster(), f.now());
        let users = f.index().users().map(|(user, _)| user);
        let pages = |total: usize| total.div_ceil(ROWS).max(1);
        let (entries, total, at) = match query.is_plain() {
            true => {
                let total = count(f);
                let at = query.page.clamp(1, pages(total));
                (entries(f, (at - 1) * ROWS, ROWS), total, at)
            }
            false => {
                let mut entries = candidates(f, &query);
                entries.retain(|entry| wanted(cluster, entry, &query));
                sort(cluster, &mut entries, query.order(), now);
                let total = entries.len();
                let at = query.page.clamp(1, pages(total));
                (entries.into_iter().skip((at - 1) * ROWS).take(ROWS).collect(), total, at)
            }
        };
        let pages = pages(total);
        let shown = entries.iter();
        Queue {
            rows: shown.filter_map(|entry| rows::build_row(f, entry, starts, &frame.colours, now)).collect(),
            chrome: Chrome::of(f, "Queue", "queue", frame),
            users: users.take(USERS).map(escape).collect(),
            total,
            filtered: query.is_filtered(),
            has_gpus: cluster.pool().workers().any(|(_, worker)| worker.devices().next().is_some()),
            heads: query.heads(&COLUMNS),
            states: &STATES,
            first: (at - 1) * ROWS + 1,
            previous: (at > 1).then(|| at - 1),
            next: (at < pages).then_some(at + 1),
            query: query.escaped(at),
        }
    }
}

/// The number of rows without a filter.
fn count(f: &Reader<'_>) -> usize {
    let cluster = f.cluster();
    let (on_workers, held_back) = (rows::on_workers(cluster).len(), rows::array_limited(cluster).len());
    on_workers + cluster.view().ready_count() + held_back + f.index().blocked_nodes()
}

/// A range of the rows without a filter, in their default order.
fn entries(f: &Reader<'_>, skip: usize, most: usize) -> Vec<RowSource> {
    let mut entries = rows::on_workers(f.cluster());
    let in_line = f.cluster().view().ready_count();
    let skipped = skip.min(entries.len());
    entries.drain(..skipped);
    entries.truncate(most);
    let skip_in_line = skip - skipped;
    if entries.len() < most && skip_in_line < in_line {
        entries.extend(rows::queued(f, skip_in_line, most - entries.len()));
    }
    if entries.len() < most {
        let rest = rows::array_limited(f.cluster()).into_iter().chain(rows::blocked(f));
        let more = most - entries.len();
        entries.extend(rest.skip(skip_in_line.saturating_sub(in_line)).take(more));
    }
    entries
}

/// The rows that a filter may let through, in their default order: only those of a state or a user where these are
/// few.
fn candidates(f: &Reader<'_>, query: &TableQuery) -> Vec<RowSource> {
    let cluster = f.cluster();
    let of_user =
        Some(f.index().of_user(&query.user)).filter(|jobs| !query.user.is_empty() && jobs.len() <= FEW);
    match (query.state.as_str(), of_user) {
        ("running" | "placed" | "paused" | "stopping", _) => rows::on_workers(cluster),
        ("blocked", _) => rows::blocked(f).collect(),
        (_, Some(jobs)) => {
            let jobs =
                || jobs.iter().filter_map(|job| cluster.job(*job)).filter(|job| job.finished.is_none());
            let mut entries = rows::on_workers(cluster);
            entries.extend(rows::queued_of(f, jobs()));
            entries.extend(rows::array_limited(cluster));
            entries.extend(jobs().flat_map(rows::blocked_of));
            entries
        }
        _ => entries(f, 0, usize::MAX),
    }
}

fn wanted(cluster: &Cluster, entry: &RowSource, query: &TableQuery) -> bool {
    let node = entry.node();
    let Some(job) = cluster.job(node.job) else { return false };
    let has = |text: &str| text.to_lowercase().contains(&query.q.trim().to_lowercase());
    (query.user.is_empty() || job.user == query.user)
        && (query.state.is_empty() || entry.state(cluster).word() == query.state)
        && (query.q.trim().is_empty()
            || has(&job.spec.name)
            || has(&job.spec.tasks[node.node as usize].name)
            || job.id.to_string() == query.q.trim())
}

/// Sorts rows by a column; an unknown column leaves them as they are.
fn sort(cluster: &Cluster, entries: &mut [RowSource], (by, down): (&str, bool), now: Time) {
    let job = |e: &RowSource| cluster.job(e.node().job);
    let by_text =
        |entries: &mut [RowSource], of: &dyn Fn(&RowSource) -> String| entries.sort_by_cached_key(|e| of(e));
    let by_number =
        |entries: &mut [RowSource], of: &dyn Fn(&RowSource) -> i64| entries.sort_by_key(|e| of(e));
    match by {
        "user" => by_text(entries, &|e| job(e).map(|j| j.user.clone()).unwrap_or_default()),
        "name" => by_text(entries, &|e| job(e).map(|j| j.spec.name.to_lowercase()).unwrap_or_default()),
        "state" => by_text(entries, &|e| e.state(cluster).word().to_owned()),
        "priority" => by_number(entries, &|e| job(e).map_or(0, |j| j.priority)),
        "submitted" => by_number(entries, &|e| job(e).map_or(0, |j| j.submitted.0 as i64)),
        "gpus" => by_number(entries, &|e| {
            job(e).map_or(0, |j| i64::from(j.spec.tasks[e.node().node as usize].needs.gpus))
        }),
        "limit" => by_number(entries, &|e| {
            let limit = job(e).and_then(|j| j.spec.tasks[e.node().node as usize].timeout);
            limit.map_or(i64::MAX, |limit| limit.0 as i64)
        }),
        "waited" => entries.sort_by_cached_key(|e| {
            e.waited(cluster).map(|(since, until)| until.unwrap_or(now).since(since))
        }),
        "ran" => entries.sort_by_cached_key(|e| e.began(cluster).map(|began| now.since(began))),
        _ => return,
    }
    if down {
        entries.reverse();
    }
    if by == "ran" {
        // Tasks that have not started come last in either order.
        entries.sort_by_key(|e| e.began(cluster).is_none());
    }
}
