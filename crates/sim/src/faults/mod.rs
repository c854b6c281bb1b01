//! The fault simulator: the engine's own [`turn`](warpyard_core::engine::Engine::turn) and the worker's own
//! [`Agent`](warpyard_core::agent::Agent) among lost, doubled and late messages, dying servers, agents and
//! machines, torn writes, vanishing devices and jumping clocks. Only the store, the transport, devices and the clock are
//! replaced. After every step all rules are checked; once the faults stop, everything must finish. One seed is one run,
//! always the same.
//!
//! `world` takes the steps; `machine` with its `supervisors`, `disk` and `users` are what it is made of; `ledger`, `acknowledged` and `invariants`
//! are the rules.

mod acknowledged;
mod bugs;
mod disk;
mod fault;
mod invariants;
mod ledger;
mod level;
mod machine;
mod run_log;
mod server;
mod supervisors;
mod users;
mod world;

#[cfg(feature = "bugs")]
pub use bugs::Bug;
pub use level::{Level, NoSuchLevel};

use bugs::InjectedBug;
use run_log::RunLog;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// What happened in runs that held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunStats {
    /// Steps taken, after each of which all rules were checked.
    pub steps: u64,
    /// Events kept.
    pub events: u64,
    /// Jobs that were accepted.
    pub jobs: u64,
    /// How often the server died and recovered.
    pub restarts: u64,
    /// Other faults: agents and machines that died, cuts, devices, clocks.
    #[serde(rename = "troubles")]
    pub faults: u64,
}

impl std::ops::AddAssign for RunStats {
    fn add_assign(&mut self, other: RunStats) {
        self.steps += other.steps;
        self.events += other.events;
        self.jobs += other.jobs;
        self.restarts += other.restarts;
        self.faults += other.faults;
    }
}

/// A run in which a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What the run was made from.
    pub seed: u64,
    /// After which step.
    pub step: u64,
    /// The rule.
    pub rule: String,
    /// What was seen instead.
    pub what: String,
    /// The last things that happened.
    #[serde(rename = "story")]
    pub run_log: Vec<String>,
}

/// A rule that does not hold.
#[derive(Debug)]
struct Violation {
    rule: &'static str,
    what: String,
}

/// One run. Gives what was broken, with the story that led there.
pub fn run(seed: u64, level: Level) -> Result<RunStats, Box<Failure>> {
    run_flawed(seed, level, InjectedBug::default())
}

/// One run of a program with a mistake in it.
#[cfg(feature = "bugs")]
pub fn run_with(seed: u64, level: Level, bug: Bug) -> Result<RunStats, Box<Failure>> {
    run_flawed(seed, level, InjectedBug { bug: Some(bug) })
}

fn run_flawed(seed: u64, level: Level, bug: InjectedBug) -> Result<RunStats, Box<Failure>> {
    attempt(seed, level, bug, RunLog::default()).map_err(|silent| {
        // The same again, told: lines are costly, and few runs fail.
        let told = attempt(seed, level, bug, RunLog::told());
        Box::new(told.err().unwrap_or(silent))
    })
}

fn attempt(seed: u64, level: Level, bug: InjectedBug, run_log: RunLog) -> Result<RunStats, Failure> {
    let mut world = World::new(seed, level, bug, run_log);
    let violation = match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(Ok(held)) => return Ok(held),
        Ok(Err(violation)) => violation,
        Err(panic) => Violation { rule: "nothing asserted is false", what: said(&*panic) },
    };
    let (rule, what) = (violation.rule.to_owned(), violation.what);
    Err(Failure { seed, step: world.step(), rule, what, run_log: world.run_log().lines() })
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
