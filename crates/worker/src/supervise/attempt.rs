//! The worker's side of an attempt directory: saying what is wanted, and finding out what is.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::AsRawFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{
    ATTEMPT_DIR_VARIABLE, freeze,
    process::{self, ProcessStat, Sighting},
    record::{self, Exit, Phase, RecordError, Running, State, Want},
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
pub enum Found {
    /// No supervisor has taken it. If a launch was sent it may still arrive; launching again is safe.
    NotStarted,
    /// It runs under a live supervisor.
    Running(Running),
    /// It is frozen under a live supervisor.
    Frozen(Running),
    /// It ended.
    Exited(Exit),
    /// Its supervisor was killed. Processes may be left: see [`AttemptDir::end_leftovers`].
    Died(Running),
}

/// What a directory says of its attempt, or why it says nothing.
pub type Look = Result<Found, RecordError>;

/// Everything found below a directory of attempt directories, in the order of their names.
pub fn scan(attempts: &Path) -> Result<Vec<(AttemptDir, Look)>, RecordError> {
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
        let found = dir.look();
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
    pub fn write_want(&self, want: Want) -> Result<(), RecordError> {
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
    pub fn want(&self) -> Result<Option<Want>, RecordError> {
        Want::read(&self.0.join(record::WANT))
    }

    /// The `running` record.
    pub fn running(&self) -> Result<Option<Running>, RecordError> {
        Running::read(&self.0.join(record::RUNNING))
    }

    /// The `state` record; absent for an attempt that was never frozen.
    pub fn state(&self) -> Result<Option<State>, RecordError> {
        record::read_record(&self.0.join(record::STATE))
    }

    /// The `exit` record.
    pub fn exit(&self) -> Result<Option<Exit>, RecordError> {
        record::read_record(&self.0.join(record::EXIT))
    }

    /// What became of the attempt.
    pub fn look(&self) -> Result<Found, RecordError> {
        if let Some(exit) = self.exit()? {
            return Ok(Found::Exited(exit));
        }
        let Some(running) = self.running()? else {
            // A start and an end may both have happened since we looked for the exit; so look for it again.
            return Ok(self.exit()?.map_or(Found::NotStarted, Found::Exited));
        };
        if running.is_supervised() {
            let frozen = self.state()?.is_some_and(|state| state.phase == Phase::Frozen);
            return Ok(if frozen { Found::Frozen(running) } else { Found::Running(running) });
        }
        // A supervisor writes the exit before it leaves, so now it is there or never will be.
        Ok(self.exit()?.map_or(Found::Died(running), Found::Exited))
    }

    /// Ends what a killed supervisor left behind, and returns how many processes that were.
    ///
    /// The task's first process dies with its supervisor. Of the rest, those are found that have its environment or are
    /// in the group it was frozen by, what descends from these, and who shares the task's session with one of them.
    pub fn end_leftovers(&self, running: &Running) -> Result<usize, RecordError> {
        let frozen_by = self.state()?.and_then(|state| state.group);
        let inside = running.task.iter().flat_map(|task| task.group.iter().chain(&task.more_groups));
        let groups: BTreeSet<_> = frozen_by.into_iter().chain(inside.cloned()).collect();
        let mut ended = BTreeSet::new();
        if running.boot != process::boot_id() {
            return Ok(0);
        }
        let leader = running.task.as_ref().map(|task| task.process.pid);
        loop {
            let left = self.leftovers(leader, &groups, |_| false);
            if left.is_empty() {
                break;
            }
            for process in left {
                if process
                    .signal(libc::SIGKILL)
                    .map_err(|source| RecordError::Io { path: self.0.clone(), source })?
                {
                    ended.insert(process.pid);
                }
            }
            thread::sleep(DYING);
        }
        Ok(ended.len())
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
            let left = self.leftovers(None, &BTreeSet::new(), supervises);
            if left.is_empty() {
                break;
            }
            ended
                .extend(left.into_iter().filter(|p| p.signal(libc::SIGKILL).unwrap_or(false)).map(|p| p.pid));
            thread::sleep(DYING);
        }
        ended.len()
    }

    fn leftovers(
        &self,
        leader: Option<i32>,
        groups: &BTreeSet<PathBuf>,
        supervises: impl Fn(i32) -> bool,
    ) -> Vec<Sighting> {
        let grouped: Vec<i32> = groups.iter().flat_map(|group| freeze::thaw_orphans(group)).collect();
        let mark = format!("{ATTEMPT_DIR_VARIABLE}={}", self.0.display());
        let mut ours = BTreeSet::new();
        let mut others = Vec::new();
        let mut session = None;
        for pid in process::all_pids() {
            // Noted before it is looked at, so that the signal reaches what was looked at or nothing.
            let seen = Sighting::now(pid);
            let Ok(stat) = ProcessStat::read(pid) else { continue };
            if !stat.alive {
                continue;
            }
            if grouped.contains(&pid) || has_mark(pid, mark.as_bytes()) || supervises(pid) {
                ours.insert(seen);
                session = session.or(leader.filter(|&leader| leader == stat.session));
            } else {
                others.push((seen, stat));
            }
        }
        // The number of a session may be reused once all of it is gone, so it counts only while a sure member is in it.
        let kin = |stat: &ProcessStat, ours: &BTreeSet<Sighting>| {
            session == Some(stat.session) || ours.iter().any(|parent| parent.pid == stat.parent)
        };
        while let Some(next) = others.iter().position(|(_, stat)| kin(stat, &ours)) {
            ours.insert(others.swap_remove(next).0);
        }
        ours.into_iter().collect()
    }
}

impl Running {
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

fn has_mark(pid: i32, mark: &[u8]) -> bool {
    let environment: io::Result<Vec<u8>> = fs::read(format!("/proc/{pid}/environ"));
    environment.is_ok_and(|text| text.split(|&b| b == 0).any(|variable| variable == mark))
}
