//! Random stories: steps that any cluster can be taken through, whatever state it is in, and what must hold after each.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_core::command::{AttemptStatus, TaskSelector};
use warpyard_core::event::{End, EndReason, Usage, WorkerInfo};
use warpyard_core::limits::{Caps, GpuTime, GroupCaps, Limits};
use warpyard_core::place::acceptable;
use warpyard_core::pool::{Charge, DeviceInfo, DeviceState};
use warpyard_core::shares::{Allocation, PairRow, Row, Speed};
use warpyard_core::spec::*;
use warpyard_core::{Cluster, Command, DeviceId, NodeId, Span, TaskId, Time, WorkerId};

/// A job, a node of it, or positions of that: the first, and how many more.
pub(crate) type Part = (u8, Option<(u8, Option<(u8, u8)>)>);

/// One step of a story. Small numbers pick among what there is when the step is taken.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Submit {
        job: JobSpec,
        after: Option<(u8, DependencyCondition)>,
        user: u8,
    },
    Cancel(Part),
    /// Every job there is, at once.
    CancelAll,
    /// An attempt, if it is there, is given up for doing nothing with its devices.
    EndIdle {
        job: u8,
        task: (u8, u8),
        number: u8,
    },
    Hold(Part),
    Release(Part),
    Priority(u8, i64),
    Retry(Part, bool),
    Pause(Part),
    Resume(Part),
    Drain(u8, bool),
    Join(WorkerInfo),
    Report {
        worker: u8,
        standings: Vec<u8>,
        devices: Vec<u8>,
    },
    /// Attempts of a worker are measured to use so much of each of their devices.
    Memory(u8, Vec<u8>),
    /// A report sent before arrives (again).
    Echo(u8),
    GiveUp(u8),
    Forget(u8),
    /// Profile `p0` or `p1` is this fast on each type, alone and beside others.
    Speeds(u8, u8),
    Progress(u8, u8),
    /// Of everyone, of user `u0`, of each in group `g` and of it together; sometimes none at all.
    Limits(Option<Box<[Caps; 4]>>),
    /// Whether a user is in that group.
    Groups(u8, bool),
    /// Shares of time for the tasks on workers and those that wait.
    Target(Vec<u8>),
    Wait(u32),
}

/// Workers that are there from the start.
pub(crate) fn workers() -> impl Strategy<Value = Vec<WorkerInfo>> {
    let names = (0..3u8).map(|n| worker(n).boxed()).collect::<Vec<_>>();
    (names, 1..=3usize).prop_map(|(mut all, n)| {
        all.truncate(n);
        all
    })
}

fn worker(name: u8) -> impl Strategy<Value = WorkerInfo> {
    let devices = prop::collection::vec(device(), 0..=3);
    (devices, 1..=4u32, prop::option::of(Just(Span(15_000_000)))).prop_map(
        move |(mut devices, cpus, lease)| {
            for (i, d) in devices.iter_mut().enumerate() {
                d.uuid = format!("GPU-{name}-{i}");
                d.kind = if (usize::from(name) + i) % 3 == 0 { "K80".into() } else { "V100".into() };
            }
            WorkerInfo {
                name: format!("w{name}"),
                devices,
                cpus: cpus * 1000,
                memory: 64,
                lease,
                ..WorkerInfo::default()
            }
        },
    )
}

fn device() -> impl Strategy<Value = DeviceInfo> {
    (12..=16u64, prop::option::weighted(0.4, 1..=3u16), 0..20u8).prop_map(|(budget, limit, odd)| DeviceInfo {
        uuid: String::new(),
        kind: String::new(),
        memory: 16,
        budget,
        limit,
        overcommit: odd == 0,
        state: if odd == 1 { DeviceState::Foreign } else { DeviceState::Usable },
    })
}

fn device_id() -> impl Strategy<Value = DeviceId> {
    (0..3u32, 0..3u16).prop_map(|(w, index)| DeviceId { worker: WorkerId(w), index })
}

