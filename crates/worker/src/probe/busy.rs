//! Detection of foreign load: whether a device is used by processes that belong to no attempt.
//!
//! Pure: a reading and the use by our own attempts go in, a verdict comes out.
//!
//! * A foreign *compute* process makes a device busy, however little it uses.
//! * A *graphics* process does not by itself: a display server sits on every desktop's GPU. What it holds counts as
//!   memory that is not ours, so that the threshold decides; so does a process that draws and computes, as browsers
//!   do.
//! * Memory the driver keeps for itself is not in [`Reading::used_bytes`] where the driver tells it apart, and the
//!   threshold allows for the little it takes besides.
//! * Utilisation cannot be told apart by process, so it counts only where no task of ours could have caused it.
//! * In a container our own pids are not the driver's ([`OwnPids::Hidden`]): on a device without a task of ours everything
//!   is foreign all the same; beside one, only memory beyond what ours may use is.

use std::collections::BTreeSet;
use std::fmt;

use super::{GpuProcess, ProcessKind, Reading};

/// Foreign load above which a device counts as busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Utilisation, where no task of ours runs.
    pub utilisation_percent: u32,
    /// Memory that belongs to no task of ours.
    pub memory_bytes: u64,
}

impl Default for Thresholds {
    /// 10 % and 50 MB: right for a server; a GPU that drives a desktop needs more.
    fn default() -> Self {
        Self { utilisation_percent: 10, memory_bytes: 50_000_000 }
    }
}

/// Which of the driver's pids are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnPids {
    /// These, and no others: see [`super::ProcessTable::descendants`].
    Known(BTreeSet<u32>),
    /// It cannot be told: see [`super::in_own_pid_namespace`].
    Hidden,
}

/// The use of a device by our own attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnUse {
    /// How many tasks of ours are on it, counting those that ended less than a sampling period (one second) ago: what
    /// they did still shows in the utilisation.
    pub tasks: usize,
    /// Their processes.
    pub pids: OwnPids,
    /// Memory they use besides what the driver says of their pids: with [`OwnPids::Hidden`] what they were granted, with
    /// [`OwnPids::Known`] normally 0.
    pub bytes: u64,
}

impl OwnUse {
    /// No task of ours is on the device.
    pub fn none() -> Self {
        Self { tasks: 0, pids: OwnPids::Known(BTreeSet::new()), bytes: 0 }
    }

    fn has(&self, process: &GpuProcess) -> bool {
        match &self.pids {
            OwnPids::Known(pids) => pids.contains(&process.pid),
            OwnPids::Hidden => self.tasks > 0,
        }
    }
}

/// Foreign use of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignUse {
    /// The processes that are not ours, drawing ones included.
    pub processes: Vec<GpuProcess>,
    /// Memory that belongs to no task of ours.
    pub bytes: u64,
    /// The device's utilisation, where no task of ours could have caused it.
    pub utilisation: Option<u32>,
    /// Why the device counts as busy.
    pub because: BusyReason,
}

/// Why a device counts as busy: the most specific reason, where several hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusyReason {
    /// A process that is not ours computes on it.
    Process {
        /// Its pid.
        pid: u32,
    },
    /// It works though no task of ours is on it.
    Utilisation {
        /// How much.
        percent: u32,
        /// The threshold it is above.
        limit: u32,
    },
    /// More of its memory is in use than ours account for.
    Memory {
        /// How much more.
        bytes: u64,
        /// The threshold it is above.
        limit: u64,
    },
}

impl fmt::Display for BusyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes / 1_000_000;
        match *self {
            Self::Process { pid } => write!(f, "process {pid} computes on it and is not ours"),
            Self::Utilisation { percent, limit } => {
                write!(f, "it is {percent} % utilised (limit {limit} %) with no task of ours on it")
            }
            Self::Memory { bytes, limit } => {
                write!(f, "{} MB of its memory are not ours (limit {} MB)", mb(bytes), mb(limit))
            }
        }
    }
}

/// The foreign use of a device, if it makes the device busy.
///
/// ```
/// # use warpyard_worker::probe::*;
/// let reading = Reading { used_bytes: 3_100_000_000, ..Reading::default() };
/// let busy = foreign(&reading, &OwnUse::none(), &Thresholds::default()).unwrap();
/// assert_eq!(busy.because.to_string(), "3100 MB of its memory are not ours (limit 50 MB)");
/// ```
pub fn foreign(reading: &Reading, ours: &OwnUse, thresholds: &Thresholds) -> Option<ForeignUse> {
    let processes: Vec<GpuProcess> = reading.processes.iter().filter(|p| !ours.has(p)).cloned().collect();
    let bytes = foreign_bytes(reading, ours, &processes);
    let utilisation = reading.utilisation_percent.filter(|_| ours.tasks == 0);

    let computing = processes.iter().find(|process| process.kind == ProcessKind::Compute);
    let because = if let Some(process) = computing {
        BusyReason::Process { pid: process.pid }
    } else if let Some(percent) = utilisation.filter(|percent| *percent > thresholds.utilisation_percent) {
        BusyReason::Utilisation { percent, limit: thresholds.utilisation_percent }
    } else if bytes > thresholds.memory_bytes {
        BusyReason::Memory { bytes, limit: thresholds.memory_bytes }
    } else {
        return None;
    };
    Some(ForeignUse { processes, bytes, utilisation, because })
}

