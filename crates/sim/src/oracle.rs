//! What only the simulation knows: what really happens to the attempts of each job.

use crate::arrival::RunModel;
use crate::machine::AttemptOracle;
use crate::process::ProcessSpec;
use std::collections::BTreeMap;
use warpyard_core::spec::{Boundary, Preempt};
use warpyard_core::{AttemptId, Cluster, Span, TaskId};

/// Jobs by number: where their records begin, and what really happens to them.
pub(crate) type Jobs = Vec<Option<SimulatedJob>>;

pub(crate) struct SimulatedJob {
    /// None for jobs that were there before, of which no records are kept.
    pub(crate) first: Option<usize>,
    pub(crate) runs: RunModel,
}

/// What the simulation knows of attempts.
pub(crate) struct Oracle<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) jobs: &'a Jobs,
    /// Work that was saved: seconds, or steps where those are told apart.
    pub(crate) saved: &'a BTreeMap<TaskId, f64>,
    pub(crate) delay: Span,
    /// What an attempt after the first costs before it gets anywhere.
    pub(crate) restart: Span,
}

impl AttemptOracle for Oracle<'_> {
    fn brief(&self, id: AttemptId) -> Option<ProcessSpec> {
        let job = self.cluster.job(id.task.job)?;
        let (node, spec) = job.node(id.task.node)?;
        let live = node.live.get(&id.task.index).filter(|live| live.attempts == id.number)?;
        let placement = &live.attempt()?.placement;
        let taken = self.jobs[id.task.job.0 as usize].as_ref().expect("a job that was taken is remembered");
        let kind = self.cluster.view().kind_given(id.task);
        let pace = taken.runs.pace(id.task, kind);
        let saved = if live.saved.is_zero() { None } else { self.saved.get(&id.task) };
        let saved = saved.map(|work| Span::from_secs(work / pace));
        let fate = taken.runs.fate(id.task, id.number, kind);
        // What was seen goes before what is assumed; a timeout that struck is in how it ended, and what was saved in how
        // long it took.
        let seen = fate.seen;
        let restart = if id.number > 1 { self.restart } else { Span::ZERO };
        Some(ProcessSpec {
            fate,
            saved: saved.filter(|_| seen.is_none_or(|seen| seen.of_another)).unwrap_or_default(),
            timeout: spec.timeout.filter(|_| seen.is_none()),
            grace: seen.and_then(|seen| seen.linger).unwrap_or(spec.grace),
            resume_time: spec.resume_time,
            interference: taken.runs.interference(id.task, kind),
            devices: placement.devices.iter().map(|(index, _)| *index).collect(),
            delay: seen.map_or(self.delay + restart, |seen| seen.delay),
        })
    }

    fn step(&self, id: AttemptId) -> Option<Span> {
        let (attempt, spec) = self.cluster.view().attempt(id.task)?;
        let at = if spec.preempt == Preempt::Yield { Boundary::Item } else { attempt.pause_at };
        at.step(spec)
    }
}
