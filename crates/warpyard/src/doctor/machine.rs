//! Checks of the machine itself.

use super::Finding;
use crate::show::counted;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use warpyard_api::private_dir::{self, AllowedOwner};
use warpyard_api::quantity::ByteSize;
use warpyard_worker::claim_holder::held_process;
use warpyard_worker::probe::{self, Choice, ProbePaths};

/// Less free space than this, and logs or the log of events soon cannot be written.
const LITTLE_SPACE: u64 = 1 << 30;

/// With less free in memory than this, records go to the disk.
const LITTLE_MEMORY: u64 = 1 << 20;

pub(super) fn gpus() -> Vec<Finding> {
    let mut probe = match probe::find(&Choice::Auto, &ProbePaths::default()) {
        Ok(probe) => probe,
        Err(e) => {
            let remedy = "reinstall the driver, or name its library with nvml_library in the configuration";
            return vec![Finding::bad("gpus", error_chain(&e), remedy)];
        }
    };
    let found = match probe.gpus() {
        Ok(gpus) => gpus,
        Err(e) => {
            return vec![Finding::bad(
                "gpus",
                error_chain(&e),
                "look at `nvidia-smi` or `rocm-smi` and the kernel's log",
            )];
        }
    };
    let describes = probe.describe();
    if found.is_empty() {
        let there = nvidia_files();
        return vec![match there.first() {
            Some(file) => Finding::bad(
                "gpus",
                format!("{} is there, but no driver's library was found ({describes})", file.display()),
                "install the driver's user part (libnvidia-ml.so.1), of the same version as the kernel's",
            ),
            None => Finding::fine("gpus", format!("none ({describes}); tasks run on CPUs only")),
        }];
    }
    let mut findings = vec![Finding::fine("gpus", format!("{} ({describes})", found.len()))];
    for gpu in &found {
        if let Err(e) = probe.read(&gpu.uuid) {
            let found = format!("{} cannot be read: {}", gpu.uuid, error_chain(&e));
            findings.push(Finding::bad(
                "gpus",
                found,
                "look at the kernel's log; the device may have to be reset",
            ));
        }
    }
    findings
}

fn nvidia_files() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten().map(|e| e.path());
    let is_gpu = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.strip_prefix("nvidia").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    entries.filter(is_gpu).collect()
}

/// Findings about the permissions of the GPUs' device files for the calling user; as root they say nothing about other
/// users.
pub(super) fn device_files() -> Vec<Finding> {
    let kfd = PathBuf::from("/dev/kfd");
    let files = nvidia_files().into_iter().chain(kfd.exists().then_some(kfd));
    let closed = files.filter(|file| OpenOptions::new().read(true).write(true).open(file).is_err());
    let finding = |file: PathBuf| {
        let remedy = "join the group the file belongs to (often `video` or `render`) and log in again";
        Finding::bad("permissions", format!("{} cannot be opened by you", file.display()), remedy)
    };
    closed.map(finding).collect()
}

/// Checks how tasks are paused: by a cgroup where one can be created.
pub(super) fn freezing() -> Finding {
    let remedy = "run the server as a systemd service (`warpyard install`), which delegates a group to it";
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Finding::warning(
            "cgroups",
            "no unified hierarchy; tasks are paused by signals, which they can notice",
            remedy,
        );
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap_or("/")
        .trim_start_matches('/')
        .to_owned();
    let trial = Path::new("/sys/fs/cgroup").join(own).join(format!("warpyard-doctor-{}", std::process::id()));
    match fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)) {
        Ok(()) => Finding::fine("cgroups", "groups can be made; pausing a task is invisible to it"),
        Err(e) => Finding::warning(
            "cgroups",
            format!("no group can be made ({e}); tasks are paused by signals"),
            remedy,
        ),
    }
}

/// Whether processes can be watched without their numbers being mistaken.
pub(super) fn processes() -> Finding {
    let own = held_process(std::process::id() as i32);
    match own {
        Some(_) => Finding::fine(
            "processes",
            "/proc is readable, so claims and attempts are found again after a restart",
        ),
        None => Finding::bad(
            "processes",
            "/proc does not tell of this very process",
            "mount /proc, without hidepid",
        ),
    }
}

