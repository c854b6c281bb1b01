//! Heterogeneity-aware allocation: given how fast each job runs on each GPU type, what share of time each job gets on
//! each type so that a stated goal is met, exactly and with a proof; and the rounds that carry such shares out. Pure:
//! no clock, no files, no network, and nothing of the scheduler it serves.
//!
//! ```
//! use warpyard_allocate::{GpuType, Instance, Job, Options, goal};
//! let instance = Instance {
//!     types: vec![GpuType::new("v100", 1), GpuType::new("k80", 1)],
//!     jobs: vec![Job::new(0, vec![40.0, 10.0]), Job::new(1, vec![12.0, 4.0]), Job::new(2, vec![100.0, 50.0])],
//!     pairs: None,
//!     entities: None,
//! };
//! let answer = goal("max-min").unwrap().solve(&instance, Options::default()).unwrap();
//! assert!((answer.allocation.job(0)[0] - 0.45).abs() < 0.01);
//! ```

mod answer;
mod check;
mod decompose;
mod estimate;
mod filling;
mod goal;
mod goals;
mod instance;
mod lp;
mod nash;
mod problem;
mod rest;
mod rise;
pub mod rounds;
mod sharing;
mod table;
mod total;

pub use answer::{
    Answer, Bottleneck, Certificate, JobWorth, PairShare, Places, Scarce, Shares, Shortfall, Stage, Turn,
};
pub use check::{CheckError, Checked, FEASIBLE, OPTIMAL, check};
pub use estimate::{Company, Completed, Estimator};
pub use goal::{GOALS, GoalDef, Options, Placing, Sense, SolveError, Types, goal};
pub use goals::isolated::alone_speeds;
pub use instance::{Entities, GpuType, Instance, InstanceError, Job, Sharing};
pub use table::{Measured, Profile, ThroughputTable};
