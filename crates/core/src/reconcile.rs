//! The worker's half: what to do so that what *is* becomes what *should be*. Called after every message and every
//! change, it needs no memory of either.

use crate::cluster::{Desired, Want};
use crate::ids::AttemptId;
use std::collections::BTreeMap;

/// What a worker has of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// It was begun; whether its process runs is not known yet.
    Beginning,
    /// Its process runs.
    Running,
    /// It stands still.
    Frozen,
    /// It is over, and the server may not know.
    Over,
}

/// What a worker does about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Begin it.
    Launch(AttemptId),
    /// Make it stand still.
    Freeze(AttemptId),
    /// Let it go on.
    Thaw(AttemptId),
    /// End it.
    Stop(AttemptId),
    /// Say that it is gone: it ran, and nothing of it is here.
    ReportLost(AttemptId),
    /// Say that it never began: it was asked to stop before it was launched.
    ReportStopped(AttemptId),
    /// Let go of what is kept about it: the server knows its end.
    Forget(AttemptId),
}

/// What to do, given what the server wants and what there is.
pub fn reconcile(desired: &[Desired], local: &BTreeMap<AttemptId, Local>) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut wanted: Vec<_> = desired.iter().map(|d| (d.attempt, d.want)).collect();
    wanted.sort_unstable_by_key(|&(attempt, _)| attempt);
    for (&id, &is) in local {
        let want = wanted.binary_search_by_key(&id, |&(attempt, _)| attempt).ok().map(|at| wanted[at].1);
        match (want, is) {
            (None, Local::Over) => actions.push(Action::Forget(id)),
            (None | Some(Want::Stop), Local::Beginning | Local::Running | Local::Frozen) => {
                actions.push(Action::Stop(id));
            }
            (Some(Want::Freeze), Local::Beginning | Local::Running) => actions.push(Action::Freeze(id)),
            (Some(Want::Run), Local::Frozen) => actions.push(Action::Thaw(id)),
            (Some(_), _) => {}
        }
    }
    for d in desired.iter().filter(|d| !local.contains_key(&d.attempt)) {
        actions.push(match d.want {
            _ if d.started => Action::ReportLost(d.attempt),
            Want::Stop => Action::ReportStopped(d.attempt),
            Want::Run | Want::Freeze => Action::Launch(d.attempt),
        });
    }
    actions
}
