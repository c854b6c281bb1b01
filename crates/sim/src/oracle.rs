//! The oracle: what the simulated machines may ask about an attempt and no policy ever sees, taken from the jobs' run models.

use crate::arrival::RunModel;
use crate::machine::AttemptOracle;
use crate::process::ProcessSpec;
use std::collections::BTreeMap;
use warpyard_core::spec::{Boundary, Preempt};
use warpyard_core::{AttemptId, Cluster, Span, TaskId};

/// Simulated jobs by number.
pub(crate) type Jobs = Vec<Option<SimulatedJob>>;

/// Simulated job.
pub(crate) struct SimulatedJob {
    /// Index of its first record; `None` for a job that was in the initial state, which has no records.
    pub(crate) first_record: Option<usize>,
    pub(crate) runs: RunModel,
}

/// Oracle over the current state.
pub(crate) struct Oracle<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) jobs: &'a Jobs,
    /// Work saved by earlier attempts, in the units of [`RunModel::work_rate`].
    pub(crate) saved: &'a BTreeMap<TaskId, f64>,
    /// From launch to start.
    pub(crate) start_delay: Span,
    /// Additional delay of every attempt but the first.
    pub(crate) restart: Span,
}

impl AttemptOracle for Oracle<'_> {
    fn process_spec(&self, id: AttemptId) -> Option<ProcessSpec> {
        let job = self.cluster.job(id.task.job)?;
        let (node, spec) = job.node(id.task.node)?;
        let live = node.live.get(&id.task.index).filter(|live| live.attempts == id.number)?;
        let placement = &live.attempt()?.placement;
        let job = self.jobs[id.task.job.0 as usize].as_ref().expect("a job of the cluster has a run model");
        let kind = self.cluster.view().kind_given(id.task);
        let rate = job.runs.work_rate(id.task, kind);
        // Work is saved in steps, so that it is worth the right time on whichever type the next attempt gets.
        let saved = if live.saved.is_zero() { None } else { self.saved.get(&id.task) };
        let saved = saved.map(|work| Span::from_secs(work / rate));
        let run = job.runs.attempt_run(id.task, id.number, kind);
        // A recorded attempt overrides the assumptions: its end already reflects a timeout that struck, and its length
        // the work that earlier attempts had saved.
        let recorded = run.recorded;
        let restart = if id.number > 1 { self.restart } else { Span::ZERO };
        Some(ProcessSpec {
            run,
            saved: saved.filter(|_| recorded.is_none_or(|r| r.of_earlier_attempt)).unwrap_or_default(),
            timeout: spec.timeout.filter(|_| recorded.is_none()),
            grace: recorded.and_then(|r| r.stop_delay).unwrap_or(spec.grace),
            resume_time: spec.resume_time,
            interference: job.runs.interference(id.task, kind),
            devices: placement.devices.iter().map(|(index, _)| *index).collect(),
            start_delay: recorded.map_or(self.start_delay + restart, |r| r.start_delay),
        })
    }

    fn pause_step(&self, id: AttemptId) -> Option<Span> {
        let (attempt, spec) = self.cluster.view().attempt(id.task)?;
        let at = if spec.preempt == Preempt::Yield { Boundary::Item } else { attempt.pause_at };
        at.step(spec)
    }
}
