//! A mount that hangs: whoever touches it waits in the kernel, where not even KILL reaches, until the test has ended.

use crate::machine::Person;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A file system in someone's home that stops answering.
pub(crate) struct HungMount {
    pub(crate) path: PathBuf,
    server: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl HungMount {
    /// Mounts it; `at` says which requests hang: `lookup` or `write`.
    pub(crate) fn of(person: &Person<'_>, at: &str) -> Self {
        let path = person.home.join("hung");
        fs::create_dir(&path).expect("a mount point");
        chown(&path, Some(person.uid), Some(person.gid)).expect("it can be given");
        Self::over(path, person, at)
    }

    /// Mounts it over a directory of someone's.
    pub(crate) fn over(path: PathBuf, person: &Person<'_>, at: &str) -> Self {
        let mut server = Command::new("python3");
        server.arg("-c").arg(include_str!("hung.py")).arg(&path).arg(person.uid.to_string()).arg(at);
        let mut server = server.stdout(Stdio::piped()).spawn().expect("python3 runs");
        let said = BufReader::new(server.stdout.take().expect("piped")).lines();
        let mut mount = Self { path, server, said };
        mount.says("mounted");
        mount
    }

    /// Waits until a request hangs.
    pub(crate) fn hangs(&mut self) {
        self.says("hangs");
    }

    fn says(&mut self, word: &str) {
        let line = self.said.next().expect("it goes on").expect("text");
        assert_eq!(line, word);
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        let _gone = self.server.kill();
        let _status = self.server.wait();
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.path).output();
    }
}
