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
    freeze::Ice,
    launch::Launch,
    output::{Outputs, TaskEnds},
    poke::Poker,
    process::{self, Descendant, Sighting, Tree},
    record::{self, Cause, Exit, Output, Phase, Running, Started, State, Status, Usage, VERSION, Want},
    setup::{self, ABANDON, Stage},
    task,
    terminal::{Stillness, Terminal},
};

/// A task over sooner than this is not announced as running: its end follows at once, and a poke is not free.
const ANNOUNCE: Duration = Duration::from_millis(2);
/// Grace for what a task leaves behind when it ends by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// Between two looks at processes that are freezing.
const FREEZING: Duration = Duration::from_millis(1);
/// Between two rounds of KILL, for a process may fork between being listed and being killed.
const KILLING: Duration = Duration::from_millis(20);
/// Between two attempts at writing the exit on a full disk, at first and in the end.
const FULL_DISK: Duration = Duration::from_secs(1);
/// The longest wait for something due: waiting stands still while the machine is suspended, what is due does not.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const SLOWEST_WRITE: Duration = Duration::from_secs(30);
/// Between two tries of anything, once they have been in vain for a while.
const SLOWEST: Duration = Duration::from_secs(1);
/// Between two counts of processes that nothing bounds.
const COUNTING: Duration = Duration::from_secs(1);

/// Between two looks whether a process was killed for want of memory, and how many there are.
const OOM_LOOKING: Duration = Duration::from_millis(10);
const OOM_LOOKS: u32 = 100;

static POKED: AtomicBool = AtomicBool::new(false);

/// Ends the wait. That of SIGCHLD needs no note: children are looked for after every wait.
extern "C" fn note_signal(signal: libc::c_int) {
    if signal == libc::SIGUSR1 {
        POKED.store(true, Ordering::Relaxed);
    }
}

/// Whether a supervisor that has finished an attempt may take another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// It has no children.
    Free,
    /// A child of it hangs in the kernel and would be taken for the next task's.
    Encumbered,
}

