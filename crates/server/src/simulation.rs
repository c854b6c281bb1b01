//! State of the simulation that is shown, where the server is no live one: its clock, and whether it is over.

use crate::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpyard_core::Time;

/// The simulation that a server shows.
#[derive(Clone)]
pub(crate) struct Simulation {
    /// Its clock, paced.
    pub(crate) clock: Clock,
    /// When it began, by its own clock.
    pub(crate) began: Time,
    /// Whether every job has come and ended.
    pub(crate) over: Arc<AtomicBool>,
}

impl Simulation {
    /// Whether every job has come and ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}
