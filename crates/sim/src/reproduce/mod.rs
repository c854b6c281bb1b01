//! Published tables, ours beside theirs. Each study is a file and gives rows; where they are shown is another's affair.

pub mod alibaba;
pub mod gavel;
mod hybrid;
mod model_scheduling;
pub mod models;
mod short_tasks;

pub use hybrid::hybrid;
pub use model_scheduling::{MachineModel, model_scheduling};
pub use short_tasks::short_tasks;

use serde::Serialize;

/// The verdict on a row nobody published and of which nothing else is checked.
pub const UNPUBLISHED: &str = "nothing published";

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    pub row: String,
    /// What was published, if a figure was.
    pub published: Option<f64>,
    /// Our figure, or the mean of ours.
    pub ours: f64,
    /// The least of ours as the study says: one seed in twenty below it, the least of a few, or the least it may be.
    pub low: f64,
    /// The most of ours, likewise.
    pub high: f64,
    /// Begins with `holds`, or says what does not, or is [`UNPUBLISHED`].
    pub verdict: String,
}
