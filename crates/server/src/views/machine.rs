//! Devices, workers and policies as the interface shows them.

use crate::convert::param_value;
use crate::idle_gpus;
use crate::summary::{task_name, time};
use std::collections::BTreeSet;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{
    ForeignProcess, GpuTask, GpuView, ParamView, PolicyView, WorkerDevice, WorkerState, WorkerView,
};
use warpyard_core::event::WorkerInfo;
use warpyard_core::policy::{ParamType, PolicyDef};
use warpyard_core::pool::{Charge, DeviceInfo, DeviceState, WorkerUse};
use warpyard_core::protocol::is_quarantine;
use warpyard_core::{Cluster, PolicyChoice, TaskId, WorkerId};
use warpyard_worker::agent::{HostReading, Watched};
use warpyard_worker::probe::{ForeignUse, GpuProcess};

/// Every device, with the readings of the worker inside.
pub(crate) fn gpus(cluster: &Cluster, watched: Option<&Watched>) -> Vec<GpuView> {
    let mut views = Vec::new();
    let idle = watched.map(Watched::idle).unwrap_or_default();
    let idle: Vec<_> =
        idle.into_iter().map(|(a, idle)| (task_name(cluster, a.task), idle_gpus::words(idle))).collect();
    for (id, used) in cluster.pool().workers() {
        let worker = cluster.worker(id).expect("the pool and the cluster know the same workers");
        let name = &worker.info.name;
        // Readings are of the worker inside, which alone has no lease.
        let watched = watched.filter(|_| worker.info.lease.is_none());
        for (index, info, given) in used.devices() {
            let mut tasks = tasks_on(cluster, worker.tasks(), index);
            for task in &mut tasks {
                task.note = idle.iter().find(|(name, _)| *name == task.task).map(|(_, words)| words.clone());
            }
            let mut strays = watched.into_iter().flat_map(|w| w.strays_on(&info.uuid));
            let given_bytes = if given.is_whole() { info.memory } else { given.shared_bytes() };
            let reading = watched.and_then(|w| w.reading(&info.uuid));
            let in_use = reading.map_or(0, |r| r.used_bytes);
            let others = watched.and_then(|w| w.foreign_on(&info.uuid));
            let others = others.filter(|_| info.state == DeviceState::Foreign);
            let foreign_bytes = others.map_or(0, |others| others.bytes.min(in_use));
            let stray = strays.next();
            let used_bytes = if in_use > 0 { in_use - foreign_bytes } else { given_bytes };
            views.push(GpuView {
                id: format!("{name}/{index}"),
                kind: info.kind.clone(),
                memory_bytes: info.memory,
                used_bytes,
                free_bytes: match info.state {
                    DeviceState::Usable if given.is_whole() => 0,
                    DeviceState::Usable => info.budget.saturating_sub(given.shared_bytes()),
                    DeviceState::Foreign | DeviceState::Gone => 0,
                },
                foreign_bytes,
                foreign: others.filter(|_| stray.is_none()).map(foreign).unwrap_or_default(),
                tasks,
                worker: name.clone(),
                index: u32::from(index),
                uuid: Some(info.uuid.clone()),
                budget_bytes: info.budget,
                max_tasks: info.limit.map(u32::from),
                utilisation_percent: reading
                    .and_then(|r| r.utilisation_percent)
                    .and_then(|u| u8::try_from(u).ok()),
                temperature_celsius: reading
                    .and_then(|r| r.temperature_c)
                    .and_then(|t| i16::try_from(t).ok()),
                power_watts: reading.and_then(|r| r.power_w),
                unavailable: match (info.state, worker.online, worker.drained) {
                    (DeviceState::Gone, ..) => Some("the driver no longer knows it".into()),
                    (DeviceState::Foreign, ..) => Some(match stray {
                        Some(stray) => {
                            format!("used by {}, which was not given it", task_name(cluster, stray.task))
                        }
                        None => "in use by someone else".into(),
                    }),
                    (_, false, _) => Some("its worker is lost".into()),
                    (_, _, true) => Some(match &worker.drain_reason {
                        Some(reason) => format!("its worker is drained ({reason})"),
                        None => "its worker is drained".into(),
                    }),
                    _ => None,
                },
            });
        }
    }
    views
}

/// Processes that are not ours; whose they are is asked elsewhere, for that may take a while.
fn foreign(others: &ForeignUse) -> Vec<ForeignProcess> {
    let process = |p: &GpuProcess| ForeignProcess { pid: p.pid, user: None, memory_bytes: p.bytes };
    others.processes.iter().map(process).collect()
}

