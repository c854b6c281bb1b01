//! Heterogeneity-aware allocation: from the speed of each job on each GPU type to the share of time each job gets on
//! each type, optimal for a stated goal and with a certificate; and the rounds that realise such shares. Pure: no
//! clock, no files, no network, and nothing of the scheduler it serves.
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

mod check;
mod decompose;
mod estimate;
mod filling;
mod goal;
mod goals;
mod instance;
mod leftover;
mod lp;
mod max_level;
mod max_total;
mod nash;
mod problem;
pub mod rounds;
mod sharing;
mod solution;
mod table;

pub use check::{CheckError, CheckReport, FEASIBLE, OPTIMAL, check};
pub use estimate::{Estimator, InterferenceEstimator, InterferenceModel};
pub use goal::{GOALS, GoalDef, Options, PlacementModel, Sense, SolveError, TypeAwareness, goal};
pub use goals::isolated::isolated_speeds;
pub use instance::{Entities, EntityPolicy, GpuType, Instance, InstanceError, Job};
pub use solution::{
    Bottleneck, Certificate, JobDuals, PairShare, QueueDuals, ScarceType, ScheduledRun, Shares, Shortfall,
    Solution, Stage,
};
pub use table::{Profile, ProfileThroughputs, ThroughputTable};
