//! The state that the API and the pages share, below both. It holds no handlers and makes no responses.

mod claim_contacts;
mod page_caches;
mod progress_meters;
mod request_quotas;

pub(crate) use page_caches::{Rendered, UserColours};
pub(crate) use progress_meters::{Meter, Meters};

use crate::auth::Authenticator;
use crate::caller::{Caller, Sharing};
use crate::change_feed::ChangeFeed;
use crate::convert::Defaults;
use crate::engine::EngineHandle;
use crate::estimate_command::EstimateCommand;
use crate::forecast_cache::ForecastCache;
use crate::login_envs::LoginEnvironments;
use crate::logs::LogWatches;
use crate::model_admission::DEFAULT_SHARE;
use crate::remote_workers::RemoteWorkers;
use crate::repairs::Repairs;
use crate::replays::Replays;
use crate::simulation::Simulation;
use crate::tokens::Tokens;
use axum::Extension;
use axum::extract::State;
use claim_contacts::ClaimContacts;
use page_caches::PageCaches;
use request_quotas::RequestQuotas;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use warpyard_api::token::Fingerprint;
use warpyard_core::{PolicyDef, Time};
use warpyard_policies::POLICIES;
use warpyard_worker::accounts::Account;
use warpyard_worker::agent::{Layout, Watched};
use warpyard_worker::supervise::Bounds;

/// The state that handlers share. What concerns only claims, quotas or pages is a struct of its own.
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
    /// Share of jobs with models that stay below their admission bounds.
    pub(crate) bound_share: f64,
    /// The command that estimates models, if one is configured.
    pub(crate) estimate_command: Option<EstimateCommand>,
    pub(crate) policies: &'static [PolicyDef],
    pub(crate) watched: Option<Arc<Mutex<Watched>>>,
    /// Workers on other machines.
    pub(crate) remote: Arc<RemoteWorkers>,
    /// The most bytes of each output that are kept.
    pub(crate) log_cap: u64,
    /// The name of the worker inside the server, where there is one.
    pub(crate) local_worker: Option<String>,
    /// The process limit of tasks on this machine.
    pub(crate) bounds: Option<Bounds>,
    pub(crate) meters: Meters,
    /// Contact with the holders of claims.
    pub(crate) claims: ClaimContacts,
    /// Bounds of what one caller may ask at once.
    pub(crate) quotas: RequestQuotas,
    /// What pages share.
    pub(crate) shown: PageCaches,
    pub(crate) started: Time,
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
            replays: Arc::default(),
            data: layout.data().to_owned(),
            layout,
            log_watches: Arc::default(),
            repairs: Arc::default(),
            url,
            defaults: Defaults::default(),
            bound_share: DEFAULT_SHARE,
            estimate_command: None,
            policies: POLICIES,
            watched: None,
            remote: Arc::default(),
            log_cap: LOG_CAP,
            local_worker: None,
            bounds: None,
            meters: Meters::default(),
            claims: ClaimContacts::default(),
            quotas: RequestQuotas::default(),
            shown: PageCaches::default(),
            started,
            simulation: None,
            sharing: None,
            account: None,
            login_envs: LoginEnvironments::default(),
            stop,
        }
    }

    /// Refreshes every open page, because of something that is not an event.
    pub(crate) fn refresh_pages(&self) {
        self.shown.rendered.clear();
        self.notices.refresh();
    }
}

/// The most bytes of each output that are kept, unless another limit is configured.
pub(crate) const LOG_CAP: u64 = 64 << 20;

/// The name shown for a job that is hidden from the caller.
pub(crate) const HIDDEN: &str = "private";

/// The name shown for the user of a hidden job.
pub(crate) const SOMEONE: &str = "someone";

pub(crate) type AppState = State<Arc<App>>;

/// The caller of a request, as the API determined it.
pub(crate) type CallerExtension = Extension<Caller>;
