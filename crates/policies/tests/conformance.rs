//! Conformance of every policy to what the core expects, for each registry entry with default and other parameters, on
//! generated clusters and histories.

#[path = "../../core/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use support::{FROZEN, Step, Teller, assert_sound, step, workers};
use warpyard_allocate::GOALS;
use warpyard_core::command::{AttemptStatus, TaskSelector};
use warpyard_core::event::WorkerInfo;
use warpyard_core::explain::{self, WaitReason};
use warpyard_core::place::{Search, acceptable};
use warpyard_core::pool::{Charge, DeviceInfo, DeviceState, Ledger};
use warpyard_core::shares::{Allocation, Row, Speed};
use warpyard_core::spec::{Array, JobSpec, Needs, Preempt, Program, TaskSpec};
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
        "allox:sharing=true,round=10",
        "strategy-proof:sharing=true,round=10",
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
            life.execute(Command::Join(info.clone()));
        }
        life
    }

    fn now(&self) -> Time {
        self.teller.now
    }

    fn execute(&mut self, command: Command) {
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

    /// Devices that one who takes turns in rounds may have to leave: those on which others stand or run who do, for a while, and
    /// where anyone does, those that someone in line could have whole.
    fn left_by(&self, task: TaskId) -> Vec<DeviceId> {
        let view = self.cluster.view();
        let takes_turns = |task: TaskId| {
            let spec = view.spec(task).unwrap().1;
            spec.needs.gpus > 0 && spec.needs.gpu_memory.is_some() && spec.preempt == Preempt::Freeze
        };
        let in_rounds = GOALS.iter().any(|goal| goal.name == self.choice.name);
        if !in_rounds || !takes_turns(task) {
            return Vec::new();
        }
        let there = view.on_workers().filter(|task| takes_turns(*task));
        let mut left: Vec<DeviceId> =
            there.flat_map(|task| view.attempt(task).unwrap().0.placement.device_ids()).collect();
        if left.is_empty() {
            return left;
        }
        let needs = self.ready().into_iter().map(|task| &view.spec(task).unwrap().1.needs);
        for needs in needs.filter(|needs| needs.gpus > 0 && needs.gpu_memory.is_none()) {
            for (worker, w) in view.pool().workers() {
                let mut of_kind: BTreeMap<String, Vec<DeviceId>> = BTreeMap::new();
                for (index, info, _) in w.devices() {
                    let id = DeviceId { worker, index };
                    if acceptable(needs, id, info) {
                        of_kind.entry(info.kind.to_ascii_lowercase()).or_default().push(id);
                    }
                }
                left.extend(of_kind.into_values().filter(|of| of.len() >= usize::from(needs.gpus)).flatten());
            }
        }
        left
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

    /// Goes through a story. Nothing of a plan may be stale, and none may leave anything for another.
    fn tell(
        &mut self,
        steps: &[Step],
        mut look: impl FnMut(&mut Life, &Plan) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        for step in steps {
            if let Some(command) = self.teller.command(&self.cluster, step) {
                self.execute(command);
            }
            let plan = self.plan();
            look(self, &plan)?;
            self.settle(plan)?;
            let errand = self.policy.background_solve(self.cluster.view(), self.now());
            if let Some(errand) = errand {
                self.execute(errand());
                let again = self.policy.background_solve(self.cluster.view(), self.now()).is_some();
                prop_assert!(!again, "{} asks again what was answered", self.choice);
            }
        }
        Ok(())
    }

    /// Carries a plan out, and those that are asked for at once: each of them changes something, so there is an end to it.
    fn settle(&mut self, mut plan: Plan) -> Result<(), TestCaseError> {
        let most = 2 * tasks(&self.cluster).len();
        for _ in 0..=most {
            self.carry_out(&plan)?;
            let more = self.plan();
            if !plan.again {
                prop_assert!(more.is_empty(), "{} left {:?} after {:?}", self.choice, more, plan);
                return Ok(());
            }
            plan = more;
        }
        prop_assert!(plan.is_empty(), "{} goes on with {:?}", self.choice, plan);
        Ok(())
    }

    /// Goes on under another policy, with what this one left.
    fn hand_over(&mut self, to: &PolicyChoice) -> Result<(), TestCaseError> {
        self.execute(Command::SetPolicy(to.clone()));
        (self.policy, self.choice) = (fresh(to), to.clone());
        let plan = self.plan();
        self.settle(plan)
    }

    fn ready(&self) -> Vec<TaskId> {
        let ready = |t: &TaskId| matches!(self.cluster.state(*t), Some(TaskState::Ready { .. }));
        tasks(&self.cluster).into_iter().filter(ready).collect()
    }
}

fn fresh(choice: &PolicyChoice) -> Box<dyn Policy> {
    PolicyDef::build_from(POLICIES, choice).unwrap()
}

/// Takes every policy through a story, looking at each plan before it is carried out.
fn each(
    workers: &[WorkerInfo],
    steps: &[Step],
    mut look: impl FnMut(&mut Life, &Plan) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for choice in choices() {
        Life::new(&choice, workers).tell(steps, &mut look)?;
    }
    Ok(())
}

fn story() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..40)
}

