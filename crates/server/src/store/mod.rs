//! What is kept on disk: the log of events, which is the truth, and tables derived from it, which are not.

mod history;
mod log;
mod log_files;

pub use history::{AttemptRow, History, JobRow};
pub(crate) use history::{is_damage, set_aside};
pub use log::{Loaded, Log, LogError};
