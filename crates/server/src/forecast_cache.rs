//! The cache of forecasts: made in the background at a bounded rate, shared by all requests. No request makes or awaits a
//! forecast; a start that is not forecast yet is left out of the answer, and pages are told to refresh once it is.

use crate::change_feed::ChangeFeed;
use crate::engine::{EngineHandle, EngineStopped};
use crate::forecast::{ExpectedStart, ForecastInput};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use warpyard_api::wire::Suggestion;
use warpyard_core::{JobId, TaskId, Time};

/// The age at which a request causes another forecast.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// The age at which a forecast is not returned any more: the last request may have been hours ago.
const STALE_AFTER: Duration = Duration::from_secs(30);

/// How soon another is made when a request asked for a task that the last one left out.
const SOON: Duration = Duration::from_millis(100);

/// The pause after a forecast, as a multiple of how long it took: forecasts take a fifth of one processor at most.
const PAUSE: u32 = 4;

/// How many tasks at the head of the queue every forecast has.
const AHEAD: usize = 200;

/// The most individually requested tasks that a forecast has beside those.
const ASKED_FOR: usize = 64;

/// How long a task is forecast after the last request for it.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Expected starts of tasks, forecast at one moment.
#[derive(Default)]
pub(crate) struct Forecast {
    starts: BTreeMap<TaskId, ExpectedStart>,
    /// Of individually requested tasks, a change that would start each at once.
    sooner: BTreeMap<TaskId, Option<Suggestion>>,
    at: Time,
}

impl Forecast {
    /// The expected start of a task, if it was forecast.
    pub(crate) fn of(&self, task: TaskId) -> Option<&ExpectedStart> {
        self.starts.get(&task)
    }

    /// The earliest expected start of a job's tasks, of those that were forecast.
    pub(crate) fn of_job(&self, job: JobId) -> Option<&ExpectedStart> {
        let task = |node, index| TaskId { job, node, index };
        let starts = self.starts.range(task(0, 0)..=task(u32::MAX, u32::MAX)).map(|(_, start)| start);
        starts.min_by_key(|start| start.low().map_or((true, None), |low| (false, Some(low))))
    }

    /// A change that would start a task at once.
    pub(crate) fn sooner(&self, task: TaskId) -> Option<&Suggestion> {
        self.sooner.get(&task)?.as_ref()
    }

    /// Whether a task that has been ready since then was ready when the forecast was made.
    pub(crate) fn is_after(&self, since: Time) -> bool {
        self.at >= since
    }
}

/// The last forecast, and the tasks that the next is to have.
pub(crate) struct ForecastCache {
    engine: EngineHandle,
    notices: Arc<ChangeFeed>,
    last: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    forecast: Arc<Forecast>,
    made: Option<Instant>,
    /// How long that took.
    took: Duration,
    being_made: bool,
    /// Individually requested tasks, and when each was requested last.
    asked_for: BTreeMap<TaskId, Instant>,
    /// Whether an answer lacked a forecast that its request asked for.
    missed: bool,
}

impl CacheState {
    /// Notes a request for a task; forgets the oldest where there are too many.
    fn ask_for(&mut self, task: TaskId) {
        let now = Instant::now();
        self.asked_for.retain(|_, at| now.duration_since(*at) < REMEMBERED);
        self.asked_for.insert(task, now);
        if self.asked_for.len() > ASKED_FOR
            && let Some((&oldest, _)) = self.asked_for.iter().min_by_key(|(_, at)| **at)
        {
            self.asked_for.remove(&oldest);
        }
        self.missed |= !self.forecast.sooner.contains_key(&task);
    }

    /// How long to wait before making another; none while the last one is fresh enough.
    fn due(&self) -> Option<Duration> {
        let Some(made) = self.made else { return Some(Duration::ZERO) };
        let age = made.elapsed();
        let wanted = if self.missed { SOON } else { FRESH_FOR };
        (self.missed || age >= FRESH_FOR).then(|| wanted.max(self.took * PAUSE).saturating_sub(age))
    }
}

impl ForecastCache {
    /// An empty cache.
    pub(crate) fn new(engine: EngineHandle, notices: Arc<ChangeFeed>) -> ForecastCache {
        ForecastCache { engine, notices, last: Mutex::default() }
    }

    /// The last forecast; where it is old, another is begun for later requests.
    pub(crate) fn latest(self: &Arc<Self>) -> Arc<Forecast> {
        self.begin_if_due(self.last())
    }

    /// The last forecast; the next will have this task and a change that would start it at once.
    pub(crate) fn latest_for(self: &Arc<Self>, task: TaskId) -> Arc<Forecast> {
        let mut last = self.last();
        last.ask_for(task);
        self.begin_if_due(last)
    }

