//! Jobs that are over, the last first.

use super::queue::Asked;
use super::rows::Badge;
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

#[derive(Template)]
#[template(path = "finished.html")]
struct Finished {
    chrome: Chrome,
    rows: Vec<Over>,
    asked: Asked,
    users: Vec<String>,
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
    tasks: u64,
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
        let found = history.finished(user, asked.q.trim(), (at - 1) * ROWS, ROWS + 1)?;
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
                tasks: job.tasks,
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
            filtered: !asked.user.is_empty() || !asked.q.is_empty(),
            previous: (at > 1).then(|| at - 1),
            next: more.then_some(at + 1),
            asked: Asked { user: text(&asked.user), q: text(&asked.q), page: at },
        })
    }
}
