//! What is kept on disk: the log of events, which is the truth, and tables derived from it, which are not.

mod database_copy;
mod history;
mod history_store;
mod log;
mod log_files;

pub(crate) use database_copy::{copy_database, find_corruption};
pub use history::{
    AttemptRow, BoundCoverage, DeviceSample, JobRow, ModelRun, Sample, SqliteHistory, WorkerSample,
};
pub(crate) use history::{IDLE, STEPS, distance, set_aside};
pub use history_store::{HistoryError, HistoryStore};
pub use log::{Loaded, Log, LogError};
