//! The parents of attempts' cgroups: where cgroups can be created that enforce a limit, found by trial when a worker starts.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

use super::{AttemptCgroup, CgroupLimit, DeviceNode, Limit};
use crate::{
    probe::Gpu,
    supervise::{Spawner, freeze::own_group},
};

/// Default maximum of processes and threads of a task; fewer on a machine with few pids.
const MOST: u64 = 8192;

/// Limits of a login shell. The largest known start-up files load whole Python environments.
const LOGIN_SHELL_MEMORY: u64 = 2 << 30;
const LOGIN_SHELL_PROCESSES: u64 = 512;

/// Name prefix of cgroups of spawners, in which no GPU can be opened.
const WITHOUT_GPUS: &str = "without-gpus-";

/// Name prefix of cgroups by which a limit is tried.
const TRIAL: &str = "trial-";

/// The cgroup in which systemd starts an installed server (`DelegateSubgroup=`); its parent is delegated to the server.
pub const SUBGROUP: &str = "warpyard";

/// The limits a worker can enforce on its tasks, and by which cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of processes and threads of a task.
    pub most: u64,
    /// The cgroup parent that enforces it. Without one, processes are counted at intervals, and users other than root have
    /// the resource limit [`Bounds::of_user`].
    pub processes: Option<CgroupParent>,
    /// The cgroup parent that limits main memory, or why there is none.
    pub memory: Result<CgroupParent, String>,
    /// The cgroup parent that limits CPU time, or why there is none.
    pub cpu: Result<CgroupParent, String>,
    /// The cgroup parent that denies device nodes, or why there is none.
    pub devices: Result<CgroupParent, String>,
}

impl Bounds {
    /// Finds the best parents on this machine. In v1, where a cgroup makes starting a task noticeably slower, processes are
    /// limited only if a limit was asked for.
    pub fn find(asked: Option<u64>) -> Self {
        let unified = unified();
        let of = |limit: Limit, v1: Hierarchy| {
            let in_unified = match &unified {
                Ok(parent) => parent.enforces(limit.clone()).map(|()| parent.clone()),
                Err(e) => Err(e.kind().into()),
            };
            in_unified
                .or_else(|e| CgroupParent::find(v1, limit).map_err(|v1| more_telling(e, v1)))
                .map_err(|e| reason(&e))
        };
        let contained =
            unified.as_ref().ok().filter(|parent| parent.enforces(Limit::Processes(1)).is_ok()).cloned();
        let processes = contained
            .clone()
            .or_else(|| asked.and_then(|_| CgroupParent::find(Hierarchy::Pids, Limit::Processes(1)).ok()));
        // Attaching a device filter costs next to nothing if the attempt has a unified cgroup anyway.
        let filter = Limit::Devices(vec![DeviceNode { major: 195, minor: 254 }]);
        let devices = match contained {
            Some(parent) if parent.enforces(filter.clone()).is_ok() => Ok(parent),
            _ => CgroupParent::find(Hierarchy::Devices, filter.clone()).or_else(|v1| match &unified {
                Ok(parent) => {
                    parent.enforces(filter).map(|()| parent.clone()).map_err(|e| more_telling(e, v1))
                }
                Err(_) => Err(v1),
            }),
        };
        let found = Self {
            most: asked.unwrap_or(MOST.min(room() / 4)),
            processes,
            memory: of(Limit::Memory(1 << 20), Hierarchy::Memory),
            cpu: of(Limit::Cpu(1000), Hierarchy::Cpu),
            devices: devices.map_err(|e| reason(&e)),
        };
        let parents = [found.memory.as_ref(), found.cpu.as_ref(), found.devices.as_ref()];
        let parents = parents.into_iter().filter_map(Result::ok).chain(&found.processes);
        parents.for_each(CgroupParent::remove_abandoned);
        found
    }

    /// The device nodes a task's own cgroup must deny: those of all GPUs but the granted ones. None if it needs no cgroup for
    /// that; in v1 hierarchies the spawner's cgroup already denies all GPUs to tasks without any.
    pub(crate) fn closed_to(&self, gpus: &[Gpu], granted: &[String]) -> Option<Vec<DeviceNode>> {
        let others = gpus.iter().filter(|gpu| !granted.contains(&gpu.uuid));
        let nodes: Vec<_> = others.flat_map(|gpu| gpu.nodes.iter().copied()).collect();
        let needed = match self.devices.as_ref().ok()?.hierarchy {
            Hierarchy::Unified => !nodes.is_empty(),
            _ => !granted.is_empty(),
        };
        needed.then_some(nodes)
    }

