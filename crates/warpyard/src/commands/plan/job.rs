//! A plan as a job document: the same tasks and dependencies, with the commands the workflow has, how long each is
//! expected to run where it was planned, and the planned machine as a preference. What the document cannot say is told.

use crate::input::write_file;
use crate::show::counted;
use crate::usage_error::UsageError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use warpyard_api::job::{self, DeviceRef, Format, JobDoc, ReadOptions, TaskDependency, TaskDoc};
use warpyard_api::problem::render_bare;
use warpyard_api::quantity::Micros;
use warpyard_api::text::name_fault;
use warpyard_dag::read::Command;
use warpyard_dag::{Instance, Schedule};

/// A plan on its way to being submitted.
pub(super) struct PlannedJob<'a> {
    pub(super) instance: &'a Instance,
    pub(super) schedule: &'a Schedule,
    /// Of each task, where the workflow has them.
    pub(super) commands: &'a [Option<Command>],
}

impl PlannedJob<'_> {
    /// Writes the document, in the form the file's name says, and tells what it could not say.
    pub(super) fn write(&self, file: &str) -> anyhow::Result<Vec<String>> {
        let name = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow");
        let doc = self.document(name);
        let json = Path::new(file).extension().is_some_and(|extension| extension == "json");
        let (text, format) = match json {
            true => (serde_json::to_string_pretty(&plain(&doc)?)? + "\n", Format::Json),
            false => (toml::to_string(&plain(&doc)?)?, Format::Toml),
        };
        let bare = doc.tasks.iter().filter(|task| task.command == job::Command::default()).count();
        if bare == 0
            && let Err(problems) = job::read(&text, format, ReadOptions::default())
        {
            return Err(UsageError::Document { text: render_bare(&problems), problems }.into());
        }
        write_file(file, |out| out.write_all(text.as_bytes()))?;
        Ok(self.notes(&doc, bare))
    }

    fn document(&self, name: &str) -> JobDoc {
        let names = self.names();
        let tasks = (0..self.instance.tasks()).map(|task| self.task(task, &names)).collect();
        JobDoc { name: name.to_owned(), tasks, ..JobDoc::default() }
    }

    fn task(&self, task: usize, names: &[String]) -> TaskDoc {
        let slot = &self.schedule.slots[task];
        let machine = self.instance.machine_name(slot.machine as usize);
        let device = machine.parse().ok().filter(|device: &DeviceRef| device.worker().is_some());
        let after = |&(before, _): &(u32, f64)| TaskDependency {
            task: names[before as usize].clone(),
            on: job::DependencyCondition::Ok,
        };
        TaskDoc {
            name: names[task].clone(),
            command: match self.commands.get(task).and_then(Option::as_ref) {
                Some(Command::Words(words)) => job::Command::List(words.clone()),
                Some(Command::Shell(text)) => job::Command::Shell(text.clone()),
                None => job::Command::default(),
            },
            after: self.instance.predecessors(task).iter().map(after).collect(),
            gpus: u32::from(device.is_some()),
            gpu_preferred: device.into_iter().collect(),
            expected: Some(Micros((((slot.finish - slot.start) * 1e6).round() as u64).max(1))),
            ..TaskDoc::default()
        }
    }

    /// The tasks' own names where a job may have them; no two alike.
    fn names(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let name = |task: usize| {
            let own = self.instance.task_name(task).into_owned();
            let wanted = if name_fault(&own).is_none() { own } else { format!("task-{task}") };
            let name = if taken.contains(&wanted) { format!("{wanted}-{task}") } else { wanted };
            taken.insert(name.clone());
            name
        };
        (0..self.instance.tasks()).map(name).collect()
    }

    fn notes(&self, doc: &JobDoc, bare: usize) -> Vec<String> {
        let mut notes = Vec::new();
        if bare > 0 {
            let which = counted(bare as u64, "task");
            notes.push(format!("{which} without a command; fill in 'command' before submitting"));
        }
        if doc.tasks.iter().all(|task| task.gpu_preferred.is_empty()) {
            notes.push("no machine is named as a device is, such as gpu1/0, so none is preferred".to_owned());
        }
        if (0..self.instance.tasks()).any(|task| self.instance.release(task) > 0.0) {
            notes.push("a job cannot say when a task may start at the earliest; that is left out".to_owned());
        }
        notes
    }
}

/// The document with dependencies as people write them: by name alone.
fn plain(doc: &JobDoc) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(doc)?;
    for task in value["tasks"].as_array_mut().into_iter().flatten() {
        for after in task.get_mut("after").and_then(Value::as_array_mut).into_iter().flatten() {
            *after = json!(after["task"]);
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_dag::algorithm::heft;
    use warpyard_dag::read::{Machines, parse};

    const WORKFLOW: &str = r#"{"tasks": [{"name": "a", "work": 4, "command": ["prep", "x y"]},
        {"name": "b", "work": 2, "command": "train | tee log"}], "edges": [["a", "b", 1]]}"#;

    fn written(workflow: &str, file: &str) -> (Result<job::CheckedJob, String>, Vec<String>) {
        let machines = Machines::from_toml(
            "[[machine]]\nname = \"gpu1/0\"\nspeed = 2\n[[machine]]\nname = \"gpu1/1\"\n",
        );
        let input = parse(workflow).unwrap();
        let commands = input.commands();
        let instance = input.instantiate(Some(&machines.unwrap())).unwrap();
        let schedule = heft(&instance);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        let job = PlannedJob { instance: &instance, schedule: &schedule, commands: &commands };
        let notes = job.write(path.to_str().unwrap()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let read = job::read(&text, Format::of(file, &text), ReadOptions::default());
        (read.map_err(|problems| render_bare(&problems)), notes)
    }

    #[test]
    fn submit_reads_what_plan_writes() {
        for file in ["flow.toml", "flow.json"] {
            let (read, notes) = written(WORKFLOW, file);
            let doc = read.unwrap().doc;
            assert_eq!((doc.name.as_str(), notes), ("flow", Vec::<String>::new()));
            assert_eq!(doc.tasks[0].command, job::Command::List(vec!["prep".into(), "x y".into()]));
            assert_eq!(doc.tasks[1].command, job::Command::Shell("train | tee log".into()));
            assert_eq!(
                doc.tasks[1].after,
                [TaskDependency { task: "a".into(), on: job::DependencyCondition::Ok }]
            );
            assert_eq!(doc.tasks[0].gpu_preferred, ["gpu1/0".parse().unwrap()]);
            assert_eq!((doc.tasks[0].gpus, doc.tasks[0].expected), (1, Some(Micros(2_000_000))));
        }
    }

    #[test]
    fn commands_go_with_a_matrix_of_costs_too() {
        let workflow = r#"{"costs": [[4, 8], [2, 4]], "edges": [[0, 1, 1]],
            "tasks": [{"name": "a", "command": "prep"}, {"name": "b", "command": "train"}]}"#;
        let (read, notes) = written(workflow, "flow.toml");
        assert_eq!(
            (read.unwrap().doc.tasks[1].command.clone(), notes.len()),
            (job::Command::Shell("train".into()), 0)
        );
    }

    #[test]
    fn a_task_without_a_command_is_told_of_and_refused_by_submit() {
        let (read, notes) = written(&WORKFLOW.replace(r#", "command": ["prep", "x y"]"#, ""), "flow.toml");
        assert_eq!(notes, ["1 task without a command; fill in 'command' before submitting"]);
        assert!(read.unwrap_err().contains("command"));
    }
}
