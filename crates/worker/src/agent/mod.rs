//! The live agent of a machine. Decisions are made in [`warpyard_core::agent`]; here are the thread that drives it ([`Agent`]) and
//! its surroundings: a [`Link`] to the server, an [`Executor`] that runs attempts, a probe that watches devices. All state is also
//! in the attempt directories, so killing the agent loses nothing.

mod begin;
mod devices;
mod executor;
mod handle;
mod host;
mod keep;
mod lineage;
mod memory;
mod process;
mod reaper;
mod records;
mod run;
mod uses;

pub use devices::{DeviceRules, Watched};
pub use executor::Executor;
pub use handle::{AgentError, AgentHandle, Deliver, Link, Repaired, Settings};
pub use host::HostReading;
pub use keep::{Layout, WorkPruner, prune_logs, snapshots_dir, work_dir};
pub use lineage::{Generation, Lineage, LogId, NotALogId, split_name};
pub use run::Agent;
pub use uses::Idle;
