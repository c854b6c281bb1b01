//! Published tables, ours beside theirs. Each study is a file and gives rows; where they are shown is another's affair.

pub mod alibaba;
mod hybrid;
mod model_scheduling;
pub mod models;
mod short_tasks;

pub use hybrid::hybrid;
pub use model_scheduling::{Fitted, model_scheduling};
pub use short_tasks::short_tasks;

use serde::Serialize;

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    pub row: String,
    /// What was published, if a figure was.
    pub published: Option<f64>,
    /// Our mean.
    pub ours: f64,
    /// One in twenty of ours is below this; of a ratio, the least it may be.
    pub low: f64,
    /// One in twenty of ours is above this; of a ratio, the most it may be.
    pub high: f64,
    /// `holds`, or what does not.
    pub verdict: String,
}
