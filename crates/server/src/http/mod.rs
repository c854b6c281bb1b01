//! The HTTP API: router, authentication and authorisation of requests, and refusals.

mod access;
mod actions;
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
mod openapi;
mod policy;
mod preview;
pub(crate) mod refusal;
mod replays;
mod simulation;
mod snapshots;
mod table;
mod terminal;
mod throughput;
mod tokens;

#[cfg(test)]
mod tests;

pub(crate) use claims::watch_again as watch_claims;
pub(crate) use throughput::Meters;

pub use openapi::openapi;

use crate::auth::Authenticator;
use crate::caller::{Caller, Sharing};
use crate::change_feed::ChangeFeed;
use crate::convert::Defaults;
use crate::engine::EngineHandle;
use crate::forecast_cache::ForecastCache;
use crate::login_envs::LoginEnvironments;
use crate::logs::LogWatches;
use crate::pages::{self, RenderCache, UserColours};
use crate::quota::{Quota, QuotaPermit};
use crate::repairs::Repairs;
use crate::replays::Replays;
use crate::simulation::Simulation;
use crate::tokens::Tokens;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::{Extension, Router};
use refusal::Refusal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use warpyard_api::problem::code;
use warpyard_api::token::Fingerprint;
use warpyard_core::limits::{Caps, Limits};
use warpyard_core::{AttemptId, JobId, PolicyDef, Time};
use warpyard_policies::POLICIES;
use warpyard_worker::accounts::{Account, AccountError};
use warpyard_worker::agent::{Layout, Watched};
use warpyard_worker::login_env::LoginEnvironment;
use warpyard_worker::supervise::Bounds;

/// The largest request body at the paths in [`LARGE`]: a job document with an environment.
const BODY_LIMIT: usize = 16 << 20;

/// The largest request body elsewhere, where bodies are parsed on the async threads.
const SMALL_BODY_LIMIT: usize = 1 << 20;

/// Paths that accept large bodies, and parse them on blocking threads.
const LARGE: [&str; 4] = ["/v1/jobs", "/v1/jobs/document", "/v1/snapshots", "/v1/throughputs"];

/// The longest pause while a request body arrives; short in tests, which wait for it.
const BODY_WITHIN: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(30) };

/// The default limit of a snapshot's size in bytes.
const SNAPSHOT_LIMIT: u64 = 1 << 30;

/// The prefix of the pages' assets, which need no login.
const ASSETS: &str = "/assets/";

/// The most claims whose last heartbeat is remembered.
const MAX_HEARTBEATS: usize = 10_000;

/// The state that handlers share.
pub(crate) struct App {
    pub(crate) engine: EngineHandle,
    pub(crate) auth: Authenticator,
    /// Personal tokens, join tokens and the keys of workers.
    pub(crate) tokens: Arc<Tokens>,
    /// Workers that may vouch by configuration, beside those that joined with a token that says so.
    pub(crate) vouching: Vec<String>,
    /// What tokens say of how others reach the server.
    pub(crate) reached: Reached,
    pub(crate) notices: Arc<ChangeFeed>,
    pub(crate) forecasts: Arc<ForecastCache>,
    pub(crate) render_cache: RenderCache,
    pub(crate) colours: Arc<UserColours>,
    pub(crate) replays: Arc<Replays>,
    pub(crate) data: PathBuf,
    /// The directory layout of jobs' files.
    pub(crate) layout: Layout,
    /// Watches of logs that are followed.
    pub(crate) log_watches: Arc<LogWatches>,
    /// Damaged files that were found and repaired.
    pub(crate) repairs: Arc<Repairs>,
    pub(crate) url: String,
    pub(crate) defaults: Defaults,
    pub(crate) policies: &'static [PolicyDef],
    pub(crate) watched: Option<Arc<Mutex<Watched>>>,
    /// The name of the worker inside the server, where there is one.
    pub(crate) local_worker: Option<String>,
    /// The process limit of tasks on this machine.
    pub(crate) bounds: Option<Bounds>,
    pub(crate) meters: Meters,
    /// The last heartbeat of each claim.
    pub(crate) heard: Mutex<BTreeMap<JobId, Time>>,
    /// Slots for expensive requests, by user.
    pub(crate) blocking_slots: blocking::BlockingSlots,
    /// Requests in flight, by user.
    pub(crate) requests: Arc<Quota<String>>,
    /// The configured limits.
    pub(crate) limits: Arc<Limits>,
    /// Clients that wait for claims.
    pub(crate) waiting: Arc<claims::ClaimWaiters>,
    /// Clients attached to terminals.
    pub(crate) guests: Arc<Quota<AttemptId>>,
    pub(crate) started: Time,
    /// The most bytes a snapshot may hold.
    pub(crate) snapshot_limit: u64,
    /// The simulation that is shown, where this is not a live server.
    pub(crate) simulation: Option<Simulation>,
    /// How the machine is shared; `None` where the server serves its owner alone.
    pub(crate) sharing: Option<Sharing>,
    /// The account the server runs as; tasks run as it too unless the machine is shared.
    pub(crate) account: Option<Account>,
    /// The login environments of users.
    pub(crate) login_envs: LoginEnvironments,
    /// Requests shutdown; with `true`, running tasks end too.
    pub(crate) stop: mpsc::UnboundedSender<bool>,
}

