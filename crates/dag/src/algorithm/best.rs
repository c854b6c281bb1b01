//! Portfolio: HEFT first, so that the result is never worse; then a list of bias weights, the learned planner and
//! justification; then hill climbing and local search until the budget is exhausted or the lower bound is reached.
//!
//! The hill climb from HEFT is the planner `climb` step for step and never shares its budget, so the result is never worse
//! than `climb` in as many steps. Under a time budget it has a thread of its own and all other members share another. Under
//! a budget by count the members take turns on one thread, so that the same seed gives the same plan, and only the
//! schedules of that climb count. Instances with so many costs that one schedule occupies two threads are the exception:
//! under a time budget their members take turns and share it.

use super::climb::HillClimber;
use super::definition::{Algorithm, Plan, SearchOptions};
use super::exchange::Exchange;
use super::local_search::LocalSearch;
use super::search_context::{BiasWeights, SearchContext, start_order};
use crate::instance::Instance;

/// Weights (foresight, thrift) tried first, ordered so that good ones for few and for many machines come early.
const BIAS_WEIGHTS: &[(f64, f64)] = &[
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

/// Bias weights (foresight, thrift) that a hill climb ends with: the targets of imitation learning.
#[cfg(feature = "train")]
pub(crate) fn search_bias_weights(instance: &Instance, options: &mut SearchOptions<'_>) -> (f64, f64) {
    let mut context = SearchContext::new(instance, options);
    let lead = try_bias_weights(&mut context).unwrap_or((context.incumbent.value, BiasWeights::NONE));
    let mut climber = HillClimber::new(&context, lead.1, lead.0);
    while climber.step(&mut context, "climb") {}
    (climber.weights().foresight, climber.weights().thrift)
}

fn best(instance: &Instance, options: &mut SearchOptions<'_>) -> Plan {
    /// Cost entries from which the inserter itself uses two threads, and every copy of what is derived from them counts.
    const MAX_CONCURRENT_COSTS: usize = 1 << 22;
    let mut context = SearchContext::new(instance, options);
    let costs = instance.cost_matrix().len();
    if context.options.is_time_budget() && (1..MAX_CONCURRENT_COSTS).contains(&costs) {
        search_concurrently(&mut context);
    } else {
        search_in_turns(&mut context);
    }
    context.plan()
}

/// Climbs from HEFT on this thread while the other members search on another.
fn search_concurrently(context: &mut SearchContext<'_, '_, '_>) {
    let bound = context.lower_bound();
    let mut from_heft = HillClimber::new(context, BiasWeights::NONE, context.incumbent.value);
    let exchange = Exchange::default();
    let (instance, seed, objective) = (context.instance, context.options.seed, context.options.objective);
    std::thread::scope(|scope| {
        let exchange = &exchange;
        // The scope joins the thread, so it must be told to stop on every way out, panics included.
        let _stop = exchange.stop_on_drop();
        scope.spawn(move || {
            let mut options = SearchOptions::until(|| exchange.is_stopped()).seed(seed).objective(objective);
            let mut context = SearchContext::new(instance, &mut options);
            search_without_heft_climb(&mut context, exchange);
            exchange.offer(&context.incumbent);
            exchange.count_iterations(context.options.iterations_started());
        });
        while context.incumbent.value > bound && from_heft.step(context, "climb") {
            exchange.offer(&context.incumbent);
            context.adopt(exchange);
        }
    });
    context.adopt(&exchange);
    context.options.add_iterations(exchange.iterations());
}

/// All members but the climb from HEFT, until stopped.
fn search_without_heft_climb(context: &mut SearchContext<'_, '_, '_>, exchange: &Exchange) {
    /// Steps per turn of the climb from the best bias weights while its result is the incumbent, and otherwise.
    const FROM_LEAD: [usize; 2] = [12, 4];
    let Some((value, weights)) = start_members(context) else { return };
    exchange.offer(&context.incumbent);
    let mut from_lead = HillClimber::new(context, weights, value);
    let mut local_search = LocalSearch::new(context);
    loop {
        let before = context.incumbent.value;
        let steps = FROM_LEAD[usize::from(from_lead.value() > context.incumbent.value)];
        for _ in 0..steps {
            if !from_lead.step(context, "climb") {
                return;
            }
        }
        // What the other thread found is polished here, too.
        context.adopt(exchange);
        if context.incumbent.value < before {
            polish(context, weights);
        }
        local_search.adopt_incumbent(context);
        for _ in 0..LOCAL_STEPS {
            if !local_search.step(context) {
                return;
            }
        }
        exchange.offer(&context.incumbent);
    }
}

/// Tries the bias weights, the learned planner and justification; returns the best weights and their value.
fn start_members(context: &mut SearchContext<'_, '_, '_>) -> Option<(f64, BiasWeights)> {
    let lead = try_bias_weights(context)?;
    if let Some(schedule) = context.schedule_with_network() {
        context.record(&schedule, "learned");
    }
    polish(context, lead.1);
    Some(lead)
}

/// Schedules once with each of [`BIAS_WEIGHTS`]; returns the best value and its weights.
fn try_bias_weights(context: &mut SearchContext<'_, '_, '_>) -> Option<(f64, BiasWeights)> {
    let order = context.order.clone();
    let mut lead = (context.incumbent.value, BiasWeights::NONE);
    for &(foresight, thrift) in BIAS_WEIGHTS {
        let weights = BiasWeights { foresight, thrift };
        let schedule = context.schedule_in_order(&order, weights)?;
        let by = if foresight == 0.0 {
            "thrift"
        } else if thrift == 0.0 {
            "blend"
        } else {
            "blend+thrift"
        };
        let value = context.record(&schedule, by);
        if value < lead.0 {
            lead = (value, weights);
        }
    }
    Some(lead)
}

/// Steps per turn of the local search, which are much cheaper than those of a climb.
const LOCAL_STEPS: usize = 16;

/// Alternates two hill climbs and local search until the budget is exhausted or the lower bound is met. A budget by count
/// is that of the climb from HEFT.
fn search_in_turns(context: &mut SearchContext<'_, '_, '_>) {
    /// Steps per turn of the climb from HEFT: nearly half of all.
    const FROM_HEFT: usize = 24;
    /// Steps per turn of the climb from the best bias weights while it is behind the other, and while it is ahead.
    const FROM_LEAD: [usize; 2] = [2, 12];
    let heft = context.incumbent.value;
    let Some((value, weights)) = uncounted(context, start_members) else { return };
    if context.instance.tasks() == 0 {
        return;
    }
    let bound = context.lower_bound();
    // This is the planner `climb`, step for step: weights that look best at the start lead into local optima that a climb from
    // plain HEFT avoids as often as not.
    let mut from_heft = HillClimber::new(context, BiasWeights::NONE, heft);
    let mut from_lead = HillClimber::new(context, weights, value);
    let mut local_search = LocalSearch::new(context);
    while context.incumbent.value > bound {
        let before = context.incumbent.value;
        let lead_steps = FROM_LEAD[usize::from(from_lead.value() < from_heft.value())];
        if !(0..FROM_HEFT).all(|_| from_heft.step(context, "climb")) {
            return;
        }
        let goes_on = uncounted(context, |context| {
            if !(0..lead_steps).all(|_| from_lead.step(context, "climb")) {
                return false;
            }
            if context.incumbent.value < before {
                polish(context, weights);
            }
            local_search.adopt_incumbent(context);
            (0..LOCAL_STEPS).all(|_| local_search.step(context))
        });
        if !goes_on {
            return;
        }
    }
}

/// Searches without using up a budget by count; one of time goes on.
fn uncounted<'a, 'r, 's, T>(
    context: &mut SearchContext<'a, 'r, 's>,
    search: impl FnOnce(&mut SearchContext<'a, 'r, 's>) -> T,
) -> T {
    let budget = context.options.suspend_count();
    let found = search(context);
    context.options.resume_count(budget);
    found
}

/// Justifies the incumbent while that improves it; each time also reschedules in the justified order with machines
/// free.
fn polish(context: &mut SearchContext<'_, '_, '_>, weights: BiasWeights) {
    loop {
        let before = context.incumbent.value;
        let schedule = context.incumbent.schedule.clone();
        let Some(justified) = context.justify(&schedule) else { return };
        context.record(&justified, "justify");
        let order = start_order(context.instance, &justified);
        let Some(free) = context.schedule_in_order(&order, weights) else { return };
        context.record(&free, "justify");
        if context.incumbent.value >= before {
            return;
        }
    }
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "best",
    summary: "a portfolio that contains heft and climb and goes on improving until stopped",
    origin: "warpyard",
    searches: true,
    plan: best,
};
