//! Claims: devices requested, waited for, kept by heartbeats and released, for processes the server did not start.

use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::caller::{Access, Caller, OriginSource};
use crate::convert::{self, Defaults, Workers};
use crate::engine::EngineStopped;
use crate::replica::Reader;
use crate::{select, views};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use warpyard_api::job::{ReadOptions, read_value};
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::Micros;
use warpyard_api::wire::{AdoptRequest, ClaimRequest, ClaimState, ClaimView, ExtendRequest};
use warpyard_core::cluster::{Job, Phase};
use warpyard_core::command::TaskSelector;
use warpyard_core::spec::{Claim, ClaimHolder, JobSpec};
use warpyard_core::{Command, DeviceId, JobId, Span, TaskId, WorkerId};
use warpyard_worker::accounts::{Account, process_owner};
use warpyard_worker::claim_holder::held_process;
use warpyard_worker::probe::visible_env;

/// The default lease: how long a claim's holder may be silent.
const LEASE: Span = Span(60_000_000);

/// Fields of the job document that a claim may set: what it needs and how urgent it is. The others are about a
/// program, and a claim runs none.
const NEEDS: [&str; 14] = [
    "name",
    "priority",
    "project",
    "weight",
    "deadline",
    "gpus",
    "gpu_memory",
    "gpu_type",
    "gpu_scope",
    "gpu_preferred",
    "wait_mode",
    "cpus",
    "memory",
    "expected",
];

/// The longest time one request waits for a grant.
const LONGEST_POLL: Duration = Duration::from_secs(30);

type Answer = Result<Json<ClaimView>, Refusal>;

pub(super) async fn make(
    State(app): AppState,
    Extension(who): CallerExtension,
    body: Result<Json<ClaimRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<ClaimView>), Refusal> {
    let Json(ClaimRequest { mut needs, user, pid, lease, lasts }) = body?;
    let user = app.submitter(&who, user)?;
    app.tell_groups(&user).await?;
    let process = pid.map(|pid| process_of(&who, pid)).transpose()?;
    let claim = Claim { process, lease: lease.map_or(LEASE, |l| Span(l.0)), lasts: lasts.map(|l| Span(l.0)) };
    needs.entry("name").or_insert_with(|| "claim".into());
    needs.entry("gpus").or_insert_with(|| 1.into());
    if let Some(other) = needs.keys().find(|field| !NEEDS.contains(&field.as_str())) {
        let message = "a claim has only requirements; this field is about running a program";
        return Err(Problem::new(code::UNKNOWN_FIELD, format!("needs.{other}"), message)
            .with_help(format!("it may have: {}", NEEDS.join(", ")))
            .into());
    }
    // The job document requires a command.
    needs.insert("command".into(), serde_json::json!(["claim"]));
    let read = read_value(&needs.into(), ReadOptions { default_name: None, accept_user: false })?;
    let spec = app.engine.read(move |f| {
        convert::job_spec(
            &Workers::of(f.cluster()),
            &read.doc,
            &Defaults { claims: true, ..Defaults::default() },
        )
    });
    let spec = claiming(spec.await??, claim);
    let answer = app.engine.command(Command::Submit { user, env: None, spec: spec.into() }).await?;
    let job = answer.job.ok_or_else(|| Refusal::internal("a claim made no job"))?;
    if let Some(process) = process {
        watch(&app, job, process);
    }
    view(&app, &who, job).await.map(|Json(view)| (StatusCode::CREATED, Json(view)))
}

/// The grace period for a waiting client to reconnect before its claim ends.
const RECONNECT: Duration = Duration::from_secs(5);

/// A client's poll for the grant of a claim. When it is dropped, answered or not, the client must poll again within
/// [`RECONNECT`].
struct WaitGuard {
    app: Arc<App>,
    job: JobId,
    times: u64,
    runtime: Handle,
}

impl WaitGuard {
    fn begin(app: &Arc<App>, job: JobId) -> WaitGuard {
        WaitGuard {
            app: app.clone(),
            job,
            times: app.claims.waiters.record_poll(job),
            runtime: Handle::current(),
        }
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let (app, job, times) = (self.app.clone(), self.job, self.times);
        self.runtime.spawn(async move {
            tokio::time::sleep(RECONNECT).await;
            if app.claims.waiters.polls(job) == times {
                end_if_waiting(&app, job).await;
            }
        });
    }
}

/// Ends a claim that was not granted, because its client no longer waits.
async fn end_if_waiting(app: &App, job: JobId) {
    app.claims.waiters.forget(job);
    let waits = move |f: &Reader<'_>| f.cluster().job(job).is_some_and(|j| state(j) == ClaimState::Waiting);
    if let Ok(true) = app.engine.read(waits).await {
        // Rejected only if the claim has ended meanwhile.
        let _ended = app.engine.command(Command::Cancel(TaskSelector::Job(job))).await;
    }
}

