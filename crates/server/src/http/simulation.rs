//! The progress of the simulation in the pages: its clock, its speed and whether it is paused.

use super::refusal::Refusal;
use super::{App, AppState};
use crate::views;
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::{SimulationUpdate, SimulationView};

/// The speeds a simulation may have.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

pub(super) async fn show(State(app): AppState) -> Result<Json<SimulationView>, Refusal> {
    view(&app).map(Json)
}

pub(super) async fn set(
    State(app): AppState,
    body: Result<Json<SimulationUpdate>, JsonRejection>,
) -> Result<Json<SimulationView>, Refusal> {
    view(&app)?;
    let Json(SimulationUpdate { speed, paused }) = body?;
    if let Some(speed) = speed.filter(|speed| !SPEEDS.contains(speed)) {
        let message = format!("{speed} is not a speed between {} and {}", SPEEDS.start(), SPEEDS.end());
        return Err(Problem::new(code::BAD_PARAMETER, "speed", message).into());
    }
    app.engine.clock().change_pace(speed, paused);
    app.refresh_pages();
    view(&app).map(Json)
}

fn view(app: &App) -> Result<SimulationView, Refusal> {
    let (Some(simulation), Some(pace)) = (&app.simulation, app.engine.clock().pace()) else {
        return Err(Refusal::new(404, code::NOT_FOUND, "this server runs jobs and shows no simulation"));
    };
    Ok(SimulationView {
        now: views::time(app.engine.clock().now()),
        began: views::time(simulation.began),
        speed: pace.speed,
        paused: pace.paused,
        over: simulation.is_over(),
    })
}
