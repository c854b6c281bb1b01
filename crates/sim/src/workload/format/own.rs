//! A server's own history as a trace: every job that came, with how long its tasks ran. Retries and what people did
//! meanwhile are not in it; [`Recording`] has them.

use crate::arrival::{Arrival, RecordedAttempt, RunModel};
use crate::replay::Recording;
use crate::workload::reading::plain_name;
use crate::workload::{Location, ParsedTrace, TraceJob, TraceTask};
use warpyard_core::event::EndReason;
use warpyard_core::spec::{AfterNode, TaskSpec};
use warpyard_core::{JobId, Span};

/// The jobs of a recording.
pub fn read(recording: &Recording) -> ParsedTrace {
    let mut reading = ParsedTrace::default();
    let mut again = 0;
    for (at, (arrival, number)) in (1..).zip(recording.arrivals()) {
        reading.jobs.push((Location::Line(at), job(arrival, number, &mut again)));
    }
    if again > 0 {
        reading.notes.push(format!(
            "attempts that were followed by another: {again}; the last one of each task is taken"
        ));
    }
    let unfinished = recording.summary().unfinished;
    if unfinished > 0 {
        reading
            .notes
            .push(format!("jobs that had not ended: {unfinished}; they run for as long as they promised"));
    }
    reading.count_from_the_first();
    reading
}

fn job(arrival: &Arrival, number: JobId, again: &mut u64) -> TraceJob {
    let spec = &arrival.spec;
    let mut job = TraceJob {
        id: number.0.to_string(),
        submitted: arrival.at.secs(),
        priority: spec.priority,
        user: plain_name(&arrival.user),
        weight: spec.weight,
        deadline: spec.deadline.map(|deadline| deadline.secs()),
        tasks: Vec::new(),
    };
    // A node may wait for one that stands after it, and an array becomes as many tasks as it has.
    let mut first = vec![None; spec.tasks.len()];
    while let Some(node) = (0..spec.tasks.len()).find(|&node| {
        first[node].is_none()
            && spec.tasks[node].after.iter().all(|after| first[after.node as usize].is_some())
    }) {
        let task = &spec.tasks[node];
        let after: Vec<AfterNode> = task
            .after
            .iter()
            .flat_map(|after| {
                let from: u32 = first[after.node as usize].expect("what is waited for stands above");
                (from..from + spec.tasks[after.node as usize].len())
                    .map(|node| AfterNode { node, on: after.on })
            })
            .collect();
        first[node] = Some(job.tasks.len() as u32);
        for index in 0..task.len() {
            let tried = match &arrival.runs {
                RunModel::Recorded(attempts) => attempts.by_task.get(&(node as u32, index)),
                RunModel::Constant(_) | RunModel::PerNode(_) | RunModel::Steps(_) => None,
            };
            *again += tried.map_or(0, |tried| tried.len() as u64 - 1);
            let otherwise = match &arrival.runs {
                RunModel::Recorded(attempts) => attempts.default_lengths[node],
                RunModel::Constant(length) => *length,
                RunModel::PerNode(_) | RunModel::Steps(_) => Span::ZERO,
            };
            let single = spec.tasks.len() == 1 && task.len() == 1;
            let name = match &task.array {
                _ if single => String::new(),
                None => plain_name(&task.name),
                Some(array) => format!("{}[{}]", plain_name(&task.name), array.value(index).unwrap_or(index)),
            };
            job.tasks.push(one(name, task, tried.and_then(|tried| tried.last()), otherwise, after.clone()));
        }
    }
    job
}

fn one(
    name: String,
    spec: &TaskSpec,
    went: Option<&RecordedAttempt>,
    otherwise: Span,
    after: Vec<AfterNode>,
) -> TraceTask {
    let exit = match went.map(|went| &went.how) {
        None | Some(EndReason::Exited(0) | EndReason::TimedOut | EndReason::Idle(_)) => 0,
        Some(EndReason::Exited(code)) => *code,
        Some(_) => 1,
    };
    TraceTask {
        name,
        after,
        runs: went.map_or(otherwise, |went| went.length).secs(),
        timeout: spec.timeout.map(Span::secs),
        expected: spec.expected.map(Span::secs),
        gpus: spec.needs.gpus,
        gpu_memory: spec.needs.gpu_memory,
        gpu_types: spec.needs.gpu_types.iter().map(|kind| plain_name(kind)).collect(),
        cpus: spec.needs.cpus,
        memory: spec.needs.memory,
        preempt: spec.preempt,
        batch_time: spec.batch_time.map(Span::secs),
        item_time: spec.item_time.map(Span::secs),
        resume_time: Some(spec.resume_time.secs()).filter(|seconds| *seconds > 0.0),
        profile: spec.profile.clone(),
        steps: spec.steps,
        exit,
    }
}
