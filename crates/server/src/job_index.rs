//! Indexes over the jobs in memory, so that lists and counts cost what they show: jobs by state, user, project and name, and
//! the number of tasks in each state, overall and by user. Updated with the replica, job by job.

use crate::summary;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warpyard_api::wire::{State, StateCounts};
use warpyard_core::cluster::{Effects, Job};
use warpyard_core::spec::JobSpec;
use warpyard_core::{Cluster, Event, JobId};

/// Indexes over the jobs in memory.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct JobIndex {
    jobs: BTreeMap<JobId, IndexEntry>,
    all: BTreeSet<JobId>,
    by_state: BTreeMap<State, BTreeSet<JobId>>,
    by_user: BTreeMap<Arc<str>, UserIndex>,
    by_project: BTreeMap<String, BTreeSet<JobId>>,
    by_name: BTreeSet<NameKey>,
    /// Jobs that are not over.
    open: BTreeSet<JobId>,
    /// Jobs with nodes that wait for something other than free resources.
    blocked: BTreeSet<JobId>,
    /// Tasks of jobs that are not over, by state.
    tasks: StateCounts,
    blocked_nodes: usize,
}

/// Jobs and task counts of one user.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UserIndex {
    jobs: BTreeSet<JobId>,
    /// How many of them are not over.
    open: usize,
    /// Tasks on workers.
    pub(crate) running: u64,
    /// Tasks that are ready.
    pub(crate) ready: u64,
}

/// The indexed properties of a job.
#[derive(Clone, Debug)]
struct IndexEntry {
    spec: Arc<JobSpec>,
    user: Arc<str>,
    tasks: TaskCounts,
    blocked_nodes: u32,
    is_open: bool,
}

/// Tasks of a job by state. Nearly every job has one task, which takes no allocation.
#[derive(Clone, Debug, PartialEq)]
enum TaskCounts {
    One(State),
    Many(Box<StateCounts>),
}

impl TaskCounts {
    fn of(mut counts: StateCounts) -> TaskCounts {
        let one = State::ALL.into_iter().find(|state| *counts.of(*state) > 0);
        match one.filter(|_| counts.total() == 1) {
            Some(state) => TaskCounts::One(state),
            None => TaskCounts::Many(Box::new(counts)),
        }
    }

    fn counts(&self) -> StateCounts {
        match self {
            TaskCounts::One(state) => {
                let mut counts = StateCounts::default();
                *counts.of(*state) = 1;
                counts
            }
            TaskCounts::Many(counts) => **counts,
        }
    }

    /// The state of the job.
    fn state(&self) -> State {
        match self {
            TaskCounts::One(state) => *state,
            TaskCounts::Many(counts) => summary::overall(**counts),
        }
    }
}

/// A job's specification never changes.
impl PartialEq for IndexEntry {
    fn eq(&self, other: &IndexEntry) -> bool {
        (&self.user, &self.tasks, self.blocked_nodes, self.is_open)
            == (&other.user, &other.tasks, other.blocked_nodes, other.is_open)
    }
}

/// Key of a job by name. It shares the job's specification, so that the name is not stored again.
#[derive(Clone, Debug)]
struct NameKey {
    spec: Arc<JobSpec>,
    job: JobId,
}

impl NameKey {
    fn key(&self) -> (&str, JobId) {
        (&self.spec.name, self.job)
    }
}

impl PartialEq for NameKey {
    fn eq(&self, other: &NameKey) -> bool {
        self.key() == other.key()
    }
}

impl Eq for NameKey {}

