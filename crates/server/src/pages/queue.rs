//! Everything that is not over: what runs, who is in line, who waits for something else.

use super::rows::{self, Entry, Row};
use super::words::text;
use super::{Chrome, Frame, NoPage, html};
use crate::clock::system_now;
use crate::follower::Follower;
use crate::http::Shared;
use crate::outlooks::Starts;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use std::collections::BTreeSet;
use warpyard_core::Cluster;

/// How many rows a page has.
const ROWS: usize = 50;

/// How many users the filter offers.
const USERS: usize = 200;

/// What is asked of a table.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    pub(super) user: String,
    #[serde(default)]
    pub(super) q: String,
    #[serde(default)]
    pub(super) page: usize,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct Queue {
    chrome: Chrome,
    rows: Vec<Row>,
    asked: Asked,
    users: Vec<String>,
    total: usize,
    filtered: bool,
    first: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

pub(super) async fn page(
    State(app): Shared,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, NoPage> {
    let (starts, frame) = (app.outlooks.latest(&app.live), Frame::of(&app, &headers));
    let page = app.live.read(move |f| Queue::of(f, asked, &starts, frame)).await?;
    Ok(html(StatusCode::OK, &page))
}

impl Queue {
    fn of(f: &Follower, asked: Asked, starts: &Starts, frame: Frame) -> Queue {
        let (cluster, now) = (f.cluster(), system_now());
        let mut entries = rows::on_workers(cluster);
        entries.extend(rows::in_line(f));
        entries.extend(rows::blocked(cluster));
        let users: BTreeSet<_> =
            entries.iter().filter_map(|e| cluster.job(e.node().job)).map(|j| j.user.clone()).collect();
        entries.retain(|entry| wanted(cluster, entry, &asked));
        let pages = entries.len().div_ceil(ROWS).max(1);
        let at = asked.page.clamp(1, pages);
        let shown = entries.iter().skip((at - 1) * ROWS).take(ROWS);
        Queue {
            chrome: Chrome::of(f, "Queue", "queue", frame),
            rows: shown.filter_map(|entry| rows::row(f, entry, starts, now)).collect(),
            users: users.iter().take(USERS).map(|u| text(u)).collect(),
            total: entries.len(),
            filtered: !asked.user.is_empty() || !asked.q.is_empty(),
            first: (at - 1) * ROWS + 1,
            previous: (at > 1).then(|| at - 1),
            next: (at < pages).then_some(at + 1),
            asked: Asked { user: text(&asked.user), q: text(&asked.q), page: at },
        }
    }
}

fn wanted(cluster: &Cluster, entry: &Entry, asked: &Asked) -> bool {
    let node = entry.node();
    let Some(job) = cluster.job(node.job) else { return false };
    let has = |text: &str| text.to_lowercase().contains(&asked.q.trim().to_lowercase());
    (asked.user.is_empty() || job.user == asked.user)
        && (asked.q.trim().is_empty()
            || has(&job.spec.name)
            || has(&job.spec.tasks[node.node as usize].name)
            || job.id.to_string() == asked.q.trim())
}