/// A story in which attempts use no more memory than they requested, no device is described anew as smaller than what it already gave, and no frozen attempt goes on
/// beside those that took its place among the tasks of a device.
fn steady_story() -> impl Strategy<Value = Vec<Step>> {
    let steady = |step: &Step| !matches!(step, Step::Join(_) | Step::Memory(..));
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
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over-committing is left to devices marked so; scope, arrays and dependencies are respected by all.
    #[test]
    fn no_capacity_is_allocated_twice(workers in workers(), steps in steady_story()) {
        each(&workers, &steps, |life, _| {
            assert_sound(&life.cluster);
            assert_not_over_committed(&life.cluster);
            Ok(())
        })?;
    }

    /// The memory a plan may give away of a device is its budget less the larger of requested and used by each attempt.
    #[test]
    fn memory_in_use_is_not_allocated(workers in workers(), steps in story()) {
        each(&workers, &steps, |life, plan| {
            let pool = life.cluster.pool();
            let mut given: BTreeMap<DeviceId, u64> = BTreeMap::new();
            for start in &plan.start {
                for (id, &(_, charge)) in start.placement.device_ids().zip(&start.placement.devices) {
                    let (_, info, used) = pool.worker(id.worker).unwrap().devices().nth(id.index.into()).unwrap();
                    let Charge::Share(bytes) = charge else { continue };
                    let given = given.entry(id).or_insert(used.shared_bytes());
                    *given += bytes;
                    prop_assert!(info.overcommit || *given <= info.budget, "{} gives {} of {}", &life.choice, given, id);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_fresh_policy_plans_what_the_long_lived_one_plans(
        workers in workers(),
        steps in story(),
    ) {
        each(&workers, &steps, |life, plan| {
            prop_assert_eq!(&life.plan(), plan, "{} changed its mind", &life.choice);
            let mut new = fresh(&life.choice);
            prop_assert_eq!(&new.plan(life.cluster.view(), life.teller.now), plan, "a fresh {}", &life.choice);
            let many = usize::MAX;
            let (view, now) = (life.cluster.view(), life.teller.now);
            let (new, old) = (new.queue_order(view, many, now), life.policy.queue_order(view, many, now));
            prop_assert_eq!(new, old, "the line of a fresh {}", &life.choice);
            Ok(())
        })?;
    }

    #[test]
    fn every_ready_task_is_queued_and_has_a_wait_reason(workers in workers(), steps in story()) {
        each(&workers, &steps, |life, plan| {
            let view = life.cluster.view();
            let line = life.policy.queue_order(view, usize::MAX, life.teller.now);
            for task in life.ready() {
                let full = explain::without_policy(view, task, life.teller.now).is_some();
                prop_assert_eq!(line.contains(&task), !full, "{}: {:?} in line", &life.choice, task);
                let numbers = life.policy.formula_values(view, task, life.teller.now);
                let told = numbers.is_some_and(|numbers| !numbers.is_empty());
                prop_assert!(full || told, "{}: {:?} stands in line and nobody can say by what", &life.choice, task);
                let why = life.policy.explain(view, task, life.teller.now);
                let starts = plan.start.iter().any(|s| s.task == task);
                let reason_to_wait = matches!(
                    why.reason,
                    WaitReason::ArrayFull { .. } | WaitReason::AtLimit(_) | WaitReason::NoWorker | WaitReason::NoRoom | WaitReason::Reserved { .. }
                    | WaitReason::EndsSooner { .. }
                        | WaitReason::Withheld(_) | WaitReason::NotItsTurn | WaitReason::Round(_)
                );
                prop_assert_eq!(starts, why.reason == WaitReason::Next, "{}: {:?} {:?}", &life.choice, task, why);
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
            let Some(&first) = life.policy.queue_order(view, 1, life.teller.now).first() else { return Ok(()) };
            if plan.start.first().is_some_and(|s| s.task == first) {
                return Ok(());
            }
            let serial = life.choice.name == "priority-serial" && view.active() > 0;
            let ledger = Ledger::over(view.pool());
            let needs = &view.job(first.job).unwrap().node(first.node).unwrap().1.needs;
            let why = life.policy.explain(view, first, life.teller.now);
            let withheld = match why.reason {
                WaitReason::Withheld(_) | WaitReason::EndsSooner { .. } => true,
                WaitReason::Round(ref standing) => standing.freeing,
                _ => false,
            };
            let mut unwanted = life.useless_to(first);
            unwanted.extend(life.left_by(first));
            unwanted.sort_unstable();
            let fits = Search { withheld: &unwanted, ..Search::over(&ledger) }.place(needs).is_some();
            // What was asked of others may be promised to someone before it, and one that stands still may go on.
            let others = !plan.resume.is_empty() || view.unsettled().next().is_some();
            prop_assert!(serial || withheld || others || !fits, "{} lets {:?} wait: {:?}", &life.choice, first, why);
            Ok(())
        })?;
    }

    /// What one policy made stand still, asked to leave or gave a target is no stumbling block to another.
    #[test]
    fn a_policy_takes_over_from_another(
        workers in workers(),
        before in prop::sample::select(&["srtf", "wsjf:granularity=item", "las:quantum=5", "max-min:round=10"][..]),
        (first, then) in (story(), story()),
    ) {
        for choice in choices() {
            let mut life = Life::new(&before.parse().unwrap(), &workers);
            life.tell(&first, |_, _| Ok(()))?;
            life.hand_over(&choice)?;
            life.tell(&then, |life, _| {
                assert_sound(&life.cluster);
                Ok(())
            })?;
        }
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
                life.execute(command);
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
fn a_frozen_attempt_that_ends_releases_what_it_holds() {
    let device = DeviceInfo {
        uuid: "GPU-0".into(),
        kind: "V100".into(),
        memory: 16,
        budget: 12,
        limit: Some(1),
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker = WorkerInfo {
        name: "w".into(),
        devices: vec![device],
        cpus: 1000,
        memory: 64,
        ..WorkerInfo::default()
    };
    let needs = Needs { gpus: 1, gpu_memory: Some(1), ..Needs::default() };
    let task = TaskSpec { name: "t".into(), program: Program::new(["true"]), needs, ..TaskSpec::default() };
    let spec = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
    let submit = || Command::Submit { user: "ann".into(), env: None, spec: spec.clone().into() };
    for choice in choices() {
        let mut life = Life::new(&choice, std::slice::from_ref(&worker));
        life.execute(submit());
        let plan = life.plan();
        life.carry_out(&plan).unwrap();
        let attempt = TaskId { job: JobId(1), node: 0, index: 0 }.attempt(1);
        let report = |standing| Command::Report {
            worker: WorkerId(0),
            attempts: [(attempt, standing)].into_iter().collect(),
            devices: BTreeMap::new(),
        };
        let steps = [
            report(AttemptStatus::Running),
            Command::Pause(JobId(1).into()),
            report(AttemptStatus::Frozen),
            Command::Cancel(TaskSelector::Job(JobId(1))),
            submit(),
        ];
        for command in steps {
            life.execute(command);
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
fn a_reservation_on_one_machine_does_not_block_another() {
    let device = DeviceInfo {
        uuid: "GPU-0".into(),
        kind: "V100".into(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker = |name: &str, devices| WorkerInfo {
        name: name.into(),
        devices,
        cpus: 1000,
        memory: 64,
        ..WorkerInfo::default()
    };
    let workers = [worker("first", vec![device]), worker("second", vec![])];
    let submit = |gpus, memory, timeout: Option<u64>| {
        let needs = Needs { gpus, memory, ..Needs::default() };
        let timeout = timeout.map(|seconds| Span(seconds * 1_000_000));
        let task = TaskSpec {
            name: "t".into(),
            program: Program::new(["true"]),
            needs,
            timeout,
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
        Command::Submit { user: "ann".into(), env: None, spec: spec.into() }
    };
    let mut life = Life::new(&"backfill:reserve=conservative".parse().unwrap(), &workers);
    for command in [submit(1, 0, Some(60)), submit(1, 50, Some(60)), submit(0, 20, None)] {
        life.execute(command);
        let plan = life.plan();
        life.carry_out(&plan).unwrap();
    }
    let third = TaskId { job: JobId(3), node: 0, index: 0 };
    match life.cluster.state(third) {
        Some(TaskState::Placed(attempt)) => assert_eq!(attempt.placement.worker, WorkerId(1)),
        other => panic!("{other:?}"),
    }
}

/// Of four the first and the third began, as better devices were worth waiting for to the second, and their worker was lost:
/// those that never began stand in line as one.
#[test]
fn queue_positions_are_right_for_partially_started_arrays() {
    let device = |i: usize, kind: &str| DeviceInfo {
        uuid: format!("GPU-0-{i}"),
        kind: kind.into(),
        memory: 16,
        budget: 12,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker =
        |devices| WorkerInfo { name: "w0".into(), devices, cpus: 1000, memory: 64, ..WorkerInfo::default() };
    let task = TaskSpec {
        name: "t".into(),
        program: Program::new(["true"]),
        array: Some(Array { ranges: vec![(1, 4, 1)], at_once: Some(2) }),
        needs: Needs { gpus: 1, ..Needs::default() },
        profile: Some("p1".into()),
        steps: Some(1000),
        ..TaskSpec::default()
    };
    let job = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
    let steps = [
        Step::GiveUp(0),
        Step::Submit { job, after: None, user: 0 },
        Step::Speeds(37, 9),
        Step::Join(worker(vec![device(0, "K80"), device(1, "V100")])),
        Step::GiveUp(0),
    ];
    let mut life = Life::new(&"heft".parse().unwrap(), &[worker(vec![device(0, "K80")])]);
    for step in &steps {
        if let Some(command) = life.teller.command(&life.cluster, step) {
            life.execute(command);
        }
        let plan = life.plan();
        life.carry_out(&plan).unwrap();
    }
    let (view, now) = (life.cluster.view(), life.now());
    let line = life.policy.queue_order(view, usize::MAX, now);
    let indices: Vec<u32> = line.iter().map(|task| task.index).collect();
    assert_eq!(indices, [0, 1, 3, 2]);
    let told = line.iter().map(|task| life.policy.explain(view, *task, now).ahead);
    assert_eq!(told.collect::<Vec<_>>(), (0..4).map(Some).collect::<Vec<_>>());
}

/// One is given a processor that is free now, and another, moved up to a faster type, one that is not: the second may not
/// begin on the first one's, though it comes first by what it is owed.
#[test]
fn an_assignment_of_free_capacity_starts_at_once() {
    let device = |uuid: &str, kind: &str, memory| DeviceInfo {
        uuid: uuid.into(),
        kind: kind.into(),
        memory,
        budget: memory,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let worker = |name: &str, devices| WorkerInfo {
        name: name.into(),
        devices,
        cpus: 2000,
        memory: 64,
        ..WorkerInfo::default()
    };
    let workers = [
        worker("w0", vec![device("a", "A100", 16), device("b", "A100", 16)]),
        worker("w1", vec![device("c", "V100", 16)]),
        worker("w2", vec![device("d", "A100", 32)]),
    ];
    let speed = |kind: &str, steps_per_second| Speed {
        profile: "p".into(),
        gpus: 1,
        kind: kind.into(),
        steps_per_second,
        measured: true,
        beside: None,
    };
    let submit = |gpus, scope: &[(u32, u16)]| {
        let scope =
            scope.iter().map(|&(worker, index)| DeviceId { worker: WorkerId(worker), index }).collect();
        let needs = Needs { gpus, cpus: 1000, scope, ..Needs::default() };
        let profile = (gpus > 0).then(|| "p".to_owned());
        let steps = profile.as_ref().map(|_| 1000);
        let program = Program::new(["true"]);
        let task = TaskSpec { name: "t".into(), program, needs, profile, steps, ..TaskSpec::default() };
        let spec = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
        Command::Submit { user: "ann".into(), env: None, spec: spec.into() }
    };
    let task = |job| TaskId { job: JobId(job), node: 0, index: 0 };
    let row = |job, shares| Row { task: task(job), shares, left: 10.0, alone: 0.3, isolated_s: 1.1 };
    let mut life = Life::new(&"max-min".parse().unwrap(), &workers);
    life.execute(Command::SetSpeeds {
        speeds: vec![speed("A100", 10.0), speed("V100", 1.0)],
        costs: BTreeMap::new(),
    });
    life.execute(submit(0, &[]));
    let plan = life.plan();
    life.carry_out(&plan).unwrap();
    life.execute(Command::Report {
        worker: WorkerId(0),
        attempts: [(task(1).attempt(1), AttemptStatus::Running)].into_iter().collect(),
        devices: BTreeMap::new(),
    });
    life.execute(Command::Cancel(TaskSelector::Job(JobId(1))));
    life.execute(submit(1, &[(0, 0), (0, 1), (1, 0)]));
    life.execute(submit(1, &[]));
    life.execute(Command::SetTarget(Ok(Allocation {
        policy: life.cluster.policy().to_string(),
        question: 1,
        kinds: vec!["a100".into(), "v100".into()],
        rows: vec![row(2, vec![0.0, 0.9]), row(3, vec![0.5, 0.0])],
        pairs: vec![],
    })));
    let plan = life.plan();
    life.carry_out(&plan).unwrap();
    assert_eq!(life.plan().start, [].into(), "after {plan:?}");
}
