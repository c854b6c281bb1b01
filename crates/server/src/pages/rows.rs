//! The rows of tables of tasks: what is on workers, who waits in line, and who waits for something else.

use super::palette::{Person, UserColours};
use super::words::{Moment, Named, limit, moment, places, text};
use crate::forecast_cache::Forecast;
use crate::http::App;
use crate::replica::Reader;
use crate::{views, why};
use askama::Template;
use askama::filters::HtmlSafe;
use std::collections::BTreeMap;
use warpyard_api::wire::{Outcome, State};
use warpyard_core::cluster::{Job, Phase};
use warpyard_core::policy::QueuePosition;
use warpyard_core::spec::{Needs, WaitMode};
use warpyard_core::{Cluster, NodeId, TaskId, Time};

/// How much of a name a table shows; the whole is told on hover.
pub(super) const NAME: usize = 40;
pub(super) const USER: usize = 16;

/// A state or an outcome: a word, a shape and a colour that all say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    pub(super) mark: &'static str,
}

impl Badge {
    pub(super) fn of(state: State, outcome: Option<Outcome>) -> Badge {
        match outcome {
            Some(outcome) => Badge::ended(outcome),
            None => Badge {
                word: state.word(),
                mark: match state {
                    State::Blocked => "○",
                    State::Ready => "◔",
                    State::Placed => "◑",
                    State::Running => "▶",
                    State::Paused => "‖",
                    State::Stopping => "◌",
                    State::Done => "■",
                },
            },
        }
    }

    pub(super) fn ended(outcome: Outcome) -> Badge {
        let mark = match outcome {
            Outcome::Succeeded => "✓",
            Outcome::Failed => "✕",
            Outcome::TimedOut => "◷",
            Outcome::Cancelled => "⊘",
            Outcome::Lost => "?",
            Outcome::Skipped => "»",
        };
        Badge { word: outcome.word(), mark }
    }

    /// The word as it is read; as a class and in addresses it has a hyphen.
    pub(super) fn said(&self) -> String {
        self.word.replace('-', " ")
    }
}

/// Why nothing is said of when something will start.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(
    source = r#"<span class="quiet" title="{{ self.title() }}">{{ self.word() }}</span>"#,
    ext = "html"
)]
pub(super) enum Unforeseen {
    /// It came after the last forecast; the next is being made.
    NotYet,
    /// It cannot be known, because of this.
    Unknown(String),
    /// It is too far back to be forecast.
    FarBack,
    /// It is not in line, and only the line is forecast.
    HeldBack,
}

impl Unforeseen {
    fn word(&self) -> &'static str {
        match self {
            Unforeseen::NotYet => "…",
            Unforeseen::Unknown(_) | Unforeseen::FarBack | Unforeseen::HeldBack => "unknown",
        }
    }

    fn title(&self) -> &str {
        match self {
            Unforeseen::NotYet => "the forecast is being computed",
            Unforeseen::Unknown(reason) => reason,
            Unforeseen::FarBack => "unknown: it is too far back in the queue to be forecast",
            Unforeseen::HeldBack => "unknown: it joins the queue when another task of its array ends",
        }
    }
}

impl HtmlSafe for Unforeseen {}

/// Like tasks of a job in one row.
pub(super) struct Row {
    /// Its place in line.
    pub(super) position: Option<u64>,
    pub(super) badge: Badge,
    pub(super) job: String,
    /// The task, as it is selected.
    pub(super) task: String,
    pub(super) name: Named,
    pub(super) user: Person,
    pub(super) priority: i64,
    pub(super) held: bool,
    /// When its job was submitted.
    pub(super) registered: Moment,
    /// When its worker was last heard.
    pub(super) heard: Option<Moment>,
    /// How many tasks it stands for.
    pub(super) count: u64,
    pub(super) needs: String,
    /// Its timeout; empty where it has none.
    pub(super) limit: String,
    pub(super) mode: &'static str,
    /// The GPUs it may have: nothing where it wants none.
    pub(super) scope: String,
    /// Where it runs.
    pub(super) using: String,
    /// How long it waited, or has waited.
    pub(super) waited: Option<Moment>,
    /// How long it has run.
    pub(super) ran: Option<Moment>,
    pub(super) expected: Option<Moment>,
    /// Of what is ready, why no start is expected.
    pub(super) unforeseen: Option<Unforeseen>,
    pub(super) why: String,
}

/// What a row will be about; cheap, so that all can be listed and few drawn.
pub(super) enum Entry {
    /// These are on workers.
    On(NodeId, Vec<TaskId>),
    /// So many from this one on are in line, the first at this place, if it is not too far back to say.
    InLine(TaskId, Option<u64>, u64),
    /// So many from this one on could start, but as many of their array run as may at once.
    HeldBack(TaskId, u64),
    /// So many wait for something other than room.
    Blocked(NodeId, u64),
}

impl Entry {
    /// The word for its state.
    pub(super) fn state(&self, cluster: &Cluster) -> State {
        match self {
            Entry::On(_, tasks) => {
                let first = tasks.first().and_then(|t| cluster.state(*t));
                first.map_or(State::Running, views::state)
            }
            Entry::InLine(..) | Entry::HeldBack(..) => State::Ready,
            Entry::Blocked(..) => State::Blocked,
        }
    }

