//! Start of the task: a forked child that becomes the user and then the program. Everything it needs is prepared before the
//! fork, because it must not allocate once the user's resource limits are in force.
#![expect(unsafe_code, reason = "a process is set up between fork and exec")]

use std::{
    ffi::CString,
    io::{self, Write},
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    ptr,
};

use super::{
    ATTEMPT_DIR_VARIABLE,
    cgroup::{AttemptCgroup, CgroupFds},
    child::{Child, ForkOptions, IdentityError, ReportSocket, become_user, errno},
    launch::{Launch, User},
    output::TaskStreams,
};
use crate::accounts::limit_name;

/// Forks the child that becomes the task; it has done so when its socket closes without a failure.
///
/// The task leads a session of its own, has an empty signal mask and nothing open but its three streams (the supervisor's
/// descriptors are close-on-exec), and dies with its supervisor should that be killed.
pub(super) fn start(launch: &Launch, ends: &TaskStreams, cgroup: &AttemptCgroup) -> io::Result<Child> {
    let cgroups = cgroup.fds()?;
    let program = ExecProgram::of(launch)?;
    let mut arrays = ExecArrays::of(&program);
    Child::fork(ForkOptions { cgroup: cgroups.begin(), separate: false }, |line, inside| {
        // SAFETY: we are the child, and exec or exit next.
        let failed = unsafe { become_program(&program, &mut arrays, ends, &cgroups, inside, line) };
        Err(failed.encode().to_vec())
    })
}

/// A program as C strings, and the attributes of its process.
struct ExecProgram<'a> {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    workdir: CString,
    user: Option<&'a User>,
    umask: Option<u32>,
    limits: &'a [(u32, u64, u64)],
}

impl<'a> ExecProgram<'a> {
    fn of(launch: &'a Launch) -> io::Result<Self> {
        let argv: Vec<CString> =
            launch.program.command.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<_, _>>()?;
        let Some(name) = launch.program.command.first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
        };
        let variables = &launch.program.env;
        let mut env = Vec::with_capacity(variables.len() + 1);
        for (name, value) in variables {
            env.push(c_string(format!("{name}={value}").as_bytes())?);
        }
        let mark = [ATTEMPT_DIR_VARIABLE.as_bytes(), b"=", launch.dir.as_os_str().as_bytes()].concat();
        env.push(c_string(&mark)?);
        Ok(Self {
            candidates: candidates(name, variables.get("PATH").map(String::as_str))?,
            argv,
            env,
            workdir: c_string(launch.workdir().as_os_str().as_bytes())?,
            user: launch.user.as_ref(),
            umask: launch.umask,
            limits: &launch.limits,
        })
    }
}

/// The null-terminated pointer arrays `execve` takes. They point into an [`ExecProgram`].
struct ExecArrays {
    candidates: Vec<*const libc::c_char>,
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    /// The arguments with which a shell runs a script without an interpreter line; the script's path is filled in later.
    shell: Vec<*const libc::c_char>,
}

impl ExecArrays {
    fn of(program: &ExecProgram<'_>) -> Self {
        let argv = pointers(&program.argv);
        let shell = [SHELL.as_ptr(), ptr::null()].into_iter().chain(argv[1..].iter().copied()).collect();
        Self { candidates: pointers(&program.candidates), argv, env: pointers(&program.env), shell }
    }
}

const SHELL: &std::ffi::CStr = c"/bin/sh";

/// The paths at which a program may be, in the order of `PATH`.
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

/// The step at which the child failed, and the error number.
#[derive(Clone, Copy)]
struct SetupFailure {
    step: SetupStep,
    errno: i32,
}

/// A step between fork and exec.
#[derive(Clone, Copy)]
#[repr(u8)]
enum SetupStep {
    Session,
    Streams,
    Limits,
    Cgroup,
    Groups,
    Identity,
    Workdir,
    Exec,
    /// The program exists, but not its interpreter or loader.
    Interpreter,
}

const SETUP_STEPS: [SetupStep; 9] = [
    SetupStep::Session,
    SetupStep::Streams,
    SetupStep::Limits,
    SetupStep::Cgroup,
    SetupStep::Groups,
    SetupStep::Identity,
    SetupStep::Workdir,
    SetupStep::Exec,
    SetupStep::Interpreter,
];

impl SetupFailure {
    fn encode(self) -> [u8; 5] {
        let [a, b, c, d] = self.errno.to_le_bytes();
        [self.step as u8, a, b, c, d]
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&step, errno) = bytes.split_first()?;
        let step = *SETUP_STEPS.get(usize::from(step))?;
        Some(Self { step, errno: i32::from_le_bytes(errno.try_into().ok()?) })
    }
}

/// The failure a child reported, as a message for people.
pub(super) fn explain(reason: &[u8], launch: &Launch) -> String {
    let Some(SetupFailure { step, errno }) = SetupFailure::decode(reason) else {
        return "the task's process could not be set up".into();
    };
    let error = io::Error::from_raw_os_error(errno);
    let what = match step {
        SetupStep::Workdir if errno == libc::ENOENT => {
            return format!("its working directory {} does not exist", launch.workdir().display());
        }
        SetupStep::Exec | SetupStep::Interpreter => return cannot_run(launch, step, &error),
        SetupStep::Session => "cannot make a session".to_owned(),
        SetupStep::Streams => "cannot connect the output".to_owned(),
        SetupStep::Limits => "cannot set the user's limits".to_owned(),
        SetupStep::Cgroup => "cannot enter its cgroup".to_owned(),
        SetupStep::Groups => "cannot set the user's groups".to_owned(),
        SetupStep::Identity => "cannot become the user".to_owned(),
        SetupStep::Workdir => format!("cannot enter its working directory {}", launch.workdir().display()),
    };
    format!("{what}: {error}")
}

