//! The login environment of a user: the variables their login shell sets, captured by running it as them. The shell is
//! the user's own program and may do anything, so it runs in a session of its own, with the user's rights only, is read up
//! to a limit and killed after a while. Where cgroups can be made it runs in one, like a task: without GPUs, and nothing its
//! start-up files leave running survives it. Where it gives nothing, a minimal environment takes its place.

use crate::accounts::{Account, DEFAULT_PATH, own_uid};
use crate::supervise::{AttemptCgroup, CgroupFds, CgroupLimit};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Gid, Pid, Uid};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum size of a shell's output.
const MOST_BYTES: usize = 1 << 20;

/// Rounds of killing what a shell leaves behind: about a second.
const KILL_ROUNDS: u32 = 200;

/// Variables that describe the shell that was run, not the user.
const OF_THE_SHELL: [&str; 6] = ["_", "PWD", "OLDPWD", "SHLVL", "TERM", "WARPYARD_TOKEN"];

/// The environment of a user's login, or a minimal one in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginEnvironment {
    /// The variables.
    pub variables: BTreeMap<String, String>,
    /// Why it is the minimal one; none if it is the login shell's.
    pub minimal_because: Option<String>,
}

impl LoginEnvironment {
    /// Captures the login environment of a user by running their shell for at most `within`, under `limits`. Blocks longer if
    /// the shell or the home directory is on a file system that does not answer, so it needs a thread of its own.
    pub fn capture(person: &Account, within: Duration, limits: &[CgroupLimit]) -> LoginEnvironment {
        match run_shell(person, within, limits) {
            Ok(variables) => LoginEnvironment { variables, minimal_because: None },
            Err(e) => {
                LoginEnvironment::minimal(person, format!("the login shell {}: {e}", person.shell.display()))
            }
        }
    }

    /// The variables of every login: `HOME`, `LOGNAME`, `PATH`, `SHELL` and `USER`.
    pub fn minimal(person: &Account, because: String) -> LoginEnvironment {
        LoginEnvironment { variables: basics(person), minimal_because: Some(because) }
    }
}

fn basics(person: &Account) -> BTreeMap<String, String> {
    let mut variables = person.login_environment();
    variables.insert("PATH".into(), DEFAULT_PATH.into());
    variables
}

fn run_shell(
    person: &Account,
    within: Duration,
    limits: &[CgroupLimit],
) -> io::Result<BTreeMap<String, String>> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // A cgroup's name ends with its creator's pid, by which a later server recognises one to remove.
    let cgroup = AttemptCgroup::make(limits, &format!("login-{number}-{}", std::process::id()))?;
    let variables = run_inside(person, within, &cgroup);
    cgroup.kill_all(KILL_ROUNDS);
    cgroup.remove();
    variables
}

fn run_inside(
    person: &Account,
    within: Duration,
    cgroup: &AttemptCgroup,
) -> io::Result<BTreeMap<String, String>> {
    let until = Instant::now() + within;
    // Output of start-up files comes before the first mark; a process they leave behind may print after the second.
    let mark = format!("warpyard-environment-{}", std::process::id());
    let script = format!("cd; echo {mark}; env -0; echo {mark}");
    let mut child = shell(person, &script, cgroup.fds()?).spawn()?;
    let session = child.id();
    let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let printed = read_until(out, format!("\0{mark}\n").as_bytes(), until);
    end_session(child, session);
    let printed = printed.map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => {
            let said = format!("it printed no environment within {} s", within.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, said)
        }
        _ => e,
    })?;
    parse(&printed, &mark).ok_or_else(|| io::Error::other("it printed no environment"))
}

/// Reads a shell's output up to a mark or its end, until `until` at the latest. A process it leaves in another session may hold
/// the pipe open for ever and print a byte at a time, so each byte is searched once and the deadline is checked before each
/// read.
fn read_until(mut out: ChildStdout, mark: &[u8], until: Instant) -> io::Result<Vec<u8>> {
    let (mut printed, mut chunk) = (Vec::new(), [0; 8192]);
    while printed.len() < MOST_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLIN)], wait) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::EINTR) => continue,
            ready => drop(ready?),
        }
        let count = out.read(&mut chunk)?;
        let seen = printed.len().saturating_sub(mark.len());
        printed.extend_from_slice(&chunk[..count]);
        if count == 0 || printed[seen..].windows(mark.len()).any(|window| window == mark) {
            return Ok(printed);
        }
    }
    Err(io::Error::other("it printed too much"))
}

