//! Processes by `/proc`: references that survive the reuse of pids, process trees, and signals that reach the intended
//! process or none.
#![expect(unsafe_code, reason = "pidfds have no safe wrapper in our dependencies")]

use std::{
    collections::BTreeSet,
    fs, io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    sync::OnceLock,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};

use super::clock;

/// A reference to a process: its pid and a moment at which it was alive.
///
/// Pids are reused, but never while their process lives. So the process that has this pid now is the one that was referred to
/// exactly if it started no later than that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessRef {
    /// The process id.
    pub pid: i32,
    /// The moment, in microseconds since boot.
    pub seen_us: u64,
}

impl ProcessRef {
    /// Refers to a process known to be alive now: this one, or a child not yet reaped.
    pub fn now(pid: i32) -> Self {
        Self { pid, seen_us: clock::boot_us() }
    }

    /// Whether the process still exists and is no zombie.
    pub fn is_alive(self) -> bool {
        ProcessStat::read(self.pid).is_ok_and(|stat| stat.alive && stat.began_us <= self.seen_us)
    }

    /// The pids of the process and its descendants; empty if it is gone.
    pub fn process_tree(self) -> Vec<i32> {
        if !self.is_alive() {
            return Vec::new();
        }
        let below = descendants(self.pid).into_iter().map(|process| process.pid);
        std::iter::once(self.pid).chain(below).collect()
    }

    /// A pidfd of the process, which becomes readable when it ends; none if it is gone.
    pub fn pidfd(self) -> io::Result<Option<OwnedFd>> {
        // SAFETY: the call takes two integers and returns a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) };
        if fd < 0 {
            return gone_is_false(io::Error::last_os_error()).map(|_| None);
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let held = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // Checked after opening: the pidfd pins the process, so the answer stays true.
        Ok(self.is_alive().then_some(held))
    }

    /// Waits until the process is gone, however long that takes.
    pub fn wait(self) -> io::Result<()> {
        let Some(held) = self.pidfd()? else { return Ok(()) };
        loop {
            match poll(&mut [PollFd::new(held.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => {}
                waited => return waited.map(drop).map_err(Into::into),
            }
        }
    }

    /// Sends a signal to this process and no other; `false` if it is gone.
    pub fn signal(self, signal: i32) -> io::Result<bool> {
        signal_if(self.pid, signal, |stat| stat.began_us <= self.seen_us)
    }
}

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessStat {
    pub(super) parent: i32,
    pub(super) session: i32,
    pub(super) began_us: u64,
    /// Neither a zombie nor dead.
    pub(super) alive: bool,
    /// Stopped by a signal.
    pub(super) stopped: bool,
    /// In uninterruptible sleep.
    pub(super) in_kernel: bool,
}

impl ProcessStat {
    pub(super) fn read(pid: i32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The second field is the name in parentheses, which may itself contain parentheses and spaces.
        let after_name = text.iter().rposition(|&b| b == b')')? + 1;
        let rest = std::str::from_utf8(&text[after_name..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let state = *fields.first()?;
        let ticks: u64 = fields.get(19)?.parse().ok()?;
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            began_us: clock::of_the_machine(ticks * 1_000_000 / ticks_per_second()),
            alive: !matches!(state, "Z" | "X" | "x"),
            stopped: matches!(state, "T" | "t"),
            in_kernel: state == "D",
        })
    }
}

/// Whether a process ends on SIGHUP rather than SIGTERM, as an interactive shell does: it ignores SIGTERM, or handles
/// SIGHUP.
pub(super) fn ends_by_hanging_up(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let has = |field: &str, signal: i32| {
        let mask = status.lines().find_map(|line| line.strip_prefix(field));
        let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    };
    has("SigIgn:", libc::SIGTERM) || has("SigCgt:", libc::SIGHUP)
}

fn ticks_per_second() -> u64 {
    static TICKS: OnceLock<u64> = OnceLock::new();
    *TICKS.get_or_init(|| sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100, |ticks| ticks as u64))
}

/// The id of this boot of the machine; pids of another boot are meaningless.
pub(crate) fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    })
}

/// Sends `signal` to `pid` if `/proc` says that it is the intended process; `false` if not. A pidfd opened before the check
/// pins the process, so that the pid cannot be reused between check and signal.
pub(super) fn signal_if(pid: i32, signal: i32, meant: impl Fn(&ProcessStat) -> bool) -> io::Result<bool> {
    // SAFETY: the call takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return gone_is_false(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let held = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    match ProcessStat::read(pid) {
        Ok(stat) if meant(&stat) => {}
        _ => return Ok(false),
    }
    // SAFETY: the descriptor is open; no siginfo is passed.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            held.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if sent < 0 { gone_is_false(io::Error::last_os_error()) } else { Ok(true) }
}

fn gone_is_false(error: io::Error) -> io::Result<bool> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(false),
        _ => Err(error),
    }
}

