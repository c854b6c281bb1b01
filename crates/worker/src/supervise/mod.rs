//! Attempts as real processes that outlive everything: the spawner, the supervisor of each attempt, and the files by
//! which a worker finds them again. What should run, and where, is decided elsewhere; containers live elsewhere too.
//!
//! ```text
//! worker ──launch (stream socket)──▶ spawner ──fork──▶ supervisor ──exec──▶ task ─▶ its children
//!    │                               one, tiny,          one each,            own session
//!    │                               single-threaded     own session
//!    ├─ want ───────▶ attempt directory ◀── running, state, exit, log, stdout, stderr ─┘
//!    └─ SIGUSR1 (pidfd) ───────────────▶ supervisor ── datagram: the key ──▶ worker
//! ```
//!
//! A task in a terminal has one of its supervisor's making in place of the two pipes, and those who are attached come in
//! through a socket in its directory ([`AttemptDir::terminal`]).
//!
//! *Files are the truth, pokes are hints.* The worker says what it wants in `want` and pokes the supervisor, which
//! reads the file whole each time; the supervisor says what is in `running`, `state` and `exit` and pokes the worker.
//! Losing any poke loses nothing. Records are written to another name and renamed, so a reader sees all of one or
//! none; they are not synced, because the death of a process loses nothing the kernel was given, and an attempt does
//! not survive the death of the machine anyway.
//!
//! An attempt directory starts at most once: the supervisor takes it by creating `running` where there is none, so a
//! launch may be repeated whenever it is in doubt whether the first one arrived.

mod attempt;
mod cgroup;
mod child;
mod clock;
mod freeze;
mod idle_pool;
mod launch;
mod notify;
mod output;
mod process;
mod record;
mod setup;
mod spawner;
mod supervisor;
mod task;
mod terminal;
mod writer;

pub use attempt::{AttemptDir, Inspection, Orphan, ProcessTable, RecordedAttempt, scan};
pub(crate) use cgroup::{AttemptCgroup, CgroupFds};
pub use cgroup::{Bounds, CgroupLimit, CgroupParent, DeviceNode, Hierarchy, Limit, SUBGROUP};
pub use clock::boot_time;
pub use freeze::Freezer;
pub use launch::{Launch, Session, Unpack, User};
pub use notify::NotifyListener;
pub use process::ProcessRef;
pub(crate) use process::boot_id;
pub use record::{
    DesiredRecord, ExitCause, ExitRecord, Output, Phase, RecordError, RunningRecord, StateRecord, Status,
    TaskProcess, Usage, write_atomically,
};
pub use spawner::{Delivery, LaunchError, Spawner, spawner_main};

/// The variable every task of an attempt finds its attempt's directory in. Processes that escaped a supervisor which
/// was itself killed are recognised by it.
pub const ATTEMPT_DIR_VARIABLE: &str = "WARPYARD_ATTEMPT_DIR";
