//! Quotas: what users have, counted against their limits. Nothing is counted while no limits are in force, so that
//! limits cost nothing where there are none.
//!
//! A task takes its GPUs and all the GPU time it may use when it is placed; when it ends, its actual GPU time
//! replaces that and counts until the window has passed. So no user can exceed their GPU time in a window, and no
//! running task is ever ended for it.

use super::job::{Attempt, Job};
use super::{Cluster, View};
use crate::command::{Code, Rejection};
use crate::event::Env;
use crate::ids::{EnvId, NodeId, TaskId};
use crate::limits::{Caps, GpuTime, LimitExceeded, LimitKind, LimitOwner, Limits};
use crate::spec::{JobSpec, TaskSpec, env_size};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of parts a window is divided into: usage leaves the window a part at a time.
const PARTS: u64 = 64;

/// Limits in force, and the usage that counts against them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Quotas {
    #[serde(default)]
    pub(super) limits: Arc<Limits>,
    /// Groups of each user, as last set.
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
    /// GPU time of ended attempts, by user and by the end of the window part it fell into.
    #[serde(default)]
    used: BTreeMap<String, BTreeMap<Time, Span>>,
    /// Current usage by user; derived from attempts and tasks.
    #[serde(skip)]
    usage: BTreeMap<String, UserUsage>,
    /// Whether any limit is set.
    #[serde(skip)]
    in_force: bool,
    /// Whether any limit bounds what may start. Otherwise plans need not look at limits.
    #[serde(skip)]
    bound_starts: bool,
    /// Number of waiting tasks by node.
    #[serde(skip)]
    waiting: BTreeMap<NodeId, u64>,
}

/// Current usage of a user.
#[derive(Clone, Debug, Default, PartialEq)]
struct UserUsage {
    live: BTreeMap<TaskId, QuotaUse>,
    /// Sum over `live`.
    taken: QuotaUse,
    queued: u64,
    /// Size in bytes of the user's job documents and environments in memory.
    size: u64,
    /// Number of those jobs by environment; an environment counts once.
    envs: BTreeMap<EnvId, u32>,
}

/// Quota use of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QuotaUse {
    running: u32,
    gpus: u32,
    /// GPU time that may be used: GPUs times the longest run time.
    time: Span,
}

impl QuotaUse {
    fn plus(self, other: QuotaUse) -> QuotaUse {
        QuotaUse {
            running: self.running + other.running,
            gpus: self.gpus + other.gpus,
            time: self.time + other.time,
        }
    }

    fn minus(self, other: QuotaUse) -> QuotaUse {
        QuotaUse {
            running: self.running - other.running,
            gpus: self.gpus - other.gpus,
            time: self.time - other.time,
        }
    }
}

/// GPUs times a duration.
fn gpu_time(gpus: u32, length: Span) -> Span {
    Span(length.0.saturating_mul(u64::from(gpus)))
}

/// Quota use of a task once it is placed.
fn requested_use(spec: &TaskSpec) -> QuotaUse {
    let gpus = u32::from(spec.needs.gpus);
    let length = spec.claim.map_or(spec.timeout, |claim| claim.lasts).unwrap_or_default();
    QuotaUse { running: 1, gpus, time: gpu_time(gpus, length) }
}

/// Quota use of an attempt: a claim may have been extended beyond its request.
fn attempt_use(job: &Job, spec: &TaskSpec, attempt: &Attempt) -> QuotaUse {
    let asked = requested_use(spec);
    match job.until {
        Some(until) => QuotaUse { time: gpu_time(asked.gpus, until.since(attempt.placed)), ..asked },
        None => asked,
    }
}

impl Quotas {
    /// Whether any limit is set.
    pub(super) fn in_force(&self) -> bool {
        self.in_force
    }

    /// Whether any limit bounds what may start.
    pub(super) fn bound_starts(&self) -> bool {
        self.bound_starts
    }

