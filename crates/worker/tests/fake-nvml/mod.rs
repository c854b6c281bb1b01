//! Builds the fake NVML and writes its world.
//!
//! A test of any crate can use it by path: `#[path = "../../worker/tests/fake-nvml/mod.rs"] mod fake_nvml;`, with
//! `#[expect(dead_code)]` where it does not need all of this.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("nvml.c");

/// Compiles the library to `target` with the C compiler on the path.
pub(crate) fn build(target: &Path, extra: &[&str]) {
    let mut cc = Command::new("cc")
        .args(["-x", "c", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(extra)
        .arg("-o")
        .arg(target)
        .args(["-", "-ldl"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler called cc");
    cc.stdin.take().expect("a pipe").write_all(SOURCE.as_bytes()).expect("cc reads the source");
    assert!(cc.wait().expect("cc ends").success(), "cc refused the fake NVML");
}

/// A fake NVML in a directory of its own, with a world beside it.
pub(crate) struct FakeNvml {
    directory: tempfile::TempDir,
}

impl FakeNvml {
    /// Builds the library and lets it start out with this world.
    pub(crate) fn new(world: &str) -> Self {
        Self::built_with(&[], world)
    }

    /// As [`FakeNvml::new`], with more arguments for the compiler.
    pub(crate) fn built_with(extra: &[&str], world: &str) -> Self {
        let fake = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        build(&fake.library(), extra);
        fake.set(world);
        fake
    }

    /// The library to load.
    pub(crate) fn library(&self) -> PathBuf {
        self.directory.path().join("libnvidia-ml.so")
    }

    /// The file it reads when the environment names no other.
    pub(crate) fn world(&self) -> PathBuf {
        self.directory.path().join("libnvidia-ml.so.world")
    }

    /// Changes the world, all at once: no call sees half of it.
    pub(crate) fn set(&self, world: &str) {
        let next = self.directory.path().join("next");
        fs::write(&next, world).expect("the world is written");
        fs::rename(next, self.world()).expect("the world is swapped");
    }
}
