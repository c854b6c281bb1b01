//! Which jobs a list has: of the indexes a filter fits, the one with fewest jobs is gone through, in one of three orders, from
//! a cursor on. A cursor is a place in the order and not a number of jobs, so that jobs that come and go between two pages
//! neither hide others nor show them twice.

use crate::replica::Reader;
use crate::views;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::str::FromStr;
use warpyard_api::wire::{JobFilter, JobOrder, State, StateFilter};
use warpyard_core::cluster::Job;
use warpyard_core::policy::QueuePosition;
use warpyard_core::{JobId, NodeId, TaskId};

/// So many jobs are sorted by their places in line; where more may be wanted, the line is gone along.
const FEW: usize = 2_000;

/// How many places in line are looked at at once.
const STRIDE: usize = 256;

/// Where a list goes on: behind this job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cursor {
    /// Among jobs by number, whichever way.
    Job(JobId),
    /// Among jobs on workers, in the order they run.
    OnWorkers(JobId),
    /// In line.
    InLine(QueuePosition),
    /// Among those that wait for something other than room.
    Blocked(JobId),
    /// Among those that are over.
    Over(JobId),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cursor::Job(job) => write!(f, "{job}"),
            Cursor::OnWorkers(job) => write!(f, "on.{job}"),
            Cursor::Blocked(job) => write!(f, "blocked.{job}"),
            Cursor::Over(job) => write!(f, "over.{job}"),
            Cursor::InLine(QueuePosition { key, task: TaskId { job, node, index }, before }) => {
                let key = key.map(|key| key.to_string()).unwrap_or_default();
                let before = before.map(|before| before.to_string()).unwrap_or_default();
                write!(f, "line.{job}.{node}.{index}.{key}.{before}")
            }
        }
    }
}

/// A text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Cursor, NotACursor> {
        fn part<T: FromStr>(text: &str) -> Result<T, NotACursor> {
            text.parse().map_err(|_| NotACursor)
        }
        fn perhaps<T: FromStr>(text: &str) -> Result<Option<T>, NotACursor> {
            if text.is_empty() { Ok(None) } else { part(text).map(Some) }
        }
        let parts: Vec<_> = text.split('.').collect();
        Ok(match parts[..] {
            [job] => Cursor::Job(JobId(part(job)?)),
            ["on", job] => Cursor::OnWorkers(JobId(part(job)?)),
            ["blocked", job] => Cursor::Blocked(JobId(part(job)?)),
            ["over", job] => Cursor::Over(JobId(part(job)?)),
            ["line", job, node, index, key, before] => {
                let task = TaskId { job: JobId(part(job)?), node: part(node)?, index: part(index)? };
                Cursor::InLine(QueuePosition { key: perhaps(key)?, task, before: perhaps(before)? })
            }
            _ => return Err(NotACursor),
        })
    }
}

/// What is listed.
pub(crate) struct Listing<'a> {
    pub(crate) filter: &'a JobFilter,
    /// The jobs a selector names, where there is one that does not name all.
    pub(crate) chosen: Option<BTreeSet<JobId>>,
    /// Whether jobs that are over are listed.
    pub(crate) over: bool,
    /// Whether a job is wanted, of those that may be.
    pub(crate) wanted: &'a dyn Fn(&Job) -> bool,
}