    /// Counts a job in memory, or (`false`) discounts an evicted one. `env` is the environment it refers to, and its
    /// size.
    fn count_document(&mut self, user: &str, size: u64, env: Option<(EnvId, u64)>, kept: bool) {
        let usage_of_user = self.usage.entry(user.to_owned()).or_default();
        usage_of_user.size = if kept { usage_of_user.size + size } else { usage_of_user.size - size };
        if let Some((env, size)) = env {
            let jobs = usage_of_user.envs.entry(env).or_default();
            match kept {
                true if *jobs == 0 => (*jobs, usage_of_user.size) = (1, usage_of_user.size + size),
                true => *jobs += 1,
                false => *jobs -= 1,
            }
            if *jobs == 0 {
                usage_of_user.envs.remove(&env);
                usage_of_user.size -= size;
            }
        }
        self.remove_if_empty(user);
    }

    /// Limits and past usage, without the derived counts.
    pub(super) fn uncounted(&self) -> Quotas {
        let Quotas { limits, groups, used, .. } = self;
        Quotas { limits: limits.clone(), groups: groups.clone(), used: used.clone(), ..Quotas::default() }
    }

    fn groups_of(&self, user: &str) -> &[String] {
        self.groups.get(user).map(Vec::as_slice).unwrap_or_default()
    }

    fn caps_of(&self, user: &str) -> Caps {
        self.limits.caps_of(user, self.groups_of(user))
    }

    fn longest_window(&self) -> Option<Span> {
        self.limits.windows().max()
    }

    fn take(&mut self, user: &str, task: TaskId, taken: QuotaUse) {
        let usage_of_user = self.usage.entry(user.to_owned()).or_default();
        if let Some(before) = usage_of_user.live.insert(task, taken) {
            usage_of_user.taken = usage_of_user.taken.minus(before);
        }
        usage_of_user.taken = usage_of_user.taken.plus(taken);
    }

    /// Replaces an ended attempt's quota use by its actual running time.
    fn replace_by_actual(&mut self, user: &str, task: TaskId, ran: Span, now: Time) {
        let Some(usage_of_user) = self.usage.get_mut(user) else { return };
        let Some(before) = usage_of_user.live.remove(&task) else { return };
        usage_of_user.taken = usage_of_user.taken.minus(before);
        self.remove_if_empty(user);
        let longest = self.longest_window();
        let Some(longest) = longest.filter(|_| before.gpus > 0 && !ran.is_zero()) else { return };
        let part = (longest.0 / PARTS).max(1);
        let end = Time(now.0.div_ceil(part).saturating_mul(part));
        let used = self.used.entry(user.to_owned()).or_default();
        *used.entry(end).or_default() += gpu_time(before.gpus, ran);
        used.retain(|end, _| *end + longest > now);
    }

    fn wait(&mut self, user: &str, node: NodeId, now_waiting: u64) {
        let before = match now_waiting {
            0 => self.waiting.remove(&node),
            n => self.waiting.insert(node, n),
        };
        let usage_of_user = self.usage.entry(user.to_owned()).or_default();
        usage_of_user.queued = usage_of_user.queued + now_waiting - before.unwrap_or(0);
        self.remove_if_empty(user);
    }

    /// Removes a user's entry once it is empty, so that equal states have equal contents.
    fn remove_if_empty(&mut self, user: &str) {
        if self.usage.get(user).is_some_and(|usage_of_user| *usage_of_user == UserUsage::default()) {
            self.usage.remove(user);
        }
    }

