//! The agent's interface: its settings, its link to the server, and the handle to its thread.

use super::devices::{DeviceRules, Watched};
use super::keep::Layout;
use crate::probe::{Probe, ProbeError};
use crate::supervise::{Bounds, LaunchError, NotifyListener, RecordError};
use crate::tree_removal::remove_flat;
use crossbeam_channel::{Sender, unbounded};
use nix::unistd::mkdtemp;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::{Assignments, Report};
use warpyard_core::{AttemptId, Span};

/// Link between agent and server: carries reports and assignments, and may lose, duplicate, delay and reorder both.
pub trait Link: Send {
    /// Registers the worker with the server, which delivers assignments from then on.
    fn join(&mut self, info: &WorkerInfo, deliver: Deliver) -> Result<(), AgentError>;

    /// Sends a report without waiting for an answer: the next full report makes up for a lost one.
    fn report(&self, report: Report);
}

/// Receiver of assignments.
pub type Deliver = Box<dyn Fn(Assignments) + Send>;

/// Settings of an agent: its machine, limits and surroundings.
pub struct Settings {
    /// The worker's name.
    pub name: String,
    /// Directory layout of attempts and logs.
    pub layout: Layout,
    /// The program that becomes the spawner, and its arguments.
    pub spawner: (PathBuf, Vec<String>),
    /// Device probe.
    pub probe: Box<dyn Probe>,
    /// Rules by which devices are offered.
    pub rules: DeviceRules,
    /// CPU capacity offered, in thousandths of a core.
    pub cpus: u32,
    /// Main memory offered, in bytes.
    pub memory: u64,
    /// Labels by which jobs select the worker.
    pub labels: BTreeMap<String, String>,
    /// Lease: time without a report after which the server gives the worker up.
    pub lease: Option<Span>,
    /// Size limit of each output.
    pub log_cap: u64,
    /// Socket of a shared server, where each task runs as its user and none as root; otherwise all run as the worker.
    pub shared_at: Option<PathBuf>,
    /// Maximum number of processes and threads of a task, if configured.
    pub max_processes: Option<u64>,
    /// Maximum grace period of a task, also of one submitted before there was a limit.
    pub max_grace: Span,
    /// Interval of full scans and full reports.
    pub every: Duration,
    /// Records damage that was found and repaired.
    pub repaired: Repaired,
}

/// Records damage that was found and repaired, as text for people.
pub type Repaired = Box<dyn Fn(String) + Send>;

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Devices could not be found.
    #[error("cannot find the devices")]
    Probe(#[from] ProbeError),
    /// The spawner could not be started.
    #[error(transparent)]
    Spawner(#[from] LaunchError),
    /// The records of an earlier agent could not be read.
    #[error("cannot read what runs here")]
    Records(#[from] RecordError),
    /// The server rejected it.
    #[error("the server did not take the worker: {0}")]
    NotTaken(String),
    /// A directory or socket could not be created.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Message to the agent's thread.
pub(super) enum Nudge {
    Assigned(Assignments),
    Poked(String),
    /// An attempt whose supervisor was killed has no process left.
    Reaped(AttemptId),
    Leave {
        kill: bool,
        left: Sender<()>,
    },
}

/// A running agent.
pub struct AgentHandle {
    pub(super) nudges: Sender<Nudge>,
    pub(super) devices: Arc<Mutex<Watched>>,
    pub(super) info: WorkerInfo,
    pub(super) bounds: Bounds,
    pub(super) _thread: JoinHandle<()>,
}

impl AgentHandle {
    /// Description of the worker.
    pub fn info(&self) -> &WorkerInfo {
        &self.info
    }

    /// Delivers assignments.
    pub fn assign(&self, assignments: Assignments) {
        // It only fails when the agent has left.
        let _left = self.nudges.send(Nudge::Assigned(assignments));
    }

    /// Process limits of tasks.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The devices and their last readings.
    pub fn devices(&self) -> Arc<Mutex<Watched>> {
        self.devices.clone()
    }

    /// Shuts the agent down. Attempts continue, or with `kill` are ended first.
    pub fn leave(&self, kill: bool) {
        let (left, wait) = unbounded();
        if self.nudges.send(Nudge::Leave { kill, left }).is_ok() {
            let _gone = wait.recv();
        }
    }
}

/// Binds the notification socket. A socket's path has at most 107 bytes; where the data directory's is longer, it gets a directory
/// of its own.
pub(super) fn listen(data: &Path) -> io::Result<(PathBuf, NotifyListener)> {
    let place = match data.as_os_str().len() {
        0..=94 => data.to_owned(),
        _ => mkdtemp(&std::env::temp_dir().join("warpyard-pokes-XXXXXX"))?,
    };
    let path = place.join("pokes");
    Ok((path.clone(), NotifyListener::bind(path)?))
}

/// Removes the directory of the socket, if it has one of its own.
pub(super) fn stop_listening(data: &Path, poke: &Path) {
    if let Some(place) = poke.parent().filter(|place| *place != data) {
        let _gone_already = remove_flat(place);
    }
}

/// Forwards notifications of supervisors to the agent.
pub(super) fn spawn_listener(listener: NotifyListener, nudges: Sender<Nudge>) {
    let listen = move || {
        while let Ok(key) = listener.recv() {
            if nudges.send(Nudge::Poked(key)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("pokes".into()).spawn(listen).expect("a thread can be started");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn where_the_path_is_too_long_the_socket_is_where_nobody_else_gets_and_no_other_agent_is() {
        let data = Path::new("/").join("long".repeat(40));
        let [(first, _), (second, _)] = [(); 2].map(|()| listen(&data).expect("it listens"));
        assert_ne!(first, second);
        for path in [first, second] {
            let place = path.parent().expect("a directory");
            assert_eq!(fs::metadata(place).expect("it is there").permissions().mode() & 0o777, 0o700);
            stop_listening(&data, &path);
            assert!(!place.exists());
        }
    }
}
