//! The pure model of warpyard: the state of a cluster, the events that change it, and the decisions about what comes next.
//!
//! Nothing here reads a clock, a file, a socket or a random number, and nothing logs. Time is an argument, results are
//! values. [`Cluster::apply`] is the only thing that changes state; everything else reads it.
//!
//! Reading order: [`ids`] and [`time`], [`spec`] (job specifications), [`pool`] (capacity and allocations), [`event`],
//! [`cluster`] (the state), [`plan`] and [`policy`], [`engine`] (the turn that ties them together), [`store`] (the event
//! log) and [`agent`] (the worker's half), with [`protocol`] between the two.

pub mod agent;
pub mod bitset;
pub mod cluster;
pub mod command;
pub mod engine;
pub mod event;
pub mod explain;
pub mod fragment;
pub mod ids;
pub mod inbox;
pub mod index;
mod lengths;
pub mod limits;
pub mod model;
pub mod ordered;
pub mod place;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod preempt;
pub mod profile;
pub mod protocol;
pub mod queue;
pub mod ranked;
pub mod reserve;
pub mod shares;
pub mod shortage;
pub mod small;
pub mod spec;
pub mod store;
pub mod time;

pub use cluster::{Cluster, Effects, TaskState, View};
pub use command::{Command, Rejection};
pub use event::{Event, EventKind};
pub use explain::Explanation;
pub use ids::{AttemptId, DeviceId, EnvId, JobId, NodeId, TaskId, WorkerId};
pub use plan::Plan;
pub use policy::{Policy, PolicyChoice, PolicyDef};
pub use store::{Epoch, LogStore, Store};
pub use time::{Span, Time};
