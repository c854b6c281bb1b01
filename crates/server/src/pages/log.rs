//! The output of an attempt that follows while its page is open.

use super::{PageError, uncached};
use crate::app::{AppState, CallerExtension};
use crate::output_tail::{printable, read};
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::fs::File;
use std::io;
use warpyard_core::{JobId, TaskId};

/// The most bytes sent at once to a page that follows the output.
const MORE: u64 = 64 << 10;

#[derive(Deserialize)]
pub(super) struct LogQuery {
    node: u32,
    position: u32,
    attempt: u32,
    from: u64,
}

/// An attempt's output from an offset on, up to a whole line; the header `x-next` has the next offset.
pub(super) async fn more(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(job): Path<u64>,
    Query(query): Query<LogQuery>,
) -> Result<Response, PageError> {
    let task = TaskId { job: JobId(job), node: query.node, index: query.position };
    let (layout, attempt) = (app.layout.clone(), task.attempt(query.attempt));
    let user = app.engine.read(move |f| crate::views::user_of(f, task.job)).await?;
    if !who.owns(&user) {
        return Err(PageError::Missing(format!(
            "the job belongs to {user}; only they and admins can read its log"
        )));
    }
    let piece = tokio::task::spawn_blocking(move || {
        let mut file = File::open(layout.log_dir(attempt).join("log"))?;
        let mut bytes = read(&mut file, query.from, MORE)?;
        if (bytes.len() as u64) < MORE {
            bytes.truncate(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
        }
        Ok::<_, io::Error>((printable(&bytes), query.from + bytes.len() as u64))
    });
    let (text, next) = match piece.await {
        Ok(Ok(piece)) => piece,
        Ok(Err(_)) => (String::new(), query.from),
        Err(e) => return Err(PageError::Failed(e.to_string())),
    };
    Ok((uncached("text/plain; charset=utf-8"), [("x-next", HeaderValue::from(next))], text).into_response())
}
