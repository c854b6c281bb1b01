//! Rows of task tables: tasks on workers, queued tasks, and tasks that wait for something other than room.

use super::format::{TimeSpan, TruncatedText, escape, format_devices, format_limit, timestamp};
use super::palette::Person;
use crate::app::{App, UserColours};
use crate::forecast_cache::Forecast;
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

/// The most characters of a name in a table; the tooltip has all of it.
pub(super) const NAME: usize = 40;
pub(super) const USER: usize = 16;

/// A state or an outcome as a word, a symbol and a colour, so that it does not rest on colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(
    source = r#"<span class="badge {{ word }}"><span aria-hidden="true">{{ mark }}</span> {{ self.label() }}</span>"#,
    ext = "html"
)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    pub(super) mark: &'static str,
}

impl HtmlSafe for Badge {}

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

    /// The word for readers; as a class and in addresses it has hyphens.
    pub(super) fn label(&self) -> String {
        self.word.replace('-', " ")
    }
}

/// Why there is no expected start.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(
    source = r#"<span class="quiet" title="{{ self.title() }}">{{ self.word() }}</span>"#,
    ext = "html"
)]
pub(super) enum NoForecast {
    /// The task came after the last forecast; the next is being computed.
    Pending,
    /// It cannot be predicted, for this reason.
    Unknown(String),
    /// The task is too far back in the queue to be forecast.
    TooFarBack,
    /// The task is not queued because of its array's limit, and only the queue is forecast.
    ArrayLimited,
}

impl NoForecast {
    fn word(&self) -> &'static str {
        match self {
            NoForecast::Pending => "…",
            NoForecast::Unknown(_) | NoForecast::TooFarBack | NoForecast::ArrayLimited => "unknown",
        }
    }

    fn title(&self) -> &str {
        match self {
            NoForecast::Pending => "the forecast is being computed",
            NoForecast::Unknown(reason) => reason,
            NoForecast::TooFarBack => "unknown: it is too far back in the queue to be forecast",
            NoForecast::ArrayLimited => "unknown: it joins the queue when another task of its array ends",
        }
    }
}

impl HtmlSafe for NoForecast {}

/// A row: tasks of one node in the same state.
pub(super) struct Row {
    /// The position in the queue.
    pub(super) position: Option<u64>,
    pub(super) badge: Badge,
    pub(super) job: String,
    /// The selector of the task.
    pub(super) task: String,
    pub(super) name: TruncatedText,
    pub(super) user: Person,
    pub(super) priority: i64,
    pub(super) held: bool,
    /// The submission of its job.
    pub(super) submitted: TimeSpan,
    /// The last time its worker was heard of.
    pub(super) heard: Option<TimeSpan>,
    /// The number of tasks in the row.
    pub(super) count: u64,
    pub(super) needs: String,
    /// The timeout; empty where there is none.
    pub(super) limit: String,
    pub(super) mode: &'static str,
    /// The GPUs it is restricted to; empty where it needs none.
    pub(super) scope: String,
    /// The devices it runs on.
    pub(super) using: String,
    /// The time it waited, or has been waiting.
    pub(super) waited: Option<TimeSpan>,
    /// The time it has run.
    pub(super) ran: Option<TimeSpan>,
    pub(super) expected: Option<TimeSpan>,
    /// Why a queued task has no expected start.
    pub(super) no_forecast: Option<NoForecast>,
    pub(super) why: String,
}

/// The tasks a row is about. Cheap, so that all can be listed and only those on the page built.
pub(super) enum RowSource {
    /// Tasks on workers.
    OnWorkers(NodeId, Vec<TaskId>),
    /// Queued tasks of one node: the first, its position unless it is too far back, and how many there are.
    Queued(TaskId, Option<u64>, u64),
    /// Tasks that could start but for their array's limit: the first, and how many there are.
    ArrayLimited(TaskId, u64),
    /// Tasks of one node that wait for something other than room, and how many there are.
    Blocked(NodeId, u64),
}

impl RowSource {
    /// The state of its tasks.
    pub(super) fn state(&self, cluster: &Cluster) -> State {
        match self {
            RowSource::OnWorkers(_, tasks) => {
                let first = tasks.first().and_then(|t| cluster.state(*t));
                first.map_or(State::Running, views::state)
            }
            RowSource::Queued(..) | RowSource::ArrayLimited(..) => State::Ready,
            RowSource::Blocked(..) => State::Blocked,
        }
    }

    /// When its tasks began to wait, and when they stopped if they did.
    pub(super) fn waited(&self, cluster: &Cluster) -> Option<(Time, Option<Time>)> {
        let submitted = cluster.job(self.node().job)?.submitted;
        match self {
            RowSource::OnWorkers(_, tasks) => {
                let attempts = tasks.iter().filter_map(|t| cluster.view().attempt(*t));
                Some((submitted, Some(attempts.map(|(a, _)| a.placed).min()?)))
            }
            RowSource::Queued(task, ..) | RowSource::ArrayLimited(task, _) => {
                Some((ready_since(cluster, *task)?, None))
            }
            RowSource::Blocked(..) => Some((submitted, None)),
        }
    }