/// The command of a login shell: run as its user with their groups, in a session of its own.
fn shell(person: &Account, script: &str, cgroups: CgroupFds) -> Command {
    let name = person.shell.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut command = Command::new(&person.shell);
    // A dash before its name makes any shell a login shell.
    command.arg0(format!("-{name}")).args(["-c", script]);
    command.env_clear().envs(basics(person)).env("TERM", "dumb").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let becomes = (person.uid != own_uid()).then(|| {
        let groups: Vec<Gid> = person.groups.iter().copied().map(Gid::from_raw).collect();
        (groups, Gid::from_raw(person.gid), Uid::from_raw(person.uid))
    });
    let become_user = move || {
        nix::unistd::setsid()?;
        // Before the change of identity, because the cgroups do not belong to the user.
        if !cgroups.join(false) {
            return Err(io::Error::last_os_error());
        }
        if let Some((groups, gid, uid)) = &becomes {
            nix::unistd::setgroups(groups)?;
            nix::unistd::setresgid(*gid, *gid, *gid)?;
            nix::unistd::setresuid(*uid, *uid, *uid)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, on values that were allocated before.
    #[expect(
        unsafe_code,
        reason = "a process is set up: it becomes its user before it runs anything of theirs"
    )]
    unsafe {
        command.pre_exec(become_user);
    }
    command
}

/// Kills a shell's process group and reaps the shell on another thread, because one that hangs in the kernel does not die at
/// once.
fn end_session(mut child: Child, session: u32) {
    let _gone_already = i32::try_from(session).map(|pid| killpg(Pid::from_raw(pid), Signal::SIGKILL));
    let wait = move || {
        let _status = child.wait();
    };
    let _no_thread = thread::Builder::new().name("login-shell".into()).spawn(wait);
}

/// The variables between two marks.
fn parse(printed: &[u8], mark: &str) -> Option<BTreeMap<String, String>> {
    let first = format!("{mark}\n").into_bytes();
    let start = printed.windows(first.len()).position(|window| window == first)? + first.len();
    let rest = &printed[start..];
    let end = rest.windows(first.len() + 1).position(|w| w[0] == 0 && w[1..] == first)?;
    let variable = |text: &[u8]| {
        let (name, value) = std::str::from_utf8(text).ok()?.split_once('=')?;
        let wanted = !name.is_empty() && !OF_THE_SHELL.contains(&name) && !name.starts_with("BASH_FUNC_");
        wanted.then(|| (name.to_owned(), value.to_owned()))
    };
    Some(rest[..end].split(|&byte| byte == 0).filter_map(variable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn person(home: &Path, shell: &str) -> Account {
        let own = Account::by_uid(own_uid()).expect("accounts").expect("whoever tests has one");
        Account { home: home.to_owned(), shell: shell.into(), ..own }
    }

    #[test]
    fn it_is_what_the_login_shell_sets() {
        let home = tempfile::tempdir().expect("a directory");
        let profile = "echo a banner; export LAB=vision PATH=/opt/lab/bin:$PATH\nexport LINES_OF='one\ntwo'\nsleep 600 &\n";
        std::fs::write(home.path().join(".profile"), profile).expect("written");
        let found = LoginEnvironment::capture(&person(home.path(), "/bin/sh"), Duration::from_secs(60), &[]);
        assert_eq!(found.minimal_because, None);
        let variables = found.variables;
        assert_eq!((&*variables["LAB"], &*variables["LINES_OF"]), ("vision", "one\ntwo"));
        assert!(variables["PATH"].starts_with("/opt/lab/bin:"), "{variables:?}");
        assert_eq!(variables["HOME"], home.path().to_string_lossy());
        assert!(!variables.contains_key("PWD") && !variables.contains_key("SHLVL"), "{variables:?}");
    }

    #[test]
    fn a_shell_that_gives_nothing_leaves_the_minimum() {
        let home = tempfile::tempdir().expect("a directory");
        let hangs = home.path().join("hangs");
        std::fs::write(&hangs, "#!/bin/sh\necho $$ > pid; exec sleep 600\n").expect("written");
        std::fs::set_permissions(&hangs, std::fs::Permissions::from_mode(0o755))
            .expect("its rights can be set");
        for shell in [hangs.to_str().expect("text"), "/bin/false", "/no/such/shell"] {
            let person = person(home.path(), shell);
            let found = LoginEnvironment::capture(&person, Duration::from_millis(200), &[]);
            assert!(found.minimal_because.is_some_and(|why| why.contains(shell)), "{shell}");
            let names: Vec<&str> = found.variables.keys().map(String::as_str).collect();
            assert_eq!(names, ["HOME", "LOGNAME", "PATH", "SHELL", "USER"]);
        }
    }

    #[test]
    fn nobody_goes_on_listening_to_what_a_shell_leaves_behind() {
        let home = tempfile::tempdir().expect("a directory");
        let (shell, left) = (home.path().join("shell"), home.path().join("left"));
        let prints = format!("echo $$ > {}; while printf x; do sleep 0.01; done", left.display());
        let script = format!("#!/bin/sh\nsetsid sh -c '{prints}' &\nexec sleep 600\n");
        std::fs::write(&shell, script).expect("written");
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755))
            .expect("its rights can be set");
        let person = person(home.path(), shell.to_str().expect("text"));
        let found = LoginEnvironment::capture(&person, Duration::from_secs(1), &[]);
        assert!(found.minimal_because.is_some_and(|why| why.contains("within 1 s")));
        // It ends when nobody is there to read.
        let pid = std::fs::read_to_string(&left).expect("it began").trim().to_owned();
        let until = Instant::now() + Duration::from_secs(60);
        while Path::new("/proc").join(&pid).exists() {
            assert!(Instant::now() < until, "process {pid} still has someone to print for");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
