//! Starting the task: a child that shares memory with the supervisor until it becomes the program, so that it costs
//! no copy of anything and tells what went wrong by writing it down.
#![expect(unsafe_code, reason = "a process is set up between clone and exec")]

use std::{
    ffi::CString,
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    ptr,
};

use super::{
    ATTEMPT_DIR_VARIABLE,
    cgroup::{AttemptCgroup, CgroupFds},
    launch::{Launch, User},
    output::TaskEnds,
};

/// Enough for a handful of system calls.
const STACK_BYTES: usize = 32 << 10;

/// Starts the task and returns its pid.
///
/// It is the leader of its own session, has an empty signal mask, nothing open but its three streams (everything of
/// the supervisor's closes on exec) and dies with its supervisor should that be killed.
pub(super) fn start(launch: &Launch, ends: &TaskEnds, cgroup: &AttemptCgroup) -> io::Result<i32> {
    let cgroups = cgroup.fds()?;
    let program = Program::of(launch, &cgroups)?;
    match program.spawn(&program.argv, ends) {
        // A script without its first line, which a shell would run itself.
        Err(Failed { step: Step::Exec, errno: libc::ENOEXEC, candidate }) => {
            let script = program.candidates.get(candidate).unwrap_or(&program.candidates[0]).clone();
            let mut argv = vec![c"/bin/sh".to_owned(), script];
            argv.extend(program.argv.iter().skip(1).cloned());
            let shell = Program { candidates: vec![c"/bin/sh".to_owned()], ..program };
            shell.spawn(&argv, ends).map_err(|failed| failed.explain(launch))
        }
        other => other.map_err(|failed| failed.explain(launch)),
    }
}

/// A program in the form the kernel takes it.
struct Program<'a> {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    workdir: CString,
    user: Option<&'a User>,
    umask: Option<u32>,
    limits: &'a [(u32, u64, u64)],
    cgroups: &'a CgroupFds,
}

impl<'a> Program<'a> {
    fn of(launch: &'a Launch, cgroups: &'a CgroupFds) -> io::Result<Self> {
        let argv: Vec<CString> =
            launch.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<_, _>>()?;
        let Some(name) = launch.argv.first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
        };
        let mut env = Vec::with_capacity(launch.env.len() + 1);
        for (name, value) in &launch.env {
            env.push(c_string(format!("{name}={value}").as_bytes())?);
        }
        let mark = [ATTEMPT_DIR_VARIABLE.as_bytes(), b"=", launch.dir.as_os_str().as_bytes()].concat();
        env.push(c_string(&mark)?);
        Ok(Self {
            candidates: candidates(name, launch.env.get("PATH").map(String::as_str))?,
            argv,
            env,
            workdir: c_string(launch.workdir.as_os_str().as_bytes())?,
            user: launch.user.as_ref(),
            umask: launch.umask,
            limits: &launch.limits,
            cgroups,
        })
    }

    fn spawn(&self, argv: &[CString], ends: &TaskEnds) -> Result<i32, Failed> {
        let argv = pointers(argv);
        let env = pointers(&self.env);
        let candidates = pointers(&self.candidates);
        let mut child = Child {
            candidates: &candidates,
            argv: &argv,
            env: &env,
            workdir: self.workdir.as_ptr(),
            user: self.user,
            umask: self.umask,
            limits: self.limits,
            cgroups: self.cgroups,
            begun: false,
            streams: match ends {
                TaskEnds::Pipes { out, err } => Streams::Pipes(out.as_raw_fd(), err.as_raw_fd()),
                TaskEnds::Terminal(end) => Streams::Terminal(end.as_raw_fd()),
            },
            failed: None,
        };
        let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / 16);
        // SAFETY: the end of the allocation is a valid, 16-byte aligned start for a stack that grows down. With
        // CLONE_VFORK this process stands still until the child has called exec or _exit, so the child is alone with
        // the stack and with `child`, both of which outlive it; it shares no signal dispositions and no descriptors.
        let pid = unsafe {
            let room = stack.spare_capacity_mut().as_mut_ptr_range();
            let begun = self.cgroups.begin().and_then(|group| {
                child.begun = true;
                begin_in(group, room.start.cast(), (&raw mut child).cast())
            });
            child.begun = begun.is_some();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            begun.unwrap_or_else(|| libc::clone(run_child, room.end.cast(), flags, (&raw mut child).cast()))
        };
        if pid < 0 {
            return Err(Failed { step: Step::Fork, errno: errno(), candidate: 0 });
        }
        // SAFETY: reads a place the child wrote through a pointer; the child is done with it.
        let failed = unsafe { ptr::read_volatile(&raw const child.failed) };
        match failed {
            None => Ok(pid),
            Some(failed) => {
                // SAFETY: waits for our own child, asking for nothing.
                unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
                Err(failed)
            }
        }
    }
}