/// The descendants of `root`, parents before children.
pub(super) fn descendants(root: i32) -> Vec<Descendant> {
    Tree::below(root).list()
}

/// Maximum number of walks through a process tree for one operation.
const WALKS: usize = 16;

/// The processes of a task: the supervisor's descendants, except for those that work for the supervisor.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: i32,
    excluded: Vec<i32>,
}

impl Tree {
    pub(super) fn below(root: i32) -> Self {
        Self { root, excluded: Vec::new() }
    }

    /// Excludes a child that works for the supervisor.
    pub(super) fn exclude(&mut self, pid: i32) {
        self.excluded.push(pid);
    }

    /// Lists them in one walk, parents before children.
    pub(super) fn list(&self) -> Vec<Descendant> {
        let mut found = Vec::new();
        let mut queue = vec![self.root];
        while let Some(parent) = queue.pop() {
            for pid in children(parent).into_iter().filter(|pid| !self.excluded.contains(pid)) {
                found.push(Descendant { pid, parent });
                queue.push(pid);
            }
        }
        found
    }

    /// Calls `reach` once for each, walking again until no new one appears, [`WALKS`] times at most.
    ///
    /// A list of children read while they come and go may miss some, so one walk is not enough; but a fork bomb must not
    /// keep its supervisor from everything else.
    pub(super) fn each(&self, mut reach: impl FnMut(Descendant)) -> usize {
        let mut reached = BTreeSet::new();
        for _ in 0..WALKS {
            let before = reached.len();
            for descendant in self.list() {
                if reached.insert(descendant.pid) {
                    reach(descendant);
                }
            }
            if reached.len() == before {
                break;
            }
        }
        reached.len()
    }

    /// Sends a signal to all of them.
    pub(super) fn signal(&self, signal: i32) {
        self.each(|process| {
            let _gone = self.signal_one(process, signal);
        });
    }

    /// Sends a signal to one of them, unless its pid was reused.
    pub(super) fn signal_one(&self, process: Descendant, signal: i32) -> io::Result<bool> {
        process.signal(self.root, signal)
    }
}

/// A descendant of a supervisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descendant {
    pub(super) pid: i32,
    pub(super) parent: i32,
}

impl Descendant {
    /// Sends a signal unless the pid was reused by a process that does not descend from `root`.
    pub(super) fn signal(self, root: i32, signal: i32) -> io::Result<bool> {
        // An orphan is re-parented to the root, which is a subreaper.
        signal_if(self.pid, signal, |stat| stat.parent == self.parent || stat.parent == root)
    }
}

fn children(parent: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let mut pids = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => pids.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            // Either the thread is gone, or this kernel is built without lists of children.
            Err(_) if !kernel_lists_children() => return children_by_scan(parent),
            Err(_) => {}
        }
    }
    pids
}

fn kernel_lists_children() -> bool {
    static LISTS: OnceLock<bool> = OnceLock::new();
    *LISTS.get_or_init(|| fs::exists("/proc/thread-self/children").unwrap_or(false))
}

fn children_by_scan(parent: i32) -> Vec<i32> {
    all_pids()
        .into_iter()
        .filter(|&pid| ProcessStat::read(pid).is_ok_and(|stat| stat.parent == parent))
        .collect()
}

/// The pids of all processes.
pub(super) fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn a_sighting_means_the_process_that_was_alive_then_and_no_later_one() {
        let seen = ProcessRef::now(us());
        assert!(seen.is_alive());
        assert!(seen.signal(0).unwrap());
        // The same pid, seen at a time when this process had not begun: somebody else's, long gone.
        let earlier = ProcessRef { pid: us(), seen_us: 0 };
        assert!(!earlier.is_alive());
        assert!(!earlier.signal(libc::SIGKILL).unwrap());
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = b"42 (a) b) c) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1234 5 6";
        let stat = ProcessStat::parse(stat).unwrap();
        assert_eq!((stat.parent, stat.session, stat.alive, stat.stopped), (7, 41, true, false));
        assert_eq!(stat.began_us, 1234 * 1_000_000 / ticks_per_second());
    }

    #[test]
    fn children_and_grandchildren_are_found_and_both_ways_agree() {
        // The shell waits for its child, so both stay until the pipe is closed.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "(echo ready; read line; exit 0) <&0; exit 0"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let root = shell.id() as i32;
        let below = descendants(root);
        assert_eq!(below.len(), 1, "{below:?}");
        assert_eq!(below[0].parent, root);
        assert_eq!(children_by_scan(root), vec![below[0].pid]);
        assert_eq!(Tree::below(us()).each(|_| {}), descendants(us()).len());
        let mut excluded = Tree::below(us());
        excluded.exclude(root);
        assert!(excluded.list().iter().all(|process| process.pid != root && process.parent != root));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
