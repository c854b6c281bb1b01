//! Placement search: the devices of one worker that are acceptable, have free capacity, and score best under the fit.

use crate::fragment::{self, TaskMix};
use crate::ids::{DeviceId, WorkerId};
pub use crate::pool::acceptable;
use crate::pool::{Charge, DeviceInfo, DeviceUse, Ledger, Placement, WorkerUse, charge_for};
use crate::spec::{Needs, WaitMode};
use smallvec::{SmallVec, smallvec};

/// Fit: which of several possible placements is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Best fit: where least capacity is left over, so that large gaps stay large.
    #[default]
    Best,
    /// First fit, in order of worker and device number.
    First,
    /// Worst fit: where most capacity is left over.
    Worst,
    /// Devices that already have tasks, so that whole devices stay free.
    Fill,
    /// Devices with the fewest tasks.
    Spread,
    /// Fragmentation gradient descent: where the free capacity that no task could use grows least.
    Gradient,
}

impl Fit {
    /// Parameter values, the default first.
    pub const WORDS: &'static [&'static str] = &["best", "first", "worst", "fill", "spread", "gradient"];

    /// Fit with this parameter value; the default for any other text.
    pub fn from_word(word: &str) -> Fit {
        match word {
            "first" => Fit::First,
            "worst" => Fit::Worst,
            "fill" => Fit::Fill,
            "spread" => Fit::Spread,
            "gradient" => Fit::Gradient,
            _ => Fit::Best,
        }
    }

    /// Score of a device; the smallest is the best.
    fn score(self, info: &DeviceInfo, used: DeviceUse, charge: Charge) -> u64 {
        let left = match charge {
            Charge::Whole | Charge::Beside => info.memory,
            Charge::Share(bytes) => info.budget.saturating_sub(used.shared_bytes() + bytes),
        };
        match self {
            Fit::First => 0,
            Fit::Best | Fit::Gradient => left,
            Fit::Worst => u64::MAX / 64 - left.min(u64::MAX / 64),
            Fit::Fill => u64::from(used.attempts() == 0),
            Fit::Spread => u64::from(used.attempts()),
        }
    }
}

/// Result of a search on the devices a task prefers, or else on any. A task that waits for its preferred devices
/// accepts no others anyway.
fn search_preferred_first<T>(
    needs: &Needs,
    find: impl Fn(&dyn Fn(DeviceId) -> bool) -> Option<T>,
) -> Option<T> {
    let prefers = !needs.preferred.is_empty() && needs.wait_mode == WaitMode::Schedule;
    let on_preferred = if prefers { find(&|id| needs.preferred.contains(&id)) } else { None };
    on_preferred.or_else(|| find(&|_| true))
}

/// Search for a placement.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// Free capacity now.
    pub now: &'a Ledger<'a>,
    /// Ledgers on which the placement must fit as well, such as that of a reservation that begins before the task
    /// ends.
    pub later: &'a [&'a Ledger<'a>],
    /// Devices withheld from this task, sorted.
    pub withheld: &'a [DeviceId],
    /// Workers excluded from the search.
    pub excluded: &'a [WorkerId],
    /// Fit: which of several possible placements is chosen.
    pub fit: Fit,
    /// Needs of the tasks there are, for the fit that minimises fragmentation.
    pub workload: &'a TaskMix,
}

