//! Why something does not run, in words and numbers.

use crate::replica::Reader;
use crate::shortage_text::lacking;
use crate::summary::{needs, outcome, state, task_name};
use crate::units::size;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{FreeDevice, TaskAhead, WhyView};
use warpyard_core::cluster::{Cause, Job};
use warpyard_core::event::{Outcome, RequestedBy, StopReason};
use warpyard_core::explain::{Explanation, RoundStatus, WaitReason, without_policy};
use warpyard_core::limits::LimitKind;
use warpyard_core::policy::Policy;
use warpyard_core::pool::{Charge, DeviceState};
use warpyard_core::shortage::Shortage;
use warpyard_core::spec::{self, TaskSpec, WaitMode};
use warpyard_core::{Cluster, NodeId, TaskId, TaskState, Time};

/// A reason in a few words, for a table.
fn short(cluster: &Cluster, task: TaskId, why: &Explanation, now: Time) -> Option<String> {
    let spec = || cluster.job(task.job).and_then(|j| j.node(task.node)).map(|(_, spec)| spec);
    Some(match &why.reason {
        WaitReason::Held => "held".into(),
        WaitReason::Backoff { until, failures } => {
            let wait = until.since(now).secs().ceil().max(1.0);
            let times = if *failures == 1 { "once".to_owned() } else { format!("{failures} times") };
            format!("failed {times}, retries in {}", seconds(wait))
        }
        WaitReason::AfterTasks(nodes) => {
            let job = cluster.job(task.job)?;
            let names: Vec<_> =
                nodes.iter().take(3).map(|&n| job.spec.tasks[n as usize].name.as_str()).collect();
            format!("after {}", names.join(", "))
        }
        WaitReason::AfterJobs(jobs) => {
            let ids: Vec<_> = jobs.iter().take(3).map(ToString::to_string).collect();
            format!("after job {}", ids.join(", "))
        }
        WaitReason::ArrayFull { at_once } => format!("at most {at_once} of its array run at once"),
        WaitReason::AtLimit(at) => at.to_string(),
        WaitReason::NoWorker => "no worker takes new tasks".into(),
        WaitReason::NoRoom => lacking(cluster, &spec()?.needs),
        WaitReason::Reserved { for_task, .. } => format!("GPUs are reserved for job {}", for_task.job),
        WaitReason::EndsSooner { .. } => "ends sooner on a faster GPU that is about to be free".into(),
        WaitReason::Withheld(_) => "free GPUs are kept for shorter tasks".into(),
        WaitReason::Round(standing) => in_rounds(standing),
        WaitReason::NotItsTurn => "others go first".into(),
        WaitReason::Next => "starts next".into(),
        WaitReason::Starting => "starting".into(),
        WaitReason::Running => return over_request(cluster, task),
        WaitReason::Paused(Some(RequestedBy::User)) => "paused by a user".into(),
        WaitReason::Paused(Some(RequestedBy::Policy)) => "preempted".into(),
        WaitReason::Paused(None) => "resuming".into(),
        WaitReason::Stopping(StopReason::Cancelled) => "being cancelled".into(),
        WaitReason::Stopping(StopReason::Killed) => "being killed".into(),
        WaitReason::Stopping(StopReason::Idle(_)) => "being ended because its GPUs are idle".into(),
        WaitReason::Stopping(StopReason::Requeued) => "saving, to run again later".into(),
        WaitReason::Done(_) => return None,
        WaitReason::Skipped(Cause::Node(n)) => {
            let job = cluster.job(task.job)?;
            let name = &job.spec.tasks[*n as usize].name;
            let node = &job.nodes[*n as usize];
            let worst = Outcome::ALL.into_iter().rev().find(|o| node.done.count(*o) > 0)?;
            format!("{name} {}", how_it_ended(worst))
        }
        WaitReason::Skipped(Cause::Job(job)) => {
            let ended = cluster.job(*job).and_then(Job::outcome).map_or("ended the wrong way", how_it_ended);
            format!("job {job} {ended}")
        }
    })
}

/// That a task uses more GPU memory than it requested: of its devices, the one on which it is charged most.
fn over_request(cluster: &Cluster, task: TaskId) -> Option<String> {
    let charged = cluster.over_request(task).map(|(_, bytes)| bytes).max()?;
    let requested = cluster.view().spec(task)?.1.needs.gpu_memory?;
    Some(format!("uses {} of GPU memory, requested {}", size(charged), size(requested)))
}

/// An outcome as the rest of a sentence.
fn how_it_ended(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::TimedOut => "timed out",
        Outcome::Cancelled => "was cancelled",
        Outcome::Lost => "was lost",
        Outcome::Skipped => "never ran",
    }
}