#[expect(deprecated, reason = "an owned descriptor stays open for as long as it is registered")]
fn readable(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

/// Ends a waiting claim when its process ends; once granted, the supervisor does that.
fn watch(app: &Arc<App>, job: JobId, process: ClaimHolder) {
    let app = app.clone();
    tokio::spawn(async move {
        // A process that cannot be watched ends its claim by the lease.
        let Ok(_place) = app.claims.waiters.watches.try_acquire() else { return };
        let ended = match warpyard_worker::claim_holder::pidfd(process) {
            Ok(Some(pidfd)) => readable(pidfd),
            Ok(None) => return end_if_waiting(&app, job).await,
            Err(e) => Err(e),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(e) => return tracing::warn!("the process of claim {job} cannot be watched: {e}"),
        };
        tokio::select! {
            _ = ended.readable() => end_if_waiting(&app, job).await,
            _ = granted(&app, job) => app.claims.waiters.forget(job),
        }
    });
}

/// Watches the processes of claims that were waiting when the server stopped. They keep their positions in the queue.
pub(crate) async fn watch_again(app: &Arc<App>) -> Result<(), EngineStopped> {
    let waiting = |f: &Reader<'_>| {
        let waits = f.cluster().jobs().iter().filter(|j| state(j) == ClaimState::Waiting);
        waits.filter_map(|j| Some((j.id, j.spec.claim()?.process?))).collect::<Vec<_>>()
    };
    for (job, process) in app.engine.read(waiting).await? {
        watch(app, job, process);
    }
    Ok(())
}

/// A job specification that runs nothing and holds devices.
fn claiming(mut spec: JobSpec, claim: Claim) -> JobSpec {
    for task in &mut spec.tasks {
        task.program.command.clear();
        task.claim = Some(claim);
        // A claim's holder decides when it ends, so the task has no timeout.
        task.timeout = None;
        task.expected = task.expected.or(claim.lasts);
    }
    spec
}

/// The process a claim is for: a running one of the caller.
fn process_of(who: &Caller, pid: i32) -> Result<ClaimHolder, Refusal> {
    if let Some(OriginSource::Token(_) | OriginSource::Worker(_)) = who.known_by() {
        let message = "a process id counts on the server's own machine only, and you call from another";
        return Err(Problem::new(code::BAD_REQUEST, "pid", message).into());
    }
    let unknown = || Problem::new(code::BAD_REQUEST, "pid", format!("there is no process {pid} here"));
    // Opened before its owner is looked up: should the pid be reused in between, this still refers to the first
    // process.
    let process = held_process(pid).ok_or_else(unknown)?;
    let owner = process_owner(pid).ok_or_else(unknown)?;
    if who.person().is_some_and(|person| !who.is_admin() && owner != person.uid) {
        return Err(Refusal::new(403, code::NOT_YOURS, format!("process {pid} is not yours")));
    }
    Ok(process)
}

pub(super) async fn adopt(
    State(app): AppState,
    Extension(who): CallerExtension,
    body: Result<Json<AdoptRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<ClaimView>), Refusal> {
    let Json(AdoptRequest { pid }) = body?;
    let process = process_of(&who, pid)?;
    let uid = process_owner(pid).unwrap_or_default();
    let user = Account::by_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |p| p.name);
    app.must_have_account(&user)?;
    let uuids = app.devices_used_by(process);
    let find = move |f: &Reader<'_>| {
        let used = |(id, worker): (WorkerId, &warpyard_core::cluster::Worker)| {
            let known = worker.info.devices.iter().enumerate().filter(|(_, d)| uuids.contains(&d.uuid));
            known.map(|(index, _)| DeviceId { worker: id, index: index as u16 }).collect::<Vec<_>>()
        };
        f.cluster().workers().map(used).find(|found| !found.is_empty()).unwrap_or_default()
    };
    let devices = app.engine.read(find).await?;
    let document = serde_json::json!({"name": "adopted", "gpus": devices.len().max(1), "command": ["claim"]});
    let read = read_value(&document, ReadOptions { default_name: None, accept_user: false })?;
    let spec = app.engine.read(move |f| {
        convert::job_spec(
            &Workers::of(f.cluster()),
            &read.doc,
            &Defaults { claims: true, ..Defaults::default() },
        )
    });
    let claim = Claim { process: Some(process), lease: LEASE, lasts: None };
    let spec = claiming(spec.await??, claim);
    let answer = app.engine.command(Command::Adopt { user, spec, devices }).await?;
    let job = answer.job.ok_or_else(|| Refusal::internal("a claim made no job"))?;
    view(&app, &who, job).await.map(|Json(view)| (StatusCode::CREATED, Json(view)))
}

