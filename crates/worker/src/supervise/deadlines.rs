//! The deadlines of a worker's lease, in a file: the agent writes them whenever the server has renewed the lease, and every
//! supervisor stops its attempt by them if that may run elsewhere. So an agent that is dead or stopped keeps no attempt alive.
//!
//! Times are of `CLOCK_BOOTTIME`, so a file of an earlier boot means nothing.

use super::process::boot_id;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file in the worker's data directory.
const DEADLINES_FILE: &str = "deadlines";

/// Marker file in an attempt's directory: it was ended because the lease expired.
pub const LEASE_EXPIRED: &str = "lease-expired";

/// The deadlines, since the machine booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Time at which the latest acknowledged report was sent.
    pub confirmed: Duration,
    /// Time at which attempts are asked to stop.
    pub stop_at: Duration,
    /// Time at which they are killed.
    pub kill_at: Duration,
}

impl Deadlines {
    /// The deadlines in a file of this boot; none where there are none, or they cannot be read.
    pub fn read(path: &Path) -> Option<Deadlines> {
        let text = std::fs::read_to_string(path).ok()?;
        // A line that is being written has no end yet.
        let mut words = text.strip_suffix('\n')?.split(' ');
        let mut time = {
            let is_of_this_boot = words.next() == Some(boot_id());
            move || words.next().filter(|_| is_of_this_boot)?.parse().ok().map(Duration::from_micros)
        };
        Some(Deadlines { confirmed: time()?, stop_at: time()?, kill_at: time()? })
    }
}

/// The file of deadlines, as the agent writes it. It is overwritten in place and always has the same length: on a full disk
/// there must be room for it, or attempts would be stopped for no reason.
#[derive(Debug)]
pub struct DeadlinesFile {
    file: File,
    path: PathBuf,
}

impl DeadlinesFile {
    /// Opens the file in a data directory, making it if there is none.
    pub fn open(data: &Path) -> io::Result<DeadlinesFile> {
        let path = data.join(DEADLINES_FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        Ok(DeadlinesFile { file, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes new deadlines.
    pub fn write(&self, deadlines: Deadlines) -> io::Result<()> {
        let [confirmed, stop_at, kill_at] =
            [deadlines.confirmed, deadlines.stop_at, deadlines.kill_at].map(|time| time.as_micros());
        let line = format!("{} {confirmed:020} {stop_at:020} {kill_at:020}\n", boot_id());
        self.file.write_all_at(line.as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_written_and_those_of_another_boot_are_not() {
        let data = tempfile::tempdir().expect("a directory");
        let file = DeadlinesFile::open(data.path()).expect("a file");
        assert_eq!(Deadlines::read(file.path()), None, "nothing is written yet");
        let secs = Duration::from_secs;
        for confirmed in [7, 123_456, 8] {
            let deadlines = Deadlines {
                confirmed: secs(confirmed),
                stop_at: secs(confirmed + 3),
                kill_at: secs(confirmed + 4),
            };
            file.write(deadlines).expect("written");
            assert_eq!(Deadlines::read(file.path()), Some(deadlines));
        }
        let text = std::fs::read_to_string(file.path()).expect("text");
        std::fs::write(file.path(), text.trim_end()).expect("written");
        assert_eq!(Deadlines::read(file.path()), None, "a line without an end");
        std::fs::write(file.path(), text.replace(boot_id(), "another-boot")).expect("written");
        assert_eq!(Deadlines::read(file.path()), None);
    }
}
