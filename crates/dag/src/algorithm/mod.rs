//! Planners, one file each, and the registry that feeds commands, help, tables and tests. Adding a planner is one file
//! and one registry line.

mod best;
mod blend;
mod climb;
mod cpop;
mod definition;
mod exchange;
mod genetic;
mod genome;
mod heft;
mod learned;
mod local_search;
mod lookahead;
mod peft;
mod priority_order;
mod search_context;

#[cfg(feature = "train")]
pub(crate) use best::search_bias_weights;
pub use blend::blend;
pub use cpop::cpop;
pub use definition::{Algorithm, Objective, Plan, Progress, SearchOptions};
pub use heft::heft;
pub use lookahead::lookahead;
pub use peft::peft;
#[cfg(feature = "train")]
pub(crate) use priority_order::priority_order;

/// Registry of all planners, in the order tables show them.
pub const ALGORITHMS: &[Algorithm] = &[
    heft::DEF,
    cpop::DEF,
    peft::DEF,
    blend::DEF,
    lookahead::DEF,
    genetic::DEF,
    climb::DEF,
    learned::DEF,
    best::DEF,
];

/// Looks up a planner by name.
///
/// ```
/// assert_eq!(warpyard_dag::algorithm::find("heft").map(|a| a.name), Some("heft"));
/// assert!(warpyard_dag::algorithm::find("help").is_none());
/// ```
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|a| a.name == name)
}
