//! The preview of another policy: the order of the queue under it, without switching to it.

use super::refusal::Refusal;
use super::{AppState, CallerExtension, HIDDEN, SOMEONE};
use crate::convert;
use crate::views;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::{Extension, Json};
use std::collections::HashMap;
use warpyard_api::wire::{PolicyPreview, PolicySpec, QueueMove};
use warpyard_core::cluster::Effects;
use warpyard_core::{PolicyDef, Rejection, TaskId};

/// Tasks of the queue in the preview.
const TOLD: usize = 50;

/// How far along the queue positions are looked up.
const LOOKED: usize = 10_000;

pub(super) async fn preview(
    State(app): AppState,
    Extension(who): CallerExtension,
    body: Result<Json<PolicySpec>, JsonRejection>,
) -> Result<Json<PolicyPreview>, Refusal> {
    let (choice, defs) = (convert::policy_choice(&body?.0), app.policies);
    let look = move |f: &crate::replica::Reader<'_>| {
        let cluster = f.cluster();
        let mut other = PolicyDef::build_from(defs, &choice)?;
        other.observe(cluster.view(), &Effects::default());
        let before = f.policy().queue_order(cluster.view(), LOOKED, f.now());
        let after = other.queue_order(cluster.view(), LOOKED, f.now());
        let starts = other.plan(cluster.view(), f.now()).start;
        let places = |line: &[TaskId]| -> HashMap<TaskId, u64> {
            line.iter().enumerate().map(|(at, task)| (*task, at as u64 + 1)).collect()
        };
        let (was, is) = (places(&before), places(&after));
        let moved = |task: &TaskId| QueueMove {
            task: views::task_name(cluster, *task),
            name: cluster.job(task.job).map(|j| j.spec.name.clone()).unwrap_or_default(),
            user: cluster.job(task.job).map(|j| j.user.clone()).unwrap_or_default(),
            before: was.get(task).copied(),
            after: is.get(task).copied(),
            starts_now: starts.iter().any(|s| s.task == *task),
        };
        let order = after.iter().take(TOLD).map(moved).collect();
        Ok::<_, Rejection>(PolicyPreview { policy: choice.to_string(), order })
    };
    let mut preview = app.engine.read(look).await?.map_err(convert::problem)?;
    for other in preview.order.iter_mut().filter(|other| app.hides(&who, &other.user)) {
        (other.task, other.name, other.user) = (HIDDEN.into(), HIDDEN.into(), SOMEONE.into());
    }
    Ok(Json(preview))
}
