//! `cancel`, `hold`, `release`, `pause`: commands that do one thing to whatever is selected.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show::counted;
use crate::usage_error::UsageError;
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::io::{self, BufRead, IsTerminal, Write};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::selector::{Selector, SelectorPart};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::ActionResult;

/// Jobs and tasks, one or more.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selected {
    /// Jobs or tasks: 412, 412.train[3], 412.train.3, 412[3-5], last.train[4], 3-7, last, all
    #[arg(required = true, value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
    jobs: Vec<String>,
}

impl Selected {
    /// The selectors joined into one.
    pub(crate) fn text(&self) -> String {
        self.jobs.join(",")
    }

    fn is_everything(&self) -> bool {
        let parsed = self.text().parse::<Selector>();
        parsed.is_ok_and(|selector| selector.parts().contains(&SelectorPart::All))
    }
}

/// Asks, and says what came of it. `verb` is what is done, `done` what was.
pub(crate) fn act(
    context: &Context,
    (verb, done): (&str, &str),
    ask: impl FnOnce(&Client) -> Result<ActionResult, ClientError>,
) -> anyhow::Result<Exit> {
    let acted = ask(&context.client()?)?;
    context.answer(&acted, |acted, _| format_result(acted, verb, done))
}

/// Actions on jobs as a whole, whether or not any of their tasks waits.
const OF_JOBS: [&str; 3] = ["hold", "release", "change"];

fn format_result(acted: &ActionResult, verb: &str, done: &str) -> String {
    let jobs = match acted.jobs.as_slice() {
        [] => return format!("no job to {verb}\n"),
        [one] => format!("job {}", escape_controls(one)),
        several => counted(several.len() as u64, "job"),
    };
    match acted.tasks {
        // A change to the job itself, which holds for tasks that are yet to wait.
        0 if OF_JOBS.contains(&verb) => format!("{done} {jobs}; none of its tasks waits now\n"),
        0 => format!("nothing of {jobs} to {verb}\n"),
        tasks => format!("{done} {} of {jobs}\n", counted(tasks, "task")),
    }
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    selected: Selected,
    /// Kill at once, without a grace period; also tasks that are already being cancelled
    #[arg(long)]
    now: bool,
    /// Cancel all without asking; required where there is no terminal to ask at
    #[arg(long, short)]
    yes: bool,
}

impl Cancel {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.selected.is_everything() && !self.yes {
            if !io::stdin().is_terminal() {
                return Err(UsageError::NeedsYes.into());
            }
            if !agreed()? {
                return Err(UsageError::Declined.into());
            }
        }
        let selected = self.selected.text();
        match self.now {
            true => act(context, ("kill", "killed"), |client| client.cancel_now(&selected)),
            false => act(context, ("cancel", "cancelled"), |client| client.cancel(&selected)),
        }
    }
}

fn agreed() -> io::Result<bool> {
    eprint!("cancel all your jobs? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

macro_rules! plain {
    ($($name:ident $method:ident $verb:literal $done:literal)*) => {$(
        #[doc = concat!("Arguments of `", stringify!($method), "`.")]
        #[derive(Debug, Args)]
        pub(crate) struct $name {
            #[command(flatten)]
            selected: Selected,
        }

        impl $name {
            pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
                act(context, ($verb, $done), |client| client.$method(&self.selected.text()))
            }
        }
    )*};
}

plain! {
    Hold hold "hold" "held"
    Release release "release" "released"
    Pause pause "pause" "paused"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_said_in_a_line() {
        let said = |jobs: &[&str], tasks| {
            let jobs = jobs.iter().map(ToString::to_string).collect();
            format_result(&ActionResult { jobs, tasks }, "cancel", "cancelled")
        };
        assert_eq!(said(&["412"], 1), "cancelled 1 task of job 412\n");
        assert_eq!(said(&["3", "4"], 7), "cancelled 7 tasks of 2 jobs\n");
        assert_eq!(said(&["412"], 0), "nothing of job 412 to cancel\n");
        assert_eq!(said(&[], 0), "no job to cancel\n");
        let running = ActionResult { jobs: vec!["412".into()], tasks: 0 };
        let priority = super::format_result(&running, "change", "set priority 5 for");
        assert_eq!(priority, "set priority 5 for job 412; none of its tasks waits now\n");
    }

    #[test]
    fn everything_is_noticed_among_others() {
        let everything =
            |jobs: &[&str]| Selected { jobs: jobs.iter().map(ToString::to_string).collect() }.is_everything();
        assert!(everything(&["all"]));
        assert!(everything(&["3", "5,all"]));
        assert!(!everything(&["412.all", "last"]));
    }
}
