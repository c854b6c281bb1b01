//! A cache of rendered page parts. A request names the last event its page has heard of; anything rendered after that
//! event answers it, so that a hundred open pages cost one rendering for each change and not a hundred.

use super::PART;
use crate::caller::Caller;
use crate::http::{App, AppState};
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest time a part is served without a change: GPU readings change without an event.
const MAX_AGE: Duration = Duration::from_millis(1_000);

/// The most parts in the cache; when it is full, all are dropped.
const MAX_ENTRIES: usize = 256;

/// The last rendering of each part.
#[derive(Default)]
pub(crate) struct RenderCache(Mutex<HashMap<String, Arc<Slot>>>);

/// Locked while a part is rendered, so that requests meanwhile wait for the same rendering.
type Slot = tokio::sync::Mutex<Option<Rendered>>;

struct Rendered {
    /// The last event it shows.
    seq: u64,
    made: Instant,
    body: Bytes,
}

impl RenderCache {
    /// Drops every part, because of something that is not an event.
    pub(crate) fn clear(&self) {
        self.0.lock().expect("nobody panics here").clear();
    }

    fn slot(&self, key: String) -> Arc<Slot> {
        let mut slots = self.0.lock().expect("nobody panics here");
        if slots.len() >= MAX_ENTRIES {
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }
}

pub(super) async fn serve_cached(State(app): AppState, request: Request, next: Next) -> Response {
    let heard = request.headers().get(PART).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    let (Some(heard), Some(caller)) = (heard, request.extensions().get::<Caller>()) else {
        return next.run(request).await;
    };
    // The content depends on the caller: whose output, which buttons.
    let who = (caller.name().unwrap_or_default(), caller.role());
    let slot = app.render_cache.slot(format!("{who:?} {}", request.uri()));
    let mut rendered = slot.lock().await;
    if let Some(Rendered { seq, made, body }) = &*rendered
        && *seq >= heard
        && made.elapsed() < MAX_AGE
    {
        return super::rendered_page(body.clone());
    }
    let seq = current_seq(&app);
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let made = Instant::now();
    match to_bytes(response.into_body(), usize::MAX).await {
        Ok(body) => {
            *rendered = Some(Rendered { seq, made, body: body.clone() });
            super::rendered_page(body)
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The last event that a request from now on is sure to see.
fn current_seq(app: &App) -> u64 {
    app.notices.last()
}
