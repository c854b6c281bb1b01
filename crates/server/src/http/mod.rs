//! The HTTP interface: what can be asked, who may ask, and how refusals look.

mod act;
pub(crate) mod answer;
mod blocking;
mod claims;
mod endpoint;
mod etag;
mod gpus;
pub(crate) mod jobs;
mod limits;
mod login_link;
mod machine;
mod metrics;
mod policy;
mod preview;
mod replays;
mod simulation;
mod snapshots;
mod spec;
mod speeds;
mod table;
mod terminal;

#[cfg(test)]
mod tests;

pub(crate) use claims::watch_again as watch_claims;
pub(crate) use speeds::Meters;

pub use spec::openapi;

use crate::auth::Authenticator;
use crate::caller::{Caller, PeerCredentials, Sharing};
use crate::change_feed::ChangeFeed;
use crate::convert::Defaults;
use crate::engine::EngineHandle;
use crate::forecast_cache::ForecastCache;
use crate::login_envs::LoginEnvironments;
use crate::pages::{self, Parts, UserColours};
use crate::quota::{Quota, QuotaPermit};
use crate::repairs::Repairs;
use crate::replays::Replays;
use crate::serve::Connection;
use crate::simulation::Simulation;
use answer::Refusal;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HOST};
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use warpyard_api::problem::code;
use warpyard_core::limits::{Caps, Limits};
use warpyard_core::{AttemptId, JobId, PolicyDef, Time};
use warpyard_policies::POLICIES;
use warpyard_worker::accounts::{Account, AccountError};
use warpyard_worker::agent::{Layout, Watched};
use warpyard_worker::login_env::LoginEnvironment;
use warpyard_worker::supervise::Bounds;

/// The largest request that is read at the addresses in [`LARGE`]: a job document and an environment.
const BODY_LIMIT: usize = 16 << 20;

/// The largest request that is read anywhere else. Those are parsed by the threads that answer.
const SMALL_BODY_LIMIT: usize = 1 << 20;

/// Addresses that take large requests, and parse those of people on blocking threads.
const LARGE: [&str; 4] = ["/v1/jobs", "/v1/jobs/document", "/v1/snapshots", "/v1/throughputs"];

/// How long a request's body may rest while it arrives; tests do not wait that long.
const BODY_WITHIN: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(30) };

/// The most bytes a snapshot may hold, unless configured.
const SNAPSHOT_LIMIT: u64 = 1 << 30;

/// Where what pages are drawn with is, which anyone may have.
const ASSETS: &str = "/assets/";

/// How many claims' holders are remembered as heard of.
const HEARD_OF: usize = 10_000;

/// What every request may use.
pub(crate) struct App {
    pub(crate) engine: EngineHandle,
    pub(crate) auth: Authenticator,
    pub(crate) notices: Arc<ChangeFeed>,
    pub(crate) forecasts: Arc<ForecastCache>,
    pub(crate) parts: Parts,
    pub(crate) colours: Arc<UserColours>,
    pub(crate) replays: Arc<Replays>,
    pub(crate) data: PathBuf,
    /// Where its jobs' files are.
    pub(crate) layout: Layout,
    /// Damage that was found and dealt with.
    pub(crate) repairs: Arc<Repairs>,
    pub(crate) url: String,
    pub(crate) defaults: Defaults,
    pub(crate) policies: &'static [PolicyDef],
    pub(crate) watched: Option<Arc<Mutex<Watched>>>,
    /// How tasks on this machine are kept from having too many processes.
    pub(crate) bounds: Option<Bounds>,
    pub(crate) meters: Meters,
    /// When holders of claims were last heard of.
    pub(crate) heard: Mutex<BTreeMap<JobId, Time>>,
    /// Whose turn it is to have something large looked at.
    pub(crate) turns: blocking::Turns,
    /// How many requests of each user are being answered.
    pub(crate) requests: Arc<Quota<u32>>,
    /// The limits of the configuration.
    pub(crate) limits: Arc<Limits>,
    /// Who waits for a claim.
    pub(crate) waiting: Arc<claims::Waiting>,
    /// Who is at which terminal.
    pub(crate) guests: Arc<Quota<AttemptId>>,
    pub(crate) started: Time,
    /// The most bytes a snapshot may hold.
    pub(crate) snapshot_limit: u64,
    /// The simulation that is shown, where this is no live server.
    pub(crate) simulation: Option<Simulation>,
    /// How the machine is shared; nothing where the server serves its owner alone.
    pub(crate) sharing: Option<Sharing>,
    /// The account the server runs as, and tasks with it where the machine is not shared.
    pub(crate) account: Option<Account>,
    /// What users' login shells set.
    pub(crate) login_envs: LoginEnvironments,
    /// Asks for the server's end; with `true`, of running tasks too.
    pub(crate) stop: mpsc::UnboundedSender<bool>,
}