/// How people and workers of other machines reach the server, and how they know it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    /// The address, such as `https://gpu1:7700`.
    pub(crate) url: String,
    /// The CA of the server's certificate: fingerprint and PEM.
    pub(crate) ca: Option<(Fingerprint, String)>,
}

/// The parts of an [`App`] that have no default.
pub(crate) struct AppParts {
    pub(crate) engine: EngineHandle,
    pub(crate) auth: Authenticator,
    pub(crate) tokens: Tokens,
    pub(crate) notices: Arc<ChangeFeed>,
    pub(crate) layout: Layout,
    pub(crate) url: String,
    pub(crate) stop: mpsc::UnboundedSender<bool>,
}

impl App {
    /// An app for the server's owner alone, with nothing configured.
    pub(crate) fn new(AppParts { engine, auth, tokens, notices, layout, url, stop }: AppParts) -> App {
        let started = engine.clock().now();
        App {
            forecasts: Arc::new(ForecastCache::new(engine.clone(), notices.clone())),
            engine,
            auth,
            tokens: Arc::new(tokens),
            vouching: Vec::new(),
            reached: Reached { url: url.clone(), ca: None },
            notices,
            render_cache: RenderCache::default(),
            colours: Arc::default(),
            replays: Arc::default(),
            data: layout.data().to_owned(),
            layout,
            log_watches: Arc::default(),
            repairs: Arc::default(),
            url,
            defaults: Defaults::default(),
            policies: POLICIES,
            watched: None,
            local_worker: None,
            bounds: None,
            meters: Meters::default(),
            heard: Mutex::default(),
            blocking_slots: blocking::BlockingSlots::default(),
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

    /// Records a heartbeat of a claim.
    fn heard(&self, job: JobId) {
        let mut heard = self.heard.lock().expect("nobody panics while noting");
        heard.insert(job, self.engine.clock().now());
        // Claims are few; the oldest are long gone.
        while heard.len() > MAX_HEARTBEATS {
            heard.pop_first();
        }
    }

    fn last_heard(&self, job: JobId) -> Option<Time> {
        self.heard.lock().expect("nobody panics while noting").get(&job).copied()
    }

    /// Refreshes every open page, because of something that is not an event.
    fn look_again(&self) {
        self.render_cache.clear();
        self.notices.look_again();
    }

    /// Admits a request of a user within their limit of concurrent requests.
    fn seat(&self, who: &Caller) -> Result<Option<QuotaPermit<String>>, Refusal> {
        let Some((name, most)) = self.caps_of(who).and_then(|(name, caps)| Some((name, caps.requests?)))
        else {
            return Ok(None);
        };
        let refuse = || {
            let said =
                format!("{name} may have {most} concurrent requests (requests); wait for some to finish");
            Refusal::new(429, code::OVER_LIMIT, said)
        };
        self.requests.take(name.clone(), most as usize).map(Some).ok_or_else(refuse)
    }

    /// The configured limits of a caller, and the name by which they count; none for the owner and for workers.
    pub(crate) fn caps_of(&self, who: &Caller) -> Option<(String, Caps)> {
        if let Caller::Owner | Caller::Worker(_) = who {
            return None;
        }
        let name = who.quota_name()?;
        let member = |group: &&String| who.person().is_some_and(|person| person.is_in(group));
        let groups: Vec<String> = self.limits.groups.keys().filter(member).cloned().collect();
        let caps = self.limits.caps_of(&name, &groups);
        Some((name, caps))
    }

    /// Whether a worker may vouch for the users of its machine.
    pub(crate) fn may_vouch(&self, worker: &str) -> bool {
        self.tokens.may_vouch(worker) || self.vouching.iter().any(|name| name == worker)
    }

    /// The login environment of a user. Their shell is confined as a task without GPUs is.
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

    /// Private mode: whether users see nothing of each other's jobs.
    pub(crate) fn private(&self) -> bool {
        self.sharing.as_ref().is_some_and(|s| s.private)
    }

    /// Whether a user's jobs are hidden from the caller.
    pub(crate) fn hides(&self, who: &Caller, user: &str) -> bool {
        self.private() && !who.owns(user)
    }

    /// The user a submission or claim belongs to. Where tasks run as their users, there must be one.
    fn submitter(&self, who: &Caller, asked: Option<String>) -> Result<String, Refusal> {
        if self.sharing.is_some() && who.name().is_none() && asked.is_none() {
            let why = "tasks run as their users here, and the token belongs to none; name one as \"user\"";
            return Err(Refusal::new(403, code::NO_ACCOUNT, why));
        }
        // Where every task runs as the server does, a job belongs to the server's account by default.
        let asked = asked
            .or_else(|| self.account.as_ref().filter(|_| self.sharing.is_none()).map(|a| a.name.clone()));
        let user = who.submits_for(asked)?;
        self.must_have_account(&user)?;
        Ok(user)
    }

    /// The account that tasks of a user run as: the user's where the machine is shared, otherwise the server's.
    pub(crate) fn runs_as(&self, user: &str) -> Result<Option<Account>, Refusal> {
        match self.sharing {
            None => Ok(self.account.clone()),
            Some(_) => Account::for_tasks(user).map(Some).map_err(|why| no_account(&why)),
        }
    }

    /// Refuses users without an account to run tasks as, where tasks run as their users.
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

/// The name shown for a job that is hidden from the caller.
pub(crate) const HIDDEN: &str = "private";

/// The name shown for the user of a hidden job.
pub(crate) const SOMEONE: &str = "someone";

pub(crate) type AppState = State<Arc<App>>;

/// The caller of a request, as determined by [`access::authenticate`].
pub(crate) type CallerExtension = Extension<Caller>;

/// The router of the API and the pages, which admits only authenticated requests.
pub(crate) fn router(app: Arc<App>) -> Router {
    let described = table::endpoints().into_iter().fold(Router::new(), |router, endpoint| {
        let required = endpoint.access;
        let route = endpoint.route.route_layer(middleware::from_fn(move |request: Request, next: Next| {
            access::authorise(required, request, next)
        }));
        let route = match LARGE.contains(&endpoint.path) {
            true => route.layer(DefaultBodyLimit::max(BODY_LIMIT)),
            false => route,
        };
        router.route(endpoint.path, route)
    });
    described
        .merge(pages::router(app.clone()))
        .fallback(async |State(app): AppState, uri: Uri, headers: HeaderMap| match uri.path() {
            path if path.starts_with("/v1/") => {
                Refusal::new(404, code::NOT_FOUND, "there is nothing at this address").into_response()
            }
            path if path.starts_with(ASSETS) => pages::no_asset(),
            _ => pages::not_found_page(&app, &headers).await,
        })
        .method_not_allowed_fallback(async |method: Method| {
            Refusal::new(405, code::WRONG_METHOD, format!("{method} is not supported at this address"))
        })
        .layer(middleware::from_fn(etag::add_etag))
        .layer(middleware::from_fn_with_state(app.clone(), access::authenticate))
        .layer(middleware::map_response(pages::add_security_headers))
        .layer(DefaultBodyLimit::max(SMALL_BODY_LIMIT))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(is_compressible))
        .layer(RequestBodyTimeoutLayer::new(BODY_WITHIN))
        .with_state(app)
}

/// The API's paths in the order they are documented.
pub(crate) fn described_paths() -> Vec<&'static str> {
    table::endpoints().iter().map(|endpoint| endpoint.path).collect()
}

/// Whether a response is worth compressing. Streams are not: their chunks would wait in the compressor.
fn is_compressible(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
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
