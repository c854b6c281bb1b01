//! Where a task goes: devices of one worker that are acceptable, have room, and suit the rule best.

use crate::fragment::{self, TaskMix};
use crate::ids::{DeviceId, WorkerId};
use crate::pool::{Charge, DeviceInfo, DeviceUse, Ledger, Placement, WorkerUse, charge_for};
use crate::spec::{Needs, WaitMode};
use smallvec::{SmallVec, smallvec};

/// Which of several fitting places is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Where least is left over, so that large gaps stay large.
    #[default]
    Best,
    /// The first in order of number.
    First,
    /// Where most is left over.
    Worst,
    /// On devices that already have tasks, so that whole devices stay free.
    Fill,
    /// On the devices with the fewest tasks.
    Spread,
    /// Where what is free, but of no use to the tasks there are, grows least.
    Gradient,
}

impl Fit {
    /// The words for the rules, the default first.
    pub const WORDS: &'static [&'static str] = &["best", "first", "worst", "fill", "spread", "gradient"];

    /// The rule of that name; the default for any other word.
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

    /// Smaller is better.
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

/// Whether a task may ever use a device: its type and the task's scope, whatever is on it now.
pub fn acceptable(needs: &Needs, id: DeviceId, info: &DeviceInfo) -> bool {
    let kind =
        needs.gpu_types.is_empty() || needs.gpu_types.iter().any(|t| t.eq_ignore_ascii_case(&info.kind));
    kind && (needs.scope.is_empty() || needs.scope.contains(&id)) && !must_prefer(needs, id)
}

/// What is found on the devices a task prefers, else on any; one that waits for those it prefers has no others anyway.
fn preferring<T>(needs: &Needs, find: impl Fn(&dyn Fn(DeviceId) -> bool) -> Option<T>) -> Option<T> {
    let prefers = !needs.preferred.is_empty() && needs.wait_mode == WaitMode::Schedule;
    let on_preferred = if prefers { find(&|id| needs.preferred.contains(&id)) } else { None };
    on_preferred.or_else(|| find(&|_| true))
}

/// Whether a task that waits for its preferred devices would have to wait for others than this one.
fn must_prefer(needs: &Needs, id: DeviceId) -> bool {
    needs.wait_mode == WaitMode::Queue && !needs.preferred.is_empty() && !needs.preferred.contains(&id)
}

/// A search for a place.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// What is free now.
    pub now: &'a Ledger<'a>,
    /// What must also be free, as for a task that would still run when a reservation begins.
    pub later: &'a [&'a Ledger<'a>],
    /// Devices withheld from this task, in order.
    pub withheld: &'a [DeviceId],
    /// Workers withheld from it.
    pub shunned: &'a [WorkerId],
    /// Which of several fitting places is taken.
    pub fit: Fit,
    /// The tasks there are, to which what is left may be of use or not.
    pub workload: &'a TaskMix,
}

