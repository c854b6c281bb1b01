//! Small changes to one schedule: a few tasks moved or sent elsewhere at a time, kept when the result is no worse
//! than it was some tries ago (late acceptance, Burke and Bykov 2017). A member of the portfolio.

use super::genome::Genome;
use super::workbench::Workbench;
use crate::random::SplitMix64;

pub(super) struct Tinker {
    draw: SplitMix64,
    genome: Genome,
    value: f64,
    /// The best value it knows of.
    known: f64,
    past: Vec<f64>,
    tries: usize,
    stale: usize,
    /// After so many tries without a new best it starts again, from a schedule thoroughly shaken.
    patience: usize,
}

impl Tinker {
    pub(super) fn new(bench: &Workbench<'_, '_, '_>) -> Self {
        let draw = SplitMix64::new(!bench.run.seed);
        let genome = Genome::of(bench.instance, &bench.best.schedule);
        let value = bench.best.value;
        // How many tries back a change is compared with, and when to start again, grow with the size up to a point.
        let tasks = bench.instance.tasks();
        let (memory, patience) = ((2 * tasks).clamp(10, 200), (40 * tasks).clamp(200, 4000));
        Self { draw, genome, value, known: value, past: vec![value; memory], tries: 0, stale: 0, patience }
    }

    /// Goes on from a better schedule if one was found elsewhere since it last looked.
    pub(super) fn learn(&mut self, bench: &Workbench<'_, '_, '_>) {
        if bench.best.value < self.known {
            (self.genome, self.value) = (Genome::of(bench.instance, &bench.best.schedule), bench.best.value);
            (self.known, self.stale) = (self.value, 0);
            self.past.fill(self.value);
        }
    }

    /// One try. False when time is up.
    pub(super) fn step(&mut self, bench: &mut Workbench<'_, '_, '_>) -> bool {
        let afresh = self.stale > self.patience;
        let mut changed = self.genome.clone();
        let most = if afresh { 4 + changed.order.len() } else { 3 };
        changed.mutate(bench.instance, most, &mut self.draw);
        let Some(schedule) = bench.make_on(&changed.order, |task| changed.machine[task]) else {
            return false;
        };
        let value = bench.offer(&schedule, "tinker");
        let then = self.tries % self.past.len();
        self.tries += 1;
        self.stale = if value < self.known || afresh { 0 } else { self.stale + 1 };
        self.known = self.known.min(value);
        if afresh {
            self.past.fill(value);
        }
        if value <= self.value || value <= self.past[then] {
            (self.genome, self.value) = (changed, value);
        }
        self.past[then] = self.past[then].min(self.value);
        true
    }
}
