//! Resolving selectors: the jobs and tasks of the cluster that a selector names. Indices are intersected with the array
//! there is, as ranges, so that what a selector costs is what it finds and not what it spells.

use crate::caller::Caller;
use std::ops::Range;
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::intersect_ranges;
use warpyard_api::selector::{Selector, SelectorError, SelectorPart, TaskRef};
use warpyard_core::cluster::Job;
use warpyard_core::command::TaskSelector;
use warpyard_core::spec::{Array, TaskSpec};
use warpyard_core::{Cluster, JobId, NodeId};

/// The most separate ranges of tasks one part of a selector may come to.
const MOST_RANGES: usize = 10_000;

/// A selector with the user it is resolved for: `last` means that user's last job, and anyone's for a caller without a
/// user name.
pub(crate) struct Selection {
    selector: Selector,
    by: Option<String>,
}

impl Selection {
    /// What it is made of.
    pub(crate) fn parts(&self) -> &[SelectorPart] {
        self.selector.parts()
    }
}

/// Reads what someone selects.
pub(crate) fn parse(text: &str, who: &Caller) -> Result<Selection, Problem> {
    let bad = |e: SelectorError| Problem::new(code::BAD_SELECTOR, "", e.to_string());
    Ok(Selection { selector: text.parse().map_err(bad)?, by: who.name().map(str::to_owned) })
}

/// Everything a selector finds, in order. `all` and ranges find what there is; a job named by itself must exist.
pub(crate) fn find(cluster: &Cluster, selection: &Selection) -> Result<Vec<TaskSelector>, Problem> {
    resolve(cluster, selection, |_| true).map(|found| found.targets)
}

/// What a caller may change of what a selector names.
#[derive(Debug, Default)]
pub(crate) struct OwnTargets {
    /// The caller's own, in order.
    pub(crate) targets: Vec<TaskSelector>,
    /// Whose the first of the others is.
    pub(crate) denied: Option<String>,
}

/// Everything a selector finds that is the caller's. Whose a job is is looked at before anything of it is resolved.
pub(crate) fn find_own(
    cluster: &Cluster,
    selection: &Selection,
    who: &Caller,
) -> Result<OwnTargets, Problem> {
    resolve(cluster, selection, |job| who.owns(&job.user))
}

fn resolve(
    cluster: &Cluster,
    selection: &Selection,
    may: impl Fn(&Job) -> bool,
) -> Result<OwnTargets, Problem> {
    let mut found = OwnTargets::default();
    for part in selection.parts() {
        let jobs: &mut dyn Iterator<Item = &Job> = match part {
            SelectorPart::All => &mut cluster.jobs().iter(),
            SelectorPart::Range { first, last } => {
                let after = JobId(first.saturating_sub(1));
                let from_first = cluster.jobs().after(after).filter(|job| job.id.0 >= *first);
                &mut from_first.take_while(|job| job.id.0 <= *last)
            }
            SelectorPart::Last => &mut std::iter::once(last(cluster, selection)?),
            SelectorPart::One(task) => {
                let job = job_of(cluster, selection, task)?;
                match may(job) {
                    true => found.targets.extend(targets(job, task)?),
                    false => found.denied = found.denied.or_else(|| Some(job.user.clone())),
                }
                continue;
            }
        };
        for job in jobs {
            match may(job) {
                true => found.targets.push(TaskSelector::Job(job.id)),
                false => found.denied = found.denied.or_else(|| Some(job.user.clone())),
            }
        }
    }
    Ok(found)
}

/// The one thing a selector finds.
pub(crate) fn find_one(cluster: &Cluster, selection: &Selection) -> Result<TaskSelector, Problem> {
    let selector = &selection.selector;
    selector.one().map_err(|e| Problem::new(code::BAD_SELECTOR, "", e.to_string()))?;
    match find(cluster, selection)?[..] {
        [only @ (TaskSelector::Job(_) | TaskSelector::Node(_) | TaskSelector::Task(_))] => Ok(only),
        _ => {
            Err(Problem::new(code::BAD_SELECTOR, "", format!("'{selector}' is more than one task; name one")))
        }
    }
}

