//! The supervisor: one process per attempt. It starts the task, copies its output, applies the desired state (`want`),
//! enforces timeout and limits, ends every process that descends from it and writes the exit record. One thread, one event
//! loop, so that no lock and no ordering between threads has to be considered while processes come and go.
#![expect(unsafe_code, reason = "signal handlers are installed")]

mod control;
mod directory;
mod memory;
mod reaping;
mod stages;

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::{prctl, signal::SigSet, signal::Signal, time::TimeSpec},
};

use super::{
    cgroup::AttemptCgroup,
    clock::{self, Instant, RunningTime},
    deadlines::{Deadlines, LEASE_EXPIRED},
    freeze::FreezeState,
    launch::Launch,
    notify::Notifier,
    output::Outputs,
    process::Tree,
    record::{DesiredRecord, ExitCause, ExitRecord, Status, TaskProcess, Usage, VERSION},
    setup::{ABANDON, Stage},
    terminal::{IdleCheck, Terminal},
};
use control::RunState;
use directory::{
    append_line, claim_dir, enter_dir, exit_before_start, is_current, read_desired, reclaim_dir, write_exit,
};
use memory::OomWatch;
use reaping::Children;
use stages::SetupState;

/// Delay before a started task is announced. A task that ends sooner is reported once, as ended: a notification costs the
/// worker a wake-up.
const ANNOUNCE_DELAY: Duration = Duration::from_millis(2);
/// Longest single sleep. `ppoll` measures it by a clock that stops while the machine is suspended; deadlines do not stop.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Upper bound of every retry interval that doubles.
const MAX_RETRY: Duration = Duration::from_secs(1);
/// Interval of process counts where no cgroup limits their number.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Set by the handler of SIGUSR1: the desired state may have changed.
static NOTIFIED: AtomicBool = AtomicBool::new(false);

/// Handler of SIGCHLD and SIGUSR1, which only interrupts `ppoll`. SIGCHLD leaves no mark: children are reaped after every
/// wait anyway.
extern "C" fn note_signal(signal: libc::c_int) {
    if signal == libc::SIGUSR1 {
        NOTIFIED.store(true, Ordering::Relaxed);
    }
}

/// Whether a supervisor that has finished an attempt may take another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It has no children left.
    Allowed,
    /// A killed child hangs in the kernel. It would count as a process of the next attempt.
    Forbidden,
}

/// Runs one attempt from claiming its directory to writing its exit record. Every signal is blocked in this process.
pub(super) fn run(launch: &Launch, notifier: &Notifier) -> Reuse {
    let Ok(record) = enter_dir(&launch.dir).and_then(|()| claim_dir(launch)) else {
        // Another supervisor has claimed it, or there is no directory to record anything in.
        return Reuse::Allowed;
    };
    if let Ok(name) = CString::new(format!("wy:{}", launch.key)) {
        let _only_for_people = prctl::set_name(&name);
    }
    // `running` names this process from here on. A SIGUSR1 sent now stays pending, because signals are blocked, and ends
    // the first wait; what was desired before that is read here. So no change of the desired state is missed.
    let desired = read_desired();
    if let Some(DesiredRecord::Stop { .. }) = desired {
        write_exit(launch, notifier, &exit_before_start(launch, ExitCause::Stopped));
        return Reuse::Allowed;
    }
    let name = format!("{}-{}", launch.key, std::process::id());
    let cgroup = match AttemptCgroup::make(&launch.cgroups, &name) {
        Ok(cgroup) => cgroup,
        Err(e) => {
            let exit = exit_before_start(launch, ExitCause::FailedToStart { message: e.to_string() });
            write_exit(launch, notifier, &exit);
            return Reuse::Allowed;
        }
    };
    let FinishedAttempt { exit, terminal, reuse } =
        Supervisor::new(launch, notifier, record, cgroup).run(desired);
    write_exit(launch, notifier, &exit);
    // Attached clients ask how it ended as soon as they are told that it did, so the record comes first.
    if let Some(terminal) = terminal {
        terminal.over();
    }
    reuse
}

