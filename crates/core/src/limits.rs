//! How much people may have: at once, in a while, and for how long. Here are the limits themselves, which of them hold
//! for whom, and how one that is reached is told. What people have is counted in [`crate::cluster`].
//!
//! A user's own limits go before those of their groups (the most generous of several), and those before everyone's.
//! What a group may have together holds for all its members at the same time.

use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// All limits in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// For each user.
    #[serde(default)]
    pub everyone: Caps,
    /// For some users instead.
    #[serde(default)]
    pub users: BTreeMap<String, Caps>,
    /// For members of groups.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupCaps>,
}

/// What holds for a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupCaps {
    /// For each of its members.
    #[serde(default)]
    pub each: Caps,
    /// For all of them together.
    #[serde(default)]
    pub together: Caps,
}

/// The limits of someone; what is absent has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caps {
    /// GPUs at once; a share of one counts as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Tasks on workers at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Tasks that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// How long a task may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How much GPU time there is in a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_time: Option<GpuTime>,
    /// Bytes of output kept of each task.
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
    /// Snapshots that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<u64>,
    /// Bytes of all snapshots that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots_size: Option<u64>,
    /// Requests that are being answered at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
}

/// So much GPU time in every window of this length. Tasks count with all they promised while they run, and with what
/// they used from when they ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuTime {
    /// GPUs times running time.
    pub most: Span,
    /// The length of the window.
    pub window: Span,
}

impl Limits {
    /// Whether nobody is limited.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// What holds for a user who is in these groups.
    pub fn caps_of(&self, user: &str, groups: &[String]) -> Caps {
        let own = self.users.get(user).copied().unwrap_or_default();
        let by_group = groups.iter().filter_map(|name| Some(self.groups.get(name)?.each));
        own.or(by_group.fold(Caps::default(), Caps::larger)).or(self.everyone)
    }

    /// All windows there are.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Span> + '_ {
        self.all().filter_map(|caps| Some(caps.gpu_time?.window))
    }

    /// Whether any of them has to do with what may start; the others only bound what may be submitted.
    pub(crate) fn bound_starts(&self) -> bool {
        self.all().any(|caps| caps.gpus.is_some() || caps.running.is_some() || caps.gpu_time.is_some())
    }

    fn all(&self) -> impl Iterator<Item = Caps> + '_ {
        let groups = self.groups.values().flat_map(|group| [group.each, group.together]);
        std::iter::once(self.everyone).chain(self.users.values().copied()).chain(groups)
    }
}

impl Caps {
    /// These limits, and those of another where these have none.
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

    /// None is smaller than any.
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

/// A limit that is reached: what is asked would be too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExceeded {
    /// Whose it is.
    pub of: LimitOwner,
    /// Which.
    pub what: LimitKind,
    /// How much there may be.
    pub most: u64,
    /// How much there is.
    pub has: u64,
    /// How much is asked for.
    pub asks: u64,
}

/// Whose limit it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitOwner {
    /// A user's.
    User(String),
    /// That of all members of a group together.
    Group(String),
}

/// What is limited. Numbers are counts, and microseconds of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// GPUs at once.
    Gpus,
    /// Tasks on workers.
    Running,
    /// Tasks that wait.
    Queued,
    /// The length of a task.
    Timeout,
    /// GPU time in a while.
    GpuTime {
        /// How long that is.
        window: Span,
        /// When some of what was used no longer counts.
        until: Option<Time>,
    },
    /// How urgent a job is.
    Priority,
    /// Bytes of job documents and environments in memory.
    JobsSize,
}

impl LimitKind {
    /// The limit's name in a configuration.
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
        // What could never be had: how much there is already does not matter.
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
                    return write!(f, "{of} may have {most} GPU-hours in {window}; this promises {asks}");
                }
                write!(
                    f,
                    "{of} may have {most} GPU-hours in {window}; {has} are used or promised to what runs, and \
                     this promises {asks}"
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

/// A length in its largest whole unit.
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
            "ann may have 24 GPU-hours in 7d; 12 are used or promised to what runs, and this promises 13"
        );
        let never = LimitExceeded { asks: 25 * 3_600_000_000, has: 0, ..at };
        assert_eq!(never.to_string(), "ann may have 24 GPU-hours in 7d; this promises 25");
        let at = LimitExceeded { of, what: LimitKind::Timeout, most: day.0, has: 0, asks: 90_000_000 };
        assert_eq!(at.to_string(), "ann may run a task for 1d at the longest; this asks for 90s");
    }
}
