//! Use of devices by attempts: since when an attempt leaves its devices idle, and which devices it uses without a grant. Use
//! is only observed here; notifications and consequences are decided elsewhere.

use super::devices::OnDevices;
use crate::probe::Reading;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use warpyard_core::AttemptId;

/// Use of devices by an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Start of its idleness: since then no process of it computes on its devices; none while one does.
    idle_since: Option<Instant>,
    /// Whether it ever used one of its devices.
    touched: bool,
    /// Devices it uses without a grant.
    strays: Vec<String>,
}

/// An attempt that does not use its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Length of its idleness.
    pub lasts: Duration,
    /// Whether it ever used one of them.
    pub touched: bool,
}

/// Use of devices by all attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses(BTreeMap<AttemptId, Use>);

impl Uses {
    /// Records a reading.
    pub(super) fn note(
        &mut self,
        ours: &[OnDevices<'_>],
        readings: &BTreeMap<String, Reading>,
        now: Instant,
    ) {
        self.0.retain(|attempt, _| ours.iter().any(|one| one.attempt == *attempt));
        for one in ours {
            let is_on = |reading: &Reading| reading.processes.iter().any(|p| one.pids.contains(&p.pid));
            let computes = |reading: &Reading| is_on(reading) && reading.utilisation_percent != Some(0);
            let own = || one.uuids.iter().filter_map(|uuid| readings.get(uuid));
            let others = readings.iter().filter(|(uuid, _)| !one.uuids.contains(uuid));
            let new = Use { idle_since: Some(now), touched: false, strays: Vec::new() };
            let seen = self.0.entry(one.attempt).or_insert(new);
            seen.touched |= own().any(is_on);
            seen.idle_since = if own().any(computes) { None } else { Some(seen.idle_since.unwrap_or(now)) };
            seen.strays = others.filter(|(_, r)| is_on(r)).map(|(uuid, _)| uuid.clone()).collect();
        }
    }

    /// Attempts that have been idle for at least this long.
    pub(super) fn idle(&self, after: Duration, now: Instant) -> BTreeMap<AttemptId, Idle> {
        let idle = |(attempt, seen): (&AttemptId, &Use)| {
            let lasts = now.saturating_duration_since(seen.idle_since?);
            (lasts >= after).then_some((*attempt, Idle { lasts, touched: seen.touched }))
        };
        self.0.iter().filter_map(idle).collect()
    }

    /// Attempts that use a device without a grant.
    pub(super) fn strays_on(&self, uuid: &str) -> impl Iterator<Item = AttemptId> {
        let on = move |(_, seen): &(&AttemptId, &Use)| seen.strays.iter().any(|stray| stray == uuid);
        self.0.iter().filter(on).map(|(attempt, _)| *attempt).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{GpuProcess, ProcessKind};
    use std::collections::BTreeSet;
    use warpyard_core::{JobId, TaskId};

    fn reading(pid: Option<u32>, utilisation: Option<u32>) -> Reading {
        let process = |pid| GpuProcess { pid, bytes: None, kind: ProcessKind::Compute };
        let processes = pid.map(process).into_iter().collect();
        Reading { utilisation_percent: utilisation, processes, ..Reading::default() }
    }

    #[test]
    fn idleness_begins_when_nothing_computes_and_ends_when_something_does() {
        let attempt = TaskId { job: JobId(1), node: 0, index: 0 }.attempt(1);
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut uses = Uses::default();
        let uuids = ["a".to_owned()];
        let mut after = |seconds: u32, own: Reading, other: Reading| {
            let ours = [OnDevices { attempt, uuids: &uuids, pids: BTreeSet::from([7]) }];
            let readings = BTreeMap::from([("a".to_owned(), own), ("b".to_owned(), other)]);
            let now = begin + seconds * second;
            uses.note(&ours, &readings, now);
            let idle = uses.idle(10 * second, now).get(&attempt).copied();
            (idle.map(|idle| (idle.lasts.as_secs(), idle.touched)), uses.strays_on("b").count())
        };
        let (nobody, theirs) = (|| reading(None, Some(0)), |busy| reading(Some(7), Some(busy)));
        assert_eq!(after(0, nobody(), nobody()), (None, 0), "it has only begun");
        assert_eq!(after(10, nobody(), nobody()), (Some((10, false)), 0), "it never used it");
        assert_eq!(after(11, theirs(5), nobody()), (None, 0));
        assert_eq!(after(12, theirs(0), nobody()), (None, 0));
        assert_eq!(after(22, theirs(0), theirs(9)), (Some((10, true)), 1), "nor does another help");
        assert_eq!(
            after(23, reading(Some(8), Some(99)), nobody()),
            (Some((11, true)), 0),
            "it is not its process"
        );
        assert_eq!(after(24, reading(Some(7), None), nobody()), (None, 0), "who does not tell is not idle");
    }
}
