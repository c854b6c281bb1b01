//! The interface of derived tables: every attempt there was and every job, for search and for what memory no longer holds.
//!
//! They are derived from the log of events and can be made again from it, as far as the log was not pruned. One connection
//! writes; each request that reads has one of its own. The contract is `tests/contract/history_store.rs`.

use super::history::{AttemptRow, BoundCoverage, JobRow, ModelRun, Sample};
use super::log::LogError;
use std::error::Error;
use std::ops::RangeInclusive;
use std::path::Path;
use warpyard_core::{Cluster, Event, JobId, Span, TaskId, Time};
use warpyard_worker::agent::Lineage;

/// A read or write of derived tables that failed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The tables are damaged, or not what this program makes: they are set aside and made again.
    #[error(transparent)]
    Damaged(Box<dyn Error + Send + Sync>),
    /// The tables cannot be used now: the disk is full, or another program has them locked.
    #[error(transparent)]
    Unavailable(Box<dyn Error + Send + Sync>),
}

/// A store of derived tables.
pub trait HistoryStore: Send {
    /// The file.
    fn path(&self) -> &Path;

    /// The logs whose events are in the tables, as far as that was noted: tables of older programs do not say.
    fn origin(&self) -> Result<Option<Lineage>, HistoryError>;

    /// Notes which logs the events in the tables are from.
    fn set_origin(&mut self, lineage: &Lineage) -> Result<(), HistoryError>;

    /// Has the tables go on with a new log, whose events are yet to come: what the lost one left unfinished is lost.
    fn continue_with(&mut self, lineage: &Lineage, at: Time) -> Result<(), HistoryError>;

    /// The highest job number in the tables.
    fn highest_job(&self) -> Result<Option<JobId>, HistoryError>;

    /// Whether an older program made the tables, which did not keep what jobs asked for, and that was not entered since.
    fn lacks_needs(&self) -> bool;

    /// Enters what jobs asked for that were submitted by these events.
    fn enter_needs(&mut self, events: &[Event]) -> Result<(), HistoryError>;

    /// Notes that this was done for all there are.
    fn needs_are_entered(&mut self) -> Result<(), HistoryError>;

    /// The number of the last event in the tables.
    fn seq(&self) -> u64;

    /// Forgets what can be made again from the log, whose first event is given, and from the jobs in memory.
    fn clear(&mut self, cluster: &Cluster, first_seq: u64, first_at: Time) -> Result<(), HistoryError>;

    /// Enters events that were applied to the cluster, `last` being the number of the last one.
    fn enter(&mut self, cluster: &Cluster, events: &[Event], last: u64) -> Result<(), HistoryError>;

    /// The attempts of a job (or of one of its tasks), in order.
    fn attempts_of(&self, job: JobId, task: Option<TaskId>) -> Result<Vec<AttemptRow>, HistoryError>;

    /// The latest attempts that ended between two moments, newest first, without the first `skip`.
    fn latest(
        &self,
        user: Option<&str>,
        job: Option<JobId>,
        ended: RangeInclusive<Time>,
        skip: u32,
        most: u32,
    ) -> Result<Vec<AttemptRow>, HistoryError>;

    /// The attempts of a job, in order, without the first `skip`.
    fn attempts_from(&self, job: JobId, skip: u32, most: u32) -> Result<Vec<AttemptRow>, HistoryError>;

    /// How long tasks of that name ran lately: same user, same job and task name, only those that ended by themselves or
    /// by their timeout.
    fn run_times(&self, user: &str, job_name: &str, task_name: &str) -> Result<Vec<Span>, HistoryError>;

    /// The latest attempts of everyone that ended by themselves or by their timeout: whose each was, how many GPUs it had
    /// and how long it ran.
    fn latest_runs(&self) -> Result<Vec<(String, usize, Span)>, HistoryError>;

    /// The latest measured runs of a user's model, newest first.
    fn runs_of_model(&self, user: &str, model: &str) -> Result<Vec<ModelRun>, HistoryError>;

    /// The latest measured run of each user's model on each device type, newest first.
    fn runs_of_each_model(&self) -> Result<Vec<ModelRun>, HistoryError>;

    /// How many of the latest measured runs of estimated models stayed below their admission bounds.
    fn bound_coverage(&self) -> Result<BoundCoverage, HistoryError>;

    /// What share of its timeout each kind of task ran for lately: the mean over those that ran to their end or into the
    /// timeout. An array, or a job run again and again, is one kind: its hundred tasks say no more of others than one does.
    fn promises_kept(&self) -> Result<Vec<f64>, HistoryError>;

    /// The last attempts of tasks that did not succeed: alike ones counted together with the first of them, the most common
    /// first.
    fn failures(&self, job: JobId, task: Option<TaskId>) -> Result<Vec<(u64, AttemptRow)>, HistoryError>;

    /// When the first attempt of a job began.
    fn first_start(&self, job: JobId) -> Result<Option<Time>, HistoryError>;

    /// The attempts of a job that matter most now: those under way, then those that ended last.
    fn attempts_lately(&self, job: JobId, most: u32) -> Result<Vec<AttemptRow>, HistoryError>;

    /// GPU time of all attempts of a job that ended: their running time on each device, in seconds.
    fn gpu_seconds_of(&self, job: JobId) -> Result<f64, HistoryError>;

    /// The attempt of a job that failed last, as the reason it failed.
    fn last_failure(&self, job: JobId) -> Result<Option<AttemptRow>, HistoryError>;

    /// Jobs that are over: of a user, that ended in a way, with a text in their name or as their id. By a column, from
    /// the largest or not; by none, the last first.
    fn finished(
        &self,
        user: Option<&str>,
        outcome: &str,
        text: &str,
        order: (&str, bool),
        skip: usize,
        most: usize,
    ) -> Result<Vec<JobRow>, HistoryError>;

    /// Everyone who ever submitted a job, the first two hundred by name.
    fn users(&self) -> Result<Vec<String>, HistoryError>;

    /// Keeps a sample of how everything is.
    fn keep_sample(&self, at: Time, sample: &Sample) -> Result<(), HistoryError>;

    /// The samples of the last so many seconds, about `most` of them.
    fn samples(&self, now: Time, seconds: u64, most: usize) -> Result<Vec<(Time, Sample)>, HistoryError>;

    /// Moves the write-ahead log into the file, as far as no reader is in the way.
    fn checkpoint(&self) -> Result<(), HistoryError>;

    /// How many attempts the tables have.
    fn rows(&self) -> Result<u64, HistoryError>;

    /// A job, also one that memory no longer holds.
    fn job(&self, job: JobId) -> Result<Option<JobRow>, HistoryError>;

    /// Another connection to the same tables, which only reads.
    fn open_reader(&self) -> Result<Box<dyn HistoryStore>, LogError>;

    /// Sets damaged tables aside, which nobody else may have open, and begins empty ones. Returns what was done, in words.
    fn replace_damaged(&mut self, damage: &HistoryError) -> Result<String, LogError>;
}
