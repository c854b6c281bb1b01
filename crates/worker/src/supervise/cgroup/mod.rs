//! Cgroups: where a worker can create them, and those that contain one attempt. They limit processes, main memory, CPU time
//! and access to device nodes, and kill all processes of an attempt at once. In the unified hierarchy (v2) an attempt has one
//! cgroup with several controllers, in the v1 hierarchies one for each. Freezing is in `freeze`.

mod device_filter;
mod parent;

pub use parent::{Bounds, CgroupParent, Hierarchy, SUBGROUP};

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::{Deserialize, Serialize};

use super::{clock, process::ProcessRef};

/// The period over which CPU time is limited.
const CPU_PERIOD_US: u64 = 100_000;
/// The smallest quota the kernel accepts.
const LEAST_CPU_QUOTA_US: u64 = 1_000;

/// Interval between two rounds of killing a cgroup's processes.
const KILLING: Duration = Duration::from_millis(5);

/// A limit, and the cgroup below which the attempt's own is created to enforce it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimit {
    /// The parent of the attempt's cgroup.
    pub parent: CgroupParent,
    /// The limit.
    pub limit: Limit,
}

/// A limit that a cgroup enforces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Processes and threads.
    Processes(u64),
    /// Bytes of main memory. Swap does not add to it where the kernel accounts for swap.
    Memory(u64),
    /// Thousandths of a processor.
    Cpu(u32),
    /// Device nodes that cannot be opened.
    Devices(Vec<DeviceNode>),
}

impl Limit {
    /// Whether the attempt runs even if no cgroup enforces the limit: processes are counted then.
    fn is_optional(&self) -> bool {
        matches!(self, Limit::Processes(_))
    }

    fn noun(&self) -> &'static str {
        match self {
            Limit::Processes(_) => "processes",
            Limit::Memory(_) => "memory",
            Limit::Cpu(_) => "CPU time",
            Limit::Devices(_) => "device access",
        }
    }
}

/// A character device by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceNode {
    /// The driver's number.
    pub major: u32,
    /// The driver's number for the device.
    pub minor: u32,
}

/// The cgroups that contain one attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptCgroup {
    dirs: Vec<CgroupDir>,
    counts_processes: bool,
}

#[derive(Debug)]
struct CgroupDir {
    hierarchy: Hierarchy,
    path: PathBuf,
}

impl AttemptCgroup {
    /// Creates the cgroups that enforce `limits`, one in each hierarchy that is needed.
    pub(crate) fn make(limits: &[CgroupLimit], name: &str) -> io::Result<Self> {
        let mut made = Self::default();
        for CgroupLimit { parent, limit } in limits {
            match made.add(parent, limit, name) {
                Ok(()) => made.counts_processes |= matches!(limit, Limit::Processes(_)),
                Err(_) if limit.is_optional() => {}
                Err(e) => {
                    made.remove();
                    return Err(io::Error::new(e.kind(), format!("cannot limit {}: {e}", limit.noun())));
                }
            }
        }
        Ok(made)
    }

    fn add(&mut self, parent: &CgroupParent, limit: &Limit, name: &str) -> io::Result<()> {
        let path = parent.parent.join(format!("warpyard-{name}"));
        let known = self.dirs.iter().any(|dir| dir.path == path);
        if !known {
            fs::create_dir(&path)?;
        }
        let dir = CgroupDir { hierarchy: parent.hierarchy, path };
        let limited = dir.apply(&parent.parent, limit);
        match (known, &limited) {
            (false, Ok(())) => self.dirs.push(dir),
            (false, Err(_)) => dir.remove(),
            (true, _) => {}
        }
        limited
    }

    /// Whether a cgroup limits the number of processes.
    pub(super) fn counts_processes(&self) -> bool {
        self.counts_processes
    }

    /// The cgroup in the unified hierarchy.
    pub(super) fn unified(&self) -> Option<&Path> {
        self.dirs.iter().find(|dir| dir.hierarchy == Hierarchy::Unified).map(|dir| dir.path.as_path())
    }

