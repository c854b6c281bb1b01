//! Allocation goals as policies. The speed of each task on each GPU type is part of the state; a background solve
//! turns it into shares of time that meet the goal, and rounds realise the shares: at the end of a round the task that
//! got least of its promise goes first, tasks that allow it are preempted, and within a round only free capacity is
//! given out. Goals and the choice of a round are in `warpyard-allocate`; this module connects them to the cluster.
//!
//! A task that takes whole GPUs of one type has a share, and so has a task that states its memory and can be frozen
//! (`preempt = "freeze"`). All others start first come, first served, where the rounds leave capacity. With `sharing`,
//! two tasks may get the same GPUs where both profiles were measured with some partner: their speeds together are
//! estimated until measured. A pair is chosen for a round as a single task is.
//!
//! At the end of a round tasks are preempted as they allow: by ending (`requeue`, `yield`) or by freezing (`freeze`).
//! A frozen task that states its memory keeps that memory, and the time of its GPUs goes to another task whose stated
//! memory fits beside it (time slicing); at most one of them runs on a GPU, and the next starts or resumes only once
//! the previous one is frozen. A started one can continue on its devices only, so it counts as a task that runs on
//! their type alone. A task that needs a GPU whole waits until no frozen task is on it; meanwhile tasks yet to start
//! join time-sliced GPUs where they fit, and leave the others to tasks that could have them whole. A task that takes
//! whole GPUs and can only be frozen is never moved: frozen, it would free nothing.
//!
//! A task without a share is not time-sliced: one that no type could hold, or whose last worker was drained, runs
//! beside others as all tasks do that state their memory, and resumes if it is frozen.

mod draft;
mod entities;
mod fnv;
mod round_assignment;
mod round_input;
mod solver_input;
mod speeds;

use draft::PlanDraft;
use entities::EntityConfig;
use round_input::{MemberState, RoundInput};
use speeds::Speeds;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use warpyard_allocate::rounds::RoundScheduler;
use warpyard_allocate::{GOALS, GoalDef, Options, TypeAwareness};
use warpyard_core::cluster::View;
use warpyard_core::event::RequestedBy;
use warpyard_core::explain::{self, Explanation, RoundStatus, WaitReason};
use warpyard_core::policy::{
    BackgroundSolve, Param, Params, Policy, PolicyGroup, at_least, number, text, word,
};
use warpyard_core::{Plan, PolicyDef, TaskId, Time};

pub(crate) const TYPES: Param =
    word("types", &["aware", "blind"], "whether it knows that tasks are faster on some types than on others");
const ROUND: Param = at_least(SHORTEST_ROUND, number("round", 360.0, "a round's length in seconds"));
const RESTART: Param = at_least(
    0.0,
    number("restart", 0.0, "seconds a restart costs a task; it is moved only for more than that is worth"),
);
const PLACEMENT: Param = word(
    "placement",
    &["ignored", "modelled"],
    "whether it matters where a task's GPUs are; here they are always on one worker, never spread, so both are the same",
);
const SHARING: Param = word(
    "sharing",
    &["false", "true"],
    "whether two tasks may share their GPUs, where it is known or can be told how fast both profiles then are",
);
const INSIDE: Param = word(
    "inside",
    &["fair", "fifo"],
    "how a project shares its part among its tasks, where organisations does not say: evenly, or first come first served",
);
const ORGANISATIONS: Param = text(
    "organisations",
    entities::fault,
    "weights of projects, 1 where nothing is said, and how each shares inside: vision=2+nlp=1=fifo+nlp/speech=3; a project \
     called nlp/speech is part of nlp",
);

/// Parameters of every goal.
const PARAMS: &[Param] = &[TYPES, SHARING, PLACEMENT, ROUND, RESTART];
/// Parameters of a goal that distributes among entities.
const ENTITY_PARAMS: &[Param] = &[TYPES, SHARING, PLACEMENT, ROUND, RESTART, INSIDE, ORGANISATIONS];

/// Constructor of a policy: a function pointer, which cannot capture its goal.
type Constructor = fn(&Params) -> Box<dyn Policy>;

