//! A plan in the making: the choice of the round, and what of it can be done now. Who waits for devices that are being
//! freed has them kept; what nobody was given goes to whoever else is there.

use super::scene::{Scene, Standing};
use super::sheet::{Sheet, as_given, whole};
use warpyard_allocate::rounds::{Candidate, Rounds};
use warpyard_core::place::Search;
use warpyard_core::plan::Start;
use warpyard_core::pool::{Ledger, Placement};
use warpyard_core::spec::Needs;
use warpyard_core::{DeviceId, Plan, Span, TaskId};

/// A plan in the making.
pub(super) struct Draft<'a> {
    pub(super) scene: Scene<'a>,
    /// Members that are not fixed, in the order they are considered.
    order: Vec<usize>,
    /// The place each member was given.
    pub(super) given: Vec<Option<Placement>>,
    /// Whom each was given it beside.
    beside: Vec<Option<usize>>,
    start: Vec<Start>,
}

impl<'a> Draft<'a> {
    pub(super) fn make(scene: Scene<'a>, rounds: &Rounds) -> Draft<'a> {
        let free: Vec<usize> = (0..scene.members.len())
            .filter(|&i| !matches!(scene.members[i].standing, Standing::Fixed))
            .collect();
        let mut candidates: Vec<Candidate> =
            free.iter().map(|&i| scene.members[i].candidate.clone()).collect();
        let order: Vec<usize> = rounds.order(&candidates).into_iter().map(|c| free[c]).collect();
        candidates.extend(scene.pairs.iter().map(|pair| pair.candidate.clone()));
        let place = |i: usize| free.binary_search(&i).ok();
        let places = |[a, b]: [usize; 2]| Some([place(a)?, place(b)?]);
        let pairs: Vec<Option<[usize; 2]>> = scene.pairs.iter().map(|pair| places(pair.members)).collect();
        let mut sheet = Sheet::new(&scene, &free, &order);
        rounds.choose_with_pairs(&candidates, &pairs, &mut sheet);
        let Sheet { ledger: promised, given, beside, .. } = sheet;
        let mut draft = Draft { order, given, beside, start: Vec::new(), scene };
        draft.start_now(promised);
        draft
    }

    /// Starts what was given a place that is free now, and then whoever fits into what nobody was given.
    fn start_now(&mut self, mut promised: Ledger<'a>) {
        let mut now = Ledger::over(self.scene.view.pool());
        let waiting =
            self.order.iter().filter(|&&i| matches!(self.scene.members[i].standing, Standing::Waits));
        let waiting: Vec<usize> = waiting.copied().collect();
        for &i in &waiting {
            let room = |placement: &Placement| {
                // Nobody but whom it is to be beside may be there, not even one that is about to leave.
                let joins = self.beside[i].is_some_and(|other| self.is_there(other, placement));
                if joins { now.admits(placement) } else { now.admits(&whole(placement)) }
            };
            if let Some(placement) = self.given[i].clone().filter(room) {
                now.charge(&placement);
                self.start.push(Start { task: self.scene.members[i].task, placement });
            }
        }
        let left_out =
            waiting.iter().filter(|&&i| self.given[i].is_none()).map(|&i| self.scene.members[i].task);
        for task in left_out.chain(self.scene.plain.iter().copied()).collect::<Vec<_>>() {
            let Some(needs) = self.needs(task) else { continue };
            let withheld = self.useless_to(task);
            let search = Search { later: &[&promised], withheld: &withheld, ..Search::over(&now) };
            if let Some(placement) = search.place(needs) {
                promised.charge(&placement);
                let placement = match self.scene.member(task) {
                    Some(i) => as_given(&self.scene.members[i], placement),
                    None => placement,
                };
                now.charge(&placement);
                self.start.push(Start { task, placement });
            }
        }
    }

    /// Whether a member is on the devices of a placement, or starts there.
    fn is_there(&self, i: usize, placement: &Placement) -> bool {
        let task = self.scene.members[i].task;
        let same = |other: &Placement| other.worker == placement.worker && other.devices == placement.devices;
        let runs = self.scene.view.attempt(task).is_some_and(|(attempt, _)| same(&attempt.placement));
        runs || self.start.iter().any(|start| start.task == task && same(&start.placement))
    }

    fn needs(&self, task: TaskId) -> Option<&'a Needs> {
        let (_, spec) = self.scene.view.job(task.job)?.node(task.node)?;
        Some(&spec.needs)
    }

    /// Devices of types a member is known not to run on.
    fn useless_to(&self, task: TaskId) -> Vec<DeviceId> {
        let Some(i) = self.scene.member(task) else { return Vec::new() };
        let barred = &self.scene.members[i].barred;
        if barred.is_empty() {
            return Vec::new();
        }
        let workers = self.scene.view.pool().workers();
        let devices = workers.flat_map(|(worker, w)| {
            w.devices()
                .map(move |(index, info, _)| (DeviceId { worker, index }, info.kind.to_ascii_lowercase()))
        });
        let useless = |kind: &String| {
            self.scene.kinds.iter().position(|k| k == kind).is_some_and(|j| barred.contains(&j))
        };
        devices.filter(|(_, kind)| useless(kind)).map(|(id, _)| id).collect()
    }

    /// Whether it starts a task.
    pub(super) fn starts(&self, task: TaskId) -> bool {
        self.start.iter().any(|start| start.task == task)
    }

    /// Every ready task, in the order they are considered: whoever the round gives a place, then those it leaves out.
    pub(super) fn line(&self) -> Vec<TaskId> {
        let waits = |i: &&usize| matches!(self.scene.members[**i].standing, Standing::Waits);
        let (given, left_out): (Vec<usize>, Vec<usize>) =
            self.order.iter().filter(waits).partition(|&&i| self.given[i].is_some());
        let members = given.into_iter().chain(left_out).map(|i| self.scene.members[i].task);
        members.chain(self.scene.plain.iter().copied()).chain(self.scene.later.iter().copied()).collect()
    }

    pub(super) fn plan(self, rounds: &Rounds) -> Plan {
        let gives_way = |(i, placement): (usize, &Option<Placement>)| match self.scene.members[i].standing {
            Standing::Movable(attempt, own) if placement.as_ref() != Some(own) => Some(attempt),
            _ => None,
        };
        let requeue = self.given.iter().enumerate().filter_map(gives_way).collect();
        let shares_time = !self.scene.members.is_empty();
        let begins =
            (shares_time && self.scene.boundary).then(|| self.scene.now + Span::from_secs(rounds.round_s));
        let until = begins.or(self.scene.view.shares().round_until());
        Plan {
            start: self.start.into(),
            requeue,
            round: begins,
            wake_at: until.filter(|_| shares_time),
            ..Plan::default()
        }
    }
}
