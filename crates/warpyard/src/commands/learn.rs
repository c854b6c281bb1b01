//! `learn`: trains the network of the learned planner. Training needs a framework, so it is built in only where asked
//! for; the rest of the program does without.

use crate::context::Context;
use crate::exit::Exit;
use clap::Args;

/// Arguments of `learn`.
#[derive(Debug, Args)]
pub(crate) struct Learn {
    /// How many random workflows to train on
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    instances: u32,
    /// How many training steps to take
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    steps: u32,
    /// Stop after this long, finished or not; the same command continues
    #[arg(long, value_name = "N", default_value_t = 30.0)]
    minutes: f64,
    /// Random seed; the same seed, instances and steps give the same network
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// File of the network; training that stopped there before continues
    #[arg(long, value_name = "FILE.safetensors")]
    out: String,
}

#[cfg(not(feature = "learn"))]
impl Learn {
    #[expect(clippy::unused_self, reason = "as where training is built in")]
    pub(crate) fn run(self, _: &Context) -> anyhow::Result<Exit> {
        Err(crate::usage_error::UsageError::NoTraining.into())
    }
}

#[cfg(feature = "learn")]
mod training {
    use super::{Context, Exit, Learn};
    use crate::follow::INTERRUPTED;
    use crate::input::bad_file;
    use crate::show::took;
    use crate::simulation::ProgressLine;
    use crate::usage_error::UsageError;
    use nix::sys::signal::{SigSet, Signal};
    use serde::Serialize;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use warpyard_dag::learned::train::{
        Checkpoint, CheckpointError, Stage, TrainingConfig, TrainingProgress, train,
    };

    /// Interval of checkpoints.
    const KEEP: Duration = Duration::from_secs(10);

    /// Result of a training.
    #[derive(Serialize)]
    struct Learned {
        out: String,
        /// Workflows searched for what to imitate, of those there are.
        searched: usize,
        instances: usize,
        /// Steps of improvement done, of those asked for.
        steps: usize,
        of: usize,
        /// Of this run.
        seconds: f64,
        /// Mean makespan as a share of HEFT's over the last steps, on what was learned from.
        share_of_heft: Option<f64>,
    }

    impl Learn {
        pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
            let began = Instant::now();
            let interrupted = interrupted()?;
            let training = self.training();
            let begun = self.begun(&training)?;
            let limit = Duration::try_from_secs_f64(self.minutes * 60.0).unwrap_or(Duration::MAX);
            let mut keeper = Keeper { out: &self.out, kept: began, failed: None };
            // A file that cannot be written is told of before the work, not after it.
            keeper.keep(&begun.to_bytes(&training));
            if let Some(source) = keeper.failed {
                return Err(UsageError::UnwritableFile { file: self.out, source }.into());
            }
            let (mut line, mut share) = (ProgressLine::of_stderr(), None);
            let learned = train(
                &training,
                begun,
                || interrupted.load(Ordering::Relaxed) || began.elapsed() >= limit,
                |lesson, lessons| {
                    if let (Stage::Improve, Some(value)) = (lesson.stage, lesson.value) {
                        let before = share.unwrap_or(value);
                        share = Some(before + 0.02 * (value - before));
                    }
                    line.update(|| format_progress(lesson, share, began.elapsed()));
                    keeper.keep_now_and_then(|| lessons.to_bytes(&training));
                },
            )?;
            drop(line);
            let searched = match &learned {
                Checkpoint::Searched(leanings) => leanings.len(),
                Checkpoint::Improved(_) => training.instances,
            };
            let steps = learned.steps();
            keeper.keep(&match learned.network() {
                Some(network) if steps >= training.improve => network.to_safetensors(),
                _ => learned.to_bytes(&training),
            });
            if let Some(source) = keeper.failed {
                return Err(UsageError::UnwritableFile { file: self.out, source }.into());
            }
            let seconds = began.elapsed().as_secs_f64();
            let result = Learned {
                out: self.out,
                searched,
                instances: training.instances,
                steps,
                of: training.improve,
                seconds,
                share_of_heft: share,
            };
            let exit = context.answer(&result, |result, _| summary(result))?;
            Ok(if interrupted.load(Ordering::Relaxed) { Exit::Task(INTERRUPTED) } else { exit })
        }

        fn training(&self) -> TrainingConfig {
            let count = |n: u32| n as usize;
            TrainingConfig {
                seed: self.seed,
                instances: count(self.instances),
                search: 40,
                imitate: 3,
                improve: count(self.steps),
            }
        }

        /// The checkpoint of an earlier training, if there is one.
        fn begun(&self, training: &TrainingConfig) -> Result<Checkpoint, UsageError> {
            if !Path::new(&self.out).exists() {
                return Ok(Checkpoint::default());
            }
            let unreadable = |source| UsageError::UnreadableFile { file: self.out.clone(), source };
            let bytes = std::fs::read(&self.out).map_err(unreadable)?;
            match Checkpoint::from_bytes(&bytes, training) {
                Ok(lessons) => Ok(lessons),
                Err(CheckpointError::Finished) => Err(UsageError::AlreadyLearned(self.out.clone())),
                Err(other) => Err(bad_file(&self.out, other)),
            }
        }
    }

    /// Whether Ctrl-C was pressed: what was learned is then kept. The second leaves at once. Made before any other
    /// thread, since the signal is kept from those that come after.
    fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
        let signals = SigSet::from(Signal::SIGINT);
        signals.thread_block()?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&interrupted);
        std::thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
            while signals.wait().is_ok() {
                if heard.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
            }
        })?;
        Ok(interrupted)
    }

    /// Keeps the file up to date; a file half written is never seen.
    struct Keeper<'a> {
        out: &'a str,
        kept: Instant,
        failed: Option<std::io::Error>,
    }

    impl Keeper<'_> {
        fn keep_now_and_then(&mut self, bytes: impl FnOnce() -> Vec<u8>) {
            if self.kept.elapsed() >= KEEP {
                self.keep(&bytes());
            }
        }

        fn keep(&mut self, bytes: &[u8]) {
            let beside = format!("{}.new", self.out);
            let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, self.out));
            self.failed = written.err();
            self.kept = Instant::now();
        }
    }

    fn format_progress(lesson: TrainingProgress, share: Option<f64>, elapsed: Duration) -> String {
        let TrainingProgress { stage, step, of, .. } = lesson;
        let what = match stage {
            Stage::Search => "searching what to imitate".to_owned(),
            Stage::Imitate => "imitating".to_owned(),
            Stage::Improve => format!("improving: {:.4} of heft", share.unwrap_or(1.0)),
        };
        format!("{what}, {step} of {of}, {}", took(elapsed.as_secs_f64()))
    }

    fn summary(result: &Learned) -> String {
        let Learned { out, searched, instances, steps, of, seconds, share_of_heft } = result;
        let time = took(*seconds);
        if searched < instances {
            return format!(
                "stopped after {searched} of {instances} searches, {time}; the same command goes on from {out}\n"
            );
        }
        if steps < of {
            return format!(
                "stopped after {steps} of {of} steps, {time}; the same command goes on from {out}\n"
            );
        }
        let share = share_of_heft.map_or(String::new(), |share| format!(", {share:.4} of heft's makespan"));
        format!("learned in {time}{share}; use it with: warpyard plan --algorithm learned --model {out}\n")
    }
}
