//! Filling the GPU nodes of Alibaba's trace of 2023: how much of the GPUs can be given away, by placement rule.
//!
//! The setting of *Beware of Fragmentation* (Weng et al., USENIX ATC 2023): the pods of the trace come one by one in shuffled
//! order, over and over, and none ever leaves; one that fits nowhere is turned away. Until what was asked for reaches 130 %
//! of all GPUs, what was given away and what is free but of no use to the trace's pods are noted against what was asked for.
//! Every pod is submitted to a `Cluster`, placed by a search over its pool and admitted by it, as any task is. A GPU has a
//! memory of 1000 units there, and a pod that wants 460 thousandths of a GPU wants 460 of them: shares of a GPU and shares
//! of its memory are the same to the pool.

use super::Row;
use crate::random::Random;
use crate::workload::{OpenbNode, OpenbPod};
use std::sync::atomic::{AtomicUsize, Ordering};
use warpyard_core::command::TaskSelector;
use warpyard_core::event::EventKind;
use warpyard_core::fragment::TaskMix;
use warpyard_core::place::{Fit, Search};
use warpyard_core::plan::Start;
use warpyard_core::pool::Ledger;
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};
use warpyard_core::{Cluster, Command, Plan, PolicyChoice, TaskId, Time};

/// The rules compared; the last should give away most.
pub const RULES: [(&str, Fit); 4] =
    [("first", Fit::First), ("best", Fit::Best), ("spread", Fit::Spread), ("gradient", Fit::Gradient)];

/// A GPU in the units its shares are counted in.
const GPU: u64 = 1000;

/// How far what is asked for goes, and how often it is looked at on the way, in hundredths of all GPUs.
const UNTIL: usize = 130;
const STEP: usize = 5;

/// The points that become rows of the table.
const ROWS: [usize; 4] = [90, 100, 110, 130];

/// What came of one rule, for each hundredth of all GPUs asked for in steps, over the shuffles. All in hundredths of all
/// GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The rule.
    pub rule: &'static str,
    /// At each point, what was given away in each shuffle.
    pub allocated: Vec<Vec<f64>>,
    /// At each point, what was free but of no use to a pod, in expectation, in each shuffle.
    pub fragmented: Vec<Vec<f64>>,
}

/// Where the curves are looked at, in hundredths of all GPUs asked for.
pub fn points() -> impl Iterator<Item = usize> {
    (STEP..=UNTIL).step_by(STEP)
}

/// Fills the nodes with the pods by each rule, so many times each; `progress` receives the number done and the total.
pub fn fill(
    nodes: &[OpenbNode],
    pods: &[OpenbPod],
    shuffles: u64,
    progress: impl Fn(usize, usize) + Sync,
) -> Vec<Curve> {
    let needs: Vec<Needs> = pods.iter().map(needs).collect();
    let empty = empty(nodes);
    let workload = TaskMix::of(needs.iter().map(|needs| (needs, 1)));
    let runs: Vec<_> =
        RULES.iter().flat_map(|&(_, fit)| (0..shuffles).map(move |seed| (fit, seed))).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut mine = Vec::new();
        while let Some(&(fit, seed)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            mine.push(((fit, seed), FillingRun::new(&empty, &workload, fit).run(&needs, seed)));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, runs.len());
        }
        mine
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(runs.len());
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a filling does not fail")).collect()
    });
    found.sort_by_key(|((_, seed), _)| *seed);
    let curve = |&(rule, fit): &(&'static str, Fit)| {
        let of_rule: Vec<_> =
            found.iter().filter(|((f, _), _)| *f == fit).map(|(_, points)| points).collect();
        let column = |pick: fn(&Point) -> f64| {
            (0..points().count()).map(|at| of_rule.iter().map(|p| pick(&p[at])).collect()).collect()
        };
        Curve { rule, allocated: column(|p| p.allocated), fragmented: column(|p| p.fragmented) }
    };
    RULES.iter().map(curve).collect()
}

/// Rows of the table: at some points, the mean over the shuffles with its minimum and maximum. The paper prints curves and
/// no figures for this setting, so no row has a verdict.
pub fn rows(curves: &[Curve]) -> Vec<Row> {
    type Column = fn(&Curve) -> &[Vec<f64>];
    let columns: [(&str, Column); 2] =
        [("allocated", |curve| &curve.allocated), ("fragmented", |curve| &curve.fragmented)];
    let mut rows = Vec::new();
    for (name, column) in columns {
        for (at, point) in points().enumerate().filter(|(_, point)| ROWS.contains(point)) {
            for curve in curves {
                let values = &column(curve)[at];
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let row = format!("{} {name} at {point} %", curve.rule);
                rows.push(Row::unpublished(row, (mean(values), low, high)));
            }
        }
    }
    rows
}

/// The mean of some values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn needs(pod: &OpenbPod) -> Needs {
    Needs {
        gpus: pod.gpus,
        gpu_memory: (pod.gpus > 0).then_some(u64::from(pod.gpu_milli)),
        gpu_types: pod.gpu_types.clone(),
        cpus: pod.cpu_milli,
        memory: pod.memory_mib << 20,
        ..Needs::default()
    }
}

fn share(needs: &Needs) -> u64 {
    u64::from(needs.gpus) * needs.gpu_memory.unwrap_or(GPU)
}

