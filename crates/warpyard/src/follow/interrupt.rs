//! Ctrl-C while a job is followed: the first cancels the job, the second leaves at once. In a session it is the session's,
//! and while the way there is lost it only leaves. Ctrl-\ (SIGQUIT) detaches from a job that has no terminal of its own:
//! the job goes on.

use super::INTERRUPTED;
use crate::session::restore;
use nix::sys::signal::{SigSet, Signal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use warpyard_api::client::Client;

/// A watch over Ctrl-C. Made before any other thread, since the signal is kept from those that come after.
#[derive(Clone)]
pub(crate) struct Interrupts {
    job: Arc<OnceLock<String>>,
    cancelled: Arc<AtomicBool>,
    only_leaves: Arc<AtomicBool>,
}

impl Interrupts {
    /// Watches over a job that is followed: Ctrl-C cancels it, Ctrl-\ detaches from it. Until a job is named, both leave
    /// at once.
    pub(crate) fn watch_or_detach(client: &Client) -> anyhow::Result<Self> {
        Self::start(client, [Signal::SIGINT, Signal::SIGQUIT].into_iter().collect())
    }

    /// Starts watching; until a job is named, Ctrl-C leaves at once.
    pub(crate) fn watch(client: &Client) -> anyhow::Result<Self> {
        Self::start(client, Signal::SIGINT.into())
    }

    fn start(client: &Client, signals: SigSet) -> anyhow::Result<Self> {
        signals.thread_block()?;
        let interrupts = Self { job: Arc::default(), cancelled: Arc::default(), only_leaves: Arc::default() };
        let (watch, client) = (interrupts.clone(), client.clone());
        std::thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
            while let Ok(signal) = signals.wait() {
                match signal {
                    Signal::SIGQUIT => watch.detach(),
                    _ => watch.interrupted(&client),
                }
            }
        })?;
        Ok(interrupts)
    }

    /// The job to cancel from now on.
    pub(crate) fn name(&self, job: &str) {
        // There is one job to a command; a second name would be a mistake, and the first one holds.
        let _first_holds = self.job.set(job.to_owned());
    }

    /// From now on Ctrl-C cancels nothing.
    pub(crate) fn only_leave(&self) {
        self.only_leaves.store(true, Ordering::Relaxed);
    }

    /// Whether the job was cancelled by Ctrl-C.
    pub(crate) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Leaves the job to itself.
    fn detach(&self) -> ! {
        if let Some(job) = self.job.get() {
            eprintln!("\ndetached; job {job} goes on: `warpyard logs -f {job}` follows it");
        }
        std::process::exit(0)
    }

    fn interrupted(&self, client: &Client) {
        let job = match self.job.get() {
            Some(job) if self.only_leaves.load(Ordering::Relaxed) => {
                restore();
                eprintln!("left; job {job} goes on: `warpyard attach {job}` comes back");
                std::process::exit(INTERRUPTED.into())
            }
            Some(job) if !self.cancelled.swap(true, Ordering::Relaxed) => job.clone(),
            Some(job) => {
                eprintln!("left while job {job} is being cancelled");
                std::process::exit(INTERRUPTED.into())
            }
            None => std::process::exit(INTERRUPTED.into()),
        };
        eprintln!("cancelling job {job}; Ctrl-C again leaves at once");
        let client = client.clone();
        // Beside the watch, so that the second Ctrl-C is heard however long the server takes.
        std::thread::spawn(move || {
            if let Err(error) = client.cancel(&job) {
                eprint!("{}", crate::exit::rendered(&error.into()));
            }
        });
    }
}