/// Makes this process a supervisor: a subreaper, to which orphaned descendants are re-parented, with handlers for the two
/// signals it waits for.
///
/// It stays in the spawner's session, which is not the worker's: a session of its own would cost a scheduling group.
pub(super) fn become_supervisor() -> io::Result<()> {
    prctl::set_child_subreaper(true)?;
    // SAFETY: the handlers only store to an atomic. They run only while waiting in ppoll, which unblocks the two.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    Ok(())
}

/// An attempt of which no process is left.
struct FinishedAttempt {
    exit: ExitRecord,
    terminal: Option<Terminal>,
    reuse: Reuse,
}

/// The state of one supervised attempt.
struct Supervisor<'a> {
    launch: &'a Launch,
    notifier: &'a Notifier,
    pid: i32,
    /// The processes of the task.
    tree: Tree,
    /// The open file `running`, to which the task's process is appended once it has started.
    record: File,
    setup: SetupState,
    /// Start of the set-up in microseconds since 1970. The attempt holds its devices, and its timeout runs, from then on.
    began_at: u64,
    /// The task's first process, once it has started.
    task: Option<TaskProcess>,
    outputs: Outputs,
    terminal: Option<Terminal>,
    cgroup: AttemptCgroup,
    oom: OomWatch,
    freezer: FreezeState,
    /// Next process count, where no cgroup limits their number.
    count_at: Option<Instant>,
    /// When to look at the deadlines of the worker's lease, where the attempt may run elsewhere.
    lease_at: Option<Instant>,
    run_state: RunState,
    time: RunningTime,
    /// How the task's first process ended.
    status: Option<Status>,
    usage: Usage,
    /// When to notify the worker of a change, and the delay before the next try if its queue is full.
    notify_at: Option<Instant>,
    notify_retry: Duration,
    reuse: Reuse,
}

impl<'a> Supervisor<'a> {
    fn new(launch: &'a Launch, notifier: &'a Notifier, record: File, cgroup: AttemptCgroup) -> Self {
        let pid = std::process::id() as i32;
        let now = Instant::now();
        Self {
            launch,
            notifier,
            pid,
            tree: Tree::below(pid),
            record,
            setup: SetupState::Done,
            began_at: clock::unix_us(),
            task: None,
            outputs: Outputs::new(launch),
            terminal: None,
            freezer: FreezeState::new(pid, &launch.key, &launch.freezers, cgroup.unified()),
            count_at: (!cgroup.counts_processes() && launch.processes.is_some())
                .then_some(now + COUNT_INTERVAL),
            lease_at: (launch.deadlines.is_some() && launch.on_lost.runs_elsewhere()).then_some(now),
            oom: OomWatch::new(&cgroup, launch),
            cgroup,
            run_state: RunState::Running,
            time: RunningTime::start(now),
            status: None,
            usage: Usage::default(),
            notify_at: None,
            notify_retry: ANNOUNCE_DELAY,
            reuse: Reuse::Allowed,
        }
    }

    /// The event loop, until no process of the task is left.
    fn run(mut self, desired: Option<DesiredRecord>) -> FinishedAttempt {
        self.start_next_stage(Stage::all(self.launch, &self.outputs));
        if let Some(desired) = desired {
            self.apply(desired, Instant::now());
        }
        loop {
            // Nothing is reaped during the set-up. The child that becomes the task may have exited already; its status must
            // be recorded as the task's, which is possible only once `task` names its pid.
            if self.setup_child().is_none() && self.reap() == Children::AllReaped {
                break;
            }
            self.wait();
            if NOTIFIED.swap(false, Ordering::Relaxed) {
                self.read_desired_state();
            }
            self.handle_setup_messages();
            self.run_due(Instant::now());
            if matches!(self.setup, SetupState::Abandoned) {
                break;
            }
        }
        self.close()
    }