/// Constructors by index in [`GOALS`].
const BUILD: [Constructor; 16] = [
    build::<0>,
    build::<1>,
    build::<2>,
    build::<3>,
    build::<4>,
    build::<5>,
    build::<6>,
    build::<7>,
    build::<8>,
    build::<9>,
    build::<10>,
    build::<11>,
    build::<12>,
    build::<13>,
    build::<14>,
    build::<15>,
];

fn build<const GOAL: usize>(params: &Params) -> Box<dyn Policy> {
    Box::new(ByGoal::new(&GOALS[GOAL], params))
}

/// The policy that follows the goal at this index in [`GOALS`]. Evaluated at compile time, which also checks that there
/// is a constructor for every goal.
pub(crate) const fn policy(goal: usize) -> PolicyDef {
    let GoalDef { name, summary, when, source, entities, .. } = GOALS[goal];
    let params = if entities { ENTITY_PARAMS } else { PARAMS };
    PolicyDef { name, summary, group: PolicyGroup::Shares, when, source, params, build: BUILD[goal] }
}

/// Shortest round; below it switching would dominate.
const SHORTEST_ROUND: f64 = 0.1;

/// Policy that follows an allocation goal in rounds.
struct ByGoal {
    goal: &'static GoalDef,
    options: Options,
    rounds: RoundScheduler,
    /// Weights and policies of organisations, for the hierarchical goal.
    entity_config: EntityConfig,
    /// Speeds completed for the available types; only a cache.
    speeds: Mutex<Speeds>,
}

impl ByGoal {
    fn new(goal: &'static GoalDef, params: &Params) -> ByGoal {
        let types = if params.word("types") == "blind" { TypeAwareness::Blind } else { TypeAwareness::Aware };
        let rounds = RoundScheduler {
            round_s: params.number("round"),
            restart_s: params.number("restart"),
            restart_priced: true,
            upgrades: !goal.priced,
        };
        let entity_config = match goal.entities {
            true => EntityConfig::new(params.word("inside"), params.text("organisations")),
            false => EntityConfig::default(),
        };
        let sharing = params.word("sharing") == "true";
        ByGoal {
            goal,
            options: Options { types, sharing, ..Options::default() },
            rounds,
            entity_config,
            speeds: Mutex::default(),
        }
    }

    fn input<'a>(&self, view: View<'a>, now: Time) -> RoundInput<'a> {
        let boundary = view.shares().round_until().is_none_or(|until| until <= now);
        RoundInput::of(view, now, boundary, self.options, &mut self.speeds())
    }

    fn speeds(&self) -> MutexGuard<'_, Speeds> {
        self.speeds.lock().expect("completing speeds does not panic")
    }

    fn draft<'a>(&self, view: View<'a>, now: Time) -> PlanDraft<'a> {
        let input = self.input(view, now);
        let cost = |kind: &String| match self.goal.priced {
            true => view.shares().cost_per_hour(kind).unwrap_or(1.0),
            false => 1.0,
        };
        let costs: Vec<f64> = input.kinds.iter().map(cost).collect();
        PlanDraft::make(input, &self.rounds, &costs)
    }

    /// Wait reason of a task suspended until its turn.
    fn until_its_turn(&self, view: View<'_>, task: TaskId, now: Time) -> Option<Explanation> {
        let draft = self.draft(view, now);
        let member = draft.input.member(task)?;
        Some(Explanation::plain(WaitReason::Round(Box::new(in_rounds(&draft, member)))))
    }
}

impl Policy for ByGoal {
    fn plan(&mut self, view: View<'_>, now: Time) -> Plan {
        self.draft(view, now).plan(&self.rounds)
    }

    fn explain(&self, view: View<'_>, task: TaskId, now: Time) -> Explanation {
        if let Some(why) = explain::without_policy(view, task, now) {
            return match why.reason {
                WaitReason::Paused(Some(RequestedBy::Policy)) => {
                    self.until_its_turn(view, task, now).unwrap_or(why)
                }
                _ => why,
            };
        }
        let draft = self.draft(view, now);
        let line = draft.line();
        let place = line.iter().position(|t| *t == task);
        let reason = match draft.input.member(task) {
            _ if draft.starts(task) => WaitReason::Next,
            _ if !view.pool().workers().any(|(_, w)| w.is_open()) => WaitReason::NoWorker,
            Some(i) => WaitReason::Round(Box::new(in_rounds(&draft, i))),
            None => {
                let needs =
                    view.job(task.job).and_then(|job| job.node(task.node)).map(|(_, spec)| &spec.needs);
                needs
                    .and_then(|needs| explain::room(view, needs, &[]).err())
                    .unwrap_or(WaitReason::NotItsTurn)
            }
        };
        let first_ahead = line.into_iter().take(4).take_while(|t| *t != task).collect();
        Explanation { reason, ahead: place.map(|n| n as u64), first_ahead }
    }