fn needs() -> impl Strategy<Value = Needs> {
    let devices = || {
        prop_oneof![
            5 => Just(vec![]),
            1 => prop::collection::vec(device_id(), 1..=3),
        ]
    };
    let memory = prop::option::of(prop::sample::select(vec![1u64, 4, 7, 12, 14, 16]));
    let types = prop_oneof![4 => Just(vec![]), 1 => Just(vec!["v100".to_owned()])];
    let mode = prop::sample::select(vec![WaitMode::Schedule, WaitMode::Queue]);
    let workers = prop_oneof![4 => Just(vec![]), 1 => Just(vec![WorkerId(0)]), 1 => Just(vec![WorkerId(1)])];
    (0..=3u16, memory, types, devices(), devices(), mode, workers, 0..=2u32, 0..=2u64).prop_map(
        |(gpus, gpu_memory, gpu_types, scope, preferred, wait_mode, workers, cpus, memory)| Needs {
            gpus,
            gpu_memory,
            gpu_types,
            scope,
            preferred,
            wait_mode,
            workers,
            cpus: cpus * 500,
            memory: memory * 20,
        },
    )
}

fn task() -> impl Strategy<Value = TaskSpec> {
    let array = prop_oneof![
        3 => Just(None),
        1 => (1..=6u32, prop::option::of(1..=3u32)).prop_map(|(n, at_once)| {
            Some(Array { ranges: vec![(1, n, 1)], at_once })
        }),
    ];
    let times = (prop::option::of(1..60u64), prop::option::of(1..60u64));
    let on_lost = prop::sample::select(vec![OnLost::Rerun, OnLost::Hold]);
    let preempt =
        prop::sample::select(vec![Preempt::None, Preempt::Freeze, Preempt::Requeue, Preempt::Yield]);
    let profile = prop::sample::select(vec![None, Some("p0".to_owned()), Some("p1".to_owned())]);
    (needs(), array, times, 0..=2u32, any::<bool>(), on_lost, (preempt, profile)).prop_map(
        |(needs, array, (timeout, expected), retries, retry_on_timeout, on_lost, (preempt, profile))| {
            TaskSpec {
                program: Program::new(["true"]),
                needs,
                array,
                timeout: timeout.map(|s| Span(s * 1_000_000)),
                expected: expected.map(|s| Span(s * 1_000_000)),
                retries,
                retry_on_timeout,
                on_lost,
                preempt,
                steps: profile.as_ref().map(|_| 1_000),
                profile,
                grace: default_grace(),
                ..TaskSpec::default()
            }
        },
    )
}

fn job() -> impl Strategy<Value = JobSpec> {
    let ons = prop::sample::select(vec![
        DependencyCondition::Ok,
        DependencyCondition::Ok,
        DependencyCondition::Fail,
        DependencyCondition::Any,
    ]);
    let edges = prop::collection::vec((any::<u8>(), any::<u8>(), ons), 0..=4);
    (prop::collection::vec(task(), 1..=4), edges, -2..=2i64).prop_map(|(mut tasks, edges, priority)| {
        let n = tasks.len();
        for (i, t) in tasks.iter_mut().enumerate() {
            t.name = format!("t{i}");
        }
        for (a, b, on) in edges {
            let (a, b) = (usize::from(a) % n, usize::from(b) % n);
            if a < b {
                tasks[b].after.push(AfterNode { node: a as u32, on });
            }
        }
        JobSpec { name: "job".into(), priority, tasks, ..JobSpec::default() }
    })
}

fn caps() -> impl Strategy<Value = Caps> {
    let few = || prop::option::of(0..6u32);
    let time = prop::option::of((1..200u64, 1..100u64));
    (few(), few(), prop::option::of(0..12u64), prop::option::of(1..60u64), time).prop_map(
        |(gpus, running, queued, timeout, time)| Caps {
            gpus,
            running,
            queued,
            timeout: timeout.map(|s| Span(s * 1_000_000)),
            gpu_time: time.map(|(most, window)| GpuTime {
                most: Span(most * 1_000_000),
                window: Span(window * 1_000_000),
            }),
            ..Caps::default()
        },
    )
}

