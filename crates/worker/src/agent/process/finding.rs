//! Recovery of the attempts that an earlier executor left: of this log, of another, and those with damaged records.

use super::ProcessExecutor;
use crate::agent::handle::AgentError;
use crate::agent::keep;
use crate::agent::lineage::split_name;
use crate::agent::run::tell;
use crate::supervise::{AttemptDir, RecordError, RecordedAttempt as Record, scan};
use std::error::Error;
use std::path::Path;
use warpyard_core::agent::{ForeignRecordId, FoundRecord, Observation, RecordOwner};
use warpyard_core::protocol::AttemptStatus;
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Span};

impl ProcessExecutor {
    pub(super) fn find_records(&mut self) -> Result<Vec<FoundRecord>, AgentError> {
        let mut all = Vec::new();
        let data = self.machine.layout.data();
        for place in [keep::attempts_dir(data), keep::overflow_dir(data)] {
            if place.exists() {
                self.find_in(&place, &mut all)?;
            }
        }
        Ok(all)
    }

    fn find_in(&mut self, place: &Path, all: &mut Vec<FoundRecord>) -> Result<(), AgentError> {
        for (dir, record) in scan(place)? {
            let name = dir.path().file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let Ok(attempt) = split_name(name).1.parse::<AttemptId>() else { continue };
            let on_lost = match &record {
                Ok(Record::Supervised(running, _) | Record::Died(running)) => running.on_lost,
                _ => OnLost::default(),
            };
            let expected = dir.path() == self.machine.layout.attempt_dir(attempt);
            let found = match record {
                // Not even its owner can be relied on, so it is set aside whatever its directory.
                Err(e) if e.is_damage() && !expected => {
                    self.set_aside(attempt, &dir, &in_words(&e));
                    continue;
                }
                Err(e) if e.is_damage() => (RecordOwner::ThisLog, Observation::Unreadable(in_words(&e))),
                Err(e) => return Err(e.into()),
                Ok(record) if !expected => self.foreign_record(&dir, record),
                Ok(Record::NotStarted) => continue,
                Ok(record) => match self.misfiled(attempt, &dir, &record)? {
                    Some(why) => (RecordOwner::Misfiled(why), Observation::NotStarted),
                    None => (RecordOwner::ThisLog, self.read(attempt, &dir, record)?),
                },
            };
            if expected {
                self.dirs.insert(attempt, dir);
            }
            let (owner, seen) = found;
            all.push(FoundRecord { attempt, owner, on_lost, seen });
        }
        Ok(())
    }

    /// Reason why a record does not belong to the attempt in whose directory it is, if it does not: it must name the log of
    /// the attempt's job, and the attempt. The record of another attempt is no evidence about this one.
    pub(super) fn misfiled(
        &self,
        id: AttemptId,
        dir: &AttemptDir,
        record: &Record,
    ) -> Result<Option<String>, RecordError> {
        let running = match record {
            Record::NotStarted => return Ok(None),
            Record::Supervised(running, _) | Record::Died(running) => Some(running.clone()),
            Record::Exited(_) => dir.running()?,
        };
        let log = self.machine.layout.log_of(id).map(ToString::to_string);
        let ours = running.is_some_and(|running| running.log == log && running.key == id.to_string());
        let foreign = || RecordError::Foreign { path: dir.path().into(), log: log.unwrap_or_default() };
        Ok((!ours).then(|| in_words(&foreign())))
    }

    fn foreign_record(&mut self, dir: &AttemptDir, record: Record) -> (RecordOwner, Observation) {
        let id = ForeignRecordId(self.foreign.len() as u32);
        self.foreign.push(dir.clone());
        let seen = match record {
            Record::Supervised(..) => {
                let path = dir.path().display();
                (self.machine.repaired)(format!(
                    "{path} belongs to no job of this log and still runs: it is being ended"
                ));
                AttemptStatus::Running.into()
            }
            Record::Died(_) => {
                dir.end_unrecorded();
                Observation::NotStarted
            }
            Record::Exited(_) | Record::NotStarted => Observation::NotStarted,
        };
        (RecordOwner::AnotherLog(id), seen)
    }

    /// Ends an attempt that belongs to no job of this log; returns whether no process of it is left.
    pub(super) fn end_foreign(&mut self, record: ForeignRecordId, grace: Span) -> bool {
        let Some(dir) = self.foreign.get(record.0 as usize) else { return true };
        if !matches!(dir.inspect(), Ok(Record::Supervised(..))) {
            dir.end_unrecorded();
            return true;
        }
        let stop = self.stop_within(grace);
        if dir.desired().is_ok_and(|want| want != Some(stop))
            && let Err(e) = dir.write_desired(stop)
        {
            tell(format_args!("cannot end {}: {e}", dir.path().display()));
        }
        false
    }

    /// Kills the processes of an attempt whose records are damaged, and moves the records aside.
    pub(super) fn set_aside(&mut self, id: AttemptId, dir: &AttemptDir, why: &str) {
        let ended = dir.end_unrecorded();
        let kept = keep::quarantine(self.machine.layout.data(), dir.path());
        let kept = match &kept {
            Ok(aside) => format!("kept in {}", aside.display()),
            Err(e) => format!("it could not be moved aside: {e}"),
        };
        let ended = match ended {
            0 => String::new(),
            n => format!("; ended {n} of its processes"),
        };
        (self.machine.repaired)(format!("attempt {id} is lost: {why} ({kept}){ended}"));
        self.supervisors.remove(&id);
    }
}

/// Text of an error and its sources.
pub(super) fn in_words(error: &RecordError) -> String {
    let mut error: &dyn Error = error;
    let mut words = error.to_string();
    while let Some(source) = error.source() {
        words += &format!(": {source}");
        error = source;
    }
    words
}
