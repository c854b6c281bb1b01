//! The worker's side of an attempt directory: writing the desired state, reading the recorded one, and ending what a killed
//! supervisor left behind.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::MetadataExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{
    ATTEMPT_DIR_VARIABLE, freeze,
    process::{self, ProcessRef, ProcessStat},
    record::{self, DesiredRecord, ExitRecord, Phase, RecordError, RunningRecord, StateRecord},
    terminal,
};

/// Interval between two rounds of killing leftover processes.
const DYING: Duration = Duration::from_millis(5);

/// Number of rounds for an attempt without usable records: a process may hang in the kernel for ever.
const DYING_ROUNDS: u32 = 400;

/// An attempt directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptDir(PathBuf);

/// The state of an attempt according to its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedAttempt {
    /// No supervisor has claimed it. A launch that was sent may still arrive; launching again is safe.
    NotStarted,
    /// It runs or is frozen under a live supervisor.
    Supervised(RunningRecord, Phase),
    /// It ended.
    Exited(ExitRecord),
    /// Its supervisor was killed. Processes may be left: see [`Orphan`].
    Died(RunningRecord),
}

/// The recorded state of an attempt, or why its records cannot be used.
pub type Inspection = Result<RecordedAttempt, RecordError>;

/// Inspects every attempt directory in a directory, in the order of their names.
pub fn scan(attempts: &Path) -> Result<Vec<(AttemptDir, Inspection)>, RecordError> {
    let unreadable = |source| RecordError::Io { path: attempts.into(), source };
    let mut dirs = Vec::new();
    for entry in fs::read_dir(attempts).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().map_err(unreadable)?.is_dir() {
            dirs.push(AttemptDir::new(entry.path()));
        }
    }
    dirs.sort();
    let look = |dir: AttemptDir| {
        let found = dir.inspect();
        (dir, found)
    };
    Ok(dirs.into_iter().map(look).collect())
}

impl AttemptDir {
    /// The attempt directory at `path`, which must be spelt as in the launch: processes are recognised by that text.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the desired state and signals the supervisor, if there is one.
    ///
    /// Written before the launch, it is not lost: a supervisor begins by reading it.
    pub fn write_desired(&self, want: DesiredRecord) -> Result<(), RecordError> {
        want.write(&self.0.join(record::WANT))?;
        if let Some(running) = self.running()?
            && running.boot == process::boot_id()
        {
            let _gone_or_not_ours = running.supervisor.signal(libc::SIGUSR1);
        }
        Ok(())
    }

    /// Connects to the attempt's terminal; fails if it has none, or none yet or any more.
    pub fn terminal(&self) -> io::Result<UnixStream> {
        // A socket path has at most 107 bytes. Through `/proc/self/fd` it is short wherever the directory is.
        let dir = fs::File::open(&self.0)?;
        UnixStream::connect(format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), terminal::SOCKET))
    }

    /// The desired state that was written last.
    pub fn desired(&self) -> Result<Option<DesiredRecord>, RecordError> {
        DesiredRecord::read(&self.0.join(record::WANT))
    }

    /// The `running` record.
    pub fn running(&self) -> Result<Option<RunningRecord>, RecordError> {
        RunningRecord::read(&self.0.join(record::RUNNING))
    }

    /// The `state` record; absent for an attempt that was never frozen.
    pub fn state(&self) -> Result<Option<StateRecord>, RecordError> {
        record::read_record(&self.0.join(record::STATE))
    }

    /// The `exit` record.
    pub fn exit(&self) -> Result<Option<ExitRecord>, RecordError> {
        record::read_record(&self.0.join(record::EXIT))
    }

    /// Reads the attempt's state from its records.
    pub fn inspect(&self) -> Result<RecordedAttempt, RecordError> {
        if let Some(exit) = self.exit()? {
            return Ok(RecordedAttempt::Exited(exit));
        }
        let Some(running) = self.running()? else {
            // The attempt may have started and ended since `exit` was looked for, so it is looked for again.
            return Ok(self.exit()?.map_or(RecordedAttempt::NotStarted, RecordedAttempt::Exited));
        };
        if running.is_supervised() {
            let phase = self.state()?.map_or(Phase::Running, |state| state.phase);
            return Ok(RecordedAttempt::Supervised(running, phase));
        }
        // A supervisor writes `exit` before it exits. It is gone now, so the record exists or never will.
        Ok(self.exit()?.map_or(RecordedAttempt::Died(running), RecordedAttempt::Exited))
    }

    /// Kills the processes a killed supervisor left behind, however long that takes; returns how many there were.
    pub fn end_leftovers(&self, running: &RunningRecord) -> Result<usize, RecordError> {
        let orphan = Orphan::of(self.clone(), running.clone())?;
        let mut ended = BTreeSet::new();
        loop {
            let table = ProcessTable::read([&orphan]);
            let left = orphan.end(&table);
            if left.is_empty() {
                return Ok(ended.len());
            }
            ended.extend(left.into_iter().map(|process| process.pid));
            thread::sleep(DYING);
        }
    }

    /// Kills the supervisor and the processes of an attempt whose records are unusable; returns how many there were.
    ///
    /// The supervisor is recognised by its name and its working directory, which is the attempt's; the others as
    /// [`AttemptDir::end_leftovers`] finds it.
    pub fn end_unrecorded(&self) -> usize {
        let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        let here = identity(&self.0);
        let supervises = |pid: i32| {
            let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with(b"wy:")
                && here.is_some()
                && identity(Path::new(&format!("/proc/{pid}/cwd"))) == here
        };
        let mut ended = BTreeSet::new();
        for _ in 0..DYING_ROUNDS {
            let left = ProcessTable::now().leftovers(self, None, supervises);
            if left.is_empty() {
                break;
            }
            ended
                .extend(left.into_iter().filter(|p| p.signal(libc::SIGKILL).unwrap_or(false)).map(|p| p.pid));
            thread::sleep(DYING);
        }
        ended.len()
    }
}

