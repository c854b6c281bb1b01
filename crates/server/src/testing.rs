//! A server without a network, for tests of what it answers.

use crate::app::{App, AppParts};
use crate::auth::{Authenticator, LoginGrant};
use crate::caller::LoginIdentity;
use crate::clock::Clock;
use crate::engine::{EngineHandle, EngineThreads};
use crate::hosts::Hosts;
use crate::replicator::Replicator;
use crate::router::router;
use crate::store::{Log, SqliteHistory};
use crate::tokens::Tokens;
use axum::Router;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use tower::ServiceExt;
use warpyard_core::command::AttemptStatus;
use warpyard_core::engine::Engine;
use warpyard_core::event::{End, EndReason, Usage, WorkerInfo};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::{JobSpec, Needs, Program, TaskSpec};
use warpyard_core::{Command, JobId, Span, TaskId, WorkerId};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_worker::agent::Layout;

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server without a network, a worker's promise without a worker.
pub(crate) struct Server {
    router: Router,
    pub(crate) app: Arc<App>,
    pub(crate) engine: EngineHandle,
    _threads: EngineThreads,
    _data: tempfile::TempDir,
}

pub(crate) fn server() -> Server {
    server_at(Clock::system())
}

/// A server with a clock of its own.
pub(crate) fn server_at(clock: Clock) -> Server {
    server_in(tempfile::tempdir().expect("a directory"), clock, |_| {})
}

/// A server with other settings.
pub(crate) fn server_with(set: impl FnOnce(&mut App)) -> Server {
    server_in(tempfile::tempdir().expect("a directory"), Clock::system(), set)
}

/// A server that goes on from what is in a directory.
fn server_in(data: tempfile::TempDir, clock: Clock, set: impl FnOnce(&mut App)) -> Server {
    let log_path = data.path().join("log.db");
    let mut log = Log::open(&log_path).expect("a log");
    let cluster = log.load(&default_policy()).expect("what was kept").cluster;
    let layout = Layout::new(data.path(), log.lineage().expect("a log that was loaded").clone());
    let engine = || Engine::new(cluster.clone(), POLICIES, clock.now()).expect("a policy");
    let history = SqliteHistory::open(&data.path().join("history.db")).expect("tables");
    let replicator =
        Replicator::new(engine(), Box::new(history), &log, log_path, Span(u64::MAX / 4), clock.clone())
            .expect("a replicator");
    let notices = replicator.notices();
    let (engine, threads) = EngineHandle::start(engine(), log, replicator, || {});
    let listens = "127.0.0.1:7700".parse().expect("an address");
    let mut app = App::new(AppParts {
        engine: engine.clone(),
        auth: Authenticator::kept(
            TOKEN.into(),
            listens,
            Hosts::new(&[], "gpu1", listens),
            data.path(),
            clock.clone(),
        ),
        tokens: Tokens::open(data.path(), clock).expect("tokens"),
        notices,
        layout,
        url: "http://127.0.0.1:7700".into(),
        stop: tokio::sync::mpsc::unbounded_channel().0,
    });
    set(&mut app);
    let app = Arc::new(app);
    Server { router: router(app.clone()), app, engine, _threads: threads, _data: data }
}

