//! The supervisor: one process per attempt, which starts the task, keeps its output, obeys `want`, enforces the
//! timeout, ends everything that descends from it and records how it went. One thread, one loop.
#![expect(unsafe_code, reason = "signal handlers are installed and children waited for with their usage")]

use std::{
    ffi::CString,
    fs::OpenOptions,
    io::{self, Write},
    os::fd::AsFd,
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

use warpyard_snapshot::{Hash, Owner, Store};

use super::{
    cgroup::{AttemptCgroup, CgroupLimit, Limit},
    clock::{self, Instant, RunningTime},
    freeze::Ice,
    launch::{Launch, Unpack, User},
    output::{Outputs, TaskEnds},
    poke::Poker,
    process::{self, Descendant, Sighting, each_descendant},
    record::{self, Cause, Exit, Output, Phase, Running, Started, State, Status, Usage, VERSION, Want},
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
/// Between two attempts at writing the exit on a full disk.
const FULL_DISK: Duration = Duration::from_secs(1);
/// The longest wait for something due: waiting stands still while the machine is suspended, what is due does not.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Between two counts of processes that nothing bounds.
const COUNTING: Duration = Duration::from_secs(1);

/// Between two looks whether a process was killed for want of memory, and how many there are.
const OOM_LOOKING: Duration = Duration::from_millis(10);
const OOM_LOOKS: u32 = 100;

static POKED: AtomicBool = AtomicBool::new(false);
static CHILD_ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(signal: libc::c_int) {
    let flag = if signal == libc::SIGCHLD { &CHILD_ENDED } else { &POKED };
    flag.store(true, Ordering::Relaxed);
}

/// Runs one attempt from its start to its record, in a process of its own in which every signal is blocked.
pub(super) fn run(launch: &Launch, poker: &Poker) {
    let Ok(mut record) = enter(&launch.dir).and_then(|()| take(launch)) else {
        // Another supervisor has it, or there is no place to tell anything.
        return;
    };
    if let Ok(name) = CString::new(format!("wy:{}", launch.key)) {
        let _only_for_people = prctl::set_name(&name);
    }
    // From here on a poke finds us: signals are blocked, so one that comes now is seen by the first wait. What was
    // wanted before is read here.
    let wanted = read_want();
    if let Some(Want::Stop { .. }) = wanted {
        return finish(launch, poker, &never_started(launch, Cause::Stopped));
    }
    match start(launch, &mut record) {
        Ok((started, streams, cgroup)) => {
            drop(record);
            let (exit, terminal) = Supervisor::new(launch, poker, started, streams, cgroup).run(wanted);
            finish(launch, poker, &exit);
            if let Some(terminal) = terminal {
                terminal.over();
            }
        }
        Err(e) => {
            let exit = never_started(launch, Cause::FailedToStart { message: e.to_string() });
            finish(launch, poker, &exit);
        }
    }
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

/// The supervisor's ends of what connects it to the task.
struct Streams {
    outputs: Outputs,
    terminal: Option<Terminal>,
}

impl Streams {
    fn open(launch: &Launch) -> io::Result<(Self, TaskEnds)> {
        let Some(session) = &launch.session else {
            let (outputs, ends) = Outputs::open(launch)?;
            return Ok((Self { outputs, terminal: None }, ends));
        };
        let outputs = Outputs::unconnected(launch)?;
        let (terminal, end) = Terminal::open(launch, session)?;
        Ok((Self { outputs, terminal: Some(terminal) }, TaskEnds::Terminal(end)))
    }
}

fn start(launch: &Launch, record: &mut std::fs::File) -> io::Result<(Started, Streams, AttemptCgroup)> {
    if let Some(unpack) = &launch.unpack {
        put_back(unpack, launch.user.as_ref())?;
    }
    let (streams, ends) = Streams::open(launch)?;
    let name = format!("{}-{}", launch.key, std::process::id());
    let cgroup = AttemptCgroup::make(&launch.cgroups, &name)?;
    let pid = task::start(launch, &ends, &cgroup).inspect_err(|_| cgroup.remove())?;
    drop(ends);
    let mut groups = cgroup.paths().map(Path::to_owned);
    let started = Started {
        process: Sighting::now(pid),
        started_at: clock::unix_us(),
        group: groups.next(),
        more_groups: groups.collect(),
    };
    // A full disk must not end a task that runs; without this line it is merely harder to clean up after us.
    let _best_effort = write_line(record, &started);
    Ok((started, streams, cgroup))
}

/// Makes the directory a task runs in of a snapshot, and gives it to whom the task runs as.
fn put_back(unpack: &Unpack, user: Option<&User>) -> io::Result<()> {
    let failed = |e: &dyn std::error::Error| {
        let why = e.source().map(|source| format!(": {source}")).unwrap_or_default();
        io::Error::other(format!("cannot put back the snapshot: {e}{why}"))
    };
    let id = Hash::try_from(unpack.snapshot.clone()).map_err(|e| failed(&e))?;
    let owner = user.map(|user| Owner { uid: user.uid, gid: user.gid });
    let store = Store::of(&unpack.store, &unpack.person);
    warpyard_snapshot::unpack(&store, &id, &unpack.into, owner).map_err(|e| failed(&e))
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
    while record::write_record(Path::new(record::EXIT), exit).is_err() {
        // A directory that was removed is one nobody asks about any more.
        if !launch.dir.exists() {
            return;
        }
        thread::sleep(FULL_DISK);
    }
    poker.poke(launch.poke.as_deref(), &launch.key);
}

struct Supervisor<'a> {
    launch: &'a Launch,
    poker: &'a Poker,
    pid: i32,
    started: Started,
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
    /// When to tell the worker that something changed.
    poke_at: Option<Instant>,
}

/// What the supervisor is at.
#[derive(Debug)]
enum Doing {
    Running,
    Freezing {
        look_at: Instant,
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
        again_at: Instant,
    },
}

impl<'a> Supervisor<'a> {
    fn new(
        launch: &'a Launch,
        poker: &'a Poker,
        started: Started,
        streams: Streams,
        cgroup: AttemptCgroup,
    ) -> Self {
        let Streams { outputs, terminal } = streams;
        let pid = std::process::id() as i32;
        let now = Instant::now();
        Self {
            launch,
            poker,
            pid,
            started,
            outputs,
            terminal,
            ice: Ice::new(pid, &launch.key, &launch.freezers, cgroup.unified()),
            count_at: (!cgroup.counts_processes() && launch.processes.is_some()).then_some(now + COUNTING),
            oom: OomWatch::over(&cgroup, launch),
            cgroup,
            doing: Doing::Running,
            time: RunningTime::start(now),
            status: None,
            usage: Usage::default(),
            poke_at: Some(now + ANNOUNCE),
        }
    }

    fn run(mut self, wanted: Option<Want>) -> (Exit, Option<Terminal>) {
        if let Some(want) = wanted {
            self.obey(want, Instant::now());
        }
        loop {
            self.wait();
            if POKED.swap(false, Ordering::Relaxed)
                && let Some(want) = read_want()
            {
                self.obey(want, Instant::now());
            }
            if CHILD_ENDED.swap(false, Ordering::Relaxed) && self.reap() == Left::Nobody {
                break;
            }
            self.keep_time(Instant::now());
        }
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
        self.ice.remove();
        self.cgroup.remove();
        (self.exit(out_of_memory), terminal)
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
        fds.extend(self.terminal.iter().flat_map(Terminal::poll_fds));
        let streams = fds.len();
        fds.extend(self.oom.event.as_ref().map(|event| PollFd::new(event.as_fd(), PollFlags::POLLIN)));
        if let Ok(1..) = ppoll(&mut fds, timeout, Some(unblocked)) {
            let events: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            self.outputs.pump(&events[..pipes]);
            if let Some(terminal) = &mut self.terminal {
                terminal.pump(&events[pipes..streams], &mut self.outputs, Instant::now());
            }
            if events[streams..].iter().any(|event| !event.is_empty()) {
                self.oom.heard(Instant::now());
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let idle = self.terminal.as_ref().and_then(Terminal::idle_due);
        let due = match &self.doing {
            Doing::Running => [self.times_out_at(), idle].into_iter().flatten().min(),
            Doing::Freezing { look_at } => Some(self.times_out_at().map_or(*look_at, |at| at.min(*look_at))),
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
            self.poke_at = (!heard).then(|| now + ANNOUNCE);
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
            Doing::Freezing { look_at } if *look_at <= now => self.freeze(now),
            Doing::Ending { cause, kill_at } if *kill_at <= now => self.kill(cause.clone(), now),
            Doing::Killing { cause, again_at } if *again_at <= now => self.kill(cause.clone(), now),
            _ => {}
        }
    }

    fn obey(&mut self, want: Want, now: Instant) {
        match (want, &mut self.doing) {
            (Want::Freeze, Doing::Running) => {
                self.ice.prepare();
                self.tell(Phase::Freezing);
                self.freeze(now);
            }
            (Want::Run, Doing::Freezing { .. } | Doing::Frozen) => {
                self.ice.thaw();
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
        if self.ice.freeze() {
            self.time.pause(Instant::now());
            self.doing = Doing::Frozen;
            self.tell(Phase::Frozen);
        } else {
            self.doing = Doing::Freezing { look_at: now + FREEZING };
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

    /// Begins to end everything below: TERM now, KILL after the grace.
    fn end(&mut self, cause: Cause, grace: Duration, now: Instant) {
        self.signal_all(libc::SIGTERM);
        if self.terminal.is_some() {
            self.hang_up();
        }
        if matches!(self.doing, Doing::Freezing { .. } | Doing::Frozen) {
            // Only now, so that the signal is the first thing it meets.
            self.ice.thaw();
            self.time.resume(now);
        }
        self.doing = Doing::Ending { cause, kill_at: now + grace };
    }

    /// Looks how many processes there are. Too many are stopped first, so that they have no more while they are ended.
    fn count(&mut self, now: Instant) {
        self.count_at = Some(now + COUNTING);
        // One walk: while they multiply, walking until nobody is new would not end.
        let processes = process::descendants(self.pid).len() as u64;
        if self.launch.processes.is_some_and(|most| processes > most)
            && !matches!(self.doing, Doing::Killing { .. })
        {
            self.signal_all(libc::SIGSTOP);
            self.outputs.say(&format!("ended: it has {processes} processes (max_processes)"));
            self.kill(Cause::Crowded { processes }, now);
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
                    self.kill(cause, now);
                }
            }
        }
    }

    fn kill(&mut self, cause: Cause, now: Instant) {
        self.cgroup.kill();
        self.signal_all(libc::SIGKILL);
        self.doing = Doing::Killing { cause, again_at: now + KILLING };
    }

    /// Has a session end as one does whose terminal is gone: a shell in it passes over TERM, and what it has stopped would
    /// not hear of it.
    fn hang_up(&self) {
        let first = Descendant { pid: self.started.process.pid, parent: self.pid };
        if self.status.is_none() && process::ends_by_hanging_up(first.pid) {
            let _gone = first.signal(self.pid, libc::SIGHUP);
        }
        self.signal_all(libc::SIGCONT);
    }

    fn signal_all(&self, signal: i32) {
        each_descendant(self.pid, |process| {
            let _gone = process.signal(self.pid, signal);
        });
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
                    if pid == self.started.process.pid {
                        self.status = Some(status_of(status));
                    }
                }
                _ => return Left::Nobody,
            }
        }
    }

    fn exit(self, out_of_memory: Option<Cause>) -> Exit {
        let cause = match self.doing {
            Doing::Ending { cause, .. } | Doing::Killing { cause, .. } => cause,
            Doing::Running | Doing::Freezing { .. } | Doing::Frozen => Cause::Exited,
        };
        // What the kernel killed ended by itself only as far as its parent can tell.
        let cause = match cause {
            Cause::Exited => out_of_memory.unwrap_or(Cause::Exited),
            other => other,
        };
        Exit {
            v: VERSION,
            key: self.launch.key.clone(),
            cause,
            status: self.status,
            started_at: self.started.started_at,
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
