//! Ledger of committed events and of what really happened to processes, with the rules that relate the two.

use super::Violation;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_core::agent::NOTHING_LEFT;
use warpyard_core::event::{Disposition, EndReason, Outcome, StopReason};
use warpyard_core::pool::Placement;
use warpyard_core::spec::AfterNode;
use warpyard_core::{AttemptId, Cluster, Event, EventKind, JobId, TaskId, TaskState};

/// Ledger of a run.
#[derive(Default)]
pub(super) struct Ledger {
    /// Latest attempt of each task, and whether it has ended.
    latest: BTreeMap<TaskId, (u32, bool)>,
    placed: BTreeMap<AttemptId, Placement>,
    /// Machine and boot on which each attempt's processes started.
    begun: BTreeMap<AttemptId, Vec<(usize, u32)>>,
    /// How each attempt's processes ended.
    ends: BTreeMap<AttemptId, Vec<EndReason>>,
    done: BTreeMap<TaskId, Outcome>,
    /// Attempts with a start event but no process so far.
    unbegun: BTreeSet<AttemptId>,
    /// Processes that outlived their attempt unavoidably: there was no agent to enforce the lease, the clock jumped, or the
    /// machine lost its records in a crash and ran the attempt twice.
    strays: BTreeSet<AttemptId>,
    /// Number of committed events.
    pub(super) events: u64,
}

impl Ledger {
    /// Checks and enters a committed event, before it is applied.
    pub(super) fn enter(&mut self, before: &Cluster, event: &Event) -> Result<(), Violation> {
        self.events += 1;
        match &event.what {
            EventKind::Placed { attempt, placement } => {
                self.attempts_are_numbered_one_after_another(*attempt)?;
                dependencies_ended_first(before, attempt.task)?;
                self.latest.insert(attempt.task, (attempt.number, false));
                self.placed.insert(*attempt, placement.clone());
            }
            EventKind::Started { attempt } => {
                self.only_the_attempt_in_force_is_spoken_of(*attempt)?;
                if !self.has_begun(*attempt) {
                    self.unbegun.insert(*attempt);
                }
            }
            EventKind::PauseAsked { attempt, .. }
            | EventKind::Paused { attempt }
            | EventKind::ResumeAsked { attempt }
            | EventKind::Resumed { attempt }
            | EventKind::StopAsked { attempt, .. } => {
                self.only_the_attempt_in_force_is_spoken_of(*attempt)?
            }
            EventKind::Ended { attempt, end, then } => {
                self.only_the_attempt_in_force_is_spoken_of(*attempt)?;
                only_what_was_cancelled_ends_cancelled(before, *attempt, *then)?;
                self.an_end_is_one_that_happened(*attempt, &end.how)?;
                self.latest.insert(attempt.task, (attempt.number, true));
                if end.how == EndReason::Stopped {
                    self.unbegun.remove(attempt);
                }
            }
            EventKind::Retried { job, .. } | EventKind::JobForgotten { job } => self.forget_done(*job),
            EventKind::TasksRetried { node, .. } => self.forget_done(node.job),
            _ => {}
        }
        Ok(())
    }

    fn attempts_are_numbered_one_after_another(&self, attempt: AttemptId) -> Result<(), Violation> {
        match self.latest.get(&attempt.task) {
            Some((_, false)) => {
                violation("one attempt at a time", || format!("{attempt} placed beside another"))
            }
            Some((number, true)) if *number >= attempt.number => {
                violation("attempts are numbered upwards", || format!("{attempt} placed after {number}"))
            }
            _ => Ok(()),
        }
    }

    fn only_the_attempt_in_force_is_spoken_of(&self, attempt: AttemptId) -> Result<(), Violation> {
        match self.latest.get(&attempt.task) {
            Some(&(number, false)) if number == attempt.number => Ok(()),
            latest => violation("attempts are fences", || {
                format!("{attempt} changed something while {latest:?} (number, ended) is the latest")
            }),
        }
    }

    /// An attempt with a start event has a process of this log. One that was called off before its start is reported as
    /// started and stopped at the same moment.
    pub(super) fn what_started_has_begun(&self) -> Result<(), Violation> {
        match self.unbegun.first() {
            None => Ok(()),
            Some(attempt) => violation("what started has begun", || format!("{attempt} never had a process")),
        }
    }

    /// A worker keeps the record of an end until the server has committed it: unless the machine crashes, it is not lost.
    pub(super) fn an_end_that_happened_is_told(
        &self,
        attempt: AttemptId,
        how: &EndReason,
        boot_of: impl Fn(usize) -> u32,
    ) -> Result<(), Violation> {
        let here = self.begun.get(&attempt).and_then(|begun| begun.last());
        let ended_here = here.is_some_and(|&(machine, boot)| boot_of(machine) == boot)
            && self.ends.get(&attempt).is_some_and(|ends| !ends.is_empty());
        if ended_here && *how == EndReason::Lost(NOTHING_LEFT.into()) {
            return violation("an end that happened is reported", || {
                format!("{attempt} ended by {:?}, and nobody knows", self.ends[&attempt])
            });
        }
        Ok(())
    }

