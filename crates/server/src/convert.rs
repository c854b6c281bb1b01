//! From the documents of the interface to the types of the core, and from its refusals to problems.

use crate::model_admission;
use std::borrow::Cow;
use std::collections::BTreeMap;
use warpyard_api::job::{self as doc, DeviceRef, JobDoc, TaskDoc};
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::{ArraySpec, ByteSize, Micros, MilliCpus};
use warpyard_api::secrets::{MASK, mask_text, mask_value};
use warpyard_api::wire::{ParamValue, PolicySpec};
use warpyard_core::cluster::Worker;
use warpyard_core::model::EstimateRequest;
use warpyard_core::spec::{self, AfterJob, AfterNode, Array, JobSpec, Needs, Program, TaskSpec, Terminal};
use warpyard_core::{Cluster, DeviceId, JobId, PolicyChoice, Rejection, Span, WorkerId};

/// What a task is given where it says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) timeout: Option<Span>,
    pub(crate) workdir: Option<String>,
    /// How long nothing may happen in a terminal.
    pub(crate) idle: Option<Span>,
    /// The longest that may be asked for.
    pub(crate) longest_idle: Option<Span>,
    /// The longest grace period that may be asked for.
    pub(crate) longest_grace: Option<Span>,
    /// The size of the terminal a job was submitted from.
    pub(crate) size: Option<(u16, u16)>,
    /// Whether the tasks are claims, which run nothing and hold devices for a process of this machine.
    pub(crate) claims: bool,
}

impl Defaults {
    /// The grace period of a task, if it may have that.
    fn grace(&self, task: &TaskDoc) -> Result<Span, Problem> {
        let longest = self.longest_grace.unwrap_or(Span(u64::MAX));
        let Some(asked) = task.grace.map(|grace| Span(grace.0)) else {
            return Ok(spec::default_grace().min(longest));
        };
        if asked > longest {
            let (asked, longest) = (Micros(asked.0), Micros(longest.0));
            let message = format!("a grace period may be {longest} at the longest; this asks for {asked}");
            let help = "ask for less, or an administrator to raise `max_grace` in the server's configuration";
            return Err(Problem::new(code::OVER_LIMIT, "grace", message).with_help(help));
        }
        Ok(asked)
    }

    /// The terminal of a task that runs in one.
    fn terminal(&self, task: &TaskDoc) -> Result<Option<Terminal>, Problem> {
        if !task.pty {
            return Ok(None);
        }
        let asked = task.idle.map(|idle| Span(idle.0));
        if let (Some(asked), Some(longest)) = (asked, self.longest_idle)
            && asked > longest
        {
            let message = format!("{} is longer than anyone may be idle here", Micros(asked.0));
            let help = format!("ask for at most {}", Micros(longest.0));
            return Err(Problem::new(code::OVER_LIMIT, "idle", message).with_help(help));
        }
        let unasked = [self.idle, self.longest_idle].into_iter().flatten().min();
        Ok(Some(Terminal { idle: asked.or(unasked), size: self.size }))
    }
}

/// Workers by name, labels and number of devices, for documents that name workers or devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workers(Vec<NamedWorker>);

#[derive(Clone, Debug)]
struct NamedWorker {
    id: WorkerId,
    name: String,
    labels: BTreeMap<String, String>,
    devices: usize,
    /// Whether it is the one inside the server, which alone has no lease.
    is_local: bool,
}

impl Workers {
    pub(crate) fn of(cluster: &Cluster) -> Workers {
        let worker = |(id, worker): (WorkerId, &Worker)| NamedWorker {
            id,
            name: worker.info.name.clone(),
            labels: worker.info.labels.clone(),
            devices: worker.info.devices.len(),
            is_local: worker.info.lease.is_none(),
        };
        Workers(cluster.workers().map(worker).collect())
    }

    /// Whether a document can only be read with them.
    pub(crate) fn are_needed_for(doc: &JobDoc) -> bool {
        let names = |task: &TaskDoc| {
            !(task.gpu_scope.is_empty() && task.gpu_preferred.is_empty() && task.on.is_empty())
        };
        doc.snapshot || doc.tasks.iter().any(|task| task.pty || names(task))
    }

