//! Everything that is not over: what runs, who is in line, whom their own array holds back, who waits for something else.

use super::rows::{self, Entry, Row};
use super::table::{Asked, Column, Head};
use super::words::text;
use super::{Chrome, Frame, NoPage, html};
use crate::forecast_cache::Forecast;
use crate::http::Shared;
use crate::replica::Reader;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_core::{Cluster, Time};

/// How many rows a page has.
const ROWS: usize = 50;

/// So many jobs of a user are looked up one by one, rather than found among all.
const FEW: usize = 2_000;

/// How many users the filter offers.
const USERS: usize = 200;

const COLUMNS: [Column; 16] = [
    Column::number("#", ""),
    Column::words("state", "state"),
    Column::words("job", "name"),
    Column::words("user", "user"),
    Column::number("priority", "priority").choosable(true),
    Column::words("needs", "gpus").choosable(true),
    Column::number("limit", "limit").choosable(true),
    Column::words("mode", "").choosable(false),
    Column::words("scope", "").choosable(false),
    Column::words("on", "").choosable(true),
    Column::number("heard", "").choosable(false),
    Column::number("submitted", "submitted").choosable(false),
    Column::number("waited", "waited").choosable(true),
    Column::number("ran", "ran").choosable(true),
    Column::number("starts", "").choosable(true),
    Column::words("why", "").choosable(true),
];

/// The states something that is not over may be in.
const STATES: [&str; 6] = ["running", "placed", "paused", "stopping", "ready", "blocked"];

