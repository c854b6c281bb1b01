//! Wakes a reader of a growing log: inotify on the directory that the log is, or will be, in.

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// How often a log is looked at where the kernel gives no notification: it has so many watches for each user, and no more.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A watch on the directory of a log.
pub(super) struct LogWatch {
    dir: PathBuf,
    /// None where the kernel refused one.
    notifications: Option<AsyncFd<Descriptor>>,
    /// Whether the directory itself is watched, and not the one that it will be made in.
    is_on_dir: bool,
}

struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl LogWatch {
    /// Watches a directory from now on, whether it is there or not. What happens after this is not missed.
    pub(super) fn new(dir: &Path) -> LogWatch {
        let notifications = match start() {
            Ok(notifications) => Some(notifications),
            Err(e) => {
                tracing::debug!("a log is polled, because it cannot be watched: {e}");
                None
            }
        };
        let mut watch = LogWatch { dir: dir.to_owned(), notifications, is_on_dir: false };
        watch.extend();
        watch
    }

    /// Waits until something was written, or may have been. The reader looks at the file again.
    pub(super) async fn changed(&mut self) {
        let Some(notifications) = &self.notifications else { return tokio::time::sleep(POLL_INTERVAL).await };
        match notifications.readable().await {
            Ok(mut ready) => {
                // Which event it was does not matter: all that came are taken, and the file is read to its end.
                while let Ok(true) = ready.get_inner().0.read_events().map(|events| !events.is_empty()) {}
                ready.clear_ready();
                self.extend();
            }
            Err(_) => self.notifications = None,
        }
    }

    /// Watches the directory once it is there; until then the nearest one above it that is, in which the next will be made.
    fn extend(&mut self) {
        if self.is_on_dir {
            return;
        }
        let Some(notifications) = &self.notifications else { return };
        let inotify = &notifications.get_ref().0;
        let made = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        let written = made | AddWatchFlags::IN_MODIFY;
        let mut at = self.dir.as_path();
        let failed = loop {
            let events = if at == self.dir { written } else { made };
            match (inotify.add_watch(at, events), at.parent()) {
                (Ok(_), _) if at == self.dir => {
                    self.is_on_dir = true;
                    return;
                }
                // One that was made before this watch was set has woken nobody: on with it, down to the one that is missing.
                (Ok(_), _) => match self.dir.ancestors().take_while(|below| *below != at).last() {
                    Some(next) if next.exists() => at = next,
                    _ => return,
                },
                (Err(Errno::ENOENT), Some(parent)) => at = parent,
                (Err(e), _) => break e,
            }
        };
        tracing::debug!("{} is polled, because it cannot be watched: {failed}", self.dir.display());
        self.notifications = None;
    }
}

#[expect(deprecated, reason = "the descriptor stays open for as long as it is registered")]
fn start() -> io::Result<AsyncFd<Descriptor>> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    AsyncFd::with_interest(Descriptor(inotify), tokio::io::Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::future::Future;
    use std::io::Write;
    use std::task::{Context, Poll, Waker};

    fn is_quiet(watch: &mut LogWatch) -> bool {
        let mut changed = std::pin::pin!(watch.changed());
        changed.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
    }

    fn append(path: &Path) {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(b"line\n")).expect("written");
    }

    #[tokio::test]
    async fn a_reader_is_woken_by_what_is_written_also_to_a_log_that_was_not_there() {
        let data = tempfile::tempdir().expect("a directory");
        // The first log of a server: the directory of its logs is not there either.
        let logs = data.path().join("logs/c18cfd1f");
        let dir = logs.join("7.0.0.1");
        let mut watch = LogWatch::new(&dir);
        assert!(watch.notifications.is_some() && is_quiet(&mut watch), "nothing has happened yet");
        fs::create_dir_all(&logs).expect("made");
        watch.changed().await;
        assert!(!watch.is_on_dir);
        fs::create_dir(&dir).expect("made");
        watch.changed().await;
        append(&dir.join("log"));
        watch.changed().await;
        while !is_quiet(&mut watch) {}
        append(&dir.join("log"));
        watch.changed().await;
    }
}