    /// When tasks on workers began to run.
    pub(super) fn began(&self, cluster: &Cluster) -> Option<Time> {
        let RowSource::OnWorkers(_, tasks) = self else { return None };
        tasks.iter().filter_map(|t| cluster.view().attempt(*t)?.0.started).min()
    }

    pub(super) fn node(&self) -> NodeId {
        match self {
            RowSource::OnWorkers(node, _) | RowSource::Blocked(node, _) => *node,
            RowSource::Queued(task, ..) | RowSource::ArrayLimited(task, _) => task.node_id(),
        }
    }
}

/// The tasks on workers, one entry for each node.
pub(super) fn on_workers(cluster: &Cluster) -> Vec<RowSource> {
    let mut nodes: BTreeMap<NodeId, Vec<TaskId>> = BTreeMap::new();
    for (_, worker) in cluster.workers() {
        for &task in worker.tasks() {
            nodes.entry(task.node_id()).or_default().push(task);
        }
    }
    nodes.into_iter().map(|(node, tasks)| RowSource::OnWorkers(node, tasks)).collect()
}

/// Queued nodes in the order the policy considers them, one entry for each, from `skip` on and at most `most`. Those
/// whose position is unknown come last: too far back, or over a limit of their user.
pub(super) fn queued(f: &Reader<'_>, skip: usize, most: usize) -> Vec<RowSource> {
    let places = f.policy().positions_after(f.cluster().view(), None, skip.saturating_add(most), f.now());
    places.into_iter().skip(skip).map(|place| queued_at(f, place)).collect()
}

fn queued_at(f: &Reader<'_>, place: QueuePosition) -> RowSource {
    let count = ready_of(f.cluster(), place.task.node_id());
    RowSource::Queued(place.task, place.before.map(|before| before + 1), count)
}

/// The queued nodes of some jobs, in the order the policy considers them.
pub(super) fn queued_of<'a>(f: &Reader<'_>, jobs: impl Iterator<Item = &'a Job>) -> Vec<RowSource> {
    let (view, now) = (f.cluster().view(), f.now());
    let nodes = jobs.flat_map(|job| (0..job.nodes.len() as u32).map(|node| NodeId { job: job.id, node }));
    let in_line: Vec<_> = nodes.filter(|node| view.has_ready(*node)).collect();
    let mut places: Vec<_> = f.policy().positions(view, &in_line, now).into_values().collect();
    places.sort_by_key(|place| (place.before.is_none(), place.before, place.task));
    places.into_iter().map(|place| queued_at(f, place)).collect()
}

/// The number of queued tasks of a node.
pub(super) fn ready_of(cluster: &Cluster, node: NodeId) -> u64 {
    cluster.view().ready(node).map(|ready| u64::from(ready.count)).sum()
}

/// Ready tasks that are not queued because their array runs as many as it may at once.
pub(super) fn array_limited(cluster: &Cluster) -> Vec<RowSource> {
    let entry = |(id, count): (NodeId, u64)| {
        let (node, _) = cluster.job(id.job)?.node(id.node)?;
        let again = node.live.iter().find(|(_, live)| matches!(live.phase, Phase::Ready { .. }));
        let first = again.map(|(&index, _)| index).or(node.first_open())?;
        Some(RowSource::ArrayLimited(id.task(first), count))
    };
    views::held_back(cluster).filter_map(entry).collect()
}

/// Tasks that wait for other tasks or jobs, or are held.
pub(super) fn blocked<'a>(f: &'a Reader<'_>) -> impl Iterator<Item = RowSource> + 'a {
    f.index().blocked().iter().filter_map(|id| f.cluster().job(*id)).flat_map(blocked_of)
}

/// Such tasks of one job.
pub(super) fn blocked_of(job: &Job) -> impl Iterator<Item = RowSource> + '_ {
    let nodes = job.nodes.iter().zip(0u32..).filter(|(node, _)| views::is_blocked(job, node));
    let counts = nodes.map(|(node, n)| (NodeId { job: job.id, node: n }, views::tally(job, node).0.blocked));
    counts.filter(|(_, count)| *count > 0).map(|(node, count)| RowSource::Blocked(node, count))
}

/// Refreshes pages when the next forecast is there, if a row lacks its own.
pub(super) fn await_forecast(app: &App, rows: &[Row]) {
    if rows.iter().any(|row| row.no_forecast == Some(NoForecast::Pending)) {
        app.forecasts.await_next();
    }
}