    /// The cgroups' directories.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|dir| dir.path.as_path())
    }

    /// The descriptors by which a child joins the cgroups.
    pub(crate) fn fds(&self) -> io::Result<CgroupFds> {
        let mut fds = CgroupFds::default();
        for dir in &self.dirs {
            let procs = OpenOptions::new().write(true).open(dir.path.join("cgroup.procs"))?;
            match dir.hierarchy {
                Hierarchy::Unified => fds.begin = Some((File::open(&dir.path)?, procs)),
                _ => fds.join.push(procs),
            }
        }
        Ok(fds)
    }

    /// Kills every process inside where the kernel supports that (v2), else forbids new processes (v1).
    pub(super) fn kill(&self) {
        for dir in &self.dirs {
            let _best_effort = match dir.hierarchy {
                Hierarchy::Unified => fs::write(dir.path.join("cgroup.kill"), "1"),
                Hierarchy::Pids => fs::write(dir.path.join("pids.max"), "0"),
                Hierarchy::Memory | Hierarchy::Cpu | Hierarchy::Devices => Ok(()),
            };
        }
    }

    /// Kills every process inside, in at most `most` rounds: one that hangs in the kernel is left.
    pub(crate) fn kill_all(&self, most: u32) {
        for _ in 0..most {
            self.kill();
            // Taken before the list is read, so that a process which reuses a listed pid later is not signalled.
            let seen_us = clock::boot_us();
            let left: BTreeSet<i32> = self.dirs.iter().flat_map(CgroupDir::processes).collect();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _gone = ProcessRef { pid, seen_us }.signal(libc::SIGKILL);
            }
            thread::sleep(KILLING);
        }
    }

    /// How often a new process or thread was refused because of `pids.max`.
    pub(super) fn refused_processes(&self) -> u64 {
        self.counter("pids.events", "max ")
    }

    /// How many processes were killed because the memory limit was reached.
    pub(super) fn oom_kills(&self) -> u64 {
        self.counter("memory.events", "oom_kill ").max(self.counter("memory.oom_control", "oom_kill "))
    }

    /// A descriptor that becomes readable when the memory limit is reached (v1). The unified hierarchy needs none: the kernel
    /// kills the whole cgroup there, which the supervisor sees by the exits.
    pub(super) fn oom_event(&self) -> Option<EventFd> {
        let dir = self.dirs.iter().find(|dir| dir.hierarchy == Hierarchy::Memory)?;
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).ok()?;
        let control = File::open(dir.path.join("memory.oom_control")).ok()?;
        let pair = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
        fs::write(dir.path.join("cgroup.event_control"), pair).ok()?;
        Some(event)
    }

    fn counter(&self, file: &str, name: &str) -> u64 {
        let of = |dir: &CgroupDir| {
            let text = fs::read_to_string(dir.path.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok())
        };
        self.dirs.iter().filter_map(of).max().unwrap_or(0)
    }

    pub(crate) fn remove(&self) {
        self.dirs.iter().for_each(CgroupDir::remove);
    }
}

impl CgroupDir {
    fn apply(&self, parent: &Path, limit: &Limit) -> io::Result<()> {
        match (limit, self.hierarchy) {
            (Limit::Processes(most), _) => {
                self.enable(parent, "pids", "pids.max")?;
                self.set("pids.max", *most)
            }
            (Limit::Memory(bytes), Hierarchy::Unified) => {
                self.enable(parent, "memory", "memory.max")?;
                self.set("memory.max", bytes)?;
                // Absent without swap accounting, or in old kernels.
                let _swap_adds = self.set("memory.swap.max", 0);
                let _one_process_dies = self.set("memory.oom.group", 1);
                Ok(())
            }
            (Limit::Memory(bytes), _) => {
                self.set("memory.limit_in_bytes", bytes)?;
                let _swap_adds = self.set("memory.memsw.limit_in_bytes", bytes);
                Ok(())
            }
            (Limit::Cpu(millis), hierarchy) => {
                let quota = (u64::from(*millis) * CPU_PERIOD_US / 1000).max(LEAST_CPU_QUOTA_US);
                if hierarchy == Hierarchy::Unified {
                    self.enable(parent, "cpu", "cpu.max")?;
                    return self.set("cpu.max", format_args!("{quota} {CPU_PERIOD_US}"));
                }
                self.set("cpu.cfs_period_us", CPU_PERIOD_US)?;
                match self.set("cpu.cfs_quota_us", quota) {
                    // Above the quota of an ancestor, which then is the effective limit.
                    Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
                    set => set,
                }
            }
            (Limit::Devices(denied), Hierarchy::Unified) => device_filter::attach(&self.path, denied),
            (Limit::Devices(denied), _) => denied.iter().try_for_each(|DeviceNode { major, minor }| {
                self.set("devices.deny", format_args!("c {major}:{minor} rwm"))
            }),
        }
    }