/// What a server is made of that is different from one to the next; the rest of an [`App`] may be set beside it.
pub(crate) struct Base {
    pub(crate) engine: EngineHandle,
    pub(crate) auth: Authenticator,
    pub(crate) notices: Arc<ChangeFeed>,
    pub(crate) layout: Layout,
    pub(crate) url: String,
    pub(crate) stop: mpsc::UnboundedSender<bool>,
}

impl App {
    /// A server for its owner alone, with nothing configured.
    pub(crate) fn new(Base { engine, auth, notices, layout, url, stop }: Base) -> App {
        let started = engine.clock().now();
        App {
            forecasts: Arc::new(ForecastCache::new(engine.clone(), notices.clone())),
            engine,
            auth,
            notices,
            parts: Parts::default(),
            colours: Arc::default(),
            replays: Arc::default(),
            data: layout.data().to_owned(),
            layout,
            repairs: Arc::default(),
            url,
            defaults: Defaults::default(),
            policies: POLICIES,
            watched: None,
            bounds: None,
            meters: Meters::default(),
            heard: Mutex::default(),
            turns: blocking::Turns::default(),
            requests: Arc::default(),
            limits: Arc::default(),
            waiting: Arc::default(),
            guests: Arc::default(),
            started,
            snapshot_limit: SNAPSHOT_LIMIT,
            simulation: None,
            sharing: None,
            account: None,
            login_envs: LoginEnvironments::default(),
            stop,
        }
    }

    /// Notes that whoever holds a claim was heard of now.
    fn heard(&self, job: JobId) {
        let mut heard = self.heard.lock().expect("nobody panics while noting");
        heard.insert(job, self.engine.clock().now());
        // Claims are few; those long gone need not be kept.
        while heard.len() > HEARD_OF {
            heard.pop_first();
        }
    }

    fn last_heard(&self, job: JobId) -> Option<Time> {
        self.heard.lock().expect("nobody panics while noting").get(&job).copied()
    }

    /// Has every open page drawn again, because of something that is no event.
    fn look_again(&self) {
        self.parts.let_go();
        self.notices.look_again();
    }

    /// A place among the requests of a user that are being answered at the same time.
    fn seat(&self, who: &Caller) -> Result<Option<QuotaPermit<u32>>, Refusal> {
        let Caller::Account { person, .. } = who else { return Ok(None) };
        let Some(most) = self.caps_now(person).requests else { return Ok(None) };
        self.requests.take(person.uid, most as usize).map(Some).ok_or_else(|| {
            let said = format!(
                "{} may have {most} requests answered at the same time (requests); wait for some of them to end",
                person.name
            );
            Refusal::new(429, code::OVER_LIMIT, said)
        })
    }

    /// The limits of someone, as configured.
    fn caps_now(&self, person: &Account) -> Caps {
        let groups: Vec<String> =
            self.limits.groups.keys().filter(|group| person.is_in(group)).cloned().collect();
        self.limits.caps_of(&person.name, &groups)
    }

    /// The login environment of someone; their shell is confined as a task without GPUs is.
    pub(crate) async fn login_environment(&self, person: &Account) -> Arc<LoginEnvironment> {
        let limits = match (&self.bounds, &self.watched) {
            (Some(bounds), Some(watched)) => {
                let watched = watched.lock().expect("nobody panics while looking at devices");
                bounds.of_login_shell(watched.gpus())
            }
            _ => Vec::new(),
        };
        self.login_envs.of(person, limits).await
    }

    /// Whether people see nothing of each other's jobs.
    pub(crate) fn private(&self) -> bool {
        self.sharing.as_ref().is_some_and(|s| s.private)
    }

