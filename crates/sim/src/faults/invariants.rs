//! Invariants that must hold after every step, one function each.

use super::Violation;
use super::ledger::{Ledger, violation};
use super::machine::Machine;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_core::cluster::StartedTask;
use warpyard_core::pool::{Charge, Placement};
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Cluster, DeviceId, Policy, PolicyDef, TaskId, Time, WorkerId};

/// Checks the invariants of the state.
pub(super) fn of_the_state(cluster: &Cluster) -> Result<(), Violation> {
    let allocated = AllocatedResources::count(cluster);
    no_device_is_given_twice(cluster, &allocated)?;
    the_pool_is_the_sum_of_the_placements(cluster, &allocated)?;
    a_task_is_in_one_place(cluster, &allocated)?;
    no_task_is_lost_or_gained(cluster)?;
    what_is_derived_follows_from_the_rest(cluster)
}

/// Allocated resources, summed over the attempts rather than read from the pool.
#[derive(Default)]
struct AllocatedResources {
    whole: BTreeMap<DeviceId, u32>,
    shares: BTreeMap<DeviceId, (u32, u64)>,
    hosts: BTreeMap<WorkerId, (u32, u64)>,
    tasks: BTreeMap<WorkerId, BTreeSet<TaskId>>,
}

impl AllocatedResources {
    fn count(cluster: &Cluster) -> AllocatedResources {
        let mut allocated = AllocatedResources::default();
        for (task, live) in under_way(cluster) {
            let Some(attempt) = live.attempt() else { continue };
            allocated.add(task, &attempt.placement);
        }
        allocated
    }

    fn add(&mut self, task: TaskId, placement: &Placement) {
        let host = self.hosts.entry(placement.worker).or_default();
        *host = (host.0 + placement.cpus, host.1 + placement.memory);
        self.tasks.entry(placement.worker).or_default().insert(task);
        for (device, &(_, charge)) in placement.device_ids().zip(&placement.devices) {
            match charge {
                Charge::Whole | Charge::Beside => *self.whole.entry(device).or_default() += 1,
                Charge::Share(bytes) => {
                    let shares = self.shares.entry(device).or_default();
                    *shares = (shares.0 + 1, shares.1 + bytes);
                }
            }
        }
    }

    fn of(&self, device: DeviceId) -> (u32, u32, u64) {
        let (shares, bytes) = self.shares.get(&device).copied().unwrap_or_default();
        (self.whole.get(&device).copied().unwrap_or_default(), shares, bytes)
    }
}

fn under_way(cluster: &Cluster) -> impl Iterator<Item = (TaskId, &StartedTask)> + '_ {
    cluster.jobs().iter().flat_map(|job| {
        job.nodes.iter().enumerate().flat_map(move |(n, node)| {
            let task = move |index| TaskId { job: job.id, node: n as u32, index };
            node.live.iter().map(move |(&index, live)| (task(index), &**live))
        })
    })
}

fn no_device_is_given_twice(cluster: &Cluster, allocated: &AllocatedResources) -> Result<(), Violation> {
    for (worker, w) in cluster.workers() {
        for (index, info) in w.info.devices.iter().enumerate() {
            let device = DeviceId { worker, index: index as u16 };
            let (whole, shares, bytes) = allocated.of(device);
            let fits = whole + u32::from(shares > 0) <= 1 && bytes <= info.budget;
            if !fits && !info.overcommit {
                return violation("no device is given twice", || {
                    format!("{device} is given whole {whole} times and in {shares} shares of {bytes} bytes")
                });
            }
        }
        let (cpus, memory) = allocated.hosts.get(&worker).copied().unwrap_or_default();
        if cpus > w.info.cpus || memory > w.info.memory {
            return violation("no device is given twice", || {
                format!(
                    "{worker} gives {cpus} of {} processors, {memory} of {} bytes",
                    w.info.cpus, w.info.memory
                )
            });
        }
    }
    Ok(())
}

fn the_pool_is_the_sum_of_the_placements(
    cluster: &Cluster,
    allocated: &AllocatedResources,
) -> Result<(), Violation> {
    const RULE: &str = "the pool is the sum of the placements";
    for (worker, w) in cluster.workers() {
        let Some(pool) = cluster.pool().worker(worker) else {
            return violation(RULE, || format!("{worker} is not in the pool"));
        };
        let (cpus, memory) = allocated.hosts.get(&worker).copied().unwrap_or_default();
        let left = (pool.cpus_free(), pool.memory_free());
        if left != (w.info.cpus - cpus, w.info.memory - memory) {
            return violation(RULE, || format!("{worker} has {left:?} left, but gave {:?}", (cpus, memory)));
        }
        for (index, _, used) in pool.devices() {
            let device = DeviceId { worker, index };
            let (whole, shares, bytes) = allocated.of(device);
            if (used.attempts(), used.shared_bytes()) != (whole + shares, bytes) {
                return violation(RULE, || {
                    format!(
                        "{device} counts {used:?}, but gave {whole} whole and {shares} shares of {bytes} bytes"
                    )
                });
            }
        }
    }
    Ok(())
}

