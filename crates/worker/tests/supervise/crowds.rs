//! Tasks with more processes than they may have.

use crate::yard::{Yard, eventually};
use std::fs;
use std::io::ErrorKind;
use warpyard_worker::supervise::{CgroupParent, DesiredRecord, ExitCause, Hierarchy, Limit, ProcessRef};

/// Where groups can be made, or a word that they cannot on a machine like this: one without that hierarchy or its
/// controller, or where it may not be written or is not ours to divide.
fn parent(hierarchy: Hierarchy) -> Option<CgroupParent> {
    use ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    match CgroupParent::find(hierarchy, Limit::Processes(1)) {
        Ok(parent) => Some(parent),
        Err(e) if [NotFound, PermissionDenied, ReadOnlyFilesystem, ResourceBusy].contains(&e.kind()) => {
            eprintln!("SKIPPED: no group of {hierarchy:?} that bounds processes can be made here ({e})");
            None
        }
        Err(e) => panic!("no group of {hierarchy:?} can be made, and not for a reason of the machine's: {e}"),
    }
}

/// Tries to have a thousand processes, some of them in sessions of their own, all of which ignore being asked to end.
const BOMB: &str = "trap '' TERM; i=0; while [ $i -lt 250 ]; do
     sleep 600 & setsid sh -c 'sleep 600 & sleep 600' & i=$((i+1)); done; wait";

/// Tries to have two thousand processes, each in a session of its own, whatever it is refused.
const FORKS: &str = "
import os, time
for _ in range(2000):
    try:
        if os.fork() == 0:
            os.setsid(); time.sleep(600); os._exit(0)
    except OSError:
        pass
open(os.environ['HOME'] + '/tried', 'w').close()
time.sleep(600)";

#[test]
fn a_fork_bomb_has_no_more_processes_than_it_may_and_all_of_it_is_ended() {
    for hierarchy in [Hierarchy::Unified, Hierarchy::Pids] {
        let Some(parent) = parent(hierarchy) else { continue };
        let mut yard = Yard::new();
        // The shell would give up at the first process that it cannot have.
        let mut launch = yard.command(["python3", "-c", FORKS]);
        (launch.cgroups, launch.processes) = (vec![parent.limit(Limit::Processes(100))], Some(100));
        let dir = yard.launch(&launch);
        let running = yard.running(&dir);
        eventually("it has tried them all", || yard.path("tried").exists());
        let processes = running.processes();
        assert_eq!(processes.len(), 100, "{hierarchy:?}");
        let group = running.task.as_ref().and_then(|task| task.group.clone()).expect("a group");
        dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
        assert_eq!(yard.exit(&dir).cause, ExitCause::Stopped);
        assert!(!processes.iter().any(|&pid| ProcessRef::now(pid).is_alive()));
        assert!(!group.exists(), "{group:?} is left");
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(log.contains("a process was refused 19"), "{log}");
    }
}

#[test]
fn where_nothing_bounds_them_too_many_processes_are_found_and_ended() {
    let mut yard = Yard::new();
    let mut launch = yard.script(BOMB);
    launch.processes = Some(200);
    let dir = yard.launch(&launch);
    let exit = yard.exit(&dir);
    assert!(matches!(exit.cause, ExitCause::Crowded { processes } if processes > 200), "{exit:?}");
    let mark = format!("WARPYARD_ATTEMPT_DIR={}", launch.dir.display());
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
    });
    assert_eq!(left.count(), 0, "nothing of it is left");
}

#[test]
fn a_task_begins_in_its_group_and_is_frozen_and_ended_there() {
    let unified = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        Some(CgroupParent { hierarchy: Hierarchy::Unified, parent: line.split(' ').nth(4)?.into() })
    };
    let Some(parent) = unified().filter(|_| nix::unistd::geteuid().is_root()) else {
        return eprintln!("SKIPPED: there is no unified hierarchy to make groups in");
    };
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let mut launch = yard.script(
        "grep ^0:: /proc/self/cgroup; trap '' TERM; echo $$ >$HOME/pids; while :; do setsid sleep 600; done",
    );
    // A filter of devices needs no controller, only the hierarchy.
    launch.cgroups = vec![parent.limit(Limit::Devices(Vec::new()))];
    let dir = yard.launch(&launch);
    let running = yard.running(&dir);
    let group = running.task.as_ref().and_then(|task| task.group.clone()).expect("a group");
    pids.pids::<1>();
    dir.write_desired(DesiredRecord::Freeze).unwrap();
    yard.frozen(&dir);
    assert!(
        dir.state().unwrap().is_some_and(|state| state.group.as_ref() == Some(&group)),
        "no second group"
    );
    let processes = running.processes();
    dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    yard.exit(&dir);
    assert!(!processes.iter().any(|&pid| ProcessRef::now(pid).is_alive()) && !group.exists());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("/warpyard-1.0.0.1-"), "it began outside: {log}");
}