    /// Drains the output and removes cgroups once no process of the task is left.
    fn close(mut self) -> FinishedAttempt {
        self.time.pause(Instant::now());
        self.outputs.drain();
        let mut terminal = self.terminal.take();
        if let Some(terminal) = &mut terminal {
            terminal.drain(&mut self.outputs);
        }
        let refused = self.cgroup.refused_processes();
        if refused > 0 {
            let most = self.launch.processes.unwrap_or_default();
            self.outputs.log_note(&format!(
                "a process was refused {refused} times: a task may have {most} (max_processes)"
            ));
        }
        // Read before the cgroup, which has the counter, is removed.
        let out_of_memory = self.oom.cause(&self.cgroup);
        if let Some(ExitCause::OutOfMemory { limit_bytes }) = &out_of_memory {
            self.outputs.log_note(&format!(
                "killed: it needed more than the {} MiB of memory it requested",
                limit_bytes >> 20
            ));
        }
        if !self.outputs.finish() {
            self.reuse = Reuse::Forbidden;
        }
        self.freezer.remove();
        self.cgroup.remove();
        let reuse = self.reuse;
        FinishedAttempt { exit: self.exit_record(out_of_memory), terminal, reuse }
    }

    /// Reads and applies the desired state after a notification.
    fn read_desired_state(&mut self) {
        // The directory may have been removed and created again by a worker since it was claimed.
        if !is_current(&self.launch.dir)
            && let Some(record) = reclaim_dir(self.launch)
        {
            self.record = record;
            if let Some(task) = &self.task {
                let _best_effort = append_line(&mut self.record, task);
            }
        }
        if let Some(desired) = read_desired() {
            self.apply(desired, Instant::now());
        }
    }

    /// Sleeps until there is output, a signal or a deadline, and moves the output.
    fn wait(&mut self) {
        let until = |due: Instant| due.saturating_duration_since(Instant::now()).min(MAX_WAIT);
        let timeout = self.next_due().map(|due| TimeSpec::from(until(due)));
        // `ppoll` unblocks the two signals atomically with going to sleep: one that arrived a moment before ends the wait
        // at once instead of being slept through.
        let mut blocked = SigSet::all();
        blocked.remove(Signal::SIGCHLD);
        blocked.remove(Signal::SIGUSR1);
        // The order of the descriptors: pipes, terminal and its clients, memory event, set-up child.
        let mut fds = self.outputs.poll_fds();
        let pipes = fds.len();
        let room = !self.outputs.is_behind();
        let of_terminal: Vec<_> = self.terminal.iter().flat_map(|t| t.poll_fds(room)).collect();
        let streams = pipes + of_terminal.len();
        fds.extend(of_terminal);
        fds.extend(self.oom.event().map(|event| PollFd::new(event, PollFlags::POLLIN)));
        let watched = fds.len();
        fds.extend(self.setup_child().map(|child| PollFd::new(child.as_fd(), PollFlags::POLLIN)));
        if let Ok(1..) = ppoll(&mut fds, timeout, Some(blocked)) {
            let events: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            self.outputs.pump(&events[..pipes]);
            if let Some(terminal) = &mut self.terminal {
                terminal.pump(&events[pipes..streams], &mut self.outputs, Instant::now());
            }
            if events[streams..watched].iter().any(|event| !event.is_empty()) {
                self.oom.limit_reached(Instant::now());
            }
        }
    }

