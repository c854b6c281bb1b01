//! A typed, blocking client for the HTTP API, with one method for each endpoint. It finds the server
//! ([`find_server()`]), verifies that it is the right one before anything is sent, and tells an unreachable server
//! from one that refuses.

mod discovery;
mod error;
mod http;
mod known_servers;
mod stream;
mod terminal;
mod tls;
mod transport;

pub use discovery::{
    ADDRESS_FILE, CA_FILE, SOCKET_FILE, SYSTEM_SOCKET, TOKEN_FILE, Target, data_dir, find_server,
};
pub use error::ClientError;
pub use known_servers::{KnownServer, KnownServers};
pub use stream::{VerificationError, connect_plain};
pub use terminal::TerminalConnection;
pub use tls::client_config;

use crate::problem::code;
use crate::quantity::Micros;
use crate::token::{JoinToken, Secret};
use crate::wire::{
    ActionResult, AdoptRequest, CancelOptions, ClaimRequest, ClaimView, ExtendRequest, GpuView,
    HistoryFilter, HistoryRow, InfoView, JobFilter, JobView, JoinReply, JoinRequest, LimitView, LogFilter,
    LoginView, Page, PolicySpec, PolicyView, Preview, PriorityRequest, ProblemBody, Progress, ProgressReply,
    RebuildResult, RetryRequest, ShutdownRequest, SnapshotUpload, State, SubmitReply, SubmitRequest,
    Throughputs, TlsView, TokenReply, TokenRequest, TokenView, WhyView, WorkerIdentity, WorkerView,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Write;
use std::io::Read;
use std::time::{Duration, Instant};
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The longest duration of one long poll; longer waits take several.
const POLL: Duration = Duration::from_secs(60);
/// The largest response body, above any page.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// A client of one server. Cloning is cheap and shares its connections.
///
/// ```no_run
/// use warpyard_api::client::{Client, find_server};
/// let client = Client::new(find_server(None, None, |name| std::env::var(name).ok())?)?;
/// for gpu in client.gpus()? {
///     println!("{}  {}", gpu.id, gpu.kind);
/// }
/// # Ok::<(), warpyard_api::client::ClientError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    /// The prefix of every request's address.
    base: String,
    target: Target,
}

/// A range of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its offset in the log.
    pub from: u64,
    /// The length of the log.
    pub size: u64,
}

impl Client {
    /// A client for a server; nothing is sent yet.
    pub fn new(target: Target) -> Result<Self, ClientError> {
        let mut target = Target { url: discovery::full_url(&target.url)?, ..target };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_recv_response(Some(ANSWER_WITHIN));
        if target.is_socket() {
            // The kernel says who calls; the token is for ports.
            target.token = None;
            let agent = transport::agent(config.proxy(None).build(), &target);
            return Ok(Self { agent, base: "http://localhost".into(), target });
        }
        // A proxy would have to be asked for a tunnel, and is not: with TLS a connection is always direct.
        let direct = target.is_tls() || discovery::is_loopback(&target.url);
        let config = if direct { config.proxy(None) } else { config };
        Ok(Self { agent: transport::agent(config.build(), &target), base: target.url.clone(), target })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.target.url
    }

    /// The server's version, address, policy and load.
    pub fn info(&self) -> Result<InfoView, ClientError> {
        self.get("/v1/info", &())
    }

    /// The JSON Schema of the job document.
    pub fn schema(&self) -> Result<serde_json::Value, ClientError> {
        self.get("/v1/schema/job", &())
    }

    /// Submits a job. With an idempotency key the request can be repeated safely.
    pub fn submit(&self, submit: &SubmitRequest) -> Result<SubmitReply, ClientError> {
        self.post("/v1/jobs", &self.named(submit))
    }

    /// A page of jobs.
    pub fn jobs(&self, filter: &JobFilter) -> Result<Page<JobView>, ClientError> {
        self.get("/v1/jobs", filter)
    }

    /// A job with its tasks and attempts; `expand` lists the tasks of arrays, page by page.
    pub fn job(&self, id: &str, expand: bool, cursor: Option<&str>) -> Result<JobView, ClientError> {
        let expand = expand.then_some(true);
        self.get(&job_path(id, ""), &serde_json::json!({"expand": expand, "cursor": cursor}))
    }

