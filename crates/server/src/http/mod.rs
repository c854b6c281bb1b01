//! The HTTP interface: what can be asked, who may ask, and how refusals look.

mod act;
pub(crate) mod answer;
pub(crate) mod jobs;
mod machine;

use crate::convert::Defaults;
use crate::events::Notices;
use crate::idempotency::Keys;
use crate::live::Live;
use crate::outlooks::Outlooks;
use crate::pages::{self, Doors};
use crate::who::{Caller, Peer, Sharing};
use answer::Refusal;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use warpyard_api::problem::code;
use warpyard_core::{PolicyDef, Time};
use warpyard_worker::agent::Watched;
use warpyard_worker::people::Person;

/// The largest request that is read: a job document and an environment.
const BODY_LIMIT: usize = 16 << 20;

/// What every request may use.
pub(crate) struct App {
    pub(crate) live: Live,
    pub(crate) doors: Doors,
    pub(crate) notices: Arc<Notices>,
    pub(crate) outlooks: Arc<Outlooks>,
    pub(crate) data: PathBuf,
    pub(crate) url: String,
    pub(crate) defaults: Defaults,
    pub(crate) policies: &'static [PolicyDef],
    pub(crate) watched: Option<Arc<Mutex<Watched>>>,
    pub(crate) keys: Keys,
    pub(crate) started: Time,
    /// How the machine is shared; nothing where the server serves its owner alone.
    pub(crate) sharing: Option<Sharing>,
    /// Asks for the server's end; with `true`, of running tasks too.
    pub(crate) stop: mpsc::UnboundedSender<bool>,
}

impl App {
    /// Whether people see nothing of each other's jobs.
    fn private(&self) -> bool {
        self.sharing.as_ref().is_some_and(|s| s.private)
    }

    /// Refuses users whom no task can run as, where tasks run as their users.
    fn must_have_account(&self, user: &str) -> Result<(), Refusal> {
        if self.sharing.is_none() {
            return Ok(());
        }
        match Person::to_run_as(user) {
            Ok(_) => Ok(()),
            Err(why) => Err(Refusal::new(403, code::NO_ACCOUNT, why.to_string())),
        }
    }
}

pub(crate) type Shared = State<Arc<App>>;

/// Who sends a request, as [`let_in`] found out.
pub(crate) type By = Extension<Caller>;

/// The interface and the pages, closed to whoever has no token and has not logged in.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/info", get(machine::info))
        .route("/v1/schema/job", get(|| async { Json(warpyard_api::job::job_schema()) }))
        .route("/v1/jobs", get(jobs::list).post(jobs::submit))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/jobs/{id}/why", get(jobs::why))
        .route("/v1/jobs/{id}/logs", get(jobs::logs))
        .route("/v1/jobs/{id}/cancel", post(act::cancel))
        .route("/v1/jobs/{id}/retry", post(act::retry))
        .route("/v1/jobs/{id}/hold", post(act::hold))
        .route("/v1/jobs/{id}/release", post(act::release))
        .route("/v1/jobs/{id}/pause", post(act::pause))
        .route("/v1/jobs/{id}/resume", post(act::resume))
        .route("/v1/jobs/{id}/priority", post(act::priority))
        .route("/v1/gpus", get(machine::gpus))
        .route("/v1/workers", get(machine::workers))
        .route("/v1/workers/{id}/drain", post(machine::drain))
        .route("/v1/workers/{id}/resume", post(machine::resume))
        .route("/v1/policies", get(machine::policies))
        .route("/v1/policy", put(machine::set_policy))
        .route("/v1/history", get(machine::history))
        .route("/v1/events", get(machine::events))
        .route("/v1/shutdown", post(machine::shutdown))
        .route("/v1/admin/rebuild", post(machine::rebuild))
        .merge(pages::router())
        .fallback(async |uri: Uri| match uri.path().starts_with("/v1/") {
            true => Refusal::new(404, code::NOT_FOUND, "there is nothing at this address").into_response(),
            false => pages::nothing_here(),
        })
        .layer(middleware::from_fn_with_state(app.clone(), let_in))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(app)
}

/// Lets in whoever has an account here and comes through the socket, has the token or, to look but not to change
/// anything, has logged in. Others are refused, or shown where to log in.
async fn let_in(State(app): Shared, mut request: Request, next: Next) -> Response {
    if let (Some(ConnectInfo(peer)), Some(sharing)) =
        (request.extensions().get::<ConnectInfo<Peer>>(), &app.sharing)
    {
        return match Caller::at(*peer, sharing) {
            Ok(Some(caller)) => {
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Ok(None) => {
                Refusal::new(401, code::NO_ACCOUNT, "you have no account on this machine").into_response()
            }
            Err(e) => Refusal::internal(e).into_response(),
        };
    }
    request.extensions_mut().insert(Caller::Owner);
    let path = request.uri().path();
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    let given = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let has_token = given.and_then(|v| v.strip_prefix("Bearer ")).is_some_and(|t| app.doors.is_token(t));
    let open = path == "/login" || path.starts_with("/assets/");
    if open || has_token || (looks && app.doors.knows(request.headers())) {
        return next.run(request).await;
    }
    if path.starts_with("/v1/") || !looks {
        return Refusal::new(401, code::UNAUTHORISED, "the token is missing or wrong").into_response();
    }
    pages::login_instead(request.uri())
}