    /// Notes that a page shows a task whose forecast is yet to come: the page is told to refresh once there is one.
    pub(crate) fn await_next(self: &Arc<Self>) {
        let mut last = self.last();
        last.missed = true;
        self.begin_if_due(last);
    }

    fn last(&self) -> MutexGuard<'_, CacheState> {
        self.last.lock().expect("nobody panics here")
    }

    fn begin_if_due(self: &Arc<Self>, mut last: MutexGuard<'_, CacheState>) -> Arc<Forecast> {
        let oldest = STALE_AFTER.max(last.took * (2 * PAUSE));
        if last.made.is_some_and(|made| made.elapsed() > oldest) {
            (last.forecast, last.missed) = (Arc::default(), true);
        }
        if let Some(wait) = last.due().filter(|_| !last.being_made) {
            last.being_made = true;
            let this = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                this.make().await;
            });
        }
        last.forecast.clone()
    }

    async fn make(self: Arc<Self>) {
        let (asked_for, missed) = {
            let mut last = self.last();
            (last.asked_for.keys().copied().collect::<Vec<_>>(), std::mem::take(&mut last.missed))
        };
        // A task of its own, so that a panic in it ends this forecast and not all that would come after.
        let this = self.clone();
        let made =
            tokio::spawn(async move { this.forecast(asked_for).await }).await.unwrap_or(Err(EngineStopped));
        let mut last = self.last();
        (last.made, last.being_made) = (Some(Instant::now()), false);
        match made {
            Ok((forecast, took)) => (last.forecast, last.took) = (Arc::new(forecast), took),
            // What failed may fail again; it is not tried again and again.
            Err(EngineStopped) => last.took = last.took.max(FRESH_FOR),
        }
        let missed = missed || last.missed;
        drop(last);
        if missed {
            self.notices.refresh();
        }
    }

    async fn forecast(&self, asked_for: Vec<TaskId>) -> Result<(Forecast, Duration), EngineStopped> {
        let jobs: Vec<_> = asked_for.iter().map(|task| task.job).collect();
        let excerpt = move |f: &crate::replica::Reader<'_>| {
            let now = f.now();
            let mut seen = BTreeSet::new();
            let mut line = f.policy().queue_order(f.cluster().view(), AHEAD, now);
            line.retain(|task| seen.insert(task.node_id()));
            (ForecastInput::of(f, jobs, now), line)
        };
        let (mut outlook, mut tasks) = self.engine.read(excerpt).await?;
        let remember = move |history: &dyn crate::store::HistoryStore| {
            outlook.remember(history);
            outlook
        };
        let outlook = self.engine.read_history(remember).await?;
        let look = move || {
            let began = Instant::now();
            tasks.extend(&asked_for);
            let starts = outlook.starts(&tasks);
            let sooner = asked_for.into_iter().map(|task| (task, outlook.sooner(task))).collect();
            (Forecast { starts, sooner, at: outlook.at() }, began.elapsed())
        };
        tokio::task::spawn_blocking(look).await.map_err(|_| EngineStopped)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{server, task};
    use warpyard_core::Span;
    use warpyard_core::spec::TaskSpec;

    /// Addresses that show when jobs are expected to start.
    const WITH_FORECASTS: [&str; 3] = ["/v1/jobs", "/v1/jobs/2", "/v1/jobs/2/why"];

    #[tokio::test]
    async fn a_request_is_answered_though_a_forecast_never_comes_and_has_it_once_there_is_one() {
        let server = server();
        server.join(1).await;
        for name in ["runs", "waits"] {
            let limited = TaskSpec { timeout: Some(Span::from_secs(60.0)), ..task("t", 1) };
            server.submit("ann", name, vec![limited]).await;
        }
        // As if the forecast that was begun took for ever: a request that waited for it would as well.
        let forecasts = &server.app.forecasts;
        forecasts.last().being_made = true;
        for path in WITH_FORECASTS {
            let answer = server.json("GET", path, None).await.to_string();
            assert!(!answer.contains("\"expected_start\":{"), "{path}: {answer}");
        }
        for page in ["/", "/queue", "/jobs/2"] {
            server.page(page).await;
        }
        let mut changes = server.app.notices.listen();
        forecasts.last().being_made = false;
        forecasts.await_next();
        changes.changed().await;
        for path in WITH_FORECASTS {
            let answer = server.json("GET", path, None).await.to_string();
            assert!(answer.contains("\"expected_start\":{"), "{path}: {answer}");
        }
    }
}
