//! Shortages: why a task cannot be placed. An obstacle for each device it could use, or the host resource its worker
//! lacks.
//!
//! An obstacle is a fact about a device that by itself keeps the task off it, found in the order in which admission
//! checks. Removing it everywhere starts the task, or uncovers the next obstacle.

use crate::ids::{DeviceId, WorkerId};
use crate::pool::{Charge, DeviceInfo, DeviceState, DeviceUse, Pool, WorkerUse, acceptable, charge_for};
use crate::spec::Needs;
use std::collections::BTreeMap;

/// Obstacle that keeps a task off a device it could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// Tasks use it, so that it cannot be allocated whole.
    Taken,
    /// Too little of its memory is free.
    Memory,
    /// The limit on tasks that share it is reached.
    TaskLimit(u16),
    /// A foreign process uses it.
    Foreign,
    /// The driver no longer reports it.
    Gone,
    /// Its worker accepts no new tasks.
    Closed,
}

/// Shortage: what is missing for a task to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Too few devices of one worker admit it.
    Devices {
        /// Number of devices that would, on the worker with the most.
        free: usize,
        /// Number of other devices it could use, by obstacle.
        obstacles: BTreeMap<Obstacle, usize>,
    },
    /// This worker has the devices but too few CPUs: thousandths of a core that are free.
    Cpus(WorkerId, u32),
    /// This worker has the devices but too little main memory: bytes that are free.
    Memory(WorkerId, u64),
    /// Nothing is missing.
    None,
}

impl Shortage {
    /// Shortage for a task with these needs.
    pub fn of(pool: &Pool, needs: &Needs) -> Shortage {
        let wanted = usize::from(needs.gpus);
        let mut obstacles = BTreeMap::new();
        let mut most_free = 0;
        // Among workers with enough devices, the one that lacks the fewest resources.
        let mut host: Option<(usize, Shortage)> = None;
        for (id, worker) in pool.workers() {
            let usable = worker.devices().filter_map(|(index, info, used)| {
                let charge = charge_for(info, needs)?;
                let fits = acceptable(needs, DeviceId { worker: id, index }, info);
                fits.then(|| obstacle(worker, info, used, charge))
            });
            let usable: Vec<_> = usable.collect();
            // A worker that could never hold the task is no obstacle to it.
            if usable.len() < wanted
                || !needs.accepts_worker(id)
                || worker.cpus() < needs.cpus
                || worker.memory() < needs.memory
            {
                continue;
            }
            let free = usable.iter().filter(|obstacle| obstacle.is_none()).count();
            most_free = most_free.max(free);
            for obstacle in usable.into_iter().flatten() {
                *obstacles.entry(obstacle).or_default() += 1;
            }
            if free < wanted || !worker.is_open() {
                continue;
            }
            let (cpus, memory) = (worker.cpus_free() < needs.cpus, worker.memory_free() < needs.memory);
            let lacks = match (cpus, memory) {
                (false, false) => return Shortage::None,
                (true, _) => Shortage::Cpus(id, worker.cpus_free()),
                (false, true) => Shortage::Memory(id, worker.memory_free()),
            };
            let kinds = usize::from(cpus) + usize::from(memory);
            if host.as_ref().is_none_or(|(least, _)| kinds < *least) {
                host = Some((kinds, lacks));
            }
        }
        match host {
            Some((_, lacks)) => lacks,
            None => Shortage::Devices { free: most_free, obstacles },
        }
    }
}

