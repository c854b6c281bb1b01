//! Descendants of our processes, read from `/proc`.
//!
//! A child that daemonises leaves its parent but not its session, so sessions count too: those that were started for
//! an attempt, and those that a descendant of ours leads.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The inode of the machine's first pid namespace; the kernel has it fixed (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// One process, as `/proc/<pid>/stat` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Who started it, or who took it over when its parent ended.
    pub parent: u32,
    /// The session it is in: the pid of the process that opened it, which may have ended since.
    pub session: u32,
    /// When it started, in clock ticks since the machine did: with the pid this names it for good.
    pub started: u64,
}

/// The processes of a machine at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessTable {
    processes: BTreeMap<u32, Process>,
}

impl ProcessTable {
    /// Reads every process below `proc` (normally `/proc`). One that ends while we look is left out.
    pub fn read(proc: &Path) -> io::Result<Self> {
        let mut processes = BTreeMap::new();
        for entry in proc.read_dir()? {
            let entry = entry?;
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
            if let Some(process) = parse_stat(&String::from_utf8_lossy(&stat)) {
                processes.insert(pid, process);
            }
        }
        Ok(Self { processes })
    }

    /// What is known of one process.
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// The processes among `roots`, all their descendants, and all members of `sessions` with theirs.
    ///
    /// The session a root merely *is in* does not count, for that may be somebody's terminal; one that a process of
    /// ours leads does.
    pub fn descendants(&self, roots: &BTreeSet<u32>, sessions: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut ours: BTreeSet<u32> =
            roots.iter().copied().filter(|pid| self.processes.contains_key(pid)).collect();
        loop {
            let before = ours.len();
            for (&pid, process) in &self.processes {
                let is_ours = ours.contains(&process.parent)
                    || ours.contains(&process.session)
                    || sessions.contains(&process.session);
                if is_ours {
                    ours.insert(pid);
                }
            }
            if ours.len() == before {
                return ours;
            }
        }
    }
}

impl FromIterator<(u32, Process)> for ProcessTable {
    fn from_iter<I: IntoIterator<Item = (u32, Process)>>(processes: I) -> Self {
        Self { processes: processes.into_iter().collect() }
    }
}

/// Parent, session and start of a `stat` line. The command's name may hold spaces and brackets, so fields are counted
/// from the last closing bracket on.
fn parse_stat(stat: &str) -> Option<Process> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(Process { parent, session, started })
}

/// Whether we live in a pid namespace of our own (a container): then the pids a driver reports are the host's and
/// mean nothing here. `None` where `proc` does not say.
pub fn in_own_pid_namespace(proc: &Path) -> Option<bool> {
    let namespace = std::fs::read_link(proc.join("self/ns/pid")).ok()?;
    Some(namespace.to_str()? != FIRST_PID_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(pids: &[u32]) -> BTreeSet<u32> {
        pids.iter().copied().collect()
    }

    fn table(rows: &[(u32, u32, u32)]) -> ProcessTable {
        rows.iter().map(|&(pid, parent, session)| (pid, Process { parent, session, started: 0 })).collect()
    }

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let line = "4242 (a) b (c)) S 17 4242 99 0 -1 4194560 1 0 0 0 2 3 0 0 20 0 1 0 5678901 1 2 3";
        assert_eq!(parse_stat(line), Some(Process { parent: 17, session: 99, started: 5_678_901 }));
        assert_eq!(parse_stat("4242 (cut short) S 17"), None);
    }

    #[test]
    fn children_that_daemonise_stay_ours() {
        // 10 is the supervisor, 11 its task, which leads a session; 13's parent 12 has ended.
        let processes =
            table(&[(1, 0, 1), (10, 1, 5), (11, 10, 11), (13, 1, 11), (14, 13, 14), (15, 1, 14), (20, 1, 5)]);
        assert_eq!(processes.descendants(&set(&[10]), &set(&[])), set(&[10, 11, 13, 14, 15]));
    }

    #[test]
    fn a_session_is_found_after_its_leader_ended() {
        let processes = table(&[(1, 0, 1), (13, 1, 11), (14, 13, 14)]);
        assert_eq!(processes.descendants(&set(&[10]), &set(&[])), set(&[]));
        assert_eq!(processes.descendants(&set(&[10]), &set(&[11])), set(&[13, 14]));
    }

    #[test]
    fn the_terminal_a_supervisor_was_started_from_is_not_ours() {
        let processes = table(&[(5, 1, 5), (10, 5, 5), (11, 10, 11), (6, 5, 5)]);
        assert_eq!(processes.descendants(&set(&[10]), &set(&[])), set(&[10, 11]));
    }

    #[test]
    fn the_machine_itself_can_be_read() {
        let proc = Path::new("/proc");
        let processes = ProcessTable::read(proc).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let with_child = ProcessTable::read(proc).unwrap();
        let ours = with_child.descendants(&set(&[std::process::id()]), &set(&[]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ours.contains(&child.id()) && ours.contains(&std::process::id()));
        assert!(processes.get(child.id()).is_none());
        assert!(in_own_pid_namespace(proc).is_some());
    }

    proptest! {
        /// Whoever is found has a path to a root or a session of ours; whoever is not, has none.
        #[test]
        fn descendants_are_closed(
            rows in prop::collection::btree_map(1u32..40, (0u32..40, 1u32..40), 0..40),
            roots in prop::collection::btree_set(1u32..40, 0..3),
            sessions in prop::collection::btree_set(1u32..40, 0..2),
        ) {
            let processes = table(&rows.iter().map(|(&pid, &(parent, sid))| (pid, parent, sid)).collect::<Vec<_>>());
            let ours = processes.descendants(&roots, &sessions);
            for (&pid, &(parent, session)) in &rows {
                let related = ours.contains(&parent) || ours.contains(&session) || sessions.contains(&session);
                prop_assert_eq!(ours.contains(&pid), roots.contains(&pid) || related);
            }
            prop_assert!(ours.iter().all(|pid| rows.contains_key(pid)));
        }
    }
}
