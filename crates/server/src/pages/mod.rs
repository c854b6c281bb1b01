//! The web pages, rendered on the server from the same state and views that the HTTP API has. Nothing is decided here:
//! changes made from a page go through the API. A page is complete without its scripts; they request it again when a
//! notice concerns it and swap the parts marked `data-live`.

mod assets;
mod chart;
mod cluster;
mod docs;
mod finished;
pub(crate) mod format;
mod graph;
mod job;
mod log;
mod new;
mod not_found;
mod now;
mod palette;
mod policies;
mod queue;
mod render_cache;
mod rows;
mod simulation;
mod table;
mod what_if;

#[cfg(test)]
mod tests;

pub(crate) use not_found::{no_asset, not_found_page};

use crate::app::{App, AppState, UserColours};
use crate::auth::{LoginError, LoginGrant};
use crate::http::access::LoginRequired;
use crate::remote_workers::RemoteWorkers;
use crate::replica::Reader;
use crate::serve::Connection;
use askama::Template;
use axum::Extension;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Form, Query, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    RETRY_AFTER, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use not_found::PageError;
use serde::Deserialize;
use simulation::SimulationBar;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use warpyard_api::wire::Timestamp;

/// The content security policy: pages use nothing but our own style and scripts.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// The header by which a script requests only the parts that change; its value is the last event the page has heard
/// of.
const PART: &str = "x-warpyard-part";

/// Modules that every page loads, announced at its head so that a browser requests them at once and not one import after
/// the other.
pub(crate) const SHARED_MODULES: &[&str] = &[
    "actions.js",
    "api.js",
    "clock.js",
    "dialogs.js",
    "dom.js",
    "format.js",
    "keys.js",
    "live.js",
    "refresh.js",
    "selection.js",
    "stream.js",
    "table.js",
];

/// The menu: key, address and title of each page.
pub(crate) const MENU: &[(&str, &str, &str)] = &[
    ("now", "/", "Now"),
    ("queue", "/queue", "Queue"),
    ("finished", "/finished", "Finished"),
    ("new", "/new", "New job"),
    ("cluster", "/cluster", "Cluster"),
    ("policies", "/policies", "Policies"),
    ("what-if", "/what-if", "What if"),
];

/// The routes of the pages.
pub(crate) fn router(app: Arc<App>) -> Router<Arc<App>> {
    let shown = Router::new()
        .route("/", get(now::page))
        .route("/queue", get(queue::page))
        .route("/finished", get(finished::page))
        .route("/jobs/{id}", get(job::page))
        .route("/new", get(new::page))
        .route("/cluster", get(cluster::page))
        .route("/policies", get(policies::page))
        .route("/what-if", get(what_if::page))
        .route("/docs", get(docs::page))
        .layer(middleware::from_fn_with_state(app.clone(), render_cache::serve_cached))
        .layer(middleware::from_fn_with_state(app, not_found::add_menu));
    shown
        .route("/jobs/{id}/log", get(log::more))
        .route("/login", get(login_page).post(login))
        .route("/logout", axum::routing::post(logout))
        .route("/assets/{name}", get(assets::asset))
}

/// The frame around every page.
struct Chrome {
    title: String,
    /// The key of its menu entry.
    here: &'static str,
    /// Whether only the content was requested.
    part: bool,
    /// The last event the page shows.
    seq: u64,
    now: Timestamp,
    host: String,
    policy: String,
    /// The CSRF token of the session; empty for callers with the API token.
    csrf: String,
    /// The bar of a simulation.
    simulation: Option<SimulationBar>,
    /// Seconds of the server's clock that pass in one second.
    pace: f64,
}

impl Chrome {
    fn of(f: &Reader<'_>, title: impl Into<String>, here: &'static str, frame: Frame) -> Chrome {
        let mut workers = f.cluster().workers().map(|(_, w)| format::escape(&w.info.name));
        let host = match (workers.next(), workers.count()) {
            (None, _) => "no worker".into(),
            (Some(only), 0) => only,
            (Some(first), others) => format!("{first} +{others}"),
        };
        let (seq, policy) = (f.cluster().seq(), format::escape(&f.cluster().policy().to_string()));
        let Frame { part, csrf, simulation, .. } = frame;
        let pace = simulation.as_ref().map_or(1.0, |s| if s.paused { 0.0 } else { s.speed });
        let (title, now) = (title.into(), format::timestamp(f.now()));
        Chrome { title, here, part, seq, now, host, policy, csrf, simulation, pace }
    }
}

/// The request's part in framing a page.
#[derive(Clone, Default)]
struct Frame {
    part: bool,
    csrf: String,
    simulation: Option<SimulationBar>,
    colours: Arc<UserColours>,
    remote: Arc<RemoteWorkers>,
}

impl Frame {
    fn of(app: &App, headers: &HeaderMap) -> Frame {
        let csrf = app.auth.session_of(headers).map(|s| s.csrf).unwrap_or_default();
        let simulation = app.simulation.as_ref().and_then(SimulationBar::of);
        let (colours, remote) = (app.shown.colours.clone(), app.remote.clone());
        Frame { part: headers.contains_key(PART), csrf, simulation, colours, remote }
    }
}

