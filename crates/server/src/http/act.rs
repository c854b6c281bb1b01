//! Changing jobs. A selector may name many; what could be changed is, and only if nothing could is it a refusal.

use super::answer::Refusal;
use super::{By, Shared};
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
    State(app): Shared,
    Extension(who): By,
    Path(id): Path<String>,
    query: Result<Query<CancelOptions>, QueryRejection>,
) -> Answer {
    let command = if query?.0.now { Command::Kill } else { Command::Cancel };
    each(&app.engine, &who, &id, |target| Ok(command(target))).await
}

pub(super) async fn retry(
    State(app): Shared,
    Extension(who): By,
    Path(id): Path<String>,
    body: Result<Json<RetryRequest>, JsonRejection>,
) -> Answer {
    let failed_only = body?.0.failed_only;
    each(&app.engine, &who, &id, |target| Ok(Command::Retry { target, failed_only })).await
}

pub(super) async fn hold(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.engine, &who, &id, |target| Ok(Command::Hold(target))).await
}

pub(super) async fn release(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.engine, &who, &id, |target| Ok(Command::Release(target))).await
}

pub(super) async fn pause(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.engine, &who, &id, |target| Ok(Command::Pause(target))).await
}

pub(super) async fn resume(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.engine, &who, &id, |target| Ok(Command::Resume(target))).await
}

pub(super) async fn priority(
    State(app): Shared,
    Extension(who): By,
    Path(id): Path<String>,
    body: Result<Json<PriorityRequest>, JsonRejection>,
) -> Answer {
    let priority = body?.0.priority;
    app.may_give(&who, priority).await?;
    each(&app.engine, &who, &id, |target| Ok(Command::SetPriority(whole(target)?, priority))).await
}

/// The job, for what can only be done to whole jobs.
fn whole(target: TaskSelector) -> Result<JobId, Problem> {
    match target {
        TaskSelector::Job(job) => Ok(job),
        TaskSelector::Node(_) | TaskSelector::Range { .. } | TaskSelector::Task(_) => {
            Err(Problem::new(code::BAD_SELECTOR, "", "this can be done to whole jobs only; name a job's id"))
        }
    }
}

/// Does something to everything a selector finds, as one command: nothing it names starts before all of it is done.
async fn each(
    engine: &EngineHandle,
    who: &Caller,
    id: &str,
    command: impl Fn(TaskSelector) -> Result<Command, Problem>,
) -> Answer {
    let selection = select::parse(id, who)?;
    // Whoever means all of them means those there are.
    let all = selection.parts().contains(&SelectorPart::All);
    let caller = who.clone();
    let own = move |f: &Reader<'_>| select::find_own(f.cluster(), &selection, &caller);
    let OwnTargets { mut targets, denied } = engine.read(own).await??;
    // Of several, those of others are passed over; one alone that is someone else's is a refusal.
    if let (true, Some(user), false) = (targets.is_empty(), &denied, all) {
        who.must_own(user, "change it")?;
    }
    // Later jobs go first: one that waits for another is never let go on, or skipped, by what happens to that.
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
