//! Construction of launch messages from assignments: directories, environment, visible devices, limits.

use super::keep::{self, Layout};
use crate::accounts::{self, Account, DEFAULT_PATH};
use crate::claim_holder;
use crate::probe::{Gpu, VISIBILITY_VARIABLES, Vendor, visible_env};
use crate::supervise::{Bounds, CgroupParent, DeviceNode, Launch, Limit, Session, Unpack, User};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use warpyard_core::AttemptId;
use warpyard_core::protocol::LaunchSpec;
use warpyard_core::spec::{Claim, Snapshot};
use warpyard_session::Size;

/// Default of `TERM`: what most terminals are, or emulate.
const DEFAULT_TERM: &str = "xterm";

/// Where attempts are launched, and as which account.
#[derive(Clone, Copy)]
pub(super) struct LaunchSite<'a> {
    pub(super) layout: &'a Layout,
    /// This executable.
    pub(super) program: &'a Path,
    /// Socket of the server, where the machine is shared.
    pub(super) shared_at: Option<&'a Path>,
    /// Account the task runs as, if not the worker's.
    pub(super) person: Option<&'a Account>,
}

/// Launch message of an attempt, without the settings that are the same for all.
pub(super) fn launch(
    site: LaunchSite<'_>,
    attempt: AttemptId,
    work: &LaunchSpec,
    gpus: &[&Gpu],
    vendor: Vendor,
) -> Launch {
    let mut launch = match &work.claim {
        Some(claim) => holding(site, attempt, claim),
        None => running(site, attempt, work, gpus, vendor),
    };
    launch.log = site.layout.log_of(attempt).map(ToString::to_string);
    launch.output_dir = Some(site.layout.log_dir(attempt));
    launch.timeout_ms = work.timeout.map(|t| t.0.div_ceil(1000));
    launch
}

/// Launch message of a claim holder. It is this executable, run as the worker, since the user may be unable to read it. So
/// nothing that the user states reaches it: neither environment nor files nor directory nor limits.
fn holding(site: LaunchSite<'_>, attempt: AttemptId, claim: &Claim) -> Launch {
    let dir = site.layout.attempt_dir(attempt);
    Launch::new(attempt.to_string(), dir, claim_holder::command(site.program, claim))
}

/// Launch message of a program, run as its user.
fn running(
    site: LaunchSite<'_>,
    attempt: AttemptId,
    work: &LaunchSpec,
    gpus: &[&Gpu],
    vendor: Vendor,
) -> Launch {
    let LaunchSite { layout, person, shared_at, .. } = site;
    let dir = layout.attempt_dir(attempt);
    let mut program = work.program.clone();
    program.env = environment(attempt, work, person, gpus, vendor);
    // Where a task finds the server, unless whoever submitted it said so; the data of a shared one is root's.
    let (name, value) = match shared_at {
        Some(socket) => ("WARPYARD_SERVER", format!("unix:{}", socket.display())),
        None => ("WARPYARD_DATA", layout.data().display().to_string()),
    };
    program.env.entry(name.into()).or_insert(value);
    let home = person.map_or_else(|| "/".into(), |p| p.home.to_string_lossy().into_owned());
    program.workdir.get_or_insert(home);
    let mut launch = Launch::of_program(attempt.to_string(), dir, program);
    if let Some(snapshot) = &work.snapshot {
        run_in_copy(&mut launch, site, attempt, snapshot);
    }
    launch.session = work.terminal.map(|terminal| {
        let size = terminal.size.map_or_else(Size::default, |(rows, columns)| Size { rows, columns });
        let idle_ms = terminal.idle.map(|idle| idle.0.div_ceil(1000));
        Session { rows: size.rows, columns: size.columns, idle_ms }
    });
    launch.user = person.map(|p| User { uid: p.uid, gid: p.gid, groups: p.groups.clone() });
    if let Some(origin) = &work.origin {
        launch.umask = origin.umask;
        launch.limits = accounts::limits_by_number(&origin.limits);
    }
    launch
}

/// Confines a task to its requests and granted devices, by cgroups of its own where a limit needs one. A task without limits
/// has no cgroup, so that it starts faster.
pub(super) fn confine(
    launch: &mut Launch,
    bounds: &Bounds,
    work: &LaunchSpec,
    closed: Option<Vec<DeviceNode>>,
) {
    bound(launch, bounds);
    let mut enforce = |by: &Result<CgroupParent, String>, limit: Option<Limit>| {
        if let (Ok(parent), Some(limit)) = (by, limit) {
            launch.cgroups.push(parent.limit(limit));
        }
    };
    enforce(&bounds.memory, work.memory_limit.map(Limit::Memory));
    enforce(&bounds.cpu, work.cpu_quota.map(Limit::Cpu));
    enforce(&bounds.devices, closed.map(Limit::Devices));
}

/// Limits the number of a task's processes: by a cgroup of its own, or by `RLIMIT_NPROC` of its user.
fn bound(launch: &mut Launch, bounds: &Bounds) {
    launch.processes = Some(bounds.most);
    launch
        .cgroups
        .extend(bounds.processes.as_ref().map(|parent| parent.limit(Limit::Processes(bounds.most))));
    let as_root = launch.user.is_none() && nix::unistd::geteuid().is_root();
    if launch.cgroups.is_empty() && !as_root {
        let most = bounds.of_user();
        let known = launch.limits.iter().find(|(number, ..)| *number == libc::RLIMIT_NPROC).copied();
        let (_, soft, hard) = known.unwrap_or((libc::RLIMIT_NPROC, most, most));
        launch.limits.retain(|(number, ..)| *number != libc::RLIMIT_NPROC);
        launch.limits.push((libc::RLIMIT_NPROC, soft.min(most), hard.min(most)));
    }
}