    /// Owners of the limits that apply to a user, with the caps and the users whose usage is summed.
    fn limit_owners<'a>(&'a self, user: &'a str) -> Vec<(LimitOwner, Caps, Vec<&'a str>)> {
        let mut limit_owners = vec![(LimitOwner::User(user.to_owned()), self.caps_of(user), vec![user])];
        for name in self.groups_of(user) {
            let Some(caps) = self.limits.groups.get(name).map(|g| g.together) else { continue };
            if caps != Caps::default() {
                let members = self.groups.iter().filter(|(_, groups)| groups.contains(name));
                let members = members.map(|(user, _)| user.as_str()).collect();
                limit_owners.push((LimitOwner::Group(name.clone()), caps, members));
            }
        }
        limit_owners
    }

    /// Caps with the GPU time that is left now, or half of all if less is left. A task without a timeout is given
    /// this much: with all of it, the task would wait until nothing in the window counts any more.
    fn remaining_caps(&self, caps: Caps, members: &[&str], now: Time) -> Caps {
        let Some(cap) = caps.gpu_time else { return caps };
        let has = |user: &&str| self.used_in(user, cap.window, now).0.0 + self.taken_by(user).time.0;
        let left = cap.most.0.saturating_sub(members.iter().map(has).sum());
        Caps { gpu_time: Some(GpuTime { most: Span(left.max(cap.most.0 / 2)), ..cap }), ..caps }
    }

    fn taken_by(&self, user: &str) -> QuotaUse {
        self.usage.get(user).map(|usage_of_user| usage_of_user.taken).unwrap_or_default()
    }

    fn used_in(&self, user: &str, window: Span, now: Time) -> (Span, Option<Time>) {
        let counts = |end: &Time| *end + window > now;
        let used = self.used.get(user).into_iter().flatten().filter(|(end, _)| counts(end));
        used.fold((Span::ZERO, None), |(sum, first), (end, time)| {
            (sum + *time, first.or(Some(*end + window)))
        })
    }

    /// Whether a user may use this much more, on top of what the same plan grants others.
    fn allows(
        &self,
        user: &str,
        asks: QuotaUse,
        given: &BTreeMap<String, QuotaUse>,
        now: Time,
    ) -> Result<(), LimitExceeded> {
        for (of, caps, members) in self.limit_owners(user) {
            let with = |user: &str| self.taken_by(user).plus(given.get(user).copied().unwrap_or_default());
            let has = members.iter().fold(QuotaUse::default(), |sum, user| sum.plus(with(user)));
            let over = |what, most: u64, has: u64, asks: u64| match has.saturating_add(asks) > most {
                true => Err(LimitExceeded { of: of.clone(), what, most, has, asks }),
                false => Ok(()),
            };
            if let Some(most) = caps.running {
                over(LimitKind::Running, most.into(), has.running.into(), asks.running.into())?;
            }
            if asks.gpus == 0 {
                continue;
            }
            if let Some(most) = caps.gpus {
                over(LimitKind::Gpus, most.into(), has.gpus.into(), asks.gpus.into())?;
            }
            if let Some(cap) = caps.gpu_time {
                let (used, until) = members.iter().fold((Span::ZERO, None::<Time>), |(sum, first), user| {
                    let (used, until) = self.used_in(user, cap.window, now);
                    (sum + used, first.into_iter().chain(until).min())
                });
                let what = LimitKind::GpuTime { window: cap.window, until };
                over(what, cap.most.0, (used + has.time).0, asks.time.0)?;
            }
        }
        Ok(())
    }
}

/// Quotas left in a plan under construction, so that no plan exceeds a limit.
pub struct Allowance<'a> {
    quotas: &'a Quotas,
    given: BTreeMap<String, QuotaUse>,
    now: Time,
}

impl Allowance<'_> {
    /// Whether any limit bounds what may start.
    pub fn is_limited(&self) -> bool {
        self.quotas.bound_starts()
    }

    /// Whether a task is within its user's quota.
    pub fn permits(&self, job: &Job, spec: &TaskSpec) -> Result<(), LimitExceeded> {
        if !self.is_limited() {
            return Ok(());
        }
        self.quotas.allows(&job.user, requested_use(spec), &self.given, self.now)
    }

    /// Counts a task that the plan starts.
    pub(crate) fn give_task(&mut self, view: View<'_>, task: TaskId) {
        if !self.is_limited() {
            return;
        }
        if let Some((job, spec)) = view.spec(task) {
            self.give(job, spec);
        }
    }

    /// Counts a task whose job and specification are at hand.
    pub fn give(&mut self, job: &Job, spec: &TaskSpec) {
        if self.is_limited() {
            let given = self.given.entry(job.user.clone()).or_default();
            *given = given.plus(requested_use(spec));
        }
    }
}

/// Quota: what a user or group may have, and what they have.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Limits.
    pub caps: Caps,
    /// Tasks on workers.
    pub running: u32,
    /// GPUs of those tasks.
    pub gpus: u32,
    /// Waiting tasks.
    pub queued: u64,
    /// GPU time used in the window, plus what running tasks may still use.
    pub gpu_time: Option<Span>,
    /// Bytes of job documents and environments in memory.
    pub jobs_size: u64,
}