/// The number a selector names first, whether or not memory still holds that job.
pub(crate) fn job_number(cluster: &Cluster, selection: &Selection) -> Result<JobId, Problem> {
    match selection.selector.one().map_err(|e| Problem::new(code::BAD_SELECTOR, "", e.to_string()))? {
        SelectorPart::One(TaskRef { job: Some(job), .. }) => Ok(JobId(*job)),
        _ => Ok(last(cluster, selection)?.id),
    }
}

fn job_of<'a>(cluster: &'a Cluster, selection: &Selection, task: &TaskRef) -> Result<&'a Job, Problem> {
    match task.job {
        Some(id) => cluster.job(JobId(id)).ok_or_else(|| unknown_job(id)),
        None => last(cluster, selection),
    }
}

fn last<'a>(cluster: &'a Cluster, selection: &Selection) -> Result<&'a Job, Problem> {
    let theirs = |job: &&Job| selection.by.as_ref().is_none_or(|name| job.user == *name);
    let newest = cluster.jobs().iter().rfind(theirs);
    newest.ok_or_else(|| {
        let whose = if selection.by.is_some() { "no job of yours" } else { "no job yet" };
        Problem::new(code::UNKNOWN_JOB, "", format!("there is {whose}"))
            .with_help("submit one with `warpyard submit`")
    })
}

/// The tasks of a job that are named. `train.3` is index 3 of the array `train` unless a task has that very name.
fn targets(job: &Job, task: &TaskRef) -> Result<Vec<TaskSelector>, Problem> {
    let node = |at: usize| NodeId { job: job.id, node: at as u32 };
    let named = |name: &str| job.spec.tasks.iter().position(|t| t.name == name);
    let at = match (&task.task, &task.indices) {
        (None, None) => return Ok(vec![TaskSelector::Job(job.id)]),
        (Some(name), _) if named(name).is_some() => named(name).expect("seen above"),
        (Some(name), None) => {
            let (array, index) = name.rsplit_once('.').map_or((None, name.as_str()), |(a, i)| (Some(a), i));
            let at = match array {
                Some(array) => named(array),
                None => (job.spec.tasks.len() == 1).then_some(0),
            };
            match (at, index.parse::<u32>()) {
                (Some(at), Ok(index)) if job.spec.tasks[at].array.is_some() => {
                    let spec = &job.spec.tasks[at];
                    let found = positions(spec, (index, index, 1))?;
                    return as_targets(node(at), spec, found, || no_index(job, spec, &index.to_string()));
                }
                _ => return Err(no_task(job, name)),
            }
        }
        (Some(name), Some(_)) => return Err(no_task(job, name)),
        (None, Some(_)) if job.spec.tasks.len() == 1 => 0,
        (None, Some(_)) => {
            let message = format!("job {} has several tasks; say of which, as in {}.name[3]", job.id, job.id);
            return Err(Problem::new(code::BAD_SELECTOR, "", message));
        }
    };
    let Some(indices) = &task.indices else { return Ok(vec![TaskSelector::Node(node(at))]) };
    let spec = &job.spec.tasks[at];
    let mut found = Vec::new();
    for part in indices.ranges() {
        let of_part = positions(spec, *part)?;
        let (first, last, _) = part;
        let text = if first == last { first.to_string() } else { format!("{first}-{last}") };
        found.extend(as_targets(node(at), spec, of_part, || no_index(job, spec, &text))?);
        if found.len() > MOST_RANGES {
            return Err(too_scattered(spec));
        }
    }
    Ok(found)
}

fn as_targets(
    node: NodeId,
    spec: &TaskSpec,
    found: Vec<Range<u32>>,
    none: impl FnOnce() -> Problem,
) -> Result<Vec<TaskSelector>, Problem> {
    debug_assert!(found.iter().all(|range| range.end <= spec.len()));
    let target = |Range { start, end }: Range<u32>| match end - start {
        1 => TaskSelector::Task(node.task(start)),
        _ => TaskSelector::Range { node, start, end },
    };
    if found.is_empty() { Err(none()) } else { Ok(found.into_iter().map(target).collect()) }
}

