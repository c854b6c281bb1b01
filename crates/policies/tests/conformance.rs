//! What the core expects of every policy, checked for each entry of the registry with its own parameters and others, on
//! generated clusters and stories.

#[path = "../../core/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use support::{FROZEN, Step, Teller, assert_sound, step, workers};
use warpyard_allocate::GOALS;
use warpyard_core::command::{Standing, Target};
use warpyard_core::event::WorkerInfo;
use warpyard_core::explain::{self, Reason};
use warpyard_core::place::Search;
use warpyard_core::pool::{Charge, DeviceInfo, DeviceState, Ledger};
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};
use warpyard_core::{
    Cluster, Command, DeviceId, JobId, Plan, Policy, PolicyChoice, PolicyDef, Span, TaskId, TaskState, Time,
    WorkerId,
};
use warpyard_policies::POLICIES;

/// Every policy as it comes, and some with other parameters.
fn choices() -> Vec<PolicyChoice> {
    let plain = POLICIES.iter().map(|def| def.name.to_owned());
    let others = [
        "backfill:fit=first",
        "fifo:fit=worst",
        "sjf:behind=anyone,fit=spread",
        "sjf:behind=nobody,fit=fill",
        "short-first:keep=1,short=20",
        "short-first:keep=2,short=30,behind=anyone",
        "short-first:alpha=3600,beta=0,gamma=1,limit=30,few=4",
        "wsjf:by=ratio",
        "hybrid:fit=fill",
        "backfill:reserve=conservative",
        "backfill:reserve=conservative,depth=2",
        "gmin:load=memory",
        "wsjf:granularity=batch",
        "wsjf:by=ratio,granularity=item,behind=anyone",
        "srtf:behind=nobody",
        "las:quantum=5,factor=2",
        "drf:behind=anyone,fit=gradient",
        "backfill:fit=gradient",
        "fair-share:half_life=5",
        "fair-share:half_life=0,behind=nobody",
        "max-min:types=blind,round=20,restart=5",
        "max-min:sharing=true,round=10",
        "max-min-fill:sharing=true,types=blind,round=15,restart=2",
        "gandiva:sharing=true,round=10",
        "fifo-hetero:sharing=true,round=10",
        "hierarchical:sharing=true,inside=fifo,round=10",
        "finish-time:round=10",
        "hierarchical:inside=fifo,round=15",
        "hierarchical:organisations=ann=3+bob=1=fifo,round=10",
    ];
    plain.chain(others.map(str::to_owned)).map(|text| text.parse().unwrap()).collect()
}

/// A cluster and a policy that has seen everything that happened to it.
struct Life {
    cluster: Cluster,
    policy: Box<dyn Policy>,
    choice: PolicyChoice,
    teller: Teller,
}

impl Life {
    fn new(choice: &PolicyChoice, workers: &[WorkerInfo]) -> Life {
        let (cluster, policy) = (Cluster::new(choice.clone()), fresh(choice));
        let mut life = Life { cluster, policy, choice: choice.clone(), teller: Teller::default() };
        for info in workers {
            life.obey(Command::Join(info.clone()));
        }
        life
    }

    fn now(&self) -> Time {
        self.teller.now
    }

    fn obey(&mut self, command: Command) {
        if let Command::Submit { spec, .. } = &command
            && self.policy.accept(self.cluster.view(), spec).is_err()
        {
            return;
        }
        for event in self.cluster.decide(command, self.now()).unwrap_or_default() {
            let effects = self.cluster.apply(&event);
            self.policy.observe(self.cluster.view(), &effects);
        }
    }

    /// Devices on which a task is known to get nowhere, where the policy goes by that.
    fn useless_to(&self, task: TaskId) -> Vec<DeviceId> {
        let view = self.cluster.view();
        let spec = view.job(task.job).unwrap().node(task.node).unwrap().1;
        let goes_by_speed =
            self.choice.name == "heft" || GOALS.iter().any(|goal| goal.name == self.choice.name);
        let Some(profile) = spec.profile.as_ref().filter(|_| goes_by_speed) else { return Vec::new() };
        let useless = |kind: &str| {
            let speed = view.shares().speed(profile, spec.needs.gpus, kind);
            speed.is_some_and(|speed| speed.steps_per_second == 0.0)
        };
        let devices = view.pool().workers().flat_map(|(worker, w)| {
            w.devices().map(move |(index, info, _)| (DeviceId { worker, index }, &info.kind))
        });
        devices.filter(|(_, kind)| useless(kind)).map(|(id, _)| id).collect()
    }

