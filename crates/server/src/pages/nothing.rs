//! What is shown where there is no page: to whoever is in, with the menu around it like any other.

use super::words::text;
use super::{Chrome, Frame, html};
use crate::engine::EngineStopped;
use crate::http::{App, Shared};
use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use warpyard_api::problem::Problem;

/// Why there is no page.
pub(super) enum NoPage {
    /// There is nothing there; in words.
    Missing(String),
    /// What is asked cannot be read: something in the path, or behind it.
    Unreadable,
    /// The server is stopping.
    Stopping,
    /// The server failed.
    Failed(String),
}

impl NoPage {
    fn no_address() -> NoPage {
        NoPage::Missing("there is nothing at this address".into())
    }
}

impl From<EngineStopped> for NoPage {
    fn from(_: EngineStopped) -> NoPage {
        NoPage::Stopping
    }
}

impl From<Problem> for NoPage {
    fn from(problem: Problem) -> NoPage {
        NoPage::Missing(problem.message)
    }
}

impl From<crate::store::HistoryError> for NoPage {
    fn from(error: crate::store::HistoryError) -> NoPage {
        NoPage::Failed(error.to_string())
    }
}

/// What is said in place of a page.
#[derive(Clone)]
struct Said {
    status: StatusCode,
    title: &'static str,
    words: String,
}

impl From<NoPage> for Said {
    fn from(why: NoPage) -> Said {
        let (status, title, words) = match why {
            NoPage::Missing(words) => (StatusCode::NOT_FOUND, "Not found", words),
            NoPage::Unreadable => {
                (StatusCode::BAD_REQUEST, "Not found", "this address cannot be read".to_owned())
            }
            NoPage::Stopping => {
                (StatusCode::SERVICE_UNAVAILABLE, "Stopping", "the server is stopping".to_owned())
            }
            NoPage::Failed(error) => {
                tracing::error!("a page failed: {error}");
                let words = "the server could not draw this page; its output says why".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong", words)
            }
        };
        Said { status, title, words: sentence(&text(&words)) }
    }
}

/// A fragment as a sentence.
fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

/// By itself, for whoever is not in, or where nothing else is known any more.
#[derive(Template)]
#[template(path = "missing.html")]
struct Alone {
    said: Said,
}

/// With what is around every page.
#[derive(Template)]
#[template(path = "nothing.html")]
struct Framed {
    chrome: Chrome,
    said: Said,
}

impl IntoResponse for NoPage {
    fn into_response(self) -> Response {
        let said = Said::from(self);
        let mut response = html(said.status, &Alone { said: said.clone() });
        response.extensions_mut().insert(said);
        response
    }
}

impl Said {
    async fn framed(self, app: &App, frame: Frame) -> Result<Response, EngineStopped> {
        let draw = move |f: &crate::replica::Reader<'_>| {
            let (chrome, status) = (Chrome::of(f, self.title, "", frame), self.status);
            html(status, &Framed { chrome, said: self })
        };
        app.engine.read(draw).await
    }
}

/// Puts the menu around what is said in place of a page.
pub(super) async fn framed(State(app): Shared, request: Request, next: Next) -> Response {
    let frame = Frame::of(&app, request.headers());
    let response = next.run(request).await;
    let said = match response.extensions().get::<Said>() {
        Some(said) => said.clone(),
        None if response.status() == StatusCode::BAD_REQUEST => NoPage::Unreadable.into(),
        None => return response,
    };
    said.framed(&app, frame).await.unwrap_or(response)
}

/// The answer to an address that is none, for whoever is in.
pub(crate) async fn nothing_here(app: &App, headers: &HeaderMap) -> Response {
    let said = Said::from(NoPage::no_address());
    let frame = Frame::of(app, headers);
    said.framed(app, frame).await.unwrap_or_else(|stopped| NoPage::from(stopped).into_response())
}

/// The same for whoever may not be.
pub(crate) fn no_asset() -> Response {
    NoPage::no_address().into_response()
}
