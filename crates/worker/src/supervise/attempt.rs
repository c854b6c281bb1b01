//! The worker's side of an attempt directory: saying what is wanted, and finding out what is.

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

/// Between two looks at processes that were told to die.
const DYING: Duration = Duration::from_millis(5);

/// How many looks there are at processes of an attempt nothing is known of: a process may be stuck in the kernel.
const DYING_ROUNDS: u32 = 400;

/// An attempt's directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptDir(PathBuf);

/// What an attempt directory tells of its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedAttempt {
    /// No supervisor has taken it. If a launch was sent it may still arrive; launching again is safe.
    NotStarted,
    /// It runs under a live supervisor.
    Running(RunningRecord),
    /// It is frozen under a live supervisor.
    Frozen(RunningRecord),
    /// It ended.
    Exited(ExitRecord),
    /// Its supervisor was killed. Processes may be left: see [`Orphan`].
    Died(RunningRecord),
}

/// What a directory says of its attempt, or why it says nothing.
pub type Inspection = Result<RecordedAttempt, RecordError>;

/// Everything found below a directory of attempt directories, in the order of their names.
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
    /// The directory at `path`, which must be the one of the launch, spelt the same.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Says what is wanted of the attempt, and pokes its supervisor if there is one.
    ///
    /// Before the launch, or before the supervisor got to look, it is not lost: each begins by reading it.
    pub fn write_desired(&self, want: DesiredRecord) -> Result<(), RecordError> {
        want.write(&self.0.join(record::WANT))?;
        if let Some(running) = self.running()?
            && running.boot == process::boot_id()
        {
            let _gone_or_not_ours = running.supervisor.signal(libc::SIGUSR1);
        }
        Ok(())
    }

    /// A way to the terminal the attempt runs in. Where there is none, or none yet or any more, nobody answers.
    pub fn terminal(&self) -> io::Result<UnixStream> {
        // A socket's path has at most 107 bytes; this one is short, wherever the directory is.
        let dir = fs::File::open(&self.0)?;
        UnixStream::connect(format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), terminal::SOCKET))
    }

    /// What was last wanted of the attempt.
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

    /// What became of the attempt.
    pub fn inspect(&self) -> Result<RecordedAttempt, RecordError> {
        if let Some(exit) = self.exit()? {
            return Ok(RecordedAttempt::Exited(exit));
        }
        let Some(running) = self.running()? else {
            // A start and an end may both have happened since we looked for the exit; so look for it again.
            return Ok(self.exit()?.map_or(RecordedAttempt::NotStarted, RecordedAttempt::Exited));
        };
        if running.is_supervised() {
            let frozen = self.state()?.is_some_and(|state| state.phase == Phase::Frozen);
            return Ok(if frozen {
                RecordedAttempt::Frozen(running)
            } else {
                RecordedAttempt::Running(running)
            });
        }
        // A supervisor writes the exit before it leaves, so now it is there or never will be.
        Ok(self.exit()?.map_or(RecordedAttempt::Died(running), RecordedAttempt::Exited))
    }

    /// Ends what a killed supervisor left behind, however long that takes, and returns how many processes that were.
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

    /// Ends the supervisor and the processes of an attempt whose records cannot be relied on, and returns how many that were.
    ///
    /// The supervisor is known by its name and by its working directory, which is the attempt's; the rest as
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

/// An attempt whose supervisor was killed, and of which processes may be left.
#[derive(Debug)]
pub struct Orphan {
    dir: AttemptDir,
    running: RunningRecord,
    /// Its cgroups.
    groups: BTreeSet<PathBuf>,
}

impl Orphan {
    /// An attempt whose directory tells of a supervisor that is gone.
    pub fn of(dir: AttemptDir, running: RunningRecord) -> Result<Self, RecordError> {
        let frozen_by = dir.state()?.and_then(|state| state.group);
        let inside = running.task.iter().flat_map(|task| task.group.iter().chain(&task.more_groups));
        let groups = frozen_by.into_iter().chain(inside.cloned()).collect();
        Ok(Self { dir, running, groups })
    }

    /// Kills what is left of it, as far as it is in the table; gives that, so nothing once all of it is gone.
    ///
    /// The task's first process dies with its supervisor. Of the rest, those are found that have its environment or are
    /// in one of its cgroups, what descends from these, and who shares the task's session with one of them. Everything is
    /// stopped before anything is killed, so that it has no more children meanwhile.
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

/// Every process of the machine as it was at one look, with the attempt its environment names.
#[derive(Debug)]
pub struct ProcessTable(Vec<TableEntry>);

#[derive(Debug)]
struct TableEntry {
    seen: ProcessRef,
    stat: ProcessStat,
    mark: Option<Vec<u8>>,
}

impl ProcessTable {
    /// Looks once, for any number of orphans; not at all if they are of an earlier boot.
    pub fn read<'a>(orphans: impl IntoIterator<Item = &'a Orphan>) -> Self {
        match orphans.into_iter().all(|orphan| orphan.running.boot != process::boot_id()) {
            true => Self(Vec::new()),
            false => Self::now(),
        }
    }

    fn now() -> Self {
        let entry = |pid| {
            // Noted before it is looked at, so that a signal reaches what was looked at or nothing.
            let seen = ProcessRef::now(pid);
            let stat = ProcessStat::read(pid).ok().filter(|stat| stat.alive)?;
            Some(TableEntry { seen, stat, mark: mark_of(pid) })
        };
        Self(process::all_pids().into_iter().filter_map(entry).collect())
    }

    /// The processes of an attempt: those that name its directory or are known to be its own, what descends from these,
    /// and who shares the session of its first process with one of them.
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
        // The number of a session may be reused once all of it is gone, so it counts only while a sure member is in it.
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

    /// The processes of the attempt, found by descent from its supervisor.
    pub fn processes(&self) -> Vec<i32> {
        if !self.is_supervised() {
            return Vec::new();
        }
        process::descendants(self.supervisor.pid).into_iter().map(|process| process.pid).collect()
    }
}

/// The attempt directory a process's environment names.
fn mark_of(pid: i32) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |variable: &[u8]| {
        let rest = variable.strip_prefix(ATTEMPT_DIR_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(rest.to_vec())
    };
    environment.split(|&b| b == 0).find_map(value)
}
