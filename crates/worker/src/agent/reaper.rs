//! The reaper: a thread that kills processes whose supervisor was killed. Orphans may fork faster than they are killed, and
//! inspecting one may hang; neither must delay the agent. Each round scans all processes once, for all orphans.

use super::handle::Nudge;
use crate::supervise::{AttemptDir, Orphan, ProcessTable, RecordError, RunningRecord};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;
use warpyard_core::AttemptId;

/// Delays between rounds: short at first, since a killed process takes a moment to exit, and long where killing has no effect.
const SOONEST: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_secs(1);

/// Handle to the thread.
pub(super) struct Reaper {
    orphans: Sender<(AttemptId, Orphan)>,
    /// Attempts that are being reaped.
    under_way: BTreeSet<AttemptId>,
}

impl Reaper {
    /// Starts the thread, which notifies the agent of each attempt that has no process left.
    pub(super) fn start(nudges: Sender<Nudge>) -> Self {
        let (orphans, receiver) = unbounded();
        let reap = move || reap(&receiver, &nudges);
        thread::Builder::new().name("reaper".into()).spawn(reap).expect("a thread can be started");
        Self { orphans, under_way: BTreeSet::new() }
    }

    /// Adds an attempt, unless it is being reaped already.
    pub(super) fn take(
        &mut self,
        id: AttemptId,
        dir: &AttemptDir,
        running: RunningRecord,
    ) -> Result<(), RecordError> {
        if !self.under_way.contains(&id) {
            let orphan = Orphan::of(dir.clone(), running)?;
            self.under_way.insert(id);
            let _thread_lives_as_long = self.orphans.send((id, orphan));
        }
        Ok(())
    }

    /// Removes an attempt that has no process left.
    pub(super) fn done(&mut self, id: AttemptId) {
        self.under_way.remove(&id);
    }
}

fn reap(orphans: &Receiver<(AttemptId, Orphan)>, nudges: &Sender<Nudge>) {
    let mut left: BTreeMap<AttemptId, Orphan> = BTreeMap::new();
    let mut pause = SOONEST;
    loop {
        if left.is_empty() {
            let Ok((id, orphan)) = orphans.recv() else { return };
            left.insert(id, orphan);
            pause = SOONEST;
        }
        left.extend(orphans.try_iter());
        let table = ProcessTable::read(left.values());
        let gone: Vec<AttemptId> =
            left.iter().filter(|(_, orphan)| orphan.end(&table).is_empty()).map(|(&id, _)| id).collect();
        for id in gone {
            left.remove(&id);
            if nudges.send(Nudge::Reaped(id)).is_err() {
                return;
            }
        }
        if !left.is_empty() {
            thread::sleep(pause);
            pause = (pause * 2).min(LATEST);
        }
    }
}
