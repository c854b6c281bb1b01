//! Fault simulator: the engine's own [`turn`](warpyard_core::engine::Engine::turn) and the worker's own
//! [`Agent`](warpyard_core::agent::Agent) under lost, duplicated and delayed messages, crashes of servers, agents and
//! machines, torn writes, failing devices and clock jumps. Only the store, the transport, the devices and the clock are
//! simulated. Safety: every invariant is checked after each step. Liveness: once the faults stop, everything must finish.
//! A run is a function of its seed.
//!
//! `world` runs the simulation over `machine` with its `supervisors`, `server`, `disk` and `users`; `fault` and
//! `world::fault_injection` inject the faults; `invariants`, `ledger` and `acknowledged` check the rules.

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

/// Counters of runs without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunStats {
    /// Steps, after each of which all rules were checked.
    pub steps: u64,
    /// Committed events.
    pub events: u64,
    /// Accepted jobs.
    pub jobs: u64,
    /// Server restarts.
    pub restarts: u64,
    /// Other injected faults: crashes of agents and machines, network cuts, devices, clocks.
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

/// Run in which a rule was violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Step after which the rule was violated.
    pub step: u64,
    /// Name of the rule.
    pub rule: String,
    /// What was observed instead.
    pub what: String,
    /// Last lines of the run log.
    #[serde(rename = "story")]
    pub run_log: Vec<String>,
}

/// Violation of a rule.
#[derive(Debug)]
struct Violation {
    rule: &'static str,
    what: String,
}

/// Performs one run; a violation is returned with the run log that led to it.
pub fn run(seed: u64, level: Level) -> Result<RunStats, Box<Failure>> {
    run_with_bug(seed, level, InjectedBug::default())
}

/// Performs one run with an injected bug.
#[cfg(feature = "bugs")]
pub fn run_with(seed: u64, level: Level, bug: Bug) -> Result<RunStats, Box<Failure>> {
    run_with_bug(seed, level, InjectedBug { bug: Some(bug) })
}

fn run_with_bug(seed: u64, level: Level, bug: InjectedBug) -> Result<RunStats, Box<Failure>> {
    attempt(seed, level, bug, RunLog::default()).map_err(|silent| {
        // Formatting log lines is costly and few runs fail: the failing run is repeated, now with its log.
        let logged = attempt(seed, level, bug, RunLog::enabled());
        Box::new(logged.err().unwrap_or(silent))
    })
}

fn attempt(seed: u64, level: Level, bug: InjectedBug, run_log: RunLog) -> Result<RunStats, Failure> {
    let mut world = World::new(seed, level, bug, run_log);
    let violation = match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(Ok(held)) => return Ok(held),
        Ok(Err(violation)) => violation,
        Err(panic) => Violation { rule: "no assertion fails", what: panic_message(&*panic) },
    };
    let (rule, what) = (violation.rule.to_owned(), violation.what);
    Err(Failure { seed, step: world.step(), rule, what, run_log: world.run_log().lines() })
}

/// Message of a panic.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