/// Runs a task in a directory unpacked from the job's snapshot. The directory it was submitted from is in its environment, and
/// named outputs are written there.
fn run_in_copy(launch: &mut Launch, site: LaunchSite<'_>, attempt: AttemptId, snapshot: &Snapshot) {
    let from = Path::new(&snapshot.from);
    launch.program.env.insert("WARPYARD_SUBMIT_DIR".into(), snapshot.from.clone());
    let program = &mut launch.program;
    let workdir = PathBuf::from(program.workdir.as_deref().unwrap_or("/"));
    let Ok(inside) = workdir.strip_prefix(from) else { return };
    let copy = site.layout.copy_dir(attempt.task.job, site.person.is_some());
    for file in [&mut program.stdout, &mut program.stderr].into_iter().flatten() {
        *file = workdir.join(&*file).to_string_lossy().into_owned();
    }
    let here: PathBuf = copy.join(inside).components().collect();
    let here = here.to_string_lossy().into_owned();
    program.env.entry("PWD".into()).and_modify(|dir| dir.clone_from(&here));
    program.workdir = Some(here);
    launch.unpack = Some(Unpack {
        store: keep::snapshots_dir(site.layout.data()),
        person: snapshot.of.clone(),
        snapshot: snapshot.id.clone(),
        into: copy,
        most_bytes: snapshot.bytes,
    });
}

/// Environment of a task: that of a login, of the submission, of the task, of the attempt, and last the visible devices, so that
/// no inherited variable makes others visible.
fn environment(
    attempt: AttemptId,
    work: &LaunchSpec,
    person: Option<&Account>,
    gpus: &[&Gpu],
    vendor: Vendor,
) -> BTreeMap<String, String> {
    let mut env = person.map(Account::login_environment).unwrap_or_default();
    env.extend((*work.base_env).clone());
    env.extend(work.program.env.clone());
    env.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
    if work.terminal.is_some() {
        env.entry("TERM".into()).or_insert_with(|| DEFAULT_TERM.into());
    }
    for name in VISIBILITY_VARIABLES {
        env.remove(*name);
    }
    let mut say = |name: &str, value: String| env.insert(name.into(), value);
    say("WARPYARD_JOB_ID", attempt.task.job.to_string());
    say("WARPYARD_TASK", work.task_name.clone());
    say("WARPYARD_ATTEMPT", attempt.number.to_string());
    if let Some(index) = work.array_index {
        say("WARPYARD_ARRAY_INDEX", index.to_string());
    }
    if work.restarted {
        say("WARPYARD_RESTARTED", "1".into());
    }
    env.extend(visible_env(gpus, vendor));
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Lineage;
    use warpyard_core::{JobId, TaskId};

    #[test]
    fn nothing_that_a_user_says_reaches_what_holds_devices_for_them() {
        let work = serde_json::json!({"user": "ann", "job_name": "j", "task_name": "t", "command": ["sh"],
            "claim": {"lease": 1}, "restarted": false, "env": {"LD_PRELOAD": "/home/ann/lib.so"}, "base_env": {"LD_AUDIT": "/home/ann/lib.so"},
            "workdir": "/home/ann", "stdout": "/etc/passwd", "stderr": "/etc/passwd",
            "terminal": {}, "snapshot": {"id": "1", "of": "ann", "from": "/home/ann", "files": 1, "bytes": 1}});
        let work: LaunchSpec = serde_json::from_value(work).expect("work");
        let ann = Account {
            name: "ann".into(),
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            home: "/home/ann".into(),
            shell: "/bin/sh".into(),
        };
        let site = LaunchSite {
            layout: &Layout::new("/data", Lineage::of_one(None)),
            program: Path::new("/bin/warpyard"),
            shared_at: None,
            person: Some(&ann),
        };
        let attempt = AttemptId { task: TaskId { job: JobId(1), node: 0, index: 0 }, number: 1 };
        let mut launch = launch(site, attempt, &work, &[], Vendor::Nvidia);
        assert_eq!(launch.program.command[..2], ["/bin/warpyard", claim_holder::SUBCOMMAND]);
        launch.output_dir = None;
        assert_eq!(
            launch,
            Launch::new(attempt.to_string(), launch.dir.clone(), launch.program.command.clone())
        );
    }

    #[test]
    fn where_there_is_no_group_the_kernel_counts_what_a_user_has() {
        let none = || Err("there are no cgroups".to_owned());
        let bounds = Bounds { most: 100, processes: None, memory: none(), cpu: none(), devices: none() };
        let mut launch = Launch::new("1.0.0.1", "/a", ["true"]);
        launch.user = Some(User { uid: 1000, gid: 1000, groups: vec![] });
        launch.limits = vec![(libc::RLIMIT_NPROC, 50, libc::RLIM_INFINITY), (libc::RLIMIT_NOFILE, 7, 7)];
        bound(&mut launch, &bounds);
        let most = bounds.of_user();
        assert_eq!(launch.limits, [(libc::RLIMIT_NOFILE, 7, 7), (libc::RLIMIT_NPROC, 50, most)]);
        assert!(
            most >= 100 && launch.processes == Some(100),
            "and one task of theirs has no more than it may"
        );
    }
}