    /// The workers that a task may run on: of those it names, the ones with all labels it names. None means any.
    fn selected(&self, on: &[String]) -> Result<Vec<WorkerId>, Problem> {
        if on.is_empty() {
            return Ok(Vec::new());
        }
        let (labels, names): (Vec<_>, Vec<_>) = on.iter().partition(|term| term.contains('='));
        let refused = |message: String| {
            let problem = Problem::new(code::UNKNOWN_WORKER, "on", message);
            Err(problem.with_help("`warpyard workers` lists the workers and their labels"))
        };
        if let Some(unknown) = names.iter().find(|name| self.0.iter().all(|worker| worker.name != ***name)) {
            return refused(format!("there is no worker '{unknown}'"));
        }
        let has = |worker: &NamedWorker, label: &str| {
            label
                .split_once('=')
                .is_some_and(|(key, value)| worker.labels.get(key).is_some_and(|v| v == value))
        };
        let selected = self.0.iter().filter(|worker| {
            (names.is_empty() || names.iter().any(|name| **name == worker.name))
                && labels.iter().all(|label| has(worker, label))
        });
        let selected: Vec<_> = selected.map(|worker| worker.id).collect();
        match selected.is_empty() {
            true => refused(format!("no worker is {}", on.join(" and "))),
            false => Ok(selected),
        }
    }

    /// The workers that a task may run on which has to be on the server's own machine: terminals, claims and snapshots reach
    /// no other yet.
    fn local(&self, selected: Vec<WorkerId>, what: &str) -> Result<Vec<WorkerId>, Problem> {
        if self.0.iter().all(|worker| worker.is_local) {
            return Ok(selected);
        }
        let allowed = |worker: &&NamedWorker| selected.is_empty() || selected.contains(&worker.id);
        match self.0.iter().filter(|worker| worker.is_local).find(allowed) {
            Some(local) => Ok(vec![local.id]),
            None => {
                let message = format!("{what} can only be on the server's own machine");
                let here = self.0.iter().find(|worker| worker.is_local);
                let help = match here {
                    Some(local) => format!("leave --on out, or name {}", local.name),
                    None => "the server runs without a worker of its own (--no-worker)".to_owned(),
                };
                Err(Problem::new(code::UNKNOWN_WORKER, "on", message).with_help(help))
            }
        }
    }
}

