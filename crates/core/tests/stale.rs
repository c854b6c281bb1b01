//! A policy that is wrong: it wants what cannot be, and asks to be heard again at once.

use warpyard_core::cluster::View;
use warpyard_core::engine::Engine;
use warpyard_core::explain::{Explanation, WaitReason};
use warpyard_core::policy::PolicyGroup;
use warpyard_core::store::Discard;
use warpyard_core::{Cluster, JobId, Plan, Policy, PolicyChoice, PolicyDef, Span, TaskId, Time};

struct Stubborn;

impl Policy for Stubborn {
    fn plan(&mut self, _: View<'_>, now: Time) -> Plan {
        let nobody = TaskId { job: JobId(7), node: 0, index: 0 };
        let wake_at = Some(now + Span::from_secs(60.0));
        Plan { resume: vec![nobody.attempt(1)], again: true, wake_at, ..Plan::default() }
    }

    fn explain(&self, _: View<'_>, _: TaskId, _: Time) -> Explanation {
        Explanation { reason: WaitReason::NoRoom, ahead: None, first_ahead: Vec::new() }
    }

    fn queue_order(&self, _: View<'_>, _: usize, _: Time) -> Vec<TaskId> {
        Vec::new()
    }

    fn formula(&self) -> &'static str {
        ""
    }

    fn formula_values(&self, _: View<'_>, _: TaskId, _: Time) -> Option<String> {
        None
    }
}

const POLICIES: &[PolicyDef] = &[PolicyDef {
    name: "stubborn",
    summary: "",
    group: PolicyGroup::Arrival,
    when: "",
    source: "",
    params: &[],
    build: |_| Box::new(Stubborn),
}];

#[test]
fn a_plan_of_which_nothing_comes_is_not_made_again_at_once() {
    let policy = PolicyChoice { name: "stubborn".into(), ..PolicyChoice::default() };
    let mut engine = Engine::new(Cluster::new(policy), POLICIES, Time(0)).expect("the policy is there");
    let turned = engine.turn(Vec::new(), Time(0), &mut Discard).expect("nothing fails");
    assert_eq!((turned.stale.len(), turned.events.len()), (1, 0));
    assert_eq!(
        engine.next_deadline(),
        Some(Time(60_000_000)),
        "what it wanted to be asked for later still counts"
    );
}