    /// Enables a controller for the parent's children (`cgroup.subtree_control`), if this is the unified hierarchy and it is not
    /// enabled yet.
    fn enable(&self, parent: &Path, controller: &str, file: &str) -> io::Result<()> {
        if self.hierarchy == Hierarchy::Unified && !self.path.join(file).exists() {
            fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
        Ok(())
    }

    fn set(&self, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
        let path = self.path.join(file);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        fs::write(&path, value.to_string()).map_err(named)
    }

    fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn remove(&self) {
        let _left_for_the_next_boot = fs::remove_dir(&self.path);
    }
}

/// Open descriptors by which a child joins the attempt's cgroups before it changes its identity.
#[derive(Debug, Default)]
pub(crate) struct CgroupFds {
    /// The directory of the unified cgroup, in which a process can be created (`CLONE_INTO_CGROUP`), and its `cgroup.procs` for
    /// kernels that do not support that.
    begin: Option<(File, File)>,
    /// `cgroup.procs` of each v1 cgroup.
    join: Vec<File>,
}

impl CgroupFds {
    /// The directory of the cgroup to create the child in.
    pub(super) fn begin(&self) -> Option<i32> {
        self.begin.as_ref().map(|(dir, _)| dir.as_raw_fd())
    }

    /// Moves the calling process into the cgroups; `begun` if it was created in the unified one. On failure `errno` is set.
    /// Allocates nothing, so that a child may call it between fork and exec.
    pub(crate) fn join(&self, begun: bool) -> bool {
        let unified = self.begin.iter().filter(|_| !begun).map(|(_, procs)| procs);
        // SAFETY: writes one byte of a constant to descriptors that are open.
        #[expect(
            unsafe_code,
            reason = "nothing of the standard library is promised to work between clone and exec"
        )]
        unified
            .chain(&self.join)
            .all(|procs| unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory stands for the unified mount: what is written where is seen, not what the kernel makes of it.
    #[test]
    fn limits_of_the_unified_hierarchy_are_written_to_one_cgroup() {
        let mount = tempfile::tempdir().unwrap();
        let parent = CgroupParent { hierarchy: Hierarchy::Unified, parent: mount.path().into() };
        let limits = [Limit::Processes(100), Limit::Memory(50 << 20), Limit::Cpu(1500)];
        let limits = limits.map(|limit| CgroupLimit { parent: parent.clone(), limit });
        let made = AttemptCgroup::make(&limits, "1.0.0.1-7").unwrap();
        assert_eq!(made.paths().collect::<Vec<_>>(), [mount.path().join("warpyard-1.0.0.1-7")]);
        let read =
            |file: &str| fs::read_to_string(mount.path().join("warpyard-1.0.0.1-7").join(file)).unwrap();
        assert_eq!(read("memory.max"), (50 << 20).to_string());
        assert_eq!((read("memory.swap.max").as_str(), read("memory.oom.group").as_str()), ("0", "1"));
        assert_eq!((read("cpu.max").as_str(), read("pids.max").as_str()), ("150000 100000", "100"));
        let enabled = fs::read_to_string(mount.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(enabled, "+cpu", "the last that was enabled");
        assert!(made.counts_processes() && made.oom_kills() == 0);
        let events = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n";
        fs::write(mount.path().join("warpyard-1.0.0.1-7/memory.events"), events).unwrap();
        assert_eq!(made.oom_kills(), 3);
    }

    #[test]
    fn a_limit_that_cannot_be_enforced_is_an_error_and_leaves_nothing() {
        let mount = tempfile::tempdir().unwrap();
        let there = CgroupParent { hierarchy: Hierarchy::Unified, parent: mount.path().into() };
        let nowhere = CgroupParent { hierarchy: Hierarchy::Memory, parent: mount.path().join("not-there") };
        let processes =
            |parent: &CgroupParent| CgroupLimit { parent: parent.clone(), limit: Limit::Processes(9) };
        let memory = CgroupLimit { parent: nowhere.clone(), limit: Limit::Memory(1 << 20) };
        let error = AttemptCgroup::make(&[memory], "a").unwrap_err();
        assert!(error.to_string().starts_with("cannot limit memory: "), "{error}");
        let made = AttemptCgroup::make(&[processes(&nowhere)], "b").unwrap();
        assert!(!made.counts_processes(), "processes are counted instead");
        assert!(AttemptCgroup::make(&[processes(&there)], "c").unwrap().counts_processes());
    }
}
