//! Throughput of profiles by GPU type: set by users, and measured from the progress that tasks report. Progress is
//! kept in memory; only at intervals does a measurement become an event, for policies to plan by.

use super::refusal::Refusal;
use super::{AppState, CallerExtension};
use crate::app::{Meter, Meters};
use crate::replica::Reader;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use std::collections::BTreeMap;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::{Progress, ProgressReply, Throughput, Throughputs};
use warpyard_core::event::StopReason;
use warpyard_core::shares::{Shares, Speed, SpeedEstimate};
use warpyard_core::spec::Preempt;
use warpyard_core::{AttemptId, Command, JobId, Span, TaskId, TaskState, Time};

/// The shortest interval between two progress reports that a throughput is computed from.
const LONG_ENOUGH: Span = Span(2_000_000);

/// The shortest interval between two throughput events of one task.
const NOW_AND_THEN: Span = Span(30_000_000);

/// The most tasks whose progress is followed.
const FOLLOWED: usize = 10_000;

impl Meters {
    /// Adds a progress report; returns the steps per second where enough time has passed for an event.
    fn record(&self, found: &ProgressTarget, steps: u64, now: Time) -> Option<Option<f64>> {
        let ProgressTarget { attempt, ran, beside, .. } = *found;
        let mut meters = self.0.lock().expect("nobody panics while measuring");
        while meters.len() >= FOLLOWED {
            meters.pop_first();
        }
        let new = || Meter { attempt: attempt.number, beside, first: (steps, ran), recorded: None };
        let meter = meters.entry(attempt.task).or_insert_with(new);
        if (meter.attempt, meter.beside) != (attempt.number, beside) {
            *meter = new();
        }
        if meter.recorded.is_some_and(|at| now.since(at) < NOW_AND_THEN) {
            return None;
        }
        let (done, took) = (steps.saturating_sub(meter.first.0), ran - meter.first.1);
        let speed = (took >= LONG_ENOUGH && done > 0).then(|| done as f64 / took.secs());
        if speed.is_some() {
            meter.recorded = Some(now);
        }
        Some(speed)
    }
}

pub(super) async fn list(State(app): AppState) -> Result<Json<Throughputs>, Refusal> {
    Ok(Json(app.engine.read(|f| view(f.cluster().shares())).await?))
}

pub(super) async fn set(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Throughputs>, Refusal> {
    let Throughputs { throughputs, cost_per_hour } = app.parsed(&who, &headers, body).await?;
    let speed = |t: Throughput| Speed {
        profile: t.profile,
        gpus: t.gpus,
        kind: t.gpu_type,
        steps_per_second: t.steps_per_second,
        measured: false,
        beside: t.beside,
    };
    let speeds = throughputs.into_iter().map(speed).collect();
    app.engine.command(Command::SetSpeeds { speeds, costs: cost_per_hour }).await?;
    list(State(app)).await
}

fn view(shares: &Shares) -> Throughputs {
    let row = |profile: &str, gpus, kind: &str, known: SpeedEstimate, beside: Option<&str>| Throughput {
        profile: profile.to_owned(),
        gpus,
        gpu_type: kind.to_owned(),
        steps_per_second: known.steps_per_second,
        measured: known.measured,
        beside: beside.map(str::to_owned),
    };
    let alone = shares.speeds().map(|(profile, gpus, kind, known)| row(profile, gpus, kind, known, None));
    let beside = shares.speeds_beside();
    let beside =
        beside.map(|(profile, gpus, kind, other, known)| row(profile, gpus, kind, known, Some(other)));
    Throughputs {
        throughputs: alone.chain(beside).collect(),
        cost_per_hour: shares.costs().map(|(kind, cost)| (kind.to_owned(), cost)).collect(),
    }
}

/// The attempt a progress report is about.
struct ProgressTarget {
    user: String,
    attempt: AttemptId,
    ran: Span,
    /// The task it shares its GPUs with.
    beside: Option<TaskId>,
    /// Whether it is to yield, which its reply tells it.
    gives_way: bool,
    /// The subject of a measurement, where the task and the one it shares GPUs with have profiles.
    of: Option<Measurement>,
}

/// The subject of a throughput measurement.
struct Measurement {
    profile: String,
    gpus: u16,
    kind: String,
    beside: Option<String>,
}

pub(super) async fn progress(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    body: Result<Json<Progress>, JsonRejection>,
) -> Result<Json<ProgressReply>, Refusal> {
    let progress = body?.0;
    let steps = progress.steps;
    let found = app.engine.read(move |f| find(f, &id, &progress, f.now())).await??;
    who.must_own(&found.user, "speak for it")?;
    let now = app.engine.clock().now();
    if let Some(speed) = app.meters.record(&found, steps, now) {
        app.engine.command(Command::Progress { attempt: found.attempt, steps }).await?;
        if let (Some(steps_per_second), Some(Measurement { profile, gpus, kind, beside })) = (speed, found.of)
        {
            let speeds = vec![Speed { profile, gpus, kind, steps_per_second, measured: true, beside }];
            app.engine.command(Command::SetSpeeds { speeds, costs: BTreeMap::new() }).await?;
        }
    }
    Ok(Json(ProgressReply { give_way: found.gives_way }))
}

fn find(f: &Reader<'_>, id: &str, progress: &Progress, now: Time) -> Result<ProgressTarget, Problem> {
    let cluster = f.cluster();
    let unknown = |what: &str| Problem::new(code::UNKNOWN_TASK, "", format!("there is no {what}"));
    let job = id.parse().ok().and_then(|n| cluster.job(JobId(n)));
    let job = job.ok_or_else(|| unknown(&format!("job {id}")))?;
    let node = job.spec.tasks.iter().position(|task| task.name == progress.task);
    let node = node.ok_or_else(|| unknown(&format!("task '{}' in job {id}", progress.task)))?;
    let spec = &job.spec.tasks[node];
    let index = match (progress.index, &spec.array) {
        (Some(value), Some(array)) => array.position(value).ok_or_else(|| unknown("such index"))?,
        _ => 0,
    };
    let task = TaskId { job: job.id, node: node as u32, index };
    let live = job.nodes[node].live.get(&index).filter(|live| live.attempts == progress.attempt);
    let runs = matches!(
        cluster.state(task),
        Some(TaskState::Running(_) | TaskState::Placed(_) | TaskState::Stopping(..))
    );
    let live = live.filter(|_| runs).ok_or_else(|| {
        let message = format!("attempt {} of {} is not running", progress.attempt, progress.task);
        Problem::new(code::WRONG_STATE, "attempt", message)
    })?;
    let kind = cluster.view().kind_given(task).map(str::to_ascii_lowercase);
    let beside = cluster.view().beside(task);
    let of = || {
        let beside = beside.map(|other| cluster.view().spec(other)?.1.profile.clone());
        let beside = match beside {
            Some(None) => return None,
            other => other.flatten(),
        };
        Some(Measurement { profile: spec.profile.clone()?, gpus: spec.needs.gpus, kind: kind?, beside })
    };
    let asked = matches!(cluster.state(task), Some(TaskState::Stopping(_, StopReason::Requeued)));
    let gives_way = asked && spec.preempt == Preempt::Yield;
    let (attempt, of) = (task.attempt(progress.attempt), of());
    Ok(ProgressTarget { user: job.user.clone(), attempt, ran: live.running_time(now), beside, gives_way, of })
}
