//! The state of jobs in the words of the interface: counts of tasks by state and outcome, and a job's own state and outcome
//! derived from them. Everything here is computed from the cluster alone.

use crate::model_admission::estimate_view;
use std::collections::BTreeSet;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{Needs, Outcome, OutcomeCounts, State, StateCounts, Timestamp};
use warpyard_core::cluster::{Job, Node, Phase};
use warpyard_core::command::TaskSelector;
use warpyard_core::event::Outcome as Ended;
use warpyard_core::spec::TaskSpec;
use warpyard_core::{Cluster, NodeId, TaskId, TaskState, Time, WorkerId};

/// A moment as the interface writes it.
pub(crate) fn time(at: Time) -> Timestamp {
    Timestamp::from_micros(at.0 as i64)
        .unwrap_or_else(|| Timestamp::from_millis(0).expect("zero is a moment"))
}

/// An outcome as the interface names it.
pub(crate) fn outcome(ended: Ended) -> Outcome {
    match ended {
        Ended::Succeeded => Outcome::Succeeded,
        Ended::Failed => Outcome::Failed,
        Ended::TimedOut => Outcome::TimedOut,
        Ended::Cancelled => Outcome::Cancelled,
        Ended::Lost => Outcome::Lost,
        Ended::Skipped => Outcome::Skipped,
    }
}

/// The outcome that a word of the derived tables names; none for an attempt that was preempted.
pub(crate) fn outcome_of_word(word: &str) -> Option<Outcome> {
    // An attempt that gave way ended neither well nor badly.
    Outcome::ALL.into_iter().find(|o| o.word() == word)
}

/// The state of a task as the interface names it.
pub(crate) fn state(is: TaskState<'_>) -> State {
    State::ALL.into_iter().find(|s| s.word() == is.word()).expect("both sides know the same states")
}

/// A task's name as people write it: `412.train[3]`, or `412` for the only task of a job.
pub(crate) fn task_name(cluster: &Cluster, task: TaskId) -> String {
    let Some(job) = cluster.job(task.job) else { return task.job.to_string() };
    let Some((_, spec)) = job.node(task.node) else { return task.job.to_string() };
    let index =
        spec.array.as_ref().and_then(|a| a.value(task.index)).map(|i| format!("[{i}]")).unwrap_or_default();
    match &job.spec.tasks[..] {
        [_] => format!("{}{index}", job.id),
        _ => format!("{}.{}{index}", job.id, spec.name),
    }
}

/// How many of a node's tasks are in each state, and how those that ended did.
pub(crate) fn tally(job: &Job, node: &Node) -> (StateCounts, OutcomeCounts) {
    let mut counts = StateCounts::default();
    let mut outcomes = OutcomeCounts::default();
    let waiting = if is_blocked(job, node) { State::Blocked } else { State::Ready };
    *counts.of(waiting) += node.fresh.len();
    counts.blocked += node.held_fresh().len();
    for (i, live) in node.live.iter() {
        *counts.of(match live.phase {
            Phase::Ready { .. } if live.not_before.is_some() || node.held.contains(*i) => State::Blocked,
            Phase::Ready { .. } => waiting,
            Phase::Placed(_) => State::Placed,
            Phase::Running(_) => State::Running,
            Phase::Paused(_) => State::Paused,
            Phase::Stopping { .. } => State::Stopping,
        }) += 1;
    }
    for (&ended, at) in node.done.0.iter() {
        *outcomes.of(outcome(ended)) += at.len();
        counts.done += at.len();
    }
    (counts, outcomes)
}

/// Whether tasks of a node wait for other tasks, other jobs, or someone's hand.
pub(crate) fn is_blocked(job: &Job, node: &Node) -> bool {
    job.held || !job.waiting.is_empty() || node.unmet > 0
}

/// Arrays of which tasks are ready but in no line, because as many are on workers as may be at once; how many each has.
pub(crate) fn held_back(cluster: &Cluster) -> impl Iterator<Item = (NodeId, u64)> + '_ {
    // A full array has tasks on workers: looking there spares looking at every job.
    let nodes: BTreeSet<_> = cluster.view().on_workers().map(TaskId::node_id).collect();
    nodes.into_iter().filter_map(|id| {
        let job = cluster.job(id.job)?;
        let (node, spec) = job.node(id.node)?;
        spec.at_once().filter(|&at_once| node.active() >= at_once)?;
        Some((id, tally(job, node).0.ready)).filter(|(_, count)| *count > 0)
    })
}

/// Adds the counts of one node to those of others.
pub(crate) fn add(to: &mut (StateCounts, OutcomeCounts), mut more: (StateCounts, OutcomeCounts)) {
    for s in State::ALL {
        *to.0.of(s) += *more.0.of(s);
    }
    for o in Outcome::ALL {
        *to.1.of(o) += *more.1.of(o);
    }
}

/// The state of many tasks together: of what is not over, the liveliest.
pub(crate) fn overall(mut counts: StateCounts) -> State {
    let order = [State::Running, State::Paused, State::Stopping, State::Placed, State::Ready, State::Blocked];
    order.into_iter().find(|&s| *counts.of(s) > 0).unwrap_or(State::Done)
}

/// The outcome of many tasks together: the worst, skipped only if nothing else was done.
pub(crate) fn worst(mut outcomes: OutcomeCounts) -> Outcome {
    let order = [Outcome::Failed, Outcome::TimedOut, Outcome::Lost, Outcome::Cancelled, Outcome::Succeeded];
    order.into_iter().find(|&o| *outcomes.of(o) > 0).unwrap_or(Outcome::Skipped)
}

/// Whether a job has tasks that could be in line.
pub(crate) fn may_be_in_line(job: &Job) -> bool {
    job.finished.is_none() && !job.held && job.waiting.is_empty()
}

/// Where a job is on its way, and how it ended once it has.
pub(crate) fn standing(job: &Job) -> (State, Option<Outcome>) {
    let mut sums = <(StateCounts, OutcomeCounts)>::default();
    job.nodes.iter().for_each(|node| add(&mut sums, tally(job, node)));
    let state = overall(sums.0);
    (state, (state == State::Done).then(|| worst(sums.1)))
}

/// What a task needs, as the interface says it.
pub(crate) fn needs(cluster: &Cluster, spec: &TaskSpec) -> Needs {
    let name = |worker: &WorkerId| cluster.view().worker_name(*worker).to_owned();
    Needs {
        on: spec.needs.workers.iter().map(name).collect(),
        gpus: u32::from(spec.needs.gpus),
        gpu_memory_bytes: spec.needs.gpu_memory,
        gpu_type: spec.needs.gpu_types.clone(),
        cpus: MilliCpus(spec.needs.cpus),
        memory_bytes: spec.needs.memory,
        estimate: estimate_view(spec).map(Box::new),
    }
}

/// The task a question about a job is about: the first that is not over, or the first of all.
pub(crate) fn first_open(cluster: &Cluster, target: TaskSelector) -> Option<TaskId> {
    let job = cluster.job(target.job())?;
    let open_in = |node: NodeId| {
        let state = &job.nodes[node.node as usize];
        state.first_open().map(|index| node.task(index))
    };
    match target {
        TaskSelector::Task(task) => Some(task),
        TaskSelector::Range { node, start, .. } => Some(node.task(start)),
        TaskSelector::Node(node) => open_in(node).or(Some(node.task(0))),
        TaskSelector::Job(id) => {
            let nodes = (0..job.nodes.len() as u32).map(|node| NodeId { job: id, node });
            nodes.clone().find_map(open_in).or_else(|| nodes.clone().next().map(|n| n.task(0)))
        }
    }
}
