//! Parts of pages that many ask for at once, drawn once. Who asks says which change it has heard of; whatever was drawn
//! after that change is an answer, so that a hundred open pages cost one drawing for each change and not a hundred.

use super::PART;
use crate::caller::Caller;
use crate::http::{App, Shared};
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How old a drawing may be even if nothing has changed: some of it is readings, which are no changes.
const FRESH_FOR: Duration = Duration::from_millis(1_000);

/// How many are kept; when there are more, all are let go.
const KEPT: usize = 256;

/// The last drawing of each part.
#[derive(Default)]
pub(crate) struct Parts(Mutex<HashMap<String, Arc<Slot>>>);

/// Held while it is drawn, so that whoever comes meanwhile waits for the same drawing.
type Slot = tokio::sync::Mutex<Option<Drawing>>;

struct Drawing {
    /// It knows of everything up to this event.
    seq: u64,
    made: Instant,
    body: Bytes,
}

impl Parts {
    /// Lets all drawings go, because of something that is no event.
    pub(crate) fn let_go(&self) {
        self.0.lock().expect("nobody panics here").clear();
    }

    fn slot(&self, key: String) -> Arc<Slot> {
        let mut slots = self.0.lock().expect("nobody panics here");
        if slots.len() >= KEPT {
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }
}

pub(super) async fn shared(State(app): Shared, request: Request, next: Next) -> Response {
    let heard = request.headers().get(PART).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    let (Some(heard), Some(caller)) = (heard, request.extensions().get::<Caller>()) else {
        return next.run(request).await;
    };
    // What is shown depends on who looks: whose output, which buttons.
    let who = (caller.name().unwrap_or_default(), caller.is_admin());
    let slot = app.parts.slot(format!("{who:?} {}", request.uri()));
    let mut drawing = slot.lock().await;
    if let Some(Drawing { seq, made, body }) = &*drawing
        && *seq >= heard
        && made.elapsed() < FRESH_FOR
    {
        return super::page(body.clone());
    }
    let seq = known(&app);
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let made = Instant::now();
    match to_bytes(response.into_body(), usize::MAX).await {
        Ok(body) => {
            *drawing = Some(Drawing { seq, made, body: body.clone() });
            super::page(body)
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The last event that everyone who asks from now on finds.
fn known(app: &App) -> u64 {
    app.notices.last()
}
