//! The pages: what people see in a browser. Drawn here from the same state and views the interface has, nothing in them
//! is decided here; what is changed from them is changed through the interface. Every page is whole without its script; the script asks
//! for it again when a notice concerns it and swaps the parts that are marked live.

mod chart;
mod cluster;
mod docs;
mod finished;
mod graph;
mod job;
mod log;
mod new;
mod nothing;
mod now;
mod palette;
mod parts;
mod policies;
mod queue;
mod rows;
mod simulation;
mod table;
mod what_if;
pub(crate) mod words;

#[cfg(test)]
mod tests;

pub(crate) use log::last_lines;
pub(crate) use nothing::{no_asset, nothing_here};
pub(crate) use palette::UserColours;
pub(crate) use parts::Parts;

use crate::auth::{LoginError, LoginGrant};
use crate::http::{App, Shared};
use crate::replica::Reader;
use crate::serve::Connection;
use askama::Template;
use axum::Extension;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Form, Path, Query, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    RETRY_AFTER, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nothing::NoPage;
use serde::Deserialize;
use simulation::SimulationBar;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use warpyard_api::wire::Timestamp;

/// What a browser may do with a page: nothing but show it, with our own style and script.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// Set by the pages' script when it only wants what changes: to the last event it has heard of.
const PART: &str = "x-warpyard-part";

/// The menu: what a page calls itself, its address, its name.
pub(crate) const MENU: &[(&str, &str, &str)] = &[
    ("now", "/", "Now"),
    ("queue", "/queue", "Queue"),
    ("finished", "/finished", "Finished"),
    ("new", "/new", "New job"),
    ("cluster", "/cluster", "Cluster"),
    ("policies", "/policies", "Policies"),
    ("what-if", "/what-if", "What if"),
];

/// The pages' addresses.
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
        .layer(middleware::from_fn_with_state(app.clone(), parts::shared))
        .layer(middleware::from_fn_with_state(app, nothing::framed));
    shown
        .route("/jobs/{id}/log", get(log::more))
        .route("/login", get(login_page).post(login))
        .route("/logout", axum::routing::post(logout))
        .route("/assets/{name}", get(asset))
}

/// What is around every page.
struct Chrome {
    title: String,
    /// Which entry of the menu it is.
    here: &'static str,
    /// Whether only the inside is wanted.
    part: bool,
    /// The last event the page knows of.
    seq: u64,
    now: Timestamp,
    host: String,
    policy: String,
    /// Proves that a change was asked for from one of these pages; empty for whoever came with the token.
    csrf: String,
    /// Where a simulation is shown.
    simulation: Option<SimulationBar>,
    /// How many seconds pass in one of the world's.
    pace: f64,
}

impl Chrome {
    fn of(f: &Reader<'_>, title: impl Into<String>, here: &'static str, frame: Frame) -> Chrome {
        let mut workers = f.cluster().workers().map(|(_, w)| words::text(&w.info.name));
        let host = match (workers.next(), workers.count()) {
            (None, _) => "no worker".into(),
            (Some(only), 0) => only,
            (Some(first), others) => format!("{first} +{others}"),
        };
        let (seq, policy) = (f.cluster().seq(), words::text(&f.cluster().policy().to_string()));
        let Frame { part, csrf, simulation, .. } = frame;
        let pace = simulation.as_ref().map_or(1.0, |s| if s.paused { 0.0 } else { s.speed });
        let (title, now) = (title.into(), words::moment(f.now()));
        Chrome { title, here, part, seq, now, host, policy, csrf, simulation, pace }
    }
}

/// What a request says of how a page is framed.
#[derive(Clone, Default)]
struct Frame {
    part: bool,
    csrf: String,
    simulation: Option<SimulationBar>,
    colours: Arc<UserColours>,
}

impl Frame {
    fn of(app: &App, headers: &HeaderMap) -> Frame {
        let csrf = app.auth.session_of(headers).map(|s| s.csrf).unwrap_or_default();
        let simulation = app.simulation.as_ref().and_then(SimulationBar::of);
        Frame { part: headers.contains_key(PART), csrf, simulation, colours: app.colours.clone() }
    }
}