    /// The earliest deadline of any kind.
    fn next_due(&self) -> Option<Instant> {
        let idle = self.terminal.as_ref().and_then(Terminal::idle_due);
        let due = match &self.run_state {
            RunState::Running => [self.timeout_at(), idle].into_iter().flatten().min(),
            RunState::Freezing { check_at, .. } => {
                Some(self.timeout_at().map_or(*check_at, |at| at.min(*check_at)))
            }
            RunState::Frozen => None,
            RunState::Terminating { kill_at: at, .. } | RunState::Killing { retry_at: at, .. } => Some(*at),
        };
        let clients = self.terminal.as_ref().and_then(Terminal::next_due);
        [due, clients, self.notify_at, self.count_at, self.lease_at, self.oom.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the running time reaches the timeout; none while the task is frozen.
    fn timeout_at(&self) -> Option<Instant> {
        self.time.reaches(Duration::from_millis(self.launch.timeout_ms?))
    }

    /// Does everything whose deadline has passed. A check that ends the task returns: the others no longer matter.
    fn run_due(&mut self, now: Instant) {
        if self.notify_at.is_some_and(|at| at <= now) {
            let delivered = self.notifier.try_notify(self.launch.notify.as_deref(), &self.launch.key);
            self.notify_retry =
                if delivered { ANNOUNCE_DELAY } else { (self.notify_retry * 2).min(MAX_RETRY) };
            self.notify_at = (!delivered).then(|| now + self.notify_retry);
        }
        let grace = Duration::from_millis(self.launch.grace_ms);
        if matches!(self.run_state, RunState::Running | RunState::Freezing { .. })
            && self.timeout_at().is_some_and(|at| at <= now)
        {
            return self.terminate(ExitCause::TimedOut, grace, now);
        }
        if self.lease_at.is_some_and(|at| at <= now) && self.check_lease(now) {
            return;
        }
        if self.count_at.is_some_and(|at| at <= now) {
            self.check_process_count(now);
        }
        if self.oom.next_due().is_some_and(|at| at <= now) {
            self.check_oom(now);
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.drop_stalled_clients(now);
            if matches!(self.run_state, RunState::Running)
                && let IdleCheck::Exceeded(limit) = terminal.check_idle(now)
            {
                let cause = ExitCause::Idle { limit_ms: limit.as_millis() as u64 };
                return self.terminate(cause, grace, now);
            }
        }
        match &self.run_state {
            RunState::Freezing { check_at, .. } if *check_at <= now => self.freeze(now),
            RunState::Terminating { cause, kill_at } if *kill_at <= now => self.kill(cause.clone(), now, now),
            RunState::Killing { since, .. } if self.setup_child().is_some() && *since + ABANDON <= now => {
                self.abandon_setup();
            }
            RunState::Killing { cause, since, retry_at } if *retry_at <= now => {
                self.kill(cause.clone(), *since, now);
            }
            _ => {}
        }
    }

    /// Stops the attempt if the lease of its worker was not renewed in time, because it may run elsewhere soon. A file that
    /// cannot be read says nothing.
    fn check_lease(&mut self, now: Instant) -> bool {
        let is_ending = matches!(self.run_state, RunState::Terminating { .. } | RunState::Killing { .. });
        let deadlines = self.launch.deadlines.as_deref().filter(|_| !is_ending);
        let Some(path) = deadlines else {
            self.lease_at = None;
            return false;
        };
        let Some(deadlines) = Deadlines::read(path) else {
            self.lease_at = Some(now + MAX_RETRY);
            return false;
        };
        let stop_at = Instant::since_boot(deadlines.stop_at);
        if stop_at > now {
            self.lease_at = Some(stop_at);
            return false;
        }
        self.lease_at = None;
        // The attempt directory is the working directory.
        let _best_effort = File::create(LEASE_EXPIRED);
        self.outputs
            .log_note("ended: its worker has been without contact to the server, and it may run elsewhere");
        let left = Instant::since_boot(deadlines.kill_at).saturating_duration_since(now);
        self.terminate(ExitCause::Stopped, Duration::from_millis(self.launch.grace_ms).min(left), now);
        true
    }

    /// The exit record of an attempt that is over.
    fn exit_record(self, out_of_memory: Option<ExitCause>) -> ExitRecord {
        let cause = match (self.run_state, self.setup) {
            // Leftovers were being ended after the task had exited by itself; the kernel may have killed it for memory.
            (
                RunState::Terminating { cause: ExitCause::Exited, .. }
                | RunState::Killing { cause: ExitCause::Exited, .. },
                _,
            ) => out_of_memory.unwrap_or(ExitCause::Exited),
            (RunState::Terminating { cause, .. } | RunState::Killing { cause, .. }, _) => cause,
            (_, SetupState::Failed(message)) => {
                return exit_before_start(self.launch, ExitCause::FailedToStart { message });
            }
            // A process killed by the kernel for memory looks to its parent as if it had died of a signal by itself.
            _ => out_of_memory.unwrap_or(ExitCause::Exited),
        };
        ExitRecord {
            v: VERSION,
            key: self.launch.key.clone(),
            cause,
            status: self.status,
            started_at: self.began_at,
            ended_at: clock::unix_us(),
            running_us: self.time.elapsed(Instant::now()).as_micros() as u64,
            usage: self.usage,
            output: self.outputs.summary(),
        }
    }
}
