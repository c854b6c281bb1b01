//! Reproductions of published tables: our figures beside those of a paper. Each study is one file and returns rows; how they
//! are displayed is decided elsewhere.

pub mod alibaba;
pub mod gavel;
mod hybrid;
mod model_scheduling;
pub mod models;
mod short_tasks;

pub use hybrid::hybrid;
pub use model_scheduling::{MachineModel, model_scheduling};
pub use short_tasks::short_tasks;

use serde::{Serialize, Serializer};
use std::fmt;

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Label of the row.
    pub row: String,
    /// Figure printed in the paper, if it prints one.
    pub published: Option<f64>,
    /// Figure from a run of the authors' own program on a workload that they did not publish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
    /// Our figure, or the mean of ours.
    pub ours: f64,
    /// Lower end of our figures: the 5th percentile over the seeds, the minimum of a few runs, or the tolerance.
    pub low: f64,
    /// Upper end of our figures, likewise.
    pub high: f64,
    /// Comparison with the published figure.
    pub verdict: Verdict,
}

/// Comparison of a row with the published figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The published figure is reproduced.
    Agrees,
    /// It is not, for this reason.
    Differs(String),
    /// The paper prints no figure to compare with.
    NoPublishedFigure,
}

impl Verdict {
    /// `Agrees` if the comparison holds, otherwise `Differs` with the reason.
    fn of(agrees: bool, reason: impl FnOnce() -> String) -> Verdict {
        if agrees { Verdict::Agrees } else { Verdict::Differs(reason()) }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Agrees => f.write_str("agrees"),
            Verdict::Differs(reason) => write!(f, "differs: {reason}"),
            Verdict::NoPublishedFigure => f.write_str("no published figure"),
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Row {
    /// A row without a published figure: its mean, minimum and maximum.
    fn unpublished(row: String, (ours, low, high): (f64, f64, f64)) -> Row {
        Row { row, published: None, reference: None, ours, low, high, verdict: Verdict::NoPublishedFigure }
    }
}
