//! Insertion scheduler under every planner: timelines with idle gaps, and the placement of one task after another. It
//! chooses machine and start of a task, never which task is next.

mod bias;
mod busy_table;
mod cheapest;
mod lower_bounds;
mod precompute;
mod timeline;

pub(crate) use bias::MachineBias;
use busy_table::BusyTable;
pub(crate) use cheapest::CheapestMachines;
use cheapest::MachineKeys;
use lower_bounds::{LowerBounds, MachineRows, StartBound};
use precompute::{PlacementInput, Precompute};
use timeline::Timeline;

use crate::instance::Instance;
use crate::multiversion::multiversioned;
use crate::schedule::{Schedule, Slot};

/// Ready time of a task on each machine, regardless of idle gaps.
enum ReadyTimes {
    Uniform(Arrival),
    /// One ready time per machine, in the scratch row `Inserter::ready`.
    PerMachine,
}

/// Ready time over uniform links: the same on every machine except `home`, the machine of the predecessor whose data
/// would arrive last, where that transfer is saved.
#[derive(Clone, Copy)]
struct Arrival {
    remote: f64,
    home: usize,
    at_home: f64,
}

impl Arrival {
    const UNKNOWN: Self = Self { remote: f64::INFINITY, home: usize::MAX, at_home: f64::INFINITY };

    /// Whether all predecessors are placed; an unplaced one finishes at infinity.
    fn is_known(&self) -> bool {
        self.remote < f64::INFINITY
    }
}

/// Slot of an unplaced task: it finishes at infinity, so its successors are never ready.
const UNPLACED: Slot = Slot { machine: 0, start: 0.0, finish: f64::INFINITY };

/// Insertion slot considered for a task; `at` is its index in the machine's timeline.
struct Candidate {
    score: f64,
    machine: usize,
    start: f64,
    cost: f64,
    at: usize,
}

impl Candidate {
    const NONE: Self = Self { score: f64::INFINITY, machine: usize::MAX, start: 0.0, cost: 0.0, at: 0 };

    /// Keeps the candidate of lower score; ties go to the lower machine, whatever the order of probing.
    #[inline]
    fn keep_better(&mut self, other: Self) {
        if other.score < self.score || (other.score == self.score && other.machine < self.machine) {
            *self = other;
        }
    }
}

/// Insertion scheduler state. The predecessors of a task must be placed before it.
#[derive(Debug, Clone)]
pub(crate) struct Inserter<'a> {
    instance: &'a Instance,
    cheapest: &'a CheapestMachines,
    timelines: Vec<Timeline>,
    /// Busy-until table, built once timelines turn out to be dense.
    busy: Option<BusyTable>,
    probe_count: ProbeCount,
    slots: Vec<Slot>,
    ready: Vec<f64>,
    bias: Vec<f64>,
    bounds: LowerBounds,
}

/// Timelines probed for the latest tasks: the measure of how dense the timelines are.
#[derive(Debug, Clone, Copy, Default)]
struct ProbeCount {
    tasks: u32,
    probes: u32,
}

impl ProbeCount {
    /// Whether the latest tasks needed so many probes that a busy table pays.
    fn is_dense(&mut self) -> bool {
        const TASKS: u32 = 256;
        const PROBES: u32 = 40 * TASKS;
        self.tasks += 1;
        let dense = self.probes > PROBES;
        if dense || self.tasks == TASKS {
            *self = Self::default();
        }
        dense
    }
}

impl<'a> Inserter<'a> {
    pub(crate) fn new(instance: &'a Instance, cheapest: &'a CheapestMachines) -> Self {
        let p = instance.machines();
        Self {
            instance,
            cheapest,
            timelines: vec![Timeline::default(); p],
            busy: None,
            probe_count: ProbeCount::default(),
            slots: vec![UNPLACED; instance.tasks()],
            ready: vec![0.0; p],
            bias: vec![0.0; p],
            bounds: LowerBounds::new(p),
        }
    }

    pub(crate) fn into_schedule(self) -> Schedule {
        Schedule { slots: self.slots }
    }

    /// Places all tasks in `order`, each at its earliest finish time.
    pub(crate) fn place_all(&mut self, order: &[u32]) {
        self.place_in_order(order, None);
    }

    /// Places all tasks in `order`, each where finish plus bias is least.
    pub(crate) fn place_all_biased(&mut self, order: &[u32], bias: &MachineBias<'_>) {
        self.place_in_order(order, Some(bias));
    }

