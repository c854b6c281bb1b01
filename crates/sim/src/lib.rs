//! Discrete-event simulator: the live engine under a virtual clock.
//!
//! [`Sim`] drives [`Engine::turn`](warpyard_core::engine::Engine::turn) with a timer queue, virtual workers that run the
//! worker's own agent, and a store in memory. It has no scheduling code of its own. Around it: workloads and traces
//! ([`workload`]), figures and plots ([`report`]), published tables ([`reproduce`]) and the replay of recorded histories
//! ([`replay`]). [`faults`] is the fault simulator: the same engine and agents with injected failures.
//! [`forecast()`] and [`find_counterfactual()`] serve the live server: when will a task start, and which change of its
//! request would start it now?

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
