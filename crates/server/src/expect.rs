//! When waiting tasks are expected to start, and what would start one sooner: the queue simulated forward from a copy of
//! the state, with run times drawn from what similar tasks did before, and from what they promise where none did.

use crate::follower::Follower;
use crate::http::jobs::first_open;
use crate::views::time;
use crate::why::explain_in;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::wire::{FreeDevice, Sooner, StartRange};
use warpyard_core::cluster::Effects;
use warpyard_core::command::Target;
use warpyard_core::event::What;
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{Cluster, Command, NodeId, PolicyDef, Rejected, Span, TaskId, TaskState, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{Change, Known, Limits, draw, forecast, sooner};

/// How much a forecast may cost: a fraction of a second.
const LIMITS: Limits = Limits { samples: 20, events: 5_000, errands: 3 };

/// How many kinds of tasks history is asked about.
const KINDS_ASKED: usize = 300;

/// How often, out of one, the range holds if the draws are right.
const HOLDS: f64 = 0.8;

/// A copy of the state and what is known of run times: all a forecast needs, so that it can be made elsewhere.
pub(crate) struct Outlook {
    cluster: Cluster,
    now: Time,
    /// How long tasks like those of a node ran before.
    ran: BTreeMap<NodeId, Vec<Span>>,
    /// What share of their promise tasks of all kinds ran for.
    kept: Vec<f64>,
    /// How long tasks like those of a job to come ran before, by place in it.
    coming: Vec<Vec<Span>>,
}

/// What would become of a job.
pub(crate) struct Foreseen {
    pub(crate) starts_now: bool,
    pub(crate) position: Option<u64>,
    pub(crate) expected_start: Option<StartRange>,
    pub(crate) why: Vec<String>,
    pub(crate) free: Vec<FreeDevice>,
}

impl Outlook {
    /// Copies what is needed.
    pub(crate) fn of(f: &mut Follower, now: Time) -> Outlook {
        let cluster = f.cluster().clone();
        let running = cluster.workers().flat_map(|(_, w)| w.tasks().iter().map(|t| t.node_id()));
        let waiting = f.policy().line(cluster.view(), KINDS_ASKED, now).into_iter().map(TaskId::node_id);
        let nodes: BTreeSet<NodeId> = running.chain(waiting).take(KINDS_ASKED).collect();
        let history = f.history();
        let mut ran = BTreeMap::new();
        for node in nodes {
            let Some(job) = cluster.job(node.job) else { continue };
            let task = &job.spec.tasks[node.node as usize].name;
            // Without history a forecast still has what tasks promise.
            let before = history.run_times(&job.user, &job.spec.name, task).unwrap_or_default();
            if !before.is_empty() {
                ran.insert(node, before);
            }
        }
        let kept = history.promises_kept().unwrap_or_default();
        Outlook { cluster, now, ran, kept, coming: vec![] }
    }

    /// When each of these tasks is expected to start; those nothing can be said about are left out.
    pub(crate) fn starts(&self, tasks: &[TaskId]) -> BTreeMap<TaskId, StartRange> {
        let draw = |task: TaskId, sample: u32| self.draw(task, sample);
        let Ok(expected) = forecast(&self.cluster, POLICIES, self.now, tasks, LIMITS, draw) else {
            return BTreeMap::new();
        };
        let known = expected.into_iter().filter_map(|(task, range)| Some((task, range?)));
        // A start that is a year off rests on nothing but a task that promised nothing.
        let sure = known.filter(|(_, range)| range.to.since(self.now) < Span(Span::UNKNOWN.0 / 2));
        sure.map(|(task, r)| (task, StartRange { low: time(r.from), high: time(r.to), of: HOLDS })).collect()
    }

    /// Also takes what is known of how long the tasks of a job that is not there yet ran before.
    pub(crate) fn recall(&mut self, f: &mut Follower, user: &str, spec: &JobSpec) {
        let history = f.history();
        let of = |task: &TaskSpec| history.run_times(user, &spec.name, &task.name).unwrap_or_default();
        self.coming = spec.tasks.iter().take(KINDS_ASKED).map(of).collect();
    }

    /// The memory of the largest device there is.
    pub(crate) fn largest_device(&self) -> u64 {
        let devices = self.cluster.workers().flat_map(|(_, w)| w.info.devices.iter());
        devices.map(|d| d.memory).max().unwrap_or(0)
    }

    /// What would become of a job that was submitted now.
    pub(crate) fn foresee(&self, user: &str, spec: &JobSpec) -> Result<Foreseen, Rejected> {
        let mut cluster = self.cluster.clone();
        let submit = Command::Submit { user: user.to_owned(), env: None, spec: spec.clone().into() };
        let mut job = None;
        for event in cluster.decide(submit, self.now)? {
            if let What::JobSubmitted { job: number, .. } = &event.what {
                job = Some(*number);
            }
            cluster.apply(&event);
        }
        let job = job.expect("a submission that is not refused makes a job");
        let task = first_open(&cluster, Target::Job(job)).expect("a job has a task");
        let mut policy = PolicyDef::build_from(POLICIES, cluster.policy())?;
        policy.observe(cluster.view(), &Effects::default());
        let starts_now = policy.plan(cluster.view(), self.now).start.iter().any(|s| s.task == task);
        let answer = explain_in(&cluster, &*policy, task, self.now);
        let mut ran = self.ran.clone();
        let known = self.coming.iter().enumerate().filter(|(_, before)| !before.is_empty());
        ran.extend(known.map(|(node, before)| (NodeId { job, node: node as u32 }, before.clone())));
        let then = Outlook { cluster, now: self.now, ran, kept: self.kept.clone(), coming: vec![] };
        let ready = matches!(then.cluster.state(task), Some(TaskState::Ready { .. }));
        let expected_start = if ready { then.starts(&[task]).remove(&task) } else { None };
        let (why, free, position) = answer.map(|a| (a.text, a.free, a.position)).unwrap_or_default();
        // What it says of how long it has waited is of no use before it has.
        let why = if starts_now { vec!["starts at once".into()] } else { why.into_iter().take(1).collect() };
        let position = position.filter(|_| !starts_now && ready);
        Ok(Foreseen { starts_now, position, expected_start, why, free })
    }

    /// One change that would start a task now.
    pub(crate) fn sooner(&self, task: TaskId) -> Option<Sooner> {
        let (change, place) = sooner(&self.cluster, POLICIES, self.now, task).ok()??;
        let change = match change {
            Change::Schedule => "--wait-mode schedule".into(),
            Change::OrType(kind) => format!("--gpu-type {kind}"),
            Change::GpuMemory(bytes) => format!("--gpu-memory {}", ByteSize(bytes)),
            Change::Expected(span) => format!("--expected {}", Micros(span.0)),
            Change::Timeout(span) => format!("--timeout {}", Micros(span.0)),
            Change::Gpus(n) => format!("--gpus {n}"),
        };
        let name = self.cluster.worker(place.worker).map_or("", |w| &w.info.name);
        Some(Sooner { change, effect: format!("would start now on {name}") })
    }

    /// How long a task runs in a sample, or goes on to run.
    fn draw(&self, task: TaskId, sample: u32) -> Span {
        let Some((_, spec)) = self.cluster.job(task.job).and_then(|j| j.node(task.node)) else {
            return Span::ZERO;
        };
        let running = self.cluster.view().attempt(task).map(|(attempt, _)| attempt);
        let so_far =
            running.map_or(Span::ZERO, |a| a.ran + self.now.since(a.started.map_or(self.now, |_| a.since)));
        // Beside another it gets less done; what is drawn is how long it takes alone.
        let view = self.cluster.view();
        let lost = view
            .shares_with(task)
            .map_or(0.0, |(_, since)| self.now.since(since).secs() * (1.0 - view.speed_kept(task)));
        let so_far = so_far - Span::from_secs(lost);
        let promised = spec.expected().unwrap_or(Span::UNKNOWN);
        let before = self.ran.get(&task.node_id()).map(Vec::as_slice).unwrap_or_default();
        draw(Known { before, kept: &self.kept, promised }, so_far, task, sample)
    }
}
