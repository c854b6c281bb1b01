//! Feasibility: whether any worker could ever meet a task's needs. Checked once at submission, so that no task waits
//! for ever for a device that does not exist.

use super::{Cluster, Worker};
use crate::command::{Code, Rejection};
use crate::event::WorkerInfo;
use crate::ids::{DeviceId, WorkerId};
use crate::pool::{DeviceInfo, acceptable, charge_for};
use crate::spec::{JobSpec, Needs};
use std::collections::BTreeSet;

impl Cluster {
    /// Rejects a job that no worker could ever run. While no worker is known, every job is accepted.
    pub fn feasible(&self, job: &JobSpec) -> Result<(), Rejection> {
        if self.workers.is_empty() {
            return Ok(());
        }
        for (i, task) in job.tasks.iter().enumerate() {
            self.needs_feasible(&task.needs).map_err(|r| {
                let field = r.path.clone().unwrap_or_default();
                r.at(format!("tasks[{i}].{field}"))
            })?;
        }
        Ok(())
    }

    fn needs_feasible(&self, needs: &Needs) -> Result<(), Rejection> {
        self.devices_exist(needs)?;
        if self.workers().any(|(id, worker)| could_run(id, worker, needs)) {
            return Ok(());
        }
        if let Some(missing) = needs.workers.iter().find(|id| self.worker(**id).is_none()) {
            let message = format!("there is no worker {}", missing.0);
            return Err(Rejection::new(Code::NoSuchWorker, message).at("on"));
        }
        if !needs.workers.is_empty() {
            let names: Vec<_> = needs.workers.iter().map(|id| self.view().worker_name(*id)).collect();
            let message = format!("{} could never run it", names.join(" or "));
            return Err(Rejection::new(Code::NoSuchWorker, message)
                .at("on")
                .help("`warpyard workers` lists what each has"));
        }
        let most_cpus = self.workers.iter().map(|w| w.info.cpus).max().unwrap_or(0);
        if needs.cpus > most_cpus {
            let (asked, most) = (f64::from(needs.cpus) / 1000.0, f64::from(most_cpus) / 1000.0);
            let message = format!("{asked} processors are more than any worker here has (most: {most})");
            return Err(Rejection::new(Code::TooManyCpus, message).at("cpus"));
        }
        let most_memory = self.workers.iter().map(|w| w.info.memory).max().unwrap_or(0);
        if needs.memory > most_memory {
            let message = format!(
                "{} is more memory than any worker here has (most: {})",
                bytes(needs.memory),
                bytes(most_memory)
            );
            return Err(Rejection::new(Code::TooMuchMemory, message).at("memory"));
        }
        if needs.gpus > 0 {
            self.gpus_feasible(needs)?;
        }
        let message = "no single worker here has all it needs at once";
        Err(Rejection::new(Code::TooManyGpus, message)
            .at("gpus")
            .help("`warpyard workers` lists what each has"))
    }

    fn gpus_feasible(&self, needs: &Needs) -> Result<(), Rejection> {
        let list = "`warpyard gpus` lists them";
        let devices: Vec<_> = self.usable(needs).collect();
        if devices.is_empty() {
            let all = self.workers.iter().flat_map(|w| &w.info.devices);
            let kinds: BTreeSet<_> = all.map(|d| d.kind.as_str()).collect();
            if kinds.is_empty() {
                return Err(Rejection::new(Code::TooManyGpus, "there is no GPU here")
                    .at("gpus")
                    .help("start the server with real or declared GPUs, such as `warpyard up --gpus fake:2xV100:16GiB`"));
            }
            let kinds: Vec<_> = kinds.into_iter().collect();
            let message = format!("no GPU here is of an acceptable type (there are: {})", kinds.join(", "));
            return Err(Rejection::new(Code::NoDeviceOfType, message).at("gpu_type").help(list));
        }
        if let Some(asked) = needs.gpu_memory {
            let (at, largest) = devices.iter().max_by_key(|(_, d)| d.memory).expect("there is one");
            if asked > largest.memory {
                let message = format!(
                    "{} is more than any GPU here has (largest: {} {} on {})",
                    bytes(asked),
                    largest.kind,
                    bytes(largest.memory),
                    self.workers[at.worker.0 as usize].info.name
                );
                return Err(Rejection::new(Code::NoDeviceLargeEnough, message)
                    .at("gpu_memory")
                    .help(format!("lower it, or add a larger GPU; {list}")));
            }
        }
        let holds = |w: WorkerId| {
            devices.iter().filter(|(at, d)| at.worker == w && charge_for(d, needs).is_some()).count()
        };
        let most = self.workers().map(|(w, _)| holds(w)).max().unwrap_or(0);
        if most < usize::from(needs.gpus) {
            let message = format!(
                "{} GPUs on one worker are more than any here has of the kind asked for (most: {most})",
                needs.gpus
            );
            return Err(Rejection::new(Code::TooManyGpus, message).at("gpus").help(list));
        }
        Ok(())
    }

    fn devices_exist(&self, needs: &Needs) -> Result<(), Rejection> {
        for (field, ids) in [("gpu_scope", &needs.scope), ("gpu_preferred", &needs.preferred)] {
            for id in ids {
                let known =
                    self.worker(id.worker).is_some_and(|w| usize::from(id.index) < w.info.devices.len());
                if !known {
                    let message = format!("there is no device {}", id.index);
                    return Err(Rejection::new(Code::NoSuchDevice, message)
                        .at(field)
                        .help("`warpyard gpus` lists the devices with their numbers"));
                }
            }
        }
        Ok(())
    }

    fn usable<'a>(&'a self, needs: &'a Needs) -> impl Iterator<Item = (DeviceId, &'a DeviceInfo)> + 'a {
        self.workers().flat_map(move |(worker, w)| {
            let devices = w.info.devices.iter().enumerate();
            devices.filter_map(move |(i, info)| {
                let id = DeviceId { worker, index: i as u16 };
                acceptable(needs, id, info).then_some((id, info))
            })
        })
    }
}

/// Whether a worker, if idle, has everything a task needs.
fn could_run(id: WorkerId, worker: &Worker, needs: &Needs) -> bool {
    let WorkerInfo { devices, cpus, memory, .. } = &worker.info;
    let suits = |(i, info): &(usize, &DeviceInfo)| {
        let device = DeviceId { worker: id, index: *i as u16 };
        charge_for(info, needs).is_some() && acceptable(needs, device, info)
    };
    let wanted = usize::from(needs.gpus);
    needs.accepts_worker(id)
        && *cpus >= needs.cpus
        && *memory >= needs.memory
        && devices.iter().enumerate().filter(suits).take(wanted).count() == wanted
}

/// Size in the form people write it.
pub(crate) fn bytes(n: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|&(_, size)| n >= size) {
        Some((unit, size)) if n.is_multiple_of(size) => format!("{} {unit}", n / size),
        Some((unit, size)) => format!("{:.1} {unit}", n as f64 / size as f64),
        None => format!("{n} B"),
    }
}
