//! What a task that finds no room is short of, in words.

use crate::units::size;
use std::collections::BTreeMap;
use warpyard_api::quantity::MilliCpus;
use warpyard_core::Cluster;
use warpyard_core::shortage::{Obstacle, Shortage};
use warpyard_core::spec::Needs;

/// What is lacking: "all 4 V100s are taken", "no GPU has 6 GiB left", "0.5 of 8 CPUs are free".
pub(crate) fn lacking(cluster: &Cluster, needs: &Needs) -> String {
    let pool = cluster.pool();
    // Which machine is meant goes without saying where there is one.
    let on = |id| match pool.workers().count() {
        1 => String::new(),
        _ => format!(" on {}", cluster.view().worker_name(id)),
    };
    match Shortage::of(pool, needs) {
        Shortage::Devices { free, obstacles } => devices(needs, free, &obstacles),
        Shortage::Cpus(id, free) => {
            let all = pool.worker(id).map_or(0, |w| w.cpus());
            format!("{} of {} CPUs are free{}", MilliCpus(free), MilliCpus(all), on(id))
        }
        Shortage::Memory(id, free) => {
            let all = pool.worker(id).map_or(0, |w| w.memory());
            format!("{} of {} of memory are free{}", size(free), size(all), on(id))
        }
        // What is free is of a type it makes no progress on.
        Shortage::None => "none of the GPUs that are free suits it".into(),
    }
}

fn devices(needs: &Needs, free: usize, obstacles: &BTreeMap<Obstacle, usize>) -> String {
    let kind = match &needs.gpu_types[..] {
        [only] => only.as_str(),
        _ => "GPU",
    };
    let wanted = needs.gpus;
    let others: usize = obstacles.values().sum();
    let few = match free {
        0 => None,
        1 => Some(format!("1 {kind} is free, {wanted} are needed at once")),
        free => Some(format!("{free} {kind}s are free together, {wanted} are needed")),
    };
    let only_taken = obstacles.keys().all(|obstacle| *obstacle == Obstacle::Taken);
    match (few, &obstacles.iter().collect::<Vec<_>>()[..]) {
        (Some(few), _) if only_taken => few,
        (None, []) => format!("no {kind} here is enough for it"),
        (None, [(obstacle, count)]) => one_kind(**obstacle, **count, kind, needs),
        (few, several) => {
            let parts: Vec<_> = several.iter().map(|(o, n)| part(**o, **n, needs)).collect();
            let (last, rest) = parts.split_last().expect("there are several");
            let parts =
                if rest.is_empty() { last.clone() } else { format!("{} and {last}", rest.join(", ")) };
            match few {
                Some(few) => format!("{few}; of the others, {parts}"),
                None => format!("of {others} {kind}s, {parts}"),
            }
        }
    }
}

/// The same obstacle on every device.
fn one_kind(obstacle: Obstacle, count: usize, kind: &str, needs: &Needs) -> String {
    let left = || size(needs.gpu_memory.unwrap_or(0));
    match (obstacle, count) {
        (Obstacle::Taken, 1) => format!("the {kind} is taken"),
        (Obstacle::Taken, all) => format!("{} are taken", every(all, kind)),
        (Obstacle::Memory, 1) => format!("the {kind} has less than {} left", left()),
        (Obstacle::Memory, _) => format!("no {kind} has {} left", left()),
        (Obstacle::TaskLimit(limit), 1) => format!("the {kind} runs {}, its limit", tasks(limit)),
        (Obstacle::TaskLimit(limit), all) => {
            format!("{} run {} each, their limit", every(all, kind), tasks(limit))
        }
        (Obstacle::Foreign, 1) => {
            format!("the {kind} is used by a process outside warpyard (`warpyard gpus` shows it)")
        }
        (Obstacle::Foreign, all) => {
            format!(
                "{} are used by processes outside warpyard (`warpyard gpus` shows them)",
                every(all, kind)
            )
        }
        (Obstacle::Gone, 1) => format!("the driver no longer reports the {kind}"),
        (Obstacle::Gone, all) => format!("the driver no longer reports any of {all} {kind}s"),
        (Obstacle::Closed, 1) => format!("the {kind} is on a worker that takes no new tasks"),
        (Obstacle::Closed, all) => format!("{} are on workers that take no new tasks", every(all, kind)),
    }
}

/// One obstacle among several: "2 are taken".
fn part(obstacle: Obstacle, count: usize, needs: &Needs) -> String {
    let (is, s) = if count == 1 { ("is", "s") } else { ("are", "") };
    match obstacle {
        Obstacle::Taken => format!("{count} {is} taken"),
        Obstacle::Memory => {
            let has = if count == 1 { "has" } else { "have" };
            format!("{count} {has} less than {} left", size(needs.gpu_memory.unwrap_or(0)))
        }
        Obstacle::TaskLimit(limit) => format!("{count} run{s} {}, the limit", tasks(limit)),
        Obstacle::Foreign => {
            let by = if count == 1 { "a process" } else { "processes" };
            format!("{count} {is} used by {by} outside warpyard")
        }
        Obstacle::Gone => format!("{count} {is} no longer reported by the driver"),
        Obstacle::Closed => format!("{count} {is} on a worker that takes no new tasks"),
    }
}

/// Several of a kind: "both V100s", "all 4 GPUs".
fn every(count: usize, kind: &str) -> String {
    if count == 2 { format!("both {kind}s") } else { format!("all {count} {kind}s") }
}

fn tasks(n: u16) -> String {
    format!("{n} task{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_is_named_and_several_are_counted() {
        let needs = Needs { gpus: 1, gpu_memory: Some(6 << 30), ..Needs::default() };
        let said = |obstacles: &[(Obstacle, usize)], free| {
            devices(&needs, free, &obstacles.iter().copied().collect())
        };
        assert_eq!(said(&[(Obstacle::TaskLimit(2), 1)], 0), "the GPU runs 2 tasks, its limit");
        assert_eq!(
            said(&[(Obstacle::Foreign, 1)], 0),
            "the GPU is used by a process outside warpyard (`warpyard gpus` shows it)"
        );
        assert_eq!(
            said(&[(Obstacle::Taken, 2), (Obstacle::TaskLimit(1), 1), (Obstacle::Foreign, 1)], 0),
            "of 4 GPUs, 2 are taken, 1 runs 1 task, the limit and 1 is used by a process outside warpyard"
        );
        let two = Needs { gpus: 2, ..Needs::default() };
        let few = devices(&two, 1, &[(Obstacle::Foreign, 1)].into_iter().collect());
        assert_eq!(
            few,
            "1 GPU is free, 2 are needed at once; of the others, 1 is used by a process outside warpyard"
        );
    }
}
