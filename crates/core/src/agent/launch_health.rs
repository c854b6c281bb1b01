//! Launch health: whether the worker can start anything. After several failed launches in a row the worker is quarantined: the
//! server drains it until an operator resumes it. Otherwise each attempt would be placed and declined over and over, as fast
//! as the messages travel.

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

    /// Whether there is a quarantine that no report has stated yet.
    pub(super) fn is_news(&self) -> bool {
        matches!(self.quarantined, Some((_, None)))
    }

    /// Quarantine reason, for the report of this number.
    pub(super) fn report(&mut self, seq: u64) -> Option<String> {
        let (why, first) = self.quarantined.as_mut()?;
        first.get_or_insert(seq);
        Some(why.clone())
    }

    /// The server has received the report of this number: once it knows of the quarantine it is for the server to lift it,
    /// and attempts it assigns again are launched again.
    pub(super) fn acknowledged(&mut self, seq: u64) {
        if let Some((_, Some(first))) = self.quarantined
            && first <= seq
        {
            (self.failures, self.quarantined) = (0, None);
        }
    }
}
