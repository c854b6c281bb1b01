//! The event logs that numbered the jobs of a data directory: [`LogId`] names one, [`Lineage`] says which of them gave a job
//! its number. Every path of an attempt contains the id, so that a log which lost its predecessor's jobs, and gives their
//! numbers again, never finds their files.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;
use warpyard_core::JobId;

/// The UUID of an event log, drawn at random when the log is created.
///
/// Its first digit is a letter, so that its short form is never taken for the number of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogId(String);

/// A text that is not the UUID of a log.
#[derive(Debug, thiserror::Error)]
#[error("not the id of a log: {0:?}")]
pub struct NotALogId(String);

impl LogId {
    /// A new one.
    pub fn random() -> io::Result<LogId> {
        let mut bytes = [0u8; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let high = 0xa + (bytes[0] >> 4) % 6;
        bytes[0] = (high << 4) | (bytes[0] & 0x0f);
        // Version and variant of a random UUID (RFC 9562).
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Ok(LogId(parts.join("-")))
    }

    /// The first eight digits, which paths contain.
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }
}

/// The digits of an id in a path.
const SHORT: usize = 8;

impl FromStr for LogId {
    type Err = NotALogId;

    fn from_str(text: &str) -> Result<LogId, NotALogId> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let parts: Vec<&str> = text.split('-').collect();
        let well_formed = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
            && parts.iter().all(|part| part.chars().all(is_digit))
            && !text.starts_with(|c: char| c.is_ascii_digit());
        if well_formed { Ok(LogId(text.to_owned())) } else { Err(NotALogId(text.to_owned())) }
    }
}

impl TryFrom<String> for LogId {
    type Error = NotALogId;

    fn try_from(text: String) -> Result<LogId, NotALogId> {
        text.parse()
    }
}

impl From<LogId> for String {
    fn from(id: LogId) -> String {
        id.0
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A log and the first job it numbered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The log; none for jobs numbered before logs had ids, whose paths contain none.
    pub log: Option<LogId>,
    /// The first job it numbered.
    pub first_job: JobId,
}

/// The logs that numbered the jobs of a data directory, the oldest first. There is more than one after an upgrade from a
/// log without an id, after a restored backup, and where a lost log was replaced by a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage(Vec<Generation>);

impl Lineage {
    /// One log, which numbers every job.
    pub fn of_one(log: Option<LogId>) -> Lineage {
        Lineage(vec![Generation { log, first_job: JobId(1) }])
    }

    /// These logs, in order of their first jobs; none where there are none.
    pub fn from_generations(generations: Vec<Generation>) -> Option<Lineage> {
        let ordered = generations.is_sorted_by_key(|generation| generation.first_job);
        (ordered && !generations.is_empty()).then_some(Lineage(generations))
    }

    /// The logs, the oldest first.
    pub fn generations(&self) -> &[Generation] {
        &self.0
    }

    /// The log in force, which numbers new jobs.
    pub fn current(&self) -> &Generation {
        self.0.last().expect("a lineage has a log")
    }

    /// Continues with another log, which numbers jobs from this one on.
    pub fn continue_with(&mut self, log: LogId, first_job: JobId) {
        assert!(first_job >= self.current().first_job, "job numbers only grow");
        self.0.push(Generation { log: Some(log), first_job });
    }

    /// The log that numbered a job. A number before the first generation is nobody's: it is said to be the log's in force,
    /// which has never used it.
    pub fn log_of(&self, job: JobId) -> Option<&LogId> {
        let numbered = self.0.iter().rev().find(|generation| generation.first_job <= job);
        numbered.unwrap_or_else(|| self.current()).log.as_ref()
    }

    /// Whether a log is one of these.
    pub fn contains(&self, log: &LogId) -> bool {
        self.0.iter().any(|generation| generation.log.as_ref() == Some(log))
    }

    /// The name of a directory that belongs to a job: of the job itself, or of an attempt.
    pub(super) fn name(&self, job: JobId, of: impl fmt::Display) -> String {
        match self.log_of(job) {
            Some(log) => format!("{}-{of}", log.short()),
            None => of.to_string(),
        }
    }
}

/// The log's short id and the rest of a directory's name, as `Lineage::name` makes it.
pub fn split_name(name: &str) -> (Option<&str>, &str) {
    match name.split_once('-') {
        Some((log, of)) if log.len() == SHORT => (Some(log), of),
        _ => (None, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_whose_short_form_is_no_number() {
        let [one, other] = [(); 2].map(|()| LogId::random().expect("random bytes"));
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse::<LogId>().expect("an id"), one);
        assert!(one.short().parse::<u64>().is_err(), "{one}");
        for wrong in
            ["", "abc", "12345678-0000-4000-8000-000000000000", "../../../../etc/passwd-0000-0000-0000"]
        {
            assert!(wrong.parse::<LogId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_job_belongs_to_the_log_that_numbered_it() {
        let [a, b] = [(); 2].map(|()| LogId::random().expect("random bytes"));
        let mut lineage = Lineage::of_one(None);
        lineage.continue_with(a.clone(), JobId(7));
        lineage.continue_with(b.clone(), JobId(20));
        let logs = [1, 6, 7, 19, 20, 1_000].map(|job| lineage.log_of(JobId(job)));
        assert_eq!(logs, [None, None, Some(&a), Some(&a), Some(&b), Some(&b)]);
        assert_eq!(lineage.name(JobId(6), "6.0.0.1"), "6.0.0.1");
        let name = lineage.name(JobId(7), "7.0.0.1");
        assert_eq!(split_name(&name), (Some(a.short()), "7.0.0.1"));
        assert_eq!(split_name("6.0.0.1"), (None, "6.0.0.1"));
    }
}
