//! Simulated users: the jobs they submit, the run models of those, and their other requests.

use crate::arrival::{AttemptRun, NodeRunModel, RunModel};
use crate::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_core::command::TaskSelector;
use warpyard_core::policy::ParamType;
use warpyard_core::protocol::Assignment;
use warpyard_core::spec::{
    AfterJob, AfterNode, Array, DependencyCondition, JobSpec, Needs, OnLost, Preempt, Program, TaskSpec,
    WaitMode,
};
use warpyard_core::{
    AttemptId, Cluster, Command, DeviceId, JobId, NodeId, PolicyChoice, PolicyDef, Span, TaskId, WorkerId,
};

const GIB: u64 = 1 << 30;

/// Users and everything they have submitted.
pub(super) struct Users {
    seed: u64,
    policies: &'static [PolicyDef],
    /// Jobs by name. Not by number: a number that a crashing server assigned and did not commit is assigned again.
    jobs: BTreeMap<String, (JobSpec, RunModel)>,
}

/// Script of an attempt: its parameters and its simulated course.
#[derive(Clone, Debug)]
pub(super) struct AttemptScript {
    pub(super) run: AttemptRun,
    pub(super) timeout: Option<Span>,
    /// What happens if its worker is lost.
    pub(super) on_lost: OnLost,
    /// From launch to start; `None` if the launch is lost.
    pub(super) start_delay: Option<Span>,
    /// From a stop request to its end.
    pub(super) stop_delay: Span,
}

impl Users {
    pub(super) fn new(seed: u64, policies: &'static [PolicyDef]) -> Users {
        Users { seed, policies, jobs: BTreeMap::new() }
    }

    /// Number of jobs submitted, accepted or not.
    pub(super) fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Specification of a job by name.
    pub(super) fn spec(&self, name: &str) -> Option<&JobSpec> {
        self.jobs.get(name).map(|(spec, _)| spec)
    }

    /// Script of an attempt.
    pub(super) fn script(&self, assignment: &Assignment, launch_lost: f64) -> AttemptScript {
        let id = assignment.attempt;
        let work = assignment.work.as_ref().expect("a launched assignment has a launch specification");
        let (spec, runs) = &self.jobs[&work.job_name];
        let task = &spec.tasks[id.task.node as usize];
        let mut random = Random::new(self.seed ^ hash(id));
        let at_most = if random.unit() < 0.2 { 3_000_000 } else { 50_000 };
        let start_delay = Span(random.below(at_most));
        AttemptScript {
            run: runs.attempt_run(id.task, id.number, None),
            timeout: task.timeout,
            on_lost: task.on_lost,
            start_delay: (random.unit() >= launch_lost).then_some(start_delay),
            stop_delay: Span(random.below(2_000_000)),
        }
    }

    /// Generates a request.
    pub(super) fn next_request(&mut self, random: &mut Random, cluster: &Cluster) -> Command {
        let jobs: Vec<JobId> = cluster.jobs().iter().map(|j| j.id).collect();
        if jobs.is_empty() || random.unit() < 0.45 {
            return self.submit(random, cluster, &jobs);
        }
        // Mostly about a recent job: old ones have ended.
        let at_most = random.below(jobs.len() as u64) + 1;
        let back = random.below(at_most) as usize;
        let job = jobs[jobs.len() - 1 - back];
        let worker = WorkerId(random.below(cluster.workers().count().max(1) as u64) as u32);
        match random.below(20) {
            0..=2 => Command::Cancel(target(random, cluster, job)),
            3 => Command::Kill(target(random, cluster, job)),
            4 | 5 => Command::Hold(target(random, cluster, job)),
            6 | 7 => Command::Release(target(random, cluster, job)),
            8 => Command::SetPriority(job, random.below(7) as i64 - 3),
            9..=11 => {
                let target = target(random, cluster, job);
                Command::Retry { target, failed_only: random.unit() < 0.5 }
            }
            12 => Command::Pause(target(random, cluster, job)),
            13 => {
                let cancel = |job: &JobId| Command::Cancel(TaskSelector::Job(*job));
                Command::Several(jobs[jobs.len() - 1 - back..].iter().map(cancel).collect())
            }
            14 | 15 => Command::Resume(target(random, cluster, job)),
            16 | 17 => Command::Drain { worker, drained: random.unit() < 0.4, reason: None },
            _ => Command::SetPolicy(self.policy(random)),
        }
    }

    /// Random policy, sometimes with a parameter set.
    pub(super) fn policy(&self, random: &mut Random) -> PolicyChoice {
        let def = &self.policies[random.below(self.policies.len() as u64) as usize];
        let mut choice = PolicyChoice { name: def.name.to_owned(), params: BTreeMap::new() };
        for param in def.params {
            if let ParamType::Word(words) = param.default
                && random.unit() < 0.3
            {
                let word = words[random.below(words.len() as u64) as usize];
                choice.params.insert(param.name.to_owned(), word.to_owned());
            }
        }
        choice
    }

