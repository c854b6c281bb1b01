//! Following a job to its end: its log or its progress, Ctrl-C on the way, and what its end means for our own.

mod ending;
mod interrupt;
mod log;
mod progress;
mod silence;

pub(crate) use ending::{INTERRUPTED, ended_by_itself, exit_code, last_words};
pub(crate) use interrupt::Interrupts;
pub(crate) use log::{
    MAX_OUTAGE, RETRY_DELAY, copy_log, follow_task, follow_task_from, latest_attempt, retry_while_away,
};
pub(crate) use progress::follow_progress;
pub(crate) use silence::explain_silence;
