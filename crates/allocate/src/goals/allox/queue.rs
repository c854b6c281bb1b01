//! Queue of one type, and co-location of waiting jobs where that lowers the average completion time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::instance::Instance;
use crate::problem::Problem;
use crate::sharing::PairSpeeds;
use crate::solution::ScheduledRun;

/// Times that differ by no more than this fraction are equal.
const ROUNDING: f64 = 1e-12;

/// Queued job, or two that share GPUs until both are done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QueueEntry {
    pub(super) job: usize,
    pub(super) partner: Option<usize>,
    gpus: f64,
    /// Seconds from the start until the first of two is done.
    first_s: f64,
    /// Seconds until all are done.
    last_s: f64,
}

impl QueueEntry {
    pub(super) fn alone(job: usize, gpus: f64, seconds: f64) -> Self {
        Self { job, partner: None, gpus, first_s: 0.0, last_s: seconds }
    }
}

/// Queue of one type: entries in order, each started as soon as enough GPUs are free.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) entries: Vec<QueueEntry>,
    pub(super) gpus: f64,
}

impl Queue {
    /// Entries that run now.
    pub(super) fn running(&self) -> impl Iterator<Item = &QueueEntry> {
        let mut free = self.gpus;
        self.entries.iter().filter(move |entry| {
            let fits = entry.last_s > 0.0 && entry.gpus <= free;
            free -= if fits { entry.gpus } else { 0.0 };
            fits
        })
    }

    /// Start of each entry.
    fn starts(&self) -> Vec<f64> {
        // A job without remaining steps is done now and needs no GPU.
        let mut starts: Vec<_> =
            self.entries.iter().map(|entry| (entry.last_s <= 0.0).then_some(0.0)).collect();
        // Times are non-negative, so their bits sort as they do.
        let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let (mut now, mut free, mut next) = (0.0, self.gpus, 0);
        while next < starts.len() {
            for (start, entry) in starts.iter_mut().zip(&self.entries).skip(next) {
                if free < 1.0 {
                    break;
                }
                if start.is_none() && entry.gpus <= free {
                    *start = Some(now);
                    free -= entry.gpus;
                    ends.push(Reverse(((now + entry.last_s).to_bits(), entry.gpus as u64)));
                }
            }
            next += starts[next..].iter().take_while(|start| start.is_some()).count();
            let Some(Reverse((end, _))) = ends.peek() else { break };
            // All entries that end at this moment release their GPUs together; otherwise a narrow job could overtake a
            // wide one that fits only then.
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

    /// Sum of completion times.
    pub(super) fn total(&self) -> f64 {
        let end = |(entry, start): (&QueueEntry, f64)| match entry.partner {
            None => start + entry.last_s,
            Some(_) => 2.0 * start + entry.first_s + entry.last_s,
        };
        self.entries.iter().zip(self.starts()).map(end).sum()
    }

    pub(super) fn runs(&self, gpu_type: usize) -> impl Iterator<Item = ScheduledRun> {
        self.entries.iter().zip(self.starts()).map(move |(entry, start_s)| ScheduledRun {
            jobs: std::iter::once(entry.job).chain(entry.partner).collect(),
            gpu_type,
            start_s,
        })
    }

    fn without(&self, job: usize) -> Self {
        let entries = self.entries.iter().copied().filter(|entry| entry.job != job).collect();
        Self { entries, gpus: self.gpus }
    }
}

/// Lets waiting jobs join running ones where that lowers the average completion time.
pub(super) fn colocate_waiting(instance: &Instance, problem: &Problem, steps: &[f64], queues: &mut [Queue]) {
    let pairing = Pairing { partners: PairSpeeds::new(instance), instance, problem, steps };
    let mut totals: Vec<f64> = queues.iter().map(Queue::total).collect();
    for (_, j, waiting) in waiting_jobs(queues) {
        let left = queues[j].without(waiting);
        let left_total = left.total();
        let mut best = None::<(f64, usize, Queue, f64)>;
        for (i, queue) in queues.iter().enumerate() {
            let Some(pair) = pairing.best_partner(queue, i, waiting) else { continue };
            let mut joined = if i == j { left.clone() } else { queue.clone() };
            let host = joined.entries.iter_mut().find(|entry| entry.job == pair.job);
            host.into_iter().for_each(|entry| *entry = pair);
            let total = joined.total();
            let (before, after) =
                if i == j { (totals[j], total) } else { (totals[i] + totals[j], total + left_total) };
            let saved = before - after;
            if saved > 1e-9 * before && best.as_ref().is_none_or(|(most, ..)| saved > *most) {
                best = Some((saved, i, joined, total));
            }
        }
        if let Some((_, i, joined, total)) = best {
            (queues[j], totals[j]) = (left, left_total);
            (queues[i], totals[i]) = (joined, total);
        }
    }
}

/// Waiting jobs by start: start, type and job.
fn waiting_jobs(queues: &[Queue]) -> Vec<(f64, usize, usize)> {
    let mut waiting = Vec::new();
    for (j, queue) in queues.iter().enumerate() {
        let all = queue.entries.iter().zip(queue.starts());
        waiting.extend(all.filter(|(_, start)| *start > 0.0).map(|(entry, start)| (start, j, entry.job)));
    }
    waiting.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    waiting
}

struct Pairing<'a> {
    partners: PairSpeeds<'a>,
    instance: &'a Instance,
    problem: &'a Problem,
    steps: &'a [f64],
}

impl Pairing<'_> {
    /// Entry of a waiting job beside the unpaired running job with the highest combined throughput on a type, if above
    /// 1.
    fn best_partner(&self, queue: &Queue, j: usize, waiting: usize) -> Option<QueueEntry> {
        let alone = queue.running().filter(|entry| entry.partner.is_none() && entry.job != waiting);
        let offers = alone.filter_map(|entry| {
            let speeds = self.speeds(entry.job, waiting, j)?;
            let worth = speeds[0] / self.problem.row(entry.job)[j] + speeds[1] / self.problem.row(waiting)[j];
            (worth > 1.0).then_some((worth, entry.job, speeds))
        });
        // Ties go to the earlier host.
        let (_, host, speeds) = offers.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        Some(self.together([host, waiting], speeds, j))
    }

    /// Speeds of both jobs, as the goal sees speeds.
    fn speeds(&self, one: usize, other: usize, j: usize) -> Option<[f64; 2]> {
        let jobs = [one, other].map(|m| &self.instance.jobs[m]);
        let [x, y] = self.partners.paired(jobs[0], jobs[1], j)?;
        let seen = |m: usize| self.problem.row(m)[j] / self.instance.jobs[m].throughputs[j];
        Some([x * seen(one), y * seen(other)])
    }

    /// Entry of two jobs: together until the first is done, then the other alone.
    fn together(&self, jobs: [usize; 2], speeds: [f64; 2], j: usize) -> QueueEntry {
        let end = |side: usize| {
            let steps = self.steps[jobs[side]];
            if steps > 0.0 { steps / speeds[side] } else { 0.0 }
        };
        let (first, rest) = if end(0) <= end(1) { (end(0), 1) } else { (end(1), 0) };
        let left = (self.steps[jobs[rest]] - speeds[rest] * first).max(0.0);
        let last_s = first + left / self.problem.row(jobs[rest])[j];
        QueueEntry {
            job: jobs[0],
            partner: Some(jobs[1]),
            gpus: self.problem.gpus[jobs[0]],
            first_s: first,
            last_s,
        }
    }
}
