//! Submitting a job, or previewing its position and expected start.

use super::blocking::SMALL;
use super::refusal::Refusal;
use super::snapshots::whose;
use super::{App, AppState, CallerExtension};
use crate::caller::Caller;
use crate::convert::{self, Defaults, Workers};
use crate::forecast::{ForecastInput, SubmissionForecast};
use crate::model_admission::{self, ModelHistory};
use crate::{select, views};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warpyard_api::job::{CheckedJob, Format, JobDoc, ReadOptions, read as read_text, read_value};
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::wire::{Alternative, DocumentText, DocumentView, Preview, SubmitReply, SubmitRequest};
use warpyard_core::spec::{JobSpec, SubmitKey, TaskSpec};
use warpyard_core::{Command, JobId, Span};
use warpyard_worker::accounts::Account;

/// The largest environment in bytes. The kernel gives a program a quarter of its stack for arguments and environment,
/// which is this much under the usual limit.
const ENVIRONMENT_LIMIT: usize = 2 << 20;

/// The longest idempotency key, which is stored with the job.
const LONGEST_KEY: usize = 255;

/// Options of a submission.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitQuery {
    /// Only preview the position and expected start; nothing is changed.
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn submit(
    State(app): AppState,
    Extension(who): CallerExtension,
    query: Result<Query<SubmitQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let Query(SubmitQuery { dry_run }) = query?;
    let size = body.as_ref().map_or(0, Bytes::len);
    app.may_send(&who, size)?;
    let mut submit: SubmitRequest = app.parsed(&who, &headers, body).await?;
    submit.idempotency_key = one_key(submit.idempotency_key.take(), &headers)?;
    let user = app.submitter(&who, submit.user.take())?;
    may_inherit(&submit.env)?;
    app.tell_groups(&user).await?;
    submit.user = Some(user.clone());
    let login = if submit.login_environment { app.runs_as(&user)? } else { None };
    if dry_run {
        submit.workdir = submit.workdir.or_else(|| login.map(home_of));
        return Ok(Json(preview(&app, &who, user, submit, size).await?).into_response());
    }
    let key = submit_key(&submit)?.map(Box::new);
    // Looked up before the document is validated, because what it was validated against may be gone by now.
    if let Some(job) = submitted_before(&app, user.clone(), key.clone()).await? {
        return Ok(created(job, vec![]));
    }
    if let Some(person) = login {
        let mut variables = app.login_environment(&person).await.variables.clone();
        variables.append(&mut submit.env);
        submit.env = variables;
        submit.workdir = submit.workdir.or_else(|| Some(home_of(person)));
    }
    let (snapshot, from) = (submit.snapshot.clone(), submit.workdir.clone());
    let wanted = submit.doc.get("snapshot").and_then(serde_json::Value::as_bool).unwrap_or(false);
    let env = (!submit.env.is_empty()).then(|| Arc::new(submit.env.clone()));
    let (mut spec, warnings) = read(&app, &who, submit, size).await?;
    spec.origin = who.origin()?;
    app.with_snapshot(&mut spec, &whose(&who), snapshot, wanted, from)?;
    spec.key = key;
    let answer = app.engine.command(Command::Submit { user, env, spec: spec.into() }).await?;
    let job = answer.job.ok_or_else(|| Refusal::internal("a submission made no job"))?;
    Ok(created(job, warnings))
}

fn home_of(person: Account) -> String {
    person.home.to_string_lossy().into_owned()
}

/// The idempotency key from the body or the header; refused where they differ.
fn one_key(inside: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let refused = |message| Err(Problem::new(code::BAD_REQUEST, "idempotency_key", message).into());
    match (inside, headers.get("idempotency-key").map(HeaderValue::to_str)) {
        (_, Some(Err(_))) => refused("the key in the header is not ASCII"),
        (Some(inside), Some(Ok(outside))) if inside != outside => {
            refused("the keys in the header and in the body differ")
        }
        (inside, outside) => Ok(inside.or(outside.and_then(Result::ok).map(str::to_owned))),
    }
}

/// The identity of a submission under its idempotency key.
fn submit_key(submit: &SubmitRequest) -> Result<Option<SubmitKey>, Refusal> {
    let Some(name) = submit.idempotency_key.clone() else { return Ok(None) };
    if name.is_empty() || name.len() > LONGEST_KEY {
        let message = format!("an idempotency key has 1 to {LONGEST_KEY} bytes");
        return Err(Problem::new(code::BAD_REQUEST, "idempotency_key", message).into());
    }
    let content = serde_json::to_vec(submit).map_err(Refusal::internal)?;
    Ok(Some(SubmitKey { name, digest: digest(&content) }))
}

async fn submitted_before(
    app: &App,
    user: String,
    key: Option<Box<SubmitKey>>,
) -> Result<Option<JobId>, Refusal> {
    if key.is_none() {
        return Ok(None);
    }
    let look = move |f: &crate::replica::Reader<'_>| f.cluster().submitted_before(&user, key.as_deref());
    Ok(app.engine.read(look).await?.map_err(convert::problem)?)
}