/// A step of a story.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    let on = prop::sample::select(vec![
        DependencyCondition::Ok,
        DependencyCondition::Fail,
        DependencyCondition::Any,
    ]);
    let submit = (job(), prop::option::weighted(0.2, (any::<u8>(), on)), any::<u8>())
        .prop_map(|(job, after, user)| Step::Submit { job, after, user });
    let part = || (any::<u8>(), prop::option::of((any::<u8>(), prop::option::of((0..6u8, 0..4u8)))));
    let report =
        (any::<u8>(), prop::collection::vec(any::<u8>(), 1..=4), prop::collection::vec(0..24u8, 0..=3))
            .prop_map(|(worker, standings, devices)| Step::Report { worker, standings, devices });
    prop_oneof![
        8 => submit,
        3 => part().prop_map(Step::Cancel),
        1 => Just(Step::CancelAll),
        1 => (any::<u8>(), (0..4u8, 0..3u8), 1..4u8)
            .prop_map(|(job, task, number)| Step::EndIdle { job, task, number }),
        2 => part().prop_map(Step::Hold),
        3 => part().prop_map(Step::Release),
        1 => (any::<u8>(), -3..3i64).prop_map(|(j, p)| Step::Priority(j, p)),
        4 => (part(), any::<bool>()).prop_map(|(part, failed_only)| Step::Retry(part, failed_only)),
        2 => part().prop_map(Step::Pause),
        2 => part().prop_map(Step::Resume),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(w, d)| Step::Drain(w, d)),
        2 => (0..3u8).prop_flat_map(worker).prop_map(Step::Join),
        16 => report,
        3 => (any::<u8>(), prop::collection::vec(0..24u8, 1..=4)).prop_map(|(w, used)| Step::Memory(w, used)),
        2 => any::<u8>().prop_map(Step::Echo),
        1 => any::<u8>().prop_map(Step::GiveUp),
        1 => any::<u8>().prop_map(Step::Forget),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(p, s)| Step::Speeds(p, s)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(t, s)| Step::Progress(t, s)),
        1 => prop::option::weighted(0.8, [caps(), caps(), caps(), caps()]).prop_map(|caps| Step::Limits(caps.map(Box::new))),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(user, is_in)| Step::Groups(user, is_in)),
        2 => prop::collection::vec(any::<u8>(), 1..=6).prop_map(Step::Target),
        6 => (0..40_000_000u32).prop_map(Step::Wait),
    ]
}

/// Turns steps into commands; remembers reports so that they can come again.
#[derive(Default)]
pub(crate) struct Teller {
    pub(crate) now: Time,
    sent: Vec<Command>,
}