/// A page on its way.
fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, of_now(HTML), text).into_response(),
        Err(e) => {
            tracing::error!("a page cannot be drawn: {e}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A page that was drawn before.
fn page(body: Bytes) -> Response {
    (of_now(HTML), body).into_response()
}

/// What is shown now and kept nowhere.
fn of_now(kind: &'static str) -> [(HeaderName, HeaderValue); 2] {
    [(CONTENT_TYPE, HeaderValue::from_static(kind)), (CACHE_CONTROL, HeaderValue::from_static("no-store"))]
}

/// Has a browser do no more with an answer than show it: with a page, and with what a task printed.
pub(crate) async fn kept_harmless(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // What is polled may be kept by who asked for it, and is asked about again each time.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
    response
}

async fn asset(Path(name): Path<String>) -> Response {
    let (kind, content) = match name.as_str() {
        "style.css" => ("text/css; charset=utf-8", include_str!("../../assets/style.css")),
        "act.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/act.js")),
        "chart.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/chart.js")),
        "policy.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/policy.js")),
        "what-if.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/what-if.js")),
        "log.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/log.js")),
        "new.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/new.js")),
        "live.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/live.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../../assets/icon.svg")),
        _ => return no_asset(),
    };
    let mut response = (of_now(kind), content).into_response();
    // Named without a version: a browser asks again, at no cost worth naming.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    next: String,
    /// What was wrong with the last try.
    wrong: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "entered.html")]
struct Entered {
    next: String,
}

/// Leads to where a login counts. A page and no redirect, since what answers a form may redirect to this host only.
#[derive(Template)]
#[template(path = "elsewhere.html")]
struct Elsewhere {
    link: String,
}

/// The way in, shown in place of a page.
pub(crate) fn login_instead(wanted: &Uri) -> Response {
    let next = wanted.path_and_query().map_or("/", |p| p.as_str());
    html(StatusCode::UNAUTHORIZED, &Login { next: own_address(next).to_owned(), wrong: None })
}

/// The address if it is one of ours, or the first page's.
fn own_address(next: &str) -> &str {
    let ours = next.starts_with('/') && !next[1..].starts_with(['/', '\\']) && !next.starts_with("/login");
    if ours && next.bytes().all(|b| b.is_ascii_graphic()) { next } else { "/" }
}

#[derive(Deserialize)]
struct Link {
    once: Option<String>,
    next: Option<String>,
}

async fn login_page(
    State(app): Shared,
    method: Method,
    headers: HeaderMap,
    Query(Link { once, next }): Query<Link>,
) -> Response {
    let next = own_address(next.as_deref().unwrap_or("/")).to_owned();
    // Whoever only asks for the headers has not opened it.
    let Some(link) = once.filter(|_| method == Method::GET) else {
        return html(StatusCode::OK, &Login { next, wrong: None });
    };
    match app.auth.enter_once(&link, &headers) {
        // No redirect: a browser that came from elsewhere would not send the strict cookie along one.
        Ok(Some(LoginGrant::Cookie(cookie))) => with_cookie(html(StatusCode::OK, &Entered { next }), &cookie),
        Ok(Some(LoginGrant::OtherHost(link))) => {
            html(StatusCode::OK, &Elsewhere { link: with_next(link, &next) })
        }
        Ok(None) => html(
            StatusCode::FORBIDDEN,
            &Login {
                next: "/".into(),
                wrong: Some("This link was used before, or is more than ten minutes old."),
            },
        ),
        Err(e) => NoPage::Failed(e.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct Credentials {
    token: String,
    #[serde(default)]
    next: String,
}

/// The address of a link that leads on to another page than the first.
fn with_next(link: String, next: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    if next == "/" { link } else { format!("{link}&next={}", next.bytes().map(escape).collect::<String>()) }
}

async fn login(
    State(app): Shared,
    connection: Option<Extension<Arc<Connection>>>,
    headers: HeaderMap,
    Form(given): Form<Credentials>,
) -> Response {
    let next = own_address(&given.next).to_owned();
    let from = connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Extension(by)| by.peer.ip());
    match app.auth.enter_by_token(&given.token, from, &headers) {
        Ok(Ok(LoginGrant::OtherHost(link))) => {
            html(StatusCode::OK, &Elsewhere { link: with_next(link, &next) })
        }
        Ok(Ok(LoginGrant::Cookie(cookie))) => {
            let to = HeaderValue::from_str(&next).unwrap_or(HeaderValue::from_static("/"));
            with_cookie(
                (StatusCode::SEE_OTHER, of_now("text/plain"), [(LOCATION, to)]).into_response(),
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
        Err(e) => NoPage::Failed(e.to_string()).into_response(),
    }
}

async fn logout(State(app): Shared, headers: HeaderMap) -> Response {
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
