//! What a scenario expects, and what is there instead.

use super::{Scenario, at, read};
use warpyard_core::{DeviceId, TaskId, TaskState};

impl Scenario {
    pub(super) fn expect(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let found = match words[..] {
            ["line", ..] => self.line(words.len() - 1)?,
            [_, "has", "nothing"] => self.processes(words[0])?,
            [worker, "has", _] if self.worker(worker).is_ok() => self.processes(worker)?,
            [job, "has", _, state] => self.count(job, state)?,
            [name, "attempts", _] => format!("{name} attempts {}", self.record(name)?.attempts),
            [name, "started", _] => {
                format!("{name} started {}", self.record(name)?.started.map_or("never".into(), at))
            }
            [name, "ended", _] => {
                format!("{name} ended {}", self.record(name)?.ended.map_or("never".into(), at))
            }
            [name, "gpu-seconds", _] => format!("{name} gpu-seconds {}", self.record(name)?.gpu_seconds),
            [name, "waits", _] => format!("{name} waits {}", self.reason(name)?),
            [name, "ahead", _] => format!("{name} ahead {}", self.ahead(name)?),
            [name, state] | [name, state, "on", _] => {
                return self.state(text, name, state, words.get(3).copied());
            }
            _ => return Err(format!("nobody can expect '{text}'")),
        };
        if found == text { Ok(()) } else { Err(format!("expected {text}, but {found}")) }
    }

    /// `name state`, `name#2 state`, `name state on worker`, `name state on worker/0+worker/1`.
    fn state(&mut self, text: &str, name: &str, state: &str, place: Option<&str>) -> Result<(), String> {
        let (name, number) = name.split_once('#').map_or((name, None), |(n, number)| (n, Some(number)));
        let task = self.task(name)?;
        let attempts = self.record(name)?.attempts.to_string();
        let found = self.word(task)?;
        if found != state {
            return Err(format!("expected {text}, but it is {found}"));
        }
        if number.is_some_and(|n| n != attempts) {
            return Err(format!("expected {text}, but it has {attempts} attempts"));
        }
        let Some(place) = place else { return Ok(()) };
        let names: Vec<_> = self.workers.iter().map(|w| w.name.clone()).collect();
        let view = self.sim()?.cluster().view();
        let (attempt, _) = view.attempt(task).ok_or(format!("expected {text}, but it is nowhere"))?;
        let on: Vec<DeviceId> = attempt.placement.device_ids().collect();
        let worker = &names[attempt.placement.worker.0 as usize];
        let right =
            if place.contains('/') { read::device_ids(place, &names)? == on } else { place == worker };
        if right { Ok(()) } else { Err(format!("expected {text}, but it is on {worker} {on:?}")) }
    }

    fn word(&mut self, task: TaskId) -> Result<String, String> {
        Ok(match self.sim()?.cluster().state(task).ok_or("there is no such task")? {
            TaskState::Done(outcome) => outcome.word().to_owned(),
            state => state.word().to_owned(),
        })
    }

    fn record(&mut self, name: &str) -> Result<warpyard_sim::Record, String> {
        let task = self.task(name)?;
        self.sim()?.record(task).cloned().ok_or("it has no record".to_owned())
    }

    fn count(&mut self, job: &str, state: &str) -> Result<String, String> {
        let first = self.task(job)?;
        let len =
            self.sim()?.cluster().job(first.job).expect("seen above").spec.tasks[first.node as usize].len();
        let mut n = 0;
        for index in 0..len {
            n += usize::from(self.word(TaskId { index, ..first })? == state);
        }
        Ok(format!("{job} has {n} {state}"))
    }

    fn processes(&mut self, worker: &str) -> Result<String, String> {
        let id = self.worker(worker)?;
        let jobs = self.jobs.clone();
        let name = |task: TaskId| {
            jobs.iter().find(|(_, id)| **id == task.job).map_or_else(String::new, |(name, _)| name.clone())
        };
        let has: Vec<_> =
            self.sim()?.processes(id).into_iter().map(|a| format!("{}#{}", name(a.task), a.number)).collect();
        Ok(format!("{worker} has {}", if has.is_empty() { "nothing".to_owned() } else { has.join("+") }))
    }

    fn line(&mut self, most: usize) -> Result<String, String> {
        let jobs = self.jobs.clone();
        let sim = self.sim()?;
        let line = sim.policy().queue_order(sim.cluster().view(), most + 1, sim.now());
        let name =
            |task: &TaskId| jobs.iter().find(|(_, id)| **id == task.job).expect("it was submitted").0.clone();
        Ok(format!("line {}", line.iter().map(name).collect::<Vec<_>>().join(" ")))
    }

    fn ahead(&mut self, name: &str) -> Result<u64, String> {
        let task = self.task(name)?;
        let sim = self.sim()?;
        let why = sim.policy().explain(sim.cluster().view(), task, sim.now());
        why.ahead.ok_or("it is not in line".to_owned())
    }

    fn reason(&mut self, name: &str) -> Result<&'static str, String> {
        let task = self.task(name)?;
        let sim = self.sim()?;
        let why = sim.policy().explain(sim.cluster().view(), task, sim.now());
        Ok(why.reason.word())
    }
}
