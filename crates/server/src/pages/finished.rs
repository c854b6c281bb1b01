//! The Finished page: jobs that ended, the latest first, with how they ended and what they used.

use super::format::{TimeSpan, TruncatedText, escape, format_devices, timestamp};
use super::job::{attempt_name, how_ended};
use super::palette::Person;
use super::rows::{Badge, NAME, USER, mode, scope};
use super::table::{Column, Head, TableQuery};
use super::{Chrome, Frame, PageError, html};
use crate::app::{AppState, UserColours};
use crate::store::{AttemptRow, HistoryError, HistoryStore};
use crate::why::needs_in_brief;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::wire::Outcome;
use warpyard_core::Time;
use warpyard_core::spec::Needs;

/// Rows on a page.
const ROWS: usize = 50;

/// The last page that can be turned to; further back there is the search.
const PAGES: usize = 1_000;

const COLUMNS: [Column; 17] = [
    Column::number("number", "").choosable(false),
    Column::text("outcome", "outcome"),
    Column::text("job", "name"),
    Column::text("user", "user"),
    Column::number("exit code", "").choosable(true),
    Column::text("reason", "").choosable(true),
    Column::number("priority", "priority").choosable(false),
    Column::number("tasks", "tasks").choosable(true),
    Column::text("needed", "").choosable(true),
    Column::text("mode", "").choosable(false),
    Column::text("scope", "").choosable(false),
    Column::text("on", "").choosable(true),
    Column::number("submitted", "submitted").choosable(false),
    Column::number("waited", "waited").choosable(true),
    Column::number("ran", "ran").choosable(true),
    Column::number("GPU-hours", "").choosable(true),
    Column::number("ended", "ended").choosable(true),
];

/// The outcomes of a job.
const STATES: [&str; 6] = ["succeeded", "failed", "timed-out", "cancelled", "lost", "skipped"];

#[derive(Template)]
#[template(path = "finished.html")]
struct Finished {
    chrome: Chrome,
    rows: Vec<FinishedRow>,
    query: TableQuery,
    heads: Vec<Head>,
    users: Vec<String>,
    states: &'static [&'static str],
    filtered: bool,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A row: a job that has ended.
struct FinishedRow {
    /// The row's number over all pages.
    place: usize,
    job: String,
    name: TruncatedText,
    user: Person,
    project: String,
    badge: Badge,
    /// The exit code of the attempt that failed last, or 0 where all succeeded; a dash where none exited.
    exit_code: String,
    /// Why it failed; empty where it succeeded.
    reason: TruncatedText,
    priority: i64,
    tasks: u64,
    /// The resources its tasks requested.
    needs: String,
    mode: &'static str,
    scope: String,
    /// The devices of its last attempts.
    on: String,
    submitted: TimeSpan,
    waited: Option<TimeSpan>,
    ran: Option<TimeSpan>,
    gpu_hours: String,
    ended: Option<TimeSpan>,
}

pub(super) async fn page(
    State(app): AppState,
    headers: HeaderMap,
    Query(query): Query<TableQuery>,
) -> Result<Response, PageError> {
    let frame = Frame::of(&app, &headers);
    let (colours, now) = (frame.colours.clone(), app.engine.clock().now());
    // A search may take long, so it runs on the history alone and holds no lock on the state.
    let found = app.engine.read_history(move |history| Finished::of(history, query, &colours, now)).await??;
    let chrome = app.engine.read(move |f| Chrome::of(f, "Finished", "finished", frame)).await?;
    Ok(html(StatusCode::OK, &found(chrome)))
}