/// Memory in use minus ours, but at least what foreign processes are known to hold. Where the driver does not report what a
/// process of ours holds, only the latter is certain.
fn foreign_bytes(reading: &Reading, ours: &OwnUse, foreign: &[GpuProcess]) -> u64 {
    let held = foreign.iter().filter_map(|process| process.bytes).fold(0, u64::saturating_add);
    let not_ours = match &ours.pids {
        OwnPids::Known(pids) => match bytes_of(reading, pids) {
            Some(known) => reading.used_bytes.saturating_sub(known.saturating_add(ours.bytes)),
            None => 0,
        },
        OwnPids::Hidden => reading.used_bytes.saturating_sub(ours.bytes),
    };
    not_ours.max(held)
}

/// How much of a device's memory a set of processes holds, for an attempt's peak; `None` where one of them is there and
/// the driver does not say what it holds.
pub fn bytes_of(reading: &Reading, pids: &BTreeSet<u32>) -> Option<u64> {
    reading
        .processes
        .iter()
        .filter(|process| pids.contains(&process.pid))
        .try_fold(0u64, |sum, process| Some(sum.saturating_add(process.bytes?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: u64 = 1_000_000;

    fn compute(pid: u32, bytes: impl Into<Option<u64>>) -> GpuProcess {
        GpuProcess { pid, bytes: bytes.into(), kind: ProcessKind::Compute }
    }

    fn graphics(pid: u32, bytes: u64) -> GpuProcess {
        GpuProcess { pid, bytes: Some(bytes), kind: ProcessKind::Graphics }
    }

    fn reading(used: u64, percent: u32, processes: &[GpuProcess]) -> Reading {
        Reading {
            used_bytes: used,
            utilisation_percent: Some(percent),
            processes: processes.to_vec(),
            ..Reading::default()
        }
    }

    fn ours(pids: &[u32]) -> OwnUse {
        OwnUse { tasks: 1, pids: OwnPids::Known(pids.iter().copied().collect()), bytes: 0 }
    }

    fn why(reading: &Reading, ours: &OwnUse) -> Option<BusyReason> {
        foreign(reading, ours, &Thresholds::default()).map(|found| found.because)
    }

    #[test]
    fn an_idle_device_is_free_up_to_the_thresholds() {
        assert_eq!(why(&reading(50 * MB, 10, &[]), &OwnUse::none()), None);
        assert_eq!(
            why(&reading(50 * MB + 1, 10, &[]), &OwnUse::none()),
            Some(BusyReason::Memory { bytes: 50 * MB + 1, limit: 50 * MB })
        );
        assert_eq!(
            why(&reading(0, 11, &[]), &OwnUse::none()),
            Some(BusyReason::Utilisation { percent: 11, limit: 10 })
        );
    }

    #[test]
    fn what_our_attempts_use_is_taken_off() {
        let busy_with_ours = reading(8_030 * MB, 100, &[compute(7, 5_000 * MB), compute(8, 3_000 * MB)]);
        assert_eq!(why(&busy_with_ours, &ours(&[7, 8])), None);
        assert_eq!(why(&busy_with_ours, &ours(&[7])), Some(BusyReason::Process { pid: 8 }));
        let found = foreign(&busy_with_ours, &ours(&[7]), &Thresholds::default()).unwrap();
        assert_eq!((found.bytes, found.utilisation), (3_030 * MB, None));
        assert_eq!(found.processes, [compute(8, 3_000 * MB)]);
    }

    #[test]
    fn a_desktop_is_busy_until_its_threshold_is_raised() {
        let desktop = reading(900 * MB, 4, &[graphics(900, 850 * MB)]);
        assert_eq!(
            why(&desktop, &OwnUse::none()),
            Some(BusyReason::Memory { bytes: 900 * MB, limit: 50 * MB })
        );
        let lenient = Thresholds { memory_bytes: 1_500 * MB, ..Thresholds::default() };
        assert_eq!(foreign(&desktop, &OwnUse::none(), &lenient), None);
    }

    #[test]
    fn a_browser_that_draws_and_computes_is_judged_by_its_memory() {
        let browser = GpuProcess { pid: 901, bytes: Some(30 * MB), kind: ProcessKind::Both };
        assert_eq!(why(&reading(30 * MB, 0, &[browser]), &OwnUse::none()), None);
    }

    #[test]
    fn a_foreign_process_of_unknown_size_is_still_someone() {
        assert_eq!(
            why(&reading(0, 0, &[compute(42, None)]), &OwnUse::none()),
            Some(BusyReason::Process { pid: 42 })
        );
    }

    #[test]
    fn memory_is_not_held_against_others_where_ours_is_unknown() {
        assert_eq!(why(&reading(9_000 * MB, 90, &[compute(7, None)]), &ours(&[7])), None);
    }

    #[test]
    fn what_others_are_known_to_hold_counts_even_where_ours_is_unknown() {
        let drawing_beside_ours = reading(9_000 * MB, 90, &[compute(7, None), graphics(900, 600 * MB)]);
        assert_eq!(
            why(&drawing_beside_ours, &ours(&[7])),
            Some(BusyReason::Memory { bytes: 600 * MB, limit: 50 * MB })
        );
    }

    #[test]
    fn a_container_judges_by_memory_beside_its_own_tasks_and_by_anything_without_them() {
        let theirs = reading(4_000 * MB, 0, &[compute(31_337, 4_000 * MB)]);
        let granted = |tasks, bytes| OwnUse { tasks, pids: OwnPids::Hidden, bytes };
        assert_eq!(why(&theirs, &granted(0, 0)), Some(BusyReason::Process { pid: 31_337 }));
        assert_eq!(why(&theirs, &granted(1, 4_000 * MB)), None);
        assert_eq!(
            why(&theirs, &granted(1, 1_000 * MB)),
            Some(BusyReason::Memory { bytes: 3_000 * MB, limit: 50 * MB })
        );
    }

    fn some_process() -> impl Strategy<Value = GpuProcess> {
        let kind =
            prop_oneof![Just(ProcessKind::Compute), Just(ProcessKind::Graphics), Just(ProcessKind::Both)];
        (1u32..50, prop::option::weighted(0.9, 0..4_000 * MB), kind)
            .prop_map(|(pid, bytes, kind)| GpuProcess { pid, bytes, kind })
    }

    fn some_reading() -> impl Strategy<Value = Reading> {
        let processes = prop::collection::btree_map(1u32..50, some_process(), 0..6);
        (prop::option::of(0u32..=100), 0..200 * MB, processes).prop_map(|(percent, overhead, processes)| {
            let processes: Vec<_> =
                processes.into_iter().map(|(pid, process)| GpuProcess { pid, ..process }).collect();
            let used_bytes = overhead + processes.iter().filter_map(|p| p.bytes).sum::<u64>();
            Reading { used_bytes, utilisation_percent: percent, processes, ..Reading::default() }
        })
    }

    fn some_thresholds() -> impl Strategy<Value = Thresholds> {
        (0u32..=100, 0..4_000 * MB)
            .prop_map(|(utilisation_percent, memory_bytes)| Thresholds { utilisation_percent, memory_bytes })
    }

    proptest! {
        #[test]
        fn a_foreign_compute_process_is_never_overlooked(
            reading in some_reading(), ours_pids in prop::collection::btree_set(1u32..50, 0..50), tasks in 0usize..3,
            limits in some_thresholds(),
        ) {
            let theirs = reading
                .processes
                .iter()
                .any(|p| p.kind == ProcessKind::Compute && !ours_pids.contains(&p.pid));
            let found = foreign(&reading, &OwnUse { tasks, pids: OwnPids::Known(ours_pids), bytes: 0 }, &limits);
            let blamed = found.is_some_and(|f| matches!(f.because, BusyReason::Process { .. }));
            prop_assert_eq!(blamed, theirs);
        }

        #[test]
        fn our_own_work_never_makes_a_device_busy(reading in some_reading(), limits in some_thresholds()) {
            let pids: BTreeSet<u32> = reading.processes.iter().map(|p| p.pid).collect();
            let held: u64 = reading.processes.iter().filter_map(|p| p.bytes).sum();
            let overhead = reading.used_bytes - held;
            prop_assume!(overhead <= limits.memory_bytes);
            prop_assert_eq!(foreign(&reading, &OwnUse { tasks: 1, pids: OwnPids::Known(pids), bytes: 0 }, &limits), None);
        }

        #[test]
        fn stricter_thresholds_free_nothing(
            reading in some_reading(), ours_pids in prop::collection::btree_set(1u32..50, 0..20), tasks in 0usize..3,
            limits in some_thresholds(), less in (0u32..50, 0..1_000 * MB),
        ) {
            let stricter = Thresholds {
                utilisation_percent: limits.utilisation_percent.saturating_sub(less.0),
                memory_bytes: limits.memory_bytes.saturating_sub(less.1),
            };
            let ours = OwnUse { tasks, pids: OwnPids::Known(ours_pids), bytes: 0 };
            if foreign(&reading, &ours, &limits).is_some() {
                prop_assert!(foreign(&reading, &ours, &stricter).is_some());
            }
        }

        #[test]
        fn every_known_byte_belongs_to_ours_or_to_others(
            reading in some_reading(), ours_pids in prop::collection::btree_set(1u32..50, 0..50),
        ) {
            let Some(known) = bytes_of(&reading, &ours_pids) else { return Ok(()) };
            let everything = Thresholds { utilisation_percent: 100, memory_bytes: 0 };
            let ours = OwnUse { tasks: 1, pids: OwnPids::Known(ours_pids), bytes: 0 };
            let theirs = foreign(&reading, &ours, &everything).map_or(0, |found| found.bytes);
            prop_assert_eq!(known + theirs, reading.used_bytes);
        }
    }
}
