//! Whether the worker can start anything. After several launches in a row that the executor could not carry out, the worker
//! is quarantined: the server is told, and drains it until an operator has it resume. Otherwise each attempt would be placed
//! and declined over and over, as fast as both sides can talk.

/// Number of rounds of launches that have to fail in a row.
const FAILED_ROUNDS: u32 = 3;

/// Results of the latest launches.
///
/// Launches are counted by round: all that were under way when one of them failed are one round, and so are one failure.
/// Otherwise a single failure, such as of a spawner that died, would quarantine a worker that happened to be launching three
/// attempts.
#[derive(Debug, Default)]
pub(super) struct LaunchHealth {
    round: u32,
    /// Rounds in a row that failed.
    failures: u32,
    /// Quarantine reason, and the number of the first report that stated it.
    quarantined: Option<(String, Option<u64>)>,
}

impl LaunchHealth {
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Round that a launch made now belongs to.
    pub(super) fn round(&self) -> u32 {
        self.round
    }

    /// A launch of this round failed.
    pub(super) fn failed(&mut self, round: u32, why: &str) {
        if round != self.round {
            return;
        }
        self.round += 1;
        self.failures += 1;
        if self.failures >= FAILED_ROUNDS && self.quarantined.is_none() {
            let why = format!("{} launches in a row failed, the last one because {why}", self.failures);
            self.quarantined = Some((why, None));
        }
    }

    pub(super) fn quarantined(&self) -> Option<&str> {
        self.quarantined.as_ref().map(|(why, _)| &**why)
    }

    /// Whether no report has said so yet.
    pub(super) fn is_news(&self) -> bool {
        matches!(self.quarantined, Some((_, None)))
    }

    /// Why nothing can be started, for a report.
    pub(super) fn tell(&mut self, seq: u64) -> Option<String> {
        let (why, told) = self.quarantined.as_mut()?;
        told.get_or_insert(seq);
        Some(why.clone())
    }

    /// The server has received a report: once it knows of the quarantine it is for the server to lift it, and launches
    /// that are asked for again are tried again.
    pub(super) fn told(&mut self, seq: u64) {
        if let Some((_, Some(first))) = self.quarantined
            && first <= seq
        {
            (self.failures, self.quarantined) = (0, None);
        }
    }
}