impl PartialOrd for NameKey {
    fn partial_cmp(&self, other: &NameKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NameKey {
    fn cmp(&self, other: &NameKey) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl JobIndex {
    /// The index of all jobs of a cluster.
    pub(crate) fn of(cluster: &Cluster) -> JobIndex {
        let mut index = JobIndex::default();
        cluster.jobs().iter().for_each(|job| index.update(cluster, job.id));
        index
    }

    /// Brings a job up to date: one that is new, that changed, or that left the memory.
    pub(crate) fn update(&mut self, cluster: &Cluster, id: JobId) {
        let now = cluster.job(id).map(|job| self.entry(job));
        if self.jobs.get(&id) == now.as_ref() {
            return;
        }
        let before = self.jobs.remove(&id);
        if let Some(before) = &before {
            self.count(id, before, false);
        }
        match (&before, &now) {
            (None, Some(now)) => self.name(id, &now.spec, true),
            (Some(before), None) => self.name(id, &before.spec, false),
            _ => {}
        }
        if let Some(now) = now {
            self.count(id, &now, true);
            self.jobs.insert(id, now);
        }
    }

    /// Enters a job's name and project, or (`false`) takes them out.
    fn name(&mut self, job: JobId, spec: &Arc<JobSpec>, enters: bool) {
        let named = NameKey { spec: spec.clone(), job };
        match enters {
            true => (self.by_name.insert(named), self.all.insert(job)),
            false => (self.by_name.remove(&named), self.all.remove(&job)),
        };
        let Some(project) = &spec.project else { return };
        let jobs = self.by_project.entry(project.clone()).or_default();
        match enters {
            true => jobs.insert(job),
            false => jobs.remove(&job),
        };
        if jobs.is_empty() {
            self.by_project.remove(project);
        }
    }

    /// How many tasks of jobs that are not over there are in each state.
    pub(crate) fn tasks(&self) -> StateCounts {
        self.tasks
    }

    /// How many nodes wait for something other than free resources.
    pub(crate) fn blocked_nodes(&self) -> usize {
        self.blocked_nodes
    }

    /// The jobs of those nodes, oldest first.
    pub(crate) fn blocked(&self) -> &BTreeSet<JobId> {
        &self.blocked
    }

    /// All jobs.
    pub(crate) fn all(&self) -> &BTreeSet<JobId> {
        &self.all
    }

    /// The state of a job.
    pub(crate) fn state(&self, job: JobId) -> Option<State> {
        self.jobs.get(&job).map(|entry| entry.tasks.state())
    }

    /// Jobs that are not over.
    pub(crate) fn open(&self) -> &BTreeSet<JobId> {
        &self.open
    }

    /// Jobs in a state.
    pub(crate) fn in_state(&self, state: State) -> &BTreeSet<JobId> {
        self.by_state.get(&state).unwrap_or(&NONE)
    }

    /// Jobs of a user.
    pub(crate) fn of_user(&self, user: &str) -> &BTreeSet<JobId> {
        self.by_user.get(user).map_or(&NONE, |of_user| &of_user.jobs)
    }

    /// Jobs of a project.
    pub(crate) fn of_project(&self, project: &str) -> &BTreeSet<JobId> {
        self.by_project.get(project).unwrap_or(&NONE)
    }

    /// Jobs whose names begin with a text, if they are no more than so many.
    pub(crate) fn named(&self, prefix: &str, most: usize) -> Option<BTreeSet<JobId>> {
        let spec = JobSpec { name: prefix.to_owned(), ..JobSpec::default() };
        let first = NameKey { spec: Arc::new(spec), job: JobId(0) };
        let named = self.by_name.range(first..).take_while(|named| named.spec.name.starts_with(prefix));
        let jobs: BTreeSet<_> = named.map(|named| named.job).take(most + 1).collect();
        (jobs.len() <= most).then_some(jobs)
    }

    /// Users with jobs that are not over, by name.
    pub(crate) fn users(&self) -> impl Iterator<Item = (&str, &UserIndex)> {
        self.by_user.iter().filter(|(_, of_user)| of_user.open > 0).map(|(user, of)| (&**user, of))
    }

    fn entry(&mut self, job: &Job) -> IndexEntry {
        let user = match self.by_user.get_key_value(job.user.as_str()) {
            Some((user, _)) => user.clone(),
            None => job.user.as_str().into(),
        };
        let (mut tasks, mut blocked_nodes) = (StateCounts::default(), 0);
        for node in &job.nodes {
            let (mut counts, _) = summary::tally(job, node);
            State::ALL.into_iter().for_each(|state| *tasks.of(state) += *counts.of(state));
            blocked_nodes += u32::from(summary::is_blocked(job, node) && counts.blocked > 0);
        }
        let (spec, is_open) = (job.spec.clone(), job.finished.is_none());
        IndexEntry { spec, user, tasks: TaskCounts::of(tasks), blocked_nodes, is_open }
    }

    /// Counts a job as it is now, or (`false`) no longer as it was.
    fn count(&mut self, id: JobId, entry: &IndexEntry, counts: bool) {
        let put = |set: &mut BTreeSet<JobId>| {
            match counts {
                true => set.insert(id),
                false => set.remove(&id),
            };
        };
        let state = entry.tasks.state();
        put(self.by_state.entry(state).or_default());
        let of_user = self.by_user.entry(entry.user.clone()).or_default();
        put(&mut of_user.jobs);
        if entry.is_open {
            put(&mut self.open);
            let mut tasks = entry.tasks.counts();
            let on_workers = tasks.placed + tasks.running + tasks.paused + tasks.stopping;
            match counts {
                true => {
                    of_user.open += 1;
                    of_user.running += on_workers;
                    of_user.ready += tasks.ready;
                    State::ALL.into_iter().for_each(|state| *self.tasks.of(state) += *tasks.of(state));
                }
                false => {
                    of_user.open -= 1;
                    of_user.running -= on_workers;
                    of_user.ready -= tasks.ready;
                    State::ALL.into_iter().for_each(|state| *self.tasks.of(state) -= *tasks.of(state));
                }
            }
            if entry.blocked_nodes > 0 {
                put(&mut self.blocked);
                let nodes = entry.blocked_nodes as usize;
                self.blocked_nodes = match counts {
                    true => self.blocked_nodes + nodes,
                    false => self.blocked_nodes - nodes,
                };
            }
        }
        if self.by_user.get(&entry.user).is_some_and(|of_user| of_user.jobs.is_empty()) {
            self.by_user.remove(&entry.user);
        }
        if self.by_state.get(&state).is_some_and(BTreeSet::is_empty) {
            self.by_state.remove(&state);
        }
    }
}

static NONE: BTreeSet<JobId> = BTreeSet::new();

/// The jobs an event may have changed, itself and by what followed from it.
pub(crate) fn changed_by(event: &Event, effects: &Effects) -> impl Iterator<Item = JobId> {
    let nodes: Vec<_> = effects.nodes.iter().map(|node| node.job).chain(effects.finished.clone()).collect();
    event.what.job().into_iter().chain(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{machine, task};
    use proptest::prelude::*;
    use warpyard_core::command::{AttemptStatus, Command, TaskSelector};
    use warpyard_core::engine::Engine;
    use warpyard_core::event::{End, EndReason, Usage};
    use warpyard_core::spec::{AfterJob, AfterNode, Array, DependencyCondition, TaskSpec};
    use warpyard_core::store::Discard;
    use warpyard_core::{Time, WorkerId};
    use warpyard_policies::{POLICIES, default_policy};

    /// A job of one task, an array, two tasks one after the other, or one that waits for another job.
    fn job(kind: u32, after: u64) -> JobSpec {
        let tasks = match kind % 4 {
            1 => {
                let array = Array { ranges: vec![(0, 3, 1)], at_once: Some(2) };
                vec![TaskSpec { array: Some(array), ..task("many", 1) }]
            }
            2 => {
                let after = vec![AfterNode { node: 0, on: DependencyCondition::Ok }];
                vec![task("first", 1), TaskSpec { after, ..task("second", 1) }]
            }
            _ => vec![task("only", 1)],
        };
        let after = match kind % 4 {
            3 => vec![AfterJob { job: JobId(after), on: DependencyCondition::Ok }],
            _ => vec![],
        };
        let project = (kind > 3).then(|| "paper".to_owned());
        JobSpec { name: format!("job-{kind}"), project, tasks, after, ..JobSpec::default() }
    }

    fn command(engine: &Engine, (op, id, kind): (u8, u64, u32)) -> Command {
        let target = TaskSelector::Job(JobId(id));
        let user = if id % 2 == 0 { "ann" } else { "bob" };
        match op {
            0..4 => Command::Submit { user: user.into(), env: None, spec: job(kind, id).into() },
            4 => Command::Hold(target),
            5 => Command::Release(target),
            6 => Command::Cancel(target),
            7 => Command::Retry { target, failed_only: false },
            8 => Command::Forget(JobId(id)),
            _ => {
                let view = engine.cluster().view();
                let latest = |task| {
                    let job =
                        engine.cluster().job(warpyard_core::TaskId::node_id(task).job).expect("it runs");
                    let node = warpyard_core::TaskId::node_id(task).node;
                    let live = job.nodes[node as usize].live.get(&task.index).expect("it runs");
                    task.attempt(live.attempts)
                };
                let how = if kind % 3 == 0 { EndReason::Exited(1) } else { EndReason::Exited(0) };
                let end = |attempt| {
                    (attempt, AttemptStatus::Over(End { how: how.clone(), usage: Usage::default() }))
                };
                let attempts = view.on_workers().map(latest).take(1).map(end).collect();
                Command::Report { worker: WorkerId(0), attempts, devices: Default::default() }
            }
        }
    }

    proptest! {
        #[test]
        fn the_index_kept_event_by_event_is_the_index_of_the_cluster(
            ops in prop::collection::vec((0u8..12, 1u64..12, 0u32..8), 1..80),
        ) {
            let engine = || Engine::new(Cluster::new(default_policy()), POLICIES, Time(0)).expect("a policy");
            let (mut engine, mut replica) = (engine(), engine());
            let mut index = JobIndex::of(replica.cluster());
            let mut commands = vec![Command::Join(machine(2))];
            for (at, op) in (1..).zip(ops) {
                let Ok(turned) = engine.turn(commands, Time(at * 1_000_000), &mut Discard);
                for event in &turned.events {
                    let effects = replica.follow(event);
                    changed_by(event, &effects).for_each(|job| index.update(replica.cluster(), job));
                }
                prop_assert_eq!(&index, &JobIndex::of(replica.cluster()), "{:?}", turned.events);
                commands = vec![command(&engine, op)];
            }
        }
    }
}
