//! `why`: what a job waits for.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::thread::sleep;
use std::time::Duration;
use warpyard_api::wire::State;

/// Number of and interval between polls for a forecast that is still being computed.
const ASKS: usize = 30;
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The job, or one of its tasks: 412, 412.train[3], last
    #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs), default_value = "last")]
    job: String,
}

impl Why {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        let mut why = client.why(&self.job)?;
        // Forecasts are made in the background: the first to ask for one is a little early.
        for _ in 0..ASKS {
            let awaited = why.expected_start.is_none() && why.expected_start_reason.is_none();
            if why.state != State::Ready || !awaited {
                break;
            }
            sleep(ASK_AGAIN);
            why = client.why(&self.job)?;
        }
        context.answer(&why, show::why::text)
    }
}