    /// The limits of a login shell, which belongs to no task: no GPUs, and little memory and few processes.
    pub fn of_login_shell(&self, gpus: &[Gpu]) -> Vec<CgroupLimit> {
        let nodes = gpus.iter().flat_map(|gpu| gpu.nodes.iter().copied()).collect();
        let devices = self.devices.as_ref().ok().map(|parent| parent.limit(Limit::Devices(nodes)));
        let memory = self.memory.as_ref().ok().map(|parent| parent.limit(Limit::Memory(LOGIN_SHELL_MEMORY)));
        let processes =
            self.processes.as_ref().map(|parent| parent.limit(Limit::Processes(LOGIN_SHELL_PROCESSES)));
        devices.into_iter().chain(memory).chain(processes).collect()
    }

    /// The `RLIMIT_NPROC` of a user, which counts the processes of all their tasks and everything else they run.
    pub fn of_user(&self) -> u64 {
        self.most.saturating_mul(4).min(room() / 2).max(self.most)
    }
}

/// The pid of the process that created a cgroup, from the end of its name; none for trials.
fn owner(name: &str) -> Option<u32> {
    let ours = name.strip_prefix("warpyard-").filter(|rest| !rest.starts_with(TRIAL))?;
    ours.rsplit_once('-')?.1.parse().ok()
}

/// The more informative of two errors: not that a hierarchy does not exist.
fn more_telling(unified: io::Error, v1: io::Error) -> io::Error {
    if v1.kind() == io::ErrorKind::NotFound { unified } else { v1 }
}

/// Why a limit cannot be enforced, as a message for people.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no cgroup hierarchy here has the controller".into(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "the server may not make cgroups: run it as root, or as a systemd service (`warpyard install`)"
                .into()
        }
        io::ErrorKind::ResourceBusy => {
            "the cgroup of the server has other processes: run it as a systemd service (`warpyard install`)"
                .into()
        }
        _ => error.to_string(),
    }
}

/// The number of pids of the machine.
fn room() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(32_768)
}

/// The cgroup of the unified hierarchy below which those of attempts are created: one for all limits, because a process is in
/// one cgroup of that hierarchy only.
///
/// A cgroup with processes cannot enable `memory` for its children (the "no internal processes" rule). So the candidates are
/// the delegated cgroup, where systemd started the server in a child of it (`DelegateSubgroup=`); else the server's own; else,
/// for root, one at the top, as container engines do.
fn unified() -> io::Result<CgroupParent> {
    let own = own_group(None)?;
    let delegated =
        own.parent().filter(|_| own.file_name().is_some_and(|name| name == SUBGROUP)).map(Path::to_owned);
    let at_top = || top(&fs::read_to_string("/proc/self/mountinfo").ok()?, &own);
    let parents: [&dyn Fn() -> Option<PathBuf>; 3] = [&|| delegated.clone(), &|| Some(own.clone()), &at_top];
    let mut best = (0, CgroupParent { hierarchy: Hierarchy::Unified, parent: own.clone() });
    for parent in parents.iter().filter_map(|parent| parent()) {
        let parent = CgroupParent { hierarchy: Hierarchy::Unified, parent };
        let limits = [Limit::Processes(1), Limit::Memory(1 << 20), Limit::Cpu(1000)];
        let all = limits.len();
        let enforced = limits.into_iter().filter(|limit| parent.enforces(limit.clone()).is_ok()).count();
        if enforced > best.0 {
            best = (enforced, parent);
        }
        if enforced == all {
            break;
        }
    }
    Ok(best.1)
}

/// Creates a cgroup at the top of the unified hierarchy, if all of it is mounted and has the controllers.
fn top(mounts: &str, own: &Path) -> Option<PathBuf> {
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let mut fields = line.split(' ').skip(3);
    let (root, mount) = (fields.next()?, Path::new(fields.next()?));
    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
    if root != "/" || own == mount || !controllers.split_ascii_whitespace().any(|name| name == "memory") {
        return None;
    }
    let parent = mount.join(SUBGROUP);
    for controller in ["pids", "memory", "cpu"] {
        let _tried_out_later = fs::write(mount.join("cgroup.subtree_control"), format!("+{controller}"));
    }
    match fs::create_dir(&parent) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => None,
        _ => Some(parent),
    }
}

/// A cgroup below which others can be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupParent {
    /// Its hierarchy.
    pub hierarchy: Hierarchy,
    /// Its directory.
    pub parent: PathBuf,
}

/// The kernel's cgroup hierarchies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hierarchy {
    /// The unified one (v2). A process can be created in a cgroup of it, which costs next to nothing.
    Unified,
    /// The v1 hierarchy of the controller `pids`. A process must be moved into it, which takes a global lock.
    Pids,
    /// The v1 hierarchy of the controller `memory`.
    Memory,
    /// The v1 hierarchy of the controller `cpu`.
    Cpu,
    /// The v1 hierarchy of the controller `devices`.
    Devices,
}

