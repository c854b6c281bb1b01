//! The stages of a task's set-up: unpacking its snapshot, opening named outputs, starting the program. Each stage is a child
//! process, so that the supervisor can time it out, freeze or kill it.

use std::{collections::VecDeque, io, path::PathBuf, time::Duration};

use warpyard_snapshot::{Hash, Owner, Store};

use super::{
    child::{Child, ForkOptions},
    launch::{Launch, Unpack, User},
    output::Outputs,
};

/// How long a killed child may take to exit. One that takes longer hangs in the kernel, in a call to a file system that does
/// not answer. With SIGKILL pending it never executes another instruction, so it need not be waited for.
pub(super) const ABANDON: Duration = Duration::from_secs(2);

/// One step of the set-up.
#[derive(Debug)]
pub(super) enum Stage {
    /// Unpacks the snapshot into the directory the task runs in.
    Unpack(Unpack),
    /// Opens a named output, for the sink of this index.
    Output(PathBuf, usize),
    /// Becomes the program.
    Task,
}

impl Stage {
    /// The stages of a launch, in order.
    pub(super) fn all(launch: &Launch, outputs: &Outputs) -> VecDeque<Stage> {
        let unpack = launch.unpack.clone().map(Stage::Unpack);
        let named = outputs.named().iter().map(|(path, sink)| Stage::Output(path.clone(), *sink));
        unpack.into_iter().chain(named).chain([Stage::Task]).collect()
    }

    /// The stage as the end of a sentence in the task's log.
    pub(super) fn describe(&self) -> String {
        match self {
            Stage::Unpack(_) => "while its snapshot was unpacked".into(),
            Stage::Output(path, _) => format!("while {} was opened for output", path.display()),
            Stage::Task => "before its program ran".into(),
        }
    }
}

/// Forks a child that unpacks a snapshot and gives the directory to the task's user.
pub(super) fn unpack(unpack: &Unpack, user: Option<&User>) -> io::Result<Child> {
    Child::fork(ForkOptions::default(), |line, _| {
        put_back(unpack, user).map_err(String::into_bytes)?;
        line.ready();
        Ok(())
    })
}

fn put_back(unpack: &Unpack, user: Option<&User>) -> Result<(), String> {
    let failed = |e: &dyn std::error::Error| {
        let why = e.source().map(|source| format!(": {source}")).unwrap_or_default();
        format!("cannot put back the snapshot: {e}{why}")
    };
    let id = Hash::try_from(unpack.snapshot.clone()).map_err(|e| failed(&e))?;
    let owner = user.map(|user| Owner { uid: user.uid, gid: user.gid });
    let store = Store::of(&unpack.store, &unpack.person);
    warpyard_snapshot::unpack(&store, &id, &unpack.into, owner, unpack.most_bytes).map_err(|e| failed(&e))
}
