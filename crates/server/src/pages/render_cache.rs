//! A cache of rendered page parts. A request names the last event its page has heard of; anything rendered after that
//! event answers it, so that a hundred open pages cost one rendering for each change and not a hundred.

use super::PART;
use crate::app::{App, AppState, Rendered};
use crate::caller::Caller;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::{Duration, Instant};

/// The longest time a part is served without a change: GPU readings change without an event.
const MAX_AGE: Duration = Duration::from_millis(1_000);

pub(super) async fn serve_cached(State(app): AppState, request: Request, next: Next) -> Response {
    let heard = request.headers().get(PART).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    let (Some(heard), Some(caller)) = (heard, request.extensions().get::<Caller>()) else {
        return next.run(request).await;
    };
    // The content depends on the caller: whose output, which buttons.
    let who = (caller.name().unwrap_or_default(), caller.role());
    let slot = app.shown.rendered.slot(format!("{who:?} {}", request.uri()));
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