/// Builds the row of some tasks; nothing where their job is gone.
pub(super) fn build_row(
    f: &Reader<'_>,
    source: &RowSource,
    starts: &Forecast,
    colours: &UserColours,
    now: Time,
) -> Option<Row> {
    let cluster = f.cluster();
    let mut row = common_columns(cluster, source, colours, now)?;
    let why = match source {
        RowSource::OnWorkers(_, tasks) => {
            fill_on_workers(&mut row, cluster, tasks, now)?;
            tasks.first().and_then(|task| why::of_task(cluster, *task, now))
        }
        RowSource::Queued(task, position, count) => {
            (row.position, row.count) = (*position, *count);
            fill_expected_start(&mut row, cluster, *task, starts, now);
            why::explain(f, *task, now).and_then(|answer| answer.text.into_iter().next())
        }
        RowSource::ArrayLimited(task, count) => {
            row.count = *count;
            row.no_forecast = Some(NoForecast::ArrayLimited);
            why::of_task(cluster, *task, now)
        }
        RowSource::Blocked(node, count) => {
            row.count = *count;
            why::of_node(cluster, cluster.job(node.job)?, *node, now)
        }
    };
    row.why = escape(&why.unwrap_or_default());
    Some(row)
}

/// The columns that mean the same in every state.
fn common_columns(cluster: &Cluster, source: &RowSource, colours: &UserColours, now: Time) -> Option<Row> {
    let (node, at) = (source.node(), timestamp(now));
    let job = cluster.job(node.job)?;
    let spec = &job.spec.tasks[node.node as usize];
    Some(Row {
        position: None,
        badge: Badge::of(source.state(cluster), None),
        job: job.id.to_string(),
        task: escape(&node_name(job, node)),
        name: TruncatedText::of(&job.spec.name, NAME),
        user: colours.person(&job.user, USER),
        priority: job.priority,
        held: job.held,
        submitted: TimeSpan::since(timestamp(job.submitted), at),
        heard: None,
        count: 1,
        needs: escape(&why::needs_in_brief(&spec.needs)),
        limit: spec.timeout.map(|span| format_limit((span.0 / 1000) as i64)).unwrap_or_default(),
        mode: mode(&spec.needs),
        scope: scope(&spec.needs),
        using: String::new(),
        waited: source.waited(cluster).map(|(since, until)| match until {
            Some(until) => TimeSpan::lasted(timestamp(since), timestamp(until)),
            None => TimeSpan::since(timestamp(since), at),
        }),
        ran: source.began(cluster).map(|began| TimeSpan::since(timestamp(began), at)),
        expected: None,
        no_forecast: None,
        why: String::new(),
    })
}

/// The columns of tasks that are on workers: how many, on which devices, and when the worker was last heard of.
fn fill_on_workers(row: &mut Row, cluster: &Cluster, tasks: &[TaskId], now: Time) -> Option<()> {
    row.count = tasks.len() as u64;
    cluster.state(*tasks.first()?)?;
    let attempts = tasks.iter().filter_map(|t| cluster.view().attempt(*t)).map(|(attempt, _)| attempt);
    let worker = attempts.clone().next().and_then(|a| cluster.worker(a.placement.worker));
    // Only the worker inside the server is known to be heard all the time: it has no lease.
    let inside = worker.is_some_and(|w| w.online && w.info.lease.is_none());
    row.heard = inside.then(|| TimeSpan::since(timestamp(now), timestamp(now)));
    row.using = format_devices(attempts.map(|a| {
        let worker = cluster.view().worker_name(a.placement.worker).to_owned();
        (worker, a.placement.devices.iter().map(|(i, _)| *i).collect())
    }));
    Some(())
}

/// The expected start of a queued task, or why there is none.
fn fill_expected_start(row: &mut Row, cluster: &Cluster, task: TaskId, starts: &Forecast, now: Time) {
    // In private mode only admins have pages, and nothing is hidden from them.
    let (range, reason) = starts.of(task).map(|start| start.shown(|_| false)).unwrap_or_default();
    row.no_forecast = match (&range, reason, ready_since(cluster, task)) {
        (Some(_), ..) => None,
        (None, Some(reason), _) => Some(NoForecast::Unknown(escape(&reason))),
        (None, None, Some(since)) if !starts.is_after(since) => Some(NoForecast::Pending),
        (None, None, _) => Some(NoForecast::TooFarBack),
    };
    row.expected = range.map(|range| TimeSpan::range(range, timestamp(now)));
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

/// How it waits for GPUs: for its preferred ones, or for any in scope.
pub(super) fn mode(needs: &Needs) -> &'static str {
    match (needs.gpus, needs.wait_mode) {
        (0, _) => "",
        (_, WaitMode::Queue) => "queue",
        (_, WaitMode::Schedule) => "schedule",
    }
}

/// The GPUs in scope.
pub(super) fn scope(needs: &Needs) -> String {
    match (needs.gpus, &needs.scope[..]) {
        (0, _) => String::new(),
        (_, []) => "any".into(),
        (_, some @ [_, _, _, _, _, _, _, _, _, ..]) => format!("{}, …", why::numbers(&some[..8])),
        (_, few) => why::numbers(few),
    }
}
