//! The problems found in a document, up to a limit.

use crate::problem::{MAX_PROBLEMS, Problem, Severity, code};

/// Problems found so far. Above the limit they are only counted, so that refusing a document is always fast.
#[derive(Default)]
pub(super) struct Problems {
    pub(super) errors: Vec<Problem>,
    pub(super) untold: usize,
    warnings: Vec<Problem>,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        match problem.severity() {
            Severity::Warning if self.warnings.len() < MAX_PROBLEMS => self.warnings.push(problem),
            Severity::Warning => {}
            Severity::Error if self.is_full() => self.untold += 1,
            Severity::Error => self.errors.push(problem),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_PROBLEMS
    }

    /// The warnings if there are no errors, otherwise all problems.
    pub(super) fn into_result(mut self) -> Result<Vec<Problem>, Vec<Problem>> {
        if self.errors.is_empty() {
            return Ok(self.warnings);
        }
        if self.untold > 0 {
            let message = format!("and {} more problems", self.untold);
            self.errors.push(Problem::new(code::TOO_MANY_PROBLEMS, "", message));
        }
        self.errors.append(&mut self.warnings);
        Err(self.errors)
    }
}
