//! The claim holder: a program that waits for a process warpyard did not start, and so holds devices for it. It runs like any
//! task, which gives a claim a supervisor, a timeout and records without code of its own.

use crate::supervise::ProcessRef;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use warpyard_core::spec::{Claim, ClaimHolder};

/// The first argument that makes this program a claim holder.
pub const SUBCOMMAND: &str = "holder";

/// The command line of the holder of a claim.
pub(crate) fn command(program: &Path, claim: &Claim) -> Vec<String> {
    let mut argv = vec![program.to_string_lossy().into_owned(), SUBCOMMAND.to_owned()];
    if let Some(ClaimHolder { pid, seen_us }) = claim.process {
        argv.extend([pid.to_string(), seen_us.to_string()]);
    }
    argv
}

/// A live process of this machine as a claim names it; none if there is none of this pid.
pub fn held_process(pid: i32) -> Option<ClaimHolder> {
    let seen = ProcessRef::now(pid);
    seen.is_alive().then_some(ClaimHolder { pid, seen_us: seen.seen_us })
}

/// The pids of a process and its descendants; empty if it has ended.
pub fn process_tree(process: ClaimHolder) -> BTreeSet<u32> {
    let ClaimHolder { pid, seen_us } = process;
    ProcessRef { pid, seen_us }.process_tree().into_iter().map(|pid| pid as u32).collect()
}

/// A pidfd of a process, which becomes readable when it ends; none if it has ended.
pub fn pidfd(process: ClaimHolder) -> io::Result<Option<OwnedFd>> {
    let ClaimHolder { pid, seen_us } = process;
    ProcessRef { pid, seen_us }.pidfd()
}

/// Waits until a process ends; without one, for ever.
pub fn wait_for_end(process: Option<ClaimHolder>) -> io::Result<()> {
    match process {
        Some(ClaimHolder { pid, seen_us }) => ProcessRef { pid, seen_us }.wait(),
        None => loop {
            nix::unistd::pause();
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn holding_lasts_as_long_as_the_process() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat runs");
        let process = held_process(child.id() as i32).expect("it is alive");
        let holder = std::thread::spawn(move || wait_for_end(Some(process)));
        assert!(!holder.is_finished());
        drop(child.stdin.take());
        child.wait().expect("it ends");
        holder.join().expect("no panic").expect("it could be watched");
        assert_eq!(held_process(process.pid), None);
        wait_for_end(Some(process)).expect("one that is gone is not waited for");
    }
}