/// Runs one attempt from its start to its record, in a process of its own in which every signal is blocked.
pub(super) fn run(launch: &Launch, poker: &Poker) -> Afterwards {
    let Ok(record) = enter(&launch.dir).and_then(|()| take(launch)) else {
        // Another supervisor has it, or there is no place to tell anything.
        return Afterwards::Free;
    };
    if let Ok(name) = CString::new(format!("wy:{}", launch.key)) {
        let _only_for_people = prctl::set_name(&name);
    }
    // From here on a poke finds us: signals are blocked, so one that comes now is seen by the first wait. What was
    // wanted before is read here.
    let wanted = read_want();
    if let Some(Want::Stop { .. }) = wanted {
        finish(launch, poker, &never_started(launch, Cause::Stopped));
        return Afterwards::Free;
    }
    let name = format!("{}-{}", launch.key, std::process::id());
    let cgroup = match AttemptCgroup::make(&launch.cgroups, &name) {
        Ok(cgroup) => cgroup,
        Err(e) => {
            let exit = never_started(launch, Cause::FailedToStart { message: e.to_string() });
            finish(launch, poker, &exit);
            return Afterwards::Free;
        }
    };
    let Ended { exit, terminal, afterwards } = Supervisor::new(launch, poker, record, cgroup).run(wanted);
    finish(launch, poker, &exit);
    if let Some(terminal) = terminal {
        terminal.over();
    }
    afterwards
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
fn enter(dir: &Path) -> io::Result<()> {
    std::env::set_current_dir(dir)
}

/// Takes the attempt directory by making `running` in it, complete at once, and fails if there is one. Returns the
/// file, to which the task is appended.
fn take(launch: &Launch) -> io::Result<std::fs::File> {
    let running = Running {
        v: VERSION,
        key: launch.key.clone(),
        log: launch.log.clone(),
        boot: process::boot_id().to_owned(),
        supervisor: Sighting::now(std::process::id() as i32),
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
fn read_want() -> Option<Want> {
    Want::read(Path::new(record::WANT)).ok().flatten()
}

fn never_started(launch: &Launch, cause: Cause) -> Exit {
    let now = clock::unix_us();
    Exit {
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
fn finish(launch: &Launch, poker: &Poker, exit: &Exit) {
    let mut pause = FULL_DISK;
    while record::write_record(Path::new(record::EXIT), exit).is_err() {
        // Nobody asks about a directory that was removed; but one may have been made in its place for us.
        if !is_current(&launch.dir) && retake(launch).is_none() {
            break;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(SLOWEST_WRITE);
    }
    poker.poke(launch.poke.as_deref(), &launch.key);
}

/// Whether a directory is the one this process is in: not removed, and no other in its place.
fn is_current(dir: &Path) -> bool {
    let identity = |dir: &Path| dir.metadata().map(|found| (found.dev(), found.ino()));
    matches!((identity(dir), identity(Path::new("."))), (Ok(one), Ok(other)) if one == other)
}

/// Takes the directory the worker made in place of one that was removed, if no other supervisor has it.
fn retake(launch: &Launch) -> Option<File> {
    let before = File::open(".").ok()?;
    let taken = enter(&launch.dir).and_then(|()| take(launch));
    if taken.is_err() {
        // What is written by a name must not go to another supervisor's directory.
        nix::unistd::fchdir(&before).ok()?;
    }
    taken.ok()
}

/// An attempt that is over.
struct Ended {
    exit: Exit,
    terminal: Option<Terminal>,
    afterwards: Afterwards,
}

struct Supervisor<'a> {
    launch: &'a Launch,
    poker: &'a Poker,
    pid: i32,
    tree: Tree,
    /// The file `running`, to which the task is appended once it has started.
    record: File,
    setup: Setup,
    /// When the set-up began, in microseconds since 1970: the attempt has its devices and its timeout from then on.
    began_at: u64,
    started: Option<Started>,
    outputs: Outputs,
    terminal: Option<Terminal>,
    cgroup: AttemptCgroup,
    oom: OomWatch,
    ice: Ice,
    /// When to look how many processes there are, where nothing bounds them.
    count_at: Option<Instant>,
    doing: Doing,
    time: RunningTime,
    status: Option<Status>,
    usage: Usage,
    /// When to tell the worker that something changed, and how long to wait if it cannot listen.
    poke_at: Option<Instant>,
    poke_again: Duration,
    afterwards: Afterwards,
}

/// How far the task is set up.
#[derive(Debug)]
enum Setup {
    /// At a stage, in a child, with more stages to come.
    At { stage: Stage, worker: Worker, rest: VecDeque<Stage> },
    /// The program runs, or ran.
    Done,
    /// It will never run.
    Failed(String),
    /// It was ended at a stage.
    Abandoned,
}

/// The child at work on a stage.
#[derive(Debug)]
enum Worker {
    /// A child of its own.
    Child(Child),
    /// The one that is to write a sink.
    Writer(usize),
}

/// What the supervisor is at.
#[derive(Debug)]
enum Doing {
    Running,
    Freezing {
        look_at: Instant,
        /// How long after the last look.
        after: Duration,
    },
    Frozen,
    /// TERM was sent.
    Ending {
        cause: Cause,
        kill_at: Instant,
    },
    /// KILL was sent and will be again.
    Killing {
        cause: Cause,
        since: Instant,
        again_at: Instant,
    },
}

impl<'a> Supervisor<'a> {
    fn new(launch: &'a Launch, poker: &'a Poker, record: File, cgroup: AttemptCgroup) -> Self {
        let pid = std::process::id() as i32;
        let now = Instant::now();
        Self {
            launch,
            poker,
            pid,
            tree: Tree::below(pid),
            record,
            setup: Setup::Done,
            began_at: clock::unix_us(),
            started: None,
            outputs: Outputs::new(launch),
            terminal: None,
            ice: Ice::new(pid, &launch.key, &launch.freezers, cgroup.unified()),
            count_at: (!cgroup.counts_processes() && launch.processes.is_some()).then_some(now + COUNTING),
            oom: OomWatch::over(&cgroup, launch),
            cgroup,
            doing: Doing::Running,
            time: RunningTime::start(now),
            status: None,
            usage: Usage::default(),
            poke_at: None,
            poke_again: ANNOUNCE,
            afterwards: Afterwards::Free,
        }
    }

    fn run(mut self, wanted: Option<Want>) -> Ended {
        self.go_on(Stage::all(self.launch, &self.outputs));
        if let Some(want) = wanted {
            self.obey(want, Instant::now());
        }
        loop {
            // Not during the set-up: how the child ended that became the task must be noted as how the task did.
            if self.at_work().is_none() && self.reap() == Left::Nobody {
                break;
            }
            self.wait();
            if POKED.swap(false, Ordering::Relaxed) {
                self.heed();
            }
            self.attend_setup();
            self.keep_time(Instant::now());
            if matches!(self.setup, Setup::Abandoned) {
                break;
            }
        }
        self.close()
    }

    /// Puts everything away once no process of the task is left.
    fn close(mut self) -> Ended {
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
        if let Some(Cause::OutOfMemory { limit_bytes }) = &out_of_memory {
            self.outputs.say(&format!(
                "killed: it needed more than the {} MiB of memory it requested",
                limit_bytes >> 20
            ));
        }
        if !self.outputs.finish() {
            self.afterwards = Afterwards::Encumbered;
        }
        self.ice.remove();
        self.cgroup.remove();
        let afterwards = self.afterwards;
        Ended { exit: self.exit(out_of_memory), terminal, afterwards }
    }

    /// Looks what is wanted.
    fn heed(&mut self) {
        if !is_current(&self.launch.dir)
            && let Some(record) = retake(self.launch)
        {
            self.record = record;
            if let Some(started) = &self.started {
                let _best_effort = write_line(&mut self.record, started);
            }
        }
        if let Some(want) = read_want() {
            self.obey(want, Instant::now());
        }
    }

    /// Begins the next stage of the set-up.
    fn go_on(&mut self, mut rest: VecDeque<Stage>) {
        let Some(stage) = rest.pop_front() else { return self.setup = Setup::Done };
        // A long set-up is announced, as what runs is.
        if !rest.is_empty() {
            self.poke_at.get_or_insert(Instant::now() + ANNOUNCE);
        }
        self.setup = match self.begin(&stage) {
            Ok(worker) => Setup::At { stage, worker, rest },
            Err(e) => Setup::Failed(e.to_string()),
        };
    }

    fn begin(&mut self, stage: &Stage) -> io::Result<Worker> {
        let launch = self.launch;
        match stage {
            Stage::Unpack(unpack) => setup::unpack(unpack, launch.user.as_ref()).map(Worker::Child),
            Stage::Output(path, sink) => {
                self.outputs.open_named(path, *sink, launch)?;
                Ok(Worker::Writer(*sink))
            }
            Stage::Task => {
                let ends = self.connect()?;
                task::start(launch, &ends, &self.cgroup).map(Worker::Child)
            }
        }
    }

    /// Makes what connects the supervisor to the task.
    fn connect(&mut self) -> io::Result<TaskEnds> {
        let Some(session) = &self.launch.session else { return self.outputs.connect() };
        let (terminal, end) = Terminal::open(self.launch, session)?;
        self.terminal = Some(terminal);
        Ok(TaskEnds::Terminal(end))
    }

    /// The child that is at work on the set-up.
    fn at_work(&self) -> Option<&Child> {
        match &self.setup {
            Setup::At { worker: Worker::Child(child), .. } => Some(child),
            Setup::At { worker: Worker::Writer(sink), .. } => self.outputs.writer(*sink),
            _ => None,
        }
    }

    /// Takes in what the child at work on the set-up says.
    fn attend_setup(&mut self) {
        while let Some(child) = self.at_work() {
            let (pid, Some(message)) = (child.pid, child.message()) else { return };
            if let Message::Note(text) = &message {
                self.outputs.say(text);
                continue;
            }
            let Setup::At { stage, rest, .. } = std::mem::replace(&mut self.setup, Setup::Done) else {
                return;
            };
            match (message, stage) {
                (Message::Closed, Stage::Task) => self.note_start(pid),
                (Message::Failed(reason), Stage::Task) => {
                    self.setup = Setup::Failed(task::explain(&reason, self.launch));
                }
                (Message::Ready, Stage::Output(..)) => {
                    self.tree.set_apart(pid);
                    self.go_on(rest);
                }
                (Message::Ready, _) => self.go_on(rest),
                (Message::Failed(reason), _) => {
                    self.setup = Setup::Failed(String::from_utf8_lossy(&reason).into_owned());
                }
                (_, stage) => {
                    self.setup = Setup::Failed(format!("a process of warpyard's ended {}", stage.describe()));
                }
            }
        }
    }

    /// Notes that the child has become the program, or has died at the very moment.
    fn note_start(&mut self, pid: i32) {
        let mut groups = self.cgroup.paths().map(Path::to_owned);
        let started = Started {
            process: Sighting::now(pid),
            started_at: self.began_at,
            group: groups.next(),
            more_groups: groups.collect(),
        };
        // A full disk must not end a task that runs; without this line it is merely harder to clean up after us.
        let _best_effort = write_line(&mut self.record, &started);
        self.started = Some(started);
        self.poke_at = Some(Instant::now() + ANNOUNCE);
    }

    /// Sleeps until there is output, a signal or something due, and moves the output.
    fn wait(&mut self) {
        let until = |due: Instant| due.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
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
        fds.extend(self.at_work().map(|child| PollFd::new(child.as_fd(), PollFlags::POLLIN)));
        if let Ok(1..) = ppoll(&mut fds, timeout, Some(unblocked)) {
            let events: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            self.outputs.pump(&events[..pipes]);
            if let Some(terminal) = &mut self.terminal {
                terminal.pump(&events[pipes..streams], &mut self.outputs, Instant::now());
            }
            if events[streams..watched].iter().any(|event| !event.is_empty()) {
                self.oom.heard(Instant::now());
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let idle = self.terminal.as_ref().and_then(Terminal::idle_due);
        let due = match &self.doing {
            Doing::Running => [self.times_out_at(), idle].into_iter().flatten().min(),
            Doing::Freezing { look_at, .. } => {
                Some(self.times_out_at().map_or(*look_at, |at| at.min(*look_at)))
            }
            Doing::Frozen => None,
            Doing::Ending { kill_at: at, .. } | Doing::Killing { again_at: at, .. } => Some(*at),
        };
        let guests = self.terminal.as_ref().and_then(Terminal::next_due);
        [due, guests, self.poke_at, self.count_at, self.oom.look_at].into_iter().flatten().min()
    }

    fn times_out_at(&self) -> Option<Instant> {
        self.time.reaches(Duration::from_millis(self.launch.timeout_ms?))
    }

    /// Does what is due.
    fn keep_time(&mut self, now: Instant) {
        if self.poke_at.is_some_and(|at| at <= now) {
            let heard = self.poker.try_poke(self.launch.poke.as_deref(), &self.launch.key);
            self.poke_again = if heard { ANNOUNCE } else { (self.poke_again * 2).min(SLOWEST) };
            self.poke_at = (!heard).then(|| now + self.poke_again);
        }
        if matches!(self.doing, Doing::Running | Doing::Freezing { .. })
            && self.times_out_at().is_some_and(|at| at <= now)
        {
            return self.end(Cause::TimedOut, Duration::from_millis(self.launch.grace_ms), now);
        }
        if self.count_at.is_some_and(|at| at <= now) {
            self.count(now);
        }
        if self.oom.look_at.is_some_and(|at| at <= now) {
            self.look_for_oom(now);
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.keep_time(now);
            if matches!(self.doing, Doing::Running)
                && let Stillness::TooLong(limit) = terminal.look_at_idleness(now)
            {
                let cause = Cause::Idle { limit_ms: limit.as_millis() as u64 };
                return self.end(cause, Duration::from_millis(self.launch.grace_ms), now);
            }
        }
        match &self.doing {
            Doing::Freezing { look_at, .. } if *look_at <= now => self.freeze(now),
            Doing::Ending { cause, kill_at } if *kill_at <= now => self.kill(cause.clone(), now, now),
            Doing::Killing { since, .. } if self.at_work().is_some() && *since + ABANDON <= now => {
                self.abandon_setup();
            }
            Doing::Killing { cause, since, again_at } if *again_at <= now => {
                self.kill(cause.clone(), *since, now);
            }
            _ => {}
        }
    }

    /// Leaves a child of the set-up alone that was killed and does not go away.
    fn abandon_setup(&mut self) {
        if let Setup::At { stage, worker, .. } = std::mem::replace(&mut self.setup, Setup::Abandoned) {
            if let Worker::Writer(sink) = worker {
                self.outputs.abandon(sink);
            }
            let when = stage.describe();
            self.outputs.say(&format!("ended {when}: a file system does not answer"));
        }
        self.afterwards = Afterwards::Encumbered;
    }

    fn obey(&mut self, want: Want, now: Instant) {
        match (want, &mut self.doing) {
            (Want::Freeze, Doing::Running) => {
                self.ice.prepare();
                self.tell(Phase::Freezing);
                self.freeze(now);
            }
            (Want::Run, Doing::Freezing { .. } | Doing::Frozen) => {
                self.ice.thaw(&self.tree);
                self.time.resume(now);
                self.doing = Doing::Running;
                self.tell(Phase::Running);
            }
            (Want::Stop { grace_ms }, Doing::Running | Doing::Freezing { .. } | Doing::Frozen) => {
                self.end(Cause::Stopped, Duration::from_millis(grace_ms), now);
            }
            (Want::Stop { grace_ms }, Doing::Ending { kill_at, .. }) => {
                *kill_at = (*kill_at).min(now + Duration::from_millis(grace_ms));
            }
            (Want::Freeze, Doing::Freezing { .. } | Doing::Frozen)
            | (Want::Run, Doing::Running)
            | (Want::Run | Want::Freeze, Doing::Ending { .. })
            | (_, Doing::Killing { .. }) => {}
        }
    }

    fn freeze(&mut self, now: Instant) {
        if self.ice.freeze(&self.tree) {
            self.time.pause(Instant::now());
            self.doing = Doing::Frozen;
            self.tell(Phase::Frozen);
        } else {
            let after = match &self.doing {
                // Something that hangs in the kernel may take for ever.
                Doing::Freezing { after, .. } => (*after * 2).min(SLOWEST),
                _ => FREEZING,
            };
            self.doing = Doing::Freezing { look_at: now + after, after };
        }
    }

    /// Writes the state down and pokes the worker.
    fn tell(&mut self, phase: Phase) {
        if let Some(terminal) = &mut self.terminal {
            match phase {
                Phase::Freezing => {}
                Phase::Frozen => terminal.note("paused; it goes on when it is resumed"),
                Phase::Running => terminal.note("goes on"),
            }
            terminal.stir(Instant::now());
        }
        let state = State {
            v: VERSION,
            key: self.launch.key.clone(),
            phase,
            since: clock::unix_us(),
            group: self.ice.group().map(Into::into),
        };
        // On a full disk the worker goes on believing the old state, which errs on the side of waiting.
        let _best_effort = record::write_record(Path::new(record::STATE), &state);
        self.poke_at = Some(Instant::now());
    }

    /// Begins to end everything below: TERM now, KILL after the grace. What is still being set up has no use for a grace.
    fn end(&mut self, cause: Cause, grace: Duration, now: Instant) {
        let grace = if self.at_work().is_some() { Duration::ZERO } else { grace };
        self.tree.signal(libc::SIGTERM);
        if self.terminal.is_some() {
            self.hang_up();
        }
        if matches!(self.doing, Doing::Freezing { .. } | Doing::Frozen) {
            // Only now, so that the signal is the first thing it meets.
            self.ice.thaw(&self.tree);
            self.time.resume(now);
        }
        self.doing = Doing::Ending { cause, kill_at: now + grace };
    }

    /// Looks how many processes there are. Too many are stopped first, so that they have no more while they are ended.
    fn count(&mut self, now: Instant) {
        self.count_at = Some(now + COUNTING);
        // One walk: while they multiply, walking until nobody is new would not end.
        let processes = self.tree.list().len() as u64;
        if self.launch.processes.is_some_and(|most| processes > most)
            && !matches!(self.doing, Doing::Killing { .. })
        {
            self.tree.signal(libc::SIGSTOP);
            self.outputs.say(&format!("ended: it has {processes} processes (max_processes)"));
            self.kill(Cause::Crowded { processes }, now, now);
        }
    }

    /// Ends all of an attempt of which the kernel killed one process for want of memory, as it does by itself in the unified
    /// hierarchy: what is left would only seem to work.
    fn look_for_oom(&mut self, now: Instant) {
        match self.oom.cause(&self.cgroup) {
            None => self.oom.look_again(now),
            Some(cause) => {
                self.oom.look_at = None;
                if !matches!(self.doing, Doing::Ending { .. } | Doing::Killing { .. }) {
                    self.kill(cause, now, now);
                }
            }
        }
    }

    /// Kills everything below, again for as long as anything is left: often at first, for what was just forked, and
    /// seldom later, for what hangs in the kernel.
    fn kill(&mut self, cause: Cause, since: Instant, now: Instant) {
        self.cgroup.kill();
        self.tree.signal(libc::SIGKILL);
        let after = now.saturating_duration_since(since).clamp(KILLING, SLOWEST);
        self.doing = Doing::Killing { cause, since, again_at: now + after };
    }

    /// Has a session end as one does whose terminal is gone: a shell in it passes over TERM, and what it has stopped would
    /// not hear of it.
    fn hang_up(&self) {
        let first = self.started.as_ref().map(|started| started.process.pid);
        if let Some(pid) = first.filter(|pid| self.status.is_none() && process::ends_by_hanging_up(*pid)) {
            let _gone = self.tree.signal_one(Descendant { pid, parent: self.pid }, libc::SIGHUP);
        }
        self.tree.signal(libc::SIGCONT);
    }

    /// Waits for what has ended. What a task leaves behind when it ends by itself is ended too.
    fn reap(&mut self) -> Left {
        let left = self.wait_for_ended();
        let now = Instant::now();
        if left == Left::Some
            && self.status.is_some()
            && !matches!(self.doing, Doing::Ending { .. } | Doing::Killing { .. })
        {
            let grace = LEFTOVER_GRACE.min(Duration::from_millis(self.launch.grace_ms));
            self.end(Cause::Exited, grace, now);
        }
        left
    }

    fn wait_for_ended(&mut self) -> Left {
        loop {
            let mut status = 0;
            // SAFETY: rusage is plain numbers, for which zeroes are valid; both pointers are to our own variables.
            let (pid, usage) = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                (libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage), usage)
            };
            match pid {
                0 => return Left::Some,
                1.. => {
                    self.usage.add(&usage);
                    if self.started.as_ref().is_some_and(|started| started.process.pid == pid) {
                        self.status = Some(status_of(status));
                    }
                }
                _ => return Left::Nobody,
            }
        }
    }

    fn exit(self, out_of_memory: Option<Cause>) -> Exit {
        let cause = match (self.doing, self.setup) {
            (Doing::Ending { cause: Cause::Exited, .. } | Doing::Killing { cause: Cause::Exited, .. }, _) => {
                out_of_memory.unwrap_or(Cause::Exited)
            }
            (Doing::Ending { cause, .. } | Doing::Killing { cause, .. }, _) => cause,
            (_, Setup::Failed(message)) => {
                return never_started(self.launch, Cause::FailedToStart { message });
            }
            // What the kernel killed ended by itself only as far as its parent can tell.
            _ => out_of_memory.unwrap_or(Cause::Exited),
        };
        Exit {
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
    looks_left: u32,
}

impl OomWatch {
    fn over(cgroup: &AttemptCgroup, launch: &Launch) -> Self {
        let limit_bytes = launch.cgroups.iter().find_map(|CgroupLimit { limit, .. }| match limit {
            Limit::Memory(bytes) => Some(*bytes),
            _ => None,
        });
        Self {
            limit_bytes,
            event: limit_bytes.and_then(|_| cgroup.oom_event()),
            look_at: None,
            looks_left: 0,
        }
    }

    /// Why the attempt ends, if a process of it was killed for want of memory.
    fn cause(&self, cgroup: &AttemptCgroup) -> Option<Cause> {
        let limit_bytes = self.limit_bytes.filter(|_| cgroup.oom_kills() > 0)?;
        Some(Cause::OutOfMemory { limit_bytes })
    }

    /// The limit was reached. The kernel says so before it kills, so it is looked at more than once.
    fn heard(&mut self, now: Instant) {
        let _emptied = self.event.as_ref().map(EventFd::read);
        (self.look_at, self.looks_left) = (Some(now), OOM_LOOKS);
    }

    fn look_again(&mut self, now: Instant) {
        self.looks_left = self.looks_left.saturating_sub(1);
        self.look_at = (self.looks_left > 0).then_some(now + OOM_LOOKING);
    }
}

/// Who is left of the processes below.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Some,
    Nobody,
}

fn status_of(status: i32) -> Status {
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
