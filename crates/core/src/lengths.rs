//! Run times by device type, from known speeds: on each type for waiting tasks, and on their devices for running
//! ones. A task of unknown speed is taken to run for its own estimate, wherever it runs.

use crate::cluster::{StartedTask, View};
use crate::ids::TaskId;
use crate::pool::Placement;
use crate::spec::TaskSpec;
use crate::time::{Span, Time};
use std::collections::BTreeSet;

/// Least fraction of its steps that a task is taken to have left.
const LEAST_LEFT: f64 = 1e-3;

/// Least delay before an overdue attempt is looked at again.
const LATE: Span = Span(1_000_000);

/// Run times of tasks on the device types there are.
pub(crate) struct Lengths<'a> {
    view: View<'a>,
    /// Device types, in lower case.
    kinds: BTreeSet<String>,
}

impl<'a> Lengths<'a> {
    /// Run times from the view's speeds; none if no speed is known at all.
    pub(crate) fn known(view: View<'a>) -> Option<Lengths<'a>> {
        view.shares().speeds().next()?;
        let open = view.pool().workers().filter(|(_, worker)| worker.is_open());
        let kinds = open.flat_map(|(_, worker)| worker.devices().map(|(_, info, _)| &info.kind));
        Some(Lengths { view, kinds: kinds.map(|kind| kind.to_ascii_lowercase()).collect() })
    }

    /// Run time of a waiting task on each type it can run on; empty if its speeds are not known.
    pub(crate) fn on_each(&self, task: TaskId) -> Vec<(&str, Span)> {
        let Some((live, spec)) = self.task(task) else { return Vec::new() };
        let length = |kind: &'_ String| {
            let speed = self.speed(spec, kind).filter(|speed| *speed > 0.0)?;
            Some(Span::from_secs(self.steps_left(live, spec)? / speed))
        };
        self.kinds.iter().filter_map(|kind| Some((kind.as_str(), length(kind)?))).collect()
    }

    /// Expected ends of running attempts. An overdue attempt is expected to take as long again as it is overdue, so
    /// that plans which wait for it are revisited, but ever less often.
    pub(crate) fn ends(&self, now: Time) -> impl Iterator<Item = (Time, &'a Placement)> + '_ {
        self.view.ends().map(move |(at, task, placement)| {
            let at = self.end(task, now).unwrap_or(at);
            (if at > now { at } else { now + now.since(at).max(LATE) }, placement)
        })
    }

    /// Expected end of a running task: its start plus the time all its steps take, or now plus the time of the steps
    /// that it has not reported yet.
    fn end(&self, task: TaskId, now: Time) -> Option<Time> {
        let (live, spec) = self.task(task)?;
        let attempt = live?.attempt()?;
        let speed = self.speed(spec, self.view.kind_given(task)?).filter(|speed| *speed > 0.0)?;
        let left = Span::from_secs(self.steps_left(live, spec)? / speed);
        let reported = live.is_some_and(|live| live.steps.is_some());
        Some(if reported { now + left } else { attempt.since + (left - attempt.ran) })
    }

    /// Steps per second on a device type; the mean over known types if that type's speed is not known.
    fn speed(&self, spec: &TaskSpec, kind: &str) -> Option<f64> {
        let known = self.view.shares().speed(spec.profile.as_ref()?, spec.needs.gpus, kind);
        known.map(|known| known.steps_per_second).or_else(|| self.mean_speed(spec))
    }

    fn mean_speed(&self, spec: &TaskSpec) -> Option<f64> {
        let all = self.view.shares().speeds_of(spec.profile.as_ref()?, spec.needs.gpus);
        let able: Vec<f64> = all.filter(|speed| *speed > 0.0).collect();
        (!able.is_empty()).then(|| able.iter().sum::<f64>() / able.len() as f64)
    }

    /// Steps a task has left. One that does not state its steps is taken to do them in its expected run time at mean
    /// speed.
    fn steps_left(&self, live: Option<&StartedTask>, spec: &TaskSpec) -> Option<f64> {
        let total = match spec.steps {
            Some(steps) => steps as f64,
            None => self.mean_speed(spec)? * spec.expected()?.secs(),
        };
        let reported = live.and_then(|live| live.steps).map_or(0.0, |steps| steps as f64);
        Some((total - reported).max(total * LEAST_LEFT))
    }

    fn task(&self, task: TaskId) -> Option<(Option<&'a StartedTask>, &'a TaskSpec)> {
        let (node, spec) = self.view.job(task.job)?.node(task.node)?;
        Some((node.live.get(&task.index).map(AsRef::as_ref), spec))
    }
}