/// An attempt whose supervisor was killed and of which processes may be left.
#[derive(Debug)]
pub struct Orphan {
    dir: AttemptDir,
    running: RunningRecord,
    /// Its cgroups.
    groups: BTreeSet<PathBuf>,
}

impl Orphan {
    /// The orphan of a directory whose `running` names a supervisor that is gone.
    pub fn of(dir: AttemptDir, running: RunningRecord) -> Result<Self, RecordError> {
        let frozen_by = dir.state()?.and_then(|state| state.group);
        let inside = running.task.iter().flat_map(|task| task.group.iter().chain(&task.more_groups));
        let groups = frozen_by.into_iter().chain(inside.cloned()).collect();
        Ok(Self { dir, running, groups })
    }

    /// Kills the leftover processes that are in the table and returns them: none once all are gone.
    ///
    /// The task's first process dies with its supervisor (`PR_SET_PDEATHSIG`). The others are those with the attempt's
    /// variable in their environment or in one of its cgroups, their descendants, and members of the task's session if one
    /// of the former is in it. All are stopped before any is killed, so that none can fork meanwhile.
    pub fn end(&self, table: &ProcessTable) -> Vec<ProcessRef> {
        if self.running.boot != process::boot_id() {
            return Vec::new();
        }
        let grouped: Vec<i32> = self.groups.iter().flat_map(|group| freeze::end_orphans(group)).collect();
        let leader = self.running.task.as_ref().map(|task| task.process.pid);
        let left = table.leftovers(&self.dir, leader, |pid| grouped.contains(&pid));
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for process in &left {
                let _gone_or_not_ours = process.signal(signal);
            }
        }
        left
    }
}

/// Every process of the machine at one moment, with the attempt directory its environment names.
#[derive(Debug)]
pub struct ProcessTable(Vec<TableEntry>);

#[derive(Debug)]
struct TableEntry {
    seen: ProcessRef,
    stat: ProcessStat,
    mark: Option<Vec<u8>>,
}

impl ProcessTable {
    /// Reads `/proc` once for any number of orphans; not at all if all of them are of an earlier boot.
    pub fn read<'a>(orphans: impl IntoIterator<Item = &'a Orphan>) -> Self {
        match orphans.into_iter().all(|orphan| orphan.running.boot != process::boot_id()) {
            true => Self(Vec::new()),
            false => Self::now(),
        }
    }

    fn now() -> Self {
        let entry = |pid| {
            // The reference is taken before the process is read, so that a signal reaches the process that was read or none.
            let seen = ProcessRef::now(pid);
            let stat = ProcessStat::read(pid).ok().filter(|stat| stat.alive)?;
            Some(TableEntry { seen, stat, mark: mark_of(pid) })
        };
        Self(process::all_pids().into_iter().filter_map(entry).collect())
    }

    /// The processes of an attempt: those that name its directory or are known to be its own, their descendants, and members
    /// of its first process's session.
    fn leftovers(
        &self,
        dir: &AttemptDir,
        leader: Option<i32>,
        is_known: impl Fn(i32) -> bool,
    ) -> Vec<ProcessRef> {
        let mark = dir.path().as_os_str().as_bytes();
        let is_sure = |one: &&TableEntry| one.mark.as_deref() == Some(mark) || is_known(one.seen.pid);
        let (sure, mut others): (Vec<_>, Vec<_>) = self.0.iter().partition(is_sure);
        let mut ours: BTreeSet<ProcessRef> = sure.iter().map(|one| one.seen).collect();
        // A session id may be reused once all its members are gone, so it counts only while a certain member is in it.
        let session = leader.filter(|leader| sure.iter().any(|one| one.stat.session == *leader));
        let mut parents: BTreeSet<i32> = ours.iter().map(|seen| seen.pid).collect();
        let kin = |one: &TableEntry, parents: &BTreeSet<i32>| {
            session == Some(one.stat.session) || parents.contains(&one.stat.parent)
        };
        while let Some(next) = others.iter().position(|one| kin(one, &parents)) {
            let one = others.swap_remove(next);
            parents.insert(one.seen.pid);
            ours.insert(one.seen);
        }
        ours.into_iter().collect()
    }
}

impl RunningRecord {
    /// Whether the supervisor that wrote this is alive.
    pub fn is_supervised(&self) -> bool {
        self.boot == process::boot_id() && self.supervisor.is_alive()
    }

    /// The pids of the attempt's processes, found by descent from its supervisor.
    pub fn processes(&self) -> Vec<i32> {
        if !self.is_supervised() {
            return Vec::new();
        }
        process::descendants(self.supervisor.pid).into_iter().map(|process| process.pid).collect()
    }
}

/// The attempt directory that a process's environment names.
fn mark_of(pid: i32) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |variable: &[u8]| {
        let rest = variable.strip_prefix(ATTEMPT_DIR_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(rest.to_vec())
    };
    environment.split(|&b| b == 0).find_map(value)
}
