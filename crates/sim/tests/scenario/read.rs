//! The words of a scenario.

use std::collections::BTreeMap;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::*;
use warpyard_core::{DeviceId, JobId, Span, Time, WorkerId};
use warpyard_sim::{NodeRunModel, RunModel};

pub(crate) type Fields<'a> = BTreeMap<&'a str, &'a str>;

/// `t=10s rest`, or just the rest.
pub(crate) fn moment(line: &str) -> Result<(Option<Time>, &str), String> {
    let Some(line) = line.strip_prefix("t=") else { return Ok((None, line)) };
    let (time, rest) = line.split_once(char::is_whitespace).ok_or("nothing happens then")?;
    Ok((Some(Time(span(time)?.0)), rest.trim()))
}

/// `10s`, `2m`, `1h`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let scale = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}' is no time")),
    };
    let number: f64 = text[..text.len() - unit.len()].parse().map_err(|_| format!("'{text}' is no time"))?;
    Ok(Span::from_secs(number * scale))
}

fn size(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("GiB").ok_or(format!("'{text}' is no size in GiB"))?;
    number.parse::<u64>().map(|n| n << 30).map_err(|_| format!("'{text}' is no size in GiB"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

/// `w1: 2xV100:16GiB,1xK80:12GiB lease=15s   w2: 1xV100:16GiB/budget=10GiB/limit=2/overcommit`
pub(crate) fn cluster(text: &str) -> Result<Vec<WorkerInfo>, String> {
    let mut workers: Vec<WorkerInfo> = Vec::new();
    for word in text.split_whitespace() {
        if let Some(name) = word.strip_suffix(':') {
            let name = name.to_owned();
            workers.push(WorkerInfo { name, cpus: 16_000, memory: 64 << 30, ..WorkerInfo::default() });
            continue;
        }
        let worker = workers.last_mut().ok_or("a worker's name comes first")?;
        match word.split_once('=').filter(|(key, _)| !key.contains('x')) {
            Some(("lease", value)) => worker.lease = Some(span(value)?),
            Some(("cpus", value)) => worker.cpus = number::<u32>(value)? * 1000,
            Some(("memory", value)) => worker.memory = size(value)?,
            _ => {
                for group in word.split(',') {
                    devices(worker, group)?;
                }
            }
        }
    }
    Ok(workers)
}

fn devices(worker: &mut WorkerInfo, group: &str) -> Result<(), String> {
    let mut parts = group.split('/');
    let first = parts.next().unwrap_or_default();
    let (count, rest) = first.split_once('x').ok_or(format!("'{group}' is no group of devices"))?;
    let (kind, memory) = rest.split_once(':').ok_or(format!("'{group}' has no memory"))?;
    let memory = size(memory)?;
    let (kind, state) = (kind.to_owned(), DeviceState::Usable);
    let uuid = String::new();
    let mut device = DeviceInfo { uuid, kind, memory, budget: memory, limit: None, overcommit: false, state };
    for part in parts {
        match part.split_once('=') {
            Some(("budget", value)) => device.budget = size(value)?,
            Some(("limit", value)) => device.limit = Some(number(value)?),
            None if part == "overcommit" => device.overcommit = true,
            _ => return Err(format!("a device has no '{part}'")),
        }
    }
    for _ in 0..number::<usize>(count)? {
        let uuid = format!("GPU-{}-{}", worker.name, worker.devices.len());
        worker.devices.push(DeviceInfo { uuid, ..device.clone() });
    }
    Ok(())
}

/// `name key=value ...`, or `name priority=5: first key=value; second after=first key=value`.
pub(crate) fn job(
    text: &str,
    workers: &[String],
    jobs: &BTreeMap<String, JobId>,
) -> Result<(String, JobSpec, RunModel, String), String> {
    let (head, tasks) = text.split_once(": ").map_or((text, None), |(head, tasks)| (head, Some(tasks)));
    let (name, mut fields) = fields(head)?;
    let after = match fields.remove("after") {
        Some(list) => list.split('+').map(|dep| after_job(dep, jobs)).collect::<Result<_, _>>()?,
        None => vec![],
    };
    let priority = fields.remove("priority").map_or(Ok(0), number)?;
    let user = fields.remove("user").unwrap_or("ann").to_owned();
    let mut spec = JobSpec { name: name.to_owned(), priority, after, ..JobSpec::default() };
    let mut courses = Vec::new();
    match tasks {
        None => {
            let (task, course) = task(name, &fields, workers, &[])?;
            spec.tasks.push(task);
            courses.push(course);
        }
        Some(tasks) => {
            super::known(&fields, &[])?;
            for text in tasks.split(';') {
                let (name, fields) = self::fields(text)?;
                let (task, course) = task(name, &fields, workers, &spec.tasks)?;
                spec.tasks.push(task);
                courses.push(course);
            }
        }
    }
    Ok((name.to_owned(), spec, RunModel::PerNode(courses), user))
}

fn fields(text: &str) -> Result<(&str, Fields<'_>), String> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or("a name is needed")?;
    let pairs = words.map(|w| w.split_once('=').ok_or(format!("'{w}' is not key=value")));
    Ok((name, pairs.collect::<Result<_, _>>()?))
}

fn on(word: Option<&str>) -> Result<DependencyCondition, String> {
    match word {
        None | Some("ok") => Ok(DependencyCondition::Ok),
        Some("fail") => Ok(DependencyCondition::Fail),
        Some("any") => Ok(DependencyCondition::Any),
        Some(other) => Err(format!("nothing ends '{other}'")),
    }
}

fn after_job(text: &str, jobs: &BTreeMap<String, JobId>) -> Result<AfterJob, String> {
    let (name, how) = text.split_once(':').map_or((text, None), |(name, how)| (name, Some(how)));
    let job = *jobs.get(name).ok_or(format!("no job is called '{name}'"))?;
    Ok(AfterJob { job, on: on(how)? })
}

fn after_node(text: &str, tasks: &[TaskSpec]) -> Result<AfterNode, String> {
    let (name, how) = text.split_once(':').map_or((text, None), |(name, how)| (name, Some(how)));
    let node = tasks.iter().position(|t| t.name == name).ok_or(format!("no task is called '{name}'"))?;
    Ok(AfterNode { node: node as u32, on: on(how)? })
}

/// `w1/0+w1/1`
pub(crate) fn device_ids(text: &str, workers: &[String]) -> Result<Vec<DeviceId>, String> {
    let one = |text: &str| {
        let (name, index) = text.split_once('/').ok_or(format!("'{text}' is no device"))?;
        Ok(DeviceId { worker: worker_id(name, workers)?, index: number(index)? })
    };
    text.split('+').map(one).collect()
}

fn worker_ids(text: &str, workers: &[String]) -> Result<Vec<WorkerId>, String> {
    text.split('+').map(|name| worker_id(name, workers)).collect()
}

fn worker_id(name: &str, workers: &[String]) -> Result<WorkerId, String> {
    let at = workers.iter().position(|w| w == name).ok_or(format!("no worker is called '{name}'"))?;
    Ok(WorkerId(at as u32))
}

const FIELDS: &[&str] = &[
    "gpus",
    "mem",
    "types",
    "scope",
    "prefer",
    "mode",
    "on",
    "cpus",
    "memory",
    "timeout",
    "expected",
    "grace",
    "runs",
    "exits",
    "retries",
    "retry_on_timeout",
    "on_lost",
    "preempt",
    "batch",
    "item",
    "resume",
    "array",
    "after",
    "stubborn",
];

fn task(
    name: &str,
    fields: &Fields<'_>,
    workers: &[String],
    before: &[TaskSpec],
) -> Result<(TaskSpec, NodeRunModel), String> {
    super::known(fields, FIELDS)?;
    let get = |key: &str| fields.get(key).copied();
    let needs = Needs {
        gpus: get("gpus").map_or(Ok(0), number)?,
        gpu_memory: get("mem").map(size).transpose()?,
        gpu_types: get("types").map_or(vec![], |t| t.split('+').map(str::to_owned).collect()),
        scope: get("scope").map_or(Ok(vec![]), |t| device_ids(t, workers))?,
        preferred: get("prefer").map_or(Ok(vec![]), |t| device_ids(t, workers))?,
        wait_mode: if get("mode") == Some("queue") { WaitMode::Queue } else { WaitMode::Schedule },
        workers: get("on").map_or(Ok(vec![]), |t| worker_ids(t, workers))?,
        cpus: get("cpus").map_or(Ok(0), number::<u32>)? * 1000,
        memory: get("memory").map_or(Ok(0), size)?,
    };
    let after = get("after").map_or(Ok(vec![]), |t| t.split('+').map(|d| after_node(d, before)).collect())?;
    let spec = TaskSpec {
        name: name.to_owned(),
        program: Program::new(["true"]),
        after,
        array: get("array").map(array).transpose()?,
        needs,
        timeout: get("timeout").map(span).transpose()?,
        grace: get("grace").map_or(Ok(default_grace()), span)?,
        expected: get("expected").map(span).transpose()?,
        retries: get("retries").map_or(Ok(0), number)?,
        retry_on_timeout: get("retry_on_timeout") == Some("true"),
        on_lost: if get("on_lost") == Some("hold") { OnLost::Hold } else { OnLost::Rerun },
        preempt: match get("preempt") {
            Some("freeze") => Preempt::Freeze,
            Some("requeue") => Preempt::Requeue,
            Some("yield") => Preempt::Yield,
            _ => Preempt::None,
        },
        batch_time: get("batch").map(span).transpose()?,
        item_time: get("item").map(span).transpose()?,
        resume_time: get("resume").map_or(Ok(Span::ZERO), span)?,
        ..TaskSpec::default()
    };
    let course = NodeRunModel {
        lengths: get("runs").unwrap_or("1s").split('+').map(span).collect::<Result<_, _>>()?,
        exit_codes: get("exits").map_or(Ok(vec![]), |t| t.split('+').map(number).collect())?,
        ignores_stop: get("stubborn") == Some("true"),
    };
    Ok((spec, course))
}

/// `1-100%8`
fn array(text: &str) -> Result<Array, String> {
    let (range, at_once) = text.split_once('%').map_or((text, None), |(r, n)| (r, Some(n)));
    let (first, last) = range.split_once('-').ok_or(format!("'{text}' is no array"))?;
    let at_once = at_once.map(number).transpose()?;
    Ok(Array { ranges: vec![(number(first)?, number(last)?, 1)], at_once })
}