fn a_task_is_in_one_place(cluster: &Cluster, allocated: &AllocatedResources) -> Result<(), Violation> {
    for (worker, w) in cluster.workers() {
        let counted = allocated.tasks.get(&worker);
        let same = counted.map_or(w.tasks().is_empty(), |tasks| tasks == w.tasks());
        if !same {
            return violation("a task is in one place", || {
                format!("{worker} lists {:?}, but has {counted:?}", w.tasks())
            });
        }
    }
    Ok(())
}

fn no_task_is_lost_or_gained(cluster: &Cluster) -> Result<(), Violation> {
    for job in cluster.jobs().iter() {
        for (n, node) in job.nodes.iter().enumerate() {
            let waiting = node.fresh.len() + node.held_fresh().len();
            let total = waiting + node.live.len() as u64 + node.done.total();
            if total != u64::from(job.spec.tasks[n].len()) {
                return violation("no task is lost or gained", || {
                    format!("job {} node {n}: {node:?}", job.id)
                });
            }
        }
        let over = job.nodes.iter().all(|n| n.is_done());
        if over != job.finished.is_some() {
            return violation("a job is over when its tasks are", || format!("job {}: {over}", job.id));
        }
    }
    Ok(())
}

fn what_is_derived_follows_from_the_rest(cluster: &Cluster) -> Result<(), Violation> {
    same("what is derived follows from the rest", cluster, &cluster.clone().restored())
}

/// Checks that two states are equal; a violation shows the first difference rather than both states.
pub(super) fn same(rule: &'static str, a: &Cluster, b: &Cluster) -> Result<(), Violation> {
    if a == b {
        return Ok(());
    }
    let (a, b) = (format!("{a:?}"), format!("{b:?}"));
    let at = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let near = |s: &str| s.chars().skip(at.saturating_sub(120)).take(240).collect::<String>();
    violation(rule, || format!("they differ:\n    {}\n    {}", near(&a), near(&b)))
}

/// Checks that a policy built afresh orders the queue as the long-lived one does, and that it can explain every wait.
pub(super) fn a_fresh_policy_sees_the_same(
    cluster: &Cluster,
    lived: &dyn Policy,
    policies: &[PolicyDef],
    now: Time,
) -> Result<(), Violation> {
    let mut fresh = PolicyDef::build_from(policies, cluster.policy()).expect("it is in force");
    fresh.observe(cluster.view(), &warpyard_core::Effects::default());
    let lines = [&*fresh, lived].map(|policy| policy.queue_order(cluster.view(), 1000, now));
    if lines[0] != lines[1] {
        return violation("a fresh policy sees the same", || {
            format!("{}: afresh {:?}, lived {:?}", cluster.policy(), lines[0], lines[1])
        });
    }
    for task in lines[1].iter().take(5) {
        let _asked = lived.explain(cluster.view(), *task, now);
    }
    Ok(())
}

/// Checks the invariants of the machines.
pub(super) fn of_the_machines(
    machines: &[Machine],
    ledger: &Ledger,
    committed: &Cluster,
    now: Time,
) -> Result<(), Violation> {
    a_task_has_one_process(machines, ledger)?;
    machines.iter().try_for_each(|machine| no_attempt_outlives_its_lease(machine, now))?;
    machines.iter().try_for_each(|machine| no_device_is_used_twice(machine, ledger, committed))
}

/// An attempt with `on_lost = rerun` has no process once the server may have given its worker up.
fn no_attempt_outlives_its_lease(machine: &Machine, now: Time) -> Result<(), Violation> {
    let Some((lapses, mut attempts)) = machine.on_loss().filter(|(lapses, _)| *lapses < now) else {
        return Ok(());
    };
    match attempts.find(|(_, on_lost)| *on_lost == OnLost::Rerun) {
        None => Ok(()),
        Some((attempt, _)) => violation("no attempt outlives its lease", || {
            format!("{attempt} runs, and the lease lapsed at {} s", lapses.secs())
        }),
    }
}

fn a_task_has_one_process(machines: &[Machine], ledger: &Ledger) -> Result<(), Violation> {
    let mut seen: BTreeMap<TaskId, AttemptId> = BTreeMap::new();
    let all = machines.iter().flat_map(Machine::processes);
    for attempt in all.filter(|a| !ledger.is_stray(*a)) {
        if let Some(other) = seen.insert(attempt.task, attempt) {
            return violation("a task has one process", || format!("{other} and {attempt} both run"));
        }
    }
    Ok(())
}

fn no_device_is_used_twice(machine: &Machine, ledger: &Ledger, committed: &Cluster) -> Result<(), Violation> {
    let mut allocated = AllocatedResources::default();
    let mut on: BTreeMap<DeviceId, Vec<AttemptId>> = BTreeMap::new();
    for attempt in machine.processes() {
        let Some(placement) = ledger.placement(attempt) else { continue };
        allocated.add(attempt.task, placement);
        placement.device_ids().for_each(|device| on.entry(device).or_default().push(attempt));
    }
    for (device, attempts) in on {
        let (whole, shares, bytes) = allocated.of(device);
        let budget =
            committed.worker(device.worker).map_or(0, |w| w.info.devices[usize::from(device.index)].budget);
        if whole + u32::from(shares > 0) > 1 || bytes > budget {
            return violation("no device is used twice", || format!("{attempts:?} are all on {device}"));
        }
    }
    Ok(())
}
