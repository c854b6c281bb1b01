//! The worker's half: what to do so that what *is* becomes what *should be*. Called after every message and every
//! change, it needs no memory of either.

use crate::cluster::{Desired, Want};
use crate::ids::AttemptId;
use crate::time::Span;
use smallvec::SmallVec;
use std::borrow::Cow;

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

/// What to do, given what the server wants, and what there is, which must come in order of attempt.
pub fn reconcile(
    desired: &[Desired],
    local: impl IntoIterator<Item = (AttemptId, Local)>,
) -> SmallVec<[Action; 2]> {
    let mut actions = SmallVec::new();
    // The server tells it in order and once; whoever does not is borne with.
    let mut wanted = Cow::Borrowed(desired);
    if !desired.is_sorted_by(|a, b| a.attempt < b.attempt) {
        wanted.to_mut().sort_by_key(|d| d.attempt);
        wanted.to_mut().dedup_by_key(|d| d.attempt);
    }
    let mut wanted = wanted.iter().peekable();
    let mut missing: SmallVec<[&Desired; 4]> = SmallVec::new();
    // What the server gave up and what is still here may be on the devices that something new was given.
    let mut lingers = false;
    let mut last = None;
    for (id, is) in local {
        debug_assert!(last.replace(id) < Some(id), "what there is comes in order");
        while let Some(d) = wanted.next_if(|d| d.attempt < id) {
            missing.push(d);
        }
        let want = wanted.next_if(|d| d.attempt == id).map(|d| d.want);
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
    for d in missing.into_iter().chain(wanted) {
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
        for is in [Local::Beginning, Local::Running, Local::Frozen] {
            assert_eq!(reconcile(&desired, [(old, is)])[..], [Action::Stop(old)], "{is:?}");
        }
        let over = [(old, Local::Over)];
        assert_eq!(reconcile(&desired, over)[..], [Action::Forget(old), Action::Launch(new)]);
    }
}
