//! The HTTP API: routes, authentication and authorisation of requests, and refusals.

pub(crate) mod access;
mod actions;
mod blocking;
mod claims;
mod endpoint;
pub(crate) mod etag;
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
mod remote_worker;
mod replays;
mod simulation;
mod snapshots;
mod table;
mod terminal;
mod throughput;
mod tokens;

#[cfg(test)]
mod tests;

pub(crate) use access::VOUCHED_USER;
pub(crate) use claims::watch_again as watch_claims;

pub use openapi::openapi;

pub(crate) use crate::app::{App, AppState, CallerExtension, HIDDEN, SOMEONE};

use crate::caller::Caller;
use crate::quota::QuotaPermit;
use crate::worker_protocol;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use refusal::Refusal;
use std::sync::Arc;
use warpyard_api::problem::code;
use warpyard_core::limits::Caps;
use warpyard_worker::accounts::{Account, AccountError};
use warpyard_worker::login_env::LoginEnvironment;

/// The largest request body at the paths in [`LARGE`]: a job document with an environment.
const BODY_LIMIT: usize = 16 << 20;

/// Paths that accept large bodies, and parse them on blocking threads.
const LARGE: [&str; 7] = [
    "/v1/jobs",
    "/v1/jobs/document",
    "/v1/snapshots",
    "/v1/throughputs",
    worker_protocol::SELF,
    worker_protocol::REPORTS,
    worker_protocol::LOGS,
];

/// The prefix of the pages' assets, which need no login.
pub(crate) const ASSETS: &str = "/assets/";

impl App {
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
        self.quotas.requests.acquire(name.clone(), most as usize).map(Some).ok_or_else(refuse)
    }

    /// The configured limits of a caller, and the name by which they count; none for the owner and for workers.
    pub(crate) fn caps_of(&self, who: &Caller) -> Option<(String, Caps)> {
        if let Caller::Owner | Caller::Worker(_) = who {
            return None;
        }
        let name = who.quota_name()?;
        let member = |group: &&String| who.person().is_some_and(|person| person.is_in(group));
        let groups: Vec<String> = self.quotas.limits.groups.keys().filter(member).cloned().collect();
        let caps = self.quotas.limits.caps_of(&name, &groups);
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
        // Where every task runs as the server does, the owner's jobs belong to the server's account by default.
        let is_owners = self.sharing.is_none() && who.name().is_none();
        let asked = asked.or_else(|| self.account.as_ref().filter(|_| is_owners).map(|a| a.name.clone()));
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

/// The routes of the API.
pub(crate) fn routes() -> Router<Arc<App>> {
    table::endpoints().into_iter().fold(Router::new(), |router, endpoint| {
        let required = endpoint.access;
        let route = endpoint.route.route_layer(middleware::from_fn(move |request: Request, next: Next| {
            access::authorise(required, request, next)
        }));
        let route = match LARGE.contains(&endpoint.path) {
            true => route.layer(DefaultBodyLimit::max(BODY_LIMIT)),
            false => route,
        };
        router.route(endpoint.path, route)
    })
}

/// The API's paths in the order they are documented.
pub(crate) fn described_paths() -> Vec<&'static str> {
    table::endpoints().iter().map(|endpoint| endpoint.path).collect()
}
