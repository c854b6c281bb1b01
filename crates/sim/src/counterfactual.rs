//! One change that would start a waiting task now, found by really planning on a copy of the live state in which it asks
//! for something else.

use std::collections::BTreeSet;
use warpyard_core::explain::WaitReason;
use warpyard_core::place::Search;
use warpyard_core::pool::{Charge, DeviceState, Ledger, Placement};
use warpyard_core::spec::{TaskSpec, WaitMode};
use warpyard_core::{Cluster, PolicyDef, Rejection, Span, TaskId, TaskState, Time};

/// What would have to be asked for instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestChange {
    /// Other devices than those it waits for: `wait_mode = "schedule"`.
    Schedule,
    /// A device of this type too.
    OrType(String),
    /// This much memory on each device.
    GpuMemory(u64),
    /// This expected running time.
    Expected(Span),
    /// This timeout.
    Timeout(Span),
    /// This many devices.
    Gpus(u16),
}

/// A change after which a task would start now, and where; none if it starts now anyway, is not ready, or no single
/// change of those tried would do. What a task asks for is changed by no more than half.
pub fn find_counterfactual(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    task: TaskId,
) -> Result<Option<(RequestChange, Placement)>, Rejection> {
    let Some(TaskState::Ready { .. }) = cluster.state(task) else { return Ok(None) };
    let Some((_, spec)) = cluster.job(task.job).and_then(|job| job.node(task.node)) else { return Ok(None) };
    if start(cluster, policies, now, task)?.is_some() {
        return Ok(None);
    }
    for (change, changed) in changes(cluster, policies, now, task, spec)? {
        let ledger = Ledger::over(cluster.pool());
        if Search::over(&ledger).place(&changed.needs).is_none() {
            continue;
        }
        let supposed = cluster.supposing(task.node_id(), changed);
        if let Some(place) = start(&supposed, policies, now, task)? {
            return Ok(Some((change, place)));
        }
    }
    Ok(None)
}

/// Where a task would start now, if it would.
fn start(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    task: TaskId,
) -> Result<Option<Placement>, Rejection> {
    let mut policy = PolicyDef::build_from(policies, cluster.policy())?;
    let plan = policy.plan(cluster.view(), now);
    Ok(plan.start.into_iter().find(|s| s.task == task).map(|s| s.placement))
}

/// What might be asked for instead, the least intrusive first.
fn changes(
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
    for length in shorter(cluster, policies, now, task, spec)? {
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

/// How much memory devices have left to share, largest first: less than is asked for, but not less than half of it; for
/// a task that asks for whole devices, at least half a device.
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

/// Shorter lengths: the time until what is kept for another is needed, then three quarters and half.
fn shorter(
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
        lengths.push(Span(until.0 / 1_000_000 * 1_000_000));
    }
    if let Some(Span(length)) = spec.expected() {
        lengths.extend([Span(length / 4 * 3), Span(length / 2)]);
    }
    let at_most = spec.expected().unwrap_or(Span::UNKNOWN);
    lengths.retain(|&l| l > Span::ZERO && l < at_most);
    Ok(lengths)
}