fn tasks_on(cluster: &Cluster, tasks: &BTreeSet<TaskId>, device: u16) -> Vec<GpuTask> {
    let here = tasks.iter().filter_map(|&id| {
        let (attempt, spec) = cluster.view().attempt(id)?;
        let (_, charge) = attempt.placement.devices.iter().find(|(i, _)| *i == device)?;
        let job = cluster.job(id.job)?;
        let whole = cluster.worker(attempt.placement.worker)?.info.devices[usize::from(device)].memory;
        let over = cluster.over_request(id).any(|(index, _)| index == device);
        Some(GpuTask {
            task: task_name(cluster, id),
            user: job.user.clone(),
            memory_bytes: match charge {
                Charge::Whole | Charge::Beside => whole,
                Charge::Share(bytes) => *bytes,
            },
            requested_bytes: spec.needs.gpu_memory.filter(|_| over),
            name: Some(job.spec.name.clone()),
            since: Some(time(attempt.started.unwrap_or(attempt.placed))),
            note: None,
        })
    });
    here.collect()
}

/// Every worker; the one inside the server with what is in use on its machine.
pub(crate) fn workers(cluster: &Cluster, watched: Option<&Watched>) -> Vec<WorkerView> {
    let host = watched.map(Watched::host).unwrap_or_default();
    let view = |(id, used): (WorkerId, &WorkerUse)| {
        let worker = cluster.worker(id)?;
        // Only the worker inside has no lease, and only of its machine there are readings.
        let host = if worker.info.lease.is_none() { host } else { HostReading::default() };
        Some(WorkerView {
            id: worker.info.name.clone(),
            name: worker.info.name.clone(),
            state: match (worker.online, worker.drained) {
                (false, _) => WorkerState::Lost,
                (true, true) if worker.drain_reason.as_deref().is_some_and(is_quarantine) => {
                    WorkerState::Quarantined
                }
                (true, true) => WorkerState::Draining,
                (true, false) => WorkerState::Up,
            },
            local: worker.info.lease.is_none(),
            labels: worker.info.labels.clone(),
            devices: devices(&worker.info),
            last_heard: None,
            drain_reason: worker.drain_reason.clone(),
            cpus: MilliCpus(worker.info.cpus),
            used_cpus: MilliCpus(worker.info.cpus.saturating_sub(used.cpus_free())),
            memory_bytes: worker.info.memory,
            used_memory_bytes: worker.info.memory.saturating_sub(used.memory_free()),
            busy_cpus: host.cpus.map(|cpus| MilliCpus((cpus * 1000.0).round() as u32)),
            memory_in_use_bytes: host.memory_bytes,
            gpus: worker.info.devices.len() as u32,
            running: worker.tasks().len() as u64,
            // Of a worker on another machine only the contact with it tells.
            version: worker.info.lease.map_or(env!("CARGO_PKG_VERSION"), |_| "").into(),
        })
    };
    cluster.pool().workers().filter_map(view).collect()
}

fn devices(info: &WorkerInfo) -> Vec<WorkerDevice> {
    let device = |(index, info): (usize, &DeviceInfo)| WorkerDevice {
        index: index as u32,
        kind: info.kind.clone(),
        memory_bytes: info.memory,
    };
    info.devices.iter().enumerate().map(device).collect()
}

/// Every policy, the one in force marked and with its parameters as they are.
pub(crate) fn policies(in_force: Option<&PolicyChoice>, defs: &[PolicyDef]) -> Vec<PolicyView> {
    let view = |def: &PolicyDef| {
        let in_force = in_force.filter(|choice| choice.name == def.name);
        let params = def.params.iter().map(|p| ParamView {
            name: p.name.into(),
            summary: match p.default {
                ParamType::Number(_) | ParamType::Text => p.help.into(),
                ParamType::Word(words) => format!("{}; one of {}", p.help, words.join(", ")),
            },
            default: match p.default {
                ParamType::Number(n) => n.into(),
                ParamType::Word(words) => param_value(words[0]),
                ParamType::Text => param_value(""),
            },
            value: in_force.and_then(|choice| choice.params.get(p.name)).map(|v| param_value(v)),
        });
        PolicyView {
            name: def.name.into(),
            summary: def.summary.into(),
            when: def.when.into(),
            group: def.group.title().into(),
            source: def.source.into(),
            params: params.collect(),
            active: in_force.is_some(),
        }
    };
    defs.iter().map(view).collect()
}