pub(super) fn data(data: &Path) -> Finding {
    if let Err(e) = private_dir::check(data, AllowedOwner::OwnOrRoot) {
        let remedy = "do what it says; until then neither server nor commands use it";
        return Finding::bad("data", error_chain(&e), remedy);
    }
    let there = data.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let trial = there.join(format!(".warpyard-doctor-{}", std::process::id()));
    let written = fs::write(&trial, b"x").and_then(|()| fs::remove_file(&trial));
    let found = data.display();
    match written {
        Err(e) => Finding::bad(
            "data",
            format!("{found} cannot be written: {e}"),
            "choose another with --data or WARPYARD_DATA, or give it to the user the server runs as",
        ),
        Ok(()) if is_remote(there) => Finding::warning(
            "data",
            format!("{found} is on a network file system"),
            "keep it on a disk of this machine: SQLite's locks and syncs are slow or absent elsewhere",
        ),
        Ok(()) => Finding::fine("data", format!("{found} can be written")),
    }
}

/// Damage a server found in its data directory and dealt with. It says nothing where there was none.
pub(super) fn repairs(data: &Path) -> Option<Finding> {
    let all = warpyard_server::repairs::read(data);
    let last = all.last()?;
    let found = format!("{} so far, the last: {}", counted(all.len() as u64, "repair"), last.what);
    let remedy =
        format!("read {0}, look for the cause (disk, memory, another program), then remove {0}", file(data));
    Some(Finding::warning("repairs", found, remedy))
}

fn file(data: &Path) -> String {
    data.join("repairs.jsonl").display().to_string()
}

fn is_remote(dir: &Path) -> bool {
    use nix::sys::statfs::{NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, statfs};
    statfs(dir).is_ok_and(|fs| [NFS_SUPER_MAGIC, SMB_SUPER_MAGIC].contains(&fs.filesystem_type()))
}

pub(super) fn disk(data: &Path) -> Finding {
    let there = data.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match nix::sys::statvfs::statvfs(there) {
        Err(e) => Finding::bad("disk", format!("{}: {e}", there.display()), "look at `df` and `dmesg`"),
        Ok(fs) => {
            let free = fs.blocks_available() * fs.fragment_size();
            let found = format!("{} free for {}", ByteSize(free).rounded(), data.display());
            match free {
                ..LITTLE_SPACE => Finding::bad("disk", found, "make room, or lower log_cap and log_age"),
                _ => Finding::fine("disk", found),
            }
        }
    }
}

/// Records of attempts are in memory where that lasts; without room there they go to the disk.
pub(super) fn records(data: &Path) -> Option<Finding> {
    let attempts = data.join("attempts");
    let place = fs::read_link(&attempts).ok()?;
    let found = nix::sys::statvfs::statvfs(&attempts).ok()?;
    let free = found.blocks_available() * found.fragment_size();
    let room =
        format!("{} free in memory for those of attempts, in {}", ByteSize(free).rounded(), place.display());
    Some(match free {
        ..LITTLE_MEMORY => Finding::warning(
            "records",
            format!("{room}: new ones go to the disk, and tasks start more slowly"),
            format!("remove what fills {}", place.parent().unwrap_or(&place).display()),
        ),
        _ => Finding::fine("records", room),
    })
}

/// Expected starts and histories are only as right as the clock.
pub(super) fn clock() -> Finding {
    let asked = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output();
    let synchronised = asked.ok().filter(|done| done.status.success());
    let word = synchronised.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    match word.as_deref() {
        Some("yes") => Finding::fine("clock", "synchronised"),
        Some("no") => {
            Finding::warning("clock", "not synchronised", "enable a time service: `timedatectl set-ntp true`")
        }
        _ => Finding::fine("clock", "whether it is synchronised cannot be determined here"),
    }
}

/// Each running task and each connection costs the server a few descriptors. It raises its soft limit itself.
pub(super) fn open_files() -> Finding {
    use nix::sys::resource::{Resource, getrlimit};
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) if hard >= 4096 => Finding::fine("open files", format!("{hard} allowed at once")),
        Ok((_, hard)) => Finding::warning(
            "open files",
            format!("only {hard} allowed at once, an eighth of them for connections through the port"),
            "raise the hard limit (`nofile` in /etc/security/limits.conf, LimitNOFILE of a service)",
        ),
        Err(e) => Finding::warning("open files", io::Error::from(e).to_string(), "look at `ulimit -Hn`"),
    }
}

/// An error with what led to it.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    #[test]
    fn a_data_directory_that_is_not_there_yet_is_judged_by_where_it_would_be() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = data(&dir.path().join("not/yet"));
        assert_eq!(found.health, Health::Fine, "{found:?}");
        let found = data(Path::new("/proc/not/yet"));
        assert_eq!(found.health, Health::Bad, "{found:?}");
        assert!(found.remedy.is_some_and(|r| r.contains("--data")));
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "nothing is left behind");
    }
}