impl<'a> Search<'a> {
    /// A search among what is free now, by the default rule.
    pub fn over(now: &'a Ledger<'a>) -> Search<'a> {
        Search { now, later: &[], withheld: &[], shunned: &[], fit: Fit::default(), workload: TaskMix::NONE }
    }

    /// The place for a task, if there is one: on the devices it prefers where they have room, else (unless it waits for
    /// those) on any in its scope.
    pub fn place(self, needs: &Needs) -> Option<Placement> {
        debug_assert!(self.withheld.is_sorted());
        preferring(needs, |only| self.best(needs, only))
    }

    /// The place for a task on one worker, by the same preference.
    pub fn place_on(self, worker: WorkerId, needs: &Needs) -> Option<Placement> {
        debug_assert!(self.withheld.is_sorted());
        let used = self.now.worker(worker)?;
        preferring(needs, |only| match self.fit {
            Fit::Gradient => self.descent(worker, used, needs, only).map(|(_, placement)| placement),
            _ => {
                let suits = self.on_worker(worker, used, needs, only)?;
                Some(self.take(worker, suits, needs, only))
            }
        })
    }

    fn best(self, needs: &Needs, only: &dyn Fn(DeviceId) -> bool) -> Option<Placement> {
        if self.fit == Fit::Gradient {
            let candidates = self.now.candidates(needs.gpus > 0);
            let found = candidates.filter_map(|(id, used)| {
                let (growth, placement) = self.descent(id, used, needs, only)?;
                // Where it grows equally, the fullest worker: an emptier one still suits more of what may come.
                Some(((growth, fragment::free(used), id), placement))
            });
            return found.min_by_key(|(harm, _)| *harm).map(|(_, placement)| placement);
        }
        let (worker, suits) = match (self.fit, needs.gpus, needs.gpu_memory) {
            (Fit::Best | Fit::Spread, 1.., None) => self.best_with_idle(needs, only),
            _ => {
                let candidates = self.now.candidates(needs.gpus > 0);
                let mut fitting =
                    candidates.filter_map(|(id, used)| Some((id, self.on_worker(id, used, needs, only)?)));
                let by_score = |(id, suits): &(WorkerId, WorkerScore)| (suits.score, *id);
                if self.fit == Fit::First { fitting.next() } else { fitting.min_by_key(by_score) }
            }
        }?;
        Some(self.take(worker, suits, needs, only))
    }

    /// The best worker for a task that wants whole devices. They are looked at by how many idle devices they have, and
    /// not further than to where none can be better than what was found. All idle devices are taken to be acceptable there: of
    /// workers that suit equally well, one with idle devices the task cannot use may be passed over.
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
            let better = |score: u64| best.is_none_or(|(best, suits)| (score, id) < (suits.score, best));
            if !self.now.is_touched(id) && !better(total(least, used.idle_devices() - wanted)) {
                break;
            }
            let suits = self.on_worker(id, used, needs, only).filter(|suits| better(suits.score));
            best = suits.map(|suits| (id, suits)).or(best);
        }
        best
    }

    /// The place on a worker where what is free and of no use grows least, and by how much.
    fn descent(
        self,
        id: WorkerId,
        used: &WorkerUse,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Option<(i64, Placement)> {
        let suits = self.on_worker(id, used, needs, only)?;
        let before = self.workload.unusable(id, used) as i64;
        let after = |placement: Placement| {
            let mut then = used.clone();
            then.charge(&placement);
            (self.workload.unusable(id, &then) as i64 - before, placement)
        };
        if needs.gpus != 1 {
            return Some(after(self.take(id, suits, needs, only)));
        }
        // Devices with equally much left are as good as each other: the first of them is tried.
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

    /// How well a worker suits a task, if it does.
    fn on_worker(
        self,
        id: WorkerId,
        used: &WorkerUse,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Option<WorkerScore> {
        let host = |w: &WorkerUse| w.host_admits(needs.cpus, needs.memory);
        if self.shunned.contains(&id)
            || !host(used)
            || !self.later.iter().filter_map(|l| l.worker(id)).all(host)
        {
            return None;
        }
        let wanted = usize::from(needs.gpus);
        if wanted == 0 {
            let score = if self.fit == Fit::Spread { u64::from(u32::MAX - used.cpus_free()) } else { 0 };
            return Some(WorkerScore { score, device: None });
        }
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
            return Some(WorkerScore { score: total(score, others), device: Some((index, charge)) });
        }
        let mut scores: SmallVec<[u64; 8]> = fitting.map(|(score, ..)| score).collect();
        let others = scores.len().checked_sub(wanted)?;
        scores.sort_unstable();
        Some(WorkerScore { score: total(scores[..wanted].iter().sum(), others), device: None })
    }

    /// The devices of a worker that would take a task, with how well each suits it.
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

    /// The best devices of a worker that suits.
    fn take(
        self,
        worker: WorkerId,
        suits: WorkerScore,
        needs: &Needs,
        only: &dyn Fn(DeviceId) -> bool,
    ) -> Placement {
        let devices = match needs.gpus {
            0 | 1 => suits.device.into_iter().collect(),
            wanted => {
                let used = self.now.worker(worker).expect("a worker that suits is there");
                let order = |&(score, index, _): &(u64, u16, Charge)| (score, index);
                let mut fitting: SmallVec<[_; 8]> = self.fitting(worker, used, needs, only).collect();
                fitting.sort_unstable_by_key(order);
                fitting.truncate(usize::from(wanted));
                fitting.sort_unstable_by_key(|&(_, index, _)| index);
                fitting.into_iter().map(|(_, index, charge)| (index, charge)).collect()
            }
        };
        Placement { worker, devices, cpus: needs.cpus, memory: needs.memory }
    }
}

/// How well a worker suits a task.
#[derive(Clone, Copy)]
struct WorkerScore {
    /// Smaller is better.
    score: u64,
    /// The best of its devices, for a task that wants one.
    device: Option<(u16, Charge)>,
}

/// How well a worker suits: among those that suit equally well, the one with the fewest other places left.
fn total(score: u64, others: usize) -> u64 {
    score.saturating_mul(64).saturating_add(others.min(63) as u64)
}
