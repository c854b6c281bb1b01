//! ForecastCache for everyone: made in the background at a bounded rate, kept, and given out as they are. No request makes or
//! awaits one; what is not forecast yet is left out, and pages are told to look again once it is.

use crate::change_feed::ChangeFeed;
use crate::engine::{EngineHandle, EngineStopped};
use crate::forecast::{ExpectedStart, ForecastInput};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use warpyard_api::wire::Suggestion;
use warpyard_core::{JobId, TaskId, Time};

/// How old a forecast may be before another is made for whoever asks.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// How old a forecast may be before nobody is given it any more: nobody may have asked for hours.
const STALE_AFTER: Duration = Duration::from_secs(30);

/// How soon another is made when someone asked for a task that the last one left out.
const SOON: Duration = Duration::from_millis(100);

/// How much longer than making a forecast takes nothing is forecast after it: a fifth of one processor at most.
const PAUSE: u32 = 4;

/// How many places in line are forecast whoever asks.
const AHEAD: usize = 200;

/// How many tasks asked for by themselves are forecast beside those.
const ASKED_FOR: usize = 64;

/// How long a task is forecast after someone asked for it.
const REMEMBERED: Duration = Duration::from_secs(60);

/// When tasks are expected to start, as was foreseen at one moment.
#[derive(Default)]
pub(crate) struct Forecast {
    starts: BTreeMap<TaskId, ExpectedStart>,
    /// Of tasks that were asked for, what would start them at once.
    sooner: BTreeMap<TaskId, Option<Suggestion>>,
    at: Time,
}

impl Forecast {
    /// When a task is expected to start, if it was forecast.
    pub(crate) fn of(&self, task: TaskId) -> Option<&ExpectedStart> {
        self.starts.get(&task)
    }

    /// When the first task of a job is expected to start, of those that were forecast.
    pub(crate) fn of_job(&self, job: JobId) -> Option<&ExpectedStart> {
        let task = |node, index| TaskId { job, node, index };
        let starts = self.starts.range(task(0, 0)..=task(u32::MAX, u32::MAX)).map(|(_, start)| start);
        starts.min_by_key(|start| start.low().map_or((true, None), |low| (false, Some(low))))
    }

    /// What would start a task at once.
    pub(crate) fn sooner(&self, task: TaskId) -> Option<&Suggestion> {
        self.sooner.get(&task)?.as_ref()
    }

    /// Whether what has been in line since then was in line already.
    pub(crate) fn is_after(&self, since: Time) -> bool {
        self.at >= since
    }
}

/// The last forecast, and what the next is wanted for.
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
    /// Tasks asked for by themselves, and when last.
    asked_for: BTreeMap<TaskId, Instant>,
    /// Whether someone was given less than they asked for.
    missed: bool,
}

impl CacheState {
    /// Notes that a task was asked for; forgets those long not asked for, or too many.
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

    /// How long to wait before making another; nothing while the last one will do.
    fn due(&self) -> Option<Duration> {
        let Some(made) = self.made else { return Some(Duration::ZERO) };
        let age = made.elapsed();
        let wanted = if self.missed { SOON } else { FRESH_FOR };
        (self.missed || age >= FRESH_FOR).then(|| wanted.max(self.took * PAUSE).saturating_sub(age))
    }
}

impl ForecastCache {
    /// No forecast yet.
    pub(crate) fn new(engine: EngineHandle, notices: Arc<ChangeFeed>) -> ForecastCache {
        ForecastCache { engine, notices, last: Mutex::default() }
    }

    /// The last forecast there is; where it is old, another is begun for whoever asks next.
    pub(crate) fn latest(self: &Arc<Self>) -> Arc<Forecast> {
        self.begin_if_due(self.last())
    }

    /// The same, and the next will have this task and what would start it at once.
    pub(crate) fn latest_for(self: &Arc<Self>, task: TaskId) -> Arc<Forecast> {
        let mut last = self.last();
        last.ask_for(task);
        self.begin_if_due(last)
    }

    /// Notes that a page shows a task whose forecast is yet to come: it is told to look again once there is one.
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
            self.notices.look_again();
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