/// Where a program may be, in the order it is looked for.
fn candidates(name: &str, path: Option<&str>) -> io::Result<Vec<CString>> {
    if name.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the program's name is empty"));
    }
    if name.contains('/') {
        return Ok(vec![c_string(name.as_bytes())?]);
    }
    let path = path.unwrap_or("/usr/local/bin:/usr/bin:/bin");
    path.split(':')
        .map(|dir| if dir.is_empty() { format!("./{name}") } else { format!("{dir}/{name}") })
        .map(|candidate| c_string(candidate.as_bytes()))
        .collect()
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    Ok(CString::new(bytes)?)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// What the child needs, all of it prepared: it may not allocate.
struct Child<'a> {
    candidates: &'a [*const libc::c_char],
    argv: &'a [*const libc::c_char],
    env: &'a [*const libc::c_char],
    workdir: *const libc::c_char,
    user: Option<&'a User>,
    umask: Option<u32>,
    limits: &'a [(u32, u64, u64)],
    cgroups: &'a CgroupFds,
    /// Whether it began in the unified cgroup.
    begun: bool,
    streams: Streams,
    failed: Option<Failed>,
}

/// [`TaskEnds`] by number.
#[derive(Clone, Copy)]
enum Streams {
    Pipes(i32, i32),
    Terminal(i32),
}

/// Where starting went wrong.
#[derive(Clone, Copy)]
struct Failed {
    step: Step,
    errno: i32,
    candidate: usize,
}

#[derive(Clone, Copy)]
enum Step {
    Fork,
    Session,
    Streams,
    Limits,
    Cgroup,
    Groups,
    Identity,
    Workdir,
    Exec,
}

impl Failed {
    fn explain(self, launch: &Launch) -> io::Error {
        let error = io::Error::from_raw_os_error(self.errno);
        let what = match self.step {
            Step::Fork => "cannot make a process".to_owned(),
            Step::Session => "cannot make a session".to_owned(),
            Step::Streams => "cannot connect the output".to_owned(),
            Step::Limits => "cannot set the user's limits".to_owned(),
            Step::Cgroup => "cannot enter its group of processes".to_owned(),
            Step::Groups => "cannot set the user's groups".to_owned(),
            Step::Identity => "cannot become the user".to_owned(),
            Step::Workdir => {
                let dir = launch.workdir.display();
                return match self.errno {
                    libc::ENOENT => {
                        io::Error::new(error.kind(), format!("its working directory {dir} does not exist"))
                    }
                    _ => io::Error::new(
                        error.kind(),
                        format!("cannot enter its working directory {dir}: {error}"),
                    ),
                };
            }
            Step::Exec => return io::Error::new(error.kind(), cannot_run(launch, &error)),
        };
        io::Error::new(error.kind(), format!("{what}: {error}"))
    }
}

/// Why a program cannot be run, as a shell would say it.
fn cannot_run(launch: &Launch, error: &io::Error) -> String {
    let program = &launch.argv[0];
    match error.raw_os_error() {
        // The kernel says the same of a script whose interpreter is missing, so that it is looked for again.
        Some(libc::ENOENT) if is_there(launch) => {
            format!(
                "cannot run {program}: the interpreter that it names in its first line, or its loader, does not exist"
            )
        }
        Some(libc::ENOENT) if program.contains('/') => format!("{program} does not exist"),
        Some(libc::ENOENT) => format!("command not found: {program} is in no directory of its PATH"),
        Some(libc::EACCES) => format!("{program} is not executable, or may not be run by its user"),
        Some(libc::ENOEXEC) => {
            format!(
                "{program} is no program: it has no first line such as #!/bin/sh and is no binary for this machine"
            )
        }
        _ => format!("cannot run {program}: {error}"),
    }
}

/// Whether the program is there, where its user was told that it is not.
fn is_there(launch: &Launch) -> bool {
    let program = &launch.argv[0];
    if program.contains('/') {
        return launch.workdir.join(program).exists();
    }
    let path =
        launch.env.iter().find(|(name, _)| name.as_str() == "PATH").map_or("", |(_, path)| path.as_str());
    std::env::split_paths(path).any(|dir| launch.workdir.join(dir).join(program).exists())
}

