//! A hill climb by noise: the priorities of some tasks and the leaning of all are shaken, the schedule is made anew,
//! and what is not worse is kept. Starts from HEFT; goes on until stopped.

use super::ready::by_priority;
use super::run::{Algorithm, Plan, Run};
use super::workbench::{Leaning, Workbench};
use crate::instance::Instance;
use crate::random::SplitMix64;

/// Where a climb stands.
pub(super) struct Climber {
    draw: SplitMix64,
    priority: Vec<f64>,
    leaning: Leaning,
    value: f64,
    /// A mean cost, on the scale of ranks.
    scale: f64,
}

impl Climber {
    pub(super) fn new(bench: &Workbench<'_, '_, '_>, leaning: Leaning, value: f64) -> Self {
        let tasks = bench.ranks.len().max(1) as f64;
        let costs = bench.instance.cost_matrix().iter().sum::<f64>();
        let draw = SplitMix64::new(bench.run.seed);
        Self { draw, priority: bench.ranks.clone(), leaning, value, scale: costs / tasks }
    }

    #[cfg(feature = "train")]
    pub(super) fn leaning(&self) -> Leaning {
        self.leaning
    }

    /// One try. False when time is up.
    pub(super) fn step(&mut self, bench: &mut Workbench<'_, '_, '_>, by: &'static str) -> bool {
        let mut leaning = self.leaning;
        let mut priority = self.priority.clone();
        if self.draw.below(4) == 0 {
            leaning.foresight = (leaning.foresight + 0.1 * self.draw.bell()).clamp(0.0, 1.5);
            leaning.thrift =
                (leaning.thrift + (0.1 + 0.2 * leaning.thrift) * self.draw.bell()).clamp(0.0, 16.0);
        } else {
            let size = self.scale * [0.1, 0.5, 2.0][self.draw.index(3)];
            let one_in = [2, 10, 50][self.draw.index(3)];
            for priority in &mut priority {
                if self.draw.below(one_in) == 0 {
                    *priority += size * self.draw.bell();
                }
            }
        }
        let Some(schedule) = bench.make(&by_priority(bench.instance, &priority), leaning) else {
            return false;
        };
        let value = bench.offer(&schedule, by);
        if value <= self.value {
            (self.priority, self.leaning, self.value) = (priority, leaning, value);
        }
        true
    }
}

fn climb(instance: &Instance, run: &mut Run<'_>) -> Plan {
    let mut bench = Workbench::new(instance, run);
    let mut climber = Climber::new(&bench, Leaning::NONE, bench.best.value);
    while climber.step(&mut bench, "climb") {}
    Plan { winner: None, ..bench.plan() }
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "climb",
    summary: "hill climb from heft by noise on priorities and on the leaning",
    origin: "warpyard",
    searches: true,
    plan: climb,
};
