//! The policy laboratory: the very engine that runs live, under a virtual clock.
//!
//! [`Sim`] drives [`Engine::turn`](warpyard_core::engine::Engine::turn) with a heap for time, virtual workers that answer
//! by the worker's own `reconcile`, and a store in memory. It has no scheduling code of its own.

mod agenda;
pub mod arrival;
mod machine;
pub mod random;
pub mod record;
mod sim;

pub use arrival::{Arrival, Course, Runs};
pub use record::Record;
pub use sim::{Setup, Sim};