    fn submit(&mut self, random: &mut Random, cluster: &Cluster, jobs: &[JobId]) -> Command {
        let name = format!("j{}", self.jobs.len() + 1);
        let nodes = if random.unit() < 0.35 { 2 + random.below(4) } else { 1 } as u32;
        let (tasks, models) = (0..nodes).map(|n| node(random, cluster, n)).unzip();
        let on = [DependencyCondition::Ok, DependencyCondition::Fail, DependencyCondition::Any]
            [random.below(3) as usize];
        let after = (!jobs.is_empty() && random.unit() < 0.15)
            .then(|| AfterJob { job: jobs[random.below(jobs.len() as u64) as usize], on });
        let spec = JobSpec {
            name: name.clone(),
            priority: random.below(5) as i64 - 2,
            after: after.into_iter().collect(),
            tasks,
            ..JobSpec::default()
        };
        self.jobs.insert(name, (spec.clone(), RunModel::PerNode(models)));
        let user = random.below(3);
        let env = (user > 0).then(|| Arc::new(BTreeMap::from([("WHO".to_owned(), user.to_string())])));
        Command::Submit { user: format!("u{user}"), env, spec: spec.into() }
    }
}

/// Random node that may depend on earlier ones.
fn node(random: &mut Random, cluster: &Cluster, number: u32) -> (TaskSpec, NodeRunModel) {
    let mut after = Vec::new();
    for dep in 0..number {
        if random.unit() < 1.2 / f64::from(number) {
            let on = [
                DependencyCondition::Ok,
                DependencyCondition::Ok,
                DependencyCondition::Ok,
                DependencyCondition::Any,
                DependencyCondition::Fail,
            ][random.below(5) as usize];
            after.push(AfterNode { node: dep, on });
        }
    }
    let array = (random.unit() < 0.25).then(|| {
        let at_once = (random.unit() < 0.5).then(|| 1 + random.below(3) as u32);
        Array { ranges: vec![(0, 1 + random.below(5) as u32, 1)], at_once }
    });
    let lengths: Vec<_> = (0..3).map(|_| Span::from_secs(10f64.powf(random.unit() * 1.8 - 0.3))).collect();
    let longest = lengths.iter().max().expect("there are three").secs();
    let exit_codes = match random.below(10) {
        0..=5 => vec![],
        6 | 7 => vec![1, 0],
        8 => vec![1, 2, 0],
        _ => vec![3],
    };
    let spec = TaskSpec {
        name: format!("n{number}"),
        program: Program::new(["work", "%{job}"]),
        after,
        array,
        needs: needs(random, cluster),
        timeout: (random.unit() < 0.7).then(|| Span::from_secs(longest * (0.6 + 2.0 * random.unit()))),
        grace: Span(random.below(5_000_000)),
        expected: (random.unit() < 0.3).then(|| Span::from_secs(longest * 2.0 * random.unit())),
        retries: random.below(3) as u32,
        retry_on_timeout: random.unit() < 0.3,
        on_lost: if random.unit() < 0.8 { OnLost::Rerun } else { OnLost::Hold },
        preempt: [Preempt::None, Preempt::Freeze, Preempt::Requeue][random.below(3) as usize],
        ..TaskSpec::default()
    };
    (spec, NodeRunModel { lengths, exit_codes, ignores_stop: random.unit() < 0.3 })
}

fn needs(random: &mut Random, cluster: &Cluster) -> Needs {
    let gpus = [0, 1, 1, 1, 1, 2, 2, 3][random.below(8) as usize];
    let device = |random: &mut Random| {
        let worker = WorkerId(random.below(cluster.workers().count().max(1) as u64) as u32);
        DeviceId { worker, index: random.below(2) as u16 }
    };
    let preferred = if gpus == 1 && random.unit() < 0.1 { vec![device(random)] } else { vec![] };
    Needs {
        gpus,
        gpu_memory: (gpus > 0 && random.unit() < 0.5).then(|| (1 + random.below(12)) * GIB),
        gpu_types: if random.unit() < 0.1 { vec!["V100".into()] } else { vec![] },
        wait_mode: if random.unit() < 0.5 { WaitMode::Schedule } else { WaitMode::Queue },
        preferred,
        cpus: random.below(4) as u32 * 1000,
        memory: random.below(3) * GIB,
        ..Needs::default()
    }
}

fn target(random: &mut Random, cluster: &Cluster, job: JobId) -> TaskSelector {
    let spec = &cluster.job(job).expect("the job is in the state").spec;
    let node = NodeId { job, node: random.below(spec.tasks.len() as u64) as u32 };
    let index = random.below(u64::from(spec.tasks[node.node as usize].len())) as u32;
    match random.below(4) {
        0 => TaskSelector::Job(job),
        1 => TaskSelector::Node(node),
        2 => TaskSelector::Range { node, start: index, end: index + 1 + random.below(3) as u32 },
        _ => TaskSelector::Task(node.task(index)),
    }
}

/// Hash of an attempt.
fn hash(id: AttemptId) -> u64 {
    let TaskId { job, node, index } = id.task;
    let mixed = (job.0 << 24) ^ (u64::from(node) << 16) ^ (u64::from(index) << 8) ^ u64::from(id.number);
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