    /// Whether someone is not to know of this user's jobs.
    pub(crate) fn hides(&self, who: &Caller, user: &str) -> bool {
        self.private() && !who.owns(user)
    }

    /// Whose a submission or claim is. Where tasks run as their users, it must be someone's.
    fn submitter(&self, who: &Caller, asked: Option<String>) -> Result<String, Refusal> {
        if self.sharing.is_some() && who.name().is_none() && asked.is_none() {
            let why = "tasks run as their users here, and a token is nobody's; name one as \"user\"";
            return Err(Refusal::new(403, code::NO_ACCOUNT, why));
        }
        // Where everything runs as the server does, it is its account's unless something else is said.
        let asked = asked
            .or_else(|| self.account.as_ref().filter(|_| self.sharing.is_none()).map(|a| a.name.clone()));
        let user = who.submits_for(asked)?;
        self.must_have_account(&user)?;
        Ok(user)
    }

    /// The account that tasks of a user run as: theirs where the machine is shared, otherwise the server's.
    pub(crate) fn runs_as(&self, user: &str) -> Result<Option<Account>, Refusal> {
        match self.sharing {
            None => Ok(self.account.clone()),
            Some(_) => Account::for_tasks(user).map(Some).map_err(|why| no_account(&why)),
        }
    }

    /// Refuses users whom no task can run as, where tasks run as their users.
    fn must_have_account(&self, user: &str) -> Result<(), Refusal> {
        if self.sharing.is_none() {
            return Ok(());
        }
        Account::for_tasks(user).map(drop).map_err(|why| no_account(&why))
    }
}

fn no_account(why: &AccountError) -> Refusal {
    Refusal::new(403, code::NO_ACCOUNT, why.to_string())
}

/// What is said in place of a job that someone is not to know of.
pub(crate) const HIDDEN: &str = "private";

/// What is said in place of its user.
pub(crate) const SOMEONE: &str = "someone";

pub(crate) type Shared = State<Arc<App>>;

/// Who sends a request, as [`let_in`] found out.
pub(crate) type By = Extension<Caller>;

/// The interface and the pages, closed to whoever has no token and has not logged in.
pub(crate) fn router(app: Arc<App>) -> Router {
    let described = table::endpoints().into_iter().fold(Router::new(), |router, endpoint| {
        let route = match LARGE.contains(&endpoint.path) {
            true => endpoint.route.layer(DefaultBodyLimit::max(BODY_LIMIT)),
            false => endpoint.route,
        };
        router.route(endpoint.path, route)
    });
    described
        .merge(pages::router(app.clone()))
        .fallback(async |State(app): Shared, uri: Uri, headers: HeaderMap| match uri.path() {
            path if path.starts_with("/v1/") => {
                Refusal::new(404, code::NOT_FOUND, "there is nothing at this address").into_response()
            }
            path if path.starts_with(ASSETS) => pages::no_asset(),
            _ => pages::nothing_here(&app, &headers).await,
        })
        .method_not_allowed_fallback(async |method: Method| {
            Refusal::new(405, code::WRONG_METHOD, format!("this address does not answer to {method}"))
        })
        .layer(middleware::from_fn(etag::tagged))
        .layer(middleware::from_fn_with_state(app.clone(), let_in))
        .layer(middleware::map_response(pages::kept_harmless))
        .layer(DefaultBodyLimit::max(SMALL_BODY_LIMIT))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth_compressing))
        .layer(RequestBodyTimeoutLayer::new(BODY_WITHIN))
        .with_state(app)
}

/// The addresses of the interface in the order they are described.
pub(crate) fn described_paths() -> Vec<&'static str> {
    table::endpoints().iter().map(|endpoint| endpoint.path).collect()
}

