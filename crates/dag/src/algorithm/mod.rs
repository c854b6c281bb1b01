//! Every planner, one file each, and the registry that feeds commands, help, tables and the tests. Adding one is a
//! file and a line.

mod best;
mod blend;
mod climb;
mod cpop;
mod genetic;
mod genome;
mod heft;
mod learned;
mod lookahead;
mod peft;
mod ready;
mod run;
mod tinker;
mod workbench;

#[cfg(feature = "train")]
pub(crate) use best::search_leanings;
pub use blend::blend;
pub use cpop::cpop;
pub use heft::heft;
pub use lookahead::lookahead;
pub use peft::peft;
#[cfg(feature = "train")]
pub(crate) use ready::by_priority;
pub use run::{Algorithm, Objective, Plan, Progress, Run};

/// All planners, in the order tables show them.
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

/// Finds a planner by name.
///
/// ```
/// assert_eq!(warpyard_dag::algorithm::find("heft").map(|a| a.name), Some("heft"));
/// assert!(warpyard_dag::algorithm::find("help").is_none());
/// ```
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|a| a.name == name)
}
