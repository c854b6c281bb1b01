//! Freezing every process of an attempt in place, and thawing them: by a cgroup made at that moment, so that a task
//! that is never frozen pays nothing, or by signals where no cgroup can be made.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::process::{Descendant, ProcessStat, Tree};

/// A method of freezing processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Freezer {
    /// `cgroup.freeze` of the unified hierarchy.
    Cgroup2,
    /// The freezer controller of the old hierarchies.
    Cgroup1,
    /// SIGSTOP to each process. They can tell, and a parent that waits for stopped children is told.
    Signals,
}

impl Freezer {
    /// Every method, the best first.
    pub fn all() -> Vec<Self> {
        vec![Self::Cgroup2, Self::Cgroup1, Self::Signals]
    }

    fn control(self) -> FreezeControl {
        match self {
            Self::Cgroup1 => FreezeControl { file: "freezer.state", on: "FROZEN", off: "THAWED" },
            _ => FreezeControl { file: "cgroup.freeze", on: "1", off: "0" },
        }
    }
}

/// The control file that freezes a cgroup, and the values to write to it.
struct FreezeControl {
    file: &'static str,
    on: &'static str,
    off: &'static str,
}

/// How the processes of one attempt are frozen.
#[derive(Debug)]
pub(super) struct FreezeState {
    name: String,
    methods: Vec<Freezer>,
    group: Option<FreezerCgroup>,
    /// Cgroups that turned out not to work but contain processes already.
    abandoned: Vec<FreezerCgroup>,
}

#[derive(Debug)]
struct FreezerCgroup {
    method: Freezer,
    path: PathBuf,
}

impl FreezeState {
    /// Nothing is frozen yet. `unified` is the cgroup the processes may already be in, which then needs no other.
    pub(super) fn new(root: i32, key: &str, methods: &[Freezer], unified: Option<&Path>) -> Self {
        let key: String = key.chars().map(|c| if c.is_alphanumeric() { c } else { '.' }).collect();
        let inside = unified.filter(|_| methods.first() == Some(&Freezer::Cgroup2));
        let group = inside.map(|path| FreezerCgroup { method: Freezer::Cgroup2, path: path.into() });
        let methods = methods.iter().rev().copied().collect();
        Self { name: format!("warpyard-{key}-{root}"), methods, group, abandoned: Vec::new() }
    }

    /// Creates the freezer's cgroup by the best method left, which is the last in `methods`.
    pub(super) fn prepare(&mut self) {
        while self.group.is_none()
            && let Some(&method) = self.methods.last()
            && method != Freezer::Signals
        {
            match FreezerCgroup::make(method, &self.name) {
                Ok(group) => self.group = Some(group),
                Err(_) => drop(self.methods.pop()),
            }
        }
    }

    /// The cgroup's directory, recorded for cleaning up after a killed supervisor.
    pub(super) fn group(&self) -> Option<&Path> {
        self.group.as_ref().map(|group| group.path.as_path())
    }

    /// Freezes what can be frozen now; `true` once every process is frozen.
    pub(super) fn freeze(&mut self, tree: &Tree) -> bool {
        self.prepare();
        let Some(group) = &self.group else { return stop_all(tree) };
        match group.freeze(tree) {
            Ok(frozen) => frozen,
            Err(_) => {
                // This method does not work here after all: undone, and the next one is tried at the next call.
                let _best_effort = group.thaw();
                self.abandoned.extend(self.group.take());
                self.methods.pop();
                false
            }
        }
    }

    pub(super) fn thaw(&self, tree: &Tree) {
        let thawed = self.group.as_ref().map(FreezerCgroup::thaw);
        if !matches!(thawed, Some(Ok(()))) {
            tree.signal(libc::SIGCONT);
        }
    }

    /// Removes the cgroups once their processes are gone.
    pub(super) fn remove(&mut self) {
        for group in self.abandoned.drain(..).chain(self.group.take()) {
            let _left_for_the_next_boot = fs::remove_dir(&group.path);
        }
    }
}

impl FreezerCgroup {
    fn make(method: Freezer, name: &str) -> io::Result<Self> {
        let path = own_group((method == Freezer::Cgroup1).then_some("freezer"))?.join(name);
        match fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let group = Self { method, path };
        if let Err(e) = group.thaw() {
            fs::remove_dir(&group.path)?;
            return Err(e);
        }
        Ok(group)
    }

    fn freeze(&self, tree: &Tree) -> io::Result<bool> {
        let control = self.method.control();
        // Frozen first: a process moved into a frozen cgroup stops at once and cannot fork.
        fs::write(self.path.join(control.file), control.on)?;
        let members = self.members()?;
        let mut failed = None;
        tree.each(|Descendant { pid, .. }| {
            if !members.contains(&pid) {
                match fs::write(self.path.join("cgroup.procs"), pid.to_string()) {
                    Err(e) if e.raw_os_error() != Some(libc::ESRCH) => failed = Some(e),
                    _ => {}
                }
            }
        });
        failed.map_or(Ok(()), Err)?;
        if !self.is_frozen()? {
            return Ok(false);
        }
        let members = self.members()?;
        let mut complete = true;
        tree.each(|Descendant { pid, .. }| complete &= members.contains(&pid) || !is_alive(pid));
        Ok(complete)
    }

