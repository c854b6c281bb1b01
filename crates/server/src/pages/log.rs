//! The end of an attempt's output, and what follows it while the page is open.

use super::format::escape;
use super::{PageError, uncached};
use crate::http::{AppState, CallerExtension};
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use warpyard_core::{AttemptId, JobId, TaskId};
use warpyard_worker::agent::Layout;

/// The most bytes of output on a page.
const TAIL: u64 = 24 << 10;

/// The most lines of output on a page.
const LINES: usize = 200;

/// The most bytes sent at once to a page that follows the output.
const MORE: u64 = 64 << 10;

/// A part of a log, and its end in the file.
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) next: u64,
    /// Whether output before it is left out.
    pub(super) cut: bool,
}

/// The last lines of an attempt's output.
pub(super) fn tail(layout: &Layout, attempt: AttemptId) -> io::Result<Piece> {
    let mut file = File::open(layout.log_dir(attempt).join("log"))?;
    let end = file.seek(SeekFrom::End(0))?;
    let from = end.saturating_sub(TAIL);
    let bytes = read(&mut file, from, TAIL)?;
    // A truncated excerpt begins with a whole line.
    let begin = if from == 0 { 0 } else { bytes.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1) };
    let next = from + bytes.len() as u64;
    let whole = printable(&bytes[begin..]);
    let ends: Vec<_> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let skip = ends.len().saturating_sub(LINES);
    let begin = if skip == 0 { 0 } else { ends[skip - 1] };
    Ok(Piece { cut: from > 0 || skip > 0, text: whole[begin..].to_owned(), next })
}

/// The last lines of an attempt's output for an API response: few, and none long.
pub(crate) fn last_lines(layout: &Layout, attempt: AttemptId) -> Vec<String> {
    const MOST: usize = 10;
    let Ok(piece) = tail(layout, attempt) else { return vec![] };
    let lines: Vec<_> = piece.text.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(MOST));
    last.map(|line| super::format::escape_truncated(line, 400)).collect()
}

fn read(file: &mut File, from: u64, most: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Output as text with control characters escaped, line by line.
fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        // A progress bar overwrites itself with carriage returns; only its last state is shown, as on a terminal.
        let line = line.strip_suffix('\r').unwrap_or(line);
        out.push_str(&escape(line.rsplit('\r').next().unwrap_or(line)));
        out.push_str(end);
    }
    out
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_shown_and_not_obeyed() {
        assert_eq!(printable(b"10 %\r50 %\r100 %\r\nred \x1b[31m\nhalf"), "100 %\nred \\u{1b}[31m\nhalf");
        assert_eq!(printable("right\u{202e}left\n".as_bytes()), "right\\u{202e}left\n");
        assert_eq!(printable(&[0xff, b'\n']), "\u{fffd}\n");
    }
}
