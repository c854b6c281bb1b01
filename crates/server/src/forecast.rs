//! When waiting tasks are expected to start, and what would start one sooner: the queue simulated forward from an excerpt of
//! the state, with run times drawn from what similar tasks did before. Where nothing is known of a task that a start
//! hinges on, the forecast is that it is unknown, and names that task. When forecasts are made is decided elsewhere.

use crate::replica::Reader;
use crate::store::HistoryStore;
use crate::summary::{first_open, task_name, time};
use crate::why::{explain_in, seconds};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::wire::{FreeDevice, StartRange, Suggestion, Timestamp};
use warpyard_core::cluster::Effects;
use warpyard_core::command::TaskSelector;
use warpyard_core::event::EventKind;
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{Cluster, Command, JobId, NodeId, PolicyDef, Rejection, Span, TaskId, TaskState, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{
    ForecastBudget, ForecastRange, RequestChange, RunTimeEvidence, StartForecast, UnknownStart,
    find_counterfactual, forecast, sample_run_time,
};

/// How much a forecast may cost: a fraction of a second.
const LIMITS: ForecastBudget = ForecastBudget { samples: 20, events: 5_000, solves: 3 };

/// How many kinds of tasks history is asked about.
const KINDS_ASKED: usize = 300;

/// How many tasks of the queue an excerpt begins with. A sample of a forecast has not the time to start more.
const LINE: usize = 1_000;

/// How wide a range may be before it is said what it hinges on.
const WIDE: Span = Span(600 * 1_000_000);

/// How often, out of one, the range holds if the draws are right.
const HOLDS: f64 = 0.8;

/// An excerpt of the state and what is known of run times: all a forecast needs, so that it can be made elsewhere.
pub(crate) struct ForecastInput {
    cluster: Cluster,
    now: Time,
    /// The nodes of the excerpt that wait where they wait in the whole queue; none where the excerpt has all of it.
    foreseeable: Option<BTreeSet<NodeId>>,
    /// How long tasks like those of a node ran before.
    ran: BTreeMap<NodeId, Vec<Span>>,
    /// What share of their promise tasks of all kinds ran for.
    kept: Vec<f64>,
    /// How long tasks like those of a job to come ran before, by place in it.
    coming: Vec<Vec<Span>>,
    /// How long the latest tasks ran, by how many GPUs they had: each user's, and everyone's.
    shapes: Arc<RunTimesByGpus>,
}

#[derive(Default)]
struct RunTimesByGpus {
    of_user: HashMap<(String, usize), Vec<Span>>,
    of_all: HashMap<usize, Vec<Span>>,
}

impl RunTimesByGpus {
    fn from(runs: Vec<(String, usize, Span)>) -> RunTimesByGpus {
        let mut shapes = RunTimesByGpus::default();
        for (user, gpus, ran) in runs {
            shapes.of_user.entry((user, gpus)).or_default().push(ran);
            shapes.of_all.entry(gpus).or_default().push(ran);
        }
        shapes
    }
}

/// When a task is expected to start, as far as that can be known.
#[derive(Clone, Debug)]
pub(crate) enum ExpectedStart {
    /// In a range, and what that hinges on where it is wide.
    Known(StartRange, Option<Caveat>),
    /// No range can be given, because of this.
    Unknown(Caveat),
}

/// What a start hinges on.
#[derive(Clone, Debug)]
pub(crate) struct Caveat {
    kind: CaveatKind,
    tasks: Vec<CaveatTask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaveatKind {
    /// Nothing is known of how long the tasks run.
    UnknownDurations,
    /// The same, but it starts in a known time even if they go on.
    SoonerIfEnded,
    /// The range is wide because of when the tasks end.
    DependsOnEnds,
    TooFarBack,
    NeverFits,
}

/// A task that a start hinges on.
#[derive(Clone, Debug)]
struct CaveatTask {
    name: String,
    user: String,
    /// How long it has run; nothing while it waits.
    ran: Option<Span>,
}

/// How many tasks that a start hinges on are named.
const NAMED: usize = 3;

impl ExpectedStart {
    /// The earlier end of the range, where there is one.
    pub(crate) fn low(&self) -> Option<Timestamp> {
        match self {
            ExpectedStart::Known(range, _) => Some(range.low),
            ExpectedStart::Unknown(_) => None,
        }
    }

    /// The range, and what is to be said beside it or instead; tasks of users for whom `hides` says so are not named.
    pub(crate) fn shown(&self, hides: impl Fn(&str) -> bool) -> (Option<StartRange>, Option<String>) {
        match self {
            ExpectedStart::Known(range, caveat) => {
                (Some(*range), caveat.as_ref().map(|caveat| caveat.words(hides)))
            }
            ExpectedStart::Unknown(caveat) => (None, Some(caveat.words(hides))),
        }
    }
}

impl Caveat {
    fn words(&self, hides: impl Fn(&str) -> bool) -> String {
        let named = self.tasks.iter().take(NAMED).map(|task| {
            let name = if hides(&task.user) { "another user's" } else { &task.name };
            match task.ran {
                Some(ran) => format!("{name} (running for {})", seconds(ran.secs())),
                None => format!("{name} (waiting)"),
            }
        });
        let mut named: Vec<_> = named.collect();
        if let Some(more @ 1..) = self.tasks.len().checked_sub(NAMED) {
            named.push(format!("{more} more"));
        }
        let names = match &named[..] {
            [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => named.concat(),
        };
        match (self.kind, self.tasks.len()) {
            (CaveatKind::UnknownDurations, 1) => {
                format!(
                    "unknown: a task ahead states no time limit and has no comparable earlier runs: {names}"
                )
            }
            (CaveatKind::UnknownDurations, n) => {
                format!(
                    "unknown: {n} tasks ahead state no time limit and have no comparable earlier runs: {names}"
                )
            }
            (CaveatKind::SoonerIfEnded, 1) => format!("sooner if {names} ends, which states no time limit"),
            (CaveatKind::SoonerIfEnded, _) => {
                format!("sooner if one of {names} ends; they state no time limit")
            }
            (CaveatKind::DependsOnEnds, _) => {
                format!("it depends mostly on when {names} ends").replace(") and", ") or")
            }
            (CaveatKind::TooFarBack, _) => "unknown: it is too far back in the queue to be forecast".into(),
            (CaveatKind::NeverFits, _) => "unknown: no task that ends would make room for it".into(),
        }
    }
}

/// The forecast of a job that is not submitted yet.
pub(crate) struct SubmissionForecast {
    pub(crate) starts_now: bool,
    pub(crate) position: Option<u64>,
    pub(crate) expected_start: Option<ExpectedStart>,
    pub(crate) why: Vec<String>,
    pub(crate) free: Vec<FreeDevice>,
}

impl ForecastInput {
    /// Takes an excerpt of what runs, of the head of the queue, and of some other jobs. What history knows comes with
    /// [`ForecastInput::remember`].
    pub(crate) fn of(f: &Reader<'_>, others: impl IntoIterator<Item = JobId>, now: Time) -> ForecastInput {
        let contenders = f.policy().contenders(f.cluster().view(), LINE, now);
        let jobs = contenders.iter().map(|task| task.job).chain(others);
        let cluster = f.cluster().excerpt(jobs);
        let is_whole = contenders.len() < LINE;
        let foreseeable = (!is_whole).then(|| contenders.into_iter().map(TaskId::node_id).collect());
        let (ran, kept, coming, shapes) = Default::default();
        ForecastInput { cluster, now, foreseeable, ran, kept, coming, shapes }
    }

    /// Takes what is known of run times.
    pub(crate) fn remember(&mut self, history: &dyn HistoryStore) {
        let running = self.cluster.workers().flat_map(|(_, w)| w.tasks().iter().map(|t| t.node_id()));
        let nodes: BTreeSet<NodeId> =
            running.chain(self.cluster.view().ready_nodes()).take(KINDS_ASKED).collect();
        for node in nodes {
            let Some(job) = self.cluster.job(node.job) else { continue };
            let task = &job.spec.tasks[node.node as usize].name;
            // Without history a forecast still has what tasks promise.
            let before = history.run_times(&job.user, &job.spec.name, task).unwrap_or_default();
            if !before.is_empty() {
                self.ran.insert(node, before);
            }
        }
        self.kept = history.promises_kept().unwrap_or_default();
        self.shapes = Arc::new(RunTimesByGpus::from(history.latest_runs().unwrap_or_default()));
    }

    /// When the state was as it is here.
    pub(crate) fn at(&self) -> Time {
        self.now
    }

    /// When each of these tasks is expected to start; nothing for one that does not wait.
    pub(crate) fn starts(&self, tasks: &[TaskId]) -> BTreeMap<TaskId, ExpectedStart> {
        let waits = |task: &TaskId| matches!(self.cluster.state(*task), Some(TaskState::Ready { .. }));
        let near =
            |task: &TaskId| self.foreseeable.as_ref().is_none_or(|near| near.contains(&task.node_id()));
        let (tasks, far): (Vec<_>, Vec<_>) = tasks.iter().copied().filter(waits).partition(near);
        let draw = |task: TaskId, sample: u32| self.draw(task, sample);
        let Ok(expected) = forecast(&self.cluster, POLICIES, self.now, &tasks, LIMITS, draw) else {
            return BTreeMap::new();
        };
        let far = far.into_iter().map(|task| (task, StartForecast::Unknown(UnknownStart::TooFar)));
        expected.into_iter().chain(far).map(|(task, expectation)| (task, self.start(expectation))).collect()
    }

    fn start(&self, expectation: StartForecast) -> ExpectedStart {
        let caveat = |kind, tasks: Vec<TaskId>| {
            let tasks = tasks.into_iter().map(|task| self.caveat_task(task)).collect();
            Caveat { kind, tasks }
        };
        match expectation {
            StartForecast::Range(ForecastRange { from, to, hinges_on, sooner_after }) => {
                let (wait, width) = (from.since(self.now), to.since(from));
                let is_wide = width > WIDE && width.0 > 3 * wait.0;
                let caveat = if !sooner_after.is_empty() {
                    Some(caveat(CaveatKind::SoonerIfEnded, sooner_after))
                } else if is_wide && !hinges_on.is_empty() {
                    Some(caveat(CaveatKind::DependsOnEnds, hinges_on))
                } else {
                    None
                };
                let (low, high, as_of) = (time(from), time(to), Some(time(self.now)));
                ExpectedStart::Known(StartRange { low, high, of: HOLDS, as_of }, caveat)
            }
            StartForecast::Unknown(UnknownStart::Lengths(tasks)) => {
                ExpectedStart::Unknown(caveat(CaveatKind::UnknownDurations, tasks))
            }
            StartForecast::Unknown(UnknownStart::TooFar) => {
                ExpectedStart::Unknown(caveat(CaveatKind::TooFarBack, vec![]))
            }
            StartForecast::Unknown(UnknownStart::NoEnd) => {
                ExpectedStart::Unknown(caveat(CaveatKind::NeverFits, vec![]))
            }
        }
    }

    fn caveat_task(&self, task: TaskId) -> CaveatTask {
        CaveatTask {
            name: task_name(&self.cluster, task),
            user: self.cluster.job(task.job).map(|job| job.user.clone()).unwrap_or_default(),
            ran: self.cluster.view().attempt(task).is_some().then(|| self.ran_so_far(task)),
        }
    }

    /// Also takes what is known of how long the tasks of a job that is not there yet ran before.
    pub(crate) fn recall(&mut self, history: &dyn HistoryStore, user: &str, spec: &JobSpec) {
        let of = |task: &TaskSpec| history.run_times(user, &spec.name, &task.name).unwrap_or_default();
        self.coming = spec.tasks.iter().take(KINDS_ASKED).map(of).collect();
    }

    /// The memory of the largest device there is.
    pub(crate) fn largest_device(&self) -> u64 {
        let devices = self.cluster.workers().flat_map(|(_, w)| w.info.devices.iter());
        devices.map(|d| d.memory).max().unwrap_or(0)
    }

    /// The forecast of a job, were it submitted now.
    pub(crate) fn foresee(&self, user: &str, spec: &JobSpec) -> Result<SubmissionForecast, Rejection> {
        let mut cluster = self.cluster.clone();
        let submit = Command::Submit { user: user.to_owned(), env: None, spec: spec.clone().into() };
        let mut job = None;
        for event in cluster.decide(submit, self.now)? {
            if let EventKind::JobSubmitted { job: number, .. } = &event.what {
                job = Some(*number);
            }
            cluster.apply(&event);
        }
        let job = job.expect("a submission that is not refused makes a job");
        let task = first_open(&cluster, TaskSelector::Job(job)).expect("a job has a task");
        let mut policy = PolicyDef::build_from(POLICIES, cluster.policy())?;
        policy.observe(cluster.view(), &Effects::default());
        let starts_now = policy.plan(cluster.view(), self.now).start.iter().any(|s| s.task == task);
        let answer = explain_in(&cluster, &*policy, task, self.now);
        let mut ran = self.ran.clone();
        let known = self.coming.iter().enumerate().filter(|(_, before)| !before.is_empty());
        ran.extend(known.map(|(node, before)| (NodeId { job, node: node as u32 }, before.clone())));
        let (kept, shapes) = (self.kept.clone(), self.shapes.clone());
        // Behind the excerpt's part of the queue there may be others before it.
        let mut foreseeable = self.foreseeable.clone();
        let known = |place: &u64| foreseeable.is_none() || *place <= LINE as u64;
        let near = answer.as_ref().and_then(|answer| answer.position).filter(known);
        if let (Some(_), Some(foreseeable)) = (near, &mut foreseeable) {
            foreseeable.insert(task.node_id());
        }
        let then = ForecastInput { cluster, now: self.now, foreseeable, ran, kept, coming: vec![], shapes };
        let ready = matches!(then.cluster.state(task), Some(TaskState::Ready { .. }));
        let expected_start = if ready { then.starts(&[task]).remove(&task) } else { None };
        let (why, free) = answer.map(|a| (a.text, a.free)).unwrap_or_default();
        // What it says of how long it has waited is of no use before it has.
        let why = if starts_now { vec!["starts at once".into()] } else { why.into_iter().take(1).collect() };
        let position = near.filter(|_| !starts_now && ready);
        Ok(SubmissionForecast { starts_now, position, expected_start, why, free })
    }

    /// One change that would start a task now.
    pub(crate) fn sooner(&self, task: TaskId) -> Option<Suggestion> {
        let (change, place) = find_counterfactual(&self.cluster, POLICIES, self.now, task).ok()??;
        let change = match change {
            RequestChange::Schedule => "--wait-mode schedule".into(),
            RequestChange::OrType(kind) => format!("--gpu-type {kind}"),
            RequestChange::GpuMemory(bytes) => format!("--gpu-memory {}", ByteSize(bytes)),
            RequestChange::Expected(span) => format!("--expected {}", Micros(span.0)),
            RequestChange::Timeout(span) => format!("--timeout {}", Micros(span.0)),
            RequestChange::Gpus(n) => format!("--gpus {n}"),
        };
        let name = self.cluster.worker(place.worker).map_or("", |w| &w.info.name);
        Some(Suggestion { change, effect: format!("would start now on {name}") })
    }

    /// How long a task has run, pauses left out.
    fn ran_so_far(&self, task: TaskId) -> Span {
        let running = self.cluster.view().attempt(task).map(|(attempt, _)| attempt);
        running.map_or(Span::ZERO, |a| a.ran + self.now.since(a.started.map_or(self.now, |_| a.since)))
    }

    /// How long a task runs in a sample, or goes on to run, where anything is known of that.
    fn draw(&self, task: TaskId, sample: u32) -> Option<Span> {
        let job = self.cluster.job(task.job)?;
        let (_, spec) = job.node(task.node)?;
        // Beside another it gets less done; what is drawn is how long it takes alone.
        let view = self.cluster.view();
        let lost = view
            .shares_with(task)
            .map_or(0.0, |(_, since)| self.now.since(since).secs() * (1.0 - view.speed_kept(task)));
        let so_far = self.ran_so_far(task) - Span::from_secs(lost);
        let before = self.ran.get(&task.node_id()).map(Vec::as_slice).unwrap_or_default();
        let gpus = usize::from(spec.needs.gpus);
        let of_user = self.shapes.of_user.get(&(job.user.clone(), gpus));
        let of_all = self.shapes.of_all.get(&gpus);
        let others = [of_user, of_all].map(|runs| runs.map(Vec::as_slice).unwrap_or_default());
        let known = RunTimeEvidence {
            similar: before,
            stated_ratios: &self.kept,
            stated: spec.expected(),
            limit: spec.timeout,
            less_similar: others,
        };
        sample_run_time(known, so_far, task, sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caveat(kind: CaveatKind, tasks: &[(&str, &str, Option<f64>)]) -> Caveat {
        let task = |(name, user, ran): &(&str, &str, Option<f64>)| CaveatTask {
            name: (*name).into(),
            user: (*user).into(),
            ran: ran.map(Span::from_secs),
        };
        Caveat { kind, tasks: tasks.iter().map(task).collect() }
    }

    #[tokio::test]
    async fn an_outlook_has_the_head_of_the_queue_and_calls_what_is_behind_it_too_far() {
        let server = crate::testing::server();
        server.join(1).await;
        let mut submissions = tokio::task::JoinSet::new();
        for _ in 0..LINE + 200 {
            let task = TaskSpec { timeout: Some(Span::from_secs(60.0)), ..crate::testing::task("t", 1) };
            let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
            let (live, user) = (server.engine.clone(), "ann".to_owned());
            submissions.spawn(async move {
                live.command(Command::Submit { user, env: None, spec: spec.into() }).await
            });
        }
        submissions.join_all().await.into_iter().for_each(|submitted| drop(submitted.expect("a job")));
        let look = |f: &Reader<'_>| {
            let line = f.policy().queue_order(f.cluster().view(), usize::MAX, Time(0));
            let (first, last) = (line[0], *line.last().expect("many wait"));
            (ForecastInput::of(f, [last.job], f.now()), first, last, f.cluster().jobs().len())
        };
        let (outlook, first, last, all) = server.engine.read(look).await.expect("a state");
        let kept = outlook.cluster.jobs().len();
        assert!(all == LINE + 200 && (LINE..LINE + 50).contains(&kept), "{kept} of {all}");
        let starts = outlook.starts(&[first, last]);
        assert!(starts[&first].low().is_some(), "{starts:?}");
        assert!(
            matches!(&starts[&last], ExpectedStart::Unknown(Caveat { kind: CaveatKind::TooFarBack, .. })),
            "{starts:?}"
        );
    }

    #[test]
    fn what_a_start_hinges_on_is_named_but_not_to_everyone() {
        let one = caveat(CaveatKind::UnknownDurations, &[("17", "bob", Some(252.0))]);
        assert_eq!(
            one.words(|_| false),
            "unknown: a task ahead states no time limit and has no comparable earlier runs: 17 (running for 4m12s)"
        );
        let hidden = one.words(|user| user == "bob");
        assert!(hidden.ends_with(": another user's (running for 4m12s)"), "{hidden}");
        let many = ["17", "18", "19", "20", "21"].map(|name| (name, "bob", None));
        assert_eq!(
            caveat(CaveatKind::UnknownDurations, &many).words(|_| false),
            "unknown: 5 tasks ahead state no time limit and have no comparable earlier runs: 17 (waiting), 18 \
             (waiting), 19 (waiting) and 2 more"
        );
        let wide = caveat(CaveatKind::DependsOnEnds, &[("17", "bob", Some(3.0)), ("18", "bob", None)]);
        assert_eq!(
            wide.words(|_| false),
            "it depends mostly on when 17 (running for 3s) or 18 (waiting) ends"
        );
    }
}