/// How a task stands that gets shares of time: "aims at 45 % of v100, had 40 %".
fn in_rounds(standing: &RoundStatus) -> String {
    let part = |share: f64| format!("{:.0} %", 100.0 * share);
    let aimed = standing.shares.iter().filter(|(_, target, had)| *target > 5e-4 || *had > 5e-4);
    let each: Vec<_> = aimed
        .map(|(kind, target, had)| format!("{} of {kind} (had {})", part(*target), part(*had)))
        .collect();
    let mut words = match &each[..] {
        [] => "has no share yet".to_owned(),
        each => format!("its share is {}", each.join(" and ")),
    };
    if standing.still {
        words = format!("suspended on its GPU until its turn; {words}");
    }
    if standing.freeing {
        words += "; a GPU is being freed for it";
    }
    words
}

/// What a task needs, in words: "2 GPUs with 10 GiB each on one worker".
pub(crate) fn needs_in_words(spec: &TaskSpec) -> String {
    let together = if spec.needs.gpus > 1 { " on one worker" } else { "" };
    let scope = match &spec.needs.scope[..] {
        [] => String::new(),
        scope => format!(" among {}", numbers(scope)),
    };
    in_words(&spec.needs, &format!("{together}{scope}"))
}

/// The same as briefly as a table wants it, without which GPUs it may have: "2 GPUs with 10 GiB each".
pub(crate) fn needs_in_brief(needs: &spec::Needs) -> String {
    in_words(needs, "")
}

/// What a task needs; after its GPUs, what is said of where they are.
fn in_words(needs: &spec::Needs, place: &str) -> String {
    let mut words = String::new();
    if needs.gpus > 0 {
        let kinds = needs.gpu_types.join(" or ");
        let kinds = if kinds.is_empty() { String::new() } else { format!("{kinds} ") };
        words = match needs.gpus {
            1 => format!("1 {kinds}GPU"),
            n => format!("{n} {kinds}GPUs"),
        };
        match needs.gpu_memory {
            Some(bytes) if needs.gpus == 1 => words += &format!(" with {}", size(bytes)),
            Some(bytes) => words += &format!(" with {} each", size(bytes)),
            None => {}
        }
        words += place;
        if !needs.preferred.is_empty() && needs.wait_mode == WaitMode::Queue {
            let which = if needs.preferred.len() == 1 { "GPU" } else { "GPUs" };
            words += &format!(", waits for {which} {}", numbers(&needs.preferred));
        }
    }
    let mut also = |text: String| {
        if !words.is_empty() {
            words += ", ";
        }
        words += &text;
    };
    if needs.cpus > 0 {
        also(if needs.cpus == 1000 { "1 CPU".into() } else { format!("{} CPUs", MilliCpus(needs.cpus)) });
    }
    if needs.memory > 0 {
        also(format!("{} of memory", size(needs.memory)));
    }
    if words.is_empty() { "nothing in particular".into() } else { words }
}

pub(crate) fn numbers(devices: &[warpyard_core::DeviceId]) -> String {
    let ids: Vec<_> = devices.iter().map(|d| d.index.to_string()).collect();
    ids.join(", ")
}

/// Why a task does not run, without asking the policy: nothing for one that runs or is over. One for which there is room
/// waits for others that the policy puts first.
pub(crate) fn of_task(cluster: &Cluster, task: TaskId, now: Time) -> Option<String> {
    if let Some(why) = without_policy(cluster.view(), task, now) {
        return short(cluster, task, &why, now);
    }
    let waits = matches!(cluster.state(task), Some(TaskState::Ready { .. }));
    let (_, spec) = cluster.job(task.job).filter(|_| waits)?.node(task.node)?;
    let has_room = Shortage::of(cluster.pool(), &spec.needs) == Shortage::None;
    let reason = if has_room { WaitReason::NotItsTurn } else { WaitReason::NoRoom };
    short(cluster, task, &Explanation::plain(reason), now)
}

/// The same for the task of a node that matters most: the first that is not over.
pub(crate) fn of_node(cluster: &Cluster, job: &Job, node: NodeId, now: Time) -> Option<String> {
    let state = &job.nodes[node.node as usize];
    let first = state.live.keys().next().copied().or(state.first_open());
    of_task(cluster, node.task(first.unwrap_or(0)), now)
}

/// The same for a job.
pub(crate) fn of_job(cluster: &Cluster, job: &Job, now: Time) -> Option<String> {
    let open = job.nodes.iter().position(|n| !n.is_done());
    let ended_badly = || job.nodes.iter().position(|n| n.skipped_by.is_some());
    let node = open.or_else(ended_badly).unwrap_or(0) as u32;
    of_node(cluster, job, NodeId { job: job.id, node }, now)
}

/// The answer to `warpyard why`, but for what a forecast adds.
pub(crate) fn explain(f: &Reader<'_>, task: TaskId, now: Time) -> Option<WhyView> {
    explain_in(f.cluster(), f.policy(), task, now)
}

