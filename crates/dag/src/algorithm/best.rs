//! Portfolio: HEFT first, so that the result is never worse; then a list of bias weights, the learned planner and
//! justification; then hill climbing and local search in turns until the budget is exhausted or the lower bound is
//! reached.

use super::climb::HillClimber;
use super::definition::{Algorithm, Plan, SearchOptions};
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
    let mut context = SearchContext::new(instance, options);
    let heft = context.incumbent.value;
    let Some(lead) = try_bias_weights(&mut context) else { return context.plan() };
    if let Some(schedule) = context.schedule_with_network() {
        context.record(&schedule, "learned");
    }
    polish(&mut context, lead.1);
    if instance.tasks() > 0 {
        search(&mut context, lead, heft);
    }
    context.plan()
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

/// Alternates two hill climbs and local search until the budget is exhausted or the lower bound is met.
fn search(context: &mut SearchContext<'_, '_, '_>, (value, weights): (f64, BiasWeights), heft: f64) {
    /// Steps per turn of the climb from HEFT: nearly half of all, so that the portfolio contains the planner `climb` at
    /// that share of its budget.
    const FROM_HEFT: usize = 24;
    /// Steps per turn of the climb from the best bias weights while it is behind the other, and while it is ahead.
    const FROM_LEAD: [usize; 2] = [2, 12];
    /// Steps per turn of the local search, which are much cheaper.
    const LOCAL: usize = 16;
    let bound = context.lower_bound();
    // This is the planner `climb`, step for step: weights that look best at the start lead into local optima that a climb from
    // plain HEFT avoids as often as not.
    let mut from_heft = HillClimber::new(context, BiasWeights::NONE, heft);
    let mut from_lead = HillClimber::new(context, weights, value);
    let mut local_search = LocalSearch::new(context);
    while context.incumbent.value > bound {
        let before = context.incumbent.value;
        let lead_steps = FROM_LEAD[usize::from(from_lead.value() < from_heft.value())];
        for (climber, steps) in [(&mut from_heft, FROM_HEFT), (&mut from_lead, lead_steps)] {
            for _ in 0..steps {
                if !climber.step(context, "climb") {
                    return;
                }
            }
        }
        if context.incumbent.value < before {
            polish(context, weights);
        }
        local_search.adopt_incumbent(context);
        for _ in 0..LOCAL {
            if !local_search.step(context) {
                return;
            }
        }
    }
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
    summary: "a portfolio that contains heft and goes on improving until stopped",
    origin: "warpyard",
    searches: true,
    plan: best,
};