/// A checked document as the core takes it. Device numbers are looked up among the workers there are.
pub(crate) fn job_spec(
    workers: &Workers,
    doc: &JobDoc,
    defaults: &Defaults,
) -> Result<JobSpec, Vec<Problem>> {
    let mut problems = Vec::new();
    let after = doc.after.iter().enumerate().filter_map(|(i, after)| match after.job.parse() {
        Ok(job) => Some(AfterJob { job: JobId(job), on: on(after.on) }),
        Err(_) => {
            let message = format!("'{}' is not a job's id", after.job);
            problems.push(Problem::new(code::UNKNOWN_JOB, format!("after[{i}]"), message));
            None
        }
    });
    let after = after.collect();
    let names: std::collections::HashMap<&str, u32> =
        doc.tasks.iter().enumerate().map(|(i, t)| (t.name.as_str(), i as u32)).collect();
    let mut tasks = Vec::with_capacity(doc.tasks.len());
    for (i, task) in doc.tasks.iter().enumerate() {
        let after = task.after.iter().map(|a| AfterNode { node: names[a.task.as_str()], on: on(a.on) });
        let after = after.collect();
        match task_spec(workers, doc, task, after, defaults) {
            Ok(task) => tasks.push(task),
            Err(mut problem) => {
                problem.path = format!("tasks[{i}].{}", problem.path);
                problems.push(problem);
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let JobDoc { name, priority, project, weight, .. } = doc.clone();
    let deadline = doc.deadline.map(|deadline| Span(deadline.0));
    Ok(JobSpec { name, priority, project, weight, deadline, after, tasks, ..JobSpec::default() })
}

fn task_spec(
    workers: &Workers,
    job: &JobDoc,
    task: &TaskDoc,
    after: Vec<AfterNode>,
    defaults: &Defaults,
) -> Result<TaskSpec, Problem> {
    let gpus = u16::try_from(task.gpus).map_err(|_| {
        Problem::new(code::TOO_FEW_GPUS, "gpus", format!("{} GPUs are more than any worker has", task.gpus))
    })?;
    // A task without GPUs takes a processor, so that a thousand of them do not start at once; one with GPUs is bounded
    // by those.
    let default_cpus = if gpus == 0 { 1000 } else { 0 };
    let model = model_admission::model_spec(task);
    let bound = model.as_ref().and_then(|model| model.estimate.as_ref()).map(|estimate| estimate.bound);
    let selected = workers.selected(&task.on)?;
    let local_part = match (defaults.claims, task.pty, job.snapshot) {
        (true, ..) => Some("a claim"),
        (_, true, _) => Some("a terminal"),
        (.., true) => Some("a job with a snapshot"),
        _ => None,
    };
    let needs = Needs {
        workers: match local_part {
            Some(what) => workers.local(selected, what)?,
            None => selected,
        },
        gpus,
        gpu_memory: task.gpu_memory.map(|m| m.0).or(bound),
        gpu_types: task.gpu_type.clone(),
        scope: devices(workers, &task.gpu_scope, "gpu_scope")?,
        preferred: devices(workers, &task.gpu_preferred, "gpu_preferred")?,
        wait_mode: match task.wait_mode {
            doc::WaitMode::Schedule => spec::WaitMode::Schedule,
            doc::WaitMode::Queue => spec::WaitMode::Queue,
        },
        cpus: task.cpus.map_or(default_cpus, |c| c.0),
        memory: task.memory.map_or(0, |m| m.0),
    };
    Ok(TaskSpec {
        name: task.name.clone(),
        program: Program {
            command: match &task.command {
                doc::Command::List(words) => words.clone(),
                doc::Command::Shell(line) => vec!["sh".into(), "-c".into(), line.clone()],
            },
            env: task.env.clone(),
            workdir: task.workdir.clone().or_else(|| defaults.workdir.clone()),
            stdout: task.stdout.clone(),
            stderr: task.stderr.clone(),
        },
        after,
        array: task.array.as_ref().map(|a| Array { ranges: a.ranges().to_vec(), at_once: a.at_once() }),
        needs,
        cpu_quota: task.cpus.map(|cpus| cpus.0).filter(|cpus| *cpus > 0),
        timeout: task.timeout.map(|t| Span(t.0)).or(defaults.timeout),
        grace: defaults.grace(task)?,
        expected: task.expected.map(|e| Span(e.0)),
        retries: task.retries,
        retry_on_timeout: task.retry_on_timeout,
        on_lost: match task.on_lost {
            doc::OnLost::Rerun => spec::OnLost::Rerun,
            doc::OnLost::Hold => spec::OnLost::Hold,
        },
        preempt: match task.preempt {
            doc::Preempt::None => spec::Preempt::None,
            doc::Preempt::Freeze => spec::Preempt::Freeze,
            doc::Preempt::Requeue => spec::Preempt::Requeue,
            doc::Preempt::Yield => spec::Preempt::Yield,
        },
        batch_time: task.batch_time.map(|t| Span(t.0)),
        item_time: task.item_time.map(|t| Span(t.0)),
        resume_time: task.resume_time.map_or(Span::ZERO, |t| Span(t.0)),
        claim: None,
        profile: task.profile.clone(),
        steps: task.steps,
        model,
        log_size: None,
        terminal: defaults.terminal(task)?,
    })
}

fn on(on: doc::DependencyCondition) -> spec::DependencyCondition {
    match on {
        doc::DependencyCondition::Ok => spec::DependencyCondition::Ok,
        doc::DependencyCondition::Fail => spec::DependencyCondition::Fail,
        doc::DependencyCondition::Any => spec::DependencyCondition::Any,
    }
}

/// The devices a document names: a bare number is that device of every worker.
fn devices(workers: &Workers, refs: &[DeviceRef], field: &str) -> Result<Vec<DeviceId>, Problem> {
    let mut ids = Vec::new();
    for name in refs {
        let before = ids.len();
        for worker in &workers.0 {
            let named = name.worker().is_none_or(|n| n == worker.name);
            if named && (name.index() as usize) < worker.devices {
                ids.push(DeviceId { worker: worker.id, index: name.index() as u16 });
            }
        }
        if ids.len() == before {
            let problem = Problem::new(code::NO_SUCH_DEVICE, field, format!("there is no device {name}"));
            return Err(problem.with_help("`warpyard gpus` lists the devices with their numbers"));
        }
    }
    Ok(ids)
}

/// The document of a job, for submitting another like it, and what of it must be filled in again because it is secret.
/// What came with the submission alone (environment, snapshot, key) is no part of a document.
pub(crate) fn job_doc(cluster: &Cluster, spec: &JobSpec) -> (JobDoc, Vec<String>) {
    let mut secrets = Vec::new();
    let tasks = spec.tasks.iter().map(|task| task_doc(cluster, spec, task, &mut secrets)).collect();
    let JobSpec { name, priority, project, weight, .. } = spec.clone();
    let after = |after: &AfterJob| doc::JobDependency { job: after.job.to_string(), on: on_doc(after.on) };
    let doc = JobDoc {
        name,
        priority,
        user: None,
        project,
        weight,
        deadline: spec.deadline.map(|deadline| Micros(deadline.0)),
        snapshot: false,
        after: spec.after.iter().map(after).collect(),
        tasks,
    };
    (doc, secrets)
}

fn task_doc(cluster: &Cluster, job: &JobSpec, task: &TaskSpec, secrets: &mut Vec<String>) -> TaskDoc {
    let mut plain = |text: &String| {
        let shown = mask_text(text);
        if shown.contains(MASK) && shown != *text {
            secrets.push(format!("a secret in the command of {}", task.name));
        }
        shown
    };
    let program = &task.program;
    let command = match &program.command[..] {
        [shell, flag, line] if shell == "sh" && flag == "-c" => doc::Command::Shell(plain(line)),
        words => doc::Command::List(words.iter().map(&mut plain).collect()),
    };
    let (known, secret): (Vec<_>, Vec<_>) =
        program.env.iter().partition(|(name, value)| mask_value(name, value) == **value);
    secrets.extend(secret.into_iter().map(|(name, _)| format!("the variable {name} of {}", task.name)));
    let time = |span: Span| Micros(span.0);
    let after = |after: &AfterNode| doc::TaskDependency {
        task: job.tasks[after.node as usize].name.clone(),
        on: on_doc(after.on),
    };
    let device = |id: &DeviceId| DeviceRef::OnWorker {
        worker: cluster.view().worker_name(id.worker).to_owned(),
        index: id.index.into(),
    };
    let needs = &task.needs;
    let model = task.model.as_deref();
    let estimate = model.and_then(|model| model.estimate.as_ref());
    // What was computed from an estimate is computed again from it.
    let computed = estimate.is_some_and(|estimate| estimate.request != EstimateRequest::Explicit);
    let default_cpus = if needs.gpus == 0 { 1000 } else { 0 };
    TaskDoc {
        name: task.name.clone(),
        command,
        env: known.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        workdir: program.workdir.clone(),
        after: task.after.iter().map(after).collect(),
        array: task.array.as_ref().and_then(|a| ArraySpec::new(a.ranges.iter().copied(), a.at_once).ok()),
        gpus: needs.gpus.into(),
        gpu_memory: needs.gpu_memory.filter(|_| !computed).map(ByteSize),
        model: model.and_then(|model| model.file.clone()),
        batch_size: model.and_then(|model| model.batch_size),
        mode: model.and_then(|model| model.mode).map(model_admission::mode_word),
        optimizer: model.and_then(|model| model.optimizer.clone()),
        estimate: estimate.map(model_admission::estimate_doc),
        gpu_type: needs.gpu_types.clone(),
        gpu_scope: needs.scope.iter().map(device).collect(),
        gpu_preferred: needs.preferred.iter().map(device).collect(),
        wait_mode: match needs.wait_mode {
            spec::WaitMode::Schedule => doc::WaitMode::Schedule,
            spec::WaitMode::Queue => doc::WaitMode::Queue,
        },
        on: needs.workers.iter().map(|id| cluster.view().worker_name(*id).to_owned()).collect(),
        cpus: Some(needs.cpus).filter(|cpus| *cpus != default_cpus).map(MilliCpus),
        memory: Some(needs.memory).filter(|memory| *memory > 0).map(ByteSize),
        timeout: task.timeout.map(time),
        grace: Some(task.grace).filter(|grace| *grace != spec::default_grace()).map(time),
        expected: task.expected.filter(|_| estimate.is_none_or(|e| e.expected.is_none())).map(time),
        retries: task.retries,
        retry_on_timeout: task.retry_on_timeout,
        on_lost: match task.on_lost {
            spec::OnLost::Rerun => doc::OnLost::Rerun,
            spec::OnLost::Hold => doc::OnLost::Hold,
        },
        preempt: match task.preempt {
            spec::Preempt::None => doc::Preempt::None,
            spec::Preempt::Freeze => doc::Preempt::Freeze,
            spec::Preempt::Requeue => doc::Preempt::Requeue,
            spec::Preempt::Yield => doc::Preempt::Yield,
        },
        batch_time: task.batch_time.map(time),
        item_time: task.item_time.map(time),
        resume_time: Some(task.resume_time).filter(|span| !span.is_zero()).map(time),
        profile: task.profile.clone(),
        steps: task.steps,
        pty: task.terminal.is_some(),
        idle: task.terminal.as_ref().and_then(|terminal| terminal.idle).map(time),
        stdout: program.stdout.clone(),
        stderr: program.stderr.clone(),
    }
}

fn on_doc(on: spec::DependencyCondition) -> doc::DependencyCondition {
    match on {
        spec::DependencyCondition::Ok => doc::DependencyCondition::Ok,
        spec::DependencyCondition::Fail => doc::DependencyCondition::Fail,
        spec::DependencyCondition::Any => doc::DependencyCondition::Any,
    }
}

/// A refusal as callers see it.
pub(crate) fn problem(rejected: Rejection) -> Problem {
    let Rejection { code, message, path, help } = rejected;
    Problem { path: path.unwrap_or_default(), message, help, code: Cow::Borrowed(code.word()), line: None }
}

/// A policy as callers choose it.
pub(crate) fn policy_choice(set: &PolicySpec) -> PolicyChoice {
    let params = set.params.iter().map(|(key, value)| (key.clone(), value.to_string()));
    PolicyChoice { name: set.name.clone(), params: params.collect() }
}

/// A parameter's value as callers see it.
pub(crate) fn param_value(text: &str) -> ParamValue {
    ParamValue::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_api::job::{Format, ReadOptions, read};

    const EVERYTHING: &str = r#"
        name = "vision"
        priority = 3
        project = "lab"
        weight = 2.5
        deadline = "24h"
        after = [{ job = "7", on = "any" }]
        [[tasks]]
        name = "prepare"
        command = "python prepare.py && echo done"
        env = { EPOCHS = "9" }
        cpus = 0.5
        memory = "4GiB"
        grace = "20s"
        stdout = "out.txt"
        [[tasks]]
        name = "fit"
        command = ["python", "fit.py", "--fold", "%{index}"]
        after = [{ task = "prepare", on = "ok" }]
        array = "1-5%2"
        gpus = 2
        gpu_memory = "8GiB"
        model = "resnet.pt2"
        batch_size = 32
        mode = "train"
        optimizer = "adamw"
        estimate = { peak = "5GiB", context = "300MiB", graph = "1f", seconds = { T4 = 0.5 } }
        gpu_type = ["V100"]
        wait_mode = "queue"
        timeout = "2h"
        expected = "40m"
        retries = 2
        retry_on_timeout = true
        on_lost = "hold"
        preempt = "requeue"
        resume_time = "5s"
        profile = "resnet50"
        steps = 1000
        workdir = "/srv"
        pty = true
        idle = "30m"
    "#;

    #[test]
    fn a_document_made_from_a_job_makes_the_same_job() {
        let cluster = Cluster::new(PolicyChoice::default());
        let options = ReadOptions { default_name: None, accept_user: false };
        let doc = read(EVERYTHING, Format::Toml, options).expect("a document").doc;
        let spec = job_spec(&Workers::of(&cluster), &doc, &Defaults::default()).expect("a job");
        let (again, secrets) = job_doc(&cluster, &spec);
        assert_eq!((again, secrets), (doc, vec![]));
    }

    #[test]
    fn names_are_alternatives_and_labels_must_all_hold() {
        let worker = |id, name: &str, rack: &str, is_local| NamedWorker {
            id: WorkerId(id),
            name: name.into(),
            labels: [("rack".to_owned(), rack.to_owned()), ("room".to_owned(), "2".to_owned())].into(),
            devices: 0,
            is_local,
        };
        let workers = Workers(vec![
            worker(0, "here", "a", true),
            worker(1, "gpu1", "a", false),
            worker(2, "gpu2", "b", false),
        ]);
        let selected = |on: &[&str]| {
            let on: Vec<_> = on.iter().map(ToString::to_string).collect();
            let ids = workers.selected(&on).map_err(|problem| problem.message);
            ids.map(|ids| ids.into_iter().map(|id| id.0).collect::<Vec<_>>())
        };
        assert_eq!(selected(&[]), Ok(vec![]), "any");
        assert_eq!(selected(&["gpu1", "gpu2"]), Ok(vec![1, 2]));
        assert_eq!(selected(&["rack=a", "room=2"]), Ok(vec![0, 1]));
        assert_eq!(selected(&["gpu1", "gpu2", "rack=b"]), Ok(vec![2]));
        assert_eq!(selected(&["gpu9"]), Err("there is no worker 'gpu9'".into()));
        assert_eq!(selected(&["rack=a", "rack=b"]), Err("no worker is rack=a and rack=b".into()));

        let local =
            |selected: &[u32]| workers.local(selected.iter().map(|id| WorkerId(*id)).collect(), "a terminal");
        assert_eq!(local(&[]).expect("the server's own"), [WorkerId(0)]);
        let refused = local(&[1]).expect_err("not reached there");
        assert_eq!(refused.message, "a terminal can only be on the server's own machine");
        assert!(refused.help.is_some_and(|help| help.contains("here")));
        let alone = Workers(vec![worker(0, "here", "a", true)]);
        assert_eq!(alone.local(vec![], "a terminal").expect("anywhere"), [], "there is only one place");
    }

    #[test]
    fn secrets_are_left_out_of_it_and_named() {
        let task = TaskSpec {
            program: Program {
                env: [("API_TOKEN".to_owned(), "hunter2".to_owned()), ("EPOCHS".to_owned(), "9".to_owned())]
                    .into(),
                ..Program::new(["sh", "-c", "wandb login hf_0123456789012345678901234567890123"])
            },
            ..crate::testing::task("fit", 1)
        };
        let spec = JobSpec { tasks: vec![task], ..JobSpec::default() };
        let (doc, secrets) = job_doc(&Cluster::new(PolicyChoice::default()), &spec);
        let written = serde_json::to_string(&doc).expect("JSON");
        assert!(
            !written.contains("hunter2") && !written.contains("hf_01") && written.contains("EPOCHS"),
            "{written}"
        );
        assert_eq!(secrets, ["a secret in the command of fit", "the variable API_TOKEN of fit"]);
    }
}
