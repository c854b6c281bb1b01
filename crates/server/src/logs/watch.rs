//! Wakes readers of growing logs: inotify on the directories that the logs are, or will be, in.
//!
//! All readers share one inotify instance. The kernel has few of them for each user (128 by default), and the server's
//! user may be root, whose other services need theirs: users who follow many logs at once must not use them up.

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// How often a log is looked at where the kernel gives no notification: it has so many watches for each user, and no more.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The inotify instance of a server, made when the first log is followed.
#[derive(Default)]
pub(crate) struct LogWatches(OnceLock<Option<Arc<Instance>>>);

impl LogWatches {
    /// Watches a directory from now on, whether it is there or not. What happens after this is not missed.
    pub(crate) fn watch(&self, dir: &Path) -> LogWatch {
        let instance = self.0.get_or_init(|| match Instance::start() {
            Ok(instance) => Some(instance),
            Err(e) => {
                tracing::warn!("logs that are followed are polled, because inotify cannot be used: {e}");
                None
            }
        });
        let mut watch = LogWatch {
            dir: dir.to_owned(),
            instance: instance.clone(),
            woken: Arc::default(),
            held: Vec::new(),
            is_on_dir: false,
        };
        watch.extend();
        watch
    }
}

struct Instance {
    inotify: AsyncFd<Descriptor>,
    /// Readers to wake, by watch.
    readers: Mutex<BTreeMap<WatchDescriptor, Vec<Arc<Notify>>>>,
    /// Whether notifications can no longer be read.
    failed: AtomicBool,
}

struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Instance {
    #[expect(deprecated, reason = "the descriptor stays open for as long as it is registered")]
    fn start() -> io::Result<Arc<Instance>> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let inotify = AsyncFd::with_interest(Descriptor(inotify), tokio::io::Interest::READABLE)?;
        let instance = Arc::new(Instance { inotify, readers: Mutex::default(), failed: false.into() });
        tokio::spawn(Arc::clone(&instance).dispatch());
        Ok(instance)
    }

    /// Wakes readers for as long as notifications can be read.
    async fn dispatch(self: Arc<Self>) {
        while let Ok(mut ready) = self.inotify.readable().await {
            match ready.get_inner().0.read_events() {
                Ok(events) => events.iter().for_each(|event| self.wake(event.wd, event.mask)),
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        tracing::warn!("logs that are followed are polled, because notifications cannot be read");
        self.failed.store(true, Ordering::Release);
        self.readers().values().flatten().for_each(|reader| reader.notify_one());
    }

    fn wake(&self, watch: WatchDescriptor, mask: AddWatchFlags) {
        let mut readers = self.readers();
        if mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            // Notifications were lost, and nobody knows whose.
            return readers.values().flatten().for_each(|reader| reader.notify_one());
        }
        for reader in readers.get(&watch).into_iter().flatten() {
            reader.notify_one();
        }
        // The directory is gone, and the kernel has removed its watch.
        if mask.contains(AddWatchFlags::IN_IGNORED) {
            readers.remove(&watch);
        }
    }

    fn readers(&self) -> MutexGuard<'_, BTreeMap<WatchDescriptor, Vec<Arc<Notify>>>> {
        self.readers.lock().expect("nobody panics here")
    }

    /// Has a reader woken by what happens in a directory.
    fn add(&self, dir: &Path, reader: &Arc<Notify>) -> Result<WatchDescriptor, Errno> {
        // The same for every directory, since readers share watches.
        let events = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ONLYDIR;
        // Locked meanwhile: readers of one directory share a watch, and the last of the others may be about to remove it.
        let mut readers = self.readers();
        let watch = self.inotify.get_ref().0.add_watch(dir, events)?;
        let of_watch = readers.entry(watch).or_default();
        if !of_watch.iter().any(|known| Arc::ptr_eq(known, reader)) {
            of_watch.push(Arc::clone(reader));
        }
        Ok(watch)
    }

    /// Has a reader no longer woken by a watch, which goes with its last reader.
    fn remove(&self, watch: WatchDescriptor, reader: &Arc<Notify>) {
        let mut readers = self.readers();
        let Some(of_watch) = readers.get_mut(&watch) else { return };
        of_watch.retain(|known| !Arc::ptr_eq(known, reader));
        if of_watch.is_empty() {
            readers.remove(&watch);
            let _gone_with_its_directory = self.inotify.get_ref().0.rm_watch(watch);
        }
    }
}

