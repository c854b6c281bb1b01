//! Validation across fields: names, dependencies, devices and times that must fit together.

use super::{JobDoc, ModelMode, TaskDoc, WaitMode};
use crate::problem::{Problem, code};
use crate::quantity::MAX_ARRAY_TASKS;
use crate::text::closest_match;
use std::collections::BTreeMap;

/// Every problem across the fields of a document. `shorthand` means that the fields of its one task are beside the
/// job's.
pub(super) fn check(job: &JobDoc, shorthand: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let by_name = check_names(job, &mut problems);
    let edges = check_dependencies(job, &by_name, &mut problems);
    check_cycles(job, &edges, &mut problems);
    check_job_dependencies(job, &mut problems);
    for (i, task) in job.tasks.iter().enumerate() {
        let path = |field: &str| if shorthand { field.to_owned() } else { format!("tasks[{i}].{field}") };
        check_gpus(task, &path, &mut problems);
        check_model(task, &path, &mut problems);
        check_times(task, &path, &mut problems);
        check_terminal(task, &path, &mut problems);
    }
    check_task_count(job, &mut problems);
    problems
}

fn check_names<'a>(job: &'a JobDoc, problems: &mut Vec<Problem>) -> BTreeMap<&'a str, usize> {
    let mut by_name = BTreeMap::new();
    for (i, task) in job.tasks.iter().enumerate() {
        if let Some(first) = by_name.get(task.name.as_str()) {
            let message = format!("'{}' is already the name of tasks[{first}]", task.name);
            problems.push(Problem::new(code::DUPLICATE_TASK, format!("tasks[{i}].name"), message));
        } else {
            by_name.insert(task.name.as_str(), i);
        }
    }
    by_name
}

/// The dependencies of each task, by index.
fn check_dependencies(
    job: &JobDoc,
    by_name: &BTreeMap<&str, usize>,
    problems: &mut Vec<Problem>,
) -> Vec<Vec<usize>> {
    let mut edges = Vec::with_capacity(job.tasks.len());
    for (i, task) in job.tasks.iter().enumerate() {
        let mut needed: Vec<usize> = Vec::with_capacity(task.after.len());
        let mut listed = std::collections::BTreeSet::new();
        for (n, after) in task.after.iter().enumerate() {
            let path = || {
                if task.after.len() == 1 {
                    format!("tasks[{i}].after")
                } else {
                    format!("tasks[{i}].after[{n}]")
                }
            };
            match by_name.get(after.task.as_str()) {
                None => {
                    let message = format!("no task of this job is called '{}'", after.task);
                    let problem = Problem::new(code::UNKNOWN_TASK, path(), message);
                    // Comparing every wrong name with every right one would let a document keep us busy for long.
                    let few = problems.len() < 10;
                    let near =
                        closest_match(&after.task, by_name.keys().copied().take(if few { 2000 } else { 0 }));
                    problems.push(match near {
                        Some(name) => problem.with_help(format!("did you mean {name}?")),
                        None => {
                            problem.with_help("a task of another job is waited for with the job's own after")
                        }
                    });
                }
                Some(other) if *other == i => {
                    let message = format!("'{}' waits for itself", task.name);
                    problems.push(Problem::new(code::SELF_DEPENDENCY, path(), message));
                }
                Some(other) if !listed.insert(*other) => {
                    let message = format!("'{}' is listed twice", after.task);
                    problems.push(Problem::new(code::DUPLICATE_DEPENDENCY, path(), message));
                }
                Some(other) => needed.push(*other),
            }
        }
        edges.push(needed);
    }
    edges
}

/// The most cycles reported of one document: finding one takes time linear in its length, and there can be as many as
/// dependencies.
const MAX_CYCLES: usize = 10;

/// Finds cycles by a depth-first search without recursion, because a chain may be as long as the document; every back
/// edge closes a cycle.
fn check_cycles(job: &JobDoc, edges: &[Vec<usize>], problems: &mut Vec<Problem>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Unvisited,
        OnPath,
        Finished,
    }
    let mut visits = vec![Visit::Unvisited; edges.len()];
    let mut cycles = 0;
    for root in 0..edges.len() {
        if visits[root] != Visit::Unvisited {
            continue;
        }
        let mut path = vec![(root, edges[root].iter())];
        visits[root] = Visit::OnPath;
        while let Some((task, needed)) = path.last_mut() {
            let Some(next) = needed.next().copied() else {
                visits[*task] = Visit::Finished;
                path.pop();
                continue;
            };
            match visits[next] {
                Visit::Finished => {}
                Visit::Unvisited => {
                    visits[next] = Visit::OnPath;
                    path.push((next, edges[next].iter()));
                }
                Visit::OnPath => {
                    let start = path.iter().position(|(task, _)| *task == next).expect("it is on the path");
                    let cycle_tasks: Vec<usize> = path[start..].iter().map(|(task, _)| *task).collect();
                    problems.push(cycle(job, &cycle_tasks));
                    cycles += 1;
                    if cycles == MAX_CYCLES {
                        return;
                    }
                }
            }
        }
    }
}

/// The problem of a cycle, listed in the order of its dependencies from the task written first.
fn cycle(job: &JobDoc, cycle_tasks: &[usize]) -> Problem {
    const SHOWN: usize = 8;
    let first = (0..cycle_tasks.len()).min_by_key(|i| cycle_tasks[*i]).unwrap_or(0);
    let in_order =
        || cycle_tasks[first..].iter().chain(&cycle_tasks[..first]).map(|i| job.tasks[*i].name.as_str());
    let mut names: Vec<&str> = in_order().take(SHOWN).collect();
    if cycle_tasks.len() > SHOWN {
        names.push("…");
    }
    names.extend(in_order().next());
    let message = format!("tasks depend on each other in a cycle: {}", names.join(" waits for "));
    let path = format!("tasks[{}].after", cycle_tasks[first]);
    Problem::new(code::CYCLE, path, message).with_help("remove one of these dependencies")
}

