//! Submissions sent twice: the same key with the same content is the same job. Keys are remembered for as long as the
//! server runs, the oldest forgotten first.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use warpyard_core::JobId;

/// How many keys are remembered.
const REMEMBERED: usize = 10_000;

/// The keys seen lately.
#[derive(Default)]
pub(crate) struct Keys {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    jobs: HashMap<String, (Vec<u8>, JobId)>,
    order: VecDeque<String>,
}

/// What a key says about a submission.
pub(crate) enum Known {
    /// Nothing: it is new.
    New,
    /// It made this job already.
    Same(JobId),
    /// It was used for something else.
    Other,
}

impl Keys {
    pub(crate) fn look(&self, key: &str, content: &[u8]) -> Known {
        match self.lock().jobs.get(key) {
            None => Known::New,
            Some((before, job)) if before == content => Known::Same(*job),
            Some(_) => Known::Other,
        }
    }

    pub(crate) fn remember(&self, key: String, content: Vec<u8>, job: JobId) {
        let mut seen = self.lock();
        if seen.order.len() >= REMEMBERED
            && let Some(oldest) = seen.order.pop_front()
        {
            seen.jobs.remove(&oldest);
        }
        seen.order.push_back(key.clone());
        seen.jobs.insert(key, (content, job));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("nobody panics while looking at keys")
    }
}