    /// Places all tasks in `order`, with a precomputing thread if there is enough work and a second core.
    fn place_in_order(&mut self, order: &[u32], bias: Option<&MachineBias<'_>>) {
        /// Cost entries from which a second thread pays for its start.
        const PARALLEL_COSTS: usize = 1 << 22;
        let large = order.len().saturating_mul(self.timelines.len()) >= PARALLEL_COSTS;
        // On a single core the two threads would only delay each other.
        let precomputed = large && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let placed = if precomputed { self.place_with_precompute(order, bias) } else { 0 };
        self.place_each(&order[placed..], bias);
    }

    /// Places tasks with a precomputing thread running ahead, as long as probing by cheapest machine applies; returns
    /// how many were placed.
    fn place_with_precompute(&mut self, order: &[u32], bias: Option<&MachineBias<'_>>) -> usize {
        if !self.probes_cheapest() {
            return 0;
        }
        /// Distance in tasks at which timelines are prefetched.
        const AHEAD: usize = 4;
        let precompute = Precompute::new(self.instance, self.cheapest, order, &self.slots);
        std::thread::scope(|scope| {
            scope.spawn(|| precompute.run());
            // The scope joins the thread, so it must be told to stop on every way out, panics included.
            let _stop = precompute.stop_on_drop();
            for (at, &task) in order.iter().enumerate() {
                if !self.probes_cheapest() {
                    return at;
                }
                let task = task as usize;
                precompute.advance_to(at);
                if let Some(soon) = precompute.input(at + AHEAD) {
                    self.prefetch_timelines(&soon);
                }
                // An input not published in time is computed here, so timing never changes the schedule.
                let input = precompute.input(at);
                let input =
                    input.unwrap_or_else(|| PlacementInput::of(self.instance, task, self.arrival(task)));
                let slot = self.place_on_cheapest(task, &input, bias);
                precompute.publish_slot(task, slot);
            }
            order.len()
        })
    }

    /// Prefetches the parts of the timelines that placing the task will probably read.
    #[inline]
    fn prefetch_timelines(&self, input: &PlacementInput) {
        let Arrival { remote, home, at_home } = input.arrival;
        if let Some(timeline) = self.timelines.get(home) {
            timeline.prefetch(at_home + input.home_cost);
        }
        for &key in input.keys.iter().take(2) {
            let (machine, cost) = self.cheapest.decode(key);
            if let Some(timeline) = self.timelines.get(machine).filter(|_| key < f64::INFINITY) {
                timeline.prefetch(remote + cost);
            }
        }
    }

    /// Places tasks on this thread alone, prefetching for the tasks ahead.
    fn place_each(&mut self, order: &[u32], bias: Option<&MachineBias<'_>>) {
        /// Distance in tasks at which ready times are computed and timelines prefetched.
        const AHEAD: usize = 8;
        /// Distances at which a task's edges, then its predecessors' slots, are prefetched: what computing the ready
        /// time reads.
        const PREFETCH_AHEAD: [usize; 2] = [AHEAD + 8, AHEAD + 4];
        let mut arrivals = [Arrival::UNKNOWN; AHEAD];
        for (at, &task) in order.iter().enumerate() {
            let arrival = arrivals[at % AHEAD];
            if let Some(&later) = order.get(at + PREFETCH_AHEAD[0]) {
                prefetch(self.instance.predecessors(later as usize));
                self.cheapest.prefetch(later as usize);
            }
            if let Some(&later) = order.get(at + PREFETCH_AHEAD[1]) {
                for &(before, _) in self.instance.predecessors(later as usize) {
                    prefetch(std::slice::from_ref(&self.slots[before as usize]));
                }
            }
            if let Some(&later) = order.get(at + AHEAD) {
                arrivals[at % AHEAD] = self.prefetch_task(later as usize);
            }
            if !self.probes_cheapest() {
                self.place_on_any(task as usize, bias, Candidate::NONE, &[]);
                continue;
            }
            let task = task as usize;
            // A predecessor may have been placed only after the ready time was computed ahead.
            let arrival = if arrival.is_known() { arrival } else { self.arrival(task) };
            self.place_on_cheapest(task, &PlacementInput::of(self.instance, task, arrival), bias);
        }
    }

    /// Places `task` at its earliest finish time; ties go to the lower machine.
    pub(crate) fn place(&mut self, task: usize) -> Slot {
        if self.probes_cheapest() {
            self.place_on_cheapest(task, &PlacementInput::of(self.instance, task, self.arrival(task)), None)
        } else {
            self.place_by_bounds::<false>(task, &[], Candidate::NONE, &[])
        }
    }

