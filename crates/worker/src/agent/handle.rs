//! The agent from outside: what it is told when it starts, how it reaches the server, and how it is spoken to while it runs.

use super::devices::{DeviceRules, Watched};
use super::keep::Layout;
use crate::probe::{Probe, ProbeError};
use crate::supervise::{Bounds, LaunchError, NotifyListener, RecordError};
use crate::tree_removal::remove_flat;
use crossbeam_channel::{Sender, unbounded};
use nix::unistd::mkdtemp;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use warpyard_core::event::WorkerInfo;
use warpyard_core::protocol::{Assignments, Report};
use warpyard_core::{AttemptId, Span};

/// Carries reports to the server and assignments back. It may lose, double, delay and reorder both.
pub trait Link: Send {
    /// Presents the worker to the server, and has assignments delivered from then on.
    fn join(&mut self, info: &WorkerInfo, deliver: Deliver) -> Result<(), AgentError>;

    /// Sends a report. That never waits for an answer: what was not received is sent again.
    fn report(&self, report: Report);
}

/// Takes assignments in.
pub type Deliver = Box<dyn Fn(Assignments) + Send>;

/// What an agent is told about its machine.
pub struct Settings {
    /// The worker's name.
    pub name: String,
    /// Where attempts and logs live.
    pub layout: Layout,
    /// The program that becomes the spawner, and its arguments.
    pub spawner: (PathBuf, Vec<String>),
    /// Finds devices.
    pub probe: Box<dyn Probe>,
    /// How devices are offered.
    pub rules: DeviceRules,
    /// Thousandths of a processor offered.
    pub cpus: u32,
    /// Main memory offered, in bytes.
    pub memory: u64,
    /// How long the server bears its silence.
    pub lease: Option<Span>,
    /// How much of each output is kept.
    pub log_cap: u64,
    /// The socket people find the server at, where each task runs as the user it belongs to, and none as root; otherwise
    /// all run as the worker.
    pub shared_at: Option<PathBuf>,
    /// How many processes and threads a task may have, if that was said.
    pub max_processes: Option<u64>,
    /// The longest grace period a task is granted, however long a one its job asked for before there was a limit.
    pub max_grace: Span,
    /// How often everything is looked at and told again even if nothing seems to happen.
    pub every: Duration,
    /// Takes note of damage that was found and dealt with.
    pub repaired: Repaired,
}

/// Takes note, in words for people, of damage that was found and dealt with.
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
    /// What an earlier agent left could not be read.
    #[error("cannot read what runs here")]
    Records(#[from] RecordError),
    /// The server did not take it.
    #[error("the server did not take the worker: {0}")]
    NotTaken(String),
    /// A directory or socket could not be made.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What wakes the agent.
pub(super) enum Nudge {
    Assigned(Assignments),
    Poked(String),
    /// Nothing is left of an attempt whose supervisor was killed.
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
    /// What the worker is, for the server to know it.
    pub fn info(&self) -> &WorkerInfo {
        &self.info
    }

    /// Says what should be here.
    pub fn assign(&self, assignments: Assignments) {
        // It only fails when the agent has left, and then nothing should be here any more.
        let _left = self.nudges.send(Nudge::Assigned(assignments));
    }

    /// How tasks are kept from having too many processes.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The devices and their last readings.
    pub fn devices(&self) -> Arc<Mutex<Watched>> {
        self.devices.clone()
    }

    /// Ends the agent: what runs goes on, or, with `kill`, is ended and waited for first.
    pub fn leave(&self, kill: bool) {
        let (left, wait) = unbounded();
        if self.nudges.send(Nudge::Leave { kill, left }).is_ok() {
            let _gone = wait.recv();
        }
    }
}

/// A socket's path has at most 107 bytes; where the data directory's is longer, the socket goes to a directory of its own.
pub(super) fn listen(data: &Path) -> io::Result<(PathBuf, NotifyListener)> {
    let place = match data.as_os_str().len() {
        0..=94 => data.to_owned(),
        _ => mkdtemp(&std::env::temp_dir().join("warpyard-pokes-XXXXXX"))?,
    };
    let path = place.join("pokes");
    Ok((path.clone(), NotifyListener::bind(path)?))
}

/// Removes the directory that was made for the socket, if one was.
pub(super) fn stop_listening(data: &Path, poke: &Path) {
    if let Some(place) = poke.parent().filter(|place| *place != data) {
        let _gone_already = remove_flat(place);
    }
}

/// Has pokes wake the agent.
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