impl Teller {
    /// The command a step means now; none for one that means nothing now.
    pub(crate) fn command(&mut self, cluster: &Cluster, step: &Step) -> Option<Command> {
        let job = |n: u8| {
            let all: Vec<_> = cluster.jobs().iter().map(|j| j.id).collect();
            all.get(usize::from(n) % all.len().max(1)).copied()
        };
        let target = |&(n, part): &Part| {
            let node = |node: u8| Some(NodeId { job: job(n)?, node: u32::from(node % 4) });
            Some(match part {
                None => TaskSelector::Job(job(n)?),
                Some((at, None)) => TaskSelector::Node(node(at)?),
                Some((at, Some((i, 0)))) => TaskSelector::Task(node(at)?.task(u32::from(i))),
                Some((at, Some((i, n)))) => TaskSelector::Range {
                    node: node(at)?,
                    start: u32::from(i),
                    end: u32::from(i) + 1 + u32::from(n),
                },
            })
        };
        let worker = |n: u8| WorkerId(u32::from(n) % cluster.workers().count().max(1) as u32);
        Some(match step {
            Step::Submit { job: spec, after, user } => {
                let mut spec = spec.clone();
                spec.after =
                    after.and_then(|(n, on)| Some(AfterJob { job: job(n)?, on })).into_iter().collect();
                let env = (user % 3 > 0).then(|| {
                    std::sync::Arc::new(BTreeMap::from([("WHO".to_owned(), (user % 3).to_string())]))
                });
                Command::Submit { user: format!("u{}", user % 3), env, spec: spec.into() }
            }
            Step::Cancel(part) => Command::Cancel(target(part)?),
            Step::CancelAll => {
                Command::Several(cluster.jobs().iter().map(|j| Command::Cancel(j.id.into())).collect())
            }
            Step::EndIdle { job: n, task: (node, index), number } => {
                let task = TaskId { job: job(*n)?, node: u32::from(*node), index: u32::from(*index) };
                Command::EndIdle(task.attempt(u32::from(*number)), Span(5_000_000))
            }
            Step::Hold(part) => Command::Hold(target(part)?),
            Step::Release(part) => Command::Release(target(part)?),
            Step::Priority(n, p) => Command::SetPriority(job(*n)?, *p),
            Step::Retry(part, failed_only) => {
                Command::Retry { target: target(part)?, failed_only: *failed_only }
            }
            Step::Pause(part) => Command::Pause(target(part)?),
            Step::Resume(part) => Command::Resume(target(part)?),
            Step::Drain(w, drained) => Command::Drain { worker: worker(*w), drained: *drained, reason: None },
            Step::Join(info) => Command::Join(info.clone()),
            Step::Report { worker: w, standings, devices } => {
                let w = worker(*w);
                let report = report(cluster, w, standings, devices);
                self.sent.push(report.clone());
                report
            }
            Step::Memory(w, used) => measured(cluster, worker(*w), used),
            Step::Echo(n) => self.sent.get(usize::from(*n) % self.sent.len().max(1))?.clone(),
            Step::GiveUp(w) => Command::GiveUp(worker(*w)),
            Step::Forget(n) => Command::Forget(job(*n)?),
            Step::Speeds(profile, speed) => {
                let of = |kind: &str, factor: f64| Speed {
                    profile: format!("p{}", profile % 2),
                    gpus: u16::from(speed % 3) + 1,
                    kind: kind.to_owned(),
                    steps_per_second: f64::from(*speed) * factor,
                    measured: profile % 4 > 1,
                    beside: None,
                };
                let mut speeds = vec![of("K80", 1.0), of("V100", 0.37 * f64::from(profile / 32))];
                // Of most it is known too how fast they are beside each other.
                for other in [0, 1].into_iter().filter(|_| profile % 8 > 1) {
                    let beside = Speed { beside: Some(format!("p{other}")), ..of("K80", 0.7) };
                    let back = Speed {
                        profile: format!("p{other}"),
                        beside: Some(format!("p{}", profile % 2)),
                        ..of("K80", 0.6)
                    };
                    speeds.extend([beside, back]);
                }
                Command::SetSpeeds { speeds, costs: BTreeMap::from([("k80".to_owned(), 0.45)]) }
            }
            Step::Limits(caps) => {
                let limits = caps.as_deref().map(|&[everyone, user, each, together]| Limits {
                    everyone,
                    users: BTreeMap::from([("u0".to_owned(), user)]),
                    groups: BTreeMap::from([("g".to_owned(), GroupCaps { each, together })]),
                });
                Command::SetLimits(std::sync::Arc::new(limits.unwrap_or_default()))
            }
            Step::Groups(user, is_in) => {
                let groups = if *is_in { vec!["g".to_owned()] } else { vec![] };
                Command::TellGroups { user: format!("u{}", user % 3), groups }
            }
            Step::Progress(n, steps) => {
                let all: Vec<_> = cluster.workers().flat_map(|(w, _)| cluster.desired(w)).collect();
                let attempt = all.get(usize::from(*n) % all.len().max(1))?.attempt;
                Command::Progress { attempt, steps: u64::from(*steps) }
            }
            Step::Target(parts) => Command::SetTarget(Ok(Allocation {
                policy: cluster.policy().to_string(),
                question: u64::from(parts[0]),
                kinds: vec!["k80".into(), "v100".into()],
                rows: rows(cluster, parts),
                pairs: pairs(&rows(cluster, parts), parts),
            })),
            Step::Wait(by) => {
                self.now = self.now + Span(u64::from(*by));
                return None;
            }
        })
    }
}

