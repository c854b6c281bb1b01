//! The question to the solver: the instance a scene amounts to, a number that tells it from others, and the errand that
//! answers it beside the loop.

use super::ByGoal;
use super::fnv::Fnv;
use super::organisations::Charter;
use super::scene::{Member, Scene};
use std::panic::{AssertUnwindSafe, catch_unwind};
use warpyard_allocate::{
    Entities, GoalDef, GpuType, Instance, Job, Options, PairShare, Profile, SolveError, Types, alone_speeds,
};
use warpyard_core::policy::Errand;
use warpyard_core::shares::{Allocation, NoTarget, PairRow, Row};
use warpyard_core::{Command, TaskId};

/// How long a task of unknown length is taken for, in seconds.
const UNKNOWN_LENGTH: f64 = 3600.0;

/// The part of its steps a task that still runs is taken to have left at least.
const LEAST_LEFT: f64 = 1e-3;

/// The errand that finds a target for this scene; none where the view has the answer, or that there is none.
pub(super) fn errand(policy: &ByGoal, scene: &Scene<'_>) -> Option<Errand> {
    if scene.members.is_empty() {
        return None;
    }
    let shares = scene.view.shares();
    let pairs = policy.options.sharing.then(|| policy.speeds.borrow().number_of_pairs());
    let question = number(scene, pairs);
    let answered = shares.target().is_some_and(|target| target.question == question);
    if answered || shares.failed().is_some_and(|failed| failed.question == question) {
        return None;
    }
    let asked_by = scene.view.policy().to_string();
    let rows: Vec<Asked> = scene.members.iter().map(|member| Asked::of(scene, member)).collect();
    let instance = instance(policy, scene, &rows);
    let (goal, options, kinds) = (policy.goal, policy.options, scene.kinds.clone());
    Some(Box::new(move || {
        let solved = catch_unwind(AssertUnwindSafe(|| solve(goal, options, &instance, &rows)));
        let failed = |why: String| NoTarget { policy: asked_by.clone(), question, why };
        Command::SetTarget(match solved {
            Ok(Ok((rows, pairs))) => Ok(Allocation { policy: asked_by, question, kinds, rows, pairs }),
            Ok(Err(why)) => Err(failed(why.to_string())),
            Err(_) => Err(failed("the solver broke off".to_owned())),
        })
    }))
}

fn solve(
    goal: &GoalDef,
    options: Options,
    instance: &Instance,
    asked: &[Asked],
) -> Result<(Vec<Row>, Vec<PairRow>), SolveError> {
    let answer = goal.solve(instance, options)?;
    let alone = alone_speeds(instance);
    // Who takes all types for equal prefers none; without sharing the solver sees to that.
    let even = options.sharing && options.types == Types::Blind;
    let shares_of = |shares: &[f64], jobs: &[usize]| {
        if even { spread(instance, shares, jobs) } else { shares.to_vec() }
    };
    let each = asked.iter().zip(answer.allocation.rows()).zip(alone).enumerate();
    let rows = each.map(|(m, ((asked, shares), alone))| Row {
        task: asked.task,
        shares: shares_of(shares, &[m]),
        left: asked.left,
        alone,
        isolated_s: asked.isolated_s,
    });
    let pair = |pair: &PairShare| {
        let [a, b] = pair.jobs.map(|m| asked[m].task);
        PairRow { tasks: [a.min(b), a.max(b)], shares: shares_of(&pair.shares, &pair.jobs) }
    };
    let mut pairs: Vec<PairRow> = answer.pairs.iter().map(pair).collect();
    pairs.sort_by_key(|pair| pair.tasks);
    Ok((rows.collect(), pairs))
}

/// The same time, spread over the types that jobs run on, together where there are two, by how many there are of each.
fn spread(instance: &Instance, shares: &[f64], jobs: &[usize]) -> Vec<f64> {
    let profile = |m: usize| {
        let Job { profile, gpus, .. } = &instance.jobs[m];
        Some(Profile { name: profile.clone()?, gpus: *gpus })
    };
    let together = |j: usize| match jobs {
        &[a, b] => {
            let known =
                || instance.pairs.as_ref()?.together(&instance.types[j].name, &profile(a)?, &profile(b)?);
            known().is_some()
        }
        _ => true,
    };
    let able = |j: usize| jobs.iter().all(|&m| instance.jobs[m].throughputs[j] > 0.0) && together(j);
    let count = |j: usize| if able(j) { f64::from(instance.types[j].count) } else { 0.0 };
    let all: f64 = (0..shares.len()).map(count).sum();
    let time: f64 = shares.iter().sum();
    (0..shares.len()).map(|j| if all > 0.0 { time * count(j) / all } else { shares[j] }).collect()
}

