//! Context shared by the members of a search: building schedules from an order and bias weights or machines, and the
//! incumbent.

use std::rc::Rc;
use std::sync::Arc;

use super::definition::{Objective, Plan, SearchOptions};
use super::exchange::Exchange;
use crate::bounds::Bounds;
use crate::insertion::{CheapestMachines, Inserter, MachineBias};
use crate::instance::Instance;
use crate::learned::{self, Network, NetworkInput};
use crate::rank::{rank_order, upward_ranks_of};
use crate::remaining_cost::RemainingCosts;
use crate::schedule::{Schedule, Slot};

/// Tasks placed between two checks of the time budget.
const TASKS_PER_CHECK: usize = 4096;

/// Weights of the machine bias; see [`MachineBias`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BiasWeights {
    pub(super) foresight: f64,
    pub(super) thrift: f64,
}

impl BiasWeights {
    pub(super) const NONE: Self = Self { foresight: 0.0, thrift: 0.0 };
}

/// Best schedule so far and the method that found it.
#[derive(Debug, Clone)]
pub(super) struct Incumbent {
    pub(super) schedule: Schedule,
    pub(super) value: f64,
    pub(super) by: &'static str,
}

/// Search over one instance. HEFT's schedule is the first incumbent, so the result is never worse than HEFT.
pub(super) struct SearchContext<'a, 'r, 's> {
    pub(super) instance: &'a Instance,
    pub(super) options: &'r mut SearchOptions<'s>,
    pub(super) ranks: Vec<f64>,
    /// Order of falling upward rank, as in HEFT.
    pub(super) order: Vec<u32>,
    pub(super) incumbent: Incumbent,
    plain: Rc<CheapestMachines>,
    remaining: Option<Arc<RemainingCosts>>,
    /// Cheapest machines under the bias weights used last.
    biased: Option<(BiasWeights, Rc<CheapestMachines>)>,
    mirror: Option<Rc<Instance>>,
}

impl<'a, 'r, 's> SearchContext<'a, 'r, 's> {
    pub(super) fn new(instance: &'a Instance, options: &'r mut SearchOptions<'s>) -> Self {
        let plain = CheapestMachines::new(instance);
        let ranks = upward_ranks_of(instance, plain.sums().to_vec());
        let order = rank_order(instance, &ranks);
        let mut inserter = Inserter::new(instance, &plain);
        inserter.place_all(&order);
        let schedule = inserter.into_schedule();
        let value = options.objective.of(instance, &schedule);
        options.report_progress(value, "heft");
        let incumbent = Incumbent { schedule, value, by: "heft" };
        let plain = Rc::new(plain);
        Self {
            instance,
            options,
            ranks,
            order,
            incumbent,
            plain,
            remaining: None,
            biased: None,
            mirror: None,
        }
    }

    /// Schedules the tasks in `order`, each where finish plus bias is least. `None` when the budget is exhausted.
    pub(super) fn schedule_in_order(&mut self, order: &[u32], weights: BiasWeights) -> Option<Schedule> {
        if !self.options.start_iteration() {
            return None;
        }
        if weights == BiasWeights::NONE {
            let mut inserter = Inserter::new(self.instance, &self.plain);
            for part in order.chunks(TASKS_PER_CHECK) {
                if self.options.is_expired() {
                    return None;
                }
                inserter.place_all(part);
            }
            return Some(inserter.into_schedule());
        }
        let remaining = if weights.foresight == 0.0 { Arc::default() } else { self.remaining_costs() };
        let per_task = [(weights.foresight, weights.thrift)];
        let bias = MachineBias { remaining: &remaining, weights: &per_task };
        let cheapest = self.cheapest(weights, &bias);
        let mut inserter = Inserter::new(self.instance, &cheapest);
        for part in order.chunks(TASKS_PER_CHECK) {
            if self.options.is_expired() {
                return None;
            }
            inserter.place_all_biased(part, &bias);
        }
        Some(inserter.into_schedule())
    }

    /// Schedules the tasks in `order`, each on its given machine, as early as possible. `None` when the budget is
    /// exhausted.
    pub(super) fn schedule_on(&mut self, order: &[u32], machines: impl Fn(usize) -> u32) -> Option<Schedule> {
        if !self.options.start_iteration() {
            return None;
        }
        place_each_on(self.options, self.instance, &self.plain, order, machines)
    }

    /// Schedules as the shipped network predicts, on instances where it is worth trying.
    pub(super) fn schedule_with_network(&mut self) -> Option<Schedule> {
        if !learned::is_worth_trying(self.instance, &self.plain) || !self.options.start_iteration() {
            return None;
        }
        let remaining = self.remaining_costs();
        let input = NetworkInput::new(self.instance, &self.plain);
        Some(input.schedule(&input.infer(Network::shipped()), &remaining))
    }

