//! The insertion scheduler under every planner: timelines with gaps, and the placing of one task after another.
//! It decides where a task goes, never which task is next.

mod busy;
mod cheapest;
mod hopes;
mod lean;
mod scout;
mod timeline;

use busy::BusyTable;
pub(crate) use cheapest::Cheapest;
use cheapest::Keys;
use hopes::{Hopes, Rows, Start};
pub(crate) use lean::Lean;
use scout::{Brief, Scout};
use timeline::Timeline;

use crate::instance::Instance;
use crate::schedule::{Schedule, Slot};
use crate::wide::widened;

/// When a task could start on each machine, gaps aside.
enum Ready {
    Uniform(Arrival),
    /// One moment per machine, in the scratch row.
    PerMachine,
}

/// When a task's data arrives over uniform links: the same moment everywhere but on one machine, where it is sooner.
#[derive(Clone, Copy)]
struct Arrival {
    elsewhere: f64,
    on: usize,
    there: f64,
}

impl Arrival {
    const UNKNOWN: Self = Self { elsewhere: f64::INFINITY, on: usize::MAX, there: f64::INFINITY };

    /// Not while a task that is waited for has no place yet.
    fn is_known(&self) -> bool {
        self.elsewhere < f64::INFINITY
    }
}

/// A task that has no place yet ends at no time.
const NOWHERE: Slot = Slot { machine: 0, start: 0.0, finish: f64::INFINITY };

/// The best place found so far for a task.
struct Place {
    score: f64,
    machine: usize,
    start: f64,
    cost: f64,
    at: usize,
}

impl Place {
    const NONE: Self = Self { score: f64::INFINITY, machine: usize::MAX, start: 0.0, cost: 0.0, at: 0 };

    /// Takes the better of the two; the lower machine wins a tie.
    #[inline]
    fn improve(&mut self, other: Self) {
        if other.score < self.score || (other.score == self.score && other.machine < self.machine) {
            *self = other;
        }
    }
}

/// Places tasks one after another. A task's predecessors must have been placed before it.
#[derive(Debug, Clone)]
pub(crate) struct Inserter<'a> {
    instance: &'a Instance,
    cheapest: &'a Cheapest,
    lanes: Vec<Timeline>,
    /// Kept once machines turn out to be full.
    busy: Option<BusyTable>,
    crowd: Crowd,
    slots: Vec<Slot>,
    ready: Vec<f64>,
    bias: Vec<f64>,
    hopes: Hopes,
}

/// How many machines had to be looked at for how many tasks.
#[derive(Debug, Clone, Copy, Default)]
struct Crowd {
    tasks: u32,
    looks: u32,
}

impl Crowd {
    /// Whether the last tasks took so many looks that a table of busy times pays.
    fn is_dense(&mut self) -> bool {
        const TASKS: u32 = 256;
        const LOOKS: u32 = 40 * TASKS;
        self.tasks += 1;
        let dense = self.looks > LOOKS;
        if dense || self.tasks == TASKS {
            *self = Self::default();
        }
        dense
    }
}

impl<'a> Inserter<'a> {
    pub(crate) fn new(instance: &'a Instance, cheapest: &'a Cheapest) -> Self {
        let p = instance.machines();
        Self {
            instance,
            cheapest,
            lanes: vec![Timeline::default(); p],
            busy: None,
            crowd: Crowd::default(),
            slots: vec![NOWHERE; instance.tasks()],
            ready: vec![0.0; p],
            bias: vec![0.0; p],
            hopes: Hopes::new(p),
        }
    }

    pub(crate) fn into_schedule(self) -> Schedule {
        Schedule { slots: self.slots }
    }

    /// Places all tasks in `order`, each where it finishes first.
    pub(crate) fn place_all(&mut self, order: &[u32]) {
        self.place_by_all_means(order, None);
    }

    /// Places all tasks in `order`, each where finish and leaning together are least.
    pub(crate) fn place_all_leaning(&mut self, order: &[u32], lean: &Lean<'_>) {
        self.place_by_all_means(order, Some(lean));
    }

