//! Jobs that are over, the last first.

use super::rows::Badge;
use super::table::{Asked, Head};
use super::words::{Moment, moment, text};
use super::{Chrome, Frame, NoPage, html};
use crate::clock::system_now;
use crate::follower::Follower;
use crate::http::Shared;
use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::wire::Outcome;

/// How many rows a page has.
const ROWS: usize = 50;

/// How far back one can turn pages; further back there is the search.
const PAGES: usize = 1_000;

/// Name, key to sort by, whether it holds numbers.
const COLUMNS: [(&str, &str, bool); 10] = [
    ("ended as", "outcome", false),
    ("job", "name", false),
    ("user", "user", false),
    ("project", "project", false),
    ("priority", "priority", true),
    ("tasks", "tasks", true),
    ("submitted", "submitted", true),
    ("waited", "", true),
    ("ran", "", true),
    ("ended", "ended", true),
];

/// How something that is over may have ended.
const STATES: [&str; 6] = ["succeeded", "failed", "timed-out", "cancelled", "lost", "skipped"];

#[derive(Template)]
#[template(path = "finished.html")]
struct Finished {
    chrome: Chrome,
    rows: Vec<Over>,
    asked: Asked,
    heads: Vec<Head>,
    users: Vec<String>,
    states: &'static [&'static str],
    filtered: bool,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A job that is over.
struct Over {
    job: String,
    name: String,
    user: String,
    project: String,
    badge: Badge,
    priority: i64,
    tasks: u64,
    registered: Moment,
    waited: Option<Moment>,
    ran: Option<Moment>,
    ended: Option<Moment>,
}

pub(super) async fn page(
    State(app): Shared,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, NoPage> {
    let frame = Frame::of(&app, &headers);
    let page = app.live.read(move |f| Finished::of(f, asked, frame)).await??;
    Ok(html(StatusCode::OK, &page))
}

impl Finished {
    fn of(f: &mut Follower, asked: Asked, frame: Frame) -> rusqlite::Result<Finished> {
        let (now, at) = (moment(system_now()), asked.page.clamp(1, PAGES));
        let history = f.history();
        let user = Some(asked.user.as_str()).filter(|u| !u.is_empty());
        let found =
            history.finished(user, &asked.state, asked.q.trim(), asked.order(), (at - 1) * ROWS, ROWS + 1)?;
        let more = found.len() > ROWS;
        let mut rows = Vec::new();
        for job in found.into_iter().take(ROWS) {
            let started = history.first_start(job.job)?.map(moment);
            let ended = job.finished.map(moment);
            let outcome = job.outcome.as_deref().and_then(crate::views::outcome_of_word);
            rows.push(Over {
                job: job.job.to_string(),
                name: text(&job.name),
                user: text(&job.user),
                project: text(job.project.as_deref().unwrap_or_default()),
                badge: Badge::ended(outcome.unwrap_or(Outcome::Lost)),
                priority: job.priority,
                tasks: job.tasks,
                registered: Moment::since(moment(job.submitted), now),
                waited: started.map(|s| Moment::lasted(moment(job.submitted), s)),
                ran: started.zip(ended).map(|(s, e)| Moment::lasted(s, e)),
                ended: ended.map(|e| Moment::since(e, now)),
            });
        }
        let users = history.users()?;
        Ok(Finished {
            chrome: Chrome::of(f, "Finished", "finished", frame),
            rows,
            users: users.iter().map(|u| text(u)).collect(),
            filtered: asked.is_filtered(),
            heads: asked.heads(&COLUMNS),
            states: &STATES,
            previous: (at > 1).then(|| at - 1),
            next: more.then_some(at + 1),
            asked: asked.harmless(at),
        })
    }
}
