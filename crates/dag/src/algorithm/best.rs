//! The portfolio: HEFT first, so that nothing worse is given back, then leanings, the learned planner, justification
//! of what they find, then climbing and tinkering in turns for as long as there is time, or until the lower bound is
//! reached.

use super::climb::Climber;
use super::run::{Algorithm, Plan, Run};
use super::tinker::Tinker;
use super::workbench::{Leaning, Workbench, starts};
use crate::instance::Instance;

/// Leanings tried first, in an order that finds something good soon on few machines and on many.
const LEANINGS: &[(f64, f64)] = &[
    (0.4, 0.3),
    (0.0, 1.5),
    (0.3, 0.0),
    (0.2, 0.8),
    (0.0, 0.4),
    (0.1, 3.0),
    (0.6, 0.5),
    (0.5, 0.0),
    (0.1, 0.15),
    (0.3, 1.5),
    (0.8, 0.2),
    (0.0, 6.0),
];

/// The foresight and thrift a search ends with.
#[cfg(feature = "train")]
pub(crate) fn search_leanings(instance: &Instance, run: &mut Run<'_>) -> (f64, f64) {
    let mut bench = Workbench::new(instance, run);
    let lead = leanings(&mut bench).unwrap_or((bench.best.value, Leaning::NONE));
    let mut climber = Climber::new(&bench, lead.1, lead.0);
    while climber.step(&mut bench, "climb") {}
    (climber.leaning().foresight, climber.leaning().thrift)
}

fn best(instance: &Instance, run: &mut Run<'_>) -> Plan {
    let mut bench = Workbench::new(instance, run);
    let Some(lead) = leanings(&mut bench) else { return bench.plan() };
    if let Some(schedule) = bench.make_learned() {
        bench.offer(&schedule, "learned");
    }
    polish(&mut bench, lead.1);
    if instance.tasks() > 0 {
        search(&mut bench, lead);
    }
    bench.plan()
}

/// Tries the leanings; the best value among them and what gave it.
fn leanings(bench: &mut Workbench<'_, '_, '_>) -> Option<(f64, Leaning)> {
    let order = bench.order.clone();
    let mut lead = (bench.best.value, Leaning::NONE);
    for &(foresight, thrift) in LEANINGS {
        let leaning = Leaning { foresight, thrift };
        let schedule = bench.make(&order, leaning)?;
        let by = if foresight == 0.0 {
            "thrift"
        } else if thrift == 0.0 {
            "blend"
        } else {
            "blend+thrift"
        };
        let value = bench.offer(&schedule, by);
        if value < lead.0 {
            lead = (value, leaning);
        }
    }
    Some(lead)
}

/// Climbs and tinkers in turns until time is up or nothing can be better.
fn search(bench: &mut Workbench<'_, '_, '_>, (value, leaning): (f64, Leaning)) {
    /// A try of the tinker costs a fraction of one of the climber.
    const TURN: [usize; 2] = [4, 16];
    let floor = bench.floor();
    let mut climber = Climber::new(bench, leaning, value);
    let mut tinker = Tinker::new(bench);
    while bench.best.value > floor {
        let before = bench.best.value;
        for _ in 0..TURN[0] {
            if !climber.step(bench, "climb") {
                return;
            }
        }
        if bench.best.value < before {
            polish(bench, leaning);
        }
        tinker.learn(bench);
        for _ in 0..TURN[1] {
            if !tinker.step(bench) {
                return;
            }
        }
    }
}

/// Justifies the best schedule while that helps, then lets go of the machines once.
fn polish(bench: &mut Workbench<'_, '_, '_>, leaning: Leaning) {
    loop {
        let before = bench.best.value;
        let schedule = bench.best.schedule.clone();
        let Some(justified) = bench.justify(&schedule) else { return };
        bench.offer(&justified, "justify");
        let order = starts(bench.instance, &justified);
        let Some(free) = bench.make(&order, leaning) else { return };
        bench.offer(&free, "justify");
        if bench.best.value >= before {
            return;
        }
    }
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "best",
    summary: "a portfolio that contains heft and goes on improving until stopped",
    origin: "warpyard",
    searches: true,
    plan: best,
};
