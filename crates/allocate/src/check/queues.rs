//! Verification of queue schedules: every job has one run, GPU counts are respected at all times, running jobs have
//! the shares, and no order of running jobs to completion has a lower average completion time.

use super::CheckError;
use super::bounds::DualCheck;
use super::pairs::pair_speeds;
use crate::solution::{Certificate, PairShare, ScheduledRun};

/// Relative overlap of two runs that is rounding.
const ROUNDING: f64 = 1e-9;

/// Change of GPU usage; at equal times releases come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GpuEvent {
    Release,
    Touch,
    Acquire,
}

/// Time of the change and number of GPUs.
struct GpuUse {
    gpu_type: usize,
    at_s: f64,
    event: GpuEvent,
    gpus: f64,
}

impl DualCheck<'_> {
    /// Average completion time of the runs, once they are shown to be feasible.
    pub(super) fn average_completion(&self) -> Result<f64, CheckError> {
        let Certificate::Queues { runs, .. } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let mut seen = vec![false; self.speeds.len()];
        let (mut total, mut gpu_uses) = (0.0, Vec::with_capacity(2 * runs.len()));
        for run in runs {
            let finish_times = self.finish_times(run)?;
            let last = finish_times.iter().copied().fold(run.start_s, f64::max);
            let possible = run.start_s >= 0.0 && last.is_finite();
            for &m in &run.jobs {
                let twice = std::mem::replace(&mut seen[m], true);
                if twice || !possible || !self.shares_match(run, last) {
                    return Err(CheckError::Run { job: self.instance.jobs[m].id });
                }
            }
            gpu_uses.extend(self.gpu_uses(run, last));
            total += finish_times.iter().sum::<f64>();
        }
        if let Some(m) = seen.iter().position(|seen| !seen) {
            return Err(CheckError::Run { job: self.instance.jobs[m].id });
        }
        self.check_gpu_capacity(gpu_uses)?;
        Ok(total / self.speeds.len() as f64)
    }

    /// Whether shares match a run: a job that runs now for any time has all of its time on one type, alone or with its
    /// partner; no other job has any share.
    fn shares_match(&self, run: &ScheduledRun, last: f64) -> bool {
        let now = run.start_s == 0.0 && last > 0.0;
        let share_of = |j: usize| if now && j == run.gpu_type { 1.0 } else { 0.0 };
        let matches = |shares: &[f64]| shares.iter().enumerate().all(|(j, share)| *share == share_of(j));
        let mut alone = run.jobs.iter().map(|&m| self.answer.allocation.job(m));
        let of_any = |pair: &&PairShare| pair.jobs.iter().any(|m| run.jobs.contains(m));
        let pairs: Vec<&PairShare> = self.answer.pairs.iter().filter(of_any).collect();
        match *pairs.as_slice() {
            [] => alone.all(matches) && (run.jobs.len() == 1 || !now),
            [pair] => {
                let theirs = now && pair.jobs.iter().all(|m| run.jobs.contains(m)) && matches(&pair.shares);
                theirs && alone.flatten().all(|share| *share == 0.0)
            }
            _ => false,
        }
    }

    /// GPUs that a run acquires at its start and releases at its end, less rounding. A run shorter than rounding
    /// releases them at once, but must find them free.
    fn gpu_uses(&self, run: &ScheduledRun, last: f64) -> Vec<GpuUse> {
        let (gpu_type, gpus) = (run.gpu_type, f64::from(self.instance.jobs[run.jobs[0]].gpus));
        let gpu_use = |at_s: f64, event: GpuEvent| GpuUse { gpu_type, at_s, event, gpus };
        let end = last * (1.0 - ROUNDING);
        if end > run.start_s {
            vec![gpu_use(end, GpuEvent::Release), gpu_use(run.start_s, GpuEvent::Acquire)]
        } else {
            vec![gpu_use(run.start_s, GpuEvent::Touch)]
        }
    }

    /// Finish of each job of a run: two run together until the first is done, then the other alone.
    fn finish_times(&self, run: &ScheduledRun) -> Result<Vec<f64>, CheckError> {
        let (j, start) = (run.gpu_type, run.start_s);
        let steps = |m: usize| self.steps(&self.instance.jobs[m], "allox");
        let duration = |m: usize, steps: f64, speed: f64| match speed > 0.0 {
            true => Ok(steps / speed),
            false if steps == 0.0 => Ok(0.0),
            false => Err(CheckError::Run { job: self.instance.jobs[m].id }),
        };
        match *run.jobs.as_slice() {
            [m] => Ok(vec![start + duration(m, steps(m)?, self.speeds[m][j])?]),
            [a, b] => {
                let jobs = [a, b].map(|m| &self.instance.jobs[m]);
                let seen = [a, b].map(|m| self.speeds[m][j]);
                let both = pair_speeds(self.instance, jobs, seen, j)
                    .ok_or(CheckError::Run { job: self.instance.jobs[a].id })?;
                let both_finish = [duration(a, steps(a)?, both[0]), duration(b, steps(b)?, both[1])]
                    .map(|end| end.unwrap_or(f64::INFINITY));
                let (first, rest) = if both_finish[0] <= both_finish[1] { (0, 1) } else { (1, 0) };
                let m = [a, b][rest];
                let left = (steps(m)? - both[rest] * both_finish[first]).max(0.0);
                let last = both_finish[first] + duration(m, left, seen[rest])?;
                Ok(vec![start + both_finish[first], start + last])
            }
            _ => Err(CheckError::Certificate),
        }
    }

    /// GPU usage never exceeds the count.
    fn check_gpu_capacity(&self, mut gpu_uses: Vec<GpuUse>) -> Result<(), CheckError> {
        gpu_uses.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then(a.event.cmp(&b.event)));
        let mut taken = vec![0.0; self.instance.types.len()];
        for GpuUse { gpu_type, event, gpus, .. } in gpu_uses {
            let (t, before) = (&self.instance.types[gpu_type], taken[gpu_type]);
            let used = if event == GpuEvent::Release { before - gpus } else { before + gpus };
            if used > f64::from(t.count) {
                return Err(CheckError::Gpus { gpu_type: t.name.clone(), used, count: t.count });
            }
            taken[gpu_type] = if event == GpuEvent::Touch { before } else { used };
        }
        Ok(())
    }

    /// Dual bound: a job k-th from the end of some GPU's queue delays k completions by its length there. In any order
    /// that sums to at least all job duals plus, for as many positions as there are GPUs, the position prices.
    pub(super) fn average_bound(&self) -> Result<f64, CheckError> {
        let Certificate::Queues { proof: Some(duals), .. } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let mut bound = 0.0;
        for (m, job, speeds) in self.jobs() {
            let steps = self.steps(job, "allox")?;
            let types = speeds.iter().zip(&duals.positions).filter(|(speed, _)| **speed > 0.0);
            let costs = types.flat_map(|(speed, prices)| {
                // Positions further from the end cost more and have no price.
                let further = (prices.len() + 1) as f64 * steps / speed;
                let each = prices
                    .iter()
                    .zip(1..)
                    .map(move |(price, k)| f64::from(k) * steps / speed - price.min(0.0));
                each.chain([further])
            });
            bound += costs.fold(duals.jobs[m], f64::min);
        }
        for (t, prices) in self.instance.types.iter().zip(&duals.positions) {
            bound += f64::from(t.count) * prices.iter().map(|price| price.min(0.0)).sum::<f64>();
        }
        Ok(bound / self.speeds.len() as f64)
    }
}
