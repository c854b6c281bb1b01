//! The policy laboratory: the very engine that runs live, under a virtual clock.
//!
//! [`Sim`] drives [`Engine::turn`](warpyard_core::engine::Engine::turn) with a heap for time, virtual workers that answer
//! by the worker's own agent, and a store in memory. It has no scheduling code of its own. Around it: what is
//! simulated ([`workload`]), what came out ([`report`]), published tables ([`reproduce`]),
//! and what really happened, simulated again ([`replay`]).
//! [`faults`] is the same engine among failures of every kind.
//! [`forecast()`] and [`sooner()`] are what the live server asks: when a task will start, and what would start it now.

mod agenda;
pub mod arrival;
mod crowds;
mod draw;
pub mod faults;
pub mod forecast;
mod machine;
mod process;
pub mod random;
pub mod record;
pub mod replay;
pub mod report;
pub mod reproduce;
mod sim;
pub mod sooner;
mod truth;
pub mod workload;

pub use arrival::{Arrival, Coming, Course, Pace, Runs, Steps, Tries, Try};
pub use draw::{Known, draw};
pub use forecast::{Expectation, Expected, Limits, Unknown, forecast};
pub use record::Record;
pub use report::SimReport;
pub use sim::{Setup, Sim, Watcher};
pub use sooner::{Change, sooner};
