//! What searches share: schedules made from an order and a leaning, held against the best so far.

use std::rc::Rc;
use std::sync::Arc;

use super::run::{Objective, Plan, Run};
use crate::bounds::Bounds;
use crate::foresight::Foresight;
use crate::insertion::{Cheapest, Inserter, Lean};
use crate::instance::Instance;
use crate::learned::{self, Groundwork, Network};
use crate::rank::{rank_order, upward_ranks_of};
use crate::schedule::{Schedule, Slot};

/// So many tasks are placed before the clock is looked at again.
const PART: usize = 4096;

/// How far the choice of machine leans away from the earliest finish; see [`Lean`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Leaning {
    pub(super) foresight: f64,
    pub(super) thrift: f64,
}

impl Leaning {
    pub(super) const NONE: Self = Self { foresight: 0.0, thrift: 0.0 };
}

/// The best schedule so far and what made it.
#[derive(Debug, Clone)]
pub(super) struct Best {
    pub(super) schedule: Schedule,
    pub(super) value: f64,
    pub(super) by: &'static str,
}

/// One instance under search. HEFT's schedule is the first best, so that nothing worse is ever given back.
pub(super) struct Workbench<'a, 'r, 's> {
    pub(super) instance: &'a Instance,
    pub(super) run: &'r mut Run<'s>,
    pub(super) ranks: Vec<f64>,
    /// HEFT's order.
    pub(super) order: Vec<u32>,
    pub(super) best: Best,
    plain: Rc<Cheapest>,
    table: Option<Arc<Foresight>>,
    /// The cheapest machines under the leaning used last.
    leaning: Option<(Leaning, Rc<Cheapest>)>,
    mirror: Option<Rc<Instance>>,
}

impl<'a, 'r, 's> Workbench<'a, 'r, 's> {
    pub(super) fn new(instance: &'a Instance, run: &'r mut Run<'s>) -> Self {
        let plain = Cheapest::new(instance);
        let ranks = upward_ranks_of(instance, plain.sums().to_vec());
        let order = rank_order(instance, &ranks);
        let mut inserter = Inserter::new(instance, &plain);
        inserter.place_all(&order);
        let schedule = inserter.into_schedule();
        let value = run.objective.of(instance, &schedule);
        run.tell(value, "heft");
        let best = Best { schedule, value, by: "heft" };
        let plain = Rc::new(plain);
        Self { instance, run, ranks, order, best, plain, table: None, leaning: None, mirror: None }
    }

    /// Makes a schedule: the tasks in `order`, each where finish and leaning are least. Nothing when time is up.
    pub(super) fn make(&mut self, order: &[u32], leaning: Leaning) -> Option<Schedule> {
        if !self.run.go_on() {
            return None;
        }
        if leaning == Leaning::NONE {
            let mut inserter = Inserter::new(self.instance, &self.plain);
            for part in order.chunks(PART) {
                if self.run.is_over() {
                    return None;
                }
                inserter.place_all(part);
            }
            return Some(inserter.into_schedule());
        }
        let table = if leaning.foresight == 0.0 { Arc::default() } else { self.table() };
        let shares = [(leaning.foresight, leaning.thrift)];
        let lean = Lean { table: &table, shares: &shares };
        let cheapest = self.cheapest(leaning, &lean);
        let mut inserter = Inserter::new(self.instance, &cheapest);
        for part in order.chunks(PART) {
            if self.run.is_over() {
                return None;
            }
            inserter.place_all_leaning(part, &lean);
        }
        Some(inserter.into_schedule())
    }

    /// Makes a schedule with every task on the machine it is given, as early as it goes, in `order`.
    pub(super) fn make_on(&mut self, order: &[u32], machines: impl Fn(usize) -> u32) -> Option<Schedule> {
        if !self.run.go_on() {
            return None;
        }
        placed_on(self.run, self.instance, &self.plain, order, machines)
    }

