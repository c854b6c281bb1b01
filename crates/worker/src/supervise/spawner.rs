//! The spawner: a small, single-threaded process that forks a supervisor for each launch, and the worker's handle to it. A
//! worker has threads, so a child it forks could hardly do anything safely; the spawner has one thread and little memory,
//! which makes forking it safe and cheap.
#![expect(unsafe_code, reason = "a process is set up and forks")]

use std::{
    io::{self, BufReader},
    os::{
        fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{
    idle_pool::{self, IdleSlot},
    launch::{Launch, read_frame},
    notify::Notifier,
    supervisor::{self, Reuse},
};

/// Why a launch did not reach a spawner.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The spawner was gone and could not be started again.
    #[error("cannot start the spawner {}", program.display())]
    Start {
        /// The program that was to be started.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The attempt directory could not be created.
    #[error("cannot make {}", path.display())]
    Directory {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The launch could not be sent, even to a new spawner.
    #[error("cannot send a launch to the spawner")]
    Send(#[source] io::Error),
}

/// How a launch was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To the spawner that was there.
    Sent,
    /// To a new spawner, because the old one had died. Earlier launches whose directory has no
    /// [`RunningRecord`](super::RunningRecord) yet may be lost and should be launched again, which is safe.
    SentToNewSpawner,
}

/// The worker's handle to its spawner process, which is restarted whenever it is found dead.
#[derive(Debug)]
pub struct Spawner {
    program: PathBuf,
    args: Vec<String>,
    process: Process,
    /// The `cgroup.procs` of the cgroup it and all it forks are in.
    confined_by: Option<PathBuf>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stream: UnixStream,
}

impl Spawner {
    /// Starts `program args...`, which must call [`spawner_main`].
    pub fn start<A: Into<String>>(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self, LaunchError> {
        let program = program.into();
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        let process = Process::start(&program, &args)?;
        Ok(Self { program, args, process, confined_by: None })
    }

    /// Creates the attempt directory and sends a launch to the spawner. Whether the attempt runs is seen in the directory.
    pub fn launch(&mut self, launch: &Launch) -> Result<Delivery, LaunchError> {
        let unmade = |source| LaunchError::Directory { path: launch.dir.clone(), source };
        std::fs::create_dir_all(&launch.dir).map_err(unmade)?;
        if launch.write_to(&self.process.stream).is_ok() {
            return Ok(Delivery::Sent);
        }
        self.restart()?;
        launch.write_to(&self.process.stream).map_err(LaunchError::Send)?;
        Ok(Delivery::SentToNewSpawner)
    }

    /// The spawner's process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Whether the spawner has died. Launches it had not read yet are lost then.
    pub fn has_died(&mut self) -> bool {
        !matches!(self.process.child.try_wait(), Ok(None))
    }

    /// Replaces the spawner by a new one. Running attempts are unaffected.
    pub fn restart(&mut self) -> Result<(), LaunchError> {
        self.process = Process::start(&self.program, &self.args)?;
        self.join().map_err(|source| LaunchError::Start { program: self.program.clone(), source })
    }

    /// Moves the spawner, and any later one, into a cgroup. Supervisors it has already forked stay where they are.
    pub fn confine(&mut self, cgroup: &Path) -> io::Result<()> {
        self.confined_by = Some(cgroup.join("cgroup.procs"));
        self.join().inspect_err(|_| self.confined_by = None)
    }

    fn join(&self) -> io::Result<()> {
        self.confined_by.as_ref().map_or(Ok(()), |procs| std::fs::write(procs, self.pid().to_string()))
    }
}

/// The socket to the spawner, which becomes readable (end of file) when the spawner dies.
impl AsFd for Spawner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.stream.as_fd()
    }
}

impl Process {
    fn start(program: &PathBuf, args: &[String]) -> Result<Self, LaunchError> {
        let start = || {
            let (stream, theirs) = UnixStream::pair()?;
            let child = Command::new(program)
                .args(args)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok(Self { child, stream })
        };
        start().map_err(|source| LaunchError::Start { program: program.clone(), source })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // At the end of its stream the spawner handles what it has read and exits.
        let _already_closed = self.stream.shutdown(std::net::Shutdown::Write);
        let _already_gone = self.child.wait();
    }
}

/// The main function of the spawner process: reads launches from `socket` until its end and forks a supervisor for each.
///
/// Must be called first thing in `main`, before any thread exists, with standard input as the socket.
pub fn spawner_main(socket: OwnedFd) -> ! {
    let status = match spawn_all(socket) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    std::process::exit(status)
}

fn spawn_all(socket: OwnedFd) -> io::Result<()> {
    let socket = alone(socket)?;
    // Read once here, so that supervisors inherit the cached values.
    super::process::boot_id();
    super::clock::boot_us();
    let notifier = Notifier::new()?;
    let (pool, slot) = idle_pool::pair()?;
    let mut stream = BufReader::with_capacity(64 << 10, UnixStream::from(socket));
    while let Some(frame) = read_frame(&mut stream)? {
        if pool.dispatch(&frame) {
            continue;
        }
        // SAFETY: this process has one thread, so the child may do anything it could.
        match unsafe { libc::fork() } {
            0 => {
                // Closes this process's copies. Launches still in the buffer are the spawner's to handle.
                drop((stream, pool));
                supervise(frame, slot, &notifier)
            }
            // On failure the launch is lost; the worker sees that its directory stays unclaimed.
            -1.. => {}
            ..-1 => unreachable!("fork returns a pid, 0 or -1"),
        }
    }
    Ok(())
}

/// The main function of a supervisor process: one attempt after another, for as long as launches follow closely.
fn supervise(first: Vec<u8>, mut slot: IdleSlot, notifier: &Notifier) -> ! {
    let mut next = supervisor::become_supervisor().ok().map(|()| first);
    while let Some(launch) = next.and_then(|frame| Launch::parse(&frame).ok()) {
        next = match supervisor::run(&launch, notifier) {
            Reuse::Allowed => slot.wait(),
            Reuse::Forbidden => None,
        };
    }
    // SAFETY: ends this process; nothing is left to flush, and exit handlers of the spawner's must not run.
    unsafe { libc::_exit(0) }
}

/// Detaches this process from the worker's terminal, signals and open files; returns the socket under its new number.
///
/// Signals are blocked rather than ignored: an ignored signal stays ignored across `exec`, in every task.
fn alone(socket: OwnedFd) -> io::Result<OwnedFd> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into_raw_fd();
    let socket = socket.into_raw_fd();
    // SAFETY: moves the socket to the first descriptor after the three standard ones and closes all others, none of
    // which anything in this process will use again: it has only just begun.
    let socket = unsafe {
        let moved = libc::fcntl(socket, libc::F_DUPFD_CLOEXEC, 4);
        let all = [(null, 0, 0), (null, 1, 0), (null, 2, 0), (moved, 3, libc::O_CLOEXEC)];
        if moved < 0 || all.iter().any(|&(from, to, flags)| libc::dup3(from, to, flags) < 0) {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_close_range, 4, u32::MAX, 0);
        OwnedFd::from_raw_fd(3)
    };
    nix::sys::signal::SigSet::all().thread_block()?;
    // Resets what `nohup` or Rust's runtime had set to be ignored.
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: sets the default; for signals that have no other it fails and changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an ignored SIGCHLD makes the kernel reap the supervisors. Each of them installs its own handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // Fails only for a process group leader.
    let _leads_already = nix::unistd::setsid();
    std::env::set_current_dir("/")?;
    Ok(socket)
}
