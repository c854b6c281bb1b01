//! Counterfactuals: a single change of a waiting task's request after which it would start now. Each candidate is verified by
//! planning on a copy of the live state with the changed request.

use std::collections::BTreeSet;
use warpyard_core::explain::WaitReason;
use warpyard_core::place::Search;
use warpyard_core::pool::{Charge, DeviceState, Ledger, Placement};
use warpyard_core::spec::{TaskSpec, WaitMode};
use warpyard_core::{Cluster, PolicyDef, Rejection, Span, TaskId, TaskState, Time};

/// Change of a task's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestChange {
    /// Accept other devices than the preferred ones: `wait_mode = "schedule"`.
    Schedule,
    /// Accept this GPU type as well.
    OrType(String),
    /// Request this much memory on each device.
    GpuMemory(u64),
    /// State this expected run time.
    Expected(Span),
    /// Set this timeout.
    Timeout(Span),
    /// Request this many devices.
    Gpus(u16),
}

/// Finds a change after which a task would start now, and its placement; `None` if the task starts now anyway, is not ready,
/// or no candidate suffices. No quantity is reduced by more than half.
pub fn find_counterfactual(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    task: TaskId,
) -> Result<Option<(RequestChange, Placement)>, Rejection> {
    let Some(TaskState::Ready { .. }) = cluster.state(task) else { return Ok(None) };
    let Some((_, spec)) = cluster.job(task.job).and_then(|job| job.node(task.node)) else { return Ok(None) };
    if planned_start(cluster, policies, now, task)?.is_some() {
        return Ok(None);
    }
    for (change, changed) in candidates(cluster, policies, now, task, spec)? {
        // Planning is costly: skip candidates for which there is no free capacity at all.
        let ledger = Ledger::over(cluster.pool());
        if Search::over(&ledger).place(&changed.needs).is_none() {
            continue;
        }
        let supposed = cluster.supposing(task.node_id(), changed);
        if let Some(place) = planned_start(&supposed, policies, now, task)? {
            return Ok(Some((change, place)));
        }
    }
    Ok(None)
}

/// Placement of a task in the plan made now, if it is in it.
fn planned_start(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    task: TaskId,
) -> Result<Option<Placement>, Rejection> {
    let mut policy = PolicyDef::build_from(policies, cluster.policy())?;
    let plan = policy.plan(cluster.view(), now);
    Ok(plan.start.into_iter().find(|s| s.task == task).map(|s| s.placement))
}

/// Candidate changes, the least intrusive first.
fn candidates(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    task: TaskId,
    spec: &TaskSpec,
) -> Result<Vec<(RequestChange, TaskSpec)>, Rejection> {
    let mut changes = Vec::new();
    let mut add = |change: RequestChange, alter: &dyn Fn(&mut TaskSpec)| {
        let mut changed = spec.clone();
        alter(&mut changed);
        changes.push((change, changed));
    };
    let needs = &spec.needs;
    if needs.wait_mode == WaitMode::Queue && !needs.preferred.is_empty() {
        add(RequestChange::Schedule, &|t| t.needs.wait_mode = WaitMode::Schedule);
    }
    if !needs.gpu_types.is_empty() {
        for kind in kinds(cluster) {
            if !needs.gpu_types.iter().any(|t| t.eq_ignore_ascii_case(&kind)) {
                add(RequestChange::OrType(kind.clone()), &|t| t.needs.gpu_types.push(kind.clone()));
            }
        }
    }
    if needs.gpus > 0 {
        for bytes in free_shares(cluster, needs.gpu_memory) {
            add(RequestChange::GpuMemory(bytes), &|t| t.needs.gpu_memory = Some(bytes));
        }
    }
    for length in shorter_lengths(cluster, policies, now, task, spec)? {
        match spec.expected {
            Some(_) => add(RequestChange::Expected(length), &|t| t.expected = Some(length)),
            None => add(RequestChange::Timeout(length), &|t| t.timeout = Some(length)),
        }
    }
    for gpus in (needs.gpus.div_ceil(2)..needs.gpus).rev() {
        add(RequestChange::Gpus(gpus), &|t| t.needs.gpus = gpus);
    }
    Ok(changes)
}

fn kinds(cluster: &Cluster) -> BTreeSet<String> {
    cluster.workers().flat_map(|(_, w)| w.info.devices.iter().map(|d| d.kind.clone())).collect()
}

/// Free shares of device memory, largest first: less than requested but at least half of it; for a task that requests whole
/// devices, at least half a device.
fn free_shares(cluster: &Cluster, asked: Option<u64>) -> Vec<u64> {
    let mut shares = BTreeSet::new();
    for (_, worker) in cluster.pool().workers() {
        for (index, info, used) in worker.devices().filter(|(_, info, _)| info.state == DeviceState::Usable) {
            let left = info.budget.saturating_sub(used.shared_bytes());
            let most = asked.unwrap_or(info.memory);
            if left < most && left >= most / 2 && worker.device_admits(index, Charge::Share(left)) {
                shares.insert(left);
            }
        }
    }
    shares.into_iter().rev().take(8).collect()
}

/// Shorter lengths: the time until the start of the reservation that blocks the task, then three quarters and half of its
/// own.
fn shorter_lengths(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    task: TaskId,
    spec: &TaskSpec,
) -> Result<Vec<Span>, Rejection> {
    let mut policy = PolicyDef::build_from(policies, cluster.policy())?;
    policy.observe(cluster.view(), &Default::default());
    let mut lengths = Vec::new();
    if let WaitReason::Reserved { from, .. } = policy.explain(cluster.view(), task, now).reason
        && let Some(until) = from.since(now).known()
    {
        // Rounded down to whole seconds, to be typed by a person.
        lengths.push(Span(until.0 / 1_000_000 * 1_000_000));
    }
    if let Some(Span(length)) = spec.expected() {
        lengths.extend([Span(length / 4 * 3), Span(length / 2)]);
    }
    let at_most = spec.expected().unwrap_or(Span::UNKNOWN);
    lengths.retain(|&l| l > Span::ZERO && l < at_most);
    Ok(lengths)
}
