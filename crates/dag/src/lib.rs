//! Static scheduling of DAGs on heterogeneous machines.
//!
//! An [`Instance`] holds tasks, machines and transfers; a planner from [`algorithm`] produces a [`Schedule`];
//! [`check()`] validates it and [`Bounds`] gives lower bounds on its makespan. The crate is pure: no clock, no files,
//! no network; a search asks its caller when to stop.

pub mod algorithm;
mod bounds;
mod check;
mod gantt;
mod generate;
mod insertion;
mod instance;
pub mod learned;
mod multiversion;
mod random;
mod rank;
pub mod read;
mod remaining_cost;
mod schedule;

pub use bounds::Bounds;
pub use check::{Violation, check};
pub use gantt::gantt_svg;
pub use generate::Layered;
pub use instance::{Edge, Instance, InstanceError, Links};
pub use random::SplitMix64;
pub use rank::{downward_ranks, optimistic_costs, rank_order, upward_ranks};
pub use schedule::{Schedule, Slot};
