//! Limits that cgroups enforce: main memory, CPU time, device nodes.

use crate::yard::{Yard, eventually, text};
use nix::sys::stat::{Mode, SFlag, mknod};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use warpyard_worker::supervise::{
    CgroupLimit, CgroupParent, DesiredRecord, DeviceNode, ExitCause, Hierarchy, Limit, Status,
};

/// A limit of the v1 hierarchy, or a word that this machine cannot enforce it.
fn v1(hierarchy: Hierarchy, limit: Limit) -> Option<CgroupLimit> {
    use ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    match CgroupParent::find(hierarchy, limit.clone()) {
        Ok(parent) => Some(parent.limit(limit)),
        Err(e) if [NotFound, PermissionDenied, ReadOnlyFilesystem].contains(&e.kind()) => {
            eprintln!("SKIPPED: no cgroup of {hierarchy:?} can be made here ({e})");
            None
        }
        Err(e) => {
            panic!("no cgroup of {hierarchy:?} can be made, and not for a reason of the machine's: {e}")
        }
    }
}

/// Writes to 300 MiB of memory.
const HOG: &str = "x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096])";

#[test]
fn a_task_over_its_memory_is_killed_and_its_record_says_why() {
    let Some(limit) = v1(Hierarchy::Memory, Limit::Memory(50 << 20)) else { return };
    let mut yard = Yard::new();
    // The kernel kills one process: the first, one whose parent would go on for ever, and one nobody asks about.
    let scripts = [
        format!("exec python3 -c \"{HOG}\""),
        format!("python3 -c \"{HOG}\"; sleep 600"),
        format!("trap '' TERM; setsid python3 -c \"{HOG}\" & exec sleep 600"),
    ];
    for script in scripts {
        let mut launch = yard.script(&script);
        launch.cgroups = vec![limit.clone()];
        let dir = yard.launch(&launch);
        let exit = yard.exit(&dir);
        assert_eq!(exit.cause, ExitCause::OutOfMemory { limit_bytes: 50 << 20 }, "{script}");
        assert_eq!(exit.status, Some(Status::Signal(libc::SIGKILL)), "{script}");
        let log = text(dir.path().join("log"));
        assert!(log.contains("more than the 50 MiB of memory it requested"), "{log}");
        let group =
            dir.running().unwrap().and_then(|r| r.task).and_then(|task| task.group).expect("a cgroup");
        assert!(!group.exists(), "{group:?} is left");
    }
    // Within its memory it is left alone, and a cancel is a cancel whatever was used.
    let mut launch = yard.script("python3 -c 'x = bytearray(20 << 20)'; exit 3");
    launch.cgroups = vec![limit];
    let exit = yard.run(&launch);
    assert_eq!((exit.cause, exit.status), (ExitCause::Exited, Some(Status::Code(3))));
}

#[test]
fn a_task_has_no_more_cpu_time_than_it_may() {
    let Some(limit) = v1(Hierarchy::Cpu, Limit::Cpu(50)) else { return };
    let mut yard = Yard::new();
    // Two processes that want a processor each, until the kernel says that it held them back for a while. The limit is low,
    // so that a busy machine gives them more than that.
    let hog = "while :; do :; done & while :; do :; done";
    let mut launch = yard.script(hog);
    launch.cgroups = vec![limit];
    let dir = yard.launch(&launch);
    let running = yard.running(&dir);
    let group = running.task.and_then(|task| task.group).expect("a cgroup");
    let number = |name: &str| {
        let stat = text(group.join("cpu.stat"));
        stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    eventually("it was held back in ten periods", || number("nr_throttled ") >= 10);
    dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    let exit = yard.exit(&dir);
    // The kernel deals CPU time out in slices, so it is not exact; without the limit they have twenty times as much.
    let most = 2 * exit.running_us / 20 + 150_000;
    assert!(exit.usage.cpu_us <= most, "{} us of CPU in {} us", exit.usage.cpu_us, exit.running_us);
}

#[test]
fn a_task_opens_only_the_device_nodes_it_was_granted() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can make device nodes");
    }
    // Stand-ins for two GPUs: /dev/null and /dev/full by other names.
    let (granted, other) = (DeviceNode { major: 1, minor: 3 }, DeviceNode { major: 1, minor: 7 });
    let unified = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let unified =
        unified.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let unified = unified.map(|mount| CgroupParent { hierarchy: Hierarchy::Unified, parent: mount.into() });
    let by_program = unified.map(|parent| parent.limit(Limit::Devices(vec![other])));
    let limits = [v1(Hierarchy::Devices, Limit::Devices(vec![other])), by_program];
    for limit in limits.into_iter().flatten() {
        let hierarchy = limit.parent.hierarchy;
        let mut yard = Yard::new();
        let node = |path: &Path, node: DeviceNode| {
            let device = libc::makedev(node.major, node.minor);
            mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), device).unwrap();
        };
        node(&yard.path("gpu0"), granted);
        node(&yard.path("gpu1"), other);
        let mut launch = yard.script(
            "echo x >$HOME/gpu0 && echo open; cat <$HOME/gpu1; head -c1 /dev/zero | wc -c; mknod $HOME/mine c 1 7",
        );
        launch.cgroups = vec![limit];
        let dir = yard.launch(&launch);
        yard.exit(&dir);
        let log = text(dir.path().join("log"));
        let refused = log.matches("Operation not permitted").count();
        assert!(log.starts_with("open\n") && log.contains("\n1\n"), "{hierarchy:?}: {log}");
        assert!(refused == 2 && !yard.path("mine").exists(), "{hierarchy:?}: {log}");
    }
}

#[test]
fn a_task_without_limits_has_no_cgroup() {
    let mut yard = Yard::new();
    let dir = {
        let launch = yard.script("true");
        yard.launch(&launch)
    };
    yard.exit(&dir);
    let started = dir.running().unwrap().and_then(|running| running.task).expect("it ran");
    assert_eq!((started.group, started.more_groups.len()), (None, 0));
}
