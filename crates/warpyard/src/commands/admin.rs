//! `admin`: looking after the server's own state.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::counted;
use crate::simulation::ProgressLine;
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use warpyard_api::quantity::ByteSize;
use warpyard_server::backup::{self, Manifest, Restored};
use warpyard_server::recovery::{self, RecoveryReport};

/// Arguments of `admin`.
#[derive(Debug, Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Rebuild the search and history tables from the log
    Rebuild,
    /// Copy the server's state to a new directory, while it runs or not
    ///
    /// The copy contains the log, the history and the token, and is verified before it is reported complete. Keep it as
    /// safe as the data directory: the log contains the environments jobs were submitted with.
    Backup {
        /// The directory to create
        #[arg(value_name = "DIR")]
        to: PathBuf,
        /// Also copy the logs of tasks and the snapshots of working directories
        #[arg(long)]
        outputs: bool,
    },
    /// Restore a data directory from a backup, which is verified first
    ///
    /// The data directory (--data) must have no log. Jobs that had not ended when the backup was made are held, for they may
    /// have run since: `warpyard release JOB` starts them. Attempts that have been running since before the backup go on if
    /// their records are still there; attempts that started after it are ended when the server starts.
    Restore {
        /// The backup
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// Hold no jobs: nothing has run since the backup was made
        #[arg(long)]
        no_hold: bool,
    },
    /// Begin a new log where the old one was lost or is damaged (the server must be stopped)
    ///
    /// The old log.db, if any, is renamed. The new log has a new id, and job numbers go on above every number seen in the
    /// data directory. Jobs of the old log are lost, but those in the history stay there with their output; attempts of the
    /// old log that still run are ended when the server starts.
    NewLog,
    /// Go on with a log that is older than other files in its data directory (the server must be stopped)
    ///
    /// The log gets a new id, and job numbers go on above every number seen in the data directory. A history that is ahead
    /// of the log is renamed, and made again from the log. Jobs that have not ended are held, for they may have run since:
    /// `warpyard release JOB` starts them.
    AdoptLog,
}

impl Admin {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let data = || context.data_dir();
        let line = Mutex::new(ProgressLine::of_stderr());
        let progress = |what: &str, done: u64, whole: u64| {
            let mut line = line.lock().expect("nobody panics while telling");
            line.update(|| match whole {
                0 => format!("{what}: {}", ByteSize(done).rounded()),
                _ => format!("{what}: {} of about {}", ByteSize(done).rounded(), ByteSize(whole).rounded()),
            });
        };
        match self.command {
            AdminCommand::Rebuild => {
                let rebuilt = context.client()?.rebuild()?;
                context.answer(&rebuilt, |rebuilt, _| format!("rebuilt {}\n", counted(rebuilt.rows, "row")))
            }
            AdminCommand::Backup { to, outputs } => {
                let made = backup::backup(&data()?, &to, outputs, &progress)?;
                drop(line);
                context.answer(&made, |made, _| backed_up(made, &to))
            }
            AdminCommand::Restore { from, no_hold } => {
                let restored = backup::restore(&from, &data()?, !no_hold, &progress)?;
                drop(line);
                context.answer(&restored, |restored, _| format_restored(restored))
            }
            AdminCommand::NewLog => context.answer(&recovery::new_log(&data()?)?, |done, _| {
                format!("began a new log in {}\n{}", done.data.display(), continued(done))
            }),
            AdminCommand::AdoptLog => context.answer(&recovery::adopt_log(&data()?)?, |done, _| {
                format!("goes on with the log in {}\n{}", done.data.display(), continued(done))
            }),
        }
    }
}

fn backed_up(made: &Manifest, to: &std::path::Path) -> String {
    let mut out = format!("backed up {} to {}\n", made.data.display(), to.display());
    let mut line = |text: String| writeln!(out, "  {text}").expect("a string takes all");
    line(format!("{} up to event {}", counted(made.jobs, "job"), made.events));
    for file in &made.files {
        line(format!("{} ({})", file.name, ByteSize(file.bytes).rounded()));
    }
    match made.outputs {
        Some((files, bytes)) => {
            line(format!(
                "{} of output and snapshots ({})",
                counted(files, "file"),
                ByteSize(bytes).rounded()
            ));
        }
        None => line("no output of tasks and no snapshots; --outputs copies them too".to_owned()),
    }
    out
}

fn format_restored(restored: &Restored) -> String {
    let Restored { backup, continued: log, without_snapshot } = restored;
    let mut out = format!(
        "restored {} up to event {} to {}\n{}",
        counted(backup.jobs, "job"),
        backup.events,
        log.data.display(),
        continued(log)
    );
    if !without_snapshot.is_empty() {
        let jobs = numbers(without_snapshot);
        writeln!(
            out,
            "  the backup has no snapshot of {jobs}: their tasks fail unless `snapshots` is put back"
        )
        .expect("a string takes all");
    }
    out
}

fn continued(log: &RecoveryReport) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "  {text}").expect("a string takes all");
    line(format!("log {}, next job {}", log.log, log.next_job));
    for path in &log.set_aside {
        line(format!("kept as {}", path.display()));
    }
    if !log.held.is_empty() {
        let held = counted(log.held.len() as u64, "job");
        line(format!("{held} held, since they may have run meanwhile: {}", numbers(&log.held)));
        line("look at them with `warpyard ps`, and start them with `warpyard release JOB`".to_owned());
    }
    for path in &log.to_be_ended {
        line(format!("still runs, and is ended when the server starts: {}", path.display()));
    }
    out
}

/// The first few job numbers.
fn numbers(jobs: &[u64]) -> String {
    let shown: Vec<_> = jobs.iter().take(20).map(ToString::to_string).collect();
    let more = jobs.len() - shown.len();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}