/// The positions of an array's values that are in a range `(first, last, step)`.
fn positions(spec: &TaskSpec, meant: (u32, u32, u32)) -> Result<Vec<Range<u32>>, Problem> {
    let Some(Array { ranges, .. }) = &spec.array else { return Ok(vec![]) };
    let (mut found, mut before) = (Vec::new(), 0);
    for &(from, to, by) in ranges {
        if let Some((first, last, step)) = intersect_ranges(meant, (from, to, by)) {
            let at = |value: u32| before + (value - from) / by;
            if step == by || first == last {
                found.push(at(first)..at(last) + 1);
            } else {
                let each = (first..=last).step_by(step as usize).map(|value| at(value)..at(value) + 1);
                found.extend(each.take(MOST_RANGES + 1));
            }
            if found.len() > MOST_RANGES {
                return Err(too_scattered(spec));
            }
        }
        before += (to - from) / by + 1;
    }
    Ok(found)
}

fn too_scattered(spec: &TaskSpec) -> Problem {
    let message = format!("these are more than {MOST_RANGES} separate ranges of task {}", spec.name);
    Problem::new(code::BAD_SELECTOR, "", message).with_help("name fewer at a time, or a range without a step")
}

fn no_index(job: &Job, spec: &TaskSpec, index: &str) -> Problem {
    let message = format!("task {} of job {} has no index {index}", spec.name, job.id);
    Problem::new(code::UNKNOWN_TASK, "", message)
}

fn no_task(job: &Job, name: &str) -> Problem {
    let names: Vec<_> = job.spec.tasks.iter().map(|t| t.name.as_str()).take(20).collect();
    Problem::new(code::UNKNOWN_TASK, "", format!("job {} has no task '{name}'", job.id))
        .with_help(format!("its tasks: {}", names.join(", ")))
}

pub(crate) fn unknown_job(job: u64) -> Problem {
    Problem::new(code::UNKNOWN_JOB, "", format!("there is no job {job}"))
        .with_help("`warpyard ps` lists the jobs there are, `warpyard history` those that ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(ranges: &[(u32, u32, u32)]) -> TaskSpec {
        let array = Array { ranges: ranges.to_vec(), at_once: None };
        TaskSpec { array: Some(array), ..TaskSpec::default() }
    }

    #[test]
    fn ten_million_indices_are_one_range() {
        let spec = array(&[(1, 10_000_000, 1)]);
        assert_eq!(positions(&spec, (1, 10_000_000, 1)).unwrap(), vec![Range { start: 0, end: 10_000_000 }]);
        assert!(positions(&spec, (1, 10_000_000, 2)).is_err(), "five million separate tasks are too many");
        assert!(positions(&TaskSpec::default(), (1, 10_000_000, 1)).unwrap().is_empty());
    }

    #[test]
    fn positions_are_those_of_the_values_named() {
        let arrays: [&[(u32, u32, u32)]; 4] =
            [&[(0, 9, 1)], &[(4, 40, 3)], &[(0, 8, 2), (1, 9, 2)], &[(20, 30, 5), (3, 3, 1), (7, 19, 4)]];
        for spec in arrays.map(array) {
            let values = spec.array.as_ref().expect("an array");
            for (first, more, step) in
                (0..40).flat_map(|f| (0..40).flat_map(move |m| (1..5).map(move |s| (f, m, s))))
            {
                let named = |value: u32| {
                    (first..=first + more).contains(&value) && (value - first).is_multiple_of(step)
                };
                let expected = (0..spec.len()).filter(|&at| values.value(at).is_some_and(named));
                let found = positions(&spec, (first, first + more / step * step, step)).expect("few");
                assert!(found.into_iter().flatten().eq(expected), "{spec:?} {first} {more} {step}");
            }
        }
    }
}
