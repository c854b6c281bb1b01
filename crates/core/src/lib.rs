//! The pure model of warpyard: what there is, what may happen to it, and what should happen next.
//!
//! Nothing here reads a clock, a file, a socket or a random number, and nothing logs. Time comes in as an argument,
//! results go out as values. [`Cluster::apply`] is the only thing that changes state; everything else looks.
//!
//! Reading order: [`ids`] and [`time`], [`spec`] (what a user asks for), [`pool`] (what there is to give),
//! [`event`] (what happened), [`cluster`] (the state), [`plan`] and [`policy`] (what should happen),
//! [`engine`] (the turn that ties them together), [`store`] (the event log) and [`agent`] (the worker's half), with [`protocol`] between the two.

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
