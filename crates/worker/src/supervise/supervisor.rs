//! The supervisor: one process per attempt, which starts the task, keeps its output, obeys `want`, enforces the
//! timeout, ends everything that descends from it and records how it went. One thread, one loop.
#![expect(unsafe_code, reason = "signal handlers are installed and children waited for with their usage")]

use std::{
    collections::VecDeque,
    ffi::CString,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
    poll::{PollFd, PollFlags, ppoll},
    sys::{eventfd::EventFd, prctl, signal::SigSet, signal::Signal, time::TimeSpec},
};

use super::{
    cgroup::{AttemptCgroup, CgroupLimit, Limit},
    child::{Child, Message},
    clock::{self, Instant, RunningTime},
    freeze::FreezeState,
    launch::Launch,
    notify::Notifier,
    output::{Outputs, TaskStreams},
    process::{self, Descendant, ProcessRef, Tree},
    record::{
        self, DesiredRecord, ExitCause, ExitRecord, Output, Phase, RunningRecord, StateRecord, Status,
        TaskProcess, Usage, VERSION,
    },
    setup::{self, ABANDON, Stage},
    task,
    terminal::{IdleCheck, Terminal},
};

/// A task over sooner than this is not announced as running: its end follows at once, and a poke is not free.
const ANNOUNCE_DELAY: Duration = Duration::from_millis(2);
/// Grace for what a task leaves behind when it ends by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// Between two looks at processes that are freezing.
const FREEZE_POLL: Duration = Duration::from_millis(1);
/// Between two rounds of KILL, for a process may fork between being listed and being killed.
const KILL_RETRY: Duration = Duration::from_millis(20);
/// Between two attempts at writing the exit on a full disk, at first and in the end.
const WRITE_RETRY: Duration = Duration::from_secs(1);
/// The longest wait for something due: waiting stands still while the machine is suspended, what is due does not.
const MAX_WAIT: Duration = Duration::from_secs(30);
const MAX_WRITE_RETRY: Duration = Duration::from_secs(30);
/// Between two tries of anything, once they have been in vain for a while.
const MAX_RETRY: Duration = Duration::from_secs(1);
/// Between two counts of processes that nothing bounds.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks whether a process was killed for want of memory, and how many there are.
const OOM_POLL: Duration = Duration::from_millis(10);
const OOM_POLLS: u32 = 100;

static NOTIFIED: AtomicBool = AtomicBool::new(false);

/// Ends the wait. That of SIGCHLD needs no note: children are looked for after every wait.
extern "C" fn note_signal(signal: libc::c_int) {
    if signal == libc::SIGUSR1 {
        NOTIFIED.store(true, Ordering::Relaxed);
    }
}

/// Whether a supervisor that has finished an attempt may take another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It has no children.
    Allowed,
    /// A child of it hangs in the kernel and would be taken for the next task's.
    Forbidden,
}

/// Runs one attempt from its start to its record, in a process of its own in which every signal is blocked.
pub(super) fn run(launch: &Launch, notifier: &Notifier) -> Reuse {
    let Ok(record) = enter_dir(&launch.dir).and_then(|()| claim_dir(launch)) else {
        // Another supervisor has it, or there is no place to tell anything.
        return Reuse::Allowed;
    };
    if let Ok(name) = CString::new(format!("wy:{}", launch.key)) {
        let _only_for_people = prctl::set_name(&name);
    }
    // From here on a poke finds us: signals are blocked, so one that comes now is seen by the first wait. What was
    // wanted before is read here.
    let wanted = read_desired();
    if let Some(DesiredRecord::Stop { .. }) = wanted {
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
        Supervisor::new(launch, notifier, record, cgroup).run(wanted);
    write_exit(launch, notifier, &exit);
    if let Some(terminal) = terminal {
        terminal.over();
    }
    reuse
}

/// Makes this process a supervisor: parent to orphans, and awake to the two signals it waits for.
///
/// It stays in the spawner's session, which is not the worker's: one of its own would cost a scheduling group.
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

/// Never makes the directory: one that is gone belonged to an attempt that is over, and this launch comes too late.
fn enter_dir(dir: &Path) -> io::Result<()> {
    std::env::set_current_dir(dir)
}

/// Takes the attempt directory by making `running` in it, complete at once, and fails if there is one. Returns the
/// file, to which the task is appended.
fn claim_dir(launch: &Launch) -> io::Result<std::fs::File> {
    let running = RunningRecord {
        v: VERSION,
        key: launch.key.clone(),
        log: launch.log.clone(),
        boot: process::boot_id().to_owned(),
        supervisor: ProcessRef::now(std::process::id() as i32),
        task: None,
    };
    let temporary = record::temporary_name(Path::new(record::RUNNING));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
    write_line(&mut file, &running)?;
    let taken =
        match renameat2(AT_FDCWD, &temporary, AT_FDCWD, record::RUNNING, RenameFlags::RENAME_NOREPLACE) {
            // A file system that cannot: a link is as exclusive.
            Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOSYS) => {
                let linked = std::fs::hard_link(&temporary, record::RUNNING);
                std::fs::remove_file(&temporary)?;
                linked
            }
            Err(e) => {
                std::fs::remove_file(&temporary)?;
                Err(e.into())
            }
            Ok(()) => Ok(()),
        };
    taken.map(|()| file)
}

