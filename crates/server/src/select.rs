//! What a selector finds: jobs and tasks of the cluster.

use crate::who::Caller;
use warpyard_api::problem::{Problem, code};
use warpyard_api::selector::{NotASelector, Select, Selector, TaskRef};
use warpyard_core::cluster::Job;
use warpyard_core::command::Target;
use warpyard_core::{Cluster, JobId, NodeId};

/// A selector, and who uses it: `last` means their own last job. Whoever has no name here means anyone's.
pub(crate) struct Selection {
    selector: Selector,
    by: Option<String>,
}

impl Selection {
    /// What it is made of.
    pub(crate) fn parts(&self) -> &[Select] {
        self.selector.parts()
    }
}

/// Reads what someone selects.
pub(crate) fn parse(text: &str, who: &Caller) -> Result<Selection, Problem> {
    let bad = |e: NotASelector| Problem::new(code::BAD_SELECTOR, "", e.to_string());
    Ok(Selection { selector: text.parse().map_err(bad)?, by: who.name().map(str::to_owned) })
}

/// Everything a selector finds, in order. `all` and ranges find what there is; a job named by itself must exist.
pub(crate) fn find(cluster: &Cluster, selection: &Selection) -> Result<Vec<Target>, Problem> {
    let mut found = Vec::new();
    for part in selection.parts() {
        match part {
            Select::All => found.extend(cluster.jobs().iter().map(|j| Target::Job(j.id))),
            Select::Last => found.push(Target::Job(last(cluster, selection)?)),
            Select::Range { first, last } => {
                let in_range = cluster.jobs().iter().filter(|j| (*first..=*last).contains(&j.id.0));
                found.extend(in_range.map(|j| Target::Job(j.id)));
            }
            Select::One(task) => found.extend(targets(cluster, task)?),
        }
    }
    Ok(found)
}

/// The one thing a selector finds.
pub(crate) fn find_one(cluster: &Cluster, selection: &Selection) -> Result<Target, Problem> {
    let selector = &selection.selector;
    selector.one().map_err(|e| Problem::new(code::BAD_SELECTOR, "", e.to_string()))?;
    match find(cluster, selection)?[..] {
        [only] => Ok(only),
        _ => {
            Err(Problem::new(code::BAD_SELECTOR, "", format!("'{selector}' is more than one task; name one")))
        }
    }
}

/// The number a selector names first, whether or not memory still holds that job.
pub(crate) fn job_number(cluster: &Cluster, selection: &Selection) -> Result<JobId, Problem> {
    match selection.selector.one().map_err(|e| Problem::new(code::BAD_SELECTOR, "", e.to_string()))? {
        Select::One(task) => Ok(JobId(task.job)),
        _ => last(cluster, selection),
    }
}

fn last(cluster: &Cluster, selection: &Selection) -> Result<JobId, Problem> {
    let theirs = |job: &&Job| selection.by.as_ref().is_none_or(|name| job.user == *name);
    let newest = cluster.jobs().iter().rfind(theirs).map(|job| job.id);
    newest.ok_or_else(|| {
        let whose = if selection.by.is_some() { "no job of yours" } else { "no job yet" };
        Problem::new(code::UNKNOWN_JOB, "", format!("there is {whose}"))
            .with_help("submit one with `warpyard submit`")
    })
}

fn targets(cluster: &Cluster, task: &TaskRef) -> Result<Vec<Target>, Problem> {
    let job = cluster.job(JobId(task.job)).ok_or_else(|| unknown_job(task.job))?;
    let Some(node) = node_of(job, task)? else { return Ok(vec![Target::Job(job.id)]) };
    let Some(indices) = &task.indices else { return Ok(vec![Target::Node(node)]) };
    let spec = &job.spec.tasks[node.node as usize];
    let position = |index: u32| {
        let position = spec.array.as_ref().and_then(|a| a.position(index));
        position.map(|p| Target::Task(node.task(p))).ok_or_else(|| {
            Problem::new(
                code::UNKNOWN_TASK,
                "",
                format!("task {} of job {} has no index {index}", spec.name, job.id),
            )
        })
    };
    indices.iter().map(position).collect()
}

fn node_of(job: &Job, task: &TaskRef) -> Result<Option<NodeId>, Problem> {
    let at = match (&task.task, &task.indices) {
        (Some(name), _) => job.spec.tasks.iter().position(|t| t.name == *name).ok_or_else(|| {
            let names: Vec<_> = job.spec.tasks.iter().map(|t| t.name.as_str()).take(20).collect();
            Problem::new(code::UNKNOWN_TASK, "", format!("job {} has no task '{name}'", job.id))
                .with_help(format!("its tasks: {}", names.join(", ")))
        })?,
        (None, Some(_)) if job.spec.tasks.len() == 1 => 0,
        (None, Some(_)) => {
            let message = format!("job {} has several tasks; say of which, as in {}.name[3]", job.id, job.id);
            return Err(Problem::new(code::BAD_SELECTOR, "", message));
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(NodeId { job: job.id, node: at as u32 }))
}

pub(crate) fn unknown_job(job: u64) -> Problem {
    Problem::new(code::UNKNOWN_JOB, "", format!("there is no job {job}"))
        .with_help("`warpyard ps` lists the jobs there are, `warpyard history` those that ended")
}
