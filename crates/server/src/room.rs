//! What there is too little of for a task that finds no room, in words.

use crate::pages::words::size;
use warpyard_api::quantity::MilliCpus;
use warpyard_core::DeviceId;
use warpyard_core::place::acceptable;
use warpyard_core::pool::{Pool, charge_for};
use warpyard_core::spec::Needs;

/// What is lacking: "all 4 V100s are taken", "no GPU has 6 GiB left", "0.5 of 8 CPUs are free".
pub(crate) fn lacking(pool: &Pool, needs: &Needs) -> String {
    let of_gpus = || Gpus::suitable(pool, needs).lacking(needs);
    let of_cpus = || {
        let (_, worker) = pool.workers().filter(|(_, w)| w.is_open()).max_by_key(|(_, w)| w.cpus_free())?;
        let (free, all) = (MilliCpus(worker.cpus_free()), MilliCpus(worker.cpus()));
        (worker.cpus_free() < needs.cpus).then(|| format!("{free} of {all} CPUs are free"))
    };
    let of_memory = || {
        let (_, worker) = pool.workers().filter(|(_, w)| w.is_open()).max_by_key(|(_, w)| w.memory_free())?;
        let (free, all) = (size(worker.memory_free()), size(worker.memory()));
        (worker.memory_free() < needs.memory).then(|| format!("{free} of {all} of memory are free"))
    };
    of_gpus()
        .or_else(of_cpus)
        .or_else(of_memory)
        .unwrap_or_else(|| "nothing that is free now is enough".into())
}

/// The GPUs a task could use some day.
struct Gpus {
    all: usize,
    /// How many of them it could have now, on the worker where that is most.
    free_together: usize,
}

impl Gpus {
    fn suitable(pool: &Pool, needs: &Needs) -> Gpus {
        let mut found = Gpus { all: 0, free_together: 0 };
        for (id, worker) in pool.workers().filter(|(_, w)| w.is_open()) {
            let suitable = worker.devices().filter_map(|(index, info, _)| {
                let device = DeviceId { worker: id, index };
                acceptable(needs, device, info).then_some((index, charge_for(info, needs)?))
            });
            let mut free_here = 0;
            for (index, charge) in suitable {
                found.all += 1;
                free_here += usize::from(worker.device_admits(index, charge));
            }
            found.free_together = found.free_together.max(free_here);
        }
        found
    }

    fn lacking(&self, needs: &Needs) -> Option<String> {
        let (wanted, free) = (usize::from(needs.gpus), self.free_together);
        if free >= wanted {
            return None;
        }
        let kind =
            needs.gpu_types.first().filter(|_| needs.gpu_types.len() == 1).map_or("GPU", String::as_str);
        Some(match (free, self.all, needs.gpu_memory) {
            (0, 1, Some(bytes)) => format!("the {kind} has less than {} left", size(bytes)),
            (0, _, Some(bytes)) => format!("no {kind} has {} left", size(bytes)),
            (0, 1, None) => format!("the {kind} is taken"),
            (0, all, None) => format!("all {all} {kind}s are taken"),
            (1, ..) => format!("1 {kind} is free, {wanted} are needed at once"),
            (free, ..) => format!("{free} {kind}s are free together, {wanted} are needed"),
        })
    }
}