    fn queue_order(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        let mut line = self.draft(view, now).line();
        line.truncate(most);
        line
    }

    fn formula(&self) -> &'static str {
        "for each type its promised share / its share so far; whoever was promised most of what it did not get goes first"
    }

    fn formula_values(&self, view: View<'_>, task: TaskId, now: Time) -> Option<String> {
        let draft = self.draft(view, now);
        let Some(member) = draft.input.member(task) else {
            let submitted = view.job(task.job)?.submitted;
            return Some(format!("no share of its own, so in order of arrival: t = {:.0}", submitted.secs()));
        };
        let RoundStatus { shares, .. } = in_rounds(&draft, member);
        let each = |(kind, promised, had): &(String, f64, f64)| {
            format!("{kind}: {:.0} % / {:.0} %", 100.0 * promised, 100.0 * had)
        };
        Some(shares.iter().map(each).collect::<Vec<_>>().join(", "))
    }

    fn background_solve(&self, view: View<'_>, now: Time) -> Option<BackgroundSolve> {
        solver_input::background_solve(self, &self.input(view, now))
    }
}

/// Round state of a task that has a share, for its wait reason.
fn in_rounds(draft: &PlanDraft<'_>, i: usize) -> RoundStatus {
    let input = &draft.input;
    let (view, now, member) = (input.view, input.now, &input.members[i]);
    let waited = now.since(member.job.submitted).secs().max(1e-6);
    let share = |(j, kind): (usize, &String)| {
        let pairs = input.pairs.iter().filter(|pair| pair.members.contains(&i));
        let promised = member.candidate.shares[j] + pairs.map(|pair| pair.candidate.shares[j]).sum::<f64>();
        (kind.clone(), promised, view.had(member.task, kind, now).secs() / waited)
    };
    RoundStatus {
        shares: input.kinds.iter().enumerate().map(share).collect(),
        next: view.shares().round_until(),
        still: matches!(member.state, MemberState::TimeSliced(..)),
        freeing: draft.given[i].is_some()
            && matches!(member.state, MemberState::Waiting | MemberState::TimeSliced(..)),
        failed: view.shares().failed().map(|failed| failed.why.clone()),
    }
}

/// Usable GPU types in lower case, sorted.
fn kinds_of(view: View<'_>) -> BTreeSet<String> {
    let open = view.pool().workers().filter(|(_, w)| w.is_open());
    let usable = open.flat_map(|(_, w)| w.devices().filter(|(_, info, _)| info.state == Default::default()));
    usable.map(|(_, info, _)| info.kind.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::POLICIES;

    #[test]
    fn every_goal_is_a_policy() {
        for goal in GOALS {
            let policy = POLICIES.iter().find(|policy| policy.name == goal.name);
            assert_eq!(policy.map(|p| p.summary), Some(goal.summary), "{}", goal.name);
        }
    }

    #[test]
    fn a_round_that_could_not_be_is_refused() {
        let refused = |choice: &str| {
            let checked = PolicyDef::checked(POLICIES, &choice.parse().unwrap());
            checked.err().map(|refused| refused.message)
        };
        assert_eq!(refused("max-min:round=-5").as_deref(), Some("'-5' is less than 0.1"));
        assert_eq!(refused("max-min:restart=-1").as_deref(), Some("'-1' is less than 0"));
        assert_eq!(refused("max-min:round=0.1,restart=0"), None);
    }

    #[test]
    fn every_goal_takes_what_all_goals_take() {
        for goal in GOALS {
            for asked in ["types=blind", "sharing=true", "placement=modelled"] {
                let choice = format!("{}:{asked}", goal.name).parse().unwrap();
                let refused = PolicyDef::checked(POLICIES, &choice).err().map(|refused| refused.message);
                assert_eq!(refused, None, "{}:{asked}", goal.name);
            }
        }
    }
}