pub(super) async fn list(
    State(app): AppState,
    Extension(who): CallerExtension,
) -> Result<Json<Vec<ClaimView>>, Refusal> {
    let hidden = app.private();
    let owner = who.clone();
    let open = move |f: &Reader<'_>| {
        let open = f.cluster().jobs().iter().filter(|j| j.spec.claim().is_some() && j.finished.is_none());
        open.filter(|j| !hidden || owner.owns(&j.user)).map(|j| j.id).collect()
    };
    views_of(&app, &who, open).await.map(Json)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    /// With `granted`, the response comes when the claim has its devices or has ended.
    wait: Option<String>,
    /// The longest time to wait.
    timeout: Option<Micros>,
}

/// Shows a claim. A request of its holder also counts as a heartbeat.
pub(super) async fn show(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    query: Result<Query<ShowQuery>, QueryRejection>,
) -> Answer {
    let Query(ShowQuery { wait, timeout }) = query?;
    let job = find(&app, &who, &id).await?;
    match wait.as_deref() {
        None => {}
        Some("granted") => {
            who.permits(Access::Change)?;
            app.engine.command(Command::Heard(job)).await?;
            app.claims.record_heartbeat(job, app.engine.clock().now());
            let _poll = WaitGuard::begin(&app, job);
            let longest = timeout.map_or(LONGEST_POLL, |t| Duration::from_micros(t.0)).min(LONGEST_POLL);
            let _still_waiting = tokio::time::timeout(longest, granted(&app, job)).await;
        }
        Some(_) => {
            return Err(Problem::new(code::BAD_REQUEST, "wait", "only 'granted' can be waited for").into());
        }
    }
    view(&app, &who, job).await
}

/// Waits until a claim has its devices or has ended.
async fn granted(app: &App, job: JobId) -> Result<(), Refusal> {
    let mut changes = app.notices.listen();
    let waits = move |f: &Reader<'_>| f.cluster().job(job).is_some_and(|j| state(j) == ClaimState::Waiting);
    while app.engine.read(waits).await? {
        changes.changed().await;
    }
    Ok(())
}

