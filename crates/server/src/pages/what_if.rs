//! The What if page: recorded submissions simulated under other policies, beside what happened.

use super::format::escape;
use super::{Chrome, Frame, PageError, html};
use crate::app::AppState;
use crate::views;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

/// The suggested selection: cheap to simulate, and as different from each other as can be.
const SUGGESTED: [&str; 4] = ["backfill", "fifo", "short-first", "fair-share"];

#[derive(Template)]
#[template(path = "what_if.html")]
struct WhatIf {
    chrome: Chrome,
    groups: Vec<(String, Vec<Choice>)>,
    spans: [(&'static str, &'static str); 5],
    in_force: String,
}

/// A policy that can be replayed.
struct Choice {
    name: String,
    when: String,
    suggested: bool,
}

pub(super) async fn page(State(app): AppState, headers: HeaderMap) -> Result<Response, PageError> {
    let (frame, defs) = (Frame::of(&app, &headers), app.policies);
    let page = app.engine.read(move |f| {
        let mut all: Vec<_> = views::policies(None, defs).into_iter().zip(defs).collect();
        all.sort_by_key(|(_, def)| def.group);
        let mut groups: Vec<(String, Vec<Choice>)> = Vec::new();
        for (policy, _) in all {
            let suggested = SUGGESTED.contains(&&*policy.name);
            let choice = Choice { name: policy.name, when: policy.when, suggested };
            match groups.last_mut() {
                Some((title, choices)) if *title == policy.group => choices.push(choice),
                _ => groups.push((policy.group, vec![choice])),
            }
        }
        WhatIf {
            groups,
            spans: [
                ("1h", "hour"),
                ("24h", "24 hours"),
                ("7d", "7 days"),
                ("30d", "30 days"),
                ("", "whole history"),
            ],
            in_force: escape(&f.cluster().policy().to_string()),
            chrome: Chrome::of(f, "What if", "what-if", frame),
        }
    });
    Ok(html(StatusCode::OK, &page.await?))
}
