//! Error pages, with the menu for those who are logged in.

use super::format::escape;
use super::{Chrome, Frame, html};
use crate::app::{App, AppState};
use crate::engine::EngineStopped;
use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use warpyard_api::problem::Problem;

/// Why a page cannot be shown.
pub(super) enum PageError {
    /// What the address names does not exist; the message says what.
    Missing(String),
    /// The path or the query cannot be parsed.
    Unreadable,
    /// The server is stopping.
    Stopping,
    /// The server failed.
    Failed(String),
}

impl PageError {
    fn unknown_address() -> PageError {
        PageError::Missing("there is nothing at this address".into())
    }
}

impl From<EngineStopped> for PageError {
    fn from(_: EngineStopped) -> PageError {
        PageError::Stopping
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> PageError {
        PageError::Missing(problem.message)
    }
}

impl From<crate::store::HistoryError> for PageError {
    fn from(error: crate::store::HistoryError) -> PageError {
        PageError::Failed(error.to_string())
    }
}

/// The content of an error page.
#[derive(Clone)]
struct ErrorText {
    status: StatusCode,
    title: &'static str,
    message: String,
}

impl From<PageError> for ErrorText {
    fn from(why: PageError) -> ErrorText {
        let (status, title, message) = match why {
            PageError::Missing(message) => (StatusCode::NOT_FOUND, "Not found", message),
            PageError::Unreadable => {
                (StatusCode::BAD_REQUEST, "Not found", "this address cannot be read".to_owned())
            }
            PageError::Stopping => {
                (StatusCode::SERVICE_UNAVAILABLE, "Stopping", "the server is stopping".to_owned())
            }
            PageError::Failed(error) => {
                tracing::error!("a page failed: {error}");
                let message = "the server could not render this page; its log has the details".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong", message)
            }
        };
        ErrorText { status, title, message: sentence(&escape(&message)) }
    }
}

/// An error message as a sentence.
fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

/// An error page without the menu, for those who are not logged in or where the state cannot be read.
#[derive(Template)]
#[template(path = "error_bare.html")]
struct BareErrorPage {
    error: ErrorText,
}

/// An error page with the menu.
#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    chrome: Chrome,
    error: ErrorText,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let error = ErrorText::from(self);
        let mut response = html(error.status, &BareErrorPage { error: error.clone() });
        response.extensions_mut().insert(error);
        response
    }
}

impl ErrorText {
    async fn into_page(self, app: &App, frame: Frame) -> Result<Response, EngineStopped> {
        let draw = move |f: &crate::replica::Reader<'_>| {
            let (chrome, status) = (Chrome::of(f, self.title, "", frame), self.status);
            html(status, &ErrorPage { chrome, error: self })
        };
        app.engine.read(draw).await
    }
}

/// Adds the menu to error pages.
pub(super) async fn add_menu(State(app): AppState, request: Request, next: Next) -> Response {
    let frame = Frame::of(&app, request.headers());
    let response = next.run(request).await;
    let error = match response.extensions().get::<ErrorText>() {
        Some(error) => error.clone(),
        None if response.status() == StatusCode::BAD_REQUEST => PageError::Unreadable.into(),
        None => return response,
    };
    error.into_page(&app, frame).await.unwrap_or(response)
}

/// The error page of an unknown address, for those who are logged in.
pub(crate) async fn not_found_page(app: &App, headers: &HeaderMap) -> Response {
    let error = ErrorText::from(PageError::unknown_address());
    let frame = Frame::of(app, headers);
    error.into_page(app, frame).await.unwrap_or_else(|stopped| PageError::from(stopped).into_response())
}

/// The error page of an unknown asset, which needs no login.
pub(crate) fn no_asset() -> Response {
    PageError::unknown_address().into_response()
}
