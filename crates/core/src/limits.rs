//! Limits: how much users may have at once, in a window of time, and for how long. This module has the limits, their
//! precedence, and the messages of exceeded ones; usage is counted in [`crate::cluster`].
//!
//! A user's own limits take precedence over those of their groups (the most generous of several), and those over
//! everyone's. The limits of a group as a whole apply in addition.

use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// All limits in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Limits of every user.
    #[serde(default)]
    pub everyone: Caps,
    /// Limits of particular users, which take precedence.
    #[serde(default)]
    pub users: BTreeMap<String, Caps>,
    /// Limits of groups.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupCaps>,
}

/// Limits of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupCaps {
    /// Limits of each member.
    #[serde(default)]
    pub each: Caps,
    /// Limits of all members together.
    #[serde(default)]
    pub together: Caps,
}

/// Set of limits; an absent one does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caps {
    /// GPUs at once; a share of one counts as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Tasks on workers at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Waiting tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// Longest run time of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// GPU time in a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_time: Option<GpuTime>,
    /// Log bytes kept per task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size: Option<u64>,
    /// The highest priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Bytes of one submission: the job document and its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_size: Option<u64>,
    /// Bytes of all job documents and environments that are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_size: Option<u64>,
    /// Number of snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<u64>,
    /// Bytes of all snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots_size: Option<u64>,
    /// Concurrent requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
}

/// GPU time in any window of this length. A running task counts with its longest run time, an ended one with its
/// actual running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuTime {
    /// GPUs times running time.
    pub most: Span,
    /// Length of the window.
    pub window: Span,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// Limits of a user who is a member of these groups.
    pub fn caps_of(&self, user: &str, groups: &[String]) -> Caps {
        let own = self.users.get(user).copied().unwrap_or_default();
        let by_group = groups.iter().filter_map(|name| Some(self.groups.get(name)?.each));
        own.or(by_group.fold(Caps::default(), Caps::larger)).or(self.everyone)
    }

    /// Lengths of all windows.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Span> + '_ {
        self.all().filter_map(|caps| Some(caps.gpu_time?.window))
    }

    /// Whether any limit bounds what may start; the others only bound what may be submitted.
    pub(crate) fn bound_starts(&self) -> bool {
        self.all().any(|caps| caps.gpus.is_some() || caps.running.is_some() || caps.gpu_time.is_some())
    }

    fn all(&self) -> impl Iterator<Item = Caps> + '_ {
        let groups = self.groups.values().flat_map(|group| [group.each, group.together]);
        std::iter::once(self.everyone).chain(self.users.values().copied()).chain(groups)
    }
}

impl Caps {
    /// These limits, completed by another set where they are absent.
    pub fn or(self, other: Caps) -> Caps {
        Caps {
            gpus: self.gpus.or(other.gpus),
            running: self.running.or(other.running),
            queued: self.queued.or(other.queued),
            timeout: self.timeout.or(other.timeout),
            gpu_time: self.gpu_time.or(other.gpu_time),
            log_size: self.log_size.or(other.log_size),
            priority: self.priority.or(other.priority),
            submission_size: self.submission_size.or(other.submission_size),
            jobs_size: self.jobs_size.or(other.jobs_size),
            snapshots: self.snapshots.or(other.snapshots),
            snapshots_size: self.snapshots_size.or(other.snapshots_size),
            requests: self.requests.or(other.requests),
        }
    }

    /// The more generous of each limit. `None` counts as smaller: an absent limit of a group does not lift another
    /// group's.
    fn larger(self, other: Caps) -> Caps {
        Caps {
            gpus: self.gpus.max(other.gpus),
            running: self.running.max(other.running),
            queued: self.queued.max(other.queued),
            timeout: self.timeout.max(other.timeout),
            gpu_time: self.gpu_time.max(other.gpu_time),
            log_size: self.log_size.max(other.log_size),
            priority: self.priority.max(other.priority),
            submission_size: self.submission_size.max(other.submission_size),
            jobs_size: self.jobs_size.max(other.jobs_size),
            snapshots: self.snapshots.max(other.snapshots),
            snapshots_size: self.snapshots_size.max(other.snapshots_size),
            requests: self.requests.max(other.requests),
        }
    }
}

/// Limit that a request exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExceeded {
    /// Owner of the limit.
    pub of: LimitOwner,
    /// Kind of limit.
    pub what: LimitKind,
    /// The limit.
    pub most: u64,
    /// Current usage.
    pub has: u64,
    /// Usage that the request adds.
    pub asks: u64,
}

/// Owner of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitOwner {
    /// A user.
    User(String),
    /// All members of a group together.
    Group(String),
}

