//! What there is to believe of jobs that run one after another: everyone has one turn, no more GPUs are taken at once than
//! there are, those whose turn it is have the shares, and no order in which jobs run to their end has a lower average.

use super::CheckError;
use super::bounds::Case;
use super::pairs::together;
use crate::answer::{Certificate, PairShare, Turn};

/// Turns may overlap by this part of the time they are at.
const ROUNDING: f64 = 1e-9;

/// What happens to GPUs; whoever ends makes room for who starts then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Gives,
    Passes,
    Takes,
}

/// When it happens, and to how many.
struct Need {
    gpu_type: usize,
    at_s: f64,
    step: Step,
    gpus: f64,
}

impl Case<'_> {
    /// The average completion of the turns, once they are found to be possible.
    pub(super) fn average_completion(&self) -> Result<f64, CheckError> {
        let Certificate::Queues { turns, .. } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let mut seen = vec![false; self.speeds.len()];
        let (mut total, mut needs) = (0.0, Vec::with_capacity(2 * turns.len()));
        for turn in turns {
            let ends = self.ends(turn)?;
            let last = ends.iter().copied().fold(turn.start_s, f64::max);
            let possible = turn.start_s >= 0.0 && last.is_finite();
            for &m in &turn.jobs {
                let twice = std::mem::replace(&mut seen[m], true);
                if twice || !possible || !self.has_the_shares_of(turn, last) {
                    return Err(CheckError::Turn { job: self.instance.jobs[m].id });
                }
            }
            needs.extend(self.needs(turn, last));
            total += ends.iter().sum::<f64>();
        }
        if let Some(m) = seen.iter().position(|seen| !seen) {
            return Err(CheckError::Turn { job: self.instance.jobs[m].id });
        }
        self.gpus_suffice(needs)?;
        Ok(total / self.speeds.len() as f64)
    }

    /// Who runs now, and for any time at all, has all of a type's time, alone or with whom he shares the turn; nobody has
    /// any other.
    fn has_the_shares_of(&self, turn: &Turn, last: f64) -> bool {
        let now = turn.start_s == 0.0 && last > 0.0;
        let his = |j: usize| if now && j == turn.gpu_type { 1.0 } else { 0.0 };
        let is_his = |shares: &[f64]| shares.iter().enumerate().all(|(j, share)| *share == his(j));
        let mut alone = turn.jobs.iter().map(|&m| self.answer.allocation.job(m));
        let of_any = |pair: &&PairShare| pair.jobs.iter().any(|m| turn.jobs.contains(m));
        let pairs: Vec<&PairShare> = self.answer.pairs.iter().filter(of_any).collect();
        match *pairs.as_slice() {
            [] => alone.all(is_his) && (turn.jobs.len() == 1 || !now),
            [pair] => {
                let theirs = now && pair.jobs.iter().all(|m| turn.jobs.contains(m)) && is_his(&pair.shares);
                theirs && alone.flatten().all(|share| *share == 0.0)
            }
            _ => false,
        }
    }

    /// The GPUs a turn takes at its start and gives back at its end, or a rounding before. So short a turn gives them back
    /// at once, but must have found them.
    fn needs(&self, turn: &Turn, last: f64) -> Vec<Need> {
        let (gpu_type, gpus) = (turn.gpu_type, f64::from(self.instance.jobs[turn.jobs[0]].gpus));
        let need = |at_s: f64, step: Step| Need { gpu_type, at_s, step, gpus };
        let end = last * (1.0 - ROUNDING);
        if end > turn.start_s {
            vec![need(end, Step::Gives), need(turn.start_s, Step::Takes)]
        } else {
            vec![need(turn.start_s, Step::Passes)]
        }
    }

    /// When each job of a turn is done: two run together until the first is, and the other on alone.
    fn ends(&self, turn: &Turn) -> Result<Vec<f64>, CheckError> {
        let (j, start) = (turn.gpu_type, turn.start_s);
        let steps = |m: usize| self.steps(&self.instance.jobs[m], "allox");
        let need = |m: usize, steps: f64, speed: f64| match speed > 0.0 {
            true => Ok(steps / speed),
            false if steps == 0.0 => Ok(0.0),
            false => Err(CheckError::Turn { job: self.instance.jobs[m].id }),
        };
        match *turn.jobs.as_slice() {
            [m] => Ok(vec![start + need(m, steps(m)?, self.speeds[m][j])?]),
            [a, b] => {
                let jobs = [a, b].map(|m| &self.instance.jobs[m]);
                let seen = [a, b].map(|m| self.speeds[m][j]);
                let both = together(self.instance, jobs, seen, j)
                    .ok_or(CheckError::Turn { job: self.instance.jobs[a].id })?;
                let ends = [need(a, steps(a)?, both[0]), need(b, steps(b)?, both[1])]
                    .map(|end| end.unwrap_or(f64::INFINITY));
                let (first, rest) = if ends[0] <= ends[1] { (0, 1) } else { (1, 0) };
                let m = [a, b][rest];
                let left = (steps(m)? - both[rest] * ends[first]).max(0.0);
                let last = ends[first] + need(m, left, seen[rest])?;
                Ok(vec![start + ends[first], start + last])
            }
            _ => Err(CheckError::Certificate),
        }
    }

    /// At no time are more GPUs taken than there are.
    fn gpus_suffice(&self, mut needs: Vec<Need>) -> Result<(), CheckError> {
        needs.sort_by(|a, b| a.at_s.total_cmp(&b.at_s).then(a.step.cmp(&b.step)));
        let mut taken = vec![0.0; self.instance.types.len()];
        for Need { gpu_type, step, gpus, .. } in needs {
            let (t, before) = (&self.instance.types[gpu_type], taken[gpu_type]);
            let used = if step == Step::Gives { before - gpus } else { before + gpus };
            if used > f64::from(t.count) {
                return Err(CheckError::Gpus { gpu_type: t.name.clone(), used, count: t.count });
            }
            taken[gpu_type] = if step == Step::Passes { before } else { used };
        }
        Ok(())
    }

    /// A job k-th from the end of some GPU's queue delays k completions by its length there. Whatever the order, that comes
    /// to no less than all worths and, for as many places as there are GPUs, the places' prices.
    pub(super) fn average_bound(&self) -> Result<f64, CheckError> {
        let Certificate::Queues { proof: Some(places), .. } = &self.answer.certificate else {
            return Err(CheckError::Certificate);
        };
        let mut bound = 0.0;
        for (m, job, speeds) in self.jobs() {
            let steps = self.steps(job, "allox")?;
            let types = speeds.iter().zip(&places.prices).filter(|(speed, _)| **speed > 0.0);
            let costs = types.flat_map(|(speed, prices)| {
                // Places further from the end cost more and have no price.
                let further = (prices.len() + 1) as f64 * steps / speed;
                let each = prices
                    .iter()
                    .zip(1..)
                    .map(move |(price, k)| f64::from(k) * steps / speed - price.min(0.0));
                each.chain([further])
            });
            bound += costs.fold(places.worth[m], f64::min);
        }
        for (t, prices) in self.instance.types.iter().zip(&places.prices) {
            bound += f64::from(t.count) * prices.iter().map(|price| price.min(0.0)).sum::<f64>();
        }
        Ok(bound / self.speeds.len() as f64)
    }
}