    /// With a scout where there is work and room for two.
    fn place_by_all_means(&mut self, order: &[u32], lean: Option<&Lean<'_>>) {
        /// From so many costs on a second thread is worth starting.
        const MANY: usize = 1 << 22;
        let many = order.len().saturating_mul(self.lanes.len()) >= MANY;
        // Two that run by turns would hinder each other.
        let scouted = many && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let placed = if scouted { self.place_scouted(order, lean) } else { 0 };
        self.place_each(&order[placed..], lean);
    }

    /// Places tasks with a scout running ahead, for as long as the cheapest machines are the ones to look at; says how
    /// many.
    fn place_scouted(&mut self, order: &[u32], lean: Option<&Lean<'_>>) -> usize {
        if !self.looks_at_cheapest() {
            return 0;
        }
        /// So many tasks ahead what placing will read is asked for.
        const AHEAD: usize = 4;
        let scout = Scout::new(self.instance, self.cheapest, order, &self.slots);
        std::thread::scope(|scope| {
            scope.spawn(|| scout.run());
            let _back = scout.called_back_at_last();
            for (at, &task) in order.iter().enumerate() {
                if !self.looks_at_cheapest() {
                    return at;
                }
                let task = task as usize;
                scout.follow(at);
                if let Some(soon) = scout.brief(at + AHEAD) {
                    self.foresee_looks(&soon);
                }
                let brief = scout.brief(at);
                let brief = brief.unwrap_or_else(|| Brief::of(self.instance, task, self.arrival(task)));
                let slot = self.place_cheaply(task, &brief, lean);
                scout.tell(task, slot);
            }
            order.len()
        })
    }

    /// Asks for the slots that placing will probably read.
    #[inline]
    fn foresee_looks(&self, brief: &Brief) {
        let Arrival { elsewhere, on, there } = brief.arrival;
        if let Some(lane) = self.lanes.get(on) {
            lane.prefetch(there + brief.cost_there);
        }
        for &key in brief.keys.iter().take(2) {
            let (machine, cost) = self.cheapest.read(key);
            if let Some(lane) = self.lanes.get(machine).filter(|_| key < f64::INFINITY) {
                lane.prefetch(elsewhere + cost);
            }
        }
    }

    fn place_each(&mut self, order: &[u32], lean: Option<&Lean<'_>>) {
        /// So many tasks ahead it is looked up when a task is ready, and what placing it will read is asked for.
        const AHEAD: usize = 8;
        /// Before that, what the looking up will read is asked for: whom a task waits for, then where those are.
        const BEFORE: [usize; 2] = [AHEAD + 8, AHEAD + 4];
        let mut soon = [Arrival::UNKNOWN; AHEAD];
        for (at, &task) in order.iter().enumerate() {
            let arrival = soon[at % AHEAD];
            if let Some(&later) = order.get(at + BEFORE[0]) {
                prefetch(self.instance.predecessors(later as usize));
                self.cheapest.prefetch(later as usize);
            }
            if let Some(&later) = order.get(at + BEFORE[1]) {
                for &(before, _) in self.instance.predecessors(later as usize) {
                    prefetch(std::slice::from_ref(&self.slots[before as usize]));
                }
            }
            if let Some(&later) = order.get(at + AHEAD) {
                soon[at % AHEAD] = self.foresee(later as usize);
            }
            if !self.looks_at_cheapest() {
                self.place_anywhere(task as usize, lean, Place::NONE, &[]);
                continue;
            }
            let task = task as usize;
            let arrival = if arrival.is_known() { arrival } else { self.arrival(task) };
            self.place_cheaply(task, &Brief::of(self.instance, task, arrival), lean);
        }
    }

    /// Places `task` where it finishes first; the lower machine wins a tie.
    pub(crate) fn place(&mut self, task: usize) -> Slot {
        if self.looks_at_cheapest() {
            self.place_cheaply(task, &Brief::of(self.instance, task, self.arrival(task)), None)
        } else {
            self.place_by::<false>(task, &[], Place::NONE, &[])
        }
    }

    /// Places `task` where finish plus `bias` is least; the lower machine wins a tie.
    pub(crate) fn place_biased(&mut self, task: usize, bias: &[f64]) -> Slot {
        self.place_by::<true>(task, bias, Place::NONE, &[])
    }

