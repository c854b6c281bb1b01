//! Changing jobs. A selector may name many; what could be changed is, and only if nothing could is it a refusal.

use super::answer::Refusal;
use super::{By, Shared};
use crate::follower::Follower;
use crate::live::{CommandError, Live};
use crate::select;
use crate::who::Caller;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use std::collections::BTreeSet;
use warpyard_api::problem::{Problem, code};
use warpyard_api::selector::Select;
use warpyard_api::wire::{Acted, Priority, Retry};
use warpyard_core::command::Target;
use warpyard_core::{Command, JobId};

type Answer = Result<Json<Acted>, Refusal>;

pub(super) async fn cancel(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.live, &who, &id, |target| Ok(Command::Cancel(target))).await
}

pub(super) async fn retry(
    State(app): Shared,
    Extension(who): By,
    Path(id): Path<String>,
    body: Result<Json<Retry>, JsonRejection>,
) -> Answer {
    let failed_only = body?.0.failed_only;
    each(&app.live, &who, &id, |target| Ok(Command::Retry { job: whole(target)?, failed_only })).await
}

pub(super) async fn hold(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.live, &who, &id, |target| Ok(Command::Hold(whole(target)?))).await
}

pub(super) async fn release(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.live, &who, &id, |target| Ok(Command::Release(whole(target)?))).await
}

pub(super) async fn pause(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.live, &who, &id, |target| Ok(Command::Pause(whole(target)?))).await
}

pub(super) async fn resume(State(app): Shared, Extension(who): By, Path(id): Path<String>) -> Answer {
    each(&app.live, &who, &id, |target| Ok(Command::Resume(whole(target)?))).await
}

pub(super) async fn priority(
    State(app): Shared,
    Extension(who): By,
    Path(id): Path<String>,
    body: Result<Json<Priority>, JsonRejection>,
) -> Answer {
    let priority = body?.0.priority;
    app.may_give(&who, priority).await?;
    each(&app.live, &who, &id, |target| Ok(Command::SetPriority(whole(target)?, priority))).await
}

/// The job, for what can only be done to whole jobs.
fn whole(target: Target) -> Result<JobId, Problem> {
    match target {
        Target::Job(job) => Ok(job),
        Target::Node(_) | Target::Task(_) => {
            Err(Problem::new(code::BAD_SELECTOR, "", "this can be done to whole jobs only; name a job's id"))
        }
    }
}

/// Does something to everything a selector finds.
async fn each(
    live: &Live,
    who: &Caller,
    id: &str,
    command: impl Fn(Target) -> Result<Command, Problem>,
) -> Answer {
    let selector = select::parse(id, who)?;
    // Whoever means all of them means those there are.
    let all = selector.parts().contains(&Select::All);
    let users = move |f: &mut Follower| {
        let found = select::find(f.cluster(), &selector)?;
        let user = |target: &Target| f.cluster().job(target.job()).map(|job| job.user.clone());
        Ok::<_, Problem>(found.into_iter().map(|t| (t, user(&t).unwrap_or_default())).collect::<Vec<_>>())
    };
    let mut found = live.read(users).await??;
    // Of several, those of others are passed over; one alone that is someone else's is a refusal.
    if let ([(_, user)], false) = (&found[..], all) {
        who.must_own(user, "change it")?;
    }
    found.retain(|(_, user)| who.owns(user));
    let found: Vec<_> = found.into_iter().map(|(target, _)| target).collect();
    let mut jobs = BTreeSet::new();
    let (mut tasks, mut refused, alone) = (0, None, found.len() == 1 && !all);
    for target in found {
        match live.command(command(target)?).await {
            Ok(answer) => {
                jobs.insert(target.job());
                tasks += answer.tasks;
            }
            Err(CommandError::Rejected(why)) if !alone => refused = Some(why),
            Err(error) => return Err(error.into()),
        }
    }
    match refused {
        Some(why) if jobs.is_empty() && !all => Err(CommandError::Rejected(why).into()),
        _ => Ok(Json(Acted { jobs: jobs.iter().map(ToString::to_string).collect(), tasks })),
    }
}