#[derive(Template)]
#[template(path = "queue.html")]
struct Queue {
    chrome: Chrome,
    rows: Vec<Row>,
    asked: Asked,
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
    State(app): Shared,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, NoPage> {
    let (starts, frame) = (app.forecasts.latest(), Frame::of(&app, &headers));
    let page = app.engine.read(move |f| Queue::of(f, asked, &starts, frame)).await?;
    rows::await_forecast(&app, &page.rows);
    Ok(html(StatusCode::OK, &page))
}

impl Queue {
    fn of(f: &Reader<'_>, asked: Asked, starts: &Forecast, frame: Frame) -> Queue {
        let (cluster, now) = (f.cluster(), f.now());
        let users = f.index().users().map(|(user, _)| user);
        let pages = |total: usize| total.div_ceil(ROWS).max(1);
        let (entries, total, at) = match asked.is_plain() {
            true => {
                let total = count(f);
                let at = asked.page.clamp(1, pages(total));
                (entries(f, (at - 1) * ROWS, ROWS), total, at)
            }
            false => {
                let mut entries = candidates(f, &asked);
                entries.retain(|entry| wanted(cluster, entry, &asked));
                sort(cluster, &mut entries, asked.order(), now);
                let total = entries.len();
                let at = asked.page.clamp(1, pages(total));
                (entries.into_iter().skip((at - 1) * ROWS).take(ROWS).collect(), total, at)
            }
        };
        let pages = pages(total);
        let shown = entries.iter();
        Queue {
            rows: shown.filter_map(|entry| rows::row(f, entry, starts, &frame.colours, now)).collect(),
            chrome: Chrome::of(f, "Queue", "queue", frame),
            users: users.take(USERS).map(text).collect(),
            total,
            filtered: asked.is_filtered(),
            has_gpus: cluster.pool().workers().any(|(_, worker)| worker.devices().next().is_some()),
            heads: asked.heads(&COLUMNS),
            states: &STATES,
            first: (at - 1) * ROWS + 1,
            previous: (at > 1).then(|| at - 1),
            next: (at < pages).then_some(at + 1),
            asked: asked.harmless(at),
        }
    }
}

/// How many rows what is not over has.
fn count(f: &Reader<'_>) -> usize {
    let cluster = f.cluster();
    let (on_workers, held_back) = (rows::on_workers(cluster).len(), rows::held_back(cluster).len());
    on_workers + cluster.view().ready_count() + held_back + f.index().blocked_nodes()
}

/// What is not over, as it is listed where nothing else is asked for: so many rows, without the first few.
fn entries(f: &Reader<'_>, skip: usize, most: usize) -> Vec<Entry> {
    let mut entries = rows::on_workers(f.cluster());
    let in_line = f.cluster().view().ready_count();
    let skipped = skip.min(entries.len());
    entries.drain(..skipped);
    entries.truncate(most);
    let skip_in_line = skip - skipped;
    if entries.len() < most && skip_in_line < in_line {
        entries.extend(rows::in_line(f, skip_in_line, most - entries.len()));
    }
    if entries.len() < most {
        let rest = rows::held_back(f.cluster()).into_iter().chain(rows::blocked(f));
        let more = most - entries.len();
        entries.extend(rest.skip(skip_in_line.saturating_sub(in_line)).take(more));
    }
    entries
}

/// Of what is not over, all that may be asked for, in the same order: no more than a state or a user lets through where
/// those are few.
fn candidates(f: &Reader<'_>, asked: &Asked) -> Vec<Entry> {
    let cluster = f.cluster();
    let of_user =
        Some(f.index().of_user(&asked.user)).filter(|jobs| !asked.user.is_empty() && jobs.len() <= FEW);
    match (asked.state.as_str(), of_user) {
        ("running" | "placed" | "paused" | "stopping", _) => rows::on_workers(cluster),
        ("blocked", _) => rows::blocked(f).collect(),
        (_, Some(jobs)) => {
            let jobs =
                || jobs.iter().filter_map(|job| cluster.job(*job)).filter(|job| job.finished.is_none());
            let mut entries = rows::on_workers(cluster);
            entries.extend(rows::in_line_of(f, jobs()));
            entries.extend(rows::held_back(cluster));
            entries.extend(jobs().flat_map(rows::blocked_of));
            entries
        }
        _ => entries(f, 0, usize::MAX),
    }
}

fn wanted(cluster: &Cluster, entry: &Entry, asked: &Asked) -> bool {
    let node = entry.node();
    let Some(job) = cluster.job(node.job) else { return false };
    let has = |text: &str| text.to_lowercase().contains(&asked.q.trim().to_lowercase());
    (asked.user.is_empty() || job.user == asked.user)
        && (asked.state.is_empty() || entry.state(cluster).word() == asked.state)
        && (asked.q.trim().is_empty()
            || has(&job.spec.name)
            || has(&job.spec.tasks[node.node as usize].name)
            || job.id.to_string() == asked.q.trim())
}

/// Sorts by a column; by none, or one there is not, leaves all as it is.
fn sort(cluster: &Cluster, entries: &mut [Entry], (by, down): (&str, bool), now: Time) {
    let job = |e: &Entry| cluster.job(e.node().job);
    let text = |entries: &mut [Entry], of: &dyn Fn(&Entry) -> String| entries.sort_by_cached_key(|e| of(e));
    let number = |entries: &mut [Entry], of: &dyn Fn(&Entry) -> i64| entries.sort_by_key(|e| of(e));
    match by {
        "user" => text(entries, &|e| job(e).map(|j| j.user.clone()).unwrap_or_default()),
        "name" => text(entries, &|e| job(e).map(|j| j.spec.name.to_lowercase()).unwrap_or_default()),
        "state" => text(entries, &|e| e.state(cluster).word().to_owned()),
        "priority" => number(entries, &|e| job(e).map_or(0, |j| j.priority)),
        "submitted" => number(entries, &|e| job(e).map_or(0, |j| j.submitted.0 as i64)),
        "gpus" => number(entries, &|e| {
            job(e).map_or(0, |j| i64::from(j.spec.tasks[e.node().node as usize].needs.gpus))
        }),
        "limit" => number(entries, &|e| {
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
        // What has not begun ran neither least nor most.
        entries.sort_by_key(|e| e.began(cluster).is_none());
    }
}