    /// Makes `schedule` the incumbent if it is better; returns its value.
    pub(super) fn record(&mut self, schedule: &Schedule, by: &'static str) -> f64 {
        let value = self.value(schedule);
        if value < self.incumbent.value {
            self.incumbent = Incumbent { schedule: schedule.clone(), value, by };
            self.options.report_progress(value, by);
        }
        value
    }

    /// Makes the best schedule of another thread the incumbent if it is better.
    pub(super) fn adopt(&mut self, exchange: &Exchange) {
        if let Some(better) = exchange.better_than(self.incumbent.value) {
            self.options.report_progress(better.value, better.by);
            self.incumbent = better;
        }
    }

    /// Lower bound on the objective; 0 where none is known.
    pub(super) fn lower_bound(&self) -> f64 {
        match self.options.objective {
            Objective::Makespan if self.instance.is_integral() => {
                // An integral makespan cannot lie between two integers. The factor undoes rounding within the bound.
                let bound = Bounds::of(self.instance).makespan();
                (bound * (1.0 - 1e-12)).ceil()
            }
            Objective::Makespan => Bounds::of(self.instance).makespan(),
            Objective::MeanTurnaround | Objective::MeanWait => 0.0,
        }
    }

    pub(super) fn value(&self, schedule: &Schedule) -> f64 {
        self.options.objective.of(self.instance, schedule)
    }

    /// Double justification: shifts every task as late as possible on its machine, then as early as possible. Seldom
    /// worse, often better.
    pub(super) fn justify(&mut self, schedule: &Schedule) -> Option<Schedule> {
        if self.options.objective != Objective::Makespan || !self.options.start_iteration() {
            return None;
        }
        let mirror = Rc::clone(self.mirror.get_or_insert_with(|| Rc::new(self.instance.reversed())));
        let machine = |task: usize| schedule.slots[task].machine;
        // Shifting late is inserting early into the reversed instance.
        let latest_first = start_order(&mirror, &mirrored(schedule));
        let late = place_each_on(self.options, &mirror, &self.plain, &latest_first, machine)?;
        self.schedule_on(&start_order(self.instance, &mirrored(&late)), machine)
    }

    pub(super) fn plan(self) -> Plan {
        Plan {
            schedule: self.incumbent.schedule,
            winner: Some(self.incumbent.by),
            iterations: self.options.iterations_started(),
        }
    }

    fn remaining_costs(&mut self) -> Arc<RemainingCosts> {
        Arc::clone(self.remaining.get_or_insert_with(|| Arc::new(RemainingCosts::new(self.instance))))
    }

    fn cheapest(&mut self, weights: BiasWeights, bias: &MachineBias<'_>) -> Rc<CheapestMachines> {
        if let Some((cached_weights, cheapest)) = &self.biased
            && *cached_weights == weights
        {
            return Rc::clone(cheapest);
        }
        // With links per pair the inserter does not probe by cheapest machine, so the unbiased list will do.
        let uniform = self.instance.has_uniform_links();
        let cheapest = if uniform {
            Rc::new(CheapestMachines::biased(self.instance, bias))
        } else {
            Rc::clone(&self.plain)
        };
        self.biased = Some((weights, Rc::clone(&cheapest)));
        cheapest
    }
}

/// Places the tasks in `order` on their given machines. `None` when the time budget ran out.
fn place_each_on(
    options: &mut SearchOptions<'_>,
    instance: &Instance,
    cheapest: &CheapestMachines,
    order: &[u32],
    machine: impl Fn(usize) -> u32,
) -> Option<Schedule> {
    let mut inserter = Inserter::new(instance, cheapest);
    for part in order.chunks(TASKS_PER_CHECK) {
        if options.is_expired() {
            return None;
        }
        for &task in part {
            inserter.place_on(task as usize, machine(task as usize) as usize);
        }
    }
    Some(inserter.into_schedule())
}

/// Tasks by start; ties in topological order.
pub(super) fn start_order(instance: &Instance, schedule: &Schedule) -> Vec<u32> {
    let mut order = instance.topological_order().to_vec();
    order.sort_by(|a, b| schedule.slots[*a as usize].start.total_cmp(&schedule.slots[*b as usize].start));
    order
}

/// Schedule reversed in time.
fn mirrored(schedule: &Schedule) -> Schedule {
    let end = schedule.makespan();
    let mirror = |s: &Slot| Slot { machine: s.machine, start: end - s.finish, finish: end - s.start };
    Schedule { slots: schedule.slots.iter().map(mirror).collect() }
}