/// Lets in whoever has an account here and comes through a socket, has the token, or has logged in; a change from a
/// login must come from one of our pages, which know a secret of that login. Others are refused, or shown where to log
/// in.
async fn let_in(State(app): Shared, mut request: Request, next: Next) -> Response {
    if let Some(refusal) = wrong_host(&app, &request) {
        return refusal.into_response();
    }
    let open = is_open(request.uri().path());
    match caller(&app, &request) {
        Ok(caller) => {
            let connection = request.extensions().get::<Arc<Connection>>();
            if connection.is_some_and(|connection| !open && !connection.admit(caller.name())) {
                return too_many_connections();
            }
            let _seat = match app.seat(&caller) {
                Ok(seat) => seat,
                Err(refusal) => return refusal.into_response(),
            };
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => *refusal,
    }
}

/// What anyone may ask for, which shows nothing of who they are.
fn is_open(path: &str) -> bool {
    path == "/login" || path == login_link::PROOF || path.starts_with(ASSETS)
}

/// Refuses requests that name a host this server does not answer for: a page of another site may have been led here. A
/// process that comes through a socket is no browser.
fn wrong_host(app: &App, request: &Request) -> Option<Refusal> {
    if request.extensions().get::<ConnectInfo<PeerCredentials>>().is_some() {
        return None;
    }
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let in_line = request.uri().authority().map(|authority| authority.as_str());
    let agree = in_line.is_none_or(|in_line| Some(in_line) == header);
    if agree && app.auth.kind(request.headers()).is_some() {
        return None;
    }
    let host = in_line.or(header).unwrap_or_default();
    Some(Refusal::new(
        421,
        code::WRONG_HOST,
        format!(
            "this server does not answer for the host '{host}'; add it to `hosts` in its configuration if it should"
        ),
    ))
}

fn too_many_connections() -> Response {
    let said =
        "you have as many connections as one may have, or the server has; close some, or use its socket";
    let mut response = Refusal::new(503, code::TOO_MANY_CONNECTIONS, said).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Who sends a request, or why it is not let in.
fn caller(app: &App, request: &Request) -> Result<Caller, Box<Response>> {
    let refuse =
        |status, code, detail: &str| Err(Box::new(Refusal::new(status, code, detail).into_response()));
    let (path, headers) = (request.uri().path(), request.headers());
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_page = !path.starts_with("/v1/") && path != "/metrics";
    // Pages show everyone's jobs.
    let has_no_pages = |caller: &Caller| is_page && app.private() && !caller.is_admin();
    let no_pages = || refuse(403, code::ADMINS_ONLY, &format!("{} has no pages for you", app.url));
    let peer = request.extensions().get::<ConnectInfo<PeerCredentials>>();
    if let Some(ConnectInfo(peer)) = peer {
        let Some(sharing) = &app.sharing else {
            return match peer.is_owner() {
                true => Ok(Caller::Owner),
                false => refuse(
                    401,
                    code::NO_ACCOUNT,
                    "this server is not yours; start your own with `warpyard up`",
                ),
            };
        };
        return match Caller::at(*peer, sharing) {
            Ok(Some(caller)) if has_no_pages(&caller) => no_pages(),
            Ok(Some(caller)) => Ok(caller),
            Ok(None) => refuse(401, code::NO_ACCOUNT, "you have no account on this machine"),
            Err(e) => Err(Box::new(Refusal::internal(e).into_response())),
        };
    }
    let given = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let has_token = given.and_then(|v| v.strip_prefix("Bearer ")).is_some_and(|t| app.auth.is_token(t));
    if is_open(path) || has_token {
        return Ok(Caller::Owner);
    }
    let session = app.auth.session_of(headers).map(|session| session.holder.now(app.sharing.as_ref()));
    let by = match session.transpose() {
        Ok(found) => found.flatten(),
        Err(e) => return Err(Box::new(Refusal::internal(e).into_response())),
    };
    match by {
        Some(caller) if has_no_pages(&caller) && path != "/logout" => no_pages(),
        Some(caller) if looks => Ok(caller),
        // Whoever is in by a link must not make more of them.
        Some(caller) if app.auth.may_change(headers) && path != "/v1/login" => Ok(caller),
        Some(_) => refuse(
            403,
            code::FORBIDDEN,
            "a change from a login needs the secret of its pages; load the page again",
        ),
        None if looks && is_page => Err(Box::new(pages::login_instead(request.uri()))),
        None => refuse(
            401,
            code::UNAUTHORISED,
            "the token is missing or wrong; send `Authorization: Bearer` with what is in the file token of the \
             server's data directory",
        ),
    }
}

/// Whether an answer gains by being compressed: not what comes bit by bit, which would wait in the compressor.
fn worth_compressing(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    [
        "application/json",
        "application/problem+json",
        "text/html",
        "text/css",
        "text/javascript",
        "image/svg+xml",
    ]
    .iter()
    .any(|k| kind.starts_with(k))
}
