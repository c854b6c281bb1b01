//! What several fuzz targets need: a scratch directory in memory, model files, and the readers that live in the binary.

pub mod binary;
mod input;
pub mod model;
mod usage_error;
mod workload;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory for the files of one input, empty again after each. In memory, so that nothing waits for a disk.
pub struct Scratch {
    root: TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Scratch { root: root.expect("a directory can be made") }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

/// Runs something with this process's scratch directory.
pub fn with_scratch<T>(run: impl FnOnce(&Scratch) -> T) -> T {
    thread_local! { static SCRATCH: OnceCell<Scratch> = const { OnceCell::new() } }
    SCRATCH.with(|scratch| run(scratch.get_or_init(Scratch::new)))
}

/// The input as text; most readers are given nothing else.
pub fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}
