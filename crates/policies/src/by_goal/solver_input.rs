//! Solver input: the allocation instance of a round input, a fingerprint that identifies it, and the background solve.

use super::ByGoal;
use super::entities::EntityConfig;
use super::fnv::Fnv;
use super::round_input::{Member, RoundInput};
use std::panic::{AssertUnwindSafe, catch_unwind};
use warpyard_allocate::{
    Entities, FEASIBLE, GoalDef, GpuType, Instance, Job, Options, PairShare, Profile, Shares, Solution,
    SolveError, isolated_speeds,
};
use warpyard_core::policy::BackgroundSolve;
use warpyard_core::shares::{Allocation, PairRow, Row, SolveFailure};
use warpyard_core::{Command, TaskId};

/// Assumed length of a task of unknown length, in seconds.
const UNKNOWN_LENGTH: f64 = 3600.0;

/// Least remaining fraction of the steps of a running task.
const LEAST_LEFT: f64 = 1e-3;

/// Background solve for this input; `None` where the view already has the target, or the failure.
pub(super) fn background_solve(policy: &ByGoal, input: &RoundInput<'_>) -> Option<BackgroundSolve> {
    if input.members.is_empty() {
        return None;
    }
    let shares = input.view.shares();
    let pairs = policy.options.sharing.then(|| policy.speeds().number_of_pairs());
    let question = number(input, pairs);
    let answered = shares.target().is_some_and(|target| target.question == question);
    if answered || shares.failed().is_some_and(|failed| failed.question == question) {
        return None;
    }
    let asked_by = input.view.policy().to_string();
    let rows: Vec<SolverJob> = input.members.iter().map(|member| SolverJob::of(input, member)).collect();
    let instance = instance(policy, input, &rows);
    let (goal, options, kinds) = (policy.goal, policy.options, input.kinds.clone());
    Some(Box::new(move || {
        let solved = catch_unwind(AssertUnwindSafe(|| solve(goal, options, &instance, &rows)));
        let failed = |why: String| SolveFailure { policy: asked_by.clone(), question, why };
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
    asked: &[SolverJob],
) -> Result<(Vec<Row>, Vec<PairRow>), SolveError> {
    let mut answer = goal.solve(instance, options)?;
    // Who takes all types for equal prefers none; without sharing the solver sees to that.
    if options.sharing && goal.is_type_neutral(options, &answer) {
        answer = spread_out(instance, answer);
    }
    let each = asked.iter().zip(answer.allocation.rows()).zip(isolated_speeds(instance));
    let rows = each.map(|((asked, shares), alone)| Row {
        task: asked.task,
        shares: shares.to_vec(),
        left: asked.left,
        alone,
        isolated_s: asked.isolated_s,
    });
    let pair = |pair: PairShare| {
        let [a, b] = pair.jobs.map(|m| asked[m].task);
        PairRow { tasks: [a.min(b), a.max(b)], shares: pair.shares }
    };
    let rows = rows.collect();
    let mut pairs: Vec<PairRow> = answer.pairs.into_iter().map(pair).collect();
    pairs.sort_by_key(|pair| pair.tasks);
    Ok((rows, pairs))
}

/// Everyone's time spread over the types, unless that takes more of some type than there is of it: not everyone runs
/// everywhere.
fn spread_out(instance: &Instance, answer: Solution) -> Solution {
    let alone = answer.allocation.rows().enumerate().map(|(m, row)| spread(instance, row, &[m]));
    let alone: Vec<Vec<f64>> = alone.collect();
    let beside =
        |pair: &PairShare| PairShare { jobs: pair.jobs, shares: spread(instance, &pair.shares, &pair.jobs) };
    let pairs: Vec<PairShare> = answer.pairs.iter().map(beside).collect();
    let fits = |(j, t): (usize, &GpuType)| {
        let gpus = |m: usize| f64::from(instance.jobs[m].gpus);
        let by_itself: f64 = alone.iter().enumerate().map(|(m, row)| gpus(m) * row[j]).sum();
        let together: f64 = pairs.iter().map(|pair| gpus(pair.jobs[0]) * pair.shares[j]).sum();
        by_itself + together <= f64::from(t.count) + FEASIBLE
    };
    if !instance.types.iter().enumerate().all(fits) {
        return answer;
    }
    Solution { allocation: Shares::new(instance.types.len(), alone.concat()), pairs, ..answer }
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
                || instance.pairs.as_ref()?.paired(&instance.types[j].name, &profile(a)?, &profile(b)?);
            known().is_some()
        }
        _ => true,
    };
    let runs = |m: usize, j: usize| {
        instance.jobs[m].throughputs[j] > 0.0 && instance.jobs[m].gpus <= instance.types[j].count
    };
    let able = |j: usize| jobs.iter().all(|&m| runs(m, j)) && together(j);
    let count = |j: usize| if able(j) { f64::from(instance.types[j].count) } else { 0.0 };
    let all: f64 = (0..shares.len()).map(count).sum();
    let time: f64 = shares.iter().sum();
    (0..shares.len()).map(|j| if all > 0.0 { time * count(j) / all } else { shares[j] }).collect()
}

/// Quantities of one task for the solver, beyond its speeds.
struct SolverJob {
    task: TaskId,
    left: f64,
    isolated_s: f64,
}

impl SolverJob {
    fn of(input: &RoundInput<'_>, member: &Member<'_>) -> SolverJob {
        let left = steps_left(input, member);
        let isolated_s = input.view.shares().row(member.task).map_or(0.0, |row| {
            let more = if row.alone > 0.0 { (row.left - left).max(0.0) / row.alone } else { 0.0 };
            row.isolated_s + more
        });
        SolverJob { task: member.task, left, isolated_s }
    }
}

/// Remaining steps of a task: as reported, otherwise estimated from its speeds and its time so far.
fn steps_left(input: &RoundInput<'_>, member: &Member<'_>) -> f64 {
    let speeds = &member.candidate.speeds;
    let able = speeds.iter().filter(|speed| **speed > 0.0);
    let mean = able.clone().sum::<f64>() / able.count().max(1) as f64;
    let total = member.spec.steps.map_or_else(
        || mean * member.spec.expected().map_or(UNKNOWN_LENGTH, |expected| expected.secs().max(1.0)),
        |steps| (steps as f64).max(1.0),
    );
    let had = |(kind, speed): (&String, &f64)| {
        let (view, task, now) = (input.view, member.task, input.now);
        speed * (view.had(task, kind, now) - view.shared(task, kind, now).lost).secs()
    };
    let reported = || member.job.node(member.task.node)?.0.live.get(&member.task.index)?.steps;
    let done = reported().map_or_else(|| input.kinds.iter().zip(speeds).map(had).sum(), |steps| steps as f64);
    (total - done).max(total * LEAST_LEFT)
}

fn instance(policy: &ByGoal, input: &RoundInput<'_>, rows: &[SolverJob]) -> Instance {
    let shares = input.view.shares();
    let types = input.kinds.iter().zip(&input.counts).map(|(name, &count)| GpuType {
        name: name.clone(),
        count,
        cost_per_hour: Some(shares.cost_per_hour(name).unwrap_or(1.0)),
        per_server: None,
    });
    let jobs = input.members.iter().zip(rows).enumerate().map(|(i, (member, asked))| {
        let due = member.job.spec.deadline.map(|deadline| member.job.submitted + deadline);
        Job {
            // Who takes turns shares nobody's time.
            profile: member.spec.profile.clone().filter(|_| !member.takes_turns),
            gpus: member.candidate.gpus,
            weight: member.job.spec.weight.unwrap_or(1.0),
            steps: Some(asked.left),
            age_s: input.now.since(member.job.submitted).secs(),
            isolated_time_s: asked.isolated_s,
            deadline_s: due.map(|due| due.since(input.now).secs().max(1.0)),
            ..Job::new(i as u64, member.candidate.speeds.clone())
        }
    });
    let entities = policy.goal.entities.then(|| entities(input, &policy.entity_config));
    let options = policy.options;
    let pairs = options.sharing.then(|| policy.speeds().pairs(options.types));
    Instance { types: types.collect(), jobs: jobs.collect(), pairs, entities }
}

/// Entities: projects, or users for jobs without one.
fn entities(input: &RoundInput<'_>, entity_config: &EntityConfig) -> Entities {
    let whose = |member: &Member<'_>| member.job.spec.project.as_ref().unwrap_or(&member.job.user).clone();
    entity_config.entities(input.members.iter().map(whose))
}

/// Fingerprint of everything that makes a new target worth solving for: tasks, speeds and capacity.
fn number(input: &RoundInput<'_>, pairs: Option<u64>) -> u64 {
    let mut hash = Fnv::default();
    pairs.into_iter().for_each(|pairs| hash.word(pairs));
    for (kind, count) in input.kinds.iter().zip(&input.counts) {
        hash.bytes(kind.as_bytes());
        hash.word(u64::from(*count));
        hash.word(input.view.shares().cost_per_hour(kind).unwrap_or(1.0).to_bits());
    }
    for member in &input.members {
        hash.word(member.task.job.0);
        hash.word(u64::from(member.task.node) << 32 | u64::from(member.task.index));
        hash.word(u64::from(member.candidate.gpus));
        hash.word(member.job.spec.weight.unwrap_or(1.0).to_bits());
        member.candidate.speeds.iter().for_each(|speed| hash.word(speed.to_bits()));
    }
    hash.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_allocate::{TypeAwareness, goal};
    use warpyard_core::JobId;

    /// The shares on a V100 and a K80 of those who do not know types, where jobs may share.
    fn blind(name: &str, speeds: &[[f64; 2]]) -> Vec<Vec<f64>> {
        let jobs =
            speeds.iter().zip(0..).map(|(row, id)| Job { steps: Some(10.0), ..Job::new(id, row.to_vec()) });
        let types = ["V100", "K80"].map(|name| GpuType::new(name, 1)).to_vec();
        let instance =
            Instance { types, jobs: jobs.collect(), pairs: Some(Default::default()), entities: None };
        let asked = |m: usize| SolverJob {
            task: TaskId { job: JobId(m as u64), node: 0, index: 0 },
            left: 10.0,
            isolated_s: 0.0,
        };
        let asked: Vec<SolverJob> = (0..speeds.len()).map(asked).collect();
        let options = Options { types: TypeAwareness::Blind, sharing: true, ..Options::default() };
        let (rows, _) = solve(goal(name).unwrap(), options, &instance, &asked).unwrap();
        rows.into_iter().map(|row| row.shares).collect()
    }

    #[test]
    fn who_does_not_know_types_prefers_none() {
        for row in blind("max-min", &[[4.0, 1.0], [2.0, 2.0], [3.0, 1.0]]) {
            assert!((row[0] - 1.0 / 3.0).abs() < 1e-9 && row[0] == row[1], "{row:?}");
        }
    }

    #[test]
    fn queues_and_rules_say_where() {
        for name in ["allox", "fifo-hetero"] {
            let rows = blind(name, &[[4.0, 1.0], [2.0, 2.0], [3.0, 1.0]]);
            assert!(rows.iter().flatten().all(|share| *share == 0.0 || *share == 1.0), "{name}: {rows:?}");
        }
    }

    #[test]
    fn nobody_is_spread_to_where_there_is_no_room() {
        let rows = blind("max-min", &[[4.0, 0.0], [2.0, 2.0]]);
        let used = |j: usize| rows.iter().map(|row| row[j]).sum::<f64>();
        assert!(used(0) <= 1.0 + 1e-9 && used(1) <= 1.0 + 1e-9, "{rows:?}");
    }
}