    fn plan(&mut self) -> Plan {
        self.policy.plan(self.cluster.view(), self.teller.now)
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<(), TestCaseError> {
        let (events, stale) = self.cluster.admit(plan, self.now());
        prop_assert!(stale.is_empty(), "{}: {:?}", self.choice, stale);
        for event in events {
            let effects = self.cluster.apply(&event);
            self.policy.observe(self.cluster.view(), &effects);
        }
        Ok(())
    }

    fn ready(&self) -> Vec<TaskId> {
        let ready = |t: &TaskId| matches!(self.cluster.state(*t), Some(TaskState::Ready { .. }));
        tasks(&self.cluster).into_iter().filter(ready).collect()
    }
}

fn fresh(choice: &PolicyChoice) -> Box<dyn Policy> {
    PolicyDef::build_from(POLICIES, choice).unwrap()
}

/// Policies in which a place that is kept for one may turn out to be another's once the plan is carried out: where users take
/// turns, or running tasks give way. A second plan may start more there.
const LOOK_TWICE: [&str; 5] = ["drf", "fair-share", "las", "srtf", "wsjf"];

/// Takes every policy through a story, looking at each plan before it is carried out. Nothing of a plan may be stale, and
/// none may leave anything for another.
fn each(
    workers: &[WorkerInfo],
    steps: &[Step],
    mut look: impl FnMut(&mut Life, &Plan) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for choice in choices() {
        let mut life = Life::new(&choice, workers);
        for step in steps {
            if let Some(command) = life.teller.command(&life.cluster, step) {
                life.obey(command);
            }
            let plan = life.plan();
            look(&mut life, &plan)?;
            life.carry_out(&plan)?;
            let mut more = life.plan();
            let only_starts = more.pause.is_empty() && more.resume.is_empty() && more.requeue.is_empty();
            if only_starts && LOOK_TWICE.contains(&choice.name.as_str()) {
                life.carry_out(&more)?;
                more = life.plan();
            }
            prop_assert!(more.is_empty(), "{} left {:?} after {:?}", choice, more, plan);
            let errand = life.policy.errand(life.cluster.view(), life.now());
            if let Some(errand) = errand {
                life.obey(errand());
                let again = life.policy.errand(life.cluster.view(), life.now()).is_some();
                prop_assert!(!again, "{} asks again what was answered", choice);
            }
        }
    }
    Ok(())
}

fn story() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..40)
}

