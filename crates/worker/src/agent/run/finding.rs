//! Finding the attempts an earlier agent left: those of this log, those of another, and those whose records are damaged.

use super::{Agent, tell};
use crate::agent::handle::{AgentError, Link};
use crate::agent::keep;
use crate::agent::lineage::split_name;
use crate::agent::mine::Is;
use crate::supervise::{AttemptDir, Found, RecordError, Want, scan};
use std::path::Path;
use warpyard_core::AttemptId;
use warpyard_core::event::{End, How, Usage};

/// The grace of an attempt whose job, and with it its own grace, is not known.
const STRANGERS_GRACE_MS: u64 = 10_000;

impl<L: Link + 'static> Agent<L> {
    pub(super) fn find_again(&mut self, attempts: &Path) -> Result<(), AgentError> {
        for (dir, found) in scan(attempts)? {
            let name = dir.path().file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let Ok(id) = split_name(name).1.parse::<AttemptId>() else { continue };
            let expected = dir.path() == self.settings.layout.attempt_dir(id);
            match found {
                Err(e) if e.is_damage() => {
                    let is = self.give_up(id, &dir, &e);
                    if expected {
                        self.note(id, dir, is);
                    }
                }
                Err(e) => return Err(e.into()),
                Ok(found) if !expected => self.find_stranger(dir, found),
                // What no supervisor took may be launched again: the directory starts at most once.
                Ok(Found::NotStarted) => {}
                Ok(found) => {
                    let is = self.recognise(id, &dir, found)?;
                    self.note(id, dir, is);
                }
            }
        }
        Ok(())
    }

    /// What a found attempt is at, if its record names the log of its job. A record of another log's attempt, or of another
    /// attempt, is not evidence of anything that became of this one.
    pub(super) fn recognise(
        &mut self,
        id: AttemptId,
        dir: &AttemptDir,
        found: Found,
    ) -> Result<Is, RecordError> {
        let record = match &found {
            Found::Running(running) | Found::Frozen(running) | Found::Died(running) => Some(running.clone()),
            Found::Exited(_) | Found::NotStarted => dir.running()?,
        };
        let log = self.settings.layout.log_of(id).map(ToString::to_string);
        let ours = record.is_some_and(|record| record.log == log && record.key == id.to_string());
        if ours {
            return self.see(id, dir, found);
        }
        let foreign = RecordError::Foreign { path: dir.path().into(), log: log.unwrap_or_default() };
        Ok(self.give_up(id, dir, &foreign))
    }

    /// Ends what is left of an attempt whose records say nothing, moves them aside, and counts the attempt as lost.
    pub(super) fn give_up(&mut self, id: AttemptId, dir: &AttemptDir, error: &RecordError) -> Is {
        let mut error: &dyn std::error::Error = error;
        let mut why = error.to_string();
        while let Some(source) = error.source() {
            why += &format!(": {source}");
            error = source;
        }
        let ended = dir.end_unrecorded();
        let kept = keep::quarantine(self.settings.layout.data(), dir.path());
        let kept = match &kept {
            Ok(aside) => format!("kept in {}", aside.display()),
            Err(e) => format!("it could not be moved aside: {e}"),
        };
        let ended = match ended {
            0 => String::new(),
            n => format!("; ended {n} of its processes"),
        };
        (self.settings.repaired)(format!("attempt {id} is lost: {why} ({kept}){ended}"));
        Is::Over(End {
            how: How::Lost(format!("its record on the worker was damaged: {why}")),
            usage: Usage::default(),
        })
    }

    fn find_stranger(&mut self, dir: AttemptDir, found: Found) {
        match found {
            Found::Running(_) | Found::Frozen(_) => {
                let path = dir.path().display();
                (self.settings.repaired)(format!(
                    "{path} belongs to no job of this log and still runs: it is being ended"
                ));
                self.strangers.push(dir);
            }
            Found::Died(_) => {
                dir.end_unrecorded();
                self.retired.push_back(dir);
            }
            Found::Exited(_) | Found::NotStarted => self.retired.push_back(dir),
        }
    }

    /// Has attempts end that belong to no job of this log.
    pub(super) fn end_strangers(&mut self) {
        let stop = Want::Stop { grace_ms: STRANGERS_GRACE_MS };
        for dir in std::mem::take(&mut self.strangers) {
            if !matches!(dir.look(), Ok(Found::Running(_) | Found::Frozen(_))) {
                dir.end_unrecorded();
                self.retired.push_back(dir);
                continue;
            }
            if dir.want().is_ok_and(|want| want != Some(stop))
                && let Err(e) = dir.write_want(stop)
            {
                tell(format_args!("cannot end {}: {e}", dir.path().display()));
            }
            self.strangers.push(dir);
        }
    }
}
