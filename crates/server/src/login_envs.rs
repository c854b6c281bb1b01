//! Login environments of users, kept for a moment: a page that is loaded again does not run anyone's shell again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use warpyard_worker::accounts::Account;
use warpyard_worker::login_env::LoginEnvironment;
use warpyard_worker::supervise::CgroupLimit;

/// How long an environment is good for.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// How long a login shell may take.
const WITHIN: Duration = Duration::from_secs(5);

/// How many users' environments are kept; when there are more, all are let go.
const KEPT: usize = 1_000;

/// The last environment of each user.
#[derive(Default)]
pub(crate) struct LoginEnvironments(Mutex<HashMap<u32, Arc<Slot>>>);

/// One user's. Held while it is captured, so that who asks meanwhile waits for the same.
#[derive(Default)]
struct Slot {
    last: tokio::sync::Mutex<Option<(Instant, Arc<LoginEnvironment>)>>,
    /// Whether a thread still waits for the user's shell, which may hang in the kernel.
    busy: Arc<AtomicBool>,
}

impl LoginEnvironments {
    /// The login environment of a user, whose shell is kept within limits.
    pub(crate) async fn of(&self, person: &Account, limits: Vec<CgroupLimit>) -> Arc<LoginEnvironment> {
        let slot = self.slot(person.uid);
        let mut last = slot.last.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return known.clone();
        }
        let found = Arc::new(capture(person, &slot.busy, limits).await);
        *last = Some((Instant::now(), found.clone()));
        found
    }

    fn slot(&self, uid: u32) -> Arc<Slot> {
        let mut slots = self.0.lock().expect("nobody panics here");
        if slots.len() >= KEPT {
            slots.clear();
        }
        slots.entry(uid).or_default().clone()
    }
}

/// Runs the shell on a thread of its own, one for each user at a time, and goes on without it if it hangs.
async fn capture(person: &Account, busy: &Arc<AtomicBool>, limits: Vec<CgroupLimit>) -> LoginEnvironment {
    let late =
        || LoginEnvironment::minimal(person, format!("the login shell {} hangs", person.shell.display()));
    if busy.swap(true, Ordering::AcqRel) {
        return late();
    }
    let (tell, told) = oneshot::channel();
    let (whose, again, busy) = (person.clone(), busy.clone(), busy.clone());
    let run = move || {
        let found = LoginEnvironment::capture(&whose, WITHIN, &limits);
        busy.store(false, Ordering::Release);
        let _gave_up = tell.send(found);
    };
    if let Err(e) = std::thread::Builder::new().name("login-env".into()).spawn(run) {
        again.store(false, Ordering::Release);
        return LoginEnvironment::minimal(person, format!("no thread to run the login shell: {e}"));
    }
    match tokio::time::timeout(WITHIN + Duration::from_secs(2), told).await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) | Err(_) => late(),
    }
}