    /// Since when it waits, and until when it did if it no longer does.
    pub(super) fn waited(&self, cluster: &Cluster) -> Option<(Time, Option<Time>)> {
        let submitted = cluster.job(self.node().job)?.submitted;
        match self {
            Entry::On(_, tasks) => {
                let attempts = tasks.iter().filter_map(|t| cluster.view().attempt(*t));
                Some((submitted, Some(attempts.map(|(a, _)| a.placed).min()?)))
            }
            Entry::InLine(task, ..) | Entry::HeldBack(task, _) => Some((ready_since(cluster, *task)?, None)),
            Entry::Blocked(..) => Some((submitted, None)),
        }
    }

    /// When what is on workers began to run.
    pub(super) fn began(&self, cluster: &Cluster) -> Option<Time> {
        let Entry::On(_, tasks) = self else { return None };
        tasks.iter().filter_map(|t| cluster.view().attempt(*t)?.0.started).min()
    }

    pub(super) fn node(&self) -> NodeId {
        match self {
            Entry::On(node, _) | Entry::Blocked(node, _) => *node,
            Entry::InLine(task, ..) | Entry::HeldBack(task, _) => task.node_id(),
        }
    }
}

/// The tasks on workers, each node once.
pub(super) fn on_workers(cluster: &Cluster) -> Vec<Entry> {
    let mut nodes: BTreeMap<NodeId, Vec<TaskId>> = BTreeMap::new();
    for (_, worker) in cluster.workers() {
        for &task in worker.tasks() {
            nodes.entry(task.node_id()).or_default().push(task);
        }
    }
    nodes.into_iter().map(|(node, tasks)| Entry::On(node, tasks)).collect()
}

/// So many nodes in line in the order they will be considered, each where its first task is, without the first few. Behind
/// those whose place is known come those that stand too far back, or whose user may not have more.
pub(super) fn in_line(f: &Reader<'_>, skip: usize, most: usize) -> Vec<Entry> {
    let places = f.policy().positions_after(f.cluster().view(), None, skip.saturating_add(most), f.now());
    places.into_iter().skip(skip).map(|place| in_line_at(f, place)).collect()
}

fn in_line_at(f: &Reader<'_>, place: QueuePosition) -> Entry {
    let count = ready_of(f.cluster(), place.task.node_id());
    Entry::InLine(place.task, place.before.map(|before| before + 1), count)
}

/// The nodes of some jobs that are in line, in the order they will be considered.
pub(super) fn in_line_of<'a>(f: &Reader<'_>, jobs: impl Iterator<Item = &'a Job>) -> Vec<Entry> {
    let (view, now) = (f.cluster().view(), f.now());
    let nodes = jobs.flat_map(|job| (0..job.nodes.len() as u32).map(|node| NodeId { job: job.id, node }));
    let in_line: Vec<_> = nodes.filter(|node| view.has_ready(*node)).collect();
    let mut places: Vec<_> = f.policy().positions(view, &in_line, now).into_values().collect();
    places.sort_by_key(|place| (place.before.is_none(), place.before, place.task));
    places.into_iter().map(|place| in_line_at(f, place)).collect()
}

/// How many tasks of a node are in line.
pub(super) fn ready_of(cluster: &Cluster, node: NodeId) -> u64 {
    cluster.view().ready(node).map(|ready| u64::from(ready.count)).sum()
}

/// What is ready but in no line, because as many of its array are on workers as may be at once.
pub(super) fn held_back(cluster: &Cluster) -> Vec<Entry> {
    let entry = |(id, count): (NodeId, u64)| {
        let (node, _) = cluster.job(id.job)?.node(id.node)?;
        let again = node.live.iter().find(|(_, live)| matches!(live.phase, Phase::Ready { .. }));
        let first = again.map(|(&index, _)| index).or(node.first_open())?;
        Some(Entry::HeldBack(id.task(first), count))
    };
    views::held_back(cluster).filter_map(entry).collect()
}

/// What waits for other tasks, other jobs, or someone's hand.
pub(super) fn blocked<'a>(f: &'a Reader<'_>) -> impl Iterator<Item = Entry> + 'a {
    f.index().blocked().iter().filter_map(|id| f.cluster().job(*id)).flat_map(blocked_of)
}

/// The same of one job.
pub(super) fn blocked_of(job: &Job) -> impl Iterator<Item = Entry> + '_ {
    let nodes = job.nodes.iter().zip(0u32..).filter(|(node, _)| views::is_blocked(job, node));
    let counts = nodes.map(|(node, n)| (NodeId { job: job.id, node: n }, views::tally(job, node).0.blocked));
    counts.filter(|(_, count)| *count > 0).map(|(node, count)| Entry::Blocked(node, count))
}