/// Obstacle that keeps a charge off a device; none if it would be admitted.
fn obstacle(worker: &WorkerUse, info: &DeviceInfo, used: DeviceUse, charge: Charge) -> Option<Obstacle> {
    match (worker.is_open(), info.state) {
        (false, _) => return Some(Obstacle::Closed),
        (_, DeviceState::Gone) => return Some(Obstacle::Gone),
        (_, DeviceState::Foreign) => return Some(Obstacle::Foreign),
        (true, DeviceState::Usable) if info.overcommit => return None,
        (true, DeviceState::Usable) => {}
    }
    match charge {
        Charge::Whole | Charge::Beside => (used.attempts() > 0).then_some(Obstacle::Taken),
        Charge::Share(_) if used.is_whole() => Some(Obstacle::Taken),
        Charge::Share(bytes) if info.budget.saturating_sub(used.shared_bytes()) < bytes => {
            Some(Obstacle::Memory)
        }
        Charge::Share(_) if used.has_slot(info) => None,
        Charge::Share(_) => info.limit.map(Obstacle::TaskLimit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Search;
    use crate::pool::{Ledger, Placement};
    use proptest::prelude::*;

    /// Generated device: type, state, limit, and allocations.
    type GeneratedDevice = (bool, u8, Option<u16>, Vec<Option<u64>>);

    /// Generated worker: devices, allocated CPUs and memory, whether it is open.
    type GeneratedWorker = (Vec<GeneratedDevice>, u32, u64, bool);

    /// The workers without what the shortage names, to see whether it mattered.
    fn without(machines: &[GeneratedWorker], removed: &Shortage) -> Vec<GeneratedWorker> {
        let mut machines = machines.to_vec();
        for (at, (devices, cpus, memory, open)) in machines.iter_mut().enumerate() {
            match removed {
                Shortage::Cpus(id, _) if id.0 as usize == at => *cpus = 0,
                Shortage::Memory(id, _) if id.0 as usize == at => *memory = 0,
                Shortage::Devices { obstacles, .. } => {
                    let obstacle = obstacles.keys().next();
                    *open |= obstacle == Some(&Obstacle::Closed);
                    for (_, state, limit, given) in devices {
                        match obstacle {
                            Some(Obstacle::Taken | Obstacle::Memory) => given.clear(),
                            Some(Obstacle::TaskLimit(n)) if *limit == Some(*n) => *limit = None,
                            Some(Obstacle::Foreign) if *state == 1 => *state = 0,
                            Some(Obstacle::Gone) if *state == 2 => *state = 0,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        machines
    }

    fn pool(machines: &[GeneratedWorker]) -> Pool {
        let mut pool = Pool::default();
        for (at, (devices, cpus, memory, open)) in machines.iter().enumerate() {
            let id = WorkerId(at as u32);
            let info = |(kind, state, limit, _): &GeneratedDevice| DeviceInfo {
                uuid: String::new(),
                kind: if *kind { "V100" } else { "A100" }.into(),
                memory: 16,
                budget: 16,
                limit: *limit,
                overcommit: false,
                state: [DeviceState::Usable, DeviceState::Foreign, DeviceState::Gone][usize::from(*state)],
            };
            let infos: Vec<_> = devices.iter().map(info).collect();
            pool.describe(id, &infos, 8, 8, *open);
            let given = devices.iter().enumerate().flat_map(|(index, (.., given))| {
                // Either one whole allocation, or several shares.
                let whole = given.iter().any(Option::is_none);
                let all = given.iter().map(|share| share.map_or(Charge::Whole, Charge::Share));
                all.filter(move |charge| !whole || *charge == Charge::Whole)
                    .take(if whole { 1 } else { usize::MAX })
                    .map(move |charge| (index as u16, charge))
            });
            let devices = given.collect();
            pool.charge(&Placement { worker: id, devices, cpus: *cpus, memory: *memory });
        }
        pool
    }

    fn machines() -> impl Strategy<Value = Vec<GeneratedWorker>> {
        let share = prop_oneof![1 => Just(None), 4 => (1u64..6).prop_map(Some)];
        let given = prop::collection::vec(share, 0..3);
        let device = (any::<bool>(), 0u8..3, prop::option::of(1u16..3), given);
        prop::collection::vec((prop::collection::vec(device, 0..4), 0u32..8, 0u64..8, any::<bool>()), 1..4)
    }

    fn needs() -> impl Strategy<Value = Needs> {
        let kind = prop::sample::select(vec![vec![], vec!["V100".to_owned()]]);
        (0u16..3, prop::option::of(1u64..17), kind, 0u32..8, 0u64..8).prop_map(
            |(gpus, gpu_memory, gpu_types, cpus, memory)| Needs {
                gpus,
                gpu_memory,
                gpu_types,
                cpus,
                memory,
                ..Needs::default()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_shortage_is_named_exactly_where_there_is_no_room_and_taking_it_away_matters(
            machines in machines(), needs in needs(),
        ) {
            let now = pool(&machines);
            let fits = |pool: &Pool| Search::over(&Ledger::over(pool)).place(&needs).is_some();
            let shortage = Shortage::of(&now, &needs);
            prop_assert_eq!(shortage == Shortage::None, fits(&now), "{:?}", shortage);
            let possible = match &shortage {
                Shortage::Devices { obstacles, .. } => !obstacles.is_empty(),
                Shortage::None => false,
                _ => true,
            };
            if possible {
                let then = pool(&without(&machines, &shortage));
                prop_assert!(fits(&then) || Shortage::of(&then, &needs) != shortage, "{:?}", shortage);
            }
        }
    }
}