    /// Places `task` where finish and leaning together are least, whichever machine that is, or at `best`, the best of
    /// those already looked at.
    fn place_anywhere(
        &mut self,
        task: usize,
        lean: Option<&Lean<'_>>,
        best: Place,
        looked_at: &[usize],
    ) -> Slot {
        let Some(lean) = lean else { return self.place_by::<false>(task, &[], best, looked_at) };
        let mut bias = std::mem::take(&mut self.bias);
        lean.bias(self.instance, task, &mut bias);
        let slot = self.place_by::<true>(task, &bias, best, looked_at);
        self.bias = bias;
        slot
    }

    /// Places `task` on `machine`, as early as it goes there.
    pub(crate) fn place_on(&mut self, task: usize, machine: usize) -> Slot {
        let ready = self.ready_on(task, machine);
        let cost = self.instance.costs(task)[machine];
        let mut place = Place::NONE;
        self.look(machine, ready, cost, 0.0, &mut place);
        self.commit(task, place)
    }

    pub(crate) fn machines(&self) -> usize {
        self.lanes.len()
    }

    /// Takes back the placement of `task`, which must be placed and be the last placed of those that are.
    pub(crate) fn remove(&mut self, task: usize) {
        let slot = std::mem::replace(&mut self.slots[task], NOWHERE);
        self.lanes[slot.machine as usize].remove(slot.start, slot.finish);
        // The table knows no way back; it is made anew where it is needed.
        self.busy = None;
    }

    /// When `task` would finish on `machine`.
    pub(crate) fn finish_on(&self, task: usize, machine: usize) -> f64 {
        let ready = self.ready_on(task, machine);
        let cost = self.instance.costs(task)[machine];
        self.lanes[machine].fit(ready, cost, f64::INFINITY).map_or(f64::INFINITY, |(start, _)| start + cost)
    }

    /// Asks for what placing `task` will read. Says when it is ready if that is certain by now.
    #[inline]
    fn foresee(&self, task: usize) -> Arrival {
        let costs = self.instance.costs(task);
        if !self.looks_at_cheapest() {
            prefetch(costs);
            return Arrival::UNKNOWN;
        }
        let arrival = self.arrival(task);
        if let Some(cost) = costs.get(arrival.on) {
            prefetch(std::slice::from_ref(cost));
        }
        if arrival.is_known() {
            // Nearly every task is looked at on its cheapest machine.
            let (machine, cost) = self.cheapest.first(task);
            self.lanes[machine].prefetch(arrival.elsewhere + cost);
        }
        arrival
    }

    #[inline]
    fn looks_at_cheapest(&self) -> bool {
        self.instance.has_uniform_links() && self.busy.is_none()
    }

    fn ready_on(&self, task: usize, machine: usize) -> f64 {
        let mut ready = self.instance.release(task);
        for &(before, data) in self.instance.predecessors(task) {
            let slot = &self.slots[before as usize];
            let arrival = slot.finish + self.instance.transfer(data, slot.machine as usize, machine);
            if arrival > ready {
                ready = arrival;
            }
        }
        ready
    }

    #[inline]
    fn arrival(&self, task: usize) -> Arrival {
        arrival(self.instance, task, |before| {
            let slot = &self.slots[before];
            (slot.finish, slot.machine as usize)
        })
    }

    #[inline]
    fn ready(&mut self, task: usize) -> Ready {
        let Some(pairs) = &self.instance.pairs else { return Ready::Uniform(self.arrival(task)) };
        let p = self.instance.machines();
        self.ready.fill(self.instance.release(task));
        // Data that has arrived everywhere before another's can be anywhere but where that was made counts only there.
        let (mut made_on, mut anywhere) = (usize::MAX, f64::NEG_INFINITY);
        for &(before, data) in self.instance.predecessors(task) {
            let slot = &self.slots[before as usize];
            let soonest = pairs.spread[slot.machine as usize].soonest(slot.finish, data);
            if soonest > anywhere {
                (made_on, anywhere) = (slot.machine as usize, soonest);
            }
        }
        for &(before, data) in self.instance.predecessors(task) {
            let slot = &self.slots[before as usize];
            let from = slot.machine as usize;
            if from != made_on && pairs.spread[from].latest(slot.finish, data) <= anywhere {
                let arrival = slot.finish + self.instance.transfer(data, from, made_on);
                self.ready[made_on] = self.ready[made_on].max(arrival);
                continue;
            }
            let row = from * p..(from + 1) * p;
            arrive(&mut self.ready, &pairs.latency[row.clone()], &pairs.bandwidth[row], slot.finish, data);
        }
        Ready::PerMachine
    }

