//! The worker's half: what to do so that what *is* becomes what *should be*. Called after every message and every
//! change, it needs no memory of either.

use crate::cluster::{Desired, Want};
use crate::ids::AttemptId;
use crate::time::Span;
use smallvec::SmallVec;
use std::borrow::Cow;
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

/// How long a worker with a lease bears the server's silence: then it ends what may run elsewhere, so that it is gone
/// when the lease lapses and the server gives it up.
pub fn patience(lease: Span) -> Span {
    Span(lease.0 * 2 / 3)
}

/// What to do, given what the server wants and what there is.
pub fn reconcile(desired: &[Desired], local: &BTreeMap<AttemptId, Local>) -> SmallVec<[Action; 2]> {
    let mut actions = SmallVec::new();
    // The server tells it in order; whoever does not is borne with.
    let mut wanted = Cow::Borrowed(desired);
    if !desired.is_sorted_by_key(|d| d.attempt) {
        wanted.to_mut().sort_unstable_by_key(|d| d.attempt);
    }
    let want = |id: &AttemptId| {
        let at = wanted.binary_search_by_key(id, |d| d.attempt).ok()?;
        Some(wanted[at].want)
    };
    // What the server gave up and what is still here may be on the devices that something new was given.
    let mut lingers = false;
    for (&id, &is) in local {
        let want = want(&id);
        lingers |= want.is_none() && is != Local::Over;
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
        match d.want {
            _ if d.started => actions.push(Action::ReportLost(d.attempt)),
            Want::Stop | Want::Yield => actions.push(Action::ReportStopped(d.attempt)),
            Want::Run | Want::Freeze if lingers => {}
            Want::Run | Want::Freeze => actions.push(Action::Launch(d.attempt)),
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobId, TaskId};

    #[test]
    fn nothing_begins_while_what_was_given_up_still_runs() {
        let [old, new] = [1, 2].map(|job| TaskId { job: JobId(job), node: 0, index: 0 }.attempt(1));
        let desired = [Desired { attempt: new, started: false, want: Want::Run }];
        let having = |is| BTreeMap::from([(old, is)]);
        for is in [Local::Beginning, Local::Running, Local::Frozen] {
            assert_eq!(reconcile(&desired, &having(is))[..], [Action::Stop(old)], "{is:?}");
        }
        assert_eq!(reconcile(&desired, &having(Local::Over))[..], [Action::Forget(old), Action::Launch(new)]);
    }
}