impl<'a> Search<'a> {
    /// Search in what is free now, with the default fit.
    pub fn over(now: &'a Ledger<'a>) -> Search<'a> {
        Search { now, later: &[], withheld: &[], excluded: &[], fit: Fit::default(), workload: TaskMix::NONE }
    }

    /// Placement of a task, if there is one: on the devices it prefers if they have capacity, else (unless it waits
    /// for those) on any in its scope.
    pub fn place(self, needs: &Needs) -> Option<Placement> {
        debug_assert!(self.withheld.is_sorted());
        search_preferred_first(needs, |only| self.best(needs, only))
    }

    /// Placement of a task on one worker, with the same preference.
    pub fn place_on(self, worker: WorkerId, needs: &Needs) -> Option<Placement> {
        debug_assert!(self.withheld.is_sorted());
        let used = self.now.worker(worker)?;
        search_preferred_first(needs, |only| match self.fit {
            Fit::Gradient => {
                self.least_fragmenting(worker, used, needs, only).map(|(_, placement)| placement)
            }
            _ => {
                let score = self.score_worker(worker, used, needs, only)?;
                Some(self.placement_on(worker, score, needs, only))
            }
        })
    }

    fn best(self, needs: &Needs, only: &dyn Fn(DeviceId) -> bool) -> Option<Placement> {
        if self.fit == Fit::Gradient {
            let candidates = self.now.candidates(needs.gpus > 0);
            let found = candidates.filter_map(|(id, used)| {
                let (growth, placement) = self.least_fragmenting(id, used, needs, only)?;
                // On equal growth, the fullest worker: an emptier one still suits more of what may come.
                Some(((growth, fragment::free(used), id), placement))
            });
            return found.min_by_key(|(harm, _)| *harm).map(|(_, placement)| placement);
        }
        let (worker, score) = match (self.fit, needs.gpus, needs.gpu_memory) {
            (Fit::Best | Fit::Spread, 1.., None) => self.best_with_idle(needs, only),
            _ => {
                let candidates = self.now.candidates(needs.gpus > 0);
                let mut fitting =
                    candidates.filter_map(|(id, used)| Some((id, self.score_worker(id, used, needs, only)?)));
                let by_score = |(id, score): &(WorkerId, WorkerScore)| (score.total, *id);
                if self.fit == Fit::First { fitting.next() } else { fitting.min_by_key(by_score) }
            }
        }?;
        Some(self.placement_on(worker, score, needs, only))
    }

    /// Best worker for a task that needs whole devices. Workers are visited by their number of idle devices, until
    /// none can score better than the best found. The bound takes all idle devices to be acceptable: among workers of
    /// equal score, one with idle devices that the task cannot use may be passed over.
    fn best_with_idle(
        self,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Option<(WorkerId, WorkerScore)> {
        let wanted = usize::from(needs.gpus);
        let least = match self.fit {
            Fit::Best => self.now.pool().smallest_memory().saturating_mul(wanted as u64),
            _ => 0,
        };
        let mut best: Option<(WorkerId, WorkerScore)> = None;
        for (id, used) in self.now.with_idle(wanted) {
            let better = |total: u64| best.is_none_or(|(best, score)| (total, id) < (score.total, best));
            // Workers that this plan has charged are visited first and in no such order, so they never end the search.
            if !self.now.is_touched(id) && !better(with_tie_break(least, used.idle_devices() - wanted)) {
                break;
            }
            let score = self.score_worker(id, used, needs, only).filter(|score| better(score.total));
            best = score.map(|score| (id, score)).or(best);
        }
        best
    }

    /// Placement on a worker that grows its unusable free capacity least, and that growth.
    fn least_fragmenting(
        self,
        id: WorkerId,
        used: &WorkerUse,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Option<(i64, Placement)> {
        let score = self.score_worker(id, used, needs, only)?;
        let before = self.workload.unusable(id, used) as i64;
        let after = |placement: Placement| {
            let mut then = used.clone();
            then.charge(&placement);
            (self.workload.unusable(id, &then) as i64 - before, placement)
        };
        if needs.gpus != 1 {
            // Trying every combination of devices would cost too much: for several, the best by score.
            return Some(after(self.placement_on(id, score, needs, only)));
        }
        // Devices with equal capacity left are interchangeable: only the first of them is tried.
        let mut fitting: Vec<_> = self.fitting(id, used, needs, only).collect();
        fitting.sort_unstable_by_key(|&(left, index, _)| (left, index));
        fitting.dedup_by_key(|(left, ..)| *left);
        let place = |(_, index, charge)| Placement {
            worker: id,
            devices: smallvec![(index, charge)],
            cpus: needs.cpus,
            memory: needs.memory,
        };
        fitting.into_iter().map(|found| after(place(found))).min_by_key(|(growth, _)| *growth)
    }

    /// Score of a worker for a task; none if the task does not fit there.
    fn score_worker(
        self,
        id: WorkerId,
        used: &WorkerUse,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Option<WorkerScore> {
        let host = |w: &WorkerUse| w.host_admits(needs.cpus, needs.memory);
        if self.excluded.contains(&id)
            || !needs.accepts_worker(id)
            || !host(used)
            || !self.later.iter().filter_map(|l| l.worker(id)).all(host)
        {
            return None;
        }
        let wanted = usize::from(needs.gpus);
        if wanted == 0 {
            let score = if self.fit == Fit::Spread { u64::from(u32::MAX - used.cpus_free()) } else { 0 };
            return Some(WorkerScore { total: score, device: None });
        }
        // Cheap exit before any device is looked at: most workers of a busy cluster have no idle device.
        if needs.gpu_memory.is_none() && used.idle_devices() < wanted {
            return None;
        }
        let mut fitting = self.fitting(id, used, needs, only);
        if wanted == 1 {
            let (mut best, mut others) = (fitting.next()?, 0);
            for other in fitting {
                others += 1;
                best = if other.0 < best.0 { other } else { best };
            }
            let (score, index, charge) = best;
            return Some(WorkerScore { total: with_tie_break(score, others), device: Some((index, charge)) });
        }
        let mut scores: SmallVec<[u64; 8]> = fitting.map(|(score, ..)| score).collect();
        let others = scores.len().checked_sub(wanted)?;
        scores.sort_unstable();
        Some(WorkerScore { total: with_tie_break(scores[..wanted].iter().sum(), others), device: None })
    }

    /// Devices of a worker that the task fits on, each with its score.
    fn fitting(
        self,
        id: WorkerId,
        used: &'a WorkerUse,
        needs: &'a Needs,
        only: &'a dyn Fn(DeviceId) -> bool,
    ) -> impl Iterator<Item = (u64, u16, Charge)> + 'a {
        used.devices().filter_map(move |(index, info, device)| {
            let device_id = DeviceId { worker: id, index };
            let charge = charge_for(info, needs)?;
            let fits = used.device_admits(index, charge)
                && self.later.iter().filter_map(|l| l.worker(id)).all(|w| w.device_admits(index, charge))
                && acceptable(needs, device_id, info)
                && only(device_id)
                && self.withheld.binary_search(&device_id).is_err();
            fits.then(|| (self.fit.score(info, device, charge), index, charge))
        })
    }

    /// Placement on the best devices of a worker that fits.
    fn placement_on(
        self,
        worker: WorkerId,
        score: WorkerScore,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Placement {
        let devices = match needs.gpus {
            0 | 1 => score.device.into_iter().collect(),
            wanted => {
                let used = self.now.worker(worker).expect("a worker with a score is in the pool");
                let order = |&(score, index, _): &(u64, u16, Charge)| (score, index);
                let mut fitting: SmallVec<[_; 8]> = self.fitting(worker, used, needs, only).collect();
                fitting.sort_unstable_by_key(order);
                fitting.truncate(usize::from(wanted));
                // Placements list devices in order, so that equal placements are equal values.
                fitting.sort_unstable_by_key(|&(_, index, _)| index);
                fitting.into_iter().map(|(_, index, charge)| (index, charge)).collect()
            }
        };
        Placement { worker, devices, cpus: needs.cpus, memory: needs.memory }
    }
}

/// Score of a worker for a task.
#[derive(Clone, Copy)]
struct WorkerScore {
    /// The smallest is the best.
    total: u64,
    /// Best device, for a task that needs one: spares a second search.
    device: Option<(u16, Charge)>,
}

/// Score that breaks ties in favour of the worker with the fewest other places left, which keeps emptier workers
/// free.
fn with_tie_break(score: u64, others: usize) -> u64 {
    score.saturating_mul(64).saturating_add(others.min(63) as u64)
}
