//! The progress that tasks have reported, from which throughput is measured.

use std::collections::BTreeMap;
use std::sync::Mutex;
use warpyard_core::{Span, TaskId, Time};

/// The progress of tasks, by task.
#[derive(Default)]
pub(crate) struct Meters(pub(crate) Mutex<BTreeMap<TaskId, Meter>>);

/// The first report of one attempt, alone or beside another, and the last throughput recorded.
pub(crate) struct Meter {
    pub(crate) attempt: u32,
    pub(crate) beside: Option<TaskId>,
    pub(crate) first: (u64, Span),
    pub(crate) recorded: Option<Time>,
}