/// Starts a child in a group from its first instruction on, which is cheap where moving it there is not; `None` where
/// the kernel or a filter does not let us.
///
/// # Safety
/// As for `clone` with a function: `stack` is [`STACK_BYTES`] that nobody else uses, and `child` outlives the child's use of it.
#[cfg(target_arch = "x86_64")]
unsafe fn begin_in(group: i32, stack: *mut u8, child: *mut libc::c_void) -> Option<i32> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: a structure of numbers.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    how.flags = (libc::CLONE_VM | libc::CLONE_VFORK) as u64 | CLONE_INTO_CGROUP;
    how.exit_signal = libc::SIGCHLD as u64;
    how.stack = stack as u64;
    how.stack_size = STACK_BYTES as u64;
    how.cgroup = group as u64;
    let pid: i64;
    // SAFETY: the parent comes back with a number and everything else as it was; the child comes back on the stack it was
    // given, aligned to 16 bytes as a call wants it, and never leaves the function it calls there.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {child}",
            "call {run}",
            "ud2",
            "2:",
            child = in(reg) child,
            run = in(reg) run_child as extern "C" fn(*mut libc::c_void) -> libc::c_int,
            inlateout("rax") libc::SYS_clone3 => pid,
            in("rdi") &raw const how,
            in("rsi") size_of::<libc::clone_args>(),
            out("rcx") _,
            out("r11") _,
        );
    }
    i32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// # Safety
/// None is needed: nothing is done.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn begin_in(_: i32, _: *mut u8, _: *mut libc::c_void) -> Option<i32> {
    None
}

extern "C" fn run_child(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `spawn` passes its `Child`, and touches it again only when this process is done with it.
    let child = unsafe { &mut *child.cast::<Child<'_>>() };
    // SAFETY: we are the child, between clone and exec.
    child.failed = Some(unsafe { become_program(child) });
    // SAFETY: ends this process without running anything of the supervisor's.
    unsafe { libc::_exit(127) }
}

/// Returns only if it failed.
///
/// # Safety
/// To be called in the child only. Identity is changed by plain system calls, because the C library's wrappers would
/// look for threads in memory that is the supervisor's.
unsafe fn become_program(child: &Child<'_>) -> Failed {
    // SAFETY: plain system calls on descriptors and strings that `spawn` keeps alive.
    unsafe {
        if libc::setsid() < 0 {
            return failed(Step::Session);
        }
        let connected = match child.streams {
            Streams::Pipes(out, err) => libc::dup2(out, 1) >= 0 && libc::dup2(err, 2) >= 0,
            Streams::Terminal(end) => {
                libc::ioctl(end, libc::TIOCSCTTY, 0) >= 0 && (0..3).all(|stream| libc::dup2(end, stream) >= 0)
            }
        };
        if !connected {
            return failed(Step::Streams);
        }
        // Before the change of identity, for the cgroups are not the user's.
        if !child.cgroups.join(child.begun) {
            return failed(Step::Cgroup);
        }
        // Before the change of identity, for a user may not raise what the worker has lower.
        for &(resource, soft, hard) in child.limits {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            if libc::syscall(
                libc::SYS_prlimit64,
                0,
                resource,
                &raw const limit,
                ptr::null_mut::<libc::rlimit>(),
            ) < 0
            {
                return failed(Step::Limits);
            }
        }
        if let Some(user) = child.user {
            if libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) < 0 {
                return failed(Step::Groups);
            }
            if libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) < 0
                || libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) < 0
            {
                return failed(Step::Identity);
            }
        }
        // After the change of identity, which clears it.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if let Some(umask) = child.umask {
            libc::umask(umask);
        }
        // After the change of identity, so that the user's rights decide.
        if libc::chdir(child.workdir) < 0 {
            return failed(Step::Workdir);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        exec_first(child)
    }
}

/// Runs the first candidate there is, as `execvp` would: one that may not be run is passed over, but remembered.
///
/// # Safety
/// As for [`become_program`].
unsafe fn exec_first(child: &Child<'_>) -> Failed {
    let mut worst = Failed { step: Step::Exec, errno: libc::ENOENT, candidate: 0 };
    for (candidate, &path) in child.candidates.iter().enumerate().take_while(|(_, path)| !path.is_null()) {
        // SAFETY: the strings and the arrays, each ended by a null, are kept alive by `spawn`.
        unsafe { libc::execve(path, child.argv.as_ptr(), child.env.as_ptr()) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            errno @ libc::EACCES => worst = Failed { errno, candidate, ..worst },
            errno => return Failed { errno, candidate, ..worst },
        }
    }
    worst
}

fn failed(step: Step) -> Failed {
    Failed { step, errno: errno(), candidate: 0 }
}
