//! An explanation for a user whose job does not start.

use std::io::{self, IsTerminal};
use std::time::Duration;
use warpyard_api::client::Client;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::State;

/// Delay before the explanation.
const EXPLAIN_AFTER: Duration = Duration::from_secs(2);

/// Prints once why a job has not started, on another thread, if standard error is a terminal.
pub(crate) fn explain_silence(client: &Client, job: &str) {
    if !io::stderr().is_terminal() {
        return;
    }
    let (client, job) = (client.clone(), job.to_owned());
    std::thread::spawn(move || {
        std::thread::sleep(EXPLAIN_AFTER);
        // Nobody asked, so a failure here is nobody's concern.
        let Ok(view) = client.job(&job, false, None) else { return };
        if view.state <= State::Ready {
            let why = view.why.map(|why| format!(": {}", escape_controls(&why))).unwrap_or_default();
            eprintln!("job {job} waits{why}; `warpyard why {job}` says more");
        }
    });
}