/// Has pages look again when the next forecast is there, if rows lack theirs.
pub(super) fn await_forecast(app: &App, rows: &[Row]) {
    if rows.iter().any(|row| row.unforeseen == Some(Unforeseen::NotYet)) {
        app.forecasts.await_next();
    }
}

/// Draws one.
pub(super) fn row(
    f: &Reader<'_>,
    entry: &Entry,
    starts: &Forecast,
    colours: &UserColours,
    now: Time,
) -> Option<Row> {
    let cluster = f.cluster();
    let node = entry.node();
    let job = cluster.job(node.job)?;
    let spec = &job.spec.tasks[node.node as usize];
    let at = moment(now);
    let mut row = Row {
        position: None,
        badge: Badge::of(State::Blocked, None),
        job: job.id.to_string(),
        task: text(&node_name(job, node)),
        name: Named::of(&job.spec.name, NAME),
        user: colours.person(&job.user, USER),
        priority: job.priority,
        held: job.held,
        registered: Moment::since(moment(job.submitted), at),
        heard: None,
        count: 1,
        needs: text(&why::needs_in_brief(&spec.needs)),
        limit: spec.timeout.map(|span| limit((span.0 / 1000) as i64)).unwrap_or_default(),
        mode: mode(&spec.needs),
        scope: scope(&spec.needs),
        using: String::new(),
        waited: entry.waited(cluster).map(|(since, until)| match until {
            Some(until) => Moment::lasted(moment(since), moment(until)),
            None => Moment::since(moment(since), at),
        }),
        ran: entry.began(cluster).map(|began| Moment::since(moment(began), at)),
        expected: None,
        unforeseen: None,
        why: String::new(),
    };
    match entry {
        Entry::On(_, tasks) => {
            row.count = tasks.len() as u64;
            row.badge =
                tasks.first().and_then(|t| cluster.state(*t)).map(|s| Badge::of(views::state(s), None))?;
            let attempts = tasks.iter().filter_map(|t| cluster.view().attempt(*t)).map(|(a, _)| a);
            let worker = attempts.clone().next().and_then(|a| cluster.worker(a.placement.worker));
            // Only the worker inside is known to be heard all the time.
            let inside = worker.is_some_and(|w| w.online && w.info.lease.is_none());
            row.heard = inside.then(|| Moment::since(at, at));
            row.using = places(attempts.map(|a| {
                let worker = cluster.view().worker_name(a.placement.worker).to_owned();
                (worker, a.placement.devices.iter().map(|(i, _)| *i).collect())
            }));
            row.why = tasks.first().and_then(|t| why::of_task(cluster, *t, now)).unwrap_or_default();
        }
        Entry::InLine(task, position, count) => {
            (row.position, row.count) = (*position, *count);
            row.badge = Badge::of(State::Ready, None);
            let answer = why::explain(f, *task, now);
            row.why = answer.and_then(|a| a.text.into_iter().next()).unwrap_or_default();
            let since = ready_since(cluster, *task);
            // In private mode only admins have pages, and nothing is hidden from them.
            let (range, reason) = starts.of(*task).map(|start| start.told(|_| false)).unwrap_or_default();
            row.unforeseen = match (&range, reason, since) {
                (Some(_), ..) => None,
                (None, Some(reason), _) => Some(Unforeseen::Unknown(text(&reason))),
                (None, None, Some(since)) if !starts.is_after(since) => Some(Unforeseen::NotYet),
                (None, None, _) => Some(Unforeseen::FarBack),
            };
            row.expected = range.map(|range| Moment::range(range, at));
        }
        Entry::HeldBack(task, count) => {
            row.count = *count;
            row.badge = Badge::of(State::Ready, None);
            row.unforeseen = Some(Unforeseen::HeldBack);
            row.why = why::of_task(cluster, *task, now).unwrap_or_default();
        }
        Entry::Blocked(_, count) => {
            row.count = *count;
            row.why = why::of_node(cluster, job, node, now).unwrap_or_default();
        }
    }
    row.why = text(&row.why);
    Some(row)
}

fn ready_since(cluster: &Cluster, task: TaskId) -> Option<Time> {
    match cluster.state(task)? {
        warpyard_core::TaskState::Ready { since } => Some(since),
        _ => None,
    }
}

fn node_name(job: &Job, node: NodeId) -> String {
    match &job.spec.tasks[..] {
        [_] => job.id.to_string(),
        tasks => format!("{}.{}", job.id, tasks[node.node as usize].name),
    }
}

/// How it waits for GPUs: for the very ones it wants, or for any it may have.
pub(super) fn mode(needs: &Needs) -> &'static str {
    match (needs.gpus, needs.wait_mode) {
        (0, _) => "",
        (_, WaitMode::Queue) => "queue",
        (_, WaitMode::Schedule) => "schedule",
    }
}

/// The GPUs it may have.
pub(super) fn scope(needs: &Needs) -> String {
    match (needs.gpus, &needs.scope[..]) {
        (0, _) => String::new(),
        (_, []) => "any".into(),
        (_, some @ [_, _, _, _, _, _, _, _, _, ..]) => format!("{}, …", why::numbers(&some[..8])),
        (_, few) => why::numbers(few),
    }
}