/// A story in which no device is described anew as smaller than what it already gave, and no frozen attempt goes on
/// beside those that took its place among the tasks of a device.
fn steady_story() -> impl Strategy<Value = Vec<Step>> {
    let steady = |step: &Step| !matches!(step, Step::Join(_));
    let unfrozen = |step: Step| match step {
        Step::Report { worker, standings, devices } => {
            let standings = standings.into_iter().map(|n| if n % 16 == FROZEN { 0 } else { n }).collect();
            Step::Report { worker, standings, devices }
        }
        other => other,
    };
    story().prop_map(move |steps| steps.into_iter().filter(steady).map(unfrozen).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over-committing is left to devices marked so; scope, arrays and dependencies are respected by all.
    #[test]
    fn nothing_is_given_twice(workers in workers(), steps in steady_story()) {
        each(&workers, &steps, |life, _| {
            assert_sound(&life.cluster);
            assert_not_over_committed(&life.cluster);
            Ok(())
        })?;
    }

    #[test]
    fn the_same_view_gives_the_same_plan_to_a_fresh_and_to_a_long_lived_policy(
        workers in workers(),
        steps in story(),
    ) {
        each(&workers, &steps, |life, plan| {
            prop_assert_eq!(&life.plan(), plan, "{} changed its mind", &life.choice);
            let mut new = fresh(&life.choice);
            prop_assert_eq!(&new.plan(life.cluster.view(), life.teller.now), plan, "a fresh {}", &life.choice);
            let many = usize::MAX;
            let (view, now) = (life.cluster.view(), life.teller.now);
            let (new, old) = (new.line(view, many, now), life.policy.line(view, many, now));
            prop_assert_eq!(new, old, "the line of a fresh {}", &life.choice);
            Ok(())
        })?;
    }

    #[test]
    fn everything_ready_is_in_line_and_has_a_reason_to_wait(workers in workers(), steps in story()) {
        each(&workers, &steps, |life, plan| {
            let view = life.cluster.view();
            let line = life.policy.line(view, usize::MAX, life.teller.now);
            for task in life.ready() {
                let full = explain::without_policy(view, task, life.teller.now).is_some();
                prop_assert_eq!(line.contains(&task), !full, "{}: {:?} in line", &life.choice, task);
                let numbers = life.policy.numbers(view, task, life.teller.now);
                let told = numbers.is_some_and(|numbers| !numbers.is_empty());
                prop_assert!(full || told, "{}: {:?} stands in line and nobody can say by what", &life.choice, task);
                let why = life.policy.explain(view, task, life.teller.now);
                let starts = plan.start.iter().any(|s| s.task == task);
                let reason_to_wait = matches!(
                    why.reason,
                    Reason::ArrayFull { .. } | Reason::AtLimit(_) | Reason::NoWorker | Reason::NoRoom | Reason::Reserved { .. }
                    | Reason::EndsSooner { .. }
                        | Reason::Withheld(_) | Reason::NotItsTurn | Reason::Round(_)
                );
                prop_assert_eq!(starts, why.reason == Reason::Next, "{}: {:?} {:?}", &life.choice, task, why);
                prop_assert!(starts || reason_to_wait, "{}: {:?} {:?}", &life.choice, task, why);
                if !full {
                    let place = line.iter().position(|t| *t == task).unwrap() as u64;
                    prop_assert_eq!(why.ahead, Some(place), "{}: {:?} in {:?}", &life.choice, task, line);
                }
            }
            Ok(())
        })?;
    }

    /// The first in line waits only for want of room (or of its turn, where one task runs at a time, or for better devices
    /// that are being freed for it).
    #[test]
    fn the_first_in_line_starts_if_it_fits(workers in workers(), steps in story()) {
        each(&workers, &steps, |life, plan| {
            let view = life.cluster.view();
            let Some(&first) = life.policy.line(view, 1, life.teller.now).first() else { return Ok(()) };
            if plan.start.first().is_some_and(|s| s.task == first) {
                return Ok(());
            }
            let serial = life.choice.name == "priority-serial" && view.active() > 0;
            let ledger = Ledger::over(view.pool());
            let needs = &view.job(first.job).unwrap().node(first.node).unwrap().1.needs;
            let why = life.policy.explain(view, first, life.teller.now);
            let withheld = match why.reason {
                Reason::Withheld(_) | Reason::EndsSooner { .. } => true,
                Reason::Round(ref standing) => standing.freeing,
                _ => false,
            };
            let useless = life.useless_to(first);
            let fits = Search { withheld: &useless, ..Search::over(&ledger) }.place(needs).is_some();
            // What was asked of others may be promised to someone before it, and one that stands still may go on.
            let others = !plan.resume.is_empty() || view.unsettled().next().is_some();
            prop_assert!(serial || withheld || others || !fits, "{} lets {:?} wait: {:?}", &life.choice, first, why);
            Ok(())
        })?;
    }

    /// On an idle cluster nobody is told there is no room for what was accepted, unless something there is out of use.
    #[test]
    fn what_was_accepted_can_start_on_an_idle_cluster(workers in workers(), steps in story()) {
        let whole = |w: &&WorkerInfo| w.devices.iter().all(|d| d.state == Default::default());
        let workers: Vec<_> = workers.iter().filter(whole).cloned().collect();
        prop_assume!(!workers.is_empty());
        for choice in choices() {
            for step in steps.iter().filter(|s| matches!(s, Step::Submit { after: None, .. })) {
                let mut life = Life::new(&choice, &workers);
                let command = life.teller.command(&life.cluster, step).unwrap();
                life.obey(command);
                let accepted = !life.ready().is_empty();
                prop_assert!(!accepted || !life.plan().start.is_empty(), "{} starts nothing of {:?}", choice, step);
            }
        }
    }
}
/// That no device or worker has been given more than it has.
fn assert_not_over_committed(cluster: &Cluster) {
    for (id, used) in cluster.pool().workers() {
        let info = &cluster.worker(id).unwrap().info;
        let (mut cpus, mut memory) = (0, 0);
        let mut on: BTreeMap<u16, Given> = BTreeMap::new();
        for &task in cluster.worker(id).unwrap().tasks() {
            let (attempt, _) = cluster.view().attempt(task).unwrap();
            let still = matches!(cluster.state(task), Some(TaskState::Paused(_)));
            cpus += attempt.placement.cpus;
            memory += attempt.placement.memory;
            for &(index, charge) in &attempt.placement.devices {
                let given = on.entry(index).or_default();
                match charge {
                    Charge::Whole => given.whole += 1,
                    Charge::Beside => given.beside += 1,
                    Charge::Share(bytes) => {
                        given.shares += 1;
                        given.bytes += bytes;
                        given.still += u32::from(still);
                    }
                }
            }
        }
        assert!(cpus <= info.cpus && memory <= info.memory, "{id} gave more than it has");
        for (index, device, _) in used.devices().filter(|(_, d, _)| !d.overcommit) {
            let Some(given) = on.get(&index) else { continue };
            assert!(given.whole <= 1, "{id}/{index} was given away whole {} times", given.whole);
            assert!(given.whole == 0 || given.shares == 0, "{id}/{index} is whole and shared");
            assert!(given.beside <= 2, "{id}/{index} was given to {} beside each other", given.beside);
            assert!(given.beside == 0 || given.whole + given.shares == 0, "{id}/{index} is not left to two");
            assert!(given.bytes <= device.budget, "{id}/{index} gave {} of {}", given.bytes, device.budget);
            if let Some(limit) = device.limit {
                assert!(given.shares - given.still <= u32::from(limit), "{id}/{index} has too many tasks");
            }
        }
    }
}

/// What is given away of a device.
#[derive(Default)]
struct Given {
    whole: u32,
    beside: u32,
    shares: u32,
    still: u32,
    bytes: u64,
}

/// Every task there is.
fn tasks(cluster: &Cluster) -> Vec<TaskId> {
    let all = cluster.jobs().iter().flat_map(|job| {
        let nodes = job.spec.tasks.iter().enumerate();
        nodes.flat_map(move |(n, spec)| {
            (0..spec.len()).map(move |index| TaskId { job: job.id, node: n as u32, index })
        })
    });
    all.collect()
}

/// What stands still has no place among the tasks of its devices to give back, but memory; also when it is being ended.
#[test]
fn one_that_ends_while_it_stands_still_gives_back_what_it_has() {
    let device = DeviceInfo {
        uuid: "GPU-0".into(),
        kind: "V100".into(),
        memory: 16,
        budget: 12,
        limit: Some(1),
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker = WorkerInfo { name: "w".into(), devices: vec![device], cpus: 1000, memory: 64, lease: None };
    let needs = Needs { gpus: 1, gpu_memory: Some(1), ..Needs::default() };
    let task = TaskSpec { name: "t".into(), command: vec!["true".into()], needs, ..TaskSpec::default() };
    let spec = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
    let submit = || Command::Submit { user: "ann".into(), env: None, spec: spec.clone().into() };
    for choice in choices() {
        let mut life = Life::new(&choice, std::slice::from_ref(&worker));
        life.obey(submit());
        let plan = life.plan();
        life.carry_out(&plan).unwrap();
        let attempt = TaskId { job: JobId(1), node: 0, index: 0 }.attempt(1);
        let report = |standing| Command::Report {
            worker: WorkerId(0),
            attempts: [(attempt, standing)].into_iter().collect(),
            devices: BTreeMap::new(),
        };
        let steps = [
            report(Standing::Running),
            Command::Pause(JobId(1)),
            report(Standing::Frozen),
            Command::Cancel(Target::Job(JobId(1))),
            submit(),
        ];
        for command in steps {
            life.obey(command);
            let plan = life.plan();
            life.carry_out(&plan).unwrap();
        }
        let second = TaskId { job: JobId(2), node: 0, index: 0 };
        if GOALS.iter().any(|goal| goal.name == choice.name) {
            assert!(matches!(life.cluster.state(second), Some(TaskState::Placed(_))), "{choice}");
        }
    }
}

/// The first machine will be short of memory once the GPU there is free for whom both are kept; the second will not.
#[test]
fn what_is_kept_on_one_machine_is_not_in_the_way_on_another() {
    let device = DeviceInfo {
        uuid: "GPU-0".into(),
        kind: "V100".into(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker =
        |name: &str, devices| WorkerInfo { name: name.into(), devices, cpus: 1000, memory: 64, lease: None };
    let workers = [worker("first", vec![device]), worker("second", vec![])];
    let submit = |gpus, memory, timeout: Option<u64>| {
        let needs = Needs { gpus, memory, ..Needs::default() };
        let timeout = timeout.map(|seconds| Span(seconds * 1_000_000));
        let task = TaskSpec {
            name: "t".into(),
            command: vec!["true".into()],
            needs,
            timeout,
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
        Command::Submit { user: "ann".into(), env: None, spec: spec.into() }
    };
    let mut life = Life::new(&"backfill:reserve=conservative".parse().unwrap(), &workers);
    for command in [submit(1, 0, Some(60)), submit(1, 50, Some(60)), submit(0, 20, None)] {
        life.obey(command);
        let plan = life.plan();
        life.carry_out(&plan).unwrap();
    }
    let third = TaskId { job: JobId(3), node: 0, index: 0 };
    match life.cluster.state(third) {
        Some(TaskState::Placed(attempt)) => assert_eq!(attempt.placement.worker, WorkerId(1)),
        other => panic!("{other:?}"),
    }
}