impl Listing<'_> {
    /// So many jobs behind a cursor, and where the list goes on if there are more.
    pub(crate) fn page<'r>(
        &self,
        f: &'r Reader<'_>,
        after: Option<Cursor>,
        most: usize,
    ) -> (Vec<&'r Job>, Option<Cursor>) {
        let mut found = match self.filter.order {
            JobOrder::Run => self.as_they_run(f, after, most + 1),
            order => self.by_number(f, after, order == JobOrder::Newest, most + 1),
        };
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().filter(|_| more).map(|(_, cursor)| *cursor);
        (found.into_iter().map(|(job, _)| job).collect(), next)
    }

    /// The smallest set of jobs that has all that may be wanted.
    fn candidates<'s>(&'s self, f: &'s Reader<'_>) -> Cow<'s, BTreeSet<JobId>> {
        let (index, filter) = (f.index(), self.filter);
        let state = filter.state.and_then(StateFilter::state).map(|state| index.in_state(state));
        // A name up to its first wildcard is the beginning of every name that fits.
        let prefix = filter.name.as_deref().map(|name| name.split(['*', '?']).next().unwrap_or_default());
        let named = prefix.filter(|prefix| !prefix.is_empty()).and_then(|prefix| index.named(prefix, FEW));
        let sets = [
            self.chosen.as_ref(),
            filter.user.as_deref().map(|user| index.of_user(user)),
            filter.project.as_deref().map(|project| index.of_project(project)),
            state,
            (!self.over).then(|| index.open()),
        ];
        let smallest = sets.into_iter().flatten().min_by_key(|set| set.len());
        match (named, smallest) {
            (Some(named), smallest) if smallest.is_none_or(|set| named.len() < set.len()) => {
                Cow::Owned(named)
            }
            (_, Some(smallest)) => Cow::Borrowed(smallest),
            (_, None) => Cow::Borrowed(index.all()),
        }
    }

    fn by_number<'r>(
        &self,
        f: &'r Reader<'_>,
        after: Option<Cursor>,
        newest_first: bool,
        most: usize,
    ) -> Vec<(&'r Job, Cursor)> {
        let after = match after {
            Some(Cursor::Job(job)) => Some(job),
            _ => None,
        };
        let set = self.candidates(f);
        let job = |id: &JobId| f.cluster().job(*id).filter(|job| (self.wanted)(job));
        let ids: &mut dyn Iterator<Item = &JobId> = match newest_first {
            true => &mut set.range((Unbounded, after.map_or(Unbounded, Excluded))).rev(),
            false => &mut set.range((after.map_or(Unbounded, Excluded), Unbounded)),
        };
        ids.filter_map(job).map(|job| (job, Cursor::Job(job.id))).take(most).collect()
    }

    /// As the policy will run them: those on a worker, the line, what waits for something else, and what is over, the newest of
    /// that first.
    fn as_they_run<'r>(
        &self,
        f: &'r Reader<'_>,
        after: Option<Cursor>,
        most: usize,
    ) -> Vec<(&'r Job, Cursor)> {
        let index = f.index();
        let wanted = |id: &JobId| f.cluster().job(*id).filter(|job| (self.wanted)(job));
        let mut found = Vec::new();
        if matches!(after, None | Some(Cursor::OnWorkers(_))) {
            let states = [State::Running, State::Paused, State::Stopping, State::Placed];
            let on_workers: BTreeSet<_> =
                states.into_iter().flat_map(|state| index.in_state(state)).collect();
            let ids = on_workers.into_iter().filter(|id| match after {
                Some(Cursor::OnWorkers(last)) => **id > last,
                _ => true,
            });
            found.extend(ids.filter_map(wanted).map(|job| (job, Cursor::OnWorkers(job.id))).take(most));
        }
        if found.len() < most && matches!(after, None | Some(Cursor::OnWorkers(_) | Cursor::InLine(_))) {
            let place = match after {
                Some(Cursor::InLine(place)) => Some(place),
                _ => None,
            };
            let in_line = self.in_line(f, place, most - found.len());
            found.extend(in_line.into_iter().map(|(job, place)| (job, Cursor::InLine(place))));
        }
        if found.len() < most && !matches!(after, Some(Cursor::Over(_))) {
            let from = match after {
                Some(Cursor::Blocked(last)) => Excluded(last),
                _ => Unbounded,
            };
            let blocked = index.in_state(State::Blocked).range((from, Unbounded)).filter_map(wanted);
            let more = most - found.len();
            found.extend(blocked.map(|job| (job, Cursor::Blocked(job.id))).take(more));
        }
        if found.len() < most && self.over {
            let until = match after {
                Some(Cursor::Over(last)) => Excluded(last),
                _ => Unbounded,
            };
            let over = index.in_state(State::Done).range((Unbounded, until)).rev().filter_map(wanted);
            let more = most - found.len();
            found.extend(over.map(|job| (job, Cursor::Over(job.id))).take(more));
        }
        found
    }

    /// Jobs that wait in line, each where its first task is.
    fn in_line<'r>(
        &self,
        f: &'r Reader<'_>,
        after: Option<QueuePosition>,
        most: usize,
    ) -> Vec<(&'r Job, QueuePosition)> {
        let waits = |job: &Job| f.index().state(job.id) == Some(State::Ready) && (self.wanted)(job);
        let candidates = self.candidates(f);
        if candidates.len() <= FEW {
            let jobs = candidates.iter().filter_map(|id| f.cluster().job(*id)).filter(|job| waits(job));
            let jobs: Vec<_> = jobs.collect();
            let places = first_places(f, jobs.iter().copied());
            let mut placed: Vec<_> =
                jobs.into_iter().filter_map(|job| Some((job, *places.get(&job.id)?))).collect();
            placed.retain(|(_, place)| after.is_none_or(|after| place.is_behind(&after)));
            placed.sort_by_key(|(_, place)| (place.before.is_none(), place.before, place.task));
            placed.truncate(most);
            return placed;
        }
        let (view, mut after, mut found) = (f.cluster().view(), after, Vec::new());
        // Each look costs the whole line where places do not go by keys, so there are few of them.
        let mut stride = STRIDE;
        while found.len() < most {
            let places = f.policy().positions_after(view, after, stride, f.now());
            let Some(last) = places.last() else { break };
            (after, stride) = (Some(*last), stride * 2);
            let listed =
                places.into_iter().filter_map(|place| Some((f.cluster().job(place.task.job)?, place)));
            let listed: Vec<_> = listed.filter(|(job, _)| waits(job)).collect();
            let several = listed.iter().map(|(job, _)| *job).filter(|job| job.nodes.len() > 1);
            let first = first_places(f, several);
            let is_first = |job: &Job, place: &QueuePosition| {
                job.nodes.len() == 1 || first.get(&job.id).is_some_and(|p| p.task == place.task)
            };
            found.extend(listed.into_iter().filter(|(job, place)| is_first(job, place)));
        }
        found.truncate(most);
        found
    }
}