    /// Places `task` where finish plus `bias` is least; ties go to the lower machine.
    pub(crate) fn place_biased(&mut self, task: usize, bias: &[f64]) -> Slot {
        self.place_by_bounds::<true>(task, bias, Candidate::NONE, &[])
    }

    /// Places `task` where finish plus bias is least over all machines; `best` is the best of the machines already
    /// probed.
    fn place_on_any(
        &mut self,
        task: usize,
        bias: Option<&MachineBias<'_>>,
        best: Candidate,
        probed: &[usize],
    ) -> Slot {
        let Some(machine_bias) = bias else { return self.place_by_bounds::<false>(task, &[], best, probed) };
        let mut bias = std::mem::take(&mut self.bias);
        machine_bias.fill_bias(self.instance, task, &mut bias);
        let slot = self.place_by_bounds::<true>(task, &bias, best, probed);
        self.bias = bias;
        slot
    }

    /// Places `task` on `machine`, as early as possible.
    pub(crate) fn place_on(&mut self, task: usize, machine: usize) -> Slot {
        let ready = self.ready_on(task, machine);
        let cost = self.instance.costs(task)[machine];
        let mut chosen = Candidate::NONE;
        self.probe(machine, ready, cost, 0.0, &mut chosen);
        self.commit(task, chosen)
    }

    pub(crate) fn machines(&self) -> usize {
        self.timelines.len()
    }

    /// Undoes the placement of `task`, which must be the latest one still in place.
    pub(crate) fn remove(&mut self, task: usize) {
        let slot = std::mem::replace(&mut self.slots[task], UNPLACED);
        self.timelines[slot.machine as usize].remove(slot.start, slot.finish);
        // The busy table cannot forget an interval; it is rebuilt when needed.
        self.busy = None;
    }

    /// Earliest finish time of `task` on `machine`.
    pub(crate) fn finish_on(&self, task: usize, machine: usize) -> f64 {
        let ready = self.ready_on(task, machine);
        let cost = self.instance.costs(task)[machine];
        self.timelines[machine]
            .earliest_fit(ready, cost, f64::INFINITY)
            .map_or(f64::INFINITY, |(start, _)| start + cost)
    }

    /// Prefetches what placing `task` will read. Returns its ready time if all predecessors are placed by now.
    #[inline]
    fn prefetch_task(&self, task: usize) -> Arrival {
        let costs = self.instance.costs(task);
        if !self.probes_cheapest() {
            prefetch(costs);
            return Arrival::UNKNOWN;
        }
        let arrival = self.arrival(task);
        if let Some(cost) = costs.get(arrival.home) {
            prefetch(std::slice::from_ref(cost));
        }
        if arrival.is_known() {
            // Nearly every task is probed on its cheapest machine.
            let (machine, cost) = self.cheapest.cheapest_machine(task);
            self.timelines[machine].prefetch(arrival.remote + cost);
        }
        arrival
    }

    /// Whether machines are probed in the order of their costs: a task is then ready everywhere at once, and timelines
    /// are not dense.
    #[inline]
    fn probes_cheapest(&self) -> bool {
        self.instance.has_uniform_links() && self.busy.is_none()
    }

    /// Ready time of `task` on one machine.
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

    /// Ready times of `task` on all machines.
    #[inline]
    fn ready_times(&mut self, task: usize) -> ReadyTimes {
        let Some(pairs) = &self.instance.pairs else { return ReadyTimes::Uniform(self.arrival(task)) };
        let p = self.instance.machines();
        self.ready.fill(self.instance.release(task));
        // Let `last_from` be the sender whose data arrives last even over its best link. Data of another sender that
        // has arrived everywhere by then (over its worst link) can delay the task only on `last_from` itself, where no
        // transfer is paid: one entry instead of a row.
        let (mut last_from, mut last_arrival) = (usize::MAX, f64::NEG_INFINITY);
        for &(before, data) in self.instance.predecessors(task) {
            let slot = &self.slots[before as usize];
            let soonest = pairs.ranges[slot.machine as usize].soonest(slot.finish, data);
            if soonest > last_arrival {
                (last_from, last_arrival) = (slot.machine as usize, soonest);
            }
        }
        for &(before, data) in self.instance.predecessors(task) {
            let slot = &self.slots[before as usize];
            let from = slot.machine as usize;
            if from != last_from && pairs.ranges[from].latest(slot.finish, data) <= last_arrival {
                let arrival = slot.finish + self.instance.transfer(data, from, last_from);
                self.ready[last_from] = self.ready[last_from].max(arrival);
                continue;
            }
            let row = from * p..(from + 1) * p;
            raise_ready(
                &mut self.ready,
                &pairs.latency[row.clone()],
                &pairs.bandwidth[row],
                slot.finish,
                data,
            );
        }
        ReadyTimes::PerMachine
    }

