//! A directory for attempts with a spawner, and what every room needs to look at them.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use warpyard_worker::supervise::{
    AttemptDir, DesiredRecord, ExitCause, ExitRecord, Launch, NotifyListener, Phase, ProcessRef,
    RecordedAttempt, RunningRecord, Spawner, scan,
};

/// Longer than anything here takes; a test that waits this long has failed.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(120);

/// Two that left the session, one of them also its parent; neither heeds TERM.
pub(crate) const ESCAPE: &str = "setsid sh -c 'trap \"\" TERM; echo $$ >$HOME/pids; while :; do sleep 0.01; done' & \
     (setsid sh -c 'trap \"\" TERM; echo $$ >$HOME/pids; while :; do sleep 0.01; done' &) ;";

/// A directory for attempts, a spawner, and an ear for pokes.
pub(crate) struct Yard {
    pub(crate) home: tempfile::TempDir,
    pub(crate) spawner: Spawner,
    pub(crate) pokes: UnixDatagram,
    launched: usize,
}

impl Yard {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.path().join("attempts")).unwrap();
        let pokes = NotifyListener::bind(home.path().join("pokes")).unwrap().into_std();
        pokes.set_read_timeout(Some(FOR_EVER)).unwrap();
        let spawner = Spawner::start(example("spawner"), Vec::<String>::new()).unwrap();
        Self { home, spawner, pokes, launched: 0 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn attempts(&self) -> PathBuf {
        self.path("attempts")
    }

    /// A launch of a shell script that finds our directory in `$HOME`.
    pub(crate) fn script(&mut self, script: &str) -> Launch {
        self.command(["/bin/sh", "-c", script])
    }

    pub(crate) fn command<const N: usize>(&mut self, argv: [&str; N]) -> Launch {
        self.launched += 1;
        let key = format!("{}.0.0.1", self.launched);
        let mut launch = Launch::new(&key, self.attempts().join(&key), argv);
        launch.program.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        launch.program.env.insert("HOME".into(), self.home.path().to_str().unwrap().into());
        launch.notify = Some(self.path("pokes"));
        launch
    }

    pub(crate) fn launch(&mut self, launch: &Launch) -> AttemptDir {
        self.spawner.launch(launch).unwrap();
        AttemptDir::new(&launch.dir)
    }

    /// Waits for pokes until `dir` shows what is asked for.
    pub(crate) fn until<T>(&self, dir: &AttemptDir, wanted: impl Fn(RecordedAttempt) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(dir.inspect().unwrap()) {
                return found;
            }
            let poked = self.pokes.recv(&mut [0; 64]);
            assert!(poked.is_ok(), "{:?} stays {:?} in state {:?}", dir.path(), dir.inspect(), dir.state());
        }
    }

    pub(crate) fn exit(&self, dir: &AttemptDir) -> ExitRecord {
        self.until(dir, |found| match found {
            RecordedAttempt::Exited(exit) => Some(exit),
            _ => None,
        })
    }

    pub(crate) fn running(&self, dir: &AttemptDir) -> RunningRecord {
        self.until(dir, |found| match found {
            RecordedAttempt::Supervised(running, Phase::Running | Phase::Freezing)
                if running.task.is_some() =>
            {
                Some(running)
            }
            _ => None,
        })
    }

    /// The same where nobody is poked.
    pub(crate) fn running_unpoked(&self, dir: &AttemptDir) -> RunningRecord {
        let runs = |found: &RecordedAttempt| matches!(found, RecordedAttempt::Supervised(running, Phase::Running) if running.task.is_some());
        eventually("it runs", || dir.inspect().is_ok_and(|found| runs(&found)));
        dir.running().unwrap().unwrap()
    }

    pub(crate) fn frozen(&self, dir: &AttemptDir) -> RunningRecord {
        self.until(dir, |found| match found {
            RecordedAttempt::Supervised(running, Phase::Frozen) => Some(running),
            _ => None,
        })
    }

    pub(crate) fn run(&mut self, launch: &Launch) -> ExitRecord {
        let dir = self.launch(launch);
        self.exit(&dir)
    }

    /// A named pipe, by which a script says where it is or is held back.
    pub(crate) fn fifo(&self, name: &str) -> Fifo {
        let path = self.path(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        Fifo(path)
    }
}

/// A test that failed leaves no process behind.
impl Drop for Yard {
    fn drop(&mut self) {
        for (dir, found) in scan(&self.attempts()).into_iter().flatten() {
            if matches!(found, Ok(RecordedAttempt::Supervised(..))) && thread::panicking() {
                let _already_failed = dir.write_desired(DesiredRecord::Stop { grace_ms: 0 });
            }
        }
    }
}

pub(crate) struct Fifo(pub(crate) PathBuf);

impl Fifo {
    /// The next pids scripts write to it.
    pub(crate) fn pids<const N: usize>(&self) -> [ProcessRef; N] {
        // Open for writing too, so that it does not end between two writers.
        let file = fs::File::options().read(true).write(true).open(&self.0).unwrap();
        let mut lines = BufReader::new(file).lines();
        std::array::from_fn(|_| ProcessRef::now(lines.next().unwrap().unwrap().parse().unwrap()))
    }

    /// Lets the script that reads from it go on.
    pub(crate) fn go(&self) {
        fs::write(&self.0, "go\n").unwrap();
    }
}

/// Built by `cargo test` next to the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let path =
        std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: run all of this package's tests, or build its examples",
        path.display()
    );
    path
}

/// For what has no event to wait for: a file somebody else writes, a process that is not our child.
pub(crate) fn eventually(what: &str, check: impl Fn() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < FOR_EVER, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a file to have this text.
pub(crate) fn comes_to_have(path: &Path, wanted: &str) {
    let began = Instant::now();
    while text(path) != wanted {
        assert!(began.elapsed() < FOR_EVER, "{}: {:?} in place of {wanted:?}", path.display(), text(path));
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

pub(crate) fn failed_to_start(exit: &ExitRecord) -> &str {
    match &exit.cause {
        ExitCause::FailedToStart { message } => message,
        other => panic!("expected a failure to start, got {other:?}"),
    }
}