fn rows(cluster: &Cluster, parts: &[u8]) -> Vec<Row> {
    let waits = cluster.view().ready_nodes().map(|node| node.task(0));
    let tasks: BTreeSet<TaskId> = cluster.view().on_workers().chain(waits).collect();
    let share = |i: usize| f64::from(parts[i % parts.len()]) / 600.0;
    let row = |(i, task)| Row {
        task,
        shares: vec![share(i), share(i + 1)],
        left: 10.0,
        alone: 0.3,
        isolated_s: 1.1,
    };
    tasks.into_iter().enumerate().map(row).collect()
}

/// Each with the next, where the parts say so.
fn pairs(rows: &[Row], parts: &[u8]) -> Vec<PairRow> {
    let pair = |(i, two): (usize, &[Row])| PairRow {
        tasks: [two[0].task, two[1].task],
        shares: vec![f64::from(parts[i % parts.len()] % 64) / 200.0, 0.1],
    };
    rows.windows(2).enumerate().filter(|(i, _)| parts[i % parts.len()] % 2 == 1).map(pair).collect()
}

/// The number that stands for a frozen attempt in a report, modulo 16.
pub(crate) const FROZEN: u8 = 12;

fn report(cluster: &Cluster, worker: WorkerId, standings: &[u8], devices: &[u8]) -> Command {
    let desired: Vec<_> = cluster.desired(worker).collect();
    let attempts = desired.iter().enumerate().filter_map(|(i, d)| {
        let over = |how| AttemptStatus::Over(End { how, usage: Usage { ran: Span(5), ..Usage::default() } });
        let standing = match standings[i % standings.len()] % 16 {
            0..=4 => AttemptStatus::Running,
            5..=7 => over(EndReason::Exited(0)),
            8 => over(EndReason::Exited(3)),
            9 => over(EndReason::TimedOut),
            10 => over(EndReason::Lost("gone".into())),
            11 => over(EndReason::NotStarted("no such file".into())),
            FROZEN => AttemptStatus::Frozen,
            13 => over(EndReason::Stopped),
            14 => over(EndReason::Declined("taken".into())),
            _ => return None,
        };
        Some((d.attempt, standing))
    });
    let known = cluster.worker(worker).map(|w| w.info.devices.as_slice()).unwrap_or_default();
    let state = |n: u8| match n {
        0 => DeviceState::Gone,
        1 => DeviceState::Foreign,
        _ => DeviceState::Usable,
    };
    let devices = known.iter().zip(devices).map(|(d, &n)| (d.uuid.clone(), state(n))).collect();
    Command::Report { worker, attempts: attempts.collect(), devices }
}

/// Attempts use so many bytes of each device; those above the memory of any device were not measured.
fn measured(cluster: &Cluster, worker: WorkerId, used: &[u8]) -> Command {
    let known = cluster.worker(worker).map(|w| w.info.devices.as_slice()).unwrap_or_default();
    let of = |i: usize| {
        let bytes = known.iter().enumerate().map(|(d, info)| (&info.uuid, used[(i + d) % used.len()]));
        bytes.filter(|(_, n)| *n < 20).map(|(uuid, n)| (uuid.clone(), u64::from(n))).collect()
    };
    let used = cluster.desired(worker).enumerate().map(|(i, d)| (d.attempt, of(i))).collect();
    Command::MeasuredMemory { worker, used }
}