fn check_job_dependencies(job: &JobDoc, problems: &mut Vec<Problem>) {
    let mut listed = std::collections::BTreeSet::new();
    for (n, after) in job.after.iter().enumerate() {
        if !listed.insert(&after.job) {
            let message = format!("job {} is listed twice", after.job);
            problems.push(Problem::new(code::DUPLICATE_DEPENDENCY, format!("after[{n}]"), message));
        }
    }
}

/// The most devices in a list.
const MAX_DEVICES: usize = 256;

fn check_gpus(task: &TaskDoc, path: &impl Fn(&str) -> String, problems: &mut Vec<Problem>) {
    let (scope, preferred, gpus) = (&task.gpu_scope, &task.gpu_preferred, task.gpus as usize);
    for (field, devices) in [("gpu_scope", scope), ("gpu_preferred", preferred)] {
        // Each of one list is compared with each of the other.
        if devices.len() > MAX_DEVICES {
            let message = format!("{} devices are more than may be listed ({MAX_DEVICES})", devices.len());
            problems.push(Problem::new(code::TOO_LARGE, path(field), message));
            return;
        }
        let mut sorted: Vec<_> = devices.iter().collect();
        sorted.sort();
        for pair in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
            let message = format!("device {} is listed twice", pair[0]);
            problems.push(Problem::new(code::DUPLICATE_DEVICE, path(field), message));
        }
    }
    if gpus == 0 {
        let said = [
            ("gpu_memory", task.gpu_memory.is_some()),
            ("model", task.model.is_some()),
            ("estimate", task.estimate.is_some()),
            ("gpu_type", !task.gpu_type.is_empty()),
            ("gpu_scope", !scope.is_empty()),
            ("gpu_preferred", !preferred.is_empty()),
        ];
        for (field, _) in said.into_iter().filter(|(_, said)| *said) {
            let problem = Problem::new(code::GPUS_NOT_ASKED, path(field), "the task asks for no GPU");
            problems.push(problem.with_help("add gpus = 1"));
        }
        return;
    }
    if !scope.is_empty() && gpus > scope.len() {
        let message = format!("{gpus} GPUs of only {} it may use", scope.len());
        problems.push(
            Problem::new(code::SCOPE_TOO_SMALL, path("gpu_scope"), message)
                .with_help("list more, or lower gpus"),
        );
    }
    if !preferred.is_empty() && task.wait_mode == WaitMode::Queue && gpus > preferred.len() {
        let message = format!("{gpus} GPUs of only {} it waits for", preferred.len());
        let help = "list more, lower gpus, or use wait_mode = \"schedule\"";
        problems.push(Problem::new(code::PREFERRED_TOO_FEW, path("gpu_preferred"), message).with_help(help));
    }
    for device in preferred {
        if !scope.is_empty() && !scope.iter().any(|allowed| allowed.overlaps(device)) {
            let message = format!("device {device} is not in gpu_scope");
            problems.push(Problem::new(code::PREFERRED_OUT_OF_SCOPE, path("gpu_preferred"), message));
        }
    }
}

/// Checks that what is said of how a model runs is said of a model.
fn check_model(task: &TaskDoc, path: &impl Fn(&str) -> String, problems: &mut Vec<Problem>) {
    let said = [
        ("batch_size", task.batch_size.is_some()),
        ("mode", task.mode.is_some()),
        ("optimizer", task.optimizer.is_some()),
    ];
    if task.model.is_none() {
        for (field, _) in said.into_iter().filter(|(_, said)| *said) {
            let problem = Problem::new(code::NO_MODEL, path(field), "the task names no model");
            problems.push(problem.with_help("add model = \"model.pt2\""));
        }
    } else if task.optimizer.is_some() && task.mode != Some(ModelMode::Train) {
        let problem = Problem::new(code::NOT_TRAINED, path("optimizer"), "only training has an optimiser");
        problems.push(problem.with_help("add mode = \"train\""));
    }
}

fn check_times(task: &TaskDoc, path: &impl Fn(&str) -> String, problems: &mut Vec<Problem>) {
    if let (Some(expected), Some(timeout)) = (task.expected, task.timeout)
        && expected > timeout
    {
        let message = format!("expects to run {expected}, but is ended after {timeout}");
        let problem = Problem::new(code::EXPECTED_OVER_TIMEOUT, path("expected"), message);
        problems.push(problem.with_help("raise the timeout if it should finish"));
    }
}

fn check_terminal(task: &TaskDoc, path: &impl Fn(&str) -> String, problems: &mut Vec<Problem>) {
    if task.idle.is_some() && !task.pty {
        let problem = Problem::new(code::NO_TERMINAL, path("idle"), "the task has no terminal to be idle in");
        problems.push(problem.with_help("add pty = true"));
    }
    if task.stderr.is_some() && task.pty {
        let message = "all that is printed in a terminal is one stream";
        let problem = Problem::new(code::ONE_STREAM, path("stderr"), message);
        problems.push(problem.with_help("use stdout, which gets errors too"));
    }
}

fn check_task_count(job: &JobDoc, problems: &mut Vec<Problem>) {
    let total: u64 =
        job.tasks.iter().map(|task| task.array.as_ref().map_or(1, |array| u64::from(array.len()))).sum();
    if total > MAX_ARRAY_TASKS {
        let message =
            format!("{total} tasks with all arrays are more than a job may have ({MAX_ARRAY_TASKS})");
        problems.push(Problem::new(code::TOO_MANY_TASKS, "tasks", message).with_help("submit several jobs"));
    }
}
