//! Hill climbing by noise: perturbs some task priorities or the bias weights, schedules again and keeps the result
//! unless it is worse. Starts from HEFT; continues until stopped.

use super::definition::{Algorithm, Plan, SearchOptions};
use super::priority_order::priority_order;
use super::search_context::{BiasWeights, SearchContext};
use crate::instance::Instance;
use crate::random::SplitMix64;

/// State of a hill climb: the accepted priorities and bias weights, and their value.
pub(super) struct HillClimber {
    draw: SplitMix64,
    priority: Vec<f64>,
    weights: BiasWeights,
    value: f64,
    /// Mean cost, on the scale of ranks; the unit of noise.
    scale: f64,
}

impl HillClimber {
    pub(super) fn new(context: &SearchContext<'_, '_, '_>, weights: BiasWeights, value: f64) -> Self {
        let tasks = context.ranks.len().max(1) as f64;
        let costs = context.instance.cost_matrix().iter().sum::<f64>();
        let draw = SplitMix64::new(context.options.seed);
        Self { draw, priority: context.ranks.clone(), weights, value, scale: costs / tasks }
    }

    #[cfg(feature = "train")]
    pub(super) fn weights(&self) -> BiasWeights {
        self.weights
    }

    /// Value of what was accepted last.
    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// One iteration. Returns false when the budget is exhausted.
    pub(super) fn step(&mut self, context: &mut SearchContext<'_, '_, '_>, by: &'static str) -> bool {
        let mut weights = self.weights;
        let mut priority = self.priority.clone();
        // A quarter of the steps perturbs the bias weights, the others the priorities, by three sizes and densities.
        if self.draw.below(4) == 0 {
            weights.foresight = (weights.foresight + 0.1 * self.draw.bell()).clamp(0.0, 1.5);
            weights.thrift =
                (weights.thrift + (0.1 + 0.2 * weights.thrift) * self.draw.bell()).clamp(0.0, 16.0);
        } else {
            let size = self.scale * [0.1, 0.5, 2.0][self.draw.index(3)];
            let one_in = [2, 10, 50][self.draw.index(3)];
            for priority in &mut priority {
                if self.draw.below(one_in) == 0 {
                    *priority += size * self.draw.bell();
                }
            }
        }
        let Some(schedule) = context.schedule_in_order(&priority_order(context.instance, &priority), weights)
        else {
            return false;
        };
        let value = context.record(&schedule, by);
        if value <= self.value {
            (self.priority, self.weights, self.value) = (priority, weights, value);
        }
        true
    }
}

fn climb(instance: &Instance, options: &mut SearchOptions<'_>) -> Plan {
    let mut context = SearchContext::new(instance, options);
    let mut climber = HillClimber::new(&context, BiasWeights::NONE, context.incumbent.value);
    while climber.step(&mut context, "climb") {}
    Plan { winner: None, ..context.plan() }
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "climb",
    summary: "hill climb from heft by noise on priorities and on the machine bias",
    origin: "warpyard",
    searches: true,
    plan: climb,
};