    /// Makes the schedule that the shipped network advises, where it is worth trying.
    pub(super) fn make_learned(&mut self) -> Option<Schedule> {
        if !learned::is_promising(self.instance, &self.plain) || !self.run.go_on() {
            return None;
        }
        let table = self.table();
        let ground = Groundwork::new(self.instance, &self.plain);
        Some(ground.plan(&ground.ask(Network::shipped()), &table))
    }

    /// Keeps `schedule` if it is better than the best; gives its value.
    pub(super) fn offer(&mut self, schedule: &Schedule, by: &'static str) -> f64 {
        let value = self.value(schedule);
        if value < self.best.value {
            self.best = Best { schedule: schedule.clone(), value, by };
            self.run.tell(value, by);
        }
        value
    }

    /// A value no schedule can beat, where one is known.
    pub(super) fn floor(&self) -> f64 {
        match self.run.objective {
            Objective::Makespan if self.instance.is_integral() => {
                // Whole numbers only; the bound itself may have lost a trifle to rounding.
                let bound = Bounds::of(self.instance).makespan();
                (bound * (1.0 - 1e-12)).ceil()
            }
            Objective::Makespan => Bounds::of(self.instance).makespan(),
            Objective::MeanTurnaround | Objective::MeanWait => 0.0,
        }
    }

    pub(super) fn value(&self, schedule: &Schedule) -> f64 {
        self.run.objective.of(self.instance, schedule)
    }

    /// Pushes every task as late as it goes on its machine, then as early: seldom worse, often better.
    pub(super) fn justify(&mut self, schedule: &Schedule) -> Option<Schedule> {
        if self.run.objective != Objective::Makespan || !self.run.go_on() {
            return None;
        }
        let mirror = Rc::clone(self.mirror.get_or_insert_with(|| Rc::new(self.instance.reversed())));
        let machine = |task: usize| schedule.slots[task].machine;
        let last_first = starts(&mirror, &mirrored(schedule));
        let late = placed_on(self.run, &mirror, &self.plain, &last_first, machine)?;
        self.make_on(&starts(self.instance, &mirrored(&late)), machine)
    }

    pub(super) fn plan(self) -> Plan {
        Plan { schedule: self.best.schedule, winner: Some(self.best.by), iterations: self.run.made() }
    }

    fn table(&mut self) -> Arc<Foresight> {
        Arc::clone(self.table.get_or_insert_with(|| Arc::new(Foresight::new(self.instance))))
    }

    fn cheapest(&mut self, leaning: Leaning, lean: &Lean<'_>) -> Rc<Cheapest> {
        if let Some((known, cheapest)) = &self.leaning
            && *known == leaning
        {
            return Rc::clone(cheapest);
        }
        // Where links are not uniform nobody asks which machines are cheapest.
        let uniform = self.instance.has_uniform_links();
        let cheapest =
            if uniform { Rc::new(Cheapest::leaning(self.instance, lean)) } else { Rc::clone(&self.plain) };
        self.leaning = Some((leaning, Rc::clone(&cheapest)));
        cheapest
    }
}

/// Nothing when time is up.
fn placed_on(
    run: &mut Run<'_>,
    instance: &Instance,
    cheapest: &Cheapest,
    order: &[u32],
    machine: impl Fn(usize) -> u32,
) -> Option<Schedule> {
    let mut inserter = Inserter::new(instance, cheapest);
    for part in order.chunks(PART) {
        if run.is_over() {
            return None;
        }
        for &task in part {
            inserter.place_on(task as usize, machine(task as usize) as usize);
        }
    }
    Some(inserter.into_schedule())
}

/// The tasks by their start; those that start together in topological order.
pub(super) fn starts(instance: &Instance, schedule: &Schedule) -> Vec<u32> {
    let mut order = instance.topological_order().to_vec();
    order.sort_by(|a, b| schedule.slots[*a as usize].start.total_cmp(&schedule.slots[*b as usize].start));
    order
}

/// The schedule read from its end.
fn mirrored(schedule: &Schedule) -> Schedule {
    let end = schedule.makespan();
    let mirror = |s: &Slot| Slot { machine: s.machine, start: end - s.finish, finish: end - s.start };
    Schedule { slots: schedule.slots.iter().map(mirror).collect() }
}