/// Why a program cannot be executed, in the words of a shell.
fn cannot_run(launch: &Launch, step: SetupStep, error: &io::Error) -> String {
    let program = launch.program.command.first().map_or("", String::as_str);
    match error.raw_os_error() {
        _ if matches!(step, SetupStep::Interpreter) => {
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

fn failed(step: SetupStep) -> SetupFailure {
    SetupFailure { step, errno: errno() }
}

/// Returns only if it failed.
///
/// # Safety
/// To be called in the child only, with the arrays of the program.
unsafe fn become_program(
    program: &ExecProgram<'_>,
    arrays: &mut ExecArrays,
    ends: &TaskStreams,
    cgroups: &CgroupFds,
    inside: bool,
    line: &ReportSocket,
) -> SetupFailure {
    // SAFETY: plain system calls on descriptors and strings that the caller keeps alive.
    unsafe {
        if libc::setsid() < 0 {
            return failed(SetupStep::Session);
        }
        let connected = match ends {
            TaskStreams::Pipes { out, err } => {
                libc::dup2(out.as_raw_fd(), 1) >= 0 && libc::dup2(err.as_raw_fd(), 2) >= 0
            }
            TaskStreams::Terminal(end) => {
                let end = end.as_raw_fd();
                libc::ioctl(end, libc::TIOCSCTTY, 0) >= 0 && (0..3).all(|stream| libc::dup2(end, stream) >= 0)
            }
        };
        if !connected {
            return failed(SetupStep::Streams);
        }
    }
    // Before the change of identity, because the cgroups do not belong to the user.
    if !cgroups.join(inside) {
        return failed(SetupStep::Cgroup);
    }
    // Before the change of identity, because a user may not raise a limit above the worker's.
    for &limit in program.limits {
        if let Err(failed) = set_limit(limit, line) {
            return failed;
        }
    }
    match program.user.map(become_user) {
        None | Some(Ok(())) => {}
        Some(Err(IdentityError::Groups(errno))) => return SetupFailure { step: SetupStep::Groups, errno },
        Some(Err(IdentityError::Ids(errno))) => return SetupFailure { step: SetupStep::Identity, errno },
    }
    // SAFETY: as above.
    unsafe {
        if let Some(umask) = program.umask {
            libc::umask(umask);
        }
        // After the change of identity, so that the user's permissions apply.
        if libc::chdir(program.workdir.as_ptr()) < 0 {
            return failed(SetupStep::Workdir);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        exec_first(arrays)
    }
}

/// Sets a resource limit, soft and hard. A limit above this process's own hard limit is clamped to it where the process may
/// not raise that, as when the submitter's is higher than that of an unprivileged server.
fn set_limit((resource, soft, hard): (u32, u64, u64), line: &ReportSocket) -> Result<(), SetupFailure> {
    let prlimit = |new: *const libc::rlimit, old: *mut libc::rlimit| {
        // SAFETY: both are null or point to a structure that outlives the call; 0 is this process.
        unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, new, old) }
    };
    let wanted = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    if prlimit(&raw const wanted, ptr::null_mut()) >= 0 {
        return Ok(());
    }
    let refused = failed(SetupStep::Limits);
    let mut ours = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    if prlimit(ptr::null(), &raw mut ours) < 0 {
        return Err(refused);
    }
    let most = ours.rlim_max;
    let clamped = libc::rlimit { rlim_cur: soft.min(most), rlim_max: hard.min(most) };
    if prlimit(&raw const clamped, ptr::null_mut()) < 0 {
        return Err(refused);
    }
    // Formatted on the stack, because nothing may be allocated here.
    let mut text = [0; 160];
    let mut rest = &mut text[..];
    let name = limit_name(resource);
    let _cut_off =
        write!(rest, "the limit {name} is {most} here: the server may not set the caller's {hard}");
    let left = rest.len();
    line.note(&text[..text.len() - left]);
    Ok(())
}

/// Executes the first candidate that exists, as `execvp` does: one without permission is skipped, but decides the error.
///
/// # Safety
/// As for [`become_program`].
unsafe fn exec_first(arrays: &mut ExecArrays) -> SetupFailure {
    let mut worst = SetupFailure { step: SetupStep::Exec, errno: libc::ENOENT };
    // One path and its null: the program was not looked for in PATH.
    let is_named = arrays.candidates.len() == 2;
    for &path in arrays.candidates.iter().take_while(|path| !path.is_null()) {
        // SAFETY: the strings and the arrays, each ended by a null, are kept alive by the caller.
        unsafe { libc::execve(path, arrays.argv.as_ptr(), arrays.env.as_ptr()) };
        match errno() {
            // The kernel reports ENOENT also for a script whose interpreter does not exist.
            // SAFETY: as above.
            libc::ENOENT if unsafe { libc::access(path, libc::F_OK) } == 0 => {
                return SetupFailure { step: SetupStep::Interpreter, errno: libc::ENOENT };
            }
            libc::ENOENT | libc::ENOTDIR => {}
            // A directory of PATH that the user may not enter, such as one of another user's, says nothing about the program.
            // SAFETY: as above.
            libc::EACCES if !is_named && unsafe { libc::access(path, libc::F_OK) } != 0 => {}
            libc::EACCES => worst.errno = libc::EACCES,
            // A script without an interpreter line, which a shell would run itself.
            libc::ENOEXEC => {
                arrays.shell[1] = path;
                // SAFETY: as above.
                unsafe { libc::execve(SHELL.as_ptr(), arrays.shell.as_ptr(), arrays.env.as_ptr()) };
                return failed(SetupStep::Exec);
            }
            errno => return SetupFailure { errno, ..worst },
        }
    }
    worst
}