/// What is asked of one task, beyond its speeds.
struct Asked {
    task: TaskId,
    left: f64,
    isolated_s: f64,
}

impl Asked {
    fn of(scene: &Scene<'_>, member: &Member<'_>) -> Asked {
        let left = steps_left(scene, member);
        let isolated_s = scene.view.shares().row(member.task).map_or(0.0, |row| {
            let more = if row.alone > 0.0 { (row.left - left).max(0.0) / row.alone } else { 0.0 };
            row.isolated_s + more
        });
        Asked { task: member.task, left, isolated_s }
    }
}

/// Steps a task has left: as it reported, else as its speeds and the time it had let expect.
fn steps_left(scene: &Scene<'_>, member: &Member<'_>) -> f64 {
    let speeds = &member.candidate.speeds;
    let able = speeds.iter().filter(|speed| **speed > 0.0);
    let mean = able.clone().sum::<f64>() / able.count().max(1) as f64;
    let total = member.spec.steps.map_or_else(
        || mean * member.spec.expected().map_or(UNKNOWN_LENGTH, |expected| expected.secs().max(1.0)),
        |steps| (steps as f64).max(1.0),
    );
    let had = |(kind, speed): (&String, &f64)| {
        let (view, task, now) = (scene.view, member.task, scene.now);
        speed * (view.had(task, kind, now) - view.shared(task, kind, now).lost).secs()
    };
    let reported = || member.job.node(member.task.node)?.0.live.get(&member.task.index)?.steps;
    let done = reported().map_or_else(|| scene.kinds.iter().zip(speeds).map(had).sum(), |steps| steps as f64);
    (total - done).max(total * LEAST_LEFT)
}

fn instance(policy: &ByGoal, scene: &Scene<'_>, rows: &[Asked]) -> Instance {
    let shares = scene.view.shares();
    let types = scene.kinds.iter().zip(&scene.counts).map(|(name, &count)| GpuType {
        name: name.clone(),
        count,
        cost_per_hour: Some(shares.cost_per_hour(name).unwrap_or(1.0)),
        per_server: None,
    });
    let jobs = scene.members.iter().zip(rows).enumerate().map(|(i, (member, asked))| {
        let due = member.job.spec.deadline.map(|deadline| member.job.submitted + deadline);
        Job {
            profile: member.spec.profile.clone(),
            gpus: member.candidate.gpus,
            weight: member.job.spec.weight.unwrap_or(1.0),
            steps: Some(asked.left),
            age_s: scene.now.since(member.job.submitted).secs(),
            isolated_time_s: asked.isolated_s,
            deadline_s: due.map(|due| due.since(scene.now).secs().max(1.0)),
            ..Job::new(i as u64, member.candidate.speeds.clone())
        }
    });
    let entities = (policy.goal.name == "hierarchical").then(|| entities(scene, &policy.charter));
    let options = policy.options;
    let pairs = options.sharing.then(|| policy.speeds.borrow().pairs(options.types));
    Instance { types: types.collect(), jobs: jobs.collect(), pairs, entities }
}

/// Projects, or users for jobs without one.
fn entities(scene: &Scene<'_>, charter: &Charter) -> Entities {
    let whose = |member: &Member<'_>| member.job.spec.project.as_ref().unwrap_or(&member.job.user).clone();
    charter.entities(scene.members.iter().map(whose))
}

/// A number for all that makes a new target worth finding: who there is, how fast they are, and what there is to give.
fn number(scene: &Scene<'_>, pairs: Option<u64>) -> u64 {
    let mut hash = Fnv::default();
    pairs.into_iter().for_each(|pairs| hash.word(pairs));
    for (kind, count) in scene.kinds.iter().zip(&scene.counts) {
        hash.bytes(kind.as_bytes());
        hash.word(u64::from(*count));
        hash.word(scene.view.shares().cost_per_hour(kind).unwrap_or(1.0).to_bits());
    }
    for member in &scene.members {
        hash.word(member.task.job.0);
        hash.word(u64::from(member.task.node) << 32 | u64::from(member.task.index));
        hash.word(u64::from(member.candidate.gpus));
        hash.word(member.job.spec.weight.unwrap_or(1.0).to_bits());
        member.candidate.speeds.iter().for_each(|speed| hash.word(speed.to_bits()));
    }
    hash.0
}