/// Kind of a limit. Values are counts, bytes, or microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// GPUs at once.
    Gpus,
    /// Tasks on workers at once.
    Running,
    /// Waiting tasks.
    Queued,
    /// Longest run time of a task.
    Timeout,
    /// GPU time in a window.
    GpuTime {
        /// Length of the window.
        window: Span,
        /// Time at which some of the usage leaves the window.
        until: Option<Time>,
    },
    /// Priority of a job.
    Priority,
    /// Bytes of job documents and environments in memory.
    JobsSize,
}

impl LimitKind {
    /// Name of the limit in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            LimitKind::Gpus => "gpus",
            LimitKind::Running => "running",
            LimitKind::Queued => "queued",
            LimitKind::Timeout => "timeout",
            LimitKind::GpuTime { .. } => "gpu_hours",
            LimitKind::Priority => "priority",
            LimitKind::JobsSize => "jobs_size",
        }
    }
}

impl fmt::Display for LimitOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitOwner::User(name) => f.write_str(name),
            LimitOwner::Group(name) => write!(f, "all of group {name} together"),
        }
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitExceeded { of, what, most, has, asks } = self;
        // A request above the limit itself can never be granted, whatever the current usage is.
        let never = asks > most;
        let s = if *most == 1 { "" } else { "s" };
        match what {
            LimitKind::Gpus if never => write!(f, "{of} may have {most} GPU{s} at once; this takes {asks}"),
            LimitKind::Gpus => {
                write!(f, "{of} may have {most} GPU{s} at once and has {has}; this takes {asks}")
            }
            LimitKind::Running => write!(f, "{of} may have {most} task{s} running at once and has {has}"),
            LimitKind::Queued => {
                write!(f, "{of} may have {most} task{s} waiting (queued) and has {has}; this adds {asks}")
            }
            LimitKind::Timeout => {
                let (most, asks) = (length(Span(*most)), length(Span(*asks)));
                write!(f, "{of} may run a task for {most} at the longest; this asks for {asks}")
            }
            LimitKind::GpuTime { window, .. } => {
                let [most, has, asks] = [most, has, asks].map(|us| hours(Span(*us)));
                let window = length(*window);
                if never {
                    return write!(f, "{of} may have {most} GPU-hours in {window}; this may use {asks}");
                }
                write!(
                    f,
                    "{of} may have {most} GPU-hours in {window}; {has} are used or reserved by running tasks, and \
                     this may use {asks}"
                )
            }
            LimitKind::JobsSize => {
                let [most, has, asks] = [most, has, asks].map(|bytes| mebibytes(*bytes));
                write!(
                    f,
                    "{of} may have {most} of job documents and environments kept (jobs_size) and has {has}; this adds {asks}"
                )
            }
            LimitKind::Priority => {
                let (most, asks) = (*most as i64, *asks as i64);
                write!(f, "{of} may give priorities up to {most}; this asks for {asks}")
            }
        }
    }
}

fn hours(span: Span) -> String {
    let text = format!("{:.2}", span.secs() / 3600.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// Duration in its largest whole unit.
fn length(span: Span) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let seconds = span.0 / 1_000_000;
    let whole = UNITS.iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    match whole {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{}s", span.secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(n: u32) -> Caps {
        Caps { gpus: Some(n), ..Caps::default() }
    }

    #[test]
    fn ones_own_limit_goes_before_ones_groups_and_those_before_everyones() {
        let caps = |each| GroupCaps { each, together: Caps::default() };
        let limits = Limits {
            everyone: Caps { running: Some(9), ..gpus(1) },
            users: BTreeMap::from([("ann".into(), gpus(7))]),
            groups: BTreeMap::from([("a".into(), caps(gpus(2))), ("b".into(), caps(gpus(3)))]),
        };
        let of = |user: &str, groups: &[&str]| {
            limits.caps_of(user, &groups.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of("ann", &["a"]).gpus, Some(7));
        assert_eq!(of("bob", &["a", "b", "unknown"]).gpus, Some(3));
        assert_eq!((of("bob", &["a"]).running, of("eve", &[]).gpus), (Some(9), Some(1)));
    }

    #[test]
    fn a_limit_is_told_with_its_numbers() {
        let of = LimitOwner::User("ann".into());
        let day = Span(86_400_000_000);
        let what = LimitKind::GpuTime { window: Span(7 * day.0), until: None };
        let (most, has, asks) = (day.0, day.0 / 2, 13 * 3_600_000_000);
        let at = LimitExceeded { of: of.clone(), what, most, has, asks };
        assert_eq!(
            at.to_string(),
            "ann may have 24 GPU-hours in 7d; 12 are used or reserved by running tasks, and this may use 13"
        );
        let never = LimitExceeded { asks: 25 * 3_600_000_000, has: 0, ..at };
        assert_eq!(never.to_string(), "ann may have 24 GPU-hours in 7d; this may use 25");
        let at = LimitExceeded { of, what: LimitKind::Timeout, most: day.0, has: 0, asks: 90_000_000 };
        assert_eq!(at.to_string(), "ann may run a task for 1d at the longest; this asks for 90s");
    }
}
