//! Late acceptance hill climbing (Burke and Bykov 2017) over one genome: a neighbour is accepted when it is no worse
//! than the current genome or than the one accepted a fixed number of steps ago. A member of the portfolio.

use super::genome::Genome;
use super::search_context::SearchContext;
use crate::random::SplitMix64;

/// State of the local search.
pub(super) struct LocalSearch {
    draw: SplitMix64,
    genome: Genome,
    value: f64,
    /// Value of the incumbent when last seen.
    best_value: f64,
    history: Vec<f64>,
    steps: usize,
    stale: usize,
    /// Steps without a new best before a restart from a strongly mutated genome.
    patience: usize,
}

impl LocalSearch {
    pub(super) fn new(context: &SearchContext<'_, '_, '_>) -> Self {
        let draw = SplitMix64::new(!context.options.seed);
        let genome = Genome::of(context.instance, &context.incumbent.schedule);
        let value = context.incumbent.value;
        // The length of the history and the patience grow with the instance, within limits.
        let tasks = context.instance.tasks();
        let (memory, patience) = ((2 * tasks).clamp(10, 200), (40 * tasks).clamp(200, 4000));
        Self {
            draw,
            genome,
            value,
            best_value: value,
            history: vec![value; memory],
            steps: 0,
            stale: 0,
            patience,
        }
    }

    /// Continues from the incumbent if another member of the portfolio has improved it.
    pub(super) fn adopt_incumbent(&mut self, context: &SearchContext<'_, '_, '_>) {
        if context.incumbent.value < self.best_value {
            (self.genome, self.value) =
                (Genome::of(context.instance, &context.incumbent.schedule), context.incumbent.value);
            (self.best_value, self.stale) = (self.value, 0);
            self.history.fill(self.value);
        }
    }

    /// One iteration. Returns false when the budget is exhausted.
    pub(super) fn step(&mut self, context: &mut SearchContext<'_, '_, '_>) -> bool {
        let restart = self.stale > self.patience;
        let mut neighbour = self.genome.clone();
        let most = if restart { 4 + neighbour.order.len() } else { 3 };
        neighbour.mutate(context.instance, most, &mut self.draw);
        let Some(schedule) = context.schedule_on(&neighbour.order, |task| neighbour.machine[task]) else {
            return false;
        };
        let value = context.record(&schedule, "tinker");
        let at = self.steps % self.history.len();
        self.steps += 1;
        self.stale = if value < self.best_value || restart { 0 } else { self.stale + 1 };
        self.best_value = self.best_value.min(value);
        // A restart forgets the history: late acceptance must not compare with the abandoned region.
        if restart {
            self.history.fill(value);
        }
        if value <= self.value || value <= self.history[at] {
            (self.genome, self.value) = (neighbour, value);
        }
        self.history[at] = self.history[at].min(self.value);
        true
    }
}
