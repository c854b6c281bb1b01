//! Attempts as processes that outlive worker and server: the spawner, one supervisor per attempt, and the records by which a
//! restarted worker finds them again. What should run, and where, is decided in the core.
//!
//! ```text
//! worker ──launch (stream socket)──▶ spawner ──fork──▶ supervisor ──exec──▶ task ─▶ its children
//!    │                               one, tiny,          one each,            own session
//!    │                               single-threaded     own session
//!    ├─ want ───────▶ attempt directory ◀── running, state, exit, log, stdout, stderr ─┘
//!    └─ SIGUSR1 (pidfd) ───────────────▶ supervisor ── datagram: the key ──▶ worker
//! ```
//!
//! A task with a terminal has a pseudo-terminal in place of the two pipes; clients attach through a socket in its directory
//! ([`AttemptDir::terminal`]).
//!
//! *Files are the truth, notifications are hints.* The worker writes the desired state to `want` and signals the supervisor,
//! which reads the whole file each time; the supervisor writes `running`, `state` and `exit` and notifies the worker. A lost
//! notification loses nothing. Records are written under another name and renamed, so that a reader sees a whole one or none.
//! They are not synced: the death of a process loses nothing that was written, and no attempt survives that of the machine.
//!
//! An attempt directory starts at most once: the supervisor claims it by creating `running` exclusively. So a launch may be
//! repeated whenever it is in doubt whether the first one arrived.

mod attempt;
mod cgroup;
mod child;
mod clock;
mod deadlines;
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
pub use deadlines::{Deadlines, DeadlinesFile, LEASE_EXPIRED};
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

/// The environment variable that names the attempt directory in every task. By it the processes of an attempt are found whose
/// supervisor was killed.
pub const ATTEMPT_DIR_VARIABLE: &str = "WARPYARD_ATTEMPT_DIR";