    /// Probes machines by rising cost until the next cannot beat the best candidate. For uniform links only: the
    /// finish on any machine but `home` is at least `remote` plus its cost.
    #[inline]
    fn place_on_cheapest(
        &mut self,
        task: usize,
        input: &PlacementInput,
        bias: Option<&MachineBias<'_>>,
    ) -> Slot {
        /// Probes after which the whole row of costs will probably be read, so it is prefetched.
        const PROBES_BEFORE_ROW: usize = 6;
        let Arrival { remote, home, at_home } = input.arrival;
        let costs = self.instance.costs(task);
        // An exact key carries the cost itself, which saves reading the row, far away in memory.
        let by_key = self.cheapest.is_exact() && bias.is_none();
        let bias_of = |machine: usize, cost: f64| bias.map_or(0.0, |bias| bias.at(task, machine, cost));
        let mut best = Candidate::NONE;
        let mut probed = [0; MachineKeys::COUNT + 1];
        let mut probes = 0;
        // 1. `home` may start earlier than `remote`, so its cost alone bounds nothing: it is probed first.
        if home != usize::MAX {
            self.probe(home, at_home, input.home_cost, bias_of(home, input.home_cost), &mut best);
            probed[0] = home;
            probes = 1;
        }
        // 2. Keys that the precomputing thread listed, already sorted. They are lower bounds of the costs, so the
        // first that cannot win ends the search.
        let listed = input.keys.iter().position(|key| *key == f64::INFINITY).unwrap_or(input.keys.len());
        for &key in &input.keys[..listed] {
            let (machine, cost) = self.cheapest.decode(key);
            if remote + cost > best.score {
                return self.commit(task, best);
            }
            if machine != home {
                let cost = if by_key { cost } else { costs[machine] };
                self.probe(machine, remote, cost, bias_of(machine, cost), &mut best);
                probed[probes] = machine;
                probes += 1;
            }
        }
        // 3. The remaining keys, taken from the lanes one by one.
        let mut keys = *self.cheapest.keys(task);
        input.keys[..listed].iter().for_each(|&key| keys.take(self.cheapest.decode(key).0));
        let unlisted_bound = self.cheapest.unlisted_bound(task);
        loop {
            let key = keys.least();
            let (machine, cost) = self.cheapest.decode(key);
            let next = if cost > unlisted_bound { unlisted_bound } else { cost };
            if remote + next > best.score || next == f64::INFINITY {
                break;
            }
            // A machine without a key may be cheaper than every key left: all machines must be compared.
            if cost > unlisted_bound {
                return self.place_on_any(task, bias, best, &probed[..probes]);
            }
            keys.take(machine);
            if machine != home {
                let cost = if by_key { cost } else { costs[machine] };
                self.probe(machine, remote, cost, bias_of(machine, cost), &mut best);
                probed[probes] = machine;
                probes += 1;
                if probes == PROBES_BEFORE_ROW {
                    prefetch(costs);
                }
            }
        }
        self.commit(task, best)
    }

    /// Looks for the earliest insertion slot on one machine and keeps it if it is the better candidate.
    #[inline]
    fn probe(&mut self, machine: usize, ready: f64, cost: f64, bias: f64, best: &mut Candidate) {
        self.probe_count.probes += 1;
        // A limit on the finish prunes the scan. With a bias it would have to be `score - bias`, which rounds.
        let limit = if bias == 0.0 { best.score } else { f64::INFINITY };
        if let Some((start, at)) = self.timelines[machine].earliest_fit(ready, cost, limit) {
            best.keep_better(Candidate { score: start + cost + bias, machine, start, cost, at });
        }
    }

