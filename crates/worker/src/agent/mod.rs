//! A machine's agent: makes what runs here what the server wants to run here, and tells the server what does.
//!
//! One thread owns everything ([`Agent`]); others only nudge it: the server's word arrives, a supervisor pokes, time
//! passes. After any nudge it does the same: look, [`reconcile`](warpyard_core::reconcile), act, report. It keeps nothing that is not also in
//! the attempt directories, so killing it loses nothing.

mod begin;
mod devices;
mod handle;
mod host;
mod keep;
mod lineage;
mod memory;
mod mine;
mod reaper;
mod records;
mod run;
mod uses;

pub use devices::{DeviceRules, Watched};
pub use handle::{AgentError, AgentHandle, Link, Repaired, Settings};
pub use host::HostReading;
pub use keep::{Layout, WorkPruner, prune_logs, snapshots_dir, work_dir};
pub use lineage::{Generation, Lineage, LogId, NotALogId, split_name};
pub use run::Agent;
pub use uses::Idle;