/// The same in any state.
pub(crate) fn explain_in(cluster: &Cluster, policy: &dyn Policy, task: TaskId, now: Time) -> Option<WhyView> {
    let view = cluster.view();
    let job = cluster.job(task.job)?;
    let (_, spec) = job.node(task.node)?;
    let is = cluster.state(task)?;
    let why = policy.explain(view, task, now);
    let reason = short(cluster, task, &why, now).unwrap_or_else(|| state(is).word().to_owned());
    let waiting = matches!(is, TaskState::Ready { .. });
    let mut text = vec![reason];
    if let WaitReason::Reserved { from, .. } = why.reason {
        text.push(match from.since(now).known() {
            Some(wait) => {
                format!("by the stated time limits, they are needed in {}", seconds(wait.secs()))
            }
            None => "when they are needed is unknown, because running tasks have no time limit".into(),
        });
    }
    if let WaitReason::EndsSooner { from } = why.reason {
        text.push(match from.since(now).known() {
            Some(wait) => format!("by its stated time limit, that one is free in {}", seconds(wait.secs())),
            None => "when that one is free is unknown".into(),
        });
    }
    if let WaitReason::AtLimit(at) = &why.reason
        && let LimitKind::GpuTime { until: Some(until), .. } = at.what
    {
        let wait = seconds(until.since(now).secs());
        text.push(format!("earlier GPU time leaves the window in {wait}"));
    }
    if let WaitReason::Round(standing) = &why.reason {
        if let Some(next) = standing.next.filter(|next| *next > now) {
            text.push(format!("the next round begins in {}", seconds(next.since(now).secs())));
        }
        if let Some(failed) = &standing.failed {
            text.push(format!("the shares in force are the last that could be found: {failed}"));
        }
    }
    if let Some(since) = since(is) {
        let word = state(is).word();
        // What only names the state says less than how long it has lasted.
        text.pop_if(|said| said == word);
        text.push(format!("{word} for {}", seconds(now.since(since).secs())));
    }
    let ahead = why.first_ahead.iter().filter_map(|&t| ahead(cluster, t, job, spec));
    let ahead: Vec<_> = ahead.take(3).collect();
    Some(WhyView {
        job: job.id.to_string(),
        task: spec.name.clone(),
        index: spec.array.as_ref().and_then(|a| a.value(task.index)),
        state: state(is),
        outcome: match is {
            TaskState::Done(ended) => Some(outcome(ended)),
            _ => None,
        },
        text,
        code: Some(why.reason.word().into()),
        needs: needs(cluster, spec),
        free: if waiting { free(cluster) } else { vec![] },
        ahead,
        position: why.ahead.map(|n| n + 1),
        expected_start: None,
        expected_start_reason: None,
        sooner: vec![],
        log_tail: vec![],
        log_of: None,
    })
}

fn since(is: TaskState<'_>) -> Option<Time> {
    match is {
        TaskState::Ready { since } => Some(since),
        TaskState::Placed(a) => Some(a.placed),
        TaskState::Running(a) | TaskState::Paused(a) => Some(a.since),
        _ => None,
    }
}

pub(crate) fn seconds(s: f64) -> String {
    warpyard_api::quantity::Micros((s.round() as u64) * 1_000_000).to_string()
}

fn ahead(cluster: &Cluster, id: TaskId, job: &Job, spec: &TaskSpec) -> Option<TaskAhead> {
    let other = cluster.job(id.job)?;
    let (_, theirs) = other.node(id.node)?;
    let because = match () {
        () if other.priority > job.priority => format!("priority {}", other.priority),
        () if theirs.expected() < spec.expected() && other.id > job.id => "expected to be shorter".into(),
        () => "submitted earlier".into(),
    };
    Some(TaskAhead {
        task: task_name(cluster, id),
        user: other.user.clone(),
        priority: other.priority,
        because,
    })
}

fn free(cluster: &Cluster) -> Vec<FreeDevice> {
    let workers = cluster.pool().workers().filter(|(_, w)| w.is_open());
    let devices = workers.flat_map(|(id, w)| {
        let name = cluster.worker(id).map_or("", |w| &w.info.name);
        // One that runs as many tasks as it may has memory left, but none to give.
        let usable = w.devices().filter(|(index, info, used)| {
            info.state == DeviceState::Usable && !used.is_whole() && w.device_admits(*index, Charge::Share(1))
        });
        usable.map(move |(index, info, used)| FreeDevice {
            device: format!("{name}/{index}"),
            kind: info.kind.clone(),
            free_bytes: info.budget.saturating_sub(used.shared_bytes()),
            whole: used.attempts() == 0,
        })
    });
    devices.filter(|d| d.free_bytes > 0).take(64).collect()
}