pub(super) async fn heartbeat(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Answer {
    let job = find(&app, &who, &id).await?;
    app.engine.command(Command::Heard(job)).await?;
    app.claims.record_heartbeat(job, app.engine.clock().now());
    app.claims.waiters.record_poll(job);
    view(&app, &who, job).await
}

pub(super) async fn release(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Answer {
    let job = find(&app, &who, &id).await?;
    app.engine.command(Command::Cancel(TaskSelector::Job(job))).await?;
    view(&app, &who, job).await
}

pub(super) async fn extend(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    body: Result<Json<ExtendRequest>, JsonRejection>,
) -> Answer {
    let by = Span(body?.0.by.0);
    let job = find(&app, &who, &id).await?;
    app.engine.command(Command::Extend { job, by }).await?;
    view(&app, &who, job).await
}

/// A claim that the caller owns.
async fn find(app: &App, who: &Caller, id: &str) -> Result<JobId, Refusal> {
    let selector = select::parse(id, who)?;
    let look = move |f: &Reader<'_>| {
        let job = select::job_number(f.cluster(), &selector)?;
        match f.cluster().job(job) {
            Some(found) if found.spec.claim().is_some() => Ok((job, found.user.clone())),
            _ => Err(Problem::new(code::UNKNOWN_JOB, "", format!("there is no claim {job}"))
                .with_help("`warpyard claims` lists them")),
        }
    };
    let (job, user) = app.engine.read(look).await??;
    who.must_own(&user, "change it")?;
    Ok(job)
}

async fn view(app: &App, who: &Caller, id: JobId) -> Answer {
    let mut found = views_of(app, who, move |_| vec![id]).await?;
    found.pop().map(Json).ok_or_else(|| select::unknown_job(id.0).into())
}

/// Views of several claims from one read of the cluster, so that listing many costs one read.
async fn views_of(
    app: &App,
    who: &Caller,
    which: impl FnOnce(&Reader<'_>) -> Vec<JobId> + Send + 'static,
) -> Result<Vec<ClaimView>, Refusal> {
    let look = move |f: &Reader<'_>| {
        let jobs: Vec<&Job> = which(f).into_iter().filter_map(|id| f.cluster().job(id)).collect();
        let waiting = jobs.iter().copied().filter(|job| state(job) == ClaimState::Waiting);
        let positions = crate::listing::positions(f, waiting);
        let describe =
            |job: &Job| (job.id, described(f, job, positions.get(&job.id).copied()), uuids_of(f, job));
        jobs.into_iter().map(describe).collect::<Vec<_>>()
    };
    let found = app.engine.read(look).await?;
    // A single claim is included in the next forecast, however far back in the queue it is.
    let forecast = match &found[..] {
        [(id, view, _)] if view.state == ClaimState::Waiting => app.forecasts.latest_for(only_task(*id)),
        _ => app.forecasts.latest(),
    };
    let mut idle = crate::idle_gpus::of_jobs(app.watched.as_ref());
    let complete = |(id, mut view, uuids): (JobId, ClaimView, Vec<String>)| {
        view.last_heard_at = match view.state {
            ClaimState::Held if view.pid.is_some() => Some(views::time(app.engine.clock().now())),
            _ => app.claims.last_heartbeat(id).map(views::time),
        };
        if view.state == ClaimState::Held {
            view.why = idle.remove(&id);
            if who.owns(&view.user) {
                view.env = app.visible(&uuids);
            }
        }
        if view.state == ClaimState::Waiting
            && let Some(start) = forecast.of(only_task(id))
        {
            (view.expected_start, view.expected_start_reason) = start.shown(|user| app.hides(who, user));
        }
        view
    };
    Ok(found.into_iter().map(complete).collect())
}

/// The one task of a claim.
fn only_task(job: JobId) -> TaskId {
    TaskId { job, node: 0, index: 0 }
}

fn described(f: &Reader<'_>, job: &Job, position: Option<u64>) -> ClaimView {
    let task = only_task(job.id);
    let placement = f.cluster().view().attempt(task).map(|(a, _)| a.placement.clone());
    let devices = placement.map_or_else(Vec::new, |p| {
        let worker = f.cluster().view().worker_name(p.worker);
        p.devices.iter().map(|(index, _)| format!("{worker}/{index}")).collect()
    });
    ClaimView {
        claim: job.id.to_string(),
        name: job.spec.name.clone(),
        user: job.user.clone(),
        state: state(job),
        gpus: job.spec.tasks.first().map_or(0, |t| u32::from(t.needs.gpus)),
        devices,
        env: Default::default(),
        pid: job.spec.claim().and_then(|c| c.process).map(|p| p.pid),
        registered_at: views::time(job.submitted),
        last_heard_at: None,
        until: job.until.map(views::time),
        position,
        expected_start: None,
        expected_start_reason: None,
        why: (state(job) == ClaimState::Waiting)
            .then(|| crate::why::of_job(f.cluster(), job, f.now()))
            .flatten(),
    }
}

fn uuids_of(f: &Reader<'_>, job: &Job) -> Vec<String> {
    let task = only_task(job.id);
    let Some((attempt, _)) = f.cluster().view().attempt(task) else { return vec![] };
    let Some(worker) = f.cluster().worker(attempt.placement.worker) else { return vec![] };
    let uuid = |&(i, _): &(u16, _)| worker.info.devices[usize::from(i)].uuid.clone();
    attempt.placement.devices.iter().map(uuid).collect()
}

fn state(job: &Job) -> ClaimState {
    let live = job.nodes.first().and_then(|node| node.live.values().next());
    match live.map(|live| &live.phase) {
        _ if job.finished.is_some() => ClaimState::Ended,
        // A placement is a grant once the worker holds the devices.
        None | Some(Phase::Ready { .. } | Phase::Placed(_)) => ClaimState::Waiting,
        Some(Phase::Running(_) | Phase::Paused(_)) => ClaimState::Held,
        Some(Phase::Stopping { .. }) => ClaimState::Ending,
    }
}

impl App {
    /// The environment variables that restrict a program to these devices.
    fn visible(&self, uuids: &[String]) -> std::collections::BTreeMap<String, String> {
        let Some(watched) = &self.watched else { return Default::default() };
        let watched = watched.lock().expect("nobody panics while looking at devices");
        let gpus: Vec<_> = watched.gpus().iter().filter(|g| uuids.contains(&g.uuid)).collect();
        visible_env(&gpus, watched.vendor()).into_iter().collect()
    }

    /// The devices that a process or one of its descendants uses.
    fn devices_used_by(&self, process: ClaimHolder) -> Vec<String> {
        let Some(watched) = &self.watched else { return vec![] };
        let watched = watched.lock().expect("nobody panics while looking at devices");
        let family = warpyard_worker::claim_holder::process_tree(process);
        let uses = |uuid: &str| {
            let reading = watched.reading(uuid);
            reading.is_some_and(|r| r.processes.iter().any(|p| family.contains(&p.pid)))
        };
        watched.gpus().iter().filter(|g| uses(&g.uuid)).map(|g| g.uuid.clone()).collect()
    }
}
