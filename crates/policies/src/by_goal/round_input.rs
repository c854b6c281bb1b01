//! Round input: GPU types, the tasks with shares of time on them, and the state of each. Built from the view whenever
//! it is needed; nothing is stored.

use super::kinds_of;
use super::speeds::Speeds;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_allocate::rounds::{Candidate, Placement as OnType};
use warpyard_allocate::{Options, TypeAwareness};
use warpyard_core::cluster::{Attempt, Job, Phase, StartedTask, View};
use warpyard_core::event::{RequestedBy, StopReason};
use warpyard_core::place::acceptable;
use warpyard_core::pool::{Charge, DeviceInfo, DeviceState, Ledger, Placement, charge_for};
use warpyard_core::shares::PairBalance;
use warpyard_core::spec::{Needs, Preempt, TaskSpec};
use warpyard_core::{AttemptId, DeviceId, Span, TaskId, Time};

/// Waiting tasks of one array considered in a plan: the others are alike and come later.
const OF_AN_ARRAY: usize = 2_000;

/// State of a task that has a share.
pub(super) enum MemberState<'a> {
    /// Waits for capacity only.
    Waiting,
    /// Runs, and may be preempted by ending it.
    Movable(AttemptId, &'a Placement),
    /// Keeps its memory on its devices, running or frozen there.
    TimeSliced(AttemptId, &'a Placement, FreezeState),
    /// Stays where it is.
    Fixed,
    /// Was asked to save and exit, and will wait again; the flag says whether it is frozen meanwhile.
    Leaving(&'a Placement, bool),
}

/// Freeze state of a time-sliced task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FreezeState {
    /// Runs, and may be frozen.
    Running,
    /// Was asked to freeze, and runs until it does.
    FreezeRequested,
    /// Frozen.
    Frozen,
}

/// Task that has a share of time.
pub(super) struct Member<'a> {
    pub(super) task: TaskId,
    pub(super) job: &'a Job,
    pub(super) spec: &'a TaskSpec,
    pub(super) state: MemberState<'a>,
    pub(super) candidate: Candidate,
    /// Whether it may be put beside another, and so is given devices in that way.
    pub(super) shares: bool,
    /// Whether it states its memory, and takes turns with others beside which that fits.
    pub(super) takes_turns: bool,
    /// Types it is known not to run on, rather than that too few of them are on one worker.
    pub(super) barred: Vec<usize>,
    /// Whoever needs the same has the same number.
    pub(super) like: usize,
}

impl Member<'_> {
    /// Whether it takes turns with others in a place, or has its devices whole there.
    pub(super) fn in_turn_on(&self, placement: &Placement) -> bool {
        self.takes_turns && only_shares(placement)
    }
}

/// Two members that have a share of time together.
pub(super) struct Pair {
    /// By place.
    pub(super) members: [usize; 2],
    pub(super) candidate: Candidate,
}

/// Speed of a task on each type that could hold it, and the types it is known not to run on.
#[derive(Clone)]
struct TypeSpeeds {
    speeds: Vec<f64>,
    shares: bool,
    barred: Vec<usize>,
}

