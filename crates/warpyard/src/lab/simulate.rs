//! One simulation after another on the same cluster: policies by name, jobs that can never fit refused beforehand, and
//! how far it is.

use super::{Line, Workload, find, listed};
use crate::show::{figure, percent, span_secs};
use crate::wrong::Wrong;
use std::time::Instant;
use warpyard_core::event::WorkerInfo;
use warpyard_core::{Event, PolicyChoice, Rejected, Span, What};
use warpyard_policies::POLICIES;
use warpyard_sim::{Arrival, Setup, Sim, SimReport};

/// Events between two looks at whether there is something to say.
const NOW_AND_THEN: u64 = 4096;

/// What simulations of one kind have in common.
pub(crate) struct Bench {
    pub(crate) workers: Vec<WorkerInfo>,
    pub(crate) workload: Workload,
    /// From being told to begin until a process runs.
    pub(crate) start_delay: Span,
    /// Whether jobs that can never fit are counted instead of refused beforehand.
    pub(crate) count_rejected: bool,
}

/// The list of policies, for the help.
pub(crate) fn policies() -> String {
    listed("Policies", POLICIES.iter().map(|policy| (policy.name, policy.summary.to_owned())))
}

/// A policy as people write it: `short-first:beta=2`.
pub(crate) fn policy(text: &str) -> Result<PolicyChoice, Wrong> {
    let choice: PolicyChoice = text.parse().map_err(refused)?;
    let def = find("policy", &choice.name, POLICIES, |policy| policy.name)?;
    def.params(&choice).map_err(refused)?;
    Ok(choice)
}

/// Several of them: `fifo,short-first:beta=2,gamma=0.5,sjf`. What has a parameter's form belongs to the one before.
pub(crate) fn policies_of(text: &str) -> Result<Vec<PolicyChoice>, Wrong> {
    let mut each: Vec<String> = Vec::new();
    for part in text.split(',') {
        match each.last_mut() {
            Some(before) if part.contains('=') && !part.contains(':') => {
                before.push(',');
                before.push_str(part);
            }
            _ => each.push(part.trim().to_owned()),
        }
    }
    each.iter().map(|text| policy(text)).collect()
}

fn refused(rejected: Rejected) -> Wrong {
    let path = rejected.path.map(|path| format!("{path}: ")).unwrap_or_default();
    let help = rejected.help.map(|help| format!("; {help}")).unwrap_or_default();
    Wrong::Refused(format!("{path}{}{help}", rejected.message))
}

impl Bench {
    fn sim(&self, policy: &PolicyChoice) -> Result<Sim, Wrong> {
        let setup = Setup {
            workers: self.workers.clone(),
            policy: policy.clone(),
            start_delay: self.start_delay,
            forget: true,
            ..Setup::default()
        };
        Sim::new(setup, POLICIES).map_err(refused)
    }

    /// Refuses a workload with a job that could never run, with where that job is.
    pub(crate) fn check(&self, policy: &PolicyChoice) -> Result<(), Wrong> {
        if self.count_rejected {
            return Ok(());
        }
        let mut sim = self.sim(policy)?;
        for (place, job) in self.workload.kinds() {
            let Arrival { user, spec, runs, .. } = job.into();
            sim.submit(&user, spec, runs).map_err(|rejected| {
                let field = rejected.path.map(|path| format!("{path}: ")).unwrap_or_default();
                Wrong::NeverFits { place, why: format!("{field}{}", rejected.message) }
            })?;
        }
        Ok(())
    }

    /// Simulates and says what came out. Only `line` hears of it while it runs.
    pub(crate) fn run(
        &self,
        policy: &PolicyChoice,
        seed: u64,
        per_job: bool,
        line: Option<Line>,
    ) -> Result<SimReport, Wrong> {
        let mut sim = self.sim(policy)?;
        sim.feed(self.workload.jobs(seed).map(Into::into));
        let began = Instant::now();
        if let Some(line) = line.filter(Line::is_watched) {
            sim.watch(follow(line, self.workload.len(), began));
        }
        sim.run();
        Ok(SimReport::of(&sim, seed, began.elapsed().as_secs_f64(), per_job))
    }
}

/// Says how far a simulation is: events, simulated time, speed, and how long it will take for all jobs to have come.
fn follow(mut line: Line, jobs: u64, began: Instant) -> impl FnMut(&Event) {
    let (mut events, mut come) = (0u64, 0u64);
    move |event| {
        events += 1;
        come += u64::from(matches!(event.what, What::JobSubmitted { .. }));
        if events.is_multiple_of(NOW_AND_THEN) {
            line.say(|| {
                let took = began.elapsed().as_secs_f64();
                let done = come as f64 / jobs.max(1) as f64;
                let left = if done > 0.0 { span_secs(took / done - took) } else { "?".to_owned() };
                let (at, speed) = (span_secs(event.at.secs()), figure((events as f64 / took).round()));
                format!(
                    "{} of jobs, {at} simulated, {events} events, {speed} a second, {left} left",
                    percent(done)
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_policy() {
        let texts = |text| {
            let choices = policies_of(text).unwrap();
            choices.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts("fifo, sjf"), ["fifo", "sjf"]);
        assert_eq!(texts("short-first:beta=2,gamma=0.5,sjf"), ["short-first:beta=2,gamma=0.5", "sjf"]);
    }

    #[test]
    fn a_policy_that_is_none_is_told_with_those_there_are() {
        let said = |text| policy(text).unwrap_err().to_string();
        assert!(
            said("ffo").starts_with("no policy is called 'ffo'; did you mean 'fifo'? (there are backfill,")
        );
        assert!(said("short-first:delta=1").contains("has no parameter 'delta'; its parameters: alpha"));
        assert!(said("short-first:beta=x").contains("'x' is not a number"));
    }
}