/// Renders a page.
fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, uncached(HTML), text).into_response(),
        Err(e) => {
            tracing::error!("a page cannot be drawn: {e}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The response of a page that was rendered before.
fn rendered_page(body: Bytes) -> Response {
    (uncached(HTML), body).into_response()
}

/// Headers of content that must not be cached.
fn uncached(kind: &'static str) -> [(HeaderName, HeaderValue); 2] {
    [(CONTENT_TYPE, HeaderValue::from_static(kind)), (CACHE_CONTROL, HeaderValue::from_static("no-store"))]
}

/// Adds the security headers to every response, so that a browser does nothing with it but show it; a log is
/// untrusted too.
pub(crate) async fn add_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Clients that poll may cache a response, and must revalidate it each time.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
    response
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    next: String,
    /// The error of the last attempt to log in.
    wrong: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "logged_in.html")]
struct LoggedIn {
    next: String,
}

/// Leads to the host name where a login counts. A page and not a redirect, because the content security policy
/// confines what answers a form to this host.
#[derive(Template)]
#[template(path = "other_host.html")]
struct OtherHost {
    link: String,
}

/// Replaces the response to a request that needs a login by the login page.
pub(crate) async fn add_login(response: Response) -> Response {
    let Some(LoginRequired(wanted)) = response.extensions().get() else { return response };
    let next = wanted.path_and_query().map_or("/", |p| p.as_str());
    html(StatusCode::UNAUTHORIZED, &Login { next: local_path(next).to_owned(), wrong: None })
}

/// The path if it is a local one, or else the first page's.
fn local_path(next: &str) -> &str {
    let ours = next.starts_with('/') && !next[1..].starts_with(['/', '\\']) && !next.starts_with("/login");
    if ours && next.bytes().all(|b| b.is_ascii_graphic()) { next } else { "/" }
}

#[derive(Deserialize)]
struct LoginQuery {
    once: Option<String>,
    next: Option<String>,
}

async fn login_page(
    State(app): AppState,
    method: Method,
    headers: HeaderMap,
    Query(LoginQuery { once, next }): Query<LoginQuery>,
) -> Response {
    let next = local_path(next.as_deref().unwrap_or("/")).to_owned();
    // A HEAD request has not opened the link.
    let Some(link) = once.filter(|_| method == Method::GET) else {
        return html(StatusCode::OK, &Login { next, wrong: None });
    };
    match app.auth.enter_once(&link, &headers) {
        // Not a redirect, along which a browser that came from another site would not send the strict cookie.
        Ok(Some(LoginGrant::Cookie(cookie))) => {
            with_cookie(html(StatusCode::OK, &LoggedIn { next }), &cookie)
        }
        Ok(Some(LoginGrant::OtherHost(link))) => {
            html(StatusCode::OK, &OtherHost { link: with_next(link, &next) })
        }
        Ok(None) => html(
            StatusCode::FORBIDDEN,
            &Login {
                next: "/".into(),
                wrong: Some("This link was used before, or is more than ten minutes old."),
            },
        ),
        Err(e) => PageError::Failed(e.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct Credentials {
    token: String,
    #[serde(default)]
    next: String,
}

/// A login link that leads on to another page than the first.
fn with_next(link: String, next: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    if next == "/" { link } else { format!("{link}&next={}", next.bytes().map(escape).collect::<String>()) }
}

async fn login(
    State(app): AppState,
    connection: Option<Extension<Arc<Connection>>>,
    headers: HeaderMap,
    Form(given): Form<Credentials>,
) -> Response {
    let next = local_path(&given.next).to_owned();
    let from = connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Extension(by)| by.peer.ip());
    match app.auth.enter_by_token(&given.token, from, &headers) {
        Ok(Ok(LoginGrant::OtherHost(link))) => {
            html(StatusCode::OK, &OtherHost { link: with_next(link, &next) })
        }
        Ok(Ok(LoginGrant::Cookie(cookie))) => {
            let to = HeaderValue::from_str(&next).unwrap_or(HeaderValue::from_static("/"));
            with_cookie(
                (StatusCode::SEE_OTHER, uncached("text/plain"), [(LOCATION, to)]).into_response(),
                &cookie,
            )
        }
        Ok(Err(LoginError::Wrong)) => {
            html(StatusCode::FORBIDDEN, &Login { next, wrong: Some("This is not the token of this server.") })
        }
        Ok(Err(LoginError::TooMany)) => {
            let wrong = Some("Too many wrong tokens. Wait a minute, then try again.");
            let mut response = html(StatusCode::TOO_MANY_REQUESTS, &Login { next, wrong });
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            response
        }
        Err(e) => PageError::Failed(e.to_string()).into_response(),
    }
}

async fn logout(State(app): AppState, headers: HeaderMap) -> Response {
    let expired = app.auth.leave(&headers);
    let mut response = html(StatusCode::OK, &Login { next: "/".into(), wrong: None });
    if let Ok(cookie) = HeaderValue::from_str(&expired) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