/// FNV-1a, which is the same in every version, as the standard library's hashes do not promise to be.
fn digest(content: &[u8]) -> u64 {
    content.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Parses the text of a job document, as the command line does.
pub(super) async fn document(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DocumentView>, Refusal> {
    app.may_send(&who, body.as_ref().map_or(0, Bytes::len))?;
    let DocumentText { text } = app.parsed(&who, &headers, body).await?;
    let read = move || {
        let options = ReadOptions { default_name: Some("job"), accept_user: false };
        let CheckedJob { doc, warnings } = read_text(&text, Format::of("", &text), options)?;
        let doc = serde_json::to_value(doc).map_err(Refusal::internal)?;
        Ok::<_, Refusal>(Json(DocumentView { doc, warnings }))
    };
    app.blocking(&who, read).await?
}

impl App {
    /// Refuses a submission above its user's size limit.
    fn may_send(&self, who: &Caller, size: usize) -> Result<(), Refusal> {
        let Some((name, caps)) = self.caps_of(who) else { return Ok(()) };
        match caps.submission_size {
            Some(most) if size as u64 > most => {
                let message = format!(
                    "{name} may send {} in one submission (submission_size); this has {}",
                    ByteSize(most).rounded(),
                    ByteSize(size as u64).rounded()
                );
                let problem = Problem::new(code::OVER_LIMIT, "", message);
                Err(problem.with_help("use an array in place of many tasks, or submit several jobs").into())
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an environment that no program could be started with. Environments stay in memory and in the log for as
/// long as a job refers to them.
fn may_inherit(env: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let size: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size <= ENVIRONMENT_LIMIT {
        return Ok(());
    }
    let [size, most] = [size, ENVIRONMENT_LIMIT].map(|size| ByteSize(size as u64).rounded());
    let message = format!("the environment has {size}; a program can inherit at most {most}");
    let help = "leave it out with --no-env, and pass what the job needs with --env NAME";
    Err(Problem::new(code::TOO_LARGE, "env", message).with_help(help).into())
}

fn created(job: JobId, warnings: Vec<Problem>) -> Response {
    (StatusCode::CREATED, Json(SubmitReply { job: job.to_string(), warnings })).into_response()
}

/// The job specification of a submission, and its warnings.
async fn read(
    app: &App,
    who: &Caller,
    submit: SubmitRequest,
    size: usize,
) -> Result<(JobSpec, Vec<Problem>), Refusal> {
    let SubmitRequest { doc, workdir, terminal, user, snapshot, .. } = submit;
    let user = user.unwrap_or_default();
    let terminal = terminal.map(|terminal| (terminal.rows, terminal.columns));
    let defaults = Defaults { workdir, size: terminal, ..app.defaults.clone() };
    let check = move || read_value(&doc, ReadOptions { default_name: None, accept_user: false });
    let small = size <= SMALL;
    let CheckedJob { mut doc, mut warnings } =
        if small { check()? } else { app.blocking(who, check).await?? };
    let by_command = run_estimate_command(app, &mut doc, &mut warnings).await;
    doc.snapshot |= snapshot.is_some();
    let workers = match Workers::are_needed_for(&doc) {
        true => app.engine.read(|f| Workers::of(f.cluster())).await?,
        false => Workers::default(),
    };
    let convert = move || convert::job_spec(&workers, &doc, &defaults);
    let mut spec = if small { convert()? } else { app.blocking(who, convert).await?? };
    model_admission::note_command(&mut spec, &by_command);
    if model_admission::has_models(&spec) {
        let types = app.engine.read(|f| model_admission::device_types(f.cluster())).await?;
        let recall = {
            let spec = spec.clone();
            move |history: &dyn crate::store::HistoryStore| ModelHistory::recall(history, &user, &spec)
        };
        // Without what was measured, bounds have the margin of public measurements: no reason to refuse a job.
        let measured = app.engine.read_history(recall).await?.unwrap_or_default();
        warnings.extend(model_admission::admit(&mut spec, &types, &measured, app.bound_share));
    }
    let after: Vec<JobId> = spec.after.iter().map(|after| after.job).collect();
    let look = move |f: &crate::replica::Reader<'_>| {
        after.into_iter().map(|job| views::user_of(f, job)).collect::<Vec<_>>()
    };
    let waits_for = if spec.after.is_empty() { vec![] } else { app.engine.read(look).await? };
    // A dependent job learns how its dependency ended, so a hidden job counts as unknown.
    if let Some((after, _)) = spec.after.iter().zip(waits_for).find(|(_, user)| app.hides(who, user)) {
        return Err(Problem { path: "after".into(), ..select::unknown_job(after.job.0) }.into());
    }
    Ok((spec, warnings))
}

/// Has the configured command estimate a job's models. Returns the tasks it estimated; its failure is a warning.
async fn run_estimate_command(app: &App, doc: &mut JobDoc, warnings: &mut Vec<Problem>) -> BTreeSet<String> {
    let named = doc.tasks.iter().any(|task| task.model.is_some());
    let Some(command) = app.estimate_command.as_ref().filter(|_| named) else { return BTreeSet::new() };
    match command.estimate(doc).await {
        Ok(mut found) => {
            let mut estimated = BTreeSet::new();
            for task in doc.tasks.iter_mut().filter(|task| task.model.is_some()) {
                if let Some(estimate) = found.remove(&task.name) {
                    task.estimate = Some(estimate);
                    estimated.insert(task.name.clone());
                }
            }
            estimated
        }
        Err(error) => {
            let message = format!("the server's estimate command was of no use: {error}");
            let help = "the job is admitted without it; an administrator finds the command in `[estimate]`";
            warnings.push(Problem::new(code::ESTIMATE_COMMAND, "model", message).with_help(help));
            BTreeSet::new()
        }
    }
}

/// The position and expected start of a job, were it submitted now.
async fn preview(
    app: &App,
    who: &Caller,
    user: String,
    submit: SubmitRequest,
    size: usize,
) -> Result<Preview, Refusal> {
    let (spec, warnings) = read(app, who, submit, size).await?;
    let look = {
        let (user, spec) = (user.clone(), spec.clone());
        move |f: &crate::replica::Reader<'_>| {
            f.policy().accept(f.cluster().view(), &spec)?;
            // Decided in the whole state, because limits count jobs that the forecast's excerpt leaves out.
            let after: Vec<_> = spec.after.iter().map(|after| after.job).collect();
            let now = f.now();
            f.cluster().decide(Command::Submit { user, env: None, spec: spec.into() }, now)?;
            Ok::<_, warpyard_core::Rejection>(ForecastInput::of(f, after, now))
        }
    };
    let mut outlook = app.engine.read(look).await?.map_err(convert::problem)?;
    let remember = {
        let (user, spec) = (user.clone(), spec.clone());
        move |history: &dyn crate::store::HistoryStore| {
            outlook.remember(history);
            outlook.recall(history, &user, &spec);
            outlook
        }
    };
    let outlook = app.engine.read_history(remember).await?;
    let (hidden, asker) = (app.private(), who.clone());
    let foresee = move || {
        let foreseen = outlook.foresee(&user, &spec)?;
        let hides = |user: &str| hidden && !asker.owns(user);
        let alternatives = if foreseen.starts_now { vec![] } else { lesser(&outlook, &user, &spec, &hides) };
        Ok::<_, warpyard_core::Rejection>((foreseen, alternatives))
    };
    let (foreseen, alternatives) =
        tokio::task::spawn_blocking(foresee).await.map_err(Refusal::internal)?.map_err(convert::problem)?;
    let SubmissionForecast { starts_now, position, expected_start, why, free } = foreseen;
    let shown = expected_start.map(|start| start.shown(|user| app.hides(who, user)));
    let (expected_start, expected_start_reason) = shown.unwrap_or_default();
    Ok(Preview {
        starts_now,
        position,
        expected_start,
        expected_start_reason,
        why,
        free,
        alternatives,
        warnings,
    })
}

/// The same preview with smaller requests of its first task that could start.
fn lesser(
    outlook: &ForecastInput,
    user: &str,
    spec: &JobSpec,
    hides: &dyn Fn(&str) -> bool,
) -> Vec<Alternative> {
    let Some(first) = spec.tasks.iter().position(|t| t.after.is_empty()) else { return vec![] };
    let mut changes: Vec<(String, TaskSpec)> = Vec::new();
    let task = &spec.tasks[first];
    let mut add = |change: String, alter: &dyn Fn(&mut TaskSpec)| {
        let mut other = task.clone();
        alter(&mut other);
        changes.push((change, other));
    };
    if let Some(timeout) = task.timeout {
        for part in [2, 4] {
            let shorter = Span((timeout.0 / part / 1_000_000).max(1) * 1_000_000);
            let also = task.expected.map(|e| e.min(shorter));
            add(format!("--timeout {}", Micros(shorter.0)), &|t| {
                (t.timeout, t.expected) = (Some(shorter), also);
            });
        }
    }
    if task.needs.gpus > 0 {
        let asked = task.needs.gpu_memory.unwrap_or_else(|| outlook.largest_device());
        let half = ByteSize((asked / 2) >> 20 << 20);
        if half.0 > 0 {
            add(format!("--gpu-memory {half}"), &|t| t.needs.gpu_memory = Some(half.0));
        }
    }
    if task.needs.gpus > 1 {
        let fewer = task.needs.gpus / 2;
        add(format!("--gpus {fewer}"), &|t| t.needs.gpus = fewer);
    }
    let foreseen = changes.into_iter().filter_map(|(change, task)| {
        let (mut other, name) = (spec.clone(), task.name.clone());
        other.tasks[first] = task;
        let SubmissionForecast { starts_now, position, expected_start, .. } =
            outlook.foresee(user, &other).ok()?;
        let shown = expected_start.map(|start| start.shown(hides));
        let (expected_start, expected_start_reason) = shown.unwrap_or_default();
        Some(Alternative { task: name, change, starts_now, position, expected_start, expected_start_reason })
    });
    foreseen.collect()
}
