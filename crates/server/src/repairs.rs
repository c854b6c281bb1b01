//! Repairs of damaged files: printed when the server starts, recorded in a file for `warpyard doctor`, and counted.

use crate::clock::Clock;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The file, one JSON object a line.
const FILE: &str = "repairs.jsonl";

/// The most the file grows to: damage that is found again and again must not fill the disk.
const LARGEST: u64 = 1 << 20;

/// One repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// When it was made, in microseconds since 1970.
    pub at: u64,
    /// What was damaged and what was done about it.
    pub what: String,
}

/// The repairs made in a data directory.
#[derive(Default)]
pub(crate) struct Repairs {
    /// The file, and the clock that dates its entries.
    file: Option<(PathBuf, Clock)>,
    noted: Mutex<RepairNotes>,
}

#[derive(Default)]
struct RepairNotes {
    before: u64,
    now: Vec<String>,
    /// Whether the repairs made at the start were printed; later ones are logged as they are made.
    announced: bool,
}

impl Repairs {
    /// The repairs recorded in a data directory; further ones are recorded there.
    pub(crate) fn kept_in(data: &Path, clock: Clock) -> Repairs {
        let before = read(data).len() as u64;
        Repairs {
            file: Some((data.join(FILE), clock)),
            noted: Mutex::new(RepairNotes { before, ..RepairNotes::default() }),
        }
    }

    /// Records a repair.
    pub(crate) fn note(&self, what: String) {
        if let Err(e) = self.keep(&what) {
            tracing::warn!("no note can be kept of a repair ({e})");
        }
        let mut noted = self.noted.lock().expect("nobody panics while noting");
        if noted.announced {
            tracing::warn!("{what}");
        }
        noted.now.push(what);
    }

    fn keep(&self, what: &str) -> io::Result<()> {
        let Some((path, clock)) = &self.file else { return Ok(()) };
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        if file.metadata()?.len() > LARGEST {
            return Ok(());
        }
        let mut line = serde_json::to_vec(&Repair { at: clock.now().0, what: what.to_owned() })?;
        line.push(b'\n');
        file.write_all(&line)
    }

    /// The repairs made since the server started, to be printed now; later ones are logged as they are made.
    pub(crate) fn announce(&self) -> Vec<String> {
        let mut noted = self.noted.lock().expect("nobody panics while noting");
        noted.announced = true;
        noted.now.clone()
    }

    /// The number of repairs ever made in the data directory.
    pub(crate) fn count(&self) -> u64 {
        let noted = self.noted.lock().expect("nobody panics while noting");
        noted.before + noted.now.len() as u64
    }
}

/// The repairs made in a data directory, the oldest first.
pub fn read(data: &Path) -> Vec<Repair> {
    let text = fs::read_to_string(data.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
