//! The policy laboratory: the very engine that runs live, under a virtual clock.
//!
//! [`Sim`] drives [`Engine::turn`](warpyard_core::engine::Engine::turn) with a heap for time, virtual workers that answer
//! by the worker's own agent, and a store in memory. It has no scheduling code of its own. Around it: what is
//! simulated ([`workload`]), what came out ([`report`]), published tables ([`reproduce`]),
//! and what really happened, simulated again ([`replay`]).
//! [`faults`] is the same engine among failures of every kind.
//! [`forecast()`] and [`find_counterfactual()`] are what the live server asks: when a task will start, and what would start it now.

pub mod arrival;
mod contention;
pub mod counterfactual;
pub mod faults;
pub mod forecast;
mod machine;
mod oracle;
mod process;
pub mod random;
pub mod record;
pub mod replay;
pub mod report;
pub mod reproduce;
mod run_time;
mod sim;
mod timers;
pub mod workload;

pub use arrival::{
    Arrival, NodeRunModel, RecordedAttempt, RecordedAttempts, RunModel, StepSpeeds, StepWork, TimedInput,
};
pub use counterfactual::{RequestChange, find_counterfactual};
pub use forecast::{ForecastBudget, ForecastRange, StartForecast, UnknownStart, forecast};
pub use record::Record;
pub use report::SimReport;
pub use run_time::{RunTimeEvidence, sample_run_time};
pub use sim::{Setup, Sim, Watcher};
