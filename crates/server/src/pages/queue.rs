//! Everything that is not over: what runs, who is in line, whom their own array holds back, who waits for something else.

use super::rows::{self, Entry, Row};
use super::table::{Asked, Column, Head};
use super::words::text;
use super::{Chrome, Frame, NoPage, html};
use crate::clock::system_now;
use crate::forecasts::Forecast;
use crate::http::Shared;
use crate::replica::Reader;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::collections::BTreeSet;
use warpyard_core::{Cluster, Time};

/// How many rows a page has.
const ROWS: usize = 50;

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
    let page = app.live.read(move |f| Queue::of(f, asked, &starts, frame)).await?;
    rows::await_forecast(&app, &page.rows);
    Ok(html(StatusCode::OK, &page))
}

impl Queue {
    fn of(f: &Reader<'_>, asked: Asked, starts: &Forecast, frame: Frame) -> Queue {
        let (cluster, now) = (f.cluster(), system_now());
        let open = cluster.jobs().iter().filter(|job| job.finished.is_none());
        let users: BTreeSet<_> = open.map(|job| job.user.as_str()).collect();
        let (entries, total) = match asked.is_plain() {
            true => first_entries(f, asked.page.max(1).saturating_mul(ROWS)),
            false => {
                let (mut entries, _) = first_entries(f, usize::MAX);
                entries.retain(|entry| wanted(cluster, entry, &asked));
                sort(cluster, &mut entries, asked.order(), now);
                let total = entries.len();
                (entries, total)
            }
        };
        let pages = total.div_ceil(ROWS).max(1);
        let at = asked.page.clamp(1, pages);
        let shown = entries.iter().skip((at - 1) * ROWS).take(ROWS);
        Queue {
            rows: shown.filter_map(|entry| rows::row(f, entry, starts, &frame.colours, now)).collect(),
            chrome: Chrome::of(f, "Queue", "queue", frame),
            users: users.iter().take(USERS).map(|u| text(u)).collect(),
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

/// What is not over, as it is listed where nothing else is asked for: the first of it, and how much there is in all.
fn first_entries(f: &Reader<'_>, most: usize) -> (Vec<Entry>, usize) {
    let cluster = f.cluster();
    let mut entries = rows::on_workers(cluster);
    let (held_back, blocked) = (rows::held_back(cluster), rows::blocked(cluster));
    let in_line = cluster.view().ready_nodes().count();
    let before = entries.len() + in_line;
    let total = before + held_back.len() + blocked.len();
    let wanted = most.saturating_sub(entries.len()).min(in_line);
    if wanted > 0 {
        entries.extend(rows::in_line(f, wanted));
    }
    if most > before {
        entries.extend(held_back.into_iter().chain(blocked));
    }
    (entries, total)
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
