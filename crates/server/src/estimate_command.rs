//! The estimate command of the configuration, which replaces the clients' estimates of models: it reads the job's JSON on standard input and
//! writes estimates on standard output. Bounded in time, output and number; its failure is a warning and leaves the clients' estimates.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use warpyard_api::job::{EstimateDoc, JobDoc, read_estimate};
use warpyard_api::text::escape_controls;

/// The most bytes of standard output.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// The most bytes of standard error that are quoted.
const QUOTED: u64 = 500;
/// The most commands at once.
const AT_ONCE: usize = 4;
/// The time a command has, unless configured.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The configured command.
pub(crate) struct EstimateCommand {
    words: Vec<String>,
    timeout: Duration,
    running: Semaphore,
}

/// A failure of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EstimateCommandError {
    #[error("it could not be run: {0}")]
    Io(#[from] io::Error),
    #[error("it did not end within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("it failed ({status}): {stderr}")]
    Failed { status: std::process::ExitStatus, stderr: String },
    #[error("it wrote more than 1 MiB")]
    TooMuch,
    #[error("it did not write JSON with an object `tasks`: {0}")]
    NotJson(String),
    #[error("its estimate of task '{task}' is wrong: {problem}")]
    BadEstimate { task: String, problem: String },
}

impl EstimateCommand {
    pub(crate) fn new(words: Vec<String>, timeout: Duration) -> EstimateCommand {
        EstimateCommand { words, timeout, running: Semaphore::new(AT_ONCE) }
    }

    /// Estimates by task name; tasks that it does not name keep what they have.
    pub(crate) async fn estimate(
        &self,
        doc: &JobDoc,
    ) -> Result<BTreeMap<String, EstimateDoc>, EstimateCommandError> {
        let input = serde_json::to_vec(doc).map_err(io::Error::other)?;
        let run = async {
            let _permit = self.running.acquire().await.map_err(io::Error::other)?;
            self.run(&input).await
        };
        let output = match tokio::time::timeout(self.timeout, run).await {
            Ok(output) => output?,
            Err(_) => return Err(EstimateCommandError::Timeout(self.timeout)),
        };
        parse(&output)
    }

    async fn run(&self, input: &[u8]) -> Result<Vec<u8>, EstimateCommandError> {
        let (program, args) = self.words.split_first().ok_or_else(|| io::Error::other("it is empty"))?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let mut group = Group(child);
        let child = &mut group.0;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command may end without reading all of it.
                let _ = stdin.write_all(input).await;
            }
        };
        let (_, stdout, stderr) = tokio::join!(write, read(stdout, OUTPUT_LIMIT + 1), read(stderr, QUOTED));
        let (stdout, stderr) = (stdout?, stderr?);
        if stdout.len() as u64 > OUTPUT_LIMIT {
            return Err(EstimateCommandError::TooMuch);
        }
        let status = child.wait().await?;
        match status.success() {
            true => Ok(stdout),
            false => {
                let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
                Err(EstimateCommandError::Failed { status, stderr: escape_controls(&stderr).into_owned() })
            }
        }
    }
}

/// The processes of a command, which are killed when it is no longer waited for.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Without a process id it was waited for, and the id may be another's by now.
        if let Some(pid) = self.0.id() {
            let _ = killpg(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
    }
}

/// Reads up to `most` bytes; more are left, and the command fails to write them once this returns.
async fn read(from: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn parse(output: &[u8]) -> Result<BTreeMap<String, EstimateDoc>, EstimateCommandError> {
    #[derive(serde::Deserialize)]
    struct Estimates {
        tasks: BTreeMap<String, serde_json::Value>,
    }
    let found: Estimates =
        serde_json::from_slice(output).map_err(|error| EstimateCommandError::NotJson(error.to_string()))?;
    let estimate = |(task, value): (String, serde_json::Value)| match read_estimate(&value) {
        Ok(estimate) => Ok((task, estimate)),
        Err(problems) => {
            let problem = problems.first().map(|problem| format!("{}: {}", problem.path, problem.message));
            Err(EstimateCommandError::BadEstimate { task, problem: problem.unwrap_or_default() })
        }
    };
    found.tasks.into_iter().map(estimate).collect()
}
