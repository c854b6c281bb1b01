//! Errors of the command line that are found without a server.

use std::io;
use warpyard_api::problem::Problem;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::PolicySpecError;
use warpyard_sim::workload::ClusterSpecError;

/// A mistake in how a command was called. Each message says what to do instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    /// No home to install in.
    #[error("HOME is not set to a directory, so there is nowhere to install for you")]
    NoHome,
    /// A server without a CA.
    #[error("the server has no CA of its own: it speaks plain HTTP, or has a certificate from files")]
    NoCa,
    /// A secret without an address.
    #[error(
        "a secret alone does not say whose it is; paste the whole token, or name the server with --server"
    )]
    WhichServer,
    /// A login on a machine that does not know the person.
    #[error(
        "no server on this machine knows you, so that none can make a token for {0}; run `warpyard token create` on its \
         machine, then `warpyard login --token -` here"
    )]
    NobodyKnowsYou(String),
    /// Nothing to uninstall.
    #[error("nothing is installed here, or it was not installed by `warpyard install`")]
    NotInstalled,
    /// A claim without a process.
    #[error("a claim needs a process; write a command after --, or use --export in a shell")]
    NothingToClaimFor,
    /// A claim that was released before it was granted.
    #[error("claim {0} was released before it was granted")]
    ClaimEnded(String),
    /// A session without a terminal.
    #[error(
        "standard input is not a terminal, and a session needs one; leave --pty out, or `submit --pty` and `attach` from a \
         terminal"
    )]
    NotAtATerminal,
    /// `progress` outside a task.
    #[error("{0} is not set: `progress` reports for the task it is called from; call it inside one")]
    NotInATask(String),
    /// Neither a file nor a command.
    #[error("nothing to submit; name a job file, or write a command after --")]
    NothingToSubmit,
    /// An example of the interface.
    #[error("an interface description has no example file; `warpyard schema openapi` prints the description")]
    NoExample,
    /// A file and a command.
    #[error("both a job file ('{0}') and a command; submit one of them")]
    FileAndCommand(String),
    /// A job file that is not there.
    #[error("no job file '{0}'; `warpyard schema job --example` prints one to start from")]
    NoSuchDocument(String),
    /// A job file that is not there, and may have been meant as a command.
    #[error("no job file '{file}'; to run it as a command: warpyard {verb} -- {command}")]
    NoSuchFile {
        /// What was named.
        file: String,
        /// The command it was named to.
        verb: &'static str,
        /// What would run it.
        command: String,
    },
    /// A program where a job file should be.
    #[error("'{file}' is a script, not a job file; to run it: warpyard {verb} -- {command}")]
    ScriptAsFile {
        /// What was named.
        file: String,
        /// The command it was named to.
        verb: &'static str,
        /// What would run it.
        command: String,
    },
    /// A job file that cannot be read.
    #[error("cannot read {file}")]
    UnreadableFile {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {file}")]
    UnwritableFile {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file that does not hold what it should.
    #[error("{file}: {}", quoted(source.as_ref() as &(dyn std::error::Error + 'static)))]
    BadFile {
        /// The file.
        file: String,
        /// What is wrong with it, and where.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A name that nothing here has.
    #[error("no {what} is called '{name}'{near} (there are {known})")]
    NoSuchName {
        /// What it would be.
        what: &'static str,
        /// The name.
        name: String,
        /// What may have been meant.
        near: String,
        /// Everything there is.
        known: String,
    },
    /// The files of a trace are not there.
    #[error(
        "cannot read {file}; get the files from https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2023) and name \
         their directory with --data DIR"
    )]
    NoTraceData {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// Published data that is not there.
    #[error(
        "cannot read {file}; it is part of Gavel's published data (https://github.com/stanford-futuredata/gavel): name with \
         --gavel DIR the directory of simulation_throughputs.json and traces/gen150_single.trace"
    )]
    NoGavelData {
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A table that is not drawn.
    #[error("--plot: name the table to draw: {has}")]
    NoPicture {
        /// Those that are.
        has: String,
    },
    /// A line that describes no cluster.
    #[error("--cluster: {0}; write a line such as 12xV100:16GiB,2xK80/8, or name a .toml file")]
    BadCluster(ClusterSpecError),
    /// Trace and report would both be written to standard output.
    #[error("--json prints the report where the trace would go; name a file for the trace with --out")]
    TwiceOnOutput,
    /// A contention out of range.
    #[error(
        "--contention: {0} is out of range; 0 means that tasks do not slow each other down, 1 that two take twice as long"
    )]
    BadContention(f64),
    /// A trace with rows that cannot be read.
    #[error("{file}: {rows}")]
    BadTrace {
        /// The file.
        file: String,
        /// The rows, by line.
        rows: String,
    },
    /// A job that makes no progress on any GPU type of the cluster.
    #[error("--throughputs: {profile} on {gpus} GPU{} has no throughput on any GPU type of the cluster ({kinds})", if *.gpus == 1 { "" } else { "s" })]
    NoSpeed {
        /// Its profile.
        profile: String,
        /// How many it wants.
        gpus: u16,
        /// The types there are.
        kinds: String,
    },
    /// A job that no server here could ever run.
    #[error("{place}: the job can never run here: {why}; --count-rejected simulates the others")]
    NeverFits {
        /// Where the job comes from.
        place: String,
        /// What it asks too much of.
        why: String,
    },
    /// A rejection by the scheduler.
    #[error("{0}")]
    Refused(String),
    /// An option of what is generated that cannot be read.
    #[error("{option}: '{text}' is not valid; write {such}")]
    BadShape {
        /// Which option.
        option: &'static str,
        /// What was written.
        text: String,
        /// What could be.
        such: &'static str,
    },
    /// A file that holds no run times.
    #[error("--lengths: {0} contains no run times: write one per line, in seconds, or name a trace")]
    NotLengths(String),
    /// A file of unknown format.
    #[error("{file}: unknown format; name it with --format (one of {known})")]
    UnknownFormat {
        /// The file.
        file: String,
        /// All formats.
        known: String,
    },
    /// A trace of steps without throughputs.
    #[error("line 1: Gavel's traces count steps; give steps per second with --throughputs FILE")]
    NoThroughputs,
    /// A sharing policy without throughputs of pairs.
    #[error(
        "--policy {0}: the throughputs of two jobs that share a GPU are unknown; give them with --throughputs FILE, in entries such as \
         {{\"v100\": {{\"('a', 1)\": {{\"('b', 1)\": [3.1, 2.4]}}}}}}"
    )]
    NoPairs(String),
    /// There is no log.
    #[error(
        "there is no log {0}; name one with --log, or its directory with --data (the history of a shared server is replayed on its What if page: warpyard login)"
    )]
    NoLog(String),
    /// A file that is no log.
    #[error("{0} is not a server's log; name its data directory, or log.db in it")]
    NotALog(String),
    /// An empty workload.
    #[error("{0}: there is no job to simulate")]
    NoJobs(String),
    /// More jobs than fit into memory.
    #[error("{option}: {asked} tasks are more than can be simulated ({most})")]
    TooManyJobs {
        /// What asks for them.
        option: String,
        /// How many tasks that makes.
        asked: u64,
        /// How many there may be.
        most: u64,
    },
    /// A recording without jobs.
    #[error("{0}: no job was submitted in that time; --since goes further back")]
    NothingRecorded(String),
    /// A speed that is not positive.
    #[error("--speed: {0} is not a number above 0")]
    BadSpeed(f64),
    /// An empty plot.
    #[error("the plot {0} has nothing in it")]
    EmptyPlot(String),
    /// A cycle of dependencies.
    #[error("the tasks depend on each other in a cycle")]
    Circle,
    /// An option of generated workloads without `--generate`.
    #[error("{0} needs --generate")]
    OnlyGenerated(&'static str),
    /// Training, in a program built without it.
    #[cfg(not(feature = "learn"))]
    #[error(
        "this warpyard was built without training; build one with it: \
         cargo install --path crates/warpyard --features learn"
    )]
    NoTraining,
    /// A network that is finished.
    #[cfg(feature = "learn")]
    #[error("{0} holds a finished network; name another file, or remove it to begin anew")]
    AlreadyLearned(String),
    /// A trained network for a planner that uses none.
    #[error("--model is for --algorithm learned, not for {0}")]
    NoModel(&'static str),
    /// A workflow that says nothing of machines.
    #[error("{0} names no machines; give them with --machines FILE, or --machines 4 for four alike")]
    NoMachines(String),
    /// Options of a task beside a file that has its tasks.
    #[error("{0} cannot be combined with a job file; set it in the file, in the task it is for")]
    TaskOptionsWithFile(String),
    /// A document that is refused.
    #[error("{text}")]
    Document {
        /// Its problems as a person reads them.
        text: String,
        /// Its problems.
        problems: Vec<Problem>,
    },
    /// A dependency that cannot be read.
    #[error("--after: '{0}' is not a dependency; write 412, 412,413 or 412:fail (ok, fail or any)")]
    BadAfter(String),
    /// A dependency on nothing.
    #[error("--after: '{0}' selects no job")]
    AfterNothing(String),
    /// An environment variable that cannot be read.
    #[error("--env: '{0}' is not a variable; write NAME=value, or NAME to pass it on from here")]
    BadEnv(String),
    /// An environment variable that is not set here.
    #[error("--env: {0} is not set here; write {0}=value")]
    UnsetEnv(String),
    /// A directory that is not there.
    #[error("--workdir: there is no directory {0}")]
    NoWorkdir(String),
    /// The current directory is gone or cannot be named.
    #[error("the current directory cannot be determined; name one with --workdir")]
    NoCurrentDir(#[source] io::Error),
    /// A worker is not named and there are several.
    #[error("there are several workers; name one of {0}")]
    WhichWorker(String),
    /// An attempt that no task of a job has had.
    #[error(
        "no task of job {job} has had an attempt {attempt}; `warpyard show {job} --expand` lists its attempts"
    )]
    NoSuchAttempt {
        /// The job.
        job: String,
        /// Which try.
        attempt: u32,
    },
    /// A GPU that no worker has.
    #[error("there is no GPU {asked}; there are {}", if known.is_empty() { "none" } else { known })]
    NoSuchGpu {
        /// What was named.
        asked: String,
        /// All there are.
        known: String,
    },
    /// There is no worker.
    #[error("there is no worker")]
    NoWorker,
    /// A policy that does not exist.
    #[error("no policy is called '{0}'; `warpyard policies` lists them")]
    NoSuchPolicy(String),
    /// A policy that cannot be read.
    #[error(transparent)]
    BadPolicy(PolicySpecError),
    /// A parameter that means nothing to a single allocation.
    #[error(
        "'{0}' is a parameter of a running policy; an allocation takes types, sharing and placement, the rest is in its file"
    )]
    NotOfOneAllocation(String),
    /// A moment that cannot be read.
    #[error("--since: '{0}' is not a time; write how long ago, such as 2h, or 2026-11-15T20:00:00Z")]
    BadSince(String),
    /// There is nobody to ask whether everything is to be cancelled.
    #[error("cancelling all jobs needs --yes where there is no terminal to ask at; nothing was cancelled")]
    NeedsYes,
    /// The user declined.
    #[error("nothing was cancelled")]
    Declined,
}

/// An error's text with control characters of quoted input escaped: one line, unless it is an excerpt of a file.
pub(crate) fn quoted(source: &(dyn std::error::Error + 'static)) -> String {
    let text = source.to_string();
    // What a server refuses has a line for each mistake, and one for what to do about it.
    if source.is::<warpyard_api::client::ClientError>() {
        return text;
    }
    let boxed = source.downcast_ref::<Box<toml::de::Error>>().map(Box::as_ref);
    match boxed.or_else(|| source.downcast_ref()) {
        // The line is drawn as it stands in the file; what is said of it may have more than that.
        Some(drawn) => text.trim_end().replace(drawn.message(), &escape_controls(drawn.message())),
        None => escape_controls(&text).into_owned(),
    }
}