/// A reader's watch on the directory of a log.
pub(crate) struct LogWatch {
    dir: PathBuf,
    /// None where the kernel refused a watch: the log is polled.
    instance: Option<Arc<Instance>>,
    woken: Arc<Notify>,
    held: Vec<WatchDescriptor>,
    /// Whether the directory itself is watched, and not the one that it will be made in.
    is_on_dir: bool,
}

impl LogWatch {
    /// Waits until something was written, or may have been. The reader looks at the file again.
    pub(crate) async fn changed(&mut self) {
        match &self.instance {
            Some(instance) if !instance.failed.load(Ordering::Acquire) => {
                // Which event it was does not matter: the file is read to its end.
                self.woken.notified().await;
                self.extend();
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }

    /// Watches the directory once it is there; until then the nearest one above it that is, in which the next will be made.
    fn extend(&mut self) {
        if self.is_on_dir {
            return;
        }
        let Some(instance) = &self.instance else { return };
        let mut at = self.dir.as_path();
        let failed = loop {
            match (instance.add(at, &self.woken), at.parent()) {
                (Ok(watch), _) if at == self.dir => {
                    self.held.retain(|above| *above != watch);
                    self.held.drain(..).for_each(|above| instance.remove(above, &self.woken));
                    self.held.push(watch);
                    self.is_on_dir = true;
                    return;
                }
                // One that was made before this watch was set has woken nobody: on with it, down to the one that is missing.
                (Ok(watch), _) => {
                    if !self.held.contains(&watch) {
                        self.held.push(watch);
                    }
                    match self.dir.ancestors().take_while(|below| *below != at).last() {
                        Some(next) if next.exists() => at = next,
                        _ => return,
                    }
                }
                (Err(Errno::ENOENT), Some(parent)) => at = parent,
                (Err(e), _) => break e,
            }
        };
        tracing::debug!("{} is polled, because it cannot be watched: {failed}", self.dir.display());
        self.release();
    }

    /// Gives up every watch.
    fn release(&mut self) {
        if let Some(instance) = self.instance.take() {
            self.held.drain(..).for_each(|watch| instance.remove(watch, &self.woken));
        }
    }
}

impl Drop for LogWatch {
    fn drop(&mut self) {
        self.release();
    }
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
        let watches = LogWatches::default();
        let mut watch = watches.watch(&dir);
        assert!(watch.instance.is_some() && is_quiet(&mut watch), "nothing has happened yet");
        fs::create_dir_all(&logs).expect("made");
        watch.changed().await;
        assert!(!watch.is_on_dir);
        fs::create_dir(&dir).expect("made");
        while !watch.is_on_dir {
            watch.changed().await;
        }
        append(&dir.join("log"));
        watch.changed().await;
        // What the directories above it still had to say does not come after this.
        fs::create_dir(logs.join("8.0.0.1")).expect("made");
        append(&dir.join("log"));
        watch.changed().await;
    }

    #[tokio::test]
    async fn however_many_read_logs_the_server_has_one_inotify_instance() {
        // The kernel's usual limit is 128 instances for each user.
        const READERS: usize = 300;
        let data = tempfile::tempdir().expect("a directory");
        let dirs: Vec<_> = (1..=READERS).map(|job| data.path().join(format!("{job}.0.0.1"))).collect();
        let watches = LogWatches::default();
        let mut readers: Vec<_> = dirs.iter().map(|dir| watches.watch(dir)).collect();
        // Two readers of one log share its watch, and the second stays when the first leaves.
        let mut second = watches.watch(&dirs[0]);
        for dir in &dirs {
            fs::create_dir(dir).expect("made");
        }
        for reader in &mut readers {
            while !reader.is_on_dir {
                reader.changed().await;
            }
        }
        while !second.is_on_dir {
            second.changed().await;
        }
        let instance = readers[0].instance.clone().expect("one");
        assert!(
            readers
                .iter()
                .all(|reader| reader.instance.as_ref().is_some_and(|of| Arc::ptr_eq(of, &instance)))
        );
        assert_eq!(instance.readers().len(), READERS, "a watch for each log, and none above them");
        for (reader, dir) in readers.iter_mut().zip(&dirs).skip(1) {
            append(&dir.join("log"));
            reader.changed().await;
        }
        drop(readers);
        assert_eq!(instance.readers().len(), 1, "watches go with their readers");
        append(&dirs[0].join("log"));
        second.changed().await;
        fs::remove_file(dirs[0].join("log")).and_then(|()| fs::remove_dir(&dirs[0])).expect("removed");
        second.changed().await;
        drop(second);
        assert!(instance.readers().is_empty());
    }
}