/// Input of a round: everything its decision depends on.
pub(super) struct RoundInput<'a> {
    pub(super) view: View<'a>,
    pub(super) now: Time,
    /// Whether a round begins.
    pub(super) boundary: bool,
    /// Types in small letters, in order.
    pub(super) kinds: Vec<String>,
    /// How many devices of each may be used.
    pub(super) counts: Vec<u32>,
    /// By task.
    pub(super) members: Vec<Member<'a>>,
    /// Those of them that have, or had, a share of time together.
    pub(super) pairs: Vec<Pair>,
    /// Ready tasks without a share, first come first served.
    pub(super) plain: Vec<TaskId>,
    /// Ready tasks of arrays of which as many as may are looked at already.
    pub(super) later: Vec<TaskId>,
    /// Places of attempts that are being ended for good, and whether they stand still meanwhile.
    pub(super) ending: Vec<(&'a Placement, bool)>,
    /// Places of members that take turns and have the time of their devices until the round ends.
    pub(super) in_turn: Vec<&'a Placement>,
    /// Devices on which one that takes turns runs, if only until it stands still or has ended.
    pub(super) running: BTreeSet<DeviceId>,
    /// Attempts that stand still by the wish of some policy and have no turn to wait for, and whether they do already.
    pub(super) adrift: Vec<(AttemptId, &'a Placement, bool)>,
    /// A number for each of what members need.
    likes: BTreeMap<&'a Needs, usize>,
    /// Where members could be on each type, by what they need.
    homes: BTreeMap<Needs, Vec<Vec<DeviceId>>>,
}

impl<'a> RoundInput<'a> {
    pub(super) fn of(
        view: View<'a>,
        now: Time,
        boundary: bool,
        options: Options,
        speeds: &mut Speeds,
    ) -> RoundInput<'a> {
        let kinds: Vec<String> = kinds_of(view).into_iter().collect();
        speeds.refresh(view.shares(), &kinds);
        let counts = vec![0; kinds.len()];
        let mut input = RoundInput {
            view,
            now,
            boundary,
            kinds,
            counts,
            members: Vec::new(),
            pairs: Vec::new(),
            plain: Vec::new(),
            later: Vec::new(),
            ending: Vec::new(),
            in_turn: Vec::new(),
            running: BTreeSet::new(),
            adrift: Vec::new(),
            likes: BTreeMap::new(),
            homes: BTreeMap::new(),
        };
        input.count();
        let mut homes = FeasibleDevices { view, kinds: input.kinds.clone(), known: BTreeMap::new() };
        let mut pace = |spec: &TaskSpec| {
            let mut row = speeds.of(spec);
            let barred = (0..row.len()).filter(|&j| row[j] <= 0.0).collect();
            for (speed, homes) in row.iter_mut().zip(homes.of(&spec.needs)) {
                *speed = if homes.is_empty() { 0.0 } else { *speed };
            }
            if options.types == TypeAwareness::Blind {
                blind(&mut row);
            }
            let shares = options.sharing && whole(&spec.needs) && speeds.shares(spec);
            row.iter().any(|speed| *speed > 0.0).then_some(TypeSpeeds { speeds: row, shares, barred })
        };
        input.add_ready(&mut pace);
        input.add_placed(&mut pace);
        input.members.sort_by_key(|member| member.task);
        input.homes = homes.known;
        if options.sharing {
            input.add_pairs(speeds);
        }
        input
    }

    /// Devices of a type that any of these members could have whole, in order.
    pub(super) fn could_have_whole(
        &self,
        members: impl Iterator<Item = usize>,
        gpu_type: usize,
    ) -> Vec<DeviceId> {
        let mut asked = BTreeSet::new();
        let members = members.map(|i| &self.members[i]);
        let whole = members.filter(|member| !member.takes_turns && member.candidate.speeds[gpu_type] > 0.0);
        let needs = whole.filter(|member| asked.insert(member.like)).map(|member| &member.spec.needs);
        let homes = needs.flat_map(|needs| self.homes.get(needs)).flat_map(|homes| &homes[gpu_type]);
        let mut devices: Vec<DeviceId> = homes.copied().collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Where a task is among the members.
    pub(super) fn member(&self, task: TaskId) -> Option<usize> {
        self.members.binary_search_by_key(&task, |member| member.task).ok()
    }

    /// Every device there is.
    pub(super) fn devices(&self) -> impl Iterator<Item = (DeviceId, &'a DeviceInfo)> + use<'a> {
        let workers = self.view.pool().workers();
        workers.flat_map(|(worker, w)| {
            w.devices().map(move |(index, info, _)| (DeviceId { worker, index }, info))
        })
    }

    fn count(&mut self) {
        for (_, worker) in self.view.pool().workers().filter(|(_, w)| w.is_open()) {
            for (_, info, _) in worker.devices().filter(|(_, info, _)| info.state == DeviceState::Usable) {
                let kind = info.kind.to_ascii_lowercase();
                let at = self.kinds.iter().position(|k| *k == kind).expect("a usable device has a kind");
                self.counts[at] += 1;
            }
        }
    }

    fn add_ready(&mut self, pace: &mut impl FnMut(&TaskSpec) -> Option<TypeSpeeds>) {
        // Of those whose user has limits, as many take part as might start.
        let mut allowance = self.view.allowance(self.now);
        let waits = self.view.allowance(self.now);
        for node in self.view.ready_nodes() {
            let Some(job) = self.view.job(node.job) else { continue };
            let Some((state, spec)) = job.node(node.node) else { continue };
            let pace = if has_share(spec) { pace(spec) } else { None };
            let mut room = OF_AN_ARRAY;
            for ready in self.view.ready(node) {
                room = room.min(ready.room as usize);
                let first = std::iter::once(ready.task.index);
                let rest = state.fresh.ranges().flatten().filter(|i| *i != ready.task.index);
                let more = ready.count as usize - 1;
                for index in first.chain(rest.take(more)) {
                    let task = node.task(index);
                    if waits.permits(job, spec).is_err() {
                        break;
                    }
                    if room == 0 || allowance.permits(job, spec).is_err() {
                        self.later.push(task);
                    } else if let Some(pace) = &pace {
                        room -= 1;
                        allowance.give(job, spec);
                        self.add(task, job, spec, MemberState::Waiting, pace.clone());
                    } else {
                        room -= 1;
                        allowance.give(job, spec);
                        self.plain.push(task);
                    }
                }
            }
        }
    }

    fn add_placed(&mut self, pace: &mut impl FnMut(&TaskSpec) -> Option<TypeSpeeds>) {
        for task in self.view.on_workers() {
            let Some(job) = self.view.job(task.job) else { continue };
            let Some((node, spec)) = job.node(task.node) else { continue };
            let Some(live) = node.live.get(&task.index) else { continue };
            let pace = if has_share(spec) { pace(spec) } else { None };
            let leaves = matches!(&live.phase, Phase::Stopping { why: StopReason::Requeued, .. });
            let stays = takes_turns(spec) && !leaves;
            let pace = pace.and_then(|pace| if stays { self.narrowed(task, pace) } else { Some(pace) });
            if pace.is_some() {
                self.note_running(spec, live);
            }
            match (&live.phase, pace) {
                (Phase::Stopping { attempt, paused, .. }, Some(pace)) if leaves => {
                    self.add(task, job, spec, MemberState::Leaving(&attempt.placement, *paused), pace);
                }
                (Phase::Stopping { attempt, paused, .. }, _) => {
                    self.ending.push((&attempt.placement, *paused));
                }
                (phase, Some(pace)) => {
                    let state = self.member_state(task.attempt(live.attempts), spec, phase);
                    if let MemberState::Fixed = state {
                        self.note_unmoved(task, spec, live);
                    }
                    self.add(task, job, spec, state, pace);
                }
                (_, None) => self.note_adrift(task, live),
            }
        }
    }

    /// State of an attempt that is not being ended.
    fn member_state(&self, attempt: AttemptId, spec: &TaskSpec, phase: &'a Phase) -> MemberState<'a> {
        if takes_turns(spec) {
            return match freeze_state(phase, self.boundary) {
                Some((freeze, a)) if only_shares(&a.placement) => {
                    MemberState::TimeSliced(attempt, &a.placement, freeze)
                }
                _ => MemberState::Fixed,
            };
        }
        match phase {
            Phase::Running(a) if self.boundary && may_move(spec, a.pause.is_some()) => {
                // One whose device was taken out of use meanwhile would only lose it.
                let mut without = Ledger::over(self.view.pool());
                without.release(&a.placement);
                match without.admits(&a.placement) {
                    true => MemberState::Movable(attempt, &a.placement),
                    false => MemberState::Fixed,
                }
            }
            _ => MemberState::Fixed,
        }
    }

    /// One that has begun and can only be frozen goes on on the devices it has, or not at all: it competes for their type
    /// alone.
    fn narrowed(&self, task: TaskId, pace: TypeSpeeds) -> Option<TypeSpeeds> {
        let on = self.type_given(task)?;
        let mut speeds = vec![0.0; pace.speeds.len()];
        speeds[on] = pace.speeds[on];
        (speeds[on] > 0.0).then_some(TypeSpeeds { speeds, ..pace })
    }

    /// Whether a member would take turns with others in a place: not where it has devices whole, nor where it would begin on
    /// such a mixture of types that it has no share.
    pub(super) fn would_take_turns(&self, member: &Member<'_>, placement: &Placement) -> bool {
        let first = || {
            let (index, _) = placement.devices.first()?;
            let (_, info, _) =
                self.view.pool().worker(placement.worker)?.devices().nth(usize::from(*index))?;
            self.kinds.iter().position(|kind| kind.eq_ignore_ascii_case(&info.kind))
        };
        member.in_turn_on(placement) && first().is_some_and(|j| member.candidate.speeds[j] > 0.0)
    }

    /// The type of the devices a task has.
    pub(super) fn type_given(&self, task: TaskId) -> Option<usize> {
        let given = self.view.kind_given(task)?;
        self.kinds.iter().position(|kind| kind.eq_ignore_ascii_case(given))
    }

    /// Notes where one that takes turns runs.
    fn note_running(&mut self, spec: &TaskSpec, live: &StartedTask) {
        let attempt = live.attempt().filter(|_| takes_turns(spec) && !live.is_paused());
        if let Some(a) = attempt.filter(|a| only_shares(&a.placement)) {
            self.running.extend(a.placement.device_ids());
        }
    }

    /// Notes of one that no round moves that it has the time of its devices, or that it stands still and should not.
    fn note_unmoved(&mut self, task: TaskId, spec: &TaskSpec, live: &'a StartedTask) {
        let runs = live.attempt().filter(|a| a.pause.is_none() && takes_turns(spec));
        self.in_turn.extend(runs.map(|a| &a.placement).filter(|placement| only_shares(placement)));
        self.note_adrift(task, live);
    }

    /// Notes of one that has no turn to wait for that it stands still, if it does.
    fn note_adrift(&mut self, task: TaskId, live: &'a StartedTask) {
        if let Some(a) = live.attempt().filter(|a| a.pause == Some(RequestedBy::Policy)) {
            self.adrift.push((task.attempt(live.attempts), &a.placement, live.is_paused()));
        }
    }

    fn add(
        &mut self,
        task: TaskId,
        job: &'a Job,
        spec: &'a TaskSpec,
        state: MemberState<'a>,
        TypeSpeeds { speeds, shares: beside, barred }: TypeSpeeds,
    ) {
        let shares = self.view.shares();
        let kinds = shares.target().map(|target| &target.kinds[..]).unwrap_or_default();
        let place = |kind: &String| kinds.iter().position(|k| k == kind);
        let places: Vec<Option<usize>> = self.kinds.iter().map(place).collect();
        let row = shares.row(task);
        let promised = shares.promised(task, self.now);
        let at = |j: usize, of: &dyn Fn(usize) -> f64| places[j].map_or(0.0, of);
        let types = 0..self.kinds.len();
        let target = types.clone().map(|j| at(j, &|p| row.map_or(0.0, |row| row.shares[p])));
        let begun = matches!(state, MemberState::TimeSliced(..));
        let owed = types.clone().map(|j| match begun && speeds[j] <= 0.0 {
            // What it was promised elsewhere it can no longer be given.
            true => 0.0,
            false => at(j, &|p| promised.as_ref().map_or(0.0, |(owed, _)| owed[p].secs())),
        });
        let received = types.map(|j| {
            let kind = &self.kinds[j];
            let shared = self.view.shared(task, kind, self.now).time;
            (self.view.had(task, kind, self.now) - shared).secs()
                - at(j, &|p| promised.as_ref().map_or(0.0, |(_, before)| before[p].secs()))
        });
        let running = match state {
            // Of two that share, the first would stay.
            MemberState::Movable(..) => self.view.beside(task).is_none_or(|other| task < other),
            // Going on costs no restart.
            MemberState::TimeSliced(..) => true,
            _ => false,
        };
        let running = running.then(|| self.type_given(task)).flatten();
        let running = running.map(|gpu_type| OnType { gpu_type, servers: Vec::new() });
        let candidate = Candidate {
            gpus: u32::from(spec.needs.gpus),
            spread_speeds: None,
            shares: target.collect(),
            owed_s: owed.collect(),
            received_s: received.map(|s| s.max(0.0)).collect(),
            running,
            movable: true,
            speeds,
        };
        let (shares, takes_turns) = (beside, takes_turns(spec));
        let next = self.likes.len();
        let like = *self.likes.entry(&spec.needs).or_insert(next);
        self.members.push(Member { task, job, spec, state, candidate, shares, takes_turns, barred, like });
    }

    fn add_pairs(&mut self, speeds: &Speeds) {
        let kinds = self.view.shares().target().map(|target| &target.kinds[..]).unwrap_or_default();
        let places: Vec<Option<usize>> =
            self.kinds.iter().map(|kind| kinds.iter().position(|k| k == kind)).collect();
        let mut pairs = Vec::new();
        for PairBalance { tasks: [a, b], shares, owed, had } in self.view.shares().pairs(self.now) {
            let (Some(i), Some(k)) = (self.member(a), self.member(b)) else { continue };
            let (one, two) = (&self.members[i], &self.members[k]);
            let beside = self.view.beside(a) == Some(b);
            let may = one.shares && two.shares && shares.iter().any(|share| *share > 1e-9);
            if !beside && !may {
                continue;
            }
            let running = |member: &Member<'_>| matches!(member.state, MemberState::Movable(..));
            let stays = one.candidate.running.clone().filter(|_| beside && running(one) && running(two));
            let now = self.view.shares_with(a).filter(|(other, _)| *other == b);
            let now = now.and_then(|(_, since)| {
                let kind = self.view.kind_given(a)?.to_ascii_lowercase();
                Some((self.kinds.iter().position(|k| *k == kind)?, self.now.since(since).secs()))
            });
            let kept = speeds.kept(one.spec, two.spec);
            let able = |j: usize| one.candidate.speeds[j] > 0.0 && two.candidate.speeds[j] > 0.0;
            let types = 0..self.kinds.len();
            let of = |spans: &[Span], j: usize| places[j].map_or(0.0, |p| spans[p].secs());
            pairs.push(Pair {
                members: [i, k],
                candidate: Candidate {
                    gpus: one.candidate.gpus,
                    spread_speeds: None,
                    speeds: types
                        .clone()
                        .map(|j| kept[j].filter(|_| able(j)).map_or(0.0, |[a, b]| a + b))
                        .collect(),
                    shares: types.clone().map(|j| places[j].map_or(0.0, |p| shares[p])).collect(),
                    owed_s: types.clone().map(|j| of(&owed, j)).collect(),
                    received_s: types
                        .map(|j| of(&had, j) + now.map_or(0.0, |(on, time)| if on == j { time } else { 0.0 }))
                        .collect(),
                    running: stays,
                    movable: true,
                },
            });
        }
        self.pairs = pairs;
    }
}

/// Whether a task has a share of time: it takes whole devices, or can be made to stand still on a part of their memory.
fn has_share(spec: &TaskSpec) -> bool {
    whole(&spec.needs) || takes_turns(spec)
}

fn whole(needs: &Needs) -> bool {
    needs.gpus > 0 && needs.gpu_memory.is_none()
}

/// Whether a task can be frozen and leaves others room then, because it says how much memory it keeps.
fn takes_turns(spec: &TaskSpec) -> bool {
    spec.needs.gpus > 0 && spec.needs.gpu_memory.is_some() && spec.preempt == Preempt::Freeze
}

/// Whether none of its devices was given to it whole, as happens where a task needs more than may be shared of one.
fn only_shares(placement: &Placement) -> bool {
    placement.devices.iter().all(|(_, charge)| matches!(charge, Charge::Share(_)))
}

/// Freeze state of a time-sliced task; `None` where nothing can be done about it now.
fn freeze_state(phase: &Phase, boundary: bool) -> Option<(FreezeState, &Attempt)> {
    match phase {
        Phase::Running(a) if a.pause == Some(RequestedBy::Policy) => Some((FreezeState::FreezeRequested, a)),
        Phase::Running(a) if a.pause.is_none() && boundary => Some((FreezeState::Running, a)),
        Phase::Paused(a) if a.pause == Some(RequestedBy::Policy) => Some((FreezeState::Frozen, a)),
        _ => None,
    }
}

fn may_move(spec: &TaskSpec, paused: bool) -> bool {
    spec.preempt.ends() && !paused
}

/// The same mean speed wherever it runs at all.
pub(super) fn blind(row: &mut [f64]) {
    let able: Vec<f64> = row.iter().copied().filter(|speed| *speed > 0.0).collect();
    let mean = able.iter().sum::<f64>() / able.len().max(1) as f64;
    row.iter_mut().filter(|speed| **speed > 0.0).for_each(|speed| *speed = mean);
}

/// Devices on which given needs could be met on an idle cluster, by type: all acceptable devices of open workers that
/// have enough of them.
struct FeasibleDevices<'a> {
    view: View<'a>,
    kinds: Vec<String>,
    known: BTreeMap<Needs, Vec<Vec<DeviceId>>>,
}

impl FeasibleDevices<'_> {
    fn of(&mut self, needs: &Needs) -> &[Vec<DeviceId>] {
        if !self.known.contains_key(needs) {
            let homes = self.find(needs);
            self.known.insert(needs.clone(), homes);
        }
        &self.known[needs]
    }

    fn find(&self, needs: &Needs) -> Vec<Vec<DeviceId>> {
        let mut homes = vec![Vec::new(); self.kinds.len()];
        for (worker, of) in self.view.pool().workers().filter(|(_, w)| w.is_open()) {
            if of.cpus() < needs.cpus || of.memory() < needs.memory {
                continue;
            }
            let mut here = vec![Vec::new(); self.kinds.len()];
            for (index, info, _) in of.devices() {
                let (id, usable) = (DeviceId { worker, index }, info.state == DeviceState::Usable);
                let large_enough = charge_for(info, needs).is_some();
                if usable && large_enough && acceptable(needs, id, info) {
                    let kind = info.kind.to_ascii_lowercase();
                    here[self.kinds.iter().position(|k| *k == kind).expect("counted above")].push(id);
                }
            }
            for (homes, here) in
                homes.iter_mut().zip(here).filter(|(_, here)| here.len() >= usize::from(needs.gpus))
            {
                homes.extend(here);
            }
        }
        homes
    }
}