impl Finished {
    /// Reads the rows of the page; the page itself, given its frame.
    fn of(
        history: &dyn HistoryStore,
        query: TableQuery,
        colours: &UserColours,
        now: Time,
    ) -> Result<impl FnOnce(Chrome) -> Finished + use<>, HistoryError> {
        let (now, at) = (timestamp(now), query.page.clamp(1, PAGES));
        let user = Some(query.user.as_str()).filter(|u| !u.is_empty());
        let found =
            history.finished(user, &query.state, query.q.trim(), query.order(), (at - 1) * ROWS, ROWS + 1)?;
        let more = found.len() > ROWS;
        let mut rows = Vec::new();
        for (place, job) in ((at - 1) * ROWS + 1..).zip(found.into_iter().take(ROWS)) {
            let on = history.attempts_lately(job.job, 4)?.into_iter().map(|a| (a.worker, a.devices));
            let on = format_devices(on);
            let (started, ended) = (job.started.map(timestamp), job.finished.map(timestamp));
            let outcome = job.outcome.as_deref().and_then(crate::views::outcome_of_word);
            let (exit_code, reason) = match outcome {
                Some(Outcome::Succeeded) => ("0".into(), String::new()),
                _ => ending(history.last_failure(job.job)?.as_ref(), job.tasks),
            };
            let gpu_hours = history.gpu_seconds_of(job.job)? / 3600.0;
            let with_gpu = job.needs.iter().find(|needs| needs.gpus > 0);
            rows.push(FinishedRow {
                place,
                job: job.job.to_string(),
                name: TruncatedText::of(&job.name, NAME),
                user: colours.person(&job.user, USER),
                project: escape(job.project.as_deref().unwrap_or_default()),
                badge: Badge::ended(outcome.unwrap_or(Outcome::Lost)),
                exit_code,
                reason: TruncatedText::of(&reason, REASON),
                priority: job.priority,
                tasks: job.tasks,
                needs: needs_of(&job.needs),
                mode: with_gpu.map(mode).unwrap_or_default(),
                scope: with_gpu.map(scope).unwrap_or_default(),
                on,
                submitted: TimeSpan::since(timestamp(job.submitted), now),
                waited: started.map(|s| TimeSpan::lasted(timestamp(job.submitted), s)),
                ran: started.zip(ended).map(|(s, e)| TimeSpan::lasted(s, e)),
                gpu_hours: hours(gpu_hours),
                ended: ended.map(|e| TimeSpan::since(e, now)),
            });
        }
        let users = history.users()?;
        Ok(move |chrome| Finished {
            chrome,
            rows,
            users: users.iter().map(|u| escape(u)).collect(),
            filtered: query.is_filtered(),
            heads: query.heads(&COLUMNS),
            states: &STATES,
            previous: (at > 1).then(|| at - 1),
            next: more.then_some(at + 1),
            query: query.escaped(at),
        })
    }
}

/// The most characters of a reason in a row.
const REASON: usize = 80;

/// The exit code and the reason of a job that did not succeed, from the attempt that failed last.
fn ending(failure: Option<&AttemptRow>, tasks: u64) -> (String, String) {
    let Some(row) = failure else { return ("–".into(), String::new()) };
    let reason = match tasks {
        1 => how_ended(row),
        _ => format!("{}: {}", attempt_name(row), how_ended(row)),
    };
    (row.exit_code.map_or_else(|| "–".into(), |code| code.to_string()), reason)
}

/// GPU-hours to two decimals; empty where no GPU was used.
fn hours(hours: f64) -> String {
    match hours {
        0.0 => String::new(),
        h if h < 0.005 => "< 0.01".into(),
        h if h < 10.0 => format!("{h:.2}"),
        h => format!("{h:.1}"),
    }
}

/// The resources that the tasks of a job requested, each combination once and only the first few.
fn needs_of(kinds: &[Needs]) -> String {
    let mut all = Vec::new();
    for words in kinds.iter().map(needs_in_brief) {
        if !all.contains(&words) {
            all.push(words);
        }
    }
    if all.len() > 2 {
        all.splice(2.., ["…".into()]);
    }
    escape(&all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::{DeviceId, WorkerId};

    #[test]
    fn needs_that_read_the_same_are_shown_once_before_any_is_left_out() {
        let gpu = |index| DeviceId { worker: WorkerId(0), index };
        let needs = |cpus, index| Needs { cpus, gpus: 1, scope: vec![gpu(index)], ..Needs::default() };
        let [first, same, other] = [needs(1000, 0), needs(1000, 1), needs(2000, 0)];
        let alone = needs_of(std::slice::from_ref(&first));
        let both = format!("{alone}; {}", needs_of(std::slice::from_ref(&other)));
        assert_eq!(needs_of(&[first.clone(), same.clone()]), alone);
        assert_eq!(needs_of(&[first.clone(), same.clone(), other.clone()]), both);
        assert_eq!(needs_of(&[first.clone(), other.clone(), same]), both);
        assert_eq!(needs_of(&[first, other, needs(3000, 0)]), format!("{both}; …"));
    }
}
