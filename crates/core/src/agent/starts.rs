//! Whether the worker can start anything. After several launches in a row that the executor could not carry out, the worker
//! is quarantined: the server is told, and drains it until an operator has it resume. Otherwise each attempt would be placed
//! and declined over and over, as fast as both sides can talk.

/// How many launches in a row have to fail.
const TOLERATED: u32 = 3;

/// The latest launches.
#[derive(Debug, Default)]
pub(super) struct LaunchHealth {
    failures: u32,
    /// Why nothing can be started, and the first report that said so.
    quarantined: Option<(String, Option<u64>)>,
}

impl LaunchHealth {
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    pub(super) fn failed(&mut self, why: &str) {
        self.failures += 1;
        if self.failures >= TOLERATED && self.quarantined.is_none() {
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
            *self = LaunchHealth::default();
        }
    }
}