    pub(super) fn has_begun(&self, attempt: AttemptId) -> bool {
        self.begun.contains_key(&attempt)
    }

    fn an_end_is_one_that_happened(&self, attempt: AttemptId, how: &EndReason) -> Result<(), Violation> {
        let of_a_process = matches!(
            how,
            EndReason::Exited(_)
                | EndReason::Signalled(_)
                | EndReason::TimedOut
                | EndReason::OutOfMemory(_)
                | EndReason::Idle(_)
        );
        let really = self.ends.get(&attempt).is_some_and(|ends| ends.contains(how));
        if of_a_process && !really {
            return violation("an end is one that happened", || {
                format!("{attempt} ended by {how:?}, so it says")
            });
        }
        Ok(())
    }

    fn forget_done(&mut self, job: JobId) {
        self.done.retain(|task, _| task.job != job);
    }

    /// A finished task stays finished until it is retried.
    pub(super) fn done_stays_done(&mut self, after: &Cluster) -> Result<(), Violation> {
        for (task, outcome) in &self.done {
            let is = after.job(task.job).and_then(|j| j.nodes[task.node as usize].done.of(task.index));
            if is != Some(*outcome) {
                return violation("done stays done", || format!("{task:?} was {outcome:?} and is {is:?}"));
            }
        }
        for job in after.jobs().iter() {
            for (n, node) in job.nodes.iter().enumerate() {
                for (&outcome, at) in node.done.0.iter() {
                    let task = |index| TaskId { job: job.id, node: n as u32, index };
                    self.done.extend(at.iter().map(|index| (task(index), outcome)));
                }
            }
        }
        Ok(())
    }

    /// Enters the start of a process.
    pub(super) fn began(&mut self, attempt: AttemptId, machine: usize, boot: u32) -> Result<(), Violation> {
        if !self.placed.contains_key(&attempt) {
            return violation("nothing is published before it is committed", || {
                format!("{attempt} started, and no committed event placed it")
            });
        }
        let begun = self.begun.entry(attempt).or_default();
        if begun.contains(&(machine, boot)) || begun.iter().any(|(m, _)| *m != machine) {
            return violation("an attempt begins once", || {
                format!("{attempt} began again on machine {machine}")
            });
        }
        begun.push((machine, boot));
        Ok(())
    }

    pub(super) fn ended(&mut self, attempt: AttemptId, how: EndReason) {
        self.ends.entry(attempt).or_default().push(how);
        self.strays.remove(&attempt);
    }

    /// Whether the attempt has ended according to the committed events.
    pub(super) fn is_over(&self, attempt: AttemptId) -> bool {
        self.latest.get(&attempt.task).is_none_or(|&(number, over)| number != attempt.number || over)
    }

    /// Whether a machine ran an attempt more than once, having lost its records.
    pub(super) fn ran_twice(&self, attempt: AttemptId) -> bool {
        self.begun.get(&attempt).is_some_and(|b| b.len() > 1)
    }

    pub(super) fn stray(&mut self, attempt: AttemptId) {
        self.strays.insert(attempt);
    }

    pub(super) fn is_stray(&self, attempt: AttemptId) -> bool {
        self.strays.contains(&attempt)
    }

    /// Placement of an attempt.
    pub(super) fn placement(&self, attempt: AttemptId) -> Option<&Placement> {
        self.placed.get(&attempt)
    }
}

fn dependencies_ended_first(before: &Cluster, task: TaskId) -> Result<(), Violation> {
    let Some(job) = before.job(task.job) else {
        return violation("what is placed is known", || format!("{task:?} has no job"));
    };
    let unmet = |dep: &&AfterNode| job.nodes[dep.node as usize].satisfies(dep.on) != Some(true);
    let first_unmet = job.spec.tasks[task.node as usize].after.iter().find(unmet);
    if let Some(dep) = first_unmet {
        return violation("dependencies end first", || format!("{task:?} placed before {dep:?} was met"));
    }
    if !job.waiting.is_empty() {
        return violation("dependencies end first", || format!("{task:?} placed while {:?}", job.waiting));
    }
    if job.held {
        return violation("a held job starts nothing", || format!("{task:?} placed"));
    }
    Ok(())
}

fn only_what_was_cancelled_ends_cancelled(
    before: &Cluster,
    attempt: AttemptId,
    then: Disposition,
) -> Result<(), Violation> {
    let asked = matches!(before.state(attempt.task), Some(TaskState::Stopping(_, why)) if matches!(why, StopReason::Cancelled | StopReason::Killed));
    if then == Disposition::Done(Outcome::Cancelled) && !asked {
        return violation("only what was cancelled ends cancelled", || format!("nobody cancelled {attempt}"));
    }
    Ok(())
}

pub(super) fn violation<T>(rule: &'static str, what: impl FnOnce() -> String) -> Result<T, Violation> {
    Err(Violation { rule, what: what() })
}
