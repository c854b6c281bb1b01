//! A type's jobs one after another, and two at once where that lowers the average completion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::answer::Turn;
use crate::instance::Instance;
use crate::problem::Problem;
use crate::sharing::Partners;

/// Moments that differ by no more than this part of them are the same one.
const ROUNDING: f64 = 1e-12;

/// A job, or two that share, on GPUs of their own until both are done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    pub(super) job: usize,
    pub(super) with: Option<usize>,
    gpus: f64,
    /// Seconds from its start until one is done; counts only for two.
    first_s: f64,
    /// Seconds until all are.
    last_s: f64,
}

impl Unit {
    pub(super) fn alone(job: usize, gpus: f64, seconds: f64) -> Self {
        Self { job, with: None, gpus, first_s: 0.0, last_s: seconds }
    }
}

/// What runs on one type: in order, each as soon as enough GPUs are free.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) units: Vec<Unit>,
    pub(super) gpus: f64,
}

impl Line {
    /// Those that run now.
    pub(super) fn running(&self) -> impl Iterator<Item = &Unit> {
        let mut free = self.gpus;
        self.units.iter().filter(move |unit| {
            let fits = unit.last_s > 0.0 && unit.gpus <= free;
            free -= if fits { unit.gpus } else { 0.0 };
            fits
        })
    }

    /// When each starts.
    fn starts(&self) -> Vec<f64> {
        // Who has nothing left to do needs no GPU for it, and is done now.
        let mut starts: Vec<_> = self.units.iter().map(|unit| (unit.last_s <= 0.0).then_some(0.0)).collect();
        // No time is below 0, so that their bits are in order too.
        let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let (mut now, mut free, mut next) = (0.0, self.gpus, 0);
        while next < starts.len() {
            for (start, unit) in starts.iter_mut().zip(&self.units).skip(next) {
                if free < 1.0 {
                    break;
                }
                if start.is_none() && unit.gpus <= free {
                    *start = Some(now);
                    free -= unit.gpus;
                    ends.push(Reverse(((now + unit.last_s).to_bits(), unit.gpus as u64)));
                }
            }
            next += starts[next..].iter().take_while(|start| start.is_some()).count();
            let Some(Reverse((end, _))) = ends.peek() else { break };
            // All who end at that moment make room together, or someone narrow would overtake who fits only then.
            let moment = f64::from_bits(*end) * (1.0 + ROUNDING);
            while let Some(Reverse((end, gpus))) = ends.peek().filter(|end| f64::from_bits(end.0.0) <= moment)
            {
                now = f64::from_bits(*end);
                free += *gpus as f64;
                ends.pop();
            }
        }
        starts.into_iter().map(|start| start.unwrap_or(f64::INFINITY)).collect()
    }

    /// Everyone's completion, summed.
    pub(super) fn total(&self) -> f64 {
        let end = |(unit, start): (&Unit, f64)| match unit.with {
            None => start + unit.last_s,
            Some(_) => 2.0 * start + unit.first_s + unit.last_s,
        };
        self.units.iter().zip(self.starts()).map(end).sum()
    }

    pub(super) fn turns(&self, gpu_type: usize) -> impl Iterator<Item = Turn> {
        self.units.iter().zip(self.starts()).map(move |(unit, start_s)| Turn {
            jobs: std::iter::once(unit.job).chain(unit.with).collect(),
            gpu_type,
            start_s,
        })
    }

    fn without(&self, job: usize) -> Self {
        let units = self.units.iter().copied().filter(|unit| unit.job != job).collect();
        Self { units, gpus: self.gpus }
    }
}

/// Lets whoever waits join someone who runs, where that lowers the average.
pub(super) fn join(instance: &Instance, problem: &Problem, steps: &[f64], lines: &mut [Line]) {
    let pairing = Pairing { partners: Partners::new(instance), instance, problem, steps };
    let mut totals: Vec<f64> = lines.iter().map(Line::total).collect();
    for (_, j, waiting) in in_line(lines) {
        let left = lines[j].without(waiting);
        let left_total = left.total();
        let mut best = None::<(f64, usize, Line, f64)>;
        for (i, line) in lines.iter().enumerate() {
            let Some(pair) = pairing.best(line, i, waiting) else { continue };
            let mut joined = if i == j { left.clone() } else { line.clone() };
            let host = joined.units.iter_mut().find(|unit| unit.job == pair.job);
            host.into_iter().for_each(|unit| *unit = pair);
            let total = joined.total();
            let (before, after) =
                if i == j { (totals[j], total) } else { (totals[i] + totals[j], total + left_total) };
            let saved = before - after;
            if saved > 1e-9 * before && best.as_ref().is_none_or(|(most, ..)| saved > *most) {
                best = Some((saved, i, joined, total));
            }
        }
        if let Some((_, i, joined, total)) = best {
            (lines[j], totals[j]) = (left, left_total);
            (lines[i], totals[i]) = (joined, total);
        }
    }
}

/// Those that wait, the next in line first: when they would start, on which type, and who.
fn in_line(lines: &[Line]) -> Vec<(f64, usize, usize)> {
    let mut waiting = Vec::new();
    for (j, line) in lines.iter().enumerate() {
        let all = line.units.iter().zip(line.starts());
        waiting.extend(all.filter(|(_, start)| *start > 0.0).map(|(unit, start)| (start, j, unit.job)));
    }
    waiting.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    waiting
}

struct Pairing<'a> {
    partners: Partners<'a>,
    instance: &'a Instance,
    problem: &'a Problem,
    steps: &'a [f64],
}

impl Pairing<'_> {
    /// A job beside whoever it gets on best with of those that run alone on a type, if they do more together than in turn.
    fn best(&self, line: &Line, j: usize, waiting: usize) -> Option<Unit> {
        let alone = line.running().filter(|unit| unit.with.is_none() && unit.job != waiting);
        let offers = alone.filter_map(|unit| {
            let speeds = self.speeds(unit.job, waiting, j)?;
            let worth = speeds[0] / self.problem.row(unit.job)[j] + speeds[1] / self.problem.row(waiting)[j];
            (worth > 1.0).then_some((worth, unit.job, speeds))
        });
        // The earlier of two that are as good.
        let (_, host, speeds) = offers.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        Some(self.together([host, waiting], speeds, j))
    }

    /// Steps a second of both, as the goal sees speeds.
    fn speeds(&self, one: usize, other: usize, j: usize) -> Option<[f64; 2]> {
        let jobs = [one, other].map(|m| &self.instance.jobs[m]);
        let [x, y] = self.partners.together(jobs[0], jobs[1], j)?;
        let seen = |m: usize| self.problem.row(m)[j] / self.instance.jobs[m].throughputs[j];
        Some([x * seen(one), y * seen(other)])
    }

    /// Both until the first is done, and the other on alone.
    fn together(&self, jobs: [usize; 2], speeds: [f64; 2], j: usize) -> Unit {
        let end = |side: usize| {
            let steps = self.steps[jobs[side]];
            if steps > 0.0 { steps / speeds[side] } else { 0.0 }
        };
        let (first, rest) = if end(0) <= end(1) { (end(0), 1) } else { (end(1), 0) };
        let left = (self.steps[jobs[rest]] - speeds[rest] * first).max(0.0);
        let last_s = first + left / self.problem.row(jobs[rest])[j];
        Unit { job: jobs[0], with: Some(jobs[1]), gpus: self.problem.gpus[jobs[0]], first_s: first, last_s }
    }
}
