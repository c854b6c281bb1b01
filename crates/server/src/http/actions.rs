//! Handlers that change jobs: cancel, retry, hold, release, pause, resume, priority. A selector may name many jobs:
//! those that can be changed are, and only if none can is the request refused.

use super::refusal::Refusal;
use super::{AppState, CallerExtension};
use crate::caller::Caller;
use crate::engine::{CommandError, EngineHandle};
use crate::replica::Reader;
use crate::select::{self, OwnTargets};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use warpyard_api::problem::{Problem, code};
use warpyard_api::selector::SelectorPart;
use warpyard_api::wire::{ActionResult, CancelOptions, PriorityRequest, RetryRequest};
use warpyard_core::command::TaskSelector;
use warpyard_core::{Command, JobId};

type Answer = Result<Json<ActionResult>, Refusal>;

pub(super) async fn cancel(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    query: Result<Query<CancelOptions>, QueryRejection>,
) -> Answer {
    let command = if query?.0.now { Command::Kill } else { Command::Cancel };
    apply_to_each(&app.engine, &who, &id, |target| Ok(command(target))).await
}

pub(super) async fn retry(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    body: Result<Json<RetryRequest>, JsonRejection>,
) -> Answer {
    let failed_only = body?.0.failed_only;
    apply_to_each(&app.engine, &who, &id, |target| Ok(Command::Retry { target, failed_only })).await
}

pub(super) async fn hold(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Answer {
    apply_to_each(&app.engine, &who, &id, |target| Ok(Command::Hold(target))).await
}

pub(super) async fn release(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Answer {
    apply_to_each(&app.engine, &who, &id, |target| Ok(Command::Release(target))).await
}

pub(super) async fn pause(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Answer {
    apply_to_each(&app.engine, &who, &id, |target| Ok(Command::Pause(target))).await
}

pub(super) async fn resume(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Answer {
    apply_to_each(&app.engine, &who, &id, |target| Ok(Command::Resume(target))).await
}

pub(super) async fn priority(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    body: Result<Json<PriorityRequest>, JsonRejection>,
) -> Answer {
    let priority = body?.0.priority;
    app.may_give(&who, priority).await?;
    apply_to_each(&app.engine, &who, &id, |target| Ok(Command::SetPriority(whole_job(target)?, priority)))
        .await
}

/// The job of a selector that names a whole job, for commands that cannot be applied to single tasks.
fn whole_job(target: TaskSelector) -> Result<JobId, Problem> {
    match target {
        TaskSelector::Job(job) => Ok(job),
        TaskSelector::Node(_) | TaskSelector::Range { .. } | TaskSelector::Task(_) => {
            Err(Problem::new(code::BAD_SELECTOR, "", "this applies to whole jobs only; name a job's id"))
        }
    }
}

/// Applies a command to every task or job of a selector, as one batch: nothing it names starts before all of it is
/// applied.
async fn apply_to_each(
    engine: &EngineHandle,
    who: &Caller,
    id: &str,
    command: impl Fn(TaskSelector) -> Result<Command, Problem>,
) -> Answer {
    let selection = select::parse(id, who)?;
    // `all` means the jobs there are, and is never refused for having none.
    let all = selection.parts().contains(&SelectorPart::All);
    let caller = who.clone();
    let own = move |f: &Reader<'_>| select::find_own(f.cluster(), &selection, &caller);
    let OwnTargets { mut targets, denied } = engine.read(own).await??;
    // Of several jobs those of others are skipped; a single one of another user is refused.
    if let (true, Some(user), false) = (targets.is_empty(), &denied, all) {
        who.must_own(user, "change it")?;
    }
    // Later jobs first: a dependent job must not start, or be skipped, because of what happens to its dependency.
    targets.sort_by_key(|target| Reverse(target.job()));
    let commands = targets.iter().map(|target| command(*target)).collect::<Result<Vec<_>, _>>()?;
    let answer = engine.command(Command::Several(commands)).await?;
    let (mut jobs, mut refused) = (BTreeSet::new(), None);
    for (target, answer) in targets.iter().zip(answer.each) {
        match answer {
            Ok(_) => drop(jobs.insert(target.job())),
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if jobs.is_empty() && !all => Err(CommandError::Rejected(why).into()),
        _ => Ok(Json(ActionResult {
            jobs: jobs.iter().map(ToString::to_string).collect(),
            tasks: answer.tasks,
        })),
    }
}