/// The nodes with nothing on them.
fn empty(nodes: &[OpenbNode]) -> Cluster {
    let mut cluster = Cluster::new(PolicyChoice::default());
    for node in nodes {
        let info = node.server(GPU);
        let joined = cluster.decide(Command::Join(info), Time(0)).expect("any worker may join");
        joined.iter().for_each(|event| drop(cluster.apply(event)));
    }
    cluster
}

struct Point {
    allocated: f64,
    fragmented: f64,
}

/// Nodes being filled.
struct FillingRun<'a> {
    cluster: Cluster,
    workload: &'a TaskMix,
    fit: Fit,
    capacity: u64,
    requested: u64,
    allocated: u64,
}

impl<'a> FillingRun<'a> {
    fn new(empty: &Cluster, workload: &'a TaskMix, fit: Fit) -> FillingRun<'a> {
        let devices: usize = empty.workers().map(|(_, w)| w.info.devices.len()).sum();
        let (cluster, capacity) = (empty.clone(), devices as u64 * GPU);
        FillingRun { cluster, workload, fit, capacity, requested: 0, allocated: 0 }
    }

    fn run(mut self, pods: &[Needs], seed: u64) -> Vec<Point> {
        let mut random = Random::new(seed);
        let mut order: Vec<&Needs> = Vec::new();
        let mut reached = Vec::new();
        for point in points() {
            while self.requested * 100 < point as u64 * self.capacity {
                if order.is_empty() {
                    order = pods.iter().collect();
                    shuffle(&mut order, &mut random);
                }
                let Some(needs) = order.pop() else { return reached };
                self.request(needs);
            }
            let part = |devices: f64| 100.0 * devices * GPU as f64 / self.capacity as f64;
            reached.push(Point {
                allocated: part(self.allocated as f64 / GPU as f64),
                fragmented: part(self.workload.fragmentation(self.cluster.pool())),
            });
        }
        reached
    }

    /// One pod comes; it gets a place, or is turned away.
    fn request(&mut self, needs: &Needs) {
        self.requested += share(needs);
        let task = TaskSpec { name: "pod".into(), needs: needs.clone(), ..TaskSpec::default() };
        let spec = JobSpec { name: "pod".into(), tasks: vec![task], ..JobSpec::default() };
        let submit = Command::Submit { user: "pods".into(), env: None, spec: spec.into() };
        let Ok(events) = self.cluster.decide(submit, Time(0)) else { return };
        let mut job = None;
        for event in &events {
            if let EventKind::JobSubmitted { job: id, .. } = event.what {
                job = Some(id);
            }
            self.cluster.apply(event);
        }
        let job = job.expect("what was accepted has a number");
        let ledger = Ledger::over(self.cluster.pool());
        let search = Search { fit: self.fit, workload: self.workload, ..Search::over(&ledger) };
        let Some(placement) = search.place(needs) else {
            for command in [Command::Cancel(TaskSelector::Job(job)), Command::Forget(job)] {
                let gone = self.cluster.decide(command, Time(0)).expect("a job that waits can go");
                gone.iter().for_each(|event| drop(self.cluster.apply(event)));
            }
            return;
        };
        let start = Start { task: TaskId { job, node: 0, index: 0 }, placement };
        let plan = Plan { start: [start].into(), ..Plan::default() };
        let (events, refused) = self.cluster.admit(&plan, Time(0));
        assert!(refused.is_empty(), "what a search finds is admitted: {refused:?}");
        events.iter().for_each(|event| drop(self.cluster.apply(event)));
        self.allocated += share(needs);
    }
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for i in (1..list.len()).rev() {
        list.swap(i, random.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(gpus: u16, gpu_milli: u16) -> OpenbPod {
        OpenbPod {
            name: String::new(),
            cpu_milli: 1000,
            memory_mib: 1024,
            gpus,
            gpu_milli,
            gpu_types: Vec::new(),
            qos: String::new(),
            phase: String::new(),
            created: 0,
            deleted: 0,
            scheduled: None,
        }
    }

    #[test]
    fn nothing_is_given_away_twice_and_the_gradient_gives_away_no_less() {
        let nodes: Vec<_> = (0..12)
            .map(|i| OpenbNode {
                name: format!("node{i}"),
                cpu_milli: 64_000,
                memory_mib: 262_144,
                gpus: 4,
                model: "T4".into(),
            })
            .collect();
        let mix = [pod(1, 470), pod(1, 320), pod(1, 810), pod(1, 1000), pod(2, 1000), pod(1, 230)];
        let pods: Vec<_> = (0..60).map(|i| mix[i % mix.len()].clone()).collect();
        let curves = fill(&nodes, &pods, 3, |_, _| {});
        assert_eq!(curves.len(), RULES.len());
        for curve in &curves {
            let end = curve.allocated.last().unwrap();
            assert!(end.iter().all(|share| (50.0..=100.0).contains(share)), "{}: {end:?}", curve.rule);
            assert!(end.windows(2).any(|pair| pair[0] != pair[1]), "shuffles differ");
        }
        let end = |at: usize| mean(curves[at].allocated.last().unwrap());
        assert!(end(3) >= end(0).max(end(1)) && end(3) > end(2), "{:?}", (0..4).map(end).collect::<Vec<_>>());
        assert_eq!(fill(&nodes, &pods, 3, |_, _| {}), curves, "the same seeds, the same curves");
    }
}