fn write_line(file: &mut std::fs::File, record: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// What is wanted, if that can be read. A record that cannot is left for the next poke.
fn read_desired() -> Option<DesiredRecord> {
    DesiredRecord::read(Path::new(record::WANT)).ok().flatten()
}

fn exit_before_start(launch: &Launch, cause: ExitCause) -> ExitRecord {
    let now = clock::unix_us();
    ExitRecord {
        v: VERSION,
        key: launch.key.clone(),
        cause,
        status: None,
        started_at: now,
        ended_at: now,
        running_us: 0,
        usage: Usage::default(),
        output: Output::default(),
    }
}

/// Writes the exit, however long the disk is full, and pokes the worker.
fn write_exit(launch: &Launch, notifier: &Notifier, exit: &ExitRecord) {
    let mut pause = WRITE_RETRY;
    while record::write_record(Path::new(record::EXIT), exit).is_err() {
        // Nobody asks about a directory that was removed; but one may have been made in its place for us.
        if !is_current(&launch.dir) && reclaim_dir(launch).is_none() {
            break;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(MAX_WRITE_RETRY);
    }
    notifier.notify(launch.notify.as_deref(), &launch.key);
}

/// Whether a directory is the one this process is in: not removed, and no other in its place.
fn is_current(dir: &Path) -> bool {
    let identity = |dir: &Path| dir.metadata().map(|found| (found.dev(), found.ino()));
    matches!((identity(dir), identity(Path::new("."))), (Ok(one), Ok(other)) if one == other)
}

/// Takes the directory the worker made in place of one that was removed, if no other supervisor has it.
fn reclaim_dir(launch: &Launch) -> Option<File> {
    let before = File::open(".").ok()?;
    let taken = enter_dir(&launch.dir).and_then(|()| claim_dir(launch));
    if taken.is_err() {
        // What is written by a name must not go to another supervisor's directory.
        nix::unistd::fchdir(&before).ok()?;
    }
    taken.ok()
}

/// An attempt that is over.
struct FinishedAttempt {
    exit: ExitRecord,
    terminal: Option<Terminal>,
    reuse: Reuse,
}

struct Supervisor<'a> {
    launch: &'a Launch,
    notifier: &'a Notifier,
    pid: i32,
    tree: Tree,
    /// The file `running`, to which the task is appended once it has started.
    record: File,
    setup: SetupState,
    /// When the set-up began, in microseconds since 1970: the attempt has its devices and its timeout from then on.
    began_at: u64,
    started: Option<TaskProcess>,
    outputs: Outputs,
    terminal: Option<Terminal>,
    cgroup: AttemptCgroup,
    oom: OomWatch,
    freezer: FreezeState,
    /// When to look how many processes there are, where nothing bounds them.
    count_at: Option<Instant>,
    supervision: Supervision,
    time: RunningTime,
    status: Option<Status>,
    usage: Usage,
    /// When to tell the worker that something changed, and how long to wait if it cannot listen.
    notify_at: Option<Instant>,
    notify_retry: Duration,
    reuse: Reuse,
}

/// How far the task is set up.
#[derive(Debug)]
enum SetupState {
    /// At a stage, in a child, with more stages to come.
    At { stage: Stage, worker: SetupProcess, rest: VecDeque<Stage> },
    /// The program runs, or ran.
    Done,
    /// It will never run.
    Failed(String),
    /// It was ended at a stage.
    Abandoned,
}

/// The child at work on a stage.
#[derive(Debug)]
enum SetupProcess {
    /// A child of its own.
    Child(Child),
    /// The one that is to write a sink.
    Writer(usize),
}

/// What the supervisor is at.
#[derive(Debug)]
enum Supervision {
    Running,
    Freezing {
        look_at: Instant,
        /// How long after the last look.
        after: Duration,
    },
    Frozen,
    /// TERM was sent.
    Ending {
        cause: ExitCause,
        kill_at: Instant,
    },
    /// KILL was sent and will be again.
    Killing {
        cause: ExitCause,
        since: Instant,
        again_at: Instant,
    },
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
            started: None,
            outputs: Outputs::new(launch),
            terminal: None,
            freezer: FreezeState::new(pid, &launch.key, &launch.freezers, cgroup.unified()),
            count_at: (!cgroup.counts_processes() && launch.processes.is_some())
                .then_some(now + COUNT_INTERVAL),
            oom: OomWatch::new(&cgroup, launch),
            cgroup,
            supervision: Supervision::Running,
            time: RunningTime::start(now),
            status: None,
            usage: Usage::default(),
            notify_at: None,
            notify_retry: ANNOUNCE_DELAY,
            reuse: Reuse::Allowed,
        }
    }

    fn run(mut self, wanted: Option<DesiredRecord>) -> FinishedAttempt {
        self.start_next_stage(Stage::all(self.launch, &self.outputs));
        if let Some(want) = wanted {
            self.apply(want, Instant::now());
        }
        loop {
            // Not during the set-up: how the child ended that became the task must be noted as how the task did.
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

    /// Puts everything away once no process of the task is left.
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
            self.outputs.say(&format!(
                "a process was refused {refused} times: a task may have {most} (max_processes)"
            ));
        }
        let out_of_memory = self.oom.cause(&self.cgroup);
        if let Some(ExitCause::OutOfMemory { limit_bytes }) = &out_of_memory {
            self.outputs.say(&format!(
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
        FinishedAttempt { exit: self.exit(out_of_memory), terminal, reuse }
    }

    /// Looks what is wanted.
    fn read_desired_state(&mut self) {
        if !is_current(&self.launch.dir)
            && let Some(record) = reclaim_dir(self.launch)
        {
            self.record = record;
            if let Some(started) = &self.started {
                let _best_effort = write_line(&mut self.record, started);
            }
        }
        if let Some(want) = read_desired() {
            self.apply(want, Instant::now());
        }
    }

    /// Begins the next stage of the set-up.
    fn start_next_stage(&mut self, mut rest: VecDeque<Stage>) {
        let Some(stage) = rest.pop_front() else { return self.setup = SetupState::Done };
        // A long set-up is announced, as what runs is.
        if !rest.is_empty() {
            self.notify_at.get_or_insert(Instant::now() + ANNOUNCE_DELAY);
        }
        self.setup = match self.start_stage(&stage) {
            Ok(worker) => SetupState::At { stage, worker, rest },
            Err(e) => SetupState::Failed(e.to_string()),
        };
    }

    fn start_stage(&mut self, stage: &Stage) -> io::Result<SetupProcess> {
        let launch = self.launch;
        match stage {
            Stage::Unpack(unpack) => setup::unpack(unpack, launch.user.as_ref()).map(SetupProcess::Child),
            Stage::Output(path, sink) => {
                self.outputs.open_named(path, *sink, launch)?;
                Ok(SetupProcess::Writer(*sink))
            }
            Stage::Task => {
                let ends = self.connect()?;
                task::start(launch, &ends, &self.cgroup).map(SetupProcess::Child)
            }
        }
    }

    /// Makes what connects the supervisor to the task.
    fn connect(&mut self) -> io::Result<TaskStreams> {
        let Some(session) = &self.launch.session else { return self.outputs.connect() };
        let (terminal, end) = Terminal::open(self.launch, session)?;
        self.terminal = Some(terminal);
        Ok(TaskStreams::Terminal(end))
    }

    /// The child that is at work on the set-up.
    fn setup_child(&self) -> Option<&Child> {
        match &self.setup {
            SetupState::At { worker: SetupProcess::Child(child), .. } => Some(child),
            SetupState::At { worker: SetupProcess::Writer(sink), .. } => self.outputs.writer(*sink),
            _ => None,
        }
    }

    /// Takes in what the child at work on the set-up says.
    fn handle_setup_messages(&mut self) {
        while let Some(child) = self.setup_child() {
            let (pid, Some(message)) = (child.pid, child.message()) else { return };
            if let Message::Note(text) = &message {
                self.outputs.say(text);
                continue;
            }
            let SetupState::At { stage, rest, .. } = std::mem::replace(&mut self.setup, SetupState::Done)
            else {
                return;
            };
            match (message, stage) {
                (Message::Closed, Stage::Task) => self.record_start(pid),
                (Message::Failed(reason), Stage::Task) => {
                    self.setup = SetupState::Failed(task::explain(&reason, self.launch));
                }
                (Message::Ready, Stage::Output(..)) => {
                    self.tree.exclude(pid);
                    self.start_next_stage(rest);
                }
                (Message::Ready, _) => self.start_next_stage(rest),
                (Message::Failed(reason), _) => {
                    self.setup = SetupState::Failed(String::from_utf8_lossy(&reason).into_owned());
                }
                (_, stage) => {
                    self.setup =
                        SetupState::Failed(format!("a process of warpyard's ended {}", stage.describe()));
                }
            }
        }
    }

    /// Notes that the child has become the program, or has died at the very moment.
    fn record_start(&mut self, pid: i32) {
        let mut groups = self.cgroup.paths().map(Path::to_owned);
        let started = TaskProcess {
            process: ProcessRef::now(pid),
            started_at: self.began_at,
            group: groups.next(),
            more_groups: groups.collect(),
        };
        // A full disk must not end a task that runs; without this line it is merely harder to clean up after us.
        let _best_effort = write_line(&mut self.record, &started);
        self.started = Some(started);
        self.notify_at = Some(Instant::now() + ANNOUNCE_DELAY);
    }

    /// Sleeps until there is output, a signal or something due, and moves the output.
    fn wait(&mut self) {
        let until = |due: Instant| due.saturating_duration_since(Instant::now()).min(MAX_WAIT);
        let timeout = self.next_due().map(|due| TimeSpec::from(until(due)));
        let mut unblocked = SigSet::all();
        unblocked.remove(Signal::SIGCHLD);
        unblocked.remove(Signal::SIGUSR1);
        let mut fds = self.outputs.poll_fds();
        let pipes = fds.len();
        let room = !self.outputs.is_behind();
        let from_terminal: Vec<_> = self.terminal.iter().flat_map(|t| t.poll_fds(room)).collect();
        let streams = pipes + from_terminal.len();
        fds.extend(from_terminal);
        fds.extend(self.oom.event.as_ref().map(|event| PollFd::new(event.as_fd(), PollFlags::POLLIN)));
        let watched = fds.len();
        fds.extend(self.setup_child().map(|child| PollFd::new(child.as_fd(), PollFlags::POLLIN)));
        if let Ok(1..) = ppoll(&mut fds, timeout, Some(unblocked)) {
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

    fn next_due(&self) -> Option<Instant> {
        let idle = self.terminal.as_ref().and_then(Terminal::idle_due);
        let due = match &self.supervision {
            Supervision::Running => [self.timeout_at(), idle].into_iter().flatten().min(),
            Supervision::Freezing { look_at, .. } => {
                Some(self.timeout_at().map_or(*look_at, |at| at.min(*look_at)))
            }
            Supervision::Frozen => None,
            Supervision::Ending { kill_at: at, .. } | Supervision::Killing { again_at: at, .. } => Some(*at),
        };
        let clients = self.terminal.as_ref().and_then(Terminal::next_due);
        [due, clients, self.notify_at, self.count_at, self.oom.look_at].into_iter().flatten().min()
    }

    fn timeout_at(&self) -> Option<Instant> {
        self.time.reaches(Duration::from_millis(self.launch.timeout_ms?))
    }

    /// Does what is due.
    fn run_due(&mut self, now: Instant) {
        if self.notify_at.is_some_and(|at| at <= now) {
            let heard = self.notifier.try_notify(self.launch.notify.as_deref(), &self.launch.key);
            self.notify_retry = if heard { ANNOUNCE_DELAY } else { (self.notify_retry * 2).min(MAX_RETRY) };
            self.notify_at = (!heard).then(|| now + self.notify_retry);
        }
        if matches!(self.supervision, Supervision::Running | Supervision::Freezing { .. })
            && self.timeout_at().is_some_and(|at| at <= now)
        {
            return self.terminate(ExitCause::TimedOut, Duration::from_millis(self.launch.grace_ms), now);
        }
        if self.count_at.is_some_and(|at| at <= now) {
            self.check_process_count(now);
        }
        if self.oom.look_at.is_some_and(|at| at <= now) {
            self.check_oom(now);
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.keep_time(now);
            if matches!(self.supervision, Supervision::Running)
                && let IdleCheck::Exceeded(limit) = terminal.check_idle(now)
            {
                let cause = ExitCause::Idle { limit_ms: limit.as_millis() as u64 };
                return self.terminate(cause, Duration::from_millis(self.launch.grace_ms), now);
            }
        }
        match &self.supervision {
            Supervision::Freezing { look_at, .. } if *look_at <= now => self.freeze(now),
            Supervision::Ending { cause, kill_at } if *kill_at <= now => self.kill(cause.clone(), now, now),
            Supervision::Killing { since, .. } if self.setup_child().is_some() && *since + ABANDON <= now => {
                self.abandon_setup();
            }
            Supervision::Killing { cause, since, again_at } if *again_at <= now => {
                self.kill(cause.clone(), *since, now);
            }
            _ => {}
        }
    }

    /// Leaves a child of the set-up alone that was killed and does not go away.
    fn abandon_setup(&mut self) {
        if let SetupState::At { stage, worker, .. } =
            std::mem::replace(&mut self.setup, SetupState::Abandoned)
        {
            if let SetupProcess::Writer(sink) = worker {
                self.outputs.abandon(sink);
            }
            let when = stage.describe();
            self.outputs.say(&format!("ended {when}: a file system does not answer"));
        }
        self.reuse = Reuse::Forbidden;
    }

    fn apply(&mut self, want: DesiredRecord, now: Instant) {
        match (want, &mut self.supervision) {
            (DesiredRecord::Freeze, Supervision::Running) => {
                self.freezer.prepare();
                self.publish_phase(Phase::Freezing);
                self.freeze(now);
            }
            (DesiredRecord::Run, Supervision::Freezing { .. } | Supervision::Frozen) => {
                self.freezer.thaw(&self.tree);
                self.time.resume(now);
                self.supervision = Supervision::Running;
                self.publish_phase(Phase::Running);
            }
            (
                DesiredRecord::Stop { grace_ms },
                Supervision::Running | Supervision::Freezing { .. } | Supervision::Frozen,
            ) => {
                self.terminate(ExitCause::Stopped, Duration::from_millis(grace_ms), now);
            }
            (DesiredRecord::Stop { grace_ms }, Supervision::Ending { kill_at, .. }) => {
                *kill_at = (*kill_at).min(now + Duration::from_millis(grace_ms));
            }
            (DesiredRecord::Freeze, Supervision::Freezing { .. } | Supervision::Frozen)
            | (DesiredRecord::Run, Supervision::Running)
            | (DesiredRecord::Run | DesiredRecord::Freeze, Supervision::Ending { .. })
            | (_, Supervision::Killing { .. }) => {}
        }
    }

    fn freeze(&mut self, now: Instant) {
        if self.freezer.freeze(&self.tree) {
            self.time.pause(Instant::now());
            self.supervision = Supervision::Frozen;
            self.publish_phase(Phase::Frozen);
        } else {
            let after = match &self.supervision {
                // Something that hangs in the kernel may take for ever.
                Supervision::Freezing { after, .. } => (*after * 2).min(MAX_RETRY),
                _ => FREEZE_POLL,
            };
            self.supervision = Supervision::Freezing { look_at: now + after, after };
        }
    }

    /// Writes the state down and pokes the worker.
    fn publish_phase(&mut self, phase: Phase) {
        if let Some(terminal) = &mut self.terminal {
            match phase {
                Phase::Freezing => {}
                Phase::Frozen => terminal.note("paused; it goes on when it is resumed"),
                Phase::Running => terminal.note("goes on"),
            }
            terminal.record_activity(Instant::now());
        }
        let state = StateRecord {
            v: VERSION,
            key: self.launch.key.clone(),
            phase,
            since: clock::unix_us(),
            group: self.freezer.group().map(Into::into),
        };
        // On a full disk the worker goes on believing the old state, which errs on the side of waiting.
        let _best_effort = record::write_record(Path::new(record::STATE), &state);
        self.notify_at = Some(Instant::now());
    }

    /// Begins to end everything below: TERM now, KILL after the grace. What is still being set up has no use for a grace.
    fn terminate(&mut self, cause: ExitCause, grace: Duration, now: Instant) {
        let grace = if self.setup_child().is_some() { Duration::ZERO } else { grace };
        self.tree.signal(libc::SIGTERM);
        if self.terminal.is_some() {
            self.send_hangup();
        }
        if matches!(self.supervision, Supervision::Freezing { .. } | Supervision::Frozen) {
            // Only now, so that the signal is the first thing it meets.
            self.freezer.thaw(&self.tree);
            self.time.resume(now);
        }
        self.supervision = Supervision::Ending { cause, kill_at: now + grace };
    }

    /// Looks how many processes there are. Too many are stopped first, so that they have no more while they are ended.
    fn check_process_count(&mut self, now: Instant) {
        self.count_at = Some(now + COUNT_INTERVAL);
        // One walk: while they multiply, walking until nobody is new would not end.
        let processes = self.tree.list().len() as u64;
        if self.launch.processes.is_some_and(|most| processes > most)
            && !matches!(self.supervision, Supervision::Killing { .. })
        {
            self.tree.signal(libc::SIGSTOP);
            self.outputs.say(&format!("ended: it has {processes} processes (max_processes)"));
            self.kill(ExitCause::Crowded { processes }, now, now);
        }
    }

    /// Ends all of an attempt of which the kernel killed one process for want of memory, as it does by itself in the unified
    /// hierarchy: what is left would only seem to work.
    fn check_oom(&mut self, now: Instant) {
        match self.oom.cause(&self.cgroup) {
            None => self.oom.schedule_next_poll(now),
            Some(cause) => {
                self.oom.look_at = None;
                if !matches!(self.supervision, Supervision::Ending { .. } | Supervision::Killing { .. }) {
                    self.kill(cause, now, now);
                }
            }
        }
    }

    /// Kills everything below, again for as long as anything is left: often at first, for what was just forked, and
    /// seldom later, for what hangs in the kernel.
    fn kill(&mut self, cause: ExitCause, since: Instant, now: Instant) {
        self.cgroup.kill();
        self.tree.signal(libc::SIGKILL);
        let after = now.saturating_duration_since(since).clamp(KILL_RETRY, MAX_RETRY);
        self.supervision = Supervision::Killing { cause, since, again_at: now + after };
    }

    /// Has a session end as one does whose terminal is gone: a shell in it passes over TERM, and what it has stopped would
    /// not hear of it.
    fn send_hangup(&self) {
        let first = self.started.as_ref().map(|started| started.process.pid);
        if let Some(pid) = first.filter(|pid| self.status.is_none() && process::ends_by_hanging_up(*pid)) {
            let _gone = self.tree.signal_one(Descendant { pid, parent: self.pid }, libc::SIGHUP);
        }
        self.tree.signal(libc::SIGCONT);
    }

    /// Waits for what has ended. What a task leaves behind when it ends by itself is ended too.
    fn reap(&mut self) -> Children {
        let left = self.reap_exited();
        let now = Instant::now();
        if left == Children::Remain
            && self.status.is_some()
            && !matches!(self.supervision, Supervision::Ending { .. } | Supervision::Killing { .. })
        {
            let grace = LEFTOVER_GRACE.min(Duration::from_millis(self.launch.grace_ms));
            self.terminate(ExitCause::Exited, grace, now);
        }
        left
    }

    fn reap_exited(&mut self) -> Children {
        loop {
            let mut status = 0;
            // SAFETY: rusage is plain numbers, for which zeroes are valid; both pointers are to our own variables.
            let (pid, usage) = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                (libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage), usage)
            };
            match pid {
                0 => return Children::Remain,
                1.. => {
                    self.usage.add(&usage);
                    if self.started.as_ref().is_some_and(|started| started.process.pid == pid) {
                        self.status = Some(exit_status(status));
                    }
                }
                _ => return Children::AllReaped,
            }
        }
    }

    fn exit(self, out_of_memory: Option<ExitCause>) -> ExitRecord {
        let cause = match (self.supervision, self.setup) {
            (
                Supervision::Ending { cause: ExitCause::Exited, .. }
                | Supervision::Killing { cause: ExitCause::Exited, .. },
                _,
            ) => out_of_memory.unwrap_or(ExitCause::Exited),
            (Supervision::Ending { cause, .. } | Supervision::Killing { cause, .. }, _) => cause,
            (_, SetupState::Failed(message)) => {
                return exit_before_start(self.launch, ExitCause::FailedToStart { message });
            }
            // What the kernel killed ended by itself only as far as its parent can tell.
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

/// The watch over an attempt's memory limit.
struct OomWatch {
    limit_bytes: Option<u64>,
    /// Becomes readable when the limit was reached (v1).
    event: Option<EventFd>,
    /// When to look whether a process was killed.
    look_at: Option<Instant>,
    polls_left: u32,
}

impl OomWatch {
    fn new(cgroup: &AttemptCgroup, launch: &Launch) -> Self {
        let limit_bytes = launch.cgroups.iter().find_map(|CgroupLimit { limit, .. }| match limit {
            Limit::Memory(bytes) => Some(*bytes),
            _ => None,
        });
        Self {
            limit_bytes,
            event: limit_bytes.and_then(|_| cgroup.oom_event()),
            look_at: None,
            polls_left: 0,
        }
    }

    /// Why the attempt ends, if a process of it was killed for want of memory.
    fn cause(&self, cgroup: &AttemptCgroup) -> Option<ExitCause> {
        let limit_bytes = self.limit_bytes.filter(|_| cgroup.oom_kills() > 0)?;
        Some(ExitCause::OutOfMemory { limit_bytes })
    }

    /// The limit was reached. The kernel says so before it kills, so it is looked at more than once.
    fn limit_reached(&mut self, now: Instant) {
        let _emptied = self.event.as_ref().map(EventFd::read);
        (self.look_at, self.polls_left) = (Some(now), OOM_POLLS);
    }

    fn schedule_next_poll(&mut self, now: Instant) {
        self.polls_left = self.polls_left.saturating_sub(1);
        self.look_at = (self.polls_left > 0).then_some(now + OOM_POLL);
    }
}

/// Who is left of the processes below.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Children {
    Remain,
    AllReaped,
}

fn exit_status(status: i32) -> Status {
    if libc::WIFSIGNALED(status) {
        Status::Signal(libc::WTERMSIG(status))
    } else {
        Status::Code(libc::WEXITSTATUS(status))
    }
}

impl Usage {
    /// Adds what one child used, together with those it waited for.
    fn add(&mut self, usage: &libc::rusage) {
        let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        self.cpu_us += us(usage.ru_utime) + us(usage.ru_stime);
        self.peak_rss_bytes = self.peak_rss_bytes.max(usage.ru_maxrss as u64 * 1024);
    }
}
