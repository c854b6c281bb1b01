//! Starting replays and reading their progress and results.

use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::caller::Caller;
use crate::convert;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::{ReplayRequest, ReplayView};
use warpyard_core::{PolicyChoice, PolicyDef, Rejection, Span};

/// The most policies one replay compares.
const POLICIES_AT_ONCE: usize = 12;

/// The default range of a replay: all of the history.
const ALL: Span = Span(u64::MAX / 4);

pub(super) async fn begin(
    State(app): AppState,
    Extension(who): CallerExtension,
    body: Result<Json<ReplayRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<ReplayView>), Refusal> {
    let Json(ReplayRequest { policies, back }) = body?;
    may_replay(&app, &who)?;
    if policies.len() > POLICIES_AT_ONCE {
        let message = format!("a replay compares at most {POLICIES_AT_ONCE} policies");
        return Err(Problem::new(code::TOO_LARGE, "policies", message).into());
    }
    let defs = app.policies;
    let checked = |text: &String| {
        let choice: PolicyChoice = text.parse()?;
        PolicyDef::build_from(defs, &choice)?;
        Ok::<_, Rejection>(choice)
    };
    let choices = policies.iter().map(checked).collect::<Result<Vec<_>, _>>().map_err(convert::problem)?;
    let now = app.engine.clock().now();
    let back = back.map_or(ALL, |b| Span(b.0)).min(Span(now.0));
    let begun = app.replays.begin(app.data.join("log.db"), choices, back, now);
    let view = begun.map_err(|busy| Problem::new(code::WRONG_STATE, "", busy.to_string()))?;
    Ok((StatusCode::ACCEPTED, Json(view)))
}

pub(super) async fn list(
    State(app): AppState,
    Extension(who): CallerExtension,
) -> Result<Json<Vec<ReplayView>>, Refusal> {
    may_replay(&app, &who)?;
    Ok(Json(app.replays.all()))
}

pub(super) async fn one(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Result<Json<ReplayView>, Refusal> {
    may_replay(&app, &who)?;
    let found = id.parse().ok().and_then(|id| app.replays.one(id));
    found.map(Json).ok_or_else(|| Refusal::new(404, code::NOT_FOUND, format!("there is no replay {id}")))
}

/// Refuses replays in private mode to those who may not see everyone's jobs, which a replay shows.
fn may_replay(app: &App, who: &Caller) -> Result<(), Refusal> {
    if app.private() {
        who.must_be_admin("replay everyone's jobs")?;
    }
    Ok(())
}
