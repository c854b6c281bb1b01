//! The group of the kernel's that an attempt's processes live in, where one can be made: it bounds how many they are and
//! ends all of them at once, whatever they do meanwhile. How processes are frozen, in this group or another, is in `freeze`.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

use super::freeze::own_group;

/// How many processes and threads a task may have unless something else is said; fewer where the machine has room for few.
const MOST: u64 = 8192;

/// How a worker keeps its tasks from having too many processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many processes and threads one may have.
    pub most: u64,
    /// Where the kernel sees to that; elsewhere they are counted now and then, and for users but root there is
    /// [`Bounds::of_user`].
    pub ground: Option<Ground>,
}

impl Bounds {
    /// The best there is here. Where starting a task would take noticeably longer, only if a bound was asked for.
    pub fn find(asked: Option<u64>) -> Self {
        let ground = Ground::find(Hierarchy::Unified).ok();
        let ground = ground.or_else(|| asked.and_then(|_| Ground::find(Hierarchy::Pids).ok()));
        Self { most: asked.unwrap_or(MOST.min(room() / 4)), ground }
    }

    /// How many processes a user may have in all: the kernel counts those of all tasks together, and what they have besides.
    pub fn of_user(&self) -> u64 {
        self.most.saturating_mul(4).min(room() / 2).max(self.most)
    }
}

/// How many processes and threads the machine has numbers for.
fn room() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(32_768)
}

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// In which hierarchy.
    pub hierarchy: Hierarchy,
    /// Below which group.
    pub parent: PathBuf,
}

/// The kernel's hierarchies of groups that can bound processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hierarchy {
    /// The unified one. A process can begin in a group of it, which costs next to nothing.
    Unified,
    /// The old one of the controller `pids`. A process has to move there, for which all others stand still a moment.
    Pids,
}

impl Ground {
    /// Where this process can make groups that bound their processes, in a hierarchy; tried out.
    pub fn find(hierarchy: Hierarchy) -> io::Result<Self> {
        let controller = match hierarchy {
            Hierarchy::Unified => None,
            Hierarchy::Pids => Some("pids"),
        };
        let ground = Self { hierarchy, parent: own_group(controller)? };
        // There may be several agents in a process.
        static TRIALS: AtomicU64 = AtomicU64::new(0);
        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        Pen::make(&ground, &format!("trial-{}-{number}", std::process::id()), Some(1))?.remove();
        Ok(ground)
    }
}

/// A group with one attempt's processes.
#[derive(Debug)]
pub(super) struct Pen {
    pub(super) path: PathBuf,
    pub(super) hierarchy: Hierarchy,
}

impl Pen {
    /// Makes a group that holds at most so many processes and threads.
    pub(super) fn make(ground: &Ground, name: &str, most: Option<u64>) -> io::Result<Self> {
        let pen = Self { path: ground.parent.join(format!("warpyard-{name}")), hierarchy: ground.hierarchy };
        fs::create_dir(&pen.path)?;
        let bounded = most.map_or(Ok(()), |most| pen.bound(&ground.parent, most));
        if let Err(e) = bounded {
            pen.remove();
            return Err(e);
        }
        Ok(pen)
    }

    fn bound(&self, parent: &Path, most: u64) -> io::Result<()> {
        let max = self.path.join("pids.max");
        if self.hierarchy == Hierarchy::Unified && !max.exists() {
            fs::write(parent.join("cgroup.subtree_control"), "+pids")?;
        }
        fs::write(max, most.to_string())
    }

    /// What a child needs to get in: the directory for one that begins there, else the file it has to write to.
    pub(super) fn gate(&self) -> io::Result<Gate> {
        let begin = match self.hierarchy {
            Hierarchy::Unified => Some(File::open(&self.path)?),
            Hierarchy::Pids => None,
        };
        let join = OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))?;
        Ok(Gate { begin, join })
    }

    /// Ends all that is in it and whatever that starts, or has nothing more start in it where that is all there is.
    pub(super) fn kill(&self) {
        match self.hierarchy {
            Hierarchy::Unified => drop(fs::write(self.path.join("cgroup.kill"), "1")),
            Hierarchy::Pids => drop(fs::write(self.path.join("pids.max"), "0")),
        }
    }

    /// How often a process or thread was refused.
    pub(super) fn refused(&self) -> u64 {
        let events = fs::read_to_string(self.path.join("pids.events")).unwrap_or_default();
        let count = events.lines().find_map(|line| line.strip_prefix("max ")?.parse().ok());
        count.unwrap_or(0)
    }

    pub(super) fn remove(&self) {
        let _left_for_the_next_boot = fs::remove_dir(&self.path);
    }
}

/// The ways into a group, open.
#[derive(Debug)]
pub(super) struct Gate {
    /// Its directory, if a process can begin in it.
    pub(super) begin: Option<File>,
    /// The file by which a process joins.
    pub(super) join: File,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn agents_of_one_process_do_not_keep_each_other_from_a_ground() {
        let find = || (0..50).all(|_| Ground::find(Hierarchy::Pids).is_ok());
        if Ground::find(Hierarchy::Pids).is_err() {
            return eprintln!("SKIPPED: no group that bounds processes can be made here");
        }
        let all = thread::scope(|threads| {
            [(); 4].map(|()| threads.spawn(find)).map(|one| one.join().expect("no panic"))
        });
        assert_eq!(all, [true; 4]);
    }
}