    /// Looks for gaps on the cheapest machines, one by one, until the next could not be better than the best found.
    /// Uniform links only.
    #[inline]
    fn place_cheaply(&mut self, task: usize, brief: &Brief, lean: Option<&Lean<'_>>) -> Slot {
        /// After so many looks the whole row will probably be wanted.
        const MANY: usize = 6;
        let Arrival { elsewhere, on, there } = brief.arrival;
        let costs = self.instance.costs(task);
        // The row itself is far away in memory.
        let by_key = self.cheapest.is_exact() && lean.is_none();
        let bias_of = |machine: usize, cost: f64| lean.map_or(0.0, |lean| lean.at(task, machine, cost));
        let mut best = Place::NONE;
        let mut looked_at = [0; Keys::MOST + 1];
        let mut looks = 0;
        if on != usize::MAX {
            self.look(on, there, brief.cost_there, bias_of(on, brief.cost_there), &mut best);
            looked_at[0] = on;
            looks = 1;
        }
        let listed = brief.keys.iter().position(|key| *key == f64::INFINITY).unwrap_or(brief.keys.len());
        for &key in &brief.keys[..listed] {
            let (machine, cost) = self.cheapest.read(key);
            if elsewhere + cost > best.score {
                return self.commit(task, best);
            }
            if machine != on {
                let cost = if by_key { cost } else { costs[machine] };
                self.look(machine, elsewhere, cost, bias_of(machine, cost), &mut best);
                looked_at[looks] = machine;
                looks += 1;
            }
        }
        let mut keys = *self.cheapest.keys(task);
        brief.keys[..listed].iter().for_each(|&key| keys.pass(self.cheapest.read(key).0));
        let rest = self.cheapest.rest(task);
        loop {
            let key = keys.least();
            let (machine, cost) = self.cheapest.read(key);
            let next = if cost > rest { rest } else { cost };
            if elsewhere + next > best.score || next == f64::INFINITY {
                break;
            }
            if cost > rest {
                return self.place_anywhere(task, lean, best, &looked_at[..looks]);
            }
            keys.pass(machine);
            if machine != on {
                let cost = if by_key { cost } else { costs[machine] };
                self.look(machine, elsewhere, cost, bias_of(machine, cost), &mut best);
                looked_at[looks] = machine;
                looks += 1;
                if looks == MANY {
                    prefetch(costs);
                }
            }
        }
        self.commit(task, best)
    }

    #[inline]
    fn look(&mut self, machine: usize, ready: f64, cost: f64, bias: f64, best: &mut Place) {
        self.crowd.looks += 1;
        // With a bias the limit would have to be taken apart again, which rounds.
        let limit = if bias == 0.0 { best.score } else { f64::INFINITY };
        if let Some((start, at)) = self.lanes[machine].fit(ready, cost, limit) {
            best.improve(Place { score: start + cost + bias, machine, start, cost, at });
        }
    }