    /// Best-first search: probes machines by rising lower bound of their score until none can beat the best candidate,
    /// which starts as the best of the machines in `probed`.
    fn place_by_bounds<const BIASED: bool>(
        &mut self,
        task: usize,
        bias: &[f64],
        mut best: Candidate,
        probed: &[usize],
    ) -> Slot {
        let costs = self.instance.costs(task);
        let bias_of = |machine: usize| if BIASED { bias[machine] } else { 0.0 };
        let ready = self.ready_times(task);
        match ready {
            ReadyTimes::Uniform(Arrival { remote, home, at_home }) => {
                match self.busy.as_ref().and_then(|busy| busy.row(remote)) {
                    Some(times) => {
                        self.bounds.fill(StartBound::After(remote), MachineRows { costs, times, bias })
                    }
                    None => {
                        self.bounds.fill(StartBound::At(remote), MachineRows { costs, times: costs, bias })
                    }
                }
                // The busy table says nothing about times before `remote`, so `home` gets its own bound.
                if home != usize::MAX {
                    self.bounds.set(home, at_home + costs[home] + bias_of(home));
                }
            }
            ReadyTimes::PerMachine => {
                self.bounds.fill(StartBound::PerMachine, MachineRows { costs, times: &self.ready, bias })
            }
        }
        self.bounds.exclude(probed);
        loop {
            let (machine, bound) = self.bounds.least();
            // Equal bounds are still probed: ties go to the lower machine.
            if bound > best.score || bound == f64::INFINITY {
                break;
            }
            self.bounds.set(machine, f64::INFINITY);
            let ready = match ready {
                ReadyTimes::Uniform(Arrival { home, at_home, .. }) if machine == home => at_home,
                ReadyTimes::Uniform(Arrival { remote, .. }) => remote,
                ReadyTimes::PerMachine => self.ready[machine],
            };
            self.probe(machine, ready, costs[machine], bias_of(machine), &mut best);
        }
        self.commit(task, best)
    }

    /// Inserts the chosen candidate into its timeline and keeps the busy table up to date.
    #[inline]
    fn commit(&mut self, task: usize, chosen: Candidate) -> Slot {
        let finish = chosen.start + chosen.cost;
        let slot = Slot { machine: chosen.machine as u32, start: chosen.start, finish };
        let timeline = &mut self.timelines[chosen.machine];
        timeline.insert(chosen.at, slot.start, slot.finish);
        if let Some(busy) = &mut self.busy {
            // A task of zero length occupies no time.
            if chosen.cost > 0.0 {
                let (from, to) = timeline.busy_interval(chosen.at, busy.lookback());
                busy.mark_busy(chosen.machine, from, to);
            }
        } else if self.probe_count.is_dense() && self.instance.has_uniform_links() {
            self.build_busy_table();
        }
        self.slots[task] = slot;
        slot
    }

    /// Builds the busy table from all timelines.
    #[cold]
    fn build_busy_table(&mut self) {
        let mut busy = BusyTable::new(self.instance);
        for (machine, timeline) in self.timelines.iter().enumerate() {
            for at in 0..timeline.len() {
                let (from, to) = timeline.busy_interval(at, busy.lookback());
                busy.mark_busy(machine, from, to);
            }
        }
        self.busy = Some(busy);
    }
}

/// Ready time of a task over uniform links, from the finish and machine of its predecessors. Only the machine of the
/// predecessor whose data arrives last can be ready earlier than the others: everywhere else that arrival counts.
#[inline(always)]
fn arrival(instance: &Instance, task: usize, placed: impl Fn(usize) -> (f64, usize)) -> Arrival {
    let mut remote = instance.release(task);
    let mut home = usize::MAX;
    for &(before, data) in instance.predecessors(task) {
        let (finish, machine) = placed(before as usize);
        if finish + data > remote {
            (remote, home) = (finish + data, machine);
        }
    }
    let mut at_home = if home == usize::MAX { remote } else { instance.release(task) };
    if home != usize::MAX {
        for &(before, data) in instance.predecessors(task) {
            let (finish, machine) = placed(before as usize);
            let arrival = if machine == home { finish } else { finish + data };
            if arrival > at_home {
                at_home = arrival;
            }
        }
    }
    Arrival { remote, home, at_home }
}

multiversioned! {
    /// Raises each machine's ready time to the arrival of data sent at `sent`.
    fn raise_ready(ready: &mut [f64], latency: &[f64], bandwidth: &[f64], sent: f64, data: f64) = raise_ready_scalar
}

#[inline(always)]
fn raise_ready_scalar(ready: &mut [f64], latency: &[f64], bandwidth: &[f64], sent: f64, data: f64) {
    for (ready, (latency, bandwidth)) in ready.iter_mut().zip(latency.iter().zip(bandwidth)) {
        let arrival = sent + (latency + data / bandwidth);
        *ready = if arrival > *ready { arrival } else { *ready };
    }
}

/// Prefetches a slice into the cache. Large plans would spend a third of their time on cache misses without it.
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
