//! Reading a scenario and telling it to the simulator.

mod expect;
mod read;

use read::{Fields, moment, span};
use std::collections::BTreeMap;
use warpyard_core::command::TaskSelector;
use warpyard_core::pool::DeviceState;
use warpyard_core::{Command, JobId, Rejection, Span, TaskId, Time, WorkerId};
use warpyard_policies::POLICIES;
use warpyard_sim::{Setup, Sim};

/// Tells a story; gives the first line that does not hold, and why.
pub(crate) fn check(text: &str) -> Result<(), (usize, String)> {
    let mut scenario = Scenario::default();
    for (i, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if !line.is_empty() && !line.starts_with('#') {
            scenario.tell(line).map_err(|why| (i + 1, why))?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Scenario {
    workers: Vec<warpyard_core::event::WorkerInfo>,
    policy: Option<String>,
    start_delay: Span,
    contention: f64,
    sim: Option<Sim>,
    jobs: BTreeMap<String, JobId>,
}

impl Scenario {
    fn tell(&mut self, line: &str) -> Result<(), String> {
        let (at, rest) = moment(line)?;
        if let Some(at) = at {
            self.sim()?.run_until(at);
        }
        let (verb, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let rest = rest.trim();
        match verb {
            "cluster" => self.workers = read::cluster(rest)?,
            "policy" if self.sim.is_none() => self.policy = Some(rest.to_owned()),
            "contention" => self.contention = rest.parse().map_err(|_| format!("'{rest}' is no number"))?,
            "start-delay" => self.start_delay = span(rest)?,
            "submit" => self.submit(rest)?.map_err(|r| r.to_string())?,
            "refuse" => {
                let (code, rest) = rest.split_once(' ').ok_or("a code and a job are needed")?;
                let rest = rest.trim().strip_prefix("submit ").ok_or("only submissions are refused")?;
                let refused = self.submit(rest)?.err().ok_or("it was accepted")?;
                if refused.code.word() != code {
                    return Err(format!("refused with {}: {refused}", refused.code));
                }
            }
            "expect" => {
                for part in rest.split(", ") {
                    self.expect(part.trim())?;
                }
            }
            _ => self.ask(verb, rest)?,
        }
        Ok(())
    }

    fn sim(&mut self) -> Result<&mut Sim, String> {
        if self.sim.is_none() {
            let policy = self.policy.as_deref().unwrap_or("backfill");
            let setup = Setup {
                workers: self.workers.clone(),
                policy: policy.parse().map_err(|e: Rejection| e.to_string())?,
                start_delay: self.start_delay,
                contention: self.contention,
                forget: false,
                ..Setup::default()
            };
            self.sim = Some(Sim::new(setup, POLICIES).map_err(|e| e.to_string())?);
        }
        Ok(self.sim.as_mut().expect("made above"))
    }

    fn submit(&mut self, rest: &str) -> Result<Result<(), Rejection>, String> {
        let names = self.workers.iter().map(|w| w.name.clone()).collect::<Vec<_>>();
        let (name, spec, runs, user) = read::job(rest, &names, &self.jobs)?;
        let taken = self.sim()?.submit(&user, spec, runs);
        Ok(taken.map(|id| {
            self.jobs.insert(name, id);
        }))
    }

    fn ask(&mut self, verb: &str, rest: &str) -> Result<(), String> {
        let mut words = rest.split_whitespace();
        let mut word = || words.next().ok_or(format!("'{verb}' needs more"));
        let first = word()?;
        let command = match verb {
            "policy" => Command::SetPolicy(rest.parse().map_err(|e: Rejection| e.to_string())?),
            "cancel" => match first.split(',').collect::<Vec<_>>()[..] {
                [one] => Command::Cancel(self.target(one)?),
                ref several => {
                    let each = several.iter().map(|one| Ok(Command::Cancel(self.target(one)?)));
                    Command::Several(each.collect::<Result<_, String>>()?)
                }
            },
            "hold" => Command::Hold(self.target(first)?),
            "release" => Command::Release(self.target(first)?),
            "priority" => {
                let priority = word()?.parse().map_err(|_| "a priority is a whole number")?;
                Command::SetPriority(self.job(first)?, priority)
            }
            "retry" => Command::Retry {
                target: self.target(first)?,
                failed_only: word().is_ok_and(|w| w == "failed"),
            },
            "pause" => Command::Pause(self.target(first)?),
            "resume" => Command::Resume(self.target(first)?),
            "drain" => Command::Drain { worker: self.worker(first)?, drained: true, reason: None },
            "undrain" => Command::Drain { worker: self.worker(first)?, drained: false, reason: None },
            "forget" => Command::Forget(self.job(first)?),
            _ => return self.befall(verb, first),
        };
        let answer = self.sim()?.execute(command).map(drop);
        answer.map_err(|refused| format!("refused with {}: {refused}", refused.code))
    }

    /// What happens to machines, asked by nobody.
    fn befall(&mut self, verb: &str, whom: &str) -> Result<(), String> {
        let (name, device) = whom.split_once('/').unwrap_or((whom, ""));
        let worker = self.worker(name)?;
        let state = match verb {
            "cut" => return self.sim().map(|sim| sim.cut(worker)),
            "heal" => return self.sim().map(|sim| sim.heal(worker)),
            "wipe" => return self.sim().map(|sim| sim.wipe(worker)),
            "foreign" => DeviceState::Foreign,
            "gone" => DeviceState::Gone,
            "usable" => DeviceState::Usable,
            _ => return Err(format!("nothing is called '{verb}'")),
        };
        let index = device.parse().map_err(|_| "a device has a number")?;
        self.sim()?.report_device(worker, index, state);
        Ok(())
    }

    fn job(&self, name: &str) -> Result<JobId, String> {
        self.jobs.get(name).copied().ok_or(format!("no job is called '{name}'"))
    }

    fn worker(&self, name: &str) -> Result<WorkerId, String> {
        let at = self.workers.iter().position(|w| w.name == name);
        at.map(|at| WorkerId(at as u32)).ok_or(format!("no worker is called '{name}'"))
    }

    fn target(&mut self, name: &str) -> Result<TaskSelector, String> {
        if name.contains(['.', '[']) {
            self.task(name).map(TaskSelector::Task)
        } else {
            self.job(name).map(TaskSelector::Job)
        }
    }

    /// `job`, `job.task`, `job[value]` or `job.task[value]`.
    fn task(&mut self, name: &str) -> Result<TaskId, String> {
        let (name, value) = match name.split_once('[') {
            Some((name, value)) => (name, Some(value.trim_end_matches(']'))),
            None => (name, None),
        };
        let (job, node) = name.split_once('.').map_or((name, None), |(job, node)| (job, Some(node)));
        let job = self.job(job)?;
        let spec = self.sim()?.cluster().job(job).ok_or("it was forgotten")?.spec.clone();
        let node = match node {
            Some(node) => {
                spec.tasks.iter().position(|t| t.name == node).ok_or(format!("no task '{node}'"))?
            }
            None => 0,
        };
        let index = match value {
            Some(value) => {
                let value = value.parse().map_err(|_| "an index is a number")?;
                let array = spec.tasks[node].array.as_ref().ok_or("it is not an array")?;
                array.position(value).ok_or("the array has no such value")?
            }
            None => 0,
        };
        Ok(TaskId { job, node: node as u32, index })
    }
}

fn at(time: Time) -> String {
    format!("{}s", time.secs())
}

/// Fields a job may have; anything else is a mistake in the story.
fn known(fields: &Fields<'_>, names: &[&str]) -> Result<(), String> {
    match fields.keys().find(|k| !names.contains(k)) {
        Some(unknown) => Err(format!("a job has no '{unknown}'")),
        None => Ok(()),
    }
}