/// Whether a cursor is of lists in an order.
pub(crate) fn fits(cursor: &Cursor, order: JobOrder) -> bool {
    matches!(cursor, Cursor::Job(_)) == (order != JobOrder::Run)
}

/// Where the first tasks of jobs stand, of those that are in line.
fn first_places<'a>(f: &Reader<'_>, jobs: impl Iterator<Item = &'a Job>) -> BTreeMap<JobId, QueuePosition> {
    let view = f.cluster().view();
    let nodes = jobs.flat_map(|job| (0..job.nodes.len() as u32).map(|node| NodeId { job: job.id, node }));
    let ready: Vec<_> = nodes.filter(|node| view.has_ready(*node)).collect();
    let mut first: BTreeMap<JobId, QueuePosition> = BTreeMap::new();
    let order = |place: &QueuePosition| (place.before.is_none(), place.before, place.task);
    for (node, place) in f.policy().positions(view, &ready, f.now()) {
        let sooner = first.get(&node.job).is_none_or(|other| order(&place) < order(other));
        if sooner {
            first.insert(node.job, place);
        }
    }
    first
}

/// Places of jobs in line, counted from one; those that are not in line, or too far back to say, have none.
pub(crate) fn positions<'a>(f: &Reader<'_>, jobs: impl Iterator<Item = &'a Job>) -> BTreeMap<JobId, u64> {
    let places = first_places(f, jobs.filter(|job| views::may_be_in_line(job)));
    places.into_iter().filter_map(|(job, place)| Some((job, place.before? + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Server, server, task};
    use std::collections::HashMap;
    use warpyard_core::Command;
    use warpyard_core::command::TaskSelector;
    use warpyard_core::event::{EndReason, Usage};
    use warpyard_core::spec::{AfterJob, Array, DependencyCondition, JobSpec, TaskSpec};

    /// A server with jobs of every kind: one that ended, two that run, an array, some that are held, blocked and waiting.
    async fn busy() -> Server {
        let server = server();
        server.join(2).await;
        server.submit("ann", "over", vec![task("t", 1)]).await;
        server.end(&[(0, EndReason::Exited(0), Usage::default())]).await;
        for n in 0..30u64 {
            let array = (n % 7 == 3).then(|| Array { ranges: vec![(0, 9, 1)], at_once: None });
            let tasks = match n % 5 {
                4 => vec![task("a", 2), task("b", 1)],
                _ => vec![TaskSpec { array, ..task("t", 1 + (n % 2) as u16) }],
            };
            let after = (n % 11 == 10).then_some(AfterJob { job: JobId(3), on: DependencyCondition::Ok });
            let spec = JobSpec {
                name: format!("job-{}", n % 4),
                project: (n % 3 == 0).then(|| "paper".into()),
                priority: (n % 6) as i64,
                tasks,
                after: after.into_iter().collect(),
                ..JobSpec::default()
            };
            let user = ["ann", "bob", "carl"][n as usize % 3].to_owned();
            let submit = Command::Submit { user, env: None, spec: spec.into() };
            let job = server.engine.command(submit).await.expect("a job").job.expect("its number");
            if n % 8 == 5 {
                server.engine.command(Command::Hold(TaskSelector::Job(job))).await.expect("it is held");
            }
        }
        server
    }

    /// The numbers on all pages of a list.
    async fn all_pages(server: &Server, query: &str) -> Vec<u64> {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.json("GET", &format!("/v1/jobs?limit=3&{query}{cursor}"), None).await;
            let items = page["items"].as_array().expect("a list");
            found.extend(
                items.iter().map(|job| job["job"].as_str().expect("a number").parse::<u64>().expect("one")),
            );
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    }

    /// The same from every job there is, one by one.
    async fn expected(
        server: &Server,
        order: &str,
        keep: impl Fn(&Job) -> bool + Send + 'static,
    ) -> Vec<u64> {
        let order = order.to_owned();
        let look = move |f: &Reader<'_>| {
            let line = f.policy().queue_order(f.cluster().view(), usize::MAX, f.now());
            let mut places = HashMap::new();
            for (at, task) in line.iter().enumerate() {
                places.entry(task.job).or_insert(at);
            }
            let mut jobs: Vec<_> = f.cluster().jobs().iter().filter(|job| keep(job)).collect();
            let state = |job: &Job| views::standing(job).0;
            match order.as_str() {
                "id" => {}
                "newest" => jobs.reverse(),
                _ => jobs.sort_by_key(|job| match (state(job), places.get(&job.id)) {
                    (State::Done, _) => (3, u64::MAX - job.id.0),
                    (State::Ready, Some(place)) => (1, *place as u64),
                    (State::Ready | State::Blocked, _) => (2, job.id.0),
                    _ => (0, job.id.0),
                }),
            }
            jobs.into_iter().map(|job| job.id.0).collect()
        };
        server.engine.read(look).await.expect("a state")
    }

    #[tokio::test]
    async fn pages_by_index_are_the_list_of_all_filtered_and_sorted() {
        let server = busy().await;
        type Keep = fn(&Job) -> bool;
        let open: Keep = |job| job.finished.is_none();
        let filters: [(&str, Keep); 9] = [
            ("", open),
            ("all=true", |_| true),
            ("user=bob", |job| job.user == "bob" && job.finished.is_none()),
            ("user=ann&all=true", |job| job.user == "ann"),
            ("project=paper", |job| job.spec.project.as_deref() == Some("paper")),
            ("name=job-2", |job| job.spec.name == "job-2"),
            ("name=job-*&user=carl", |job| job.spec.name.starts_with("job-") && job.user == "carl"),
            ("state=ready", |job| views::standing(job).0 == State::Ready),
            ("state=held", |job| job.held),
        ];
        for order in ["id", "newest", "run"] {
            for (filter, keep) in filters {
                let found = all_pages(&server, &format!("order={order}&{filter}")).await;
                assert_eq!(found, expected(&server, order, keep).await, "{order} {filter}");
            }
        }
    }

    #[tokio::test]
    async fn what_comes_and_goes_between_pages_hides_no_job_and_shows_none_twice() {
        let server = busy().await;
        let before = all_pages(&server, "order=run").await;
        let page = server.json("GET", "/v1/jobs?limit=8&order=run", None).await;
        let number =
            |job: &serde_json::Value| job["job"].as_str().expect("a number").parse::<u64>().expect("one");
        let first: Vec<_> = page["items"].as_array().expect("a list").iter().map(number).collect();
        assert_eq!(first, before[..8]);
        // The job the cursor stands on goes, and so do one before and one behind it; an urgent one comes.
        let gone = [first[7], first[5], before[12]];
        for job in gone {
            server
                .engine
                .command(Command::Cancel(TaskSelector::Job(JobId(job))))
                .await
                .expect("it is cancelled");
        }
        let urgent =
            JobSpec { name: "urgent".into(), priority: 99, tasks: vec![task("t", 2)], ..JobSpec::default() };
        let submit = Command::Submit { user: "ann".into(), env: None, spec: urgent.into() };
        server.engine.command(submit).await.expect("a job");
        let mut rest = Vec::new();
        let mut cursor = page["next"].as_str().expect("more").to_owned();
        loop {
            let page = server.json("GET", &format!("/v1/jobs?limit=8&order=run&cursor={cursor}"), None).await;
            rest.extend(page["items"].as_array().expect("a list").iter().map(number));
            match page["next"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        let kept: Vec<_> = before[8..].iter().copied().filter(|job| !gone.contains(job)).collect();
        assert_eq!(rest, kept);
    }

    #[test]
    fn cursors_are_read_as_they_are_written() {
        let task = TaskId { job: JobId(7), node: 1, index: 2 };
        let place = |key, before| Cursor::InLine(QueuePosition { key, task, before });
        let key = warpyard_core::queue::Key::urgent(-3).then(2.5);
        let job = JobId(9);
        for cursor in [
            Cursor::Job(job),
            Cursor::OnWorkers(job),
            Cursor::Blocked(job),
            Cursor::Over(job),
            place(Some(key), Some(40)),
            place(None, Some(40)),
            place(None, None),
        ] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "line.1", "on.x", "line.1.2.3.4.5", "9.9"] {
            assert_eq!(text.parse::<Cursor>(), Err(NotACursor), "{text}");
        }
    }
}