    /// Looks for gaps on the machine that could be best, then on the next, until none could be better than the best
    /// found, those already looked at included.
    fn place_by<const BIASED: bool>(
        &mut self,
        task: usize,
        bias: &[f64],
        mut best: Place,
        looked_at: &[usize],
    ) -> Slot {
        let costs = self.instance.costs(task);
        let bias_of = |machine: usize| if BIASED { bias[machine] } else { 0.0 };
        let ready = self.ready(task);
        match ready {
            Ready::Uniform(Arrival { elsewhere, on, there }) => {
                match self.busy.as_ref().and_then(|busy| busy.row(elsewhere)) {
                    Some(times) => self.hopes.fill(Start::After(elsewhere), Rows { costs, times, bias }),
                    None => self.hopes.fill(Start::At(elsewhere), Rows { costs, times: costs, bias }),
                }
                if on != usize::MAX {
                    self.hopes.correct(on, there + costs[on] + bias_of(on));
                }
            }
            Ready::PerMachine => self.hopes.fill(Start::Own, Rows { costs, times: &self.ready, bias }),
        }
        self.hopes.give_up(looked_at);
        loop {
            let (machine, hope) = self.hopes.most_promising();
            if hope > best.score || hope == f64::INFINITY {
                break;
            }
            self.hopes.correct(machine, f64::INFINITY);
            let ready = match ready {
                Ready::Uniform(Arrival { on, there, .. }) if machine == on => there,
                Ready::Uniform(Arrival { elsewhere, .. }) => elsewhere,
                Ready::PerMachine => self.ready[machine],
            };
            self.look(machine, ready, costs[machine], bias_of(machine), &mut best);
        }
        self.commit(task, best)
    }

    #[inline]
    fn commit(&mut self, task: usize, place: Place) -> Slot {
        let finish = place.start + place.cost;
        let slot = Slot { machine: place.machine as u32, start: place.start, finish };
        let lane = &mut self.lanes[place.machine];
        lane.insert(place.at, slot.start, slot.finish);
        if let Some(busy) = &mut self.busy {
            if place.cost > 0.0 {
                let (from, to) = lane.stretch(place.at, busy.reach());
                busy.note(place.machine, from, to);
            }
        } else if self.crowd.is_dense() && self.instance.has_uniform_links() {
            self.note_busy_times();
        }
        self.slots[task] = slot;
        slot
    }

    #[cold]
    fn note_busy_times(&mut self) {
        let mut busy = BusyTable::new(self.instance);
        for (machine, lane) in self.lanes.iter().enumerate() {
            for at in 0..lane.len() {
                let (from, to) = lane.stretch(at, busy.reach());
                busy.note(machine, from, to);
            }
        }
        self.busy = Some(busy);
    }
}

/// When a task is ready, given when its predecessors finish and where they are. With uniform links only the machine of
/// the one whose data would arrive last can be ready sooner than the rest: everywhere else that arrival counts.
#[inline(always)]
fn arrival(instance: &Instance, task: usize, placed: impl Fn(usize) -> (f64, usize)) -> Arrival {
    let mut elsewhere = instance.release(task);
    let mut on = usize::MAX;
    for &(before, data) in instance.predecessors(task) {
        let (finish, machine) = placed(before as usize);
        if finish + data > elsewhere {
            (elsewhere, on) = (finish + data, machine);
        }
    }
    let mut there = if on == usize::MAX { elsewhere } else { instance.release(task) };
    if on != usize::MAX {
        for &(before, data) in instance.predecessors(task) {
            let (finish, machine) = placed(before as usize);
            let arrival = if machine == on { finish } else { finish + data };
            if arrival > there {
                there = arrival;
            }
        }
    }
    Arrival { elsewhere, on, there }
}

widened! {
    /// Raises each machine's ready time to when data sent at `sent` would arrive there.
    fn arrive(ready: &mut [f64], latency: &[f64], bandwidth: &[f64], sent: f64, data: f64) = arrive_plainly
}

#[inline(always)]
fn arrive_plainly(ready: &mut [f64], latency: &[f64], bandwidth: &[f64], sent: f64, data: f64) {
    for (ready, (latency, bandwidth)) in ready.iter_mut().zip(latency.iter().zip(bandwidth)) {
        let arrival = sent + (latency + data / bandwidth);
        *ready = if arrival > *ready { arrival } else { *ready };
    }
}

/// Asks the processor to fetch what is about to be read. Large plans would spend a third of their time waiting
/// without it.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "prefetching has no safe form"))]
pub(crate) fn prefetch<T>(soon: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first: *const i8 = soon.as_ptr().cast();
        for at in (0..size_of_val(soon)).step_by(64) {
            // SAFETY: a prefetch reads nothing and changes nothing, wherever it points.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = soon;
}
