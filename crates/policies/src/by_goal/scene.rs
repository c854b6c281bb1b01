//! What a round is decided over: the types of GPU, the tasks that get shares of time on them, and how each stands. Built
//! from the view whenever it is needed; nothing is kept.

use super::kinds_of;
use super::speeds::Speeds;
use std::collections::BTreeMap;
use warpyard_allocate::rounds::{Candidate, Placement as OnType};
use warpyard_allocate::{Options, Types};
use warpyard_core::cluster::{Job, Phase, View};
use warpyard_core::event::StopWhy;
use warpyard_core::place::acceptable;
use warpyard_core::pool::{DeviceState, Ledger, Placement};
use warpyard_core::shares::Together;
use warpyard_core::spec::{Needs, TaskSpec};
use warpyard_core::{AttemptId, DeviceId, Span, TaskId, Time};

/// How many waiting tasks of one array a plan looks at: the others are like them and come later.
const OF_AN_ARRAY: usize = 2_000;

/// How a task that gets shares stands.
pub(super) enum Standing<'a> {
    /// Waits for room only.
    Waits,
    /// Runs, and may be made to give way.
    Movable(AttemptId, &'a Placement),
    /// Has a place it stays on.
    Fixed,
    /// Was asked to save and exit, and will wait again.
    Leaves(&'a Placement),
}

/// A task that gets shares of time.
pub(super) struct Member<'a> {
    pub(super) task: TaskId,
    pub(super) job: &'a Job,
    pub(super) spec: &'a TaskSpec,
    pub(super) standing: Standing<'a>,
    pub(super) candidate: Candidate,
    /// Whether it may be put beside another, and so is given devices in that way.
    pub(super) shares: bool,
    /// Types it is known not to run on, rather than that too few of them are on one worker.
    pub(super) barred: Vec<usize>,
}

/// Two members that have a share of time together.
pub(super) struct Pair {
    /// By place.
    pub(super) members: [usize; 2],
    pub(super) candidate: Candidate,
}

/// How fast a task is on each type that could hold it, and the types it is known not to run on.
#[derive(Clone)]
struct Pace {
    speeds: Vec<f64>,
    shares: bool,
    barred: Vec<usize>,
}

/// Everything a round is decided over.
pub(super) struct Scene<'a> {
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
}

