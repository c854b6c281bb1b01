//! `replay`: my own history, simulated again under other policies.

use super::history::moment;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::show::compare::Sample;
use crate::show::replay::ReplayAnswer;
use crate::simulation::{Outputs, ProgressLine, RunResult, parse_policies, study};
use crate::workload::read_log;
use clap::Args;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;
use warpyard_core::{Event, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::Watcher;
use warpyard_sim::replay::{Progress, ReplayPolicy};

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Policies to replay the history under, such as sjf,wsjf
    #[arg(long, visible_alias = "policies", value_name = "A,B,..")]
    policy: Option<String>,
    /// Start of the period: 30d (ago), or 2026-11-15T20:00:00Z [default: the beginning of the log]
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// The event log, which a server may still be writing [default: log.db in the data directory]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Include the figures of each job (with --json)
    #[arg(long)]
    per_job: bool,
    #[command(flatten)]
    outputs: Outputs,
}

impl Replay {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let policies = self.policy.as_deref().map(parse_policies).transpose()?.unwrap_or_default();
        let since = self.since.as_deref().map(|text| moment(text, context.screen.now)).transpose()?;
        let since = since.map_or(Time(0), |since| Time(since.as_millis().max(0) as u64 * 1000));
        let log = match self.log {
            Some(log) => log,
            None => context.data_dir()?,
        };
        let recording = read_log(&log, since)?;
        let unders =
            std::iter::once(ReplayPolicy::AsRecorded).chain(policies.into_iter().map(ReplayPolicy::Fixed));
        let (per_job, kept) = (self.per_job || self.outputs.wanted(), self.outputs.wanted());
        let mut answer = ReplayAnswer::of(&recording, recording.recorded(self.per_job));
        let mut studied = Vec::new();
        let mut line = ProgressLine::of_stderr();
        for under in unders {
            let began = Instant::now();
            let progress = |progress: Progress| {
                line.update(|| show::replay::progress(&under, progress, began.elapsed().as_secs_f64()));
                ControlFlow::Continue(())
            };
            let timeline = kept.then(|| recording.timeline().shared());
            let watch = timeline.clone().map(|timeline| -> Watcher {
                Box::new(move |event: &Event| timeline.borrow_mut().enter(event))
            });
            let mut replayed = recording.replay(&under, POLICIES, per_job, watch, progress)?;
            if kept {
                let timeline = timeline.and_then(Rc::into_inner).map(RefCell::into_inner);
                studied.push((
                    replayed.report.policy.clone(),
                    vec![RunResult { report: replayed.report.clone(), timeline }],
                ));
            }
            replayed.report.per_job = replayed.report.per_job.filter(|_| self.per_job);
            answer.add(&under, replayed);
        }
        drop(line);
        if kept {
            let title = format!("{} jobs of this server, simulated again", recording.summary().jobs);
            self.outputs.write(&study(title, show::replay::about(&answer), studied, Sample::Single)?)?;
        }
        context.answer(&answer, show::replay::text)
    }
}
