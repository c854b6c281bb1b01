//! Expected starts for pages: forecast beside everything else and kept, because a page is drawn far faster than a
//! forecast is made and many pages ask for the same one.

use crate::clock::system_now;
use crate::expect::Outlook;
use crate::live::Live;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpyard_api::wire::StartRange;
use warpyard_core::TaskId;

/// How old a forecast may be before another is made.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// How many places in line are forecast.
const AHEAD: usize = 200;

/// When tasks are expected to start.
pub(crate) type Starts = Arc<BTreeMap<TaskId, StartRange>>;

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
            (Outlook::of(f, system_now()), line)
        });
        let starts = match copied.await {
            Ok((outlook, line)) => {
                tokio::task::spawn_blocking(move || outlook.starts(&line)).await.unwrap_or_default()
            }
            Err(_) => BTreeMap::new(),
        };
        let mut last = self.0.lock().expect("nobody panics here");
        *last = Last { starts: Arc::new(starts), made: Some(Instant::now()), being_made: false };
    }
}
