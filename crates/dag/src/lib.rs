//! Static planning of DAGs on unlike machines.
//!
//! An [`Instance`] says what is to run, a planner from [`algorithm`] gives a [`Schedule`], [`check()`] judges it and
//! [`Bounds`] says how far from perfect it can be. Everything here is pure: no clock, no files, no network; a search
//! asks its caller when to stop.

pub mod algorithm;
mod bounds;
mod check;
mod foresight;
mod gantt;
mod generate;
mod insertion;
mod instance;
pub mod learned;
mod random;
mod rank;
pub mod read;
mod schedule;
mod wide;

pub use bounds::Bounds;
pub use check::{Violation, check};
pub use gantt::gantt_svg;
pub use generate::Layered;
pub use instance::{Edge, Instance, InstanceError, Links};
pub use random::SplitMix64;
pub use rank::{downward_ranks, optimistic_costs, rank_order, upward_ranks};
pub use schedule::{Schedule, Slot};
