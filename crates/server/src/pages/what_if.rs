//! What if: what really came, replayed under other policies, beside what happened.

use super::words::text;
use super::{Chrome, Frame, NoPage, html};
use crate::http::Shared;
use crate::views;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

/// The policies that are chosen to begin with: the plain ones that differ most.
const CHOSEN: [&str; 4] = ["backfill", "fifo", "sjf", "short-first"];

#[derive(Template)]
#[template(path = "what_if.html")]
struct WhatIf {
    chrome: Chrome,
    policies: Vec<(String, String, bool)>,
    spans: [(&'static str, &'static str); 5],
    in_force: String,
}

pub(super) async fn page(State(app): Shared, headers: HeaderMap) -> Result<Response, NoPage> {
    let (frame, defs) = (Frame::of(&app, &headers), app.policies);
    let page = app.live.read(move |f| {
        let all = views::policies(Some(f.cluster().policy()), defs);
        WhatIf {
            policies: all
                .into_iter()
                .map(|p| {
                    let on = CHOSEN.contains(&&*p.name);
                    (p.name, p.summary, on)
                })
                .collect(),
            spans: [
                ("1h", "1 hour"),
                ("24h", "24 hours"),
                ("7d", "7 days"),
                ("30d", "30 days"),
                ("", "all there is"),
            ],
            in_force: text(&f.cluster().policy().to_string()),
            chrome: Chrome::of(f, "What if", "what-if", frame),
        }
    });
    Ok(html(StatusCode::OK, &page.await?))
}
