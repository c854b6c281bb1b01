//! Tables that are damaged: they are set aside and not removed, for they have what the log no longer does.

use super::History;
use crate::store::LogError;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

impl History {
    /// Opens the tables; damaged ones are set aside, and what the log still has of them can be entered anew.
    pub fn open_or_set_aside(path: &Path) -> Result<History, LogError> {
        let (damaged, source) = match History::open(path) {
            Err(LogError::Damaged { path, source }) => (path, source),
            opened => return opened,
        };
        let Ok(aside) = set_aside(path) else { return Err(LogError::Damaged { path: damaged, source }) };
        eprintln!(
            "warpyard: {} is damaged ({source}); it is {} from now on, and what the log still has is entered anew",
            path.display(),
            aside.display()
        );
        History::open(path)
    }
}

/// Gives a file of SQLite's another name, with all that belongs to it, and leaves an empty one that others cannot read.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let with = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let mut names = (1..).map(|n| with(path, &format!(".damaged-{n}")));
    let aside = names.find(|name| !name.exists()).expect("there is no last number");
    fs::rename(path, &aside)?;
    for end in ["-wal", "-shm"] {
        let _not_there = fs::rename(with(path, end), with(&aside, end));
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(aside)
}
