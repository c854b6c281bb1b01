//! Expected starts for pages: forecast beside everything else and kept, because a page is drawn far faster than a
//! forecast is made and many pages ask for the same one.

use crate::clock::system_now;
use crate::expect::{Outlook, Start};
use crate::live::Live;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpyard_core::{TaskId, Time};

/// How old a forecast may be before another is made.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// How many places in line are forecast.
const AHEAD: usize = 200;

/// When tasks are expected to start.
pub(crate) type Starts = Arc<Forecast>;

/// What was foreseen, and when.
#[derive(Default)]
pub(crate) struct Forecast {
    starts: BTreeMap<TaskId, Start>,
    at: Time,
}

impl Forecast {
    /// When a task is expected to start, if it was forecast.
    pub(crate) fn of(&self, task: TaskId) -> Option<&Start> {
        self.starts.get(&task)
    }

    /// Whether what has been in line since then was in line already.
    pub(crate) fn is_after(&self, since: Time) -> bool {
        self.at >= since
    }
}

/// The last forecast.
#[derive(Default)]
pub(crate) struct Outlooks(Mutex<Last>);

#[derive(Default)]
struct Last {
    starts: Starts,
    made: Option<Instant>,
    being_made: bool,
}

impl Outlooks {
    /// The last forecast there is; where it is not fresh, another is begun for whoever asks next.
    pub(crate) fn latest(self: &Arc<Self>, live: &Live) -> Starts {
        let mut last = self.0.lock().expect("nobody panics here");
        let fresh = last.made.is_some_and(|made| made.elapsed() < FRESH_FOR);
        if !fresh && !last.being_made {
            last.being_made = true;
            tokio::spawn(self.clone().make(live.clone()));
        }
        last.starts.clone()
    }

    async fn make(self: Arc<Self>, live: Live) {
        let copied = live.read(|f| {
            let mut seen = std::collections::BTreeSet::new();
            let mut line = f.policy().line(f.cluster().view(), AHEAD, system_now());
            line.retain(|task| seen.insert(task.node_id()));
            (Outlook::of(f, system_now()), line, system_now())
        });
        let forecast = match copied.await {
            Ok((outlook, line, at)) => {
                let look = move || Forecast { starts: outlook.starts(&line), at };
                tokio::task::spawn_blocking(look).await.unwrap_or_default()
            }
            Err(_) => Forecast::default(),
        };
        let mut last = self.0.lock().expect("nobody panics here");
        *last = Last { starts: Arc::new(forecast), made: Some(Instant::now()), being_made: false };
    }
}
