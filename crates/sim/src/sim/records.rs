//! Accounting of a simulation: records of tasks, the workers that an event concerns, and the speeds that tasks report.

use super::Sim;
use crate::arrival::RunModel;
use crate::machine::Machine;
use crate::oracle::SimulatedJob;
use crate::record::Record;
use std::collections::BTreeMap;
use warpyard_core::event::{Disposition, Event, EventKind, StopReason};
use warpyard_core::shares::Speed;
use warpyard_core::{Command, JobId, TaskId};

impl Sim {
    /// Creates the records of an accepted job.
    pub(super) fn open_records(&mut self, id: JobId, runs: RunModel) {
        let at = id.0 as usize;
        self.jobs.resize_with(at + 1, || None);
        self.jobs[at] = Some(SimulatedJob { first_record: Some(self.records.len()), runs });
        let job = self.engine.cluster().job(id).expect("an accepted job is known");
        for (node, spec) in job.spec.tasks.iter().enumerate() {
            for index in 0..spec.len() {
                self.records.push(Record::new(
                    TaskId { job: id, node: node as u32, index },
                    job.priority,
                    self.now,
                ));
            }
        }
    }

    /// Closes the records of a finished job, including tasks that never ran.
    pub(super) fn close_records(&mut self, id: JobId) {
        let first = self.jobs.get(id.0 as usize).and_then(|job| job.as_ref()?.first_record);
        let (Some(first), Some(job)) = (first, self.engine.cluster().job(id)) else { return };
        for record in self.records[first..].iter_mut().take_while(|record| record.task.job == id) {
            record.close(job, self.now);
        }
    }

    /// Updates the records by an event, and marks the workers that it concerns.
    pub(super) fn record_event(&mut self, event: &Event) {
        if let Some(watcher) = &mut self.watcher {
            watcher(event);
        }
        self.contention.observe(event, &mut self.double_counted);
        // Subtracted before the event is recorded, as a recording does: the order decides the last bits of the sums.
        let mut double_counted = std::mem::take(&mut self.double_counted);
        for (task, seconds) in double_counted.drain(..) {
            let record = self.record_mut(task);
            record.into_iter().for_each(|record| record.gpu_seconds -= seconds);
        }
        self.double_counted = double_counted;
        let (now, cluster) = (event.at, self.engine.cluster());
        match &event.what {
            EventKind::WorkerJoined { worker, info } => {
                let known = self.machines.len().max(worker.0 as usize + 1);
                let contention = self.setup.contention;
                self.machines.resize_with(known, || Machine::new(contention, info.lease, now));
            }
            EventKind::Placed { attempt, placement } => {
                self.to_assign.push(placement.worker);
                let task = attempt.task;
                let ready = cluster.job(task.job).map(|job| job.nodes[task.node as usize].ready_since);
                let Some(record) = self.record_mut(task) else { return };
                record.attempts += 1;
                record.devices = placement.devices.len() as u16;
                record.ready = ready;
            }
            EventKind::Started { attempt } => {
                let Some(record) = self.record_mut(attempt.task) else { return };
                record.started.get_or_insert(now);
            }
            EventKind::Paused { attempt } => {
                let Some(record) = self.record_mut(attempt.task) else { return };
                record.preemptions += 1;
            }
            EventKind::PauseAsked { attempt, .. }
            | EventKind::ResumeAsked { attempt }
            | EventKind::StopAsked { attempt, .. } => {
                if let Some((a, _)) = cluster.view().attempt(attempt.task) {
                    self.to_assign.push(a.placement.worker);
                }
                if let EventKind::StopAsked { why: StopReason::Requeued, .. } = event.what
                    && let Some(record) = self.record_mut(attempt.task)
                {
                    record.preemptions += 1;
                }
            }
            EventKind::RoundBegun { .. } => self.report_speeds(),
            EventKind::Ended { attempt, end, then } => {
                let Some(record) = self.record_mut(attempt.task) else { return };
                record.ran += end.usage.ran;
                record.gpu_seconds += end.usage.ran.secs() * f64::from(record.devices);
                if let Disposition::Done(outcome) = then {
                    (record.ended, record.outcome) = (Some(now), Some(*outcome));
                }
            }
            _ => {}
        }
    }

    /// Reports the step speeds of running tasks where the engine does not know them, as live tasks do by their progress.
    fn report_speeds(&mut self) {
        let (view, now) = (self.engine.cluster().view(), self.now);
        let measured = |task: TaskId| {
            let speeds = self.jobs.get(task.job.0 as usize)?.as_ref()?.runs.step_speeds(task)?;
            let (attempt, spec) = view.attempt(task)?;
            let (profile, gpus) = (spec.profile.clone()?, spec.needs.gpus);
            let kind = view.kind_given(task)?.to_ascii_lowercase();
            let beside = match view.beside(task) {
                Some(_) => {
                    let (other, _) = view.shares_with(task).filter(|(_, since)| *since < now)?;
                    Some(view.spec(other)?.1.profile.clone()?)
                }
                None => None,
            };
            attempt.started.filter(|started| *started < now)?;
            let known = match &beside {
                None => view.shares().speed(&profile, gpus, &kind),
                Some(other) => view.shares().speed_beside(&profile, other, gpus, &kind),
            };
            let steps_per_second = speeds.speed(&kind, beside.as_deref())?;
            let news = known.is_none_or(|known| known.steps_per_second != steps_per_second);
            news.then_some(Speed { profile, gpus, kind, steps_per_second, measured: true, beside })
        };
        let speeds: Vec<Speed> = view.on_workers().filter_map(measured).collect();
        if !speeds.is_empty() {
            self.commands.push(Command::SetSpeeds { speeds, costs: BTreeMap::new() });
        }
    }

    pub(super) fn record_at(&self, task: TaskId) -> Option<usize> {
        let first = self.jobs.get(task.job.0 as usize)?.as_ref()?.first_record?;
        if task.node == 0 {
            return Some(first + task.index as usize);
        }
        let node = self.records[first..].iter().position(|r| r.task.node == task.node)?;
        Some(first + node + task.index as usize)
    }

    fn record_mut(&mut self, task: TaskId) -> Option<&mut Record> {
        let at = self.record_at(task)?;
        self.records.get_mut(at)
    }
}