    fn thaw(&self) -> io::Result<()> {
        let control = self.method.control();
        fs::write(self.path.join(control.file), control.off)
    }

    fn is_frozen(&self) -> io::Result<bool> {
        Ok(match self.method {
            Freezer::Cgroup1 => fs::read_to_string(self.path.join("freezer.state"))?.trim() == "FROZEN",
            _ => fs::read_to_string(self.path.join("cgroup.events"))?.lines().any(|line| line == "frozen 1"),
        })
    }

    fn members(&self) -> io::Result<BTreeSet<i32>> {
        let text = fs::read_to_string(self.path.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|pid| pid.parse().ok()).collect())
    }
}

/// Kills the processes in a cgroup whose supervisor was killed, where the cgroup can do that, and thaws it, without which they
/// would not die; returns those still in it. An empty cgroup is removed.
pub(super) fn end_orphans(group: &Path) -> Vec<i32> {
    // The unified hierarchy kills all at once. In v1, a `pids.max` of 0 at least keeps them from forking.
    for (file, value) in [("cgroup.kill", "1"), ("pids.max", "0")] {
        if group.join(file).exists() {
            let _best_effort = fs::write(group.join(file), value);
        }
    }
    for method in [Freezer::Cgroup2, Freezer::Cgroup1] {
        let FreezeControl { file, off, .. } = method.control();
        if group.join(file).exists() {
            let _best_effort = fs::write(group.join(file), off);
        }
    }
    let Ok(text) = fs::read_to_string(group.join("cgroup.procs")) else { return Vec::new() };
    let members: Vec<i32> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
    if members.is_empty() {
        let _in_use_a_little_longer = fs::remove_dir(group);
    }
    members
}

fn stop_all(tree: &Tree) -> bool {
    let mut all_stopped = true;
    tree.each(|process| {
        let Ok(stat) = ProcessStat::read(process.pid) else { return };
        if stat.alive && !stat.stopped {
            let _gone = tree.signal_one(process, libc::SIGSTOP);
            // A process in uninterruptible sleep handles the signal before it executes another instruction, so it counts as
            // stopped; the parent of a `vfork` sleeps so for as long as its stopped child does.
            all_stopped &= stat.in_kernel;
        }
    });
    all_stopped
}

fn is_alive(pid: i32) -> bool {
    ProcessStat::read(pid).is_ok_and(|stat| stat.alive)
}

/// The directory of this process's cgroup, in the v1 hierarchy of a controller or else the unified one.
pub(super) fn own_group(controller: Option<&str>) -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    find_group(controller, &mounts, &groups).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn find_group(controller: Option<&str>, mounts: &str, groups: &str) -> Option<PathBuf> {
    let has = |list: &str, wanted| list.split(',').any(|one| one == wanted);
    let (root, mount_point) = mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut filesystem = filesystem.split(' ');
        let kind = filesystem.next()?;
        let options = filesystem.nth(1)?;
        let matches = match controller {
            None => kind == "cgroup2",
            Some(controller) => kind == "cgroup" && has(options, controller),
        };
        let mut mount = mount.split(' ').skip(3);
        matches.then_some((mount.next()?, mount.next()?))
    })?;
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let matches = controller.map_or(controllers.is_empty(), |controller| has(controllers, controller));
        matches.then_some(path)
    })?;
    // In a container the mount shows a sub-tree, while `/proc/self/cgroup` names the cgroup from the root of the whole tree,
    // or from that of a cgroup namespace.
    let below_mount = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
    Some(Path::new(mount_point).join(below_mount))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 20 0:26 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
31 20 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
32 20 0:28 / /sys/fs/cgroup/unified rw,relatime shared:6 - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn our_group_is_found_in_each_hierarchy() {
        let groups = "6:freezer:/slurm/job7\n1:cpu,cpuacct:/\n0::/system.slice/warpyard.service\n";
        let found = |controller| find_group(controller, HYBRID, groups);
        assert_eq!(found(None), Some("/sys/fs/cgroup/unified/system.slice/warpyard.service".into()));
        assert_eq!(found(Some("freezer")), Some("/sys/fs/cgroup/freezer/slurm/job7".into()));
        assert_eq!(find_group(None, "", groups), None);
    }

    #[test]
    fn a_mount_of_a_part_of_the_tree_hides_what_is_above() {
        let mounts = "32 20 0:28 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let found = |groups| find_group(None, mounts, groups);
        assert_eq!(found("0::/docker/abc/inner\n"), Some("/sys/fs/cgroup/inner".into()));
        assert_eq!(found("0::/\n"), Some("/sys/fs/cgroup".into()));
    }
}
