//! Applying events. Nothing here can fail or decide; invariants are asserted, because continuing from a state that
//! should not exist would only spread the damage.
//!
//! Two consequences follow from an event by arithmetic alone and are therefore not events of their own: a node whose
//! last dependency ended as required becomes ready, and a node whose dependency ended the wrong way is skipped.

use super::accounts::half_life;
use super::job::{Attempt, Cause, Job, Phase, SharedTime, StartedTask};
use super::{Cluster, DerivedState, Effects, StoredEnv, Worker};
use crate::event::{Disposition, End, EndReason, Event, EventKind, Outcome, StopReason, WorkerInfo};
use crate::ids::{AttemptId, DeviceId, JobId, NodeId, TaskId, WorkerId};
use crate::index::Ranges;
use crate::pool::{Charge, DeviceState, Placement};
use crate::spec::{AfterNode, Boundary, Preempt, TaskSpec};
use crate::time::{Span, Time};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Cluster {
    /// Applies an event, and returns what else changed with it.
    pub fn apply(&mut self, event: &Event) -> Effects {
        let mut fx = Effects::default();
        let at = event.at;
        self.seq += 1;
        match &event.what {
            EventKind::WorkerJoined { worker, info } => self.worker_joined(*worker, info, at),
            EventKind::WorkerLost { worker } => {
                self.worker_mut(*worker).online = false;
                self.describe(*worker);
            }
            EventKind::WorkerDrained { worker, drained, reason } => {
                let state = self.worker_mut(*worker);
                state.drained = *drained;
                state.drain_reason.clone_from(reason);
                self.describe(*worker);
            }
            EventKind::DeviceChanged { device, state } => self.device_changed(*device, *state),
            EventKind::EnvKept { env, vars } => {
                self.next_env = env.0 + 1;
                self.envs.insert(*env, StoredEnv { vars: vars.clone(), jobs: 0 });
                self.derived.env_ids.insert(vars.clone(), *env);
            }
            EventKind::JobSubmitted { job, user, spec } => {
                let job = Arc::new(Job::new(*job, user.clone(), at, spec.clone()));
                self.job_submitted(job, at, &mut fx);
            }
            EventKind::JobHeld { job, held } => {
                self.job_mut(*job).held = *held;
                self.touch_job(*job, &mut fx);
            }
            EventKind::JobPriority { job, priority } => {
                self.job_mut(*job).priority = *priority;
                self.touch_job(*job, &mut fx);
            }
            EventKind::Cancelled { node, tasks } => self.cancelled(*node, tasks, at, &mut fx),
            EventKind::Retried { job, failed_only } => self.retried(*job, *failed_only, at, &mut fx),
            EventKind::TasksHeld { node, tasks, held: true } => self.tasks_held(*node, tasks, &mut fx),
            EventKind::TasksHeld { node, tasks, held: false } => self.tasks_released(*node, tasks, &mut fx),
            EventKind::TasksRetried { node, tasks } => self.tasks_retried(*node, tasks, at, &mut fx),
            EventKind::RetryDue { task } => {
                self.end_backoff(*task);
                self.node_mut(task.node_id()).may_try_again(task.index);
                self.touch(task.node_id(), &mut fx);
            }
            EventKind::JobForgotten { job } => self.job_forgotten(*job),
            EventKind::Placed { attempt, placement } => self.placed(*attempt, placement, at, &mut fx),
            EventKind::Started { attempt } => self.advance(*attempt, at, |phase| match phase {
                Phase::Placed(a) => Phase::Running(Attempt { started: Some(at), since: at, ..a }),
                other => unreachable!("started from {other:?}"),
            }),
            EventKind::PauseAsked { attempt, by, at: pause_at } => {
                self.advance(*attempt, at, |phase| match phase {
                    Phase::Running(a) => Phase::Running(a.asked_to_pause(*by, *pause_at)),
                    Phase::Paused(a) => Phase::Paused(a.asked_to_pause(*by, *pause_at)),
                    Phase::Placed(a) => Phase::Placed(a.asked_to_pause(*by, *pause_at)),
                    other => unreachable!("asked to pause from {other:?}"),
                })
            }
            EventKind::ResumeAsked { attempt } => self.advance(*attempt, at, |phase| match phase {
                Phase::Running(a) => Phase::Running(Attempt { pause: None, ..a }),
                Phase::Paused(a) => Phase::Paused(Attempt { pause: None, ..a }),
                Phase::Placed(a) => Phase::Placed(Attempt { pause: None, ..a }),
                other => unreachable!("asked to go on from {other:?}"),
            }),
            EventKind::Paused { attempt } => {
                self.end_colocation(attempt.task, at);
                self.advance(*attempt, at, |phase| match phase {
                    Phase::Running(a) => {
                        Phase::Paused(Attempt { ran: a.ran + at.since(a.since), since: at, ..a })
                    }
                    other => unreachable!("paused from {other:?}"),
                })
            }
            EventKind::Resumed { attempt } => self.advance(*attempt, at, |phase| match phase {
                Phase::Paused(a) => Phase::Running(Attempt { since: at, ..a }),
                other => unreachable!("went on from {other:?}"),
            }),
            EventKind::StopAsked { attempt, why } => {
                self.set_claim_end(attempt.task.job, None);
                self.advance(*attempt, at, |phase| match phase {
                    Phase::Placed(a) | Phase::Running(a) => {
                        Phase::Stopping { attempt: a, why: *why, paused: false }
                    }
                    Phase::Paused(a) => {
                        let paused = a.pause.is_some();
                        Phase::Stopping { attempt: a, why: *why, paused }
                    }
                    Phase::Stopping { attempt, paused, .. } => Phase::Stopping { attempt, why: *why, paused },
                    other @ Phase::Ready { .. } => unreachable!("asked to stop from {other:?}"),
                });
            }
            EventKind::Ended { attempt, end, then } => self.ended(*attempt, end, *then, at, &mut fx),
            EventKind::MemoryCharged { attempt, device, bytes } => {
                self.memory_charged(*attempt, *device, *bytes, at);
            }
            EventKind::ClaimExtended { job, until } => {
                self.set_claim_end(*job, Some(*until));
                self.count_attempt(TaskId { job: *job, node: 0, index: 0 });
            }
            EventKind::SpeedsSet { speeds, costs } => self.shares.set_speeds(speeds, costs),
            EventKind::Progressed { task, steps } => self.live_mut(*task).steps = Some(*steps),
            EventKind::TargetSet { target } => {
                let mut shares = std::mem::take(&mut self.shares);
                let alone = |task, kind: &str| self.had(task, kind, at) - self.shared(task, kind, at).time;
                shares.set_target(target.clone(), at, alone);
                self.shares = shares;
            }
            EventKind::TargetFailed { failed } => self.shares.set_failed(failed.clone()),
            EventKind::RoundBegun { until } => self.shares.begin_round(*until),
            EventKind::NumbersSkipped { next } => self.next_job = self.next_job.max(next.0),
            EventKind::PolicySet { policy } => {
                self.accounts.settle_all(at, half_life(&self.policy));
                if self.policy != *policy {
                    self.shares.drop_target();
                }
                self.policy = policy.clone();
                fx.policy = true;
            }
            EventKind::LimitsSet { limits } => {
                self.set_limits(limits.clone());
                fx.nodes.extend(self.derived.ready.keys().copied());
            }
            EventKind::GroupsTold { user, groups } => self.set_groups(user, groups.clone()),
        }
        fx
    }

    fn worker_joined(&mut self, id: WorkerId, info: &WorkerInfo, at: Time) {
        match self.workers.get_mut(id.0 as usize) {
            Some(worker) => {
                worker.info = info.clone();
                worker.online = true;
                self.describe(id);
                // The capacity that shares of its devices are fractions of may have changed.
                self.accounts.settle_all(at, half_life(&self.policy));
                self.recount();
            }
            None => {
                assert_eq!(id.0 as usize, self.workers.len(), "workers are numbered without gaps");
                let tasks = Default::default();
                let info = info.clone();
                self.workers.push(Worker { info, online: true, drained: false, drain_reason: None, tasks });
                self.describe(id);
            }
        }
    }

    fn device_changed(&mut self, device: DeviceId, state: DeviceState) {
        self.worker_mut(device.worker).info.devices[usize::from(device.index)].state = state;
        self.describe(device.worker);
    }

    /// Updates a worker in the pool.
    fn describe(&mut self, id: WorkerId) {
        let Worker { info, online, drained, .. } = &self.workers[id.0 as usize];
        self.derived.pool.describe(id, &info.devices, info.cpus, info.memory, *online && !*drained);
    }

    fn job_submitted(&mut self, job: Arc<Job>, at: Time, fx: &mut Effects) {
        let id = job.id;
        self.next_job = id.0 + 1;
        if let Some(env) = job.spec.env {
            self.envs.get_mut(&env).expect("an environment is kept before it is used").jobs += 1;
        }
        if let Some(key) = &job.spec.key {
            self.derived.keys.insert((job.user.clone(), key.name.clone()), id);
        }
        self.count_job(&job, true);
        self.jobs.insert(job);
        self.touch_job(id, fx);
        self.register_dependent(id, at, fx);
    }

    /// Registers a job as a dependent of the jobs it waits for, and settles those that have ended already.
    fn register_dependent(&mut self, id: JobId, at: Time, fx: &mut Effects) {
        let after = self.job_mut(id).waiting.clone();
        for dep in &after {
            self.derived.waiters.entry(dep.job).or_default().insert(id);
        }
        for dep in after {
            if self.job(dep.job).is_none_or(|j| j.finished.is_some()) {
                for node in self.settle_dependent(dep.job, id, at, fx) {
                    self.settle(node, at, fx);
                }
            }
        }
    }

    fn wait_no_more(&mut self, id: JobId, on: JobId) {
        self.job_mut(id).waiting.retain(|w| w.job != on);
        if let Some(waiters) = self.derived.waiters.get_mut(&on) {
            waiters.remove(&id);
            if waiters.is_empty() {
                self.derived.waiters.remove(&on);
            }
        }
    }

    fn job_forgotten(&mut self, id: JobId) {
        let job = self.jobs.remove(id).expect("a forgotten job was known");
        assert!(job.finished.is_some(), "only an ended job is forgotten");
        self.count_job(&job, false);
        if let Some(key) = &job.spec.key {
            self.derived.keys.remove(&(job.user.clone(), key.name.clone()));
        }
        if let Some(env) = job.spec.env {
            let kept = self.envs.get_mut(&env).expect("an environment stays while it is used");
            kept.jobs -= 1;
            if kept.jobs == 0 {
                let kept = self.envs.remove(&env).expect("seen above");
                self.derived.env_ids.remove(&kept.vars);
            }
        }
    }

    fn cancelled(&mut self, node: NodeId, tasks: &Ranges, at: Time, fx: &mut Effects) {
        for range in tasks.ranges() {
            let state = self.node_mut(node);
            let mut waited = state.fresh.take_range(range.clone());
            waited.insert_all(&state.held.take_range(range.clone()));
            let began: Vec<_> = state.live_within(range.clone()).map(|(i, _)| i).collect();
            waited.insert_all(&began.iter().copied().collect());
            assert_eq!(waited.len(), range.len() as u64, "a cancelled task was waiting");
            for i in began {
                self.end_backoff(node.task(i));
                let state = self.node_mut(node);
                let live = state.live.remove(&i).expect("seen above");
                assert!(live.attempt().is_none(), "a cancelled task was on no worker");
                state.again.remove(&i);
            }
            self.node_mut(node).done.add(Outcome::Cancelled, range);
        }
        self.touch(node, fx);
        self.settle(node, at, fx);
    }

    /// Ends a task's backoff.
    fn end_backoff(&mut self, task: TaskId) {
        if let Some(until) = self.live_mut(task).not_before.take() {
            self.derived.retries.remove(&(until, task));
        }
    }

    fn tasks_held(&mut self, node: NodeId, tasks: &Ranges, fx: &mut Effects) {
        let state = self.node_mut(node);
        for range in tasks.ranges() {
            state.fresh.take_range(range.clone());
            state.again.retain(|i| !range.contains(i));
            state.held.insert_range(range);
        }
        self.touch(node, fx);
    }

    fn tasks_released(&mut self, node: NodeId, tasks: &Ranges, fx: &mut Effects) {
        let state = self.node_mut(node);
        for range in tasks.ranges() {
            let mut released = state.held.take_range(range.clone());
            let began: Vec<_> = state.live_within(range).map(|(i, _)| i).collect();
            for i in began {
                released.remove(i);
                state.may_try_again(i);
            }
            state.fresh.insert_all(&released);
        }
        self.touch(node, fx);
    }

    /// Makes ended tasks fresh again, and with them the nodes that were skipped because of their outcome. Their next
    /// attempts are numbered after the highest of the node, so that no attempt number is used twice.
    fn tasks_retried(&mut self, id: NodeId, tasks: &Ranges, at: Time, fx: &mut Effects) {
        let job = self.job_mut(id.job);
        job.finished = None;
        let node = &mut job.nodes[id.node as usize];
        if node.fresh.is_empty() {
            node.ready_since = at;
        }
        node.base = node.top;
        // Its dependencies have ended as required, or the retry would have been rejected. One may have done so after
        // this node was cancelled, in which case the count was not updated.
        node.unmet = 0;
        for range in tasks.ranges() {
            node.done.take(&range);
            node.fresh.insert_range(range);
        }
        let mut reopened = vec![id.node];
        let mut next = 0;
        while let Some(&parent) = reopened.get(next) {
            next += 1;
            for (child, _) in job.children.get(parent as usize).cloned().unwrap_or_default() {
                let node = &mut job.nodes[child as usize];
                if node.skipped_by == Some(Cause::Node(parent)) {
                    node.skipped_by = None;
                    node.ready_since = at;
                    node.base = node.top;
                    let skipped = node.done.0.remove(&Outcome::Skipped).unwrap_or_default();
                    node.fresh.insert_all(&skipped);
                    reopened.push(child);
                }
            }
        }
        let begun = |n: u32| n == id.node || job.nodes[n as usize].is_done();
        let waiting = reopened.iter().flat_map(|&n| job.children.get(n as usize).into_iter().flatten());
        let waiting: BTreeSet<u32> = waiting.map(|(n, _)| *n).chain(reopened.iter().copied()).collect();
        for n in waiting.into_iter().filter(|&n| !begun(n)).collect::<Vec<_>>() {
            let unmet = |dep: &&AfterNode| job.nodes[dep.node as usize].satisfies(dep.on) != Some(true);
            job.nodes[n as usize].unmet =
                job.spec.tasks[n as usize].after.iter().filter(unmet).count() as u32;
        }
        job.open = job.nodes.iter().filter(|n| !n.is_done()).count() as u32;
        self.touch_job(id.job, fx);
        // A reopened node may still be ruled out by another of its dependencies.
        let parents = |n: &u32| self.job(id.job).expect("seen above").spec.tasks[*n as usize].after.clone();
        let parents: BTreeSet<u32> = reopened[1..].iter().flat_map(parents).map(|dep| dep.node).collect();
        for node in parents.into_iter().map(|node| NodeId { job: id.job, node }) {
            if self.node_mut(node).is_done() {
                self.skip_impossible(node, at, fx);
            }
        }
    }

    fn retried(&mut self, id: JobId, failed_only: bool, at: Time, fx: &mut Effects) {
        let job = self.job_mut(id);
        job.finished = None;
        for node in &mut job.nodes {
            assert!(node.is_done(), "only an ended job is retried");
            let keep = if failed_only { node.done.0.remove(&Outcome::Succeeded) } else { None };
            for range in
                std::mem::take(&mut node.done.0).into_iter().flat_map(|(_, ranges)| Vec::from(ranges))
            {
                node.fresh.insert_range(range.0..range.1);
            }
            if let Some(succeeded) = keep {
                node.done.0.insert(Outcome::Succeeded, succeeded);
            }
            node.skipped_by = None;
            node.base = node.top;
            node.ready_since = at;
        }
        let mut ended = Vec::new();
        for n in 0..job.nodes.len() {
            let unmet = |dep: &&AfterNode| job.nodes[dep.node as usize].satisfies(dep.on) != Some(true);
            job.nodes[n].unmet = job.spec.tasks[n].after.iter().filter(unmet).count() as u32;
            if job.nodes[n].is_done() {
                ended.push(NodeId { job: id, node: n as u32 });
            }
        }
        job.open = (job.nodes.len() - ended.len()) as u32;
        job.waiting = job.spec.after.clone();
        self.touch_job(id, fx);
        for node in ended {
            self.skip_impossible(node, at, fx);
        }
        self.register_dependent(id, at, fx);
    }

    /// Skips nodes that a retry leaves impossible: a node that stays ended rules out its dependents of the opposite
    /// condition, as a success does for a node that runs on failure.
    fn skip_impossible(&mut self, node: NodeId, at: Time, fx: &mut Effects) {
        let job = self.job_mut(node.job);
        let children = job.children.get(node.node as usize).cloned().unwrap_or_default();
        for (child, on) in children {
            let job = self.job_mut(node.job);
            let wrong = job.nodes[node.node as usize].satisfies(on) == Some(false);
            if wrong && !job.nodes[child as usize].is_done() {
                let id = NodeId { job: node.job, node: child };
                self.skip(id, Cause::Node(node.node), fx);
                self.settle(id, at, fx);
            }
        }
    }

    fn placed(&mut self, attempt: AttemptId, placement: &Placement, at: Time, fx: &mut Effects) {
        let AttemptId { task, number } = attempt;
        let phase = Phase::Placed(Attempt {
            placement: placement.clone(),
            placed: at,
            started: None,
            ran: Span::ZERO,
            since: at,
            pause: None,
            pause_at: Boundary::Any,
        });
        let node = self.node_mut(task.node_id());
        let before = if node.fresh.remove(task.index) {
            node.live.insert(task.index, Box::new(StartedTask::new(number, phase)));
            node.base
        } else {
            assert!(node.again.remove(&task.index), "a placed task was waiting");
            let live = node.live.get_mut(&task.index).expect("a waiting task has an entry");
            live.phase = phase;
            std::mem::replace(&mut live.attempts, number)
        };
        assert_eq!(number, before + 1, "attempts are numbered one after another");
        node.top = node.top.max(number);
        node.active += 1;
        let fits = self.derived.pool.worker(placement.worker).is_some_and(|w| w.admits(placement));
        assert!(fits, "{attempt} was placed where it does not fit");
        self.derived.pool.charge(placement);
        let Cluster { jobs, derived, accounts, policy, .. } = self;
        let user = &jobs.get(task.job).expect("a placed task has a job").user;
        accounts.placed(user, &derived.pool, placement, at, half_life(policy));
        self.derived.active += 1;
        self.worker_mut(placement.worker).tasks.insert(task);
        let (live, spec) = self.live_and_spec(task);
        let (end, lasts) = (live.foreseen_end(spec), spec.claim.as_ref().and_then(|claim| claim.lasts));
        let preemptible = spec.preempt != Preempt::None;
        self.derived.ends.extend(end.map(|end| (end, task)));
        self.derived.preemptible.extend(preemptible.then_some(task));
        if let Some(lasts) = lasts {
            self.set_claim_end(task.job, Some(at + lasts));
        }
        self.count_attempt(task);
        self.touch(task.node_id(), fx);
    }

    /// Records the end of a claim, or that it is ending.
    fn set_claim_end(&mut self, id: JobId, until: Option<Time>) {
        if until.is_none() && self.derived.lapses.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut self.job_mut(id).until, until);
        if let Some(before) = before {
            self.derived.lapses.remove(&(before, id));
        }
        if let Some(until) = until {
            self.derived.lapses.insert((until, id));
        }
    }

    /// Moves an attempt from one phase to the next, updating the pool and the expected ends.
    fn advance(&mut self, attempt: AttemptId, at: Time, next: impl FnOnce(Phase) -> Phase) {
        let task = attempt.task;
        assert!(self.current(attempt).is_some(), "{attempt} is not the attempt in force");
        let (live, spec) = self.live_and_spec(task);
        let (was_paused, expected) = (live.is_paused(), live.foreseen_end(spec));
        let phase = std::mem::replace(&mut live.phase, Phase::Ready { since: Time(0) });
        live.phase = next(phase);
        let (is_paused, expected_now) = (live.is_paused(), live.foreseen_end(spec));
        if live.is_unsettled() {
            self.derived.unsettled.insert(task);
        } else {
            self.derived.unsettled.remove(&task);
        }
        if was_paused != is_paused {
            self.set_paused(task, is_paused, at);
        }
        if expected != expected_now {
            self.derived.forget_end(expected, task);
            self.derived.ends.extend(expected_now.map(|end| (end, task)));
        }
    }

    /// Records in the pool and in the user's account that an attempt paused or resumed.
    fn set_paused(&mut self, task: TaskId, still: bool, at: Time) {
        let Cluster { jobs, derived, accounts, policy, .. } = self;
        let job = jobs.get(task.job).expect("an attempt has a job");
        let live = &job.nodes[task.node as usize].live[&task.index];
        let placement = &live.attempt().expect("an attempt in force has a place").placement;
        if still {
            derived.pool.pause(placement);
        } else {
            derived.pool.resume(placement);
        }
        accounts.still(&job.user, &derived.pool, placement, still, at, half_life(policy));
    }

    fn ended(&mut self, attempt: AttemptId, end: &End, then: Disposition, at: Time, fx: &mut Effects) {
        let task = attempt.task;
        assert!(self.current(attempt).is_some(), "{attempt} is not the attempt in force");
        self.end_colocation(task, at);
        let kind = match then {
            Disposition::Done(_) => None,
            Disposition::Again | Disposition::Later(_) | Disposition::Hold => {
                self.kind_given(task).map(str::to_ascii_lowercase)
            }
        };
        let (live, spec) = self.live_and_spec(task);
        let (paused, expected) = (live.is_paused(), live.foreseen_end(spec));
        if let Some(kind) = kind {
            let more = live.running_time(at);
            *live.had.entry(kind).or_default() += more;
        }
        let phase = std::mem::replace(&mut live.phase, Phase::Ready { since: at });
        live.ran += end.usage.ran;
        if matches!((&phase, then), (Phase::Stopping { why: StopReason::Requeued, .. }, Disposition::Again)) {
            live.saved += end.usage.ran;
        }
        match end.how {
            EndReason::Lost(_) => live.losses += 1,
            EndReason::Declined(_) => {}
            _ if matches!(phase, Phase::Stopping { .. }) => {}
            _ => live.failures += 1,
        }
        let placement = match phase {
            Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a) | Phase::Stopping { attempt: a, .. } => {
                a.placement
            }
            Phase::Ready { .. } => unreachable!("an attempt in force has a place"),
        };
        self.derived.forget_end(expected, task);
        self.derived.pool.release(&placement, paused);
        #[cfg(feature = "bugs")]
        self.free_again(&placement);
        let Cluster { jobs, derived, accounts, policy, .. } = self;
        let user = &jobs.get(task.job).expect("an attempt has a job").user;
        accounts.ended(user, &derived.pool, &placement, paused, at, half_life(policy));
        self.derived.active -= 1;
        self.derived.unsettled.remove(&task);
        self.derived.preemptible.remove(&task);
        self.worker_mut(placement.worker).tasks.remove(&task);
        self.set_claim_end(task.job, None);
        self.count_ended(task, end.usage.ran, at);
        let job = self.job_mut(task.job);
        let node = &mut job.nodes[task.node as usize];
        node.active -= 1;
        match then {
            Disposition::Done(outcome) => {
                node.live.remove(&task.index);
                node.held.remove(task.index);
                node.done.add(outcome, task.index..task.index + 1);
                // Another task of the array may start now; otherwise the waiting tasks are the same.
                if job.spec.tasks[task.node as usize].at_once().is_some() {
                    self.touch(task.node_id(), fx);
                }
            }
            Disposition::Again => {
                node.may_try_again(task.index);
                self.touch(task.node_id(), fx);
            }
            Disposition::Later(from) => {
                node.live.get_mut(&task.index).expect("it was under way").not_before = Some(from);
                self.derived.retries.insert((from, task));
                self.touch(task.node_id(), fx);
            }
            Disposition::Hold => {
                node.may_try_again(task.index);
                job.held = true;
                self.touch_job(task.job, fx);
            }
        }
        self.settle(task.node_id(), at, fx);
    }

    /// Changes the memory charged on a shared device: in the pool, and in the user's account.
    fn memory_charged(&mut self, attempt: AttemptId, device: u16, bytes: u64, at: Time) {
        assert!(self.current(attempt).is_some(), "{attempt} is not the attempt in force");
        let live = self.live_mut(attempt.task);
        let paused = live.is_paused();
        let placement = &mut live.attempt_mut().expect("an attempt in force has a place").placement;
        let before = placement.clone();
        let charge = placement.devices.iter_mut().find(|(index, _)| *index == device);
        let (_, charge) = charge.expect("an attempt is charged for its own devices");
        let from = std::mem::replace(charge, Charge::Share(bytes));
        assert!(matches!(from, Charge::Share(_)), "only a share of a device is charged by its memory");
        let after = placement.clone();
        let device = DeviceId { worker: after.worker, index: device };
        let Cluster { jobs, derived, accounts, policy, .. } = self;
        derived.pool.recharge(device, from, Charge::Share(bytes));
        let user = &jobs.get(attempt.task.job).expect("an attempt has a job").user;
        accounts.recharged(user, &derived.pool, (&before, &after), paused, at, half_life(policy));
    }

    /// Ends co-location: the time both tasks ran together goes into their accounts.
    fn end_colocation(&mut self, task: TaskId, at: Time) {
        let Some((other, since)) = self.shares_with(task) else { return };
        let Some(kind) = self.kind_given(task).map(str::to_ascii_lowercase) else { return };
        let time = at.since(since);
        for (one, beside) in [(task, other), (other, task)] {
            let lost = self.lost_beside(one, beside, &kind, time);
            let shared = self.live_mut(one).shared.entry(kind.clone()).or_default();
            *shared += SharedTime { time, lost };
        }
        self.shares.record_colocation(task, other, &kind, time);
    }

    /// If a node has ended, updates its dependents in the job and the jobs that depend on its job; then the same for
    /// nodes skipped by that.
    fn settle(&mut self, node: NodeId, at: Time, fx: &mut Effects) {
        if !self.node_mut(node).is_done() {
            return;
        }
        let mut ended: SmallVec<[NodeId; 2]> = smallvec![node];
        while let Some(node) = ended.pop() {
            self.tell_children(node, at, &mut ended, fx);
            let job = self.job_mut(node.job);
            job.open -= 1;
            if job.open == 0 {
                job.finished = Some(at);
                fx.finished.push(node.job);
                for dep in job.waiting.clone() {
                    self.wait_no_more(node.job, dep.job);
                }
                for waiter in self.derived.waiters.remove(&node.job).unwrap_or_default() {
                    ended.extend(self.settle_dependent(node.job, waiter, at, fx));
                }
            }
        }
    }

    fn tell_children(
        &mut self,
        node: NodeId,
        at: Time,
        skipped: &mut SmallVec<[NodeId; 2]>,
        fx: &mut Effects,
    ) {
        let children = self.job_mut(node.job).children.get(node.node as usize).cloned().unwrap_or_default();
        for (child, on) in children {
            let id = NodeId { job: node.job, node: child };
            let job = self.job_mut(node.job);
            let met = job.nodes[node.node as usize].satisfies(on).expect("an ended node has an outcome");
            let state = &mut job.nodes[child as usize];
            if state.is_done() {
                continue;
            }
            if met {
                state.unmet -= 1;
                state.ready_since = at;
                self.touch(id, fx);
            } else {
                self.skip(id, Cause::Node(node.node), fx);
                skipped.push(id);
            }
        }
    }

    /// Updates a job whose dependency, another job, has ended (or ended and was evicted); returns the nodes that
    /// skipped.
    fn settle_dependent(&mut self, ended: JobId, waiter: JobId, at: Time, fx: &mut Effects) -> Vec<NodeId> {
        let job = self.job(waiter).expect("who waits is known");
        let mut waits = job.waiting.iter().filter(|w| w.job == ended).peekable();
        if waits.peek().is_none() {
            return Vec::new();
        }
        let met = |on| self.job(ended).is_none_or(|j| j.satisfies(on) == Some(true));
        if !waits.all(|w| met(w.on)) {
            let open = (0..job.nodes.len() as u32).filter(|&n| !job.nodes[n as usize].is_done());
            let skipped: Vec<_> = open.map(|node| NodeId { job: waiter, node }).collect();
            for &node in &skipped {
                self.skip(node, Cause::Job(ended), fx);
            }
            return skipped;
        }
        self.wait_no_more(waiter, ended);
        let job = self.job_mut(waiter);
        if job.waiting.is_empty() {
            for node in job.nodes.iter_mut().filter(|n| n.unmet == 0) {
                node.ready_since = at;
            }
            self.touch_job(waiter, fx);
        }
        Vec::new()
    }

    fn skip(&mut self, node: NodeId, cause: Cause, fx: &mut Effects) {
        let state = self.node_mut(node);
        assert!(state.live.is_empty(), "a node that waits for another has not begun");
        let mut never = std::mem::take(&mut state.fresh);
        never.insert_all(&std::mem::take(&mut state.held));
        for range in never.ranges() {
            state.done.add(Outcome::Skipped, range);
        }
        state.skipped_by = Some(cause);
        self.touch(node, fx);
    }

    fn touch(&mut self, node: NodeId, fx: &mut Effects) {
        if self.job(node.job).expect("a touched node has a job").has_ready(node.node) {
            self.derived.ready.insert(node, ());
        } else {
            self.derived.ready.remove(&node);
        }
        self.count_waiting(node);
        fx.nodes.push(node);
    }

    fn touch_job(&mut self, job: JobId, fx: &mut Effects) {
        for node in 0..self.job_mut(job).nodes.len() as u32 {
            self.touch(NodeId { job, node }, fx);
        }
    }

    fn worker_mut(&mut self, id: WorkerId) -> &mut Worker {
        &mut self.workers[id.0 as usize]
    }

    fn job_mut(&mut self, id: JobId) -> &mut Job {
        self.jobs.get_mut(id).expect("the job is known")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut super::Node {
        &mut self.job_mut(id.job).nodes[id.node as usize]
    }

    fn live_and_spec(&mut self, task: TaskId) -> (&mut StartedTask, &TaskSpec) {
        let Job { nodes, spec, .. } = self.job_mut(task.job);
        let live = nodes[task.node as usize].live.get_mut(&task.index).expect("the task is under way");
        (live, &spec.tasks[task.node as usize])
    }

    fn live_mut(&mut self, task: TaskId) -> &mut StartedTask {
        self.node_mut(task.node_id()).live.get_mut(&task.index).expect("the task is under way")
    }
}

impl DerivedState {
    fn forget_end(&mut self, expected: Option<Time>, task: TaskId) {
        if let Some(end) = expected {
            assert!(self.ends.remove(&(end, task)), "every attempt on a worker has an expected end");
        }
    }
}