impl<'a> Scene<'a> {
    pub(super) fn of(
        view: View<'a>,
        now: Time,
        boundary: bool,
        options: Options,
        speeds: &mut Speeds,
    ) -> Scene<'a> {
        let kinds: Vec<String> = kinds_of(view).into_iter().collect();
        speeds.refresh(view.shares(), &kinds);
        let counts = vec![0; kinds.len()];
        let (members, pairs, plain, later, ending) = Default::default();
        let mut scene = Scene { view, now, boundary, kinds, counts, members, pairs, plain, later, ending };
        scene.count();
        let mut fits = Fits { view, kinds: scene.kinds.clone(), known: BTreeMap::new() };
        let mut pace = |spec: &TaskSpec| {
            let mut row = speeds.of(spec);
            let barred = (0..row.len()).filter(|&j| row[j] <= 0.0).collect();
            for (speed, fits) in row.iter_mut().zip(fits.of(&spec.needs)) {
                *speed = if fits { *speed } else { 0.0 };
            }
            if options.types == Types::Blind {
                blind(&mut row);
            }
            let shares = options.sharing && speeds.shares(spec);
            row.iter().any(|speed| *speed > 0.0).then_some(Pace { speeds: row, shares, barred })
        };
        scene.add_ready(&mut pace);
        scene.add_placed(&mut pace);
        scene.members.sort_by_key(|member| member.task);
        if options.sharing {
            scene.add_pairs(speeds);
        }
        scene
    }

    /// Where a task is among the members.
    pub(super) fn member(&self, task: TaskId) -> Option<usize> {
        self.members.binary_search_by_key(&task, |member| member.task).ok()
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

    fn add_ready(&mut self, pace: &mut impl FnMut(&TaskSpec) -> Option<Pace>) {
        // Of those whose user has limits, as many take part as might start.
        let mut allowance = self.view.allowance(self.now);
        let waits = self.view.allowance(self.now);
        for node in self.view.ready_nodes() {
            let Some(job) = self.view.job(node.job) else { continue };
            let Some((state, spec)) = job.node(node.node) else { continue };
            let pace = if whole(&spec.needs) { pace(spec) } else { None };
            let mut room = OF_AN_ARRAY;
            for ready in self.view.ready(node) {
                room = room.min(ready.room as usize);
                let first = std::iter::once(ready.task.index);
                let rest = state.fresh.ranges().flatten().filter(|i| *i != ready.task.index);
                let more = ready.count as usize - 1;
                for index in first.chain(rest.take(more)) {
                    let task = node.task(index);
                    if waits.lets(job, spec).is_err() {
                        break;
                    }
                    if room == 0 || allowance.lets(job, spec).is_err() {
                        self.later.push(task);
                    } else if let Some(pace) = &pace {
                        room -= 1;
                        allowance.give(job, spec);
                        self.add(task, job, spec, Standing::Waits, pace.clone());
                    } else {
                        room -= 1;
                        allowance.give(job, spec);
                        self.plain.push(task);
                    }
                }
            }
        }
    }

    fn add_placed(&mut self, pace: &mut impl FnMut(&TaskSpec) -> Option<Pace>) {
        let ledger = Ledger::over(self.view.pool());
        for task in self.view.on_workers() {
            let Some(job) = self.view.job(task.job) else { continue };
            let Some((node, spec)) = job.node(task.node) else { continue };
            let Some(live) = node.live.get(&task.index) else { continue };
            let standing = match &live.phase {
                Phase::Stopping { attempt, why: StopWhy::Requeued, .. } => {
                    Standing::Leaves(&attempt.placement)
                }
                Phase::Stopping { attempt, paused, .. } => {
                    self.ending.push((&attempt.placement, *paused));
                    continue;
                }
                Phase::Running(a) if self.boundary && may_move(spec, a.pause.is_some()) => {
                    // One whose device was taken out of use meanwhile would only lose it.
                    let mut without = ledger.clone();
                    without.release(&a.placement);
                    match without.admits(&a.placement) {
                        true => Standing::Movable(task.attempt(live.attempts), &a.placement),
                        false => Standing::Fixed,
                    }
                }
                _ => Standing::Fixed,
            };
            let pace = if whole(&spec.needs) { pace(spec) } else { None };
            match (pace, standing) {
                (Some(pace), standing) => self.add(task, job, spec, standing, pace),
                (None, Standing::Leaves(placement)) => self.ending.push((placement, live.is_paused())),
                (None, _) => {}
            }
        }
    }

    fn add(
        &mut self,
        task: TaskId,
        job: &'a Job,
        spec: &'a TaskSpec,
        standing: Standing<'a>,
        Pace { speeds, shares: beside, barred }: Pace,
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
        let owed =
            types.clone().map(|j| at(j, &|p| promised.as_ref().map_or(0.0, |(owed, _)| owed[p].secs())));
        let received = types.map(|j| {
            let kind = &self.kinds[j];
            let shared = self.view.shared(task, kind, self.now).time;
            (self.view.had(task, kind, self.now) - shared).secs()
                - at(j, &|p| promised.as_ref().map_or(0.0, |(_, before)| before[p].secs()))
        });
        let given = || {
            let given = self.view.kind_given(task)?;
            self.kinds.iter().position(|kind| kind.eq_ignore_ascii_case(given))
        };
        let running = match standing {
            // Of two that share, the first would stay.
            Standing::Movable(..) if self.view.beside(task).is_none_or(|other| task < other) => {
                given().map(|gpu_type| OnType { gpu_type, servers: Vec::new() })
            }
            _ => None,
        };
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
        self.members.push(Member { task, job, spec, standing, candidate, shares: beside, barred });
    }

    fn add_pairs(&mut self, speeds: &Speeds) {
        let kinds = self.view.shares().target().map(|target| &target.kinds[..]).unwrap_or_default();
        let places: Vec<Option<usize>> =
            self.kinds.iter().map(|kind| kinds.iter().position(|k| k == kind)).collect();
        let mut pairs = Vec::new();
        for Together { tasks: [a, b], shares, owed, had } in self.view.shares().pairs(self.now) {
            let (Some(i), Some(k)) = (self.member(a), self.member(b)) else { continue };
            let (one, two) = (&self.members[i], &self.members[k]);
            let beside = self.view.beside(a) == Some(b);
            if !beside && shares.iter().all(|share| *share <= 1e-9) {
                continue;
            }
            let running = |member: &Member<'_>| matches!(member.standing, Standing::Movable(..));
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

/// Whether a task takes whole devices, so that their time can be shared out.
fn whole(needs: &Needs) -> bool {
    needs.gpus > 0 && needs.gpu_memory.is_none()
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

/// Which types could hold tasks with given needs, were they idle: some open worker has that many acceptable devices.
struct Fits<'a> {
    view: View<'a>,
    kinds: Vec<String>,
    known: BTreeMap<Needs, Vec<bool>>,
}

impl Fits<'_> {
    fn of(&mut self, needs: &Needs) -> Vec<bool> {
        if let Some(known) = self.known.get(needs) {
            return known.clone();
        }
        let mut fits = vec![false; self.kinds.len()];
        for (id, worker) in self.view.pool().workers().filter(|(_, w)| w.is_open()) {
            if worker.cpus() < needs.cpus || worker.memory() < needs.memory {
                continue;
            }
            let mut of_kind = vec![0; self.kinds.len()];
            for (index, info, _) in worker.devices() {
                let usable = info.state == DeviceState::Usable;
                if usable && acceptable(needs, DeviceId { worker: id, index }, info) {
                    let kind = info.kind.to_ascii_lowercase();
                    of_kind[self.kinds.iter().position(|k| *k == kind).expect("counted above")] += 1;
                }
            }
            for (fits, n) in fits.iter_mut().zip(of_kind) {
                *fits |= n >= needs.gpus;
            }
        }
        self.known.insert(needs.clone(), fits.clone());
        fits
    }
}