    /// Waits until a job is done, or for `timeout`; returns its present state.
    pub fn wait(&self, id: &str, timeout: Option<Duration>) -> Result<JobView, ClientError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map_or(POLL, |deadline| deadline.saturating_duration_since(Instant::now()));
            let poll = left.min(POLL);
            let micros = Micros(u64::try_from(poll.as_micros()).unwrap_or(u64::MAX));
            let query = serde_json::json!({"wait": "done", "timeout": micros});
            let request = self.agent.get(self.address(&job_path(id, ""), &query));
            let request = request.config().timeout_recv_response(Some(poll + ANSWER_WITHIN)).build();
            let job: JobView = self.read(self.authorised(request).call())?;
            if job.state == State::Done || left <= POLL && deadline.is_some() {
                return Ok(job);
            }
        }
    }

    /// Cancels jobs or tasks.
    pub fn cancel(&self, id: &str) -> Result<ActionResult, ClientError> {
        self.post_empty(&job_path(id, "/cancel"))
    }

    /// Cancels jobs or tasks without a grace period.
    pub fn cancel_now(&self, id: &str) -> Result<ActionResult, ClientError> {
        let address = self.address(&job_path(id, "/cancel"), &CancelOptions { now: true });
        self.read(self.authorised(self.agent.post(address)).send_empty())
    }

    /// Runs jobs or tasks again, or only those that did not succeed.
    pub fn retry(&self, id: &str, failed_only: bool) -> Result<ActionResult, ClientError> {
        self.post(&job_path(id, "/retry"), &RetryRequest { failed_only })
    }

    /// Holds jobs.
    pub fn hold(&self, id: &str) -> Result<ActionResult, ClientError> {
        self.post_empty(&job_path(id, "/hold"))
    }

    /// Reports the progress of a task.
    pub fn progress(&self, job: &str, progress: &Progress) -> Result<ProgressReply, ClientError> {
        self.post(&job_path(job, "/progress"), progress)
    }

    /// The throughput of profiles by GPU type.
    pub fn throughputs(&self) -> Result<Throughputs, ClientError> {
        self.get("/v1/throughputs", &())
    }

    /// Sets the throughput of profiles by GPU type.
    pub fn throughputs_set(&self, throughputs: &Throughputs) -> Result<Throughputs, ClientError> {
        self.read(self.send(self.agent.put(self.address("/v1/throughputs", &())), throughputs))
    }

    /// Releases held jobs.
    pub fn release(&self, id: &str) -> Result<ActionResult, ClientError> {
        self.post_empty(&job_path(id, "/release"))
    }

    /// Pauses running tasks.
    pub fn pause(&self, id: &str) -> Result<ActionResult, ClientError> {
        self.post_empty(&job_path(id, "/pause"))
    }

    /// Resumes paused tasks.
    pub fn resume(&self, id: &str) -> Result<ActionResult, ClientError> {
        self.post_empty(&job_path(id, "/resume"))
    }

    /// Changes the priority of jobs.
    pub fn priority(&self, id: &str, priority: i64) -> Result<ActionResult, ClientError> {
        self.post(&job_path(id, "/priority"), &PriorityRequest { priority })
    }

    /// The log of a task; followed, it ends when the task does.
    pub fn logs(&self, id: &str, filter: &LogFilter) -> Result<impl Read + Send + use<>, ClientError> {
        let request = self.agent.get(self.address(&job_path(id, "/logs"), filter));
        // A followed task may be silent for days, before its first byte as well.
        let request =
            request.config().timeout_recv_response((!filter.follow).then_some(ANSWER_WITHIN)).build();
        let response = self.accept(self.authorised(request).call())?;
        Ok(response.into_body().into_reader())
    }

    /// A byte range of a task's log, as in the header Range (`bytes=-100`); `None` if the log has no such range.
    pub fn log_part(
        &self,
        id: &str,
        filter: &LogFilter,
        range: &str,
    ) -> Result<Option<LogPart>, ClientError> {
        let request = self.agent.get(self.address(&job_path(id, "/logs"), filter)).header("range", range);
        let mut response = match self.accept(self.authorised(request).call()) {
            Err(ClientError::Refused(body)) if body.status == 416 => return Ok(None),
            response => response?,
        };
        let status = response.status().as_u16();
        let placed = response.headers().get("content-range").and_then(|value| value.to_str().ok());
        let placed = placed.and_then(|text| {
            let (span, size) = text.strip_prefix("bytes ")?.split_once('/')?;
            Some((span.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
        });
        let bytes = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let bytes = bytes.map_err(|source| self.unreadable(status, source))?;
        // Without a place it is all of it.
        let (from, size) = placed.unwrap_or((0, bytes.len() as u64));
        Ok(Some(LogPart { bytes, from, size }))
    }

    /// The stream of change notices, as server-sent events.
    pub fn events(&self) -> Result<impl Read + Send + use<>, ClientError> {
        let response =
            self.accept(self.authorised(self.agent.get(self.address("/v1/events", &()))).call())?;
        Ok(response.into_body().into_reader())
    }

    /// Attaches to the terminal of a task, once it runs.
    pub fn attach(&self, id: &str) -> Result<TerminalConnection, ClientError> {
        terminal::attach(&self.target, &job_path(id, "/terminal"))
    }

    /// Explains why a job or task waits.
    pub fn why(&self, id: &str) -> Result<WhyView, ClientError> {
        self.get(&job_path(id, "/why"), &())
    }

    /// Claims devices.
    pub fn claim(&self, request: &ClaimRequest) -> Result<ClaimView, ClientError> {
        match self.has_personal_token() {
            true => self.post("/v1/claims", &ClaimRequest { user: None, ..request.clone() }),
            false => self.post("/v1/claims", request),
        }
    }

    /// Claims the devices that a process already uses.
    pub fn adopt(&self, pid: i32) -> Result<ClaimView, ClientError> {
        self.post("/v1/claims/adopt", &AdoptRequest { pid })
    }

    /// Open claims.
    pub fn claims(&self) -> Result<Vec<ClaimView>, ClientError> {
        self.get("/v1/claims", &())
    }

    /// A claim, after waiting for its grant as long as one request may.
    pub fn claim_granted(&self, id: &str) -> Result<ClaimView, ClientError> {
        self.get(&format!("/v1/claims/{}", escaped(id)), &serde_json::json!({"wait": "granted"}))
    }

    /// Releases a claim.
    pub fn claim_release(&self, id: &str) -> Result<ClaimView, ClientError> {
        self.post_empty(&format!("/v1/claims/{}/release", escaped(id)))
    }

    /// Extends a claim.
    pub fn claim_extend(&self, id: &str, by: Micros) -> Result<ClaimView, ClientError> {
        self.post(&format!("/v1/claims/{}/extend", escaped(id)), &ExtendRequest { by })
    }

    /// All GPUs.
    pub fn gpus(&self) -> Result<Vec<GpuView>, ClientError> {
        self.get("/v1/gpus", &())
    }

    /// All workers.
    pub fn workers(&self) -> Result<Vec<WorkerView>, ClientError> {
        self.get("/v1/workers", &())
    }

    /// Drains a worker: it finishes its tasks and gets no more.
    pub fn drain(&self, worker: &str) -> Result<WorkerView, ClientError> {
        self.post_empty(&format!("/v1/workers/{}/drain", escaped(worker)))
    }

    /// Lets a drained worker accept tasks again.
    pub fn resume_worker(&self, worker: &str) -> Result<WorkerView, ClientError> {
        self.post_empty(&format!("/v1/workers/{}/resume", escaped(worker)))
    }

    /// All policies.
    pub fn policies(&self) -> Result<Vec<PolicyView>, ClientError> {
        self.get("/v1/policies", &())
    }

    /// Switches to a policy.
    pub fn policy_set(&self, policy: &PolicySpec) -> Result<PolicyView, ClientError> {
        self.read(self.send(self.agent.put(self.address("/v1/policy", &())), policy))
    }

    /// A page of finished attempts.
    pub fn history(&self, filter: &HistoryFilter) -> Result<Page<HistoryRow>, ClientError> {
        self.get("/v1/history", filter)
    }

    /// Makes a link that logs one browser in to the pages, within ten minutes.
    pub fn login(&self) -> Result<LoginView, ClientError> {
        self.post_empty("/v1/login")
    }

    /// The position and expected start of a job, were it submitted now.
    pub fn preview(&self, submit: &SubmitRequest) -> Result<Preview, ClientError> {
        self.post("/v1/jobs?dry_run=true", &self.named(submit))
    }

    /// A submission as it is sent. A personal token says whose it is, on a machine where its holder may go by another name.
    fn named<'a>(&self, submit: &'a SubmitRequest) -> Cow<'a, SubmitRequest> {
        match self.has_personal_token() {
            true => Cow::Owned(SubmitRequest { user: None, ..submit.clone() }),
            false => Cow::Borrowed(submit),
        }
    }

    fn has_personal_token(&self) -> bool {
        self.target.token.as_deref().is_some_and(|token| token.parse::<Secret>().is_ok())
    }

    /// Announces the manifest of a snapshot; returns what must still be sent.
    pub fn announce_snapshot(&self, manifest: &impl Serialize) -> Result<SnapshotUpload, ClientError> {
        self.post("/v1/snapshots", manifest)
    }

    /// Sends contents of a snapshot.
    pub fn send_snapshot(
        &self,
        snapshot: &str,
        mut contents: impl Read,
    ) -> Result<SnapshotUpload, ClientError> {
        let address = self.address(&format!("/v1/snapshots/{}/contents", escaped(snapshot)), &());
        let request = self.authorised(self.agent.post(address)).content_type("application/octet-stream");
        let request = request.config().timeout_recv_response(None).build();
        self.read(request.send(ureq::SendBody::from_reader(&mut contents)))
    }

    /// The manifest of a job's snapshot.
    pub fn snapshot_of<T: DeserializeOwned>(&self, job: &str) -> Result<T, ClientError> {
        self.get(&job_path(job, "/snapshot"), &())
    }

    /// Makes a token; its secret is in this answer alone.
    pub fn token_create(&self, token: &TokenRequest) -> Result<TokenReply, ClientError> {
        self.post("/v1/tokens", token)
    }

    /// The caller's tokens; for an admin, everyone's.
    pub fn tokens(&self) -> Result<Vec<TokenView>, ClientError> {
        self.get("/v1/tokens", &())
    }

    /// Revokes a token.
    pub fn token_revoke(&self, id: &str) -> Result<TokenView, ClientError> {
        let address = self.address(&format!("/v1/tokens/{}", escaped(id)), &());
        self.read(self.authorised(self.agent.delete(address)).call())
    }

    /// Joins a worker to the server of a join token. From then on its key authenticates it: a client of the same server with
    /// the key as its token is the worker's. Safe to repeat with the same name and key.
    pub fn join(token: &JoinToken, name: &str, key: &Secret) -> Result<JoinReply, ClientError> {
        let secret = token.secret.as_str().to_owned();
        let client = Client::new(Target::with_secret(&token.server, token.ca, &secret))?;
        client.post("/v1/workers/join", &JoinRequest { secret, name: name.into(), key: key.as_str().into() })
    }

    /// How others reach the server, and by which CA they know it.
    pub fn tls(&self) -> Result<TlsView, ClientError> {
        self.get("/v1/tls", &())
    }

    /// The worker that this client's key belongs to.
    pub fn own_worker(&self) -> Result<WorkerIdentity, ClientError> {
        self.get("/v1/workers/self", &())
    }

    /// Sends JSON to an address of the worker protocol whose answer has no content, with PUT.
    pub fn put(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.accept(self.send(self.agent.put(self.address(path, &())), body)).map(drop)
    }

    /// Sends JSON to an address of the worker protocol whose answer has no content, with POST.
    pub fn post_only(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.accept(self.send(self.agent.post(self.address(path, &())), body)).map(drop)
    }

    /// Sends bytes to an address of the worker protocol.
    pub fn post_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
        bytes: &[u8],
    ) -> Result<T, ClientError> {
        let request = self.authorised(self.agent.post(self.address(path, query)));
        self.read(request.content_type("application/octet-stream").send(bytes))
    }

    /// Waits up to `within` for an address of the worker protocol to have an answer; none where it has no content.
    pub fn poll<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
        within: Duration,
    ) -> Result<Option<T>, ClientError> {
        let request = self.agent.get(self.address(path, query));
        let request = request.config().timeout_recv_response(Some(within + CONNECT_WITHIN)).build();
        let mut response = self.accept(self.authorised(request).call())?;
        let status = response.status().as_u16();
        if status == 204 {
            return Ok(None);
        }
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_json();
        body.map(Some).map_err(|source| self.unreadable(status, source))
    }

    /// Revokes the key of a worker.
    pub fn revoke_key(&self, worker: &str) -> Result<(), ClientError> {
        let address = self.address(&format!("/v1/workers/{}/key", escaped(worker)), &());
        self.accept(self.authorised(self.agent.delete(address)).call()).map(drop)
    }

    /// The caller's limits and how much of each is in use.
    pub fn limits(&self) -> Result<Vec<LimitView>, ClientError> {
        self.get("/v1/limits", &())
    }

    /// Stops the server, with `kill_tasks` running tasks too.
    pub fn shutdown(&self, kill_tasks: bool) -> Result<(), ClientError> {
        let request = self.agent.post(self.address("/v1/shutdown", &()));
        self.accept(self.send(request, &ShutdownRequest { kill_tasks })).map(drop)
    }

    /// Rebuilds the derived tables, however long that takes.
    pub fn rebuild(&self) -> Result<RebuildResult, ClientError> {
        let request = self.agent.post(self.address("/v1/admin/rebuild", &()));
        let request = request.config().timeout_recv_response(None).build();
        self.read(self.authorised(request).send_empty())
    }

    fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T, ClientError> {
        self.read(self.authorised(self.agent.get(self.address(path, query))).call())
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.read(self.send(self.agent.post(self.address(path, &())), body))
    }

    /// A POST request without a body.
    fn post_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.authorised(self.agent.post(self.address(path, &()))).send_empty())
    }

    fn send(
        &self,
        request: RequestBuilder<WithBody>,
        body: &impl Serialize,
    ) -> Result<Response<Body>, ureq::Error> {
        let body = serde_json::to_vec(body)?;
        self.authorised(request).content_type("application/json").send(body)
    }

    fn authorised<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.target.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// The address with its query, any struct of scalars; null fields are left out.
    fn address(&self, path: &str, query: &impl Serialize) -> String {
        let mut address = format!("{}{path}", self.base);
        if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(query) {
            let mut before = '?';
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                write!(address, "{before}{}={}", escaped(name), escaped(&value)).expect("a string takes all");
                before = '&';
            }
        }
        address
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let mut response = self.accept(answer)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_json();
        body.map_err(|source| self.unreadable(status, source))
    }

    /// The response, if it is a success.
    fn accept(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, ClientError> {
        let mut response = answer.map_err(|source| ClientError::of_connection(&self.target, source))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        if status == 401 {
            return Err(self.target.unauthorised());
        }
        match response.body_mut().read_json() {
            Ok(body) => Err(ClientError::Refused(Box::new(body))),
            // A plain 404 is a server that does not know the path, such as an older one.
            Err(_) if status == 404 => {
                let detail = format!("the server at {} knows no such address", self.target.url);
                Err(ClientError::Refused(Box::new(ProblemBody::new(404, code::NOT_FOUND, detail))))
            }
            Err(source) => Err(self.unreadable(status, source)),
        }
    }

    /// The error of an unreadable response: a connection that broke means a server that went away.
    fn unreadable(&self, status: u16, source: ureq::Error) -> ClientError {
        let (url, source) = (self.target.url.clone(), Box::new(source));
        match *source {
            ureq::Error::Io(_) | ureq::Error::Timeout(_) => ClientError::Unreachable { url, source },
            _ => ClientError::Unreadable { url, status, source },
        }
    }
}

fn job_path(id: &str, action: &str) -> String {
    format!("/v1/jobs/{}{action}", escaped(id))
}

/// Percent-encodes a text for a path or query.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string takes all"),
        }
    }
    out
}