impl Cluster {
    /// The limits in force.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.quotas.limits
    }

    /// Groups of a user, as last set.
    pub fn groups_of(&self, user: &str) -> &[String] {
        self.quotas.groups_of(user)
    }

    /// Users with any usage, if limits are in force.
    pub fn limited_users(&self) -> impl Iterator<Item = &str> + '_ {
        self.quotas.usage.keys().map(String::as_str)
    }

    /// Quotas of a user, and of each of their groups together.
    pub fn quotas(&self, user: &str, now: Time) -> Vec<(LimitOwner, Quota)> {
        let sum = |(of, caps, members): (LimitOwner, Caps, Vec<&str>)| {
            let taken =
                members.iter().fold(QuotaUse::default(), |sum, user| sum.plus(self.quotas.taken_by(user)));
            let queued =
                members.iter().map(|user| self.quotas.usage.get(*user).map_or(0, |b| b.queued)).sum();
            let jobs_size =
                members.iter().map(|user| self.quotas.usage.get(*user).map_or(0, |b| b.size)).sum();
            let used = |window| members.iter().map(move |u| self.quotas.used_in(u, window, now).0);
            let gpu_time = caps.gpu_time.map(|cap| used(cap.window).fold(taken.time, |sum, used| sum + used));
            (of, Quota { caps, running: taken.running, gpus: taken.gpus, queued, gpu_time, jobs_size })
        };
        self.quotas.limit_owners(user).into_iter().map(sum).collect()
    }

    /// Quotas left to users, for a plan to count against.
    pub(crate) fn allowance(&self, now: Time) -> Allowance<'_> {
        Allowance { quotas: &self.quotas, given: BTreeMap::new(), now }
    }

    /// Next time at which usage leaves its window.
    pub(crate) fn next_opening(&self, now: Time) -> Option<Time> {
        let quotas = &self.quotas;
        if quotas.used.is_empty() {
            return None;
        }
        let opens = |window| quotas.used.keys().filter_map(move |user| quotas.used_in(user, window, now).1);
        quotas.limits.windows().flat_map(opens).min()
    }

    pub(super) fn set_limits(&mut self, limits: Arc<Limits>) {
        self.quotas.limits = limits;
        if self.quotas.longest_window().is_none() {
            self.quotas.used.clear();
        }
        self.count_quotas();
    }

    pub(super) fn set_groups(&mut self, user: &str, groups: Vec<String>) {
        match groups.is_empty() {
            true => self.quotas.groups.remove(user),
            false => self.quotas.groups.insert(user.to_owned(), groups),
        };
    }

    /// Recounts the usage of all users.
    pub(super) fn count_quotas(&mut self) {
        let Cluster { jobs, quotas, envs, .. } = self;
        quotas.usage.clear();
        quotas.waiting.clear();
        quotas.in_force = !quotas.limits.is_empty();
        quotas.bound_starts = quotas.limits.bound_starts();
        if !quotas.in_force() {
            return;
        }
        for job in jobs.iter() {
            let env = job.spec.env.and_then(|id| Some((id, env_size(&envs.get(&id)?.vars))));
            quotas.count_document(&job.user, job.spec.size(), env, true);
            for (n, (node, spec)) in job.nodes.iter().zip(&job.spec.tasks).enumerate() {
                let id = NodeId { job: job.id, node: n as u32 };
                quotas.wait(&job.user, id, node.waiting());
                for (&i, live) in &node.live {
                    if let Some(attempt) = live.attempt() {
                        quotas.take(&job.user, id.task(i), attempt_use(job, spec, attempt));
                    }
                }
            }
        }
    }

    /// Counts a job in memory, or discounts one that is about to be evicted.
    pub(super) fn count_job(&mut self, job: &Job, kept: bool) {
        if !self.quotas.in_force() {
            return;
        }
        let env = job.spec.env.and_then(|id| Some((id, env_size(&self.envs.get(&id)?.vars))));
        self.quotas.count_document(&job.user, job.spec.size(), env, kept);
    }

    /// Updates the number of waiting tasks of a node.
    pub(super) fn count_waiting(&mut self, id: NodeId) {
        if !self.quotas.in_force() {
            return;
        }
        let Cluster { jobs, quotas, .. } = self;
        if let Some(job) = jobs.get(id.job) {
            quotas.wait(&job.user, id, job.nodes[id.node as usize].waiting());
        }
    }

    /// Updates the quota use of an attempt.
    pub(super) fn count_attempt(&mut self, task: TaskId) {
        if !self.quotas.in_force() {
            return;
        }
        let Cluster { jobs, quotas, .. } = self;
        let Some(job) = jobs.get(task.job) else { return };
        let Some((node, spec)) = job.node(task.node) else { return };
        if let Some(attempt) = node.live.get(&task.index).and_then(|live| live.attempt()) {
            quotas.take(&job.user, task, attempt_use(job, spec, attempt));
        }
    }

    /// Records the end of an attempt.
    pub(super) fn count_ended(&mut self, task: TaskId, ran: Span, now: Time) {
        if !self.quotas.in_force() {
            return;
        }
        let Cluster { jobs, quotas, .. } = self;
        if let Some(job) = jobs.get(task.job) {
            quotas.replace_by_actual(&job.user, task, ran, now);
        }
    }

    /// Rejects a job that its user could never run or may not have waiting; fills in a timeout and other omitted
    /// fields from the limits.
    pub(super) fn within_limits(
        &self,
        user: &str,
        env: Option<&Arc<Env>>,
        spec: &mut Arc<JobSpec>,
        now: Time,
    ) -> Result<(), Rejection> {
        if !self.quotas.in_force() {
            return Ok(());
        }
        let spec = Arc::make_mut(spec);
        let own = self.quotas.caps_of(user);
        if let Some(most) = own.priority.filter(|most| spec.priority > *most) {
            let (most, asks) = (most as u64, spec.priority as u64);
            let at = LimitExceeded {
                of: LimitOwner::User(user.to_owned()),
                what: LimitKind::Priority,
                most,
                has: 0,
                asks,
            };
            return Err(refused(&at).at("priority"));
        }
        let limit_owners = self.quotas.limit_owners(user);
        for (i, task) in spec.tasks.iter_mut().enumerate() {
            fill(
                task,
                limit_owners.iter().map(|(_, caps, members)| self.quotas.remaining_caps(*caps, members, now)),
            );
            for (of, caps, _) in &limit_owners {
                let refused = |(at, field)| refused(&at).at(format!("tasks[{i}].{field}"));
                task_within(of, *caps, task).map_err(refused)?;
            }
        }
        let more = spec.tasks.iter().map(|task| u64::from(task.len())).sum();
        self.may_wait(user, more)?;
        let known = env.and_then(|env| self.derived.env_ids.get(env));
        for (of, caps, members) in limit_owners {
            let Some(most) = caps.jobs_size else { continue };
            let usage_of_user = |user: &&str| self.quotas.usage.get(*user);
            let has: u64 =
                members.iter().filter_map(usage_of_user).map(|usage_of_user| usage_of_user.size).sum();
            let counted =
                known.is_some_and(|env| usage_of_user(&user).is_some_and(|b| b.envs.contains_key(env)));
            let env = env.filter(|_| !counted).map_or(0, |env| env_size(env));
            let asks = spec.size() + env;
            if has + asks > most {
                return Err(refused(&LimitExceeded { of, what: LimitKind::JobsSize, most, has, asks }));
            }
        }
        Ok(())
    }

    /// Rejects more waiting tasks than a user may have.
    pub(super) fn may_wait(&self, user: &str, more: u64) -> Result<(), Rejection> {
        if !self.quotas.in_force() {
            return Ok(());
        }
        for (of, caps, members) in self.quotas.limit_owners(user) {
            let queued =
                |user: &&str| self.quotas.usage.get(*user).map_or(0, |usage_of_user| usage_of_user.queued);
            let has: u64 = members.iter().map(queued).sum();
            if let Some(most) = caps.queued.filter(|most| has + more > *most) {
                return Err(refused(&LimitExceeded { of, what: LimitKind::Queued, most, has, asks: more }));
            }
        }
        Ok(())
    }

    /// Rejects an extension of a claim beyond its user's limits.
    pub(super) fn may_extend(&self, job: &Job, until: Time, now: Time) -> Result<(), Rejection> {
        let id = NodeId { job: job.id, node: 0 };
        let (Some((node, spec)), true) = (job.node(0), self.quotas.in_force()) else { return Ok(()) };
        let live = node.live.iter().find_map(|(&i, live)| Some((id.task(i), live.attempt()?)));
        let Some((task, attempt)) = live else { return Ok(()) };
        let length = until.since(attempt.placed);
        let caps = self.quotas.caps_of(&job.user);
        if let Some(most) = caps.timeout.filter(|most| length > *most) {
            let of = LimitOwner::User(job.user.clone());
            let at = LimitExceeded { of, what: LimitKind::Timeout, most: most.0, has: 0, asks: length.0 };
            return Err(refused(&at));
        }
        let usage_of_user =
            self.quotas.usage.get(&job.user).and_then(|usage_of_user| usage_of_user.live.get(&task));
        let before = usage_of_user.copied().unwrap_or_default();
        let time = gpu_time(requested_use(spec).gpus, length) - before.time;
        let asks = QuotaUse { running: 0, gpus: 0, time };
        // The claim has its GPUs already: only the time is new.
        for (of, caps, members) in self.quotas.limit_owners(&job.user) {
            let Some(cap) = caps.gpu_time else { continue };
            let used = members
                .iter()
                .map(|user| self.quotas.used_in(user, cap.window, now).0 + self.quotas.taken_by(user).time);
            let has = used.fold(Span::ZERO, |sum, used| sum + used);
            if has + asks.time > cap.most {
                let what = LimitKind::GpuTime { window: cap.window, until: None };
                return Err(refused(&LimitExceeded { of, what, most: cap.most.0, has: has.0, asks: time.0 }));
            }
        }
        Ok(())
    }
}

