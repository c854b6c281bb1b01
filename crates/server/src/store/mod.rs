//! What is kept on disk: the log of events, which is the truth, and tables derived from it, which are not.

mod history;
mod log;

pub use history::{AttemptRow, History, JobRow};
pub use log::{Loaded, Log, LogError};