/// A worker with so many GPUs.
pub(crate) fn machine(gpus: usize) -> WorkerInfo {
    let device = |i| DeviceInfo {
        uuid: format!("gpu-{i}"),
        kind: "V100".into(),
        memory: 16 << 30,
        budget: 16 << 30,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let devices = (0..gpus).map(device).collect();
    WorkerInfo { name: "w".into(), devices, cpus: 8_000, memory: 1 << 40, ..WorkerInfo::default() }
}

impl Server {
    /// Stops it and starts it again from what it kept.
    pub(crate) fn restarted(self) -> Server {
        self.restarted_after(|_| {})
    }

    /// The same, after something was done to what it kept.
    pub(crate) fn restarted_after(self, done: impl FnOnce(&Path)) -> Server {
        let Server { router, app, engine, _threads: threads, _data: data } = self;
        let clock = engine.clock().clone();
        engine.stop();
        threads.join().expect("an engine that stops in peace");
        drop((router, app, engine));
        done(data.path());
        server_in(data, clock, |_| {})
    }

    /// The header `Host` of the owner's pages.
    pub(crate) fn host(&self) -> HeaderValue {
        self.app.auth.pages_host(&LoginIdentity::Owner).parse().expect("a host")
    }

    /// Sends a request, to the owner's pages unless it names another host.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Response<Body> {
        request.headers_mut().entry(HOST).or_insert_with(|| self.host());
        self.router.clone().oneshot(request).await.expect("a router always answers")
    }

    pub(crate) async fn get(&self, path: &str, cookie: Option<&str>) -> Response<Body> {
        let mut request = Request::get(path);
        if let Some(cookie) = cookie {
            request = request.header(COOKIE, cookie);
        }
        self.send(request.body(Body::empty()).expect("a request")).await
    }

    pub(crate) async fn page(&self, path: &str) -> String {
        let cookie = self.cookie();
        let answer = self.get(path, Some(&cookie)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        text(answer).await
    }

    /// Asks with the token.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        json: Option<serde_json::Value>,
    ) -> Response<Body> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(AUTHORIZATION, format!("Bearer {TOKEN}"));
        let request = request.header(CONTENT_TYPE, "application/json");
        let body = json.map_or(Body::empty(), |json| json.to_string().into());
        self.send(request.body(body).expect("a request")).await
    }

    /// Asks with the token, and expects an answer in JSON.
    pub(crate) async fn json(
        &self,
        method: &str,
        path: &str,
        json: Option<serde_json::Value>,
    ) -> serde_json::Value {
        let answer = self.ask(method, path, json).await;
        let (status, text) = (answer.status(), text(answer).await);
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// A session's cookie as a browser sends it back.
    pub(crate) fn cookie(&self) -> String {
        let headers = HeaderMap::from_iter([(HOST, self.host())]);
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let entry = self.app.auth.enter_by_token(TOKEN, from, &headers).expect("random bytes");
        let Ok(LoginGrant::Cookie(set)) = entry else { panic!("{entry:?}") };
        set.split(';').next().expect("a pair").to_owned()
    }

    pub(crate) async fn log_in(&self, token: &str) -> Response<Body> {
        let form = Request::post("/login").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(form.body(format!("token={token}&next=%2Fqueue").into()).expect("a request")).await
    }

    pub(crate) async fn join(&self, gpus: usize) {
        self.engine.command(Command::Join(machine(gpus))).await.expect("a worker");
    }

    /// Has the worker say how the first tries of tasks of the first job, by their place in its array, ended.
    pub(crate) async fn end(&self, ends: &[(u32, EndReason, Usage)]) {
        let end = |(index, how, usage): &(u32, EndReason, Usage)| {
            let attempt = TaskId { job: JobId(1), node: 0, index: *index }.attempt(1);
            (attempt, AttemptStatus::Over(End { how: how.clone(), usage: *usage }))
        };
        let attempts = ends.iter().map(end).collect();
        let report = Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() };
        self.engine.command(report).await.expect("a report");
    }

    pub(crate) async fn submit(&self, user: &str, name: &str, tasks: Vec<TaskSpec>) -> String {
        let spec = JobSpec { name: name.into(), tasks, ..JobSpec::default() };
        let command = Command::Submit { user: user.into(), env: None, spec: spec.into() };
        self.engine.command(command).await.expect("a job").job.expect("its number").to_string()
    }
}

pub(crate) fn task(name: &str, gpus: u16) -> TaskSpec {
    let needs = Needs { gpus, ..Needs::default() };
    TaskSpec { name: name.into(), program: Program::new(["true"]), needs, ..TaskSpec::default() }
}

pub(crate) async fn text(answer: Response<Body>) -> String {
    let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}
