//! Idle GPUs that a task holds: shown to the task's user, then logged for admins, and in the end the task is ended if that is
//! configured.

use crate::engine::EngineHandle;
use crate::summary;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use warpyard_api::quantity::Micros;
use warpyard_api::text::escape_controls;
use warpyard_core::{AttemptId, Command, JobId, Span};
use warpyard_worker::agent::{Idle, Watched};

/// The interval of the check.
const EVERY: Duration = Duration::from_secs(1);

/// The idle time in words.
pub(crate) fn words(idle: Idle) -> String {
    let lasts = Micros(idle.lasts.as_secs() * 1_000_000);
    match idle.touched {
        true => format!("idle for {lasts}"),
        false => format!("never used, for {lasts}"),
    }
}

/// The idle time in words, by job.
pub(crate) fn of_jobs(watched: Option<&Arc<Mutex<Watched>>>) -> BTreeMap<JobId, String> {
    let idle = watched.map(idle_now).unwrap_or_default();
    idle.into_iter()
        .map(|(attempt, idle)| (attempt.task.job, format!("its GPU is {}", words(idle))))
        .collect()
}

fn idle_now(watched: &Arc<Mutex<Watched>>) -> BTreeMap<AttemptId, Idle> {
    watched.lock().expect("nobody panics while looking at devices").idle()
}

/// Logs attempts that were idle twice as long as `after`, and ends those that were as long as `release`.
pub(crate) async fn watch(
    engine: EngineHandle,
    watched: Arc<Mutex<Watched>>,
    after: Duration,
    release: Option<Duration>,
) {
    let (mut told, mut ended) = (BTreeSet::new(), BTreeSet::new());
    loop {
        tokio::time::sleep(EVERY).await;
        let idle = idle_now(&watched);
        told.retain(|attempt| idle.contains_key(attempt));
        ended.retain(|attempt| idle.contains_key(attempt));
        for (attempt, idle) in idle {
            let task = attempt.task;
            let tells = idle.lasts >= 2 * after && told.insert(attempt);
            let ends = release.is_some_and(|release| idle.lasts >= release) && ended.insert(attempt);
            if !tells && !ends {
                continue;
            }
            let whose = engine.read(move |f| {
                let user = f.cluster().job(task.job).map(|job| job.user.clone()).unwrap_or_default();
                format!("{} of {}", summary::task_name(f.cluster(), task), escape_controls(&user))
            });
            let Ok(whose) = whose.await else { return };
            if tells {
                tracing::warn!("{whose} holds a GPU that is {}", words(idle));
            }
            if ends {
                tracing::warn!("{whose} is ended: its GPU is {}", words(idle));
                engine.tell(Command::EndIdle(attempt, Span(idle.lasts.as_secs() * 1_000_000)));
            }
        }
    }
}