impl Hierarchy {
    /// The name of the v1 controller.
    fn controller(self) -> Option<&'static str> {
        match self {
            Hierarchy::Unified => None,
            Hierarchy::Pids => Some("pids"),
            Hierarchy::Memory => Some("memory"),
            Hierarchy::Cpu => Some("cpu"),
            Hierarchy::Devices => Some("devices"),
        }
    }
}

impl CgroupParent {
    /// This process's cgroup in a hierarchy, if its children can enforce a limit, found by trial.
    pub fn find(hierarchy: Hierarchy, limit: Limit) -> io::Result<Self> {
        let parent = Self { hierarchy, parent: own_group(hierarchy.controller())? };
        parent.enforces(limit)?;
        Ok(parent)
    }

    /// Tries a limit in a temporary cgroup.
    fn enforces(&self, limit: Limit) -> io::Result<()> {
        // The counter keeps several agents of one process apart.
        static TRIALS: AtomicU64 = AtomicU64::new(0);
        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{TRIAL}{}-{number}", std::process::id());
        let mut trial = AttemptCgroup::default();
        let enforced = trial.add(self, &limit, &name);
        trial.remove();
        enforced
    }

    /// Moves a spawner into a cgroup that denies these nodes. Not in the unified hierarchy, where every task has a cgroup of its
    /// own beside the spawner's.
    pub(crate) fn close_to(&self, spawner: &mut Spawner, nodes: &[DeviceNode]) -> io::Result<()> {
        if self.hierarchy == Hierarchy::Unified {
            return Ok(());
        }
        let name = format!("{WITHOUT_GPUS}{}", spawner.pid());
        let mut made = AttemptCgroup::default();
        made.add(self, &Limit::Devices(nodes.to_vec()), &name)?;
        made.paths().try_for_each(|path| spawner.confine(path)).inspect_err(|_| made.remove())
    }

    /// Removes cgroups left by killed supervisors and spawners. The kernel refuses to remove one with processes inside.
    fn remove_abandoned(&self) {
        for entry in fs::read_dir(&self.parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if owner(&name.to_string_lossy())
                .is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
            {
                let _in_use = fs::remove_dir(entry.path());
            }
        }
    }

    /// A limit enforced below this cgroup.
    pub fn limit(&self, limit: Limit) -> CgroupLimit {
        CgroupLimit { parent: self.clone(), limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_cgroup_at_the_top_is_made_only_where_all_of_the_hierarchy_is_ours_to_divide() {
        let mount = tempfile::tempdir().unwrap();
        let text =
            |root: &str| format!("30 20 0:26 {root} {} rw - cgroup2 cgroup2 rw\n", mount.path().display());
        let own = mount.path().join("system.slice/warpyard.service");
        assert_eq!(top(&text("/"), &own), None, "it has no controllers");
        fs::write(mount.path().join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
        assert_eq!(top(&text("/docker/1"), &own), None, "a container sees a part of it");
        assert_eq!(top(&text("/"), mount.path()), None, "the server is at the top itself");
        assert_eq!(top(&text("/"), &own), Some(mount.path().join("warpyard")));
        assert!(mount.path().join("warpyard").is_dir());
    }

    #[test]
    fn cgroups_of_processes_that_are_gone_are_removed_and_no_others() {
        let mount = tempfile::tempdir().unwrap();
        let (alive, gone) = (std::process::id(), 4_194_305);
        let names = [
            format!("warpyard-7.0.0.1-{gone}"),
            format!("warpyard-without-gpus-{gone}"),
            format!("warpyard-7.0.0.2-{alive}"),
            format!("warpyard-trial-{alive}-{gone}"),
            format!("docker-{gone}"),
            "warpyard".to_owned(),
        ];
        names.iter().for_each(|name| fs::create_dir(mount.path().join(name)).unwrap());
        CgroupParent { hierarchy: Hierarchy::Cpu, parent: mount.path().into() }.remove_abandoned();
        let left = names.iter().map(|name| mount.path().join(name).exists()).collect::<Vec<_>>();
        assert_eq!(left, [false, false, true, true, true, true]);
    }

    #[test]
    fn agents_of_one_process_do_not_keep_each_other_from_a_parent() {
        let find = || (0..50).all(|_| CgroupParent::find(Hierarchy::Pids, Limit::Processes(1)).is_ok());
        if !find() {
            return eprintln!("SKIPPED: no cgroup that limits processes can be made here");
        }
        let all = thread::scope(|threads| {
            [(); 4].map(|()| threads.spawn(find)).map(|one| one.join().expect("no panic"))
        });
        assert_eq!(all, [true; 4]);
    }
}