/// Sets omitted fields of a task to the most that is allowed.
fn fill(task: &mut TaskSpec, caps: impl Iterator<Item = Caps> + Clone) {
    let gpus = u64::from(task.needs.gpus);
    let share = |caps: Caps| Some(Span(caps.gpu_time?.most.0.checked_div(gpus)?));
    let longest = caps.clone().flat_map(|caps| caps.timeout.into_iter().chain(share(caps))).min();
    let length = match &mut task.claim {
        Some(claim) => &mut claim.lasts,
        None => &mut task.timeout,
    };
    *length = length.or(longest);
    task.log_size = task.log_size.into_iter().chain(caps.filter_map(|caps| caps.log_size)).min();
}

/// Whether a task could ever start within these limits.
fn task_within(of: &LimitOwner, caps: Caps, task: &TaskSpec) -> Result<(), (LimitExceeded, &'static str)> {
    let over = |what, most: u64, asks: u64| LimitExceeded { of: of.clone(), what, most, has: 0, asks };
    let gpus = u32::from(task.needs.gpus);
    if let Some(most) = caps.gpus.filter(|most| gpus > *most) {
        return Err((over(LimitKind::Gpus, most.into(), gpus.into()), "gpus"));
    }
    if caps.running == Some(0) {
        return Err((over(LimitKind::Running, 0, 1), "command"));
    }
    let asks = task.claim.map_or(task.timeout, |claim| claim.lasts).unwrap_or_default();
    if let Some(most) = caps.timeout.filter(|most| asks > *most) {
        return Err((over(LimitKind::Timeout, most.0, asks.0), "timeout"));
    }
    if let Some(cap) = caps.gpu_time.filter(|cap| gpu_time(gpus, asks) > cap.most) {
        let what = LimitKind::GpuTime { window: cap.window, until: None };
        return Err((over(what, cap.most.0, gpu_time(gpus, asks).0), "timeout"));
    }
    Ok(())
}

fn refused(at: &LimitExceeded) -> Rejection {
    let help = match at.what {
        LimitKind::Gpus => "ask for fewer; `warpyard limits` shows what you may have",
        LimitKind::Running => "you may run nothing here; ask an admin",
        LimitKind::Queued => "wait for some of them (`warpyard wait`), or submit an array with fewer tasks",
        LimitKind::Timeout => {
            "ask for less time (--timeout; --for of a claim), and save now and then so as to go on later"
        }
        LimitKind::GpuTime { .. } => "ask for less time or fewer GPUs; `warpyard limits` shows what is left",
        LimitKind::JobsSize => {
            "wait for some of your jobs to end (`warpyard wait`), submit arrays in place of many jobs, or pass less of \
             the environment"
        }
        LimitKind::Priority => "ask for a lower one, or someone who may give it to raise it",
    };
    Rejection::new(Code::OverLimit, at.to_string()).help(help)
}
