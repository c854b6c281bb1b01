//! The bar of a simulation on every page: its clock, and controls for its speed.

use super::format::timestamp;
use crate::simulation::Simulation;
use askama::Template;
use askama::filters::HtmlSafe;
use warpyard_api::wire::Timestamp;

/// The speeds that the buttons step through; the API accepts any.
const LADDER: [f64; 13] =
    [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];

/// The bar.
#[derive(Clone, Template)]
#[template(path = "simulation.html")]
pub(super) struct SimulationBar {
    now: Timestamp,
    began: Timestamp,
    clock: String,
    pub(super) speed: f64,
    /// The speed in words.
    per_second: String,
    pub(super) paused: bool,
    over: bool,
    slower: Option<f64>,
    faster: Option<f64>,
}

impl HtmlSafe for SimulationBar {}

impl SimulationBar {
    /// The bar of a simulation in its present state.
    pub(super) fn of(simulation: &Simulation) -> Option<SimulationBar> {
        let pace = simulation.clock.pace()?;
        let (now, began) = (timestamp(simulation.clock.now()), timestamp(simulation.began));
        Some(SimulationBar {
            clock: clock(now.as_millis() - began.as_millis()),
            now,
            began,
            speed: pace.speed,
            per_second: in_words(pace.speed),
            paused: pace.paused,
            over: simulation.is_over(),
            slower: LADDER.into_iter().rev().find(|step| *step < pace.speed),
            faster: LADDER.into_iter().find(|step| *step > pace.speed),
        })
    }
}

/// The simulated time since its beginning: "2d 03:04:05". `formatElapsed` in assets/format.js writes the same.
fn clock(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {time}") } else { time }
}

/// The simulated time that passes in a second.
fn in_words(speed: f64) -> String {
    let (amount, unit) = match speed {
        s if s >= 86_400.0 => (s / 86_400.0, "d"),
        s if s >= 3_600.0 => (s / 3_600.0, "h"),
        s if s >= 60.0 => (s / 60.0, "min"),
        s => (s, "s"),
    };
    let digits = if amount.fract() == 0.0 { 0 } else { 1 };
    format!("{amount:.digits$} {unit} a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_speeds_have_units() {
        assert_eq!([0, 3_723_000, 90_061_999].map(clock), ["00:00:00", "01:02:03", "1d 01:01:01"]);
        assert_eq!(
            [1.0, 60.0, 90.0, 3_600.0, 172_800.0].map(in_words),
            ["1 s a second", "1 min a second", "1.5 min a second", "1 h a second", "2 d a second"]
        );
    }
}