/// What is given away, counted from the attempts themselves rather than from what the pool says.
#[derive(Default)]
struct Given {
    whole: u32,
    shares: u32,
    bytes: u64,
}

/// What must hold of every state there is.
pub(crate) fn assert_sound(cluster: &Cluster) {
    let mut given: BTreeMap<DeviceId, Given> = BTreeMap::new();
    let mut hosts: BTreeMap<WorkerId, (u32, u64)> = BTreeMap::new();
    let mut on_workers = BTreeSet::new();
    for job in cluster.jobs().iter() {
        for (n, node) in job.nodes.iter().enumerate() {
            let spec = &job.spec.tasks[n];
            let id = NodeId { job: job.id, node: n as u32 };
            let waiting = node.fresh.len() + node.held_fresh().len();
            let total = waiting + node.live.len() as u64 + node.done.total();
            assert_eq!(total, u64::from(spec.len()), "{id:?} has lost or gained a task");
            let active = node.live.values().filter(|l| l.attempt().is_some()).count() as u32;
            assert_eq!(active, node.active(), "{id:?} counts its attempts wrongly");
            if let Some(at_once) = spec.array.as_ref().and_then(|a| a.at_once) {
                assert!(active <= at_once, "{id:?} has {active} at once, not {at_once}");
            }
            if active > 0 {
                assert!(job.waiting.is_empty(), "{id:?} began before the jobs it waits for ended");
                for dep in &spec.after {
                    let met = job.nodes[dep.node as usize].satisfies(dep.on);
                    assert_eq!(met, Some(true), "{id:?} began before {dep:?}");
                }
            }
            for (&i, live) in &node.live {
                let Some(attempt) = live.attempt() else { continue };
                let p = &attempt.placement;
                on_workers.insert((p.worker, id.task(i)));
                let host = hosts.entry(p.worker).or_default();
                (host.0, host.1) = (host.0 + p.cpus, host.1 + p.memory);
                let infos = &cluster.worker(p.worker).unwrap().info.devices;
                for &(index, charge) in &p.devices {
                    let device = DeviceId { worker: p.worker, index };
                    let info = &infos[usize::from(index)];
                    assert!(acceptable(&spec.needs, device, info), "{id:?} is on {device}, not in its scope");
                    let given = given.entry(device).or_default();
                    match charge {
                        Charge::Whole | Charge::Beside => given.whole += 1,
                        Charge::Share(bytes) => {
                            given.shares += 1;
                            given.bytes += bytes;
                        }
                    }
                }
            }
        }
        assert_eq!(
            job.finished.is_some(),
            job.nodes.iter().all(|n| n.is_done()),
            "{} is or is not over",
            job.id
        );
    }
    for (id, w) in cluster.workers() {
        let listed: BTreeSet<_> = w.tasks().iter().map(|&t| (id, t)).collect();
        let counted: BTreeSet<_> = on_workers.iter().filter(|(at, _)| *at == id).copied().collect();
        assert_eq!(listed, counted, "what is on {id}");
        let used = cluster.pool().worker(id).unwrap();
        let (cpus, memory) = hosts.get(&id).copied().unwrap_or_default();
        assert_eq!(used.cpus_free(), w.info.cpus.saturating_sub(cpus), "processors of {id}");
        assert_eq!(used.memory_free(), w.info.memory.saturating_sub(memory), "memory of {id}");
        for (index, _, device) in used.devices() {
            let none = Given::default();
            let given = given.get(&DeviceId { worker: id, index }).unwrap_or(&none);
            assert_eq!(device.attempts(), given.whole + given.shares, "attempts on {id}/{index}");
            assert_eq!(device.shared_bytes(), given.bytes, "bytes of {id}/{index}");
        }
    }
}
