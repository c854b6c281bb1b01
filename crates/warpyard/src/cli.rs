//! Every command by name. What each does is in a file of its own under `commands`.

use crate::commands::{
    act, admin, allocate, attach, claim, compare, completions, doctor, down, estimate, gpus, history, info,
    install, learn, limits, login, logs, plan, policies, policy, priority, progress, ps, replay, reproduce,
    resume, retry, run, schema, show, sim, snapshot, submit, throughputs, tls, token, trace, up, wait, why,
    worker, workers,
};
use crate::context::Context;
use crate::exit::Exit;
use crate::simulation;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the work failed (`run` exits as its task did: with its exit code, 128 + signal,
     124 for a timeout, 130 if it was cancelled, here or elsewhere)
  2  the request was wrong
  3  the server cannot be reached
  75 `progress`, inside a task: it should save and exit, since others wait for its GPUs

Selectors name jobs and tasks: 412, 412.train, 412.train[3], 3-7, 3,5, last, all.";

/// One scheduler for shared GPUs.
#[derive(Debug, Parser)]
#[command(name = "warpyard", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print JSON, in a stable form for scripts; errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Server to talk to, such as https://gpu1:7700 [env: WARPYARD_SERVER] [default: the one of the data directory]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The server's data directory [env: WARPYARD_DATA] [default: ~/.local/state/warpyard]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server and a worker on this machine
    Up(up::Up),
    /// Submit a job, follow its log and exit with its exit code
    Run(run::Run),
    /// Attach to the terminal of a job (`run --pty`)
    Attach(attach::Attach),
    /// Submit a job and return at once
    Submit(submit::Submit),
    /// List jobs
    #[command(visible_alias = "ls")]
    Ps(ps::Ps),
    /// Show a job, its tasks and their attempts
    Show(show::Show),
    /// Compare a job's snapshot of its working directory with the directory now
    Snapshot(snapshot::Snapshot),
    /// Print the log of a job or task
    Logs(logs::Logs),
    /// Explain why a job waits and when it is expected to start, or how it ended
    Why(why::Why),
    /// Wait for jobs to end; exits with 0 only if all succeeded
    Wait(wait::Wait),
    /// Cancel jobs or tasks
    Cancel(act::Cancel),
    /// Run jobs or tasks again
    Retry(retry::Retry),
    /// Keep jobs or tasks in the queue from starting
    Hold(act::Hold),
    /// Release held jobs or tasks, or a claim
    Release(act::Release),
    /// Pause running tasks
    Pause(act::Pause),
    /// Resume paused tasks, or a drained worker
    #[command(after_help = resume::TARGETS)]
    Resume(resume::Resume),
    /// Change the priority of jobs
    Priority(priority::Priority),
    /// Report progress from inside a task; exits with 75 when the task should save and exit
    Progress(progress::Progress),
    /// Show or set how fast job profiles run on each GPU type
    Throughputs(throughputs::Throughputs),
    /// Wait for GPUs, then run a command here (or go on in this shell) with only those visible
    Claim(claim::Claim),
    /// List claims
    Claims(claim::Claims),
    /// Extend a claim
    Extend(claim::Extend),
    /// Give a claim to a process that already uses GPUs
    Adopt(claim::Adopt),
    /// Show your limits and how much of them you use
    Limits(limits::Limits),
    /// List GPUs and who uses them
    Gpus(gpus::Gpus),
    /// List workers
    Workers(workers::Workers),
    /// Start no more tasks on a worker; running tasks finish
    Drain(workers::Drain),
    /// Run a worker: offer this machine to a server on another
    Worker(worker::Worker),
    /// Forget a worker: its key is revoked, and it can join again only with a new one
    Forget(workers::Forget),
    /// List policies
    Policies(policies::Policies),
    /// Show or change the policy in force
    Policy(policy::Policy),
    /// List finished attempts and the resources they used
    History(history::History),
    /// Show the server's address, data directory, policy and load
    Info(info::Info),
    /// Print a link that logs one browser in to the pages, or log in to another machine's server
    Login(login::Login),
    /// Show how other machines reach the server and the CA they know it by, or print its certificate
    Tls(tls::Tls),
    /// Make, list and revoke tokens: for people on other machines, and for workers to join with
    Token(token::Token),
    /// Stop the server; running tasks continue and the next `up` takes them over
    Down(down::Down),
    /// Estimate a model's GPU memory and run time from its file, without running it
    #[command(after_help = estimate::gpus())]
    Estimate(estimate::Estimate),
    /// Schedule a workflow on heterogeneous machines: which task where and when
    #[command(after_help = plan::algorithms())]
    Plan(plan::Plan),
    /// Train the network of the learned planner
    Learn(learn::Learn),
    /// Compute how jobs should share GPUs of different types to meet a goal
    #[command(after_help = allocate::goals())]
    Allocate(allocate::Allocate),
    /// Simulate a workload under a policy
    #[command(after_help = simulation::policy_list())]
    #[command(mut_arg("cluster", |cluster| cluster.required(false).required_unless_present("faults")))]
    #[command(mut_arg("trace", |trace| trace.required_unless_present_any(["generate", "faults"])))]
    Sim(sim::Simulate),
    /// Simulate the same workloads under several policies
    #[command(after_help = simulation::policy_list())]
    Compare(compare::Compare),
    /// Generate, import, convert or summarise workload traces
    Trace(trace::Trace),
    /// Replay this server's history under other policies
    #[command(after_help = simulation::policy_list())]
    Replay(replay::Replay),
    /// Reproduce published tables, ours beside theirs
    #[command(after_help = reproduce::tables())]
    Reproduce(reproduce::Reproduce),
    /// Print the JSON Schema of a file format, or an example file
    Schema(schema::Schema),
    /// Install warpyard as a service: program, systemd unit, manual pages, completions
    Install(install::Install),
    /// Remove what `install` wrote
    Uninstall(install::Uninstall),
    /// Check the installation: GPUs, permissions, disk, clock, claims
    Doctor(doctor::Doctor),
    /// Back up, restore and repair the server's state
    Admin(admin::Admin),
    /// Print shell completions
    Completions(completions::Completions),
}

impl Command {
    /// Does what was asked.
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Up(command) => command.run(context),
            Self::Run(command) => command.run(context),
            Self::Attach(command) => command.run(context),
            Self::Submit(command) => command.run(context),
            Self::Ps(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Snapshot(command) => command.run(context),
            Self::Logs(command) => command.run(context),
            Self::Why(command) => command.run(context),
            Self::Wait(command) => command.run(context),
            Self::Cancel(command) => command.run(context),
            Self::Retry(command) => command.run(context),
            Self::Hold(command) => command.run(context),
            Self::Release(command) => command.run(context),
            Self::Pause(command) => command.run(context),
            Self::Resume(command) => command.run(context),
            Self::Priority(command) => command.run(context),
            Self::Progress(command) => command.run(context),
            Self::Throughputs(command) => command.run(context),
            Self::Claim(command) => command.run(context),
            Self::Claims(command) => command.run(context),
            Self::Extend(command) => command.run(context),
            Self::Adopt(command) => command.run(context),
            Self::Limits(command) => command.run(context),
            Self::Gpus(command) => command.run(context),
            Self::Workers(command) => command.run(context),
            Self::Drain(command) => command.run(context),
            Self::Worker(command) => command.run(context),
            Self::Forget(command) => command.run(context),
            Self::Policies(command) => command.run(context),
            Self::Policy(command) => command.run(context),
            Self::History(command) => command.run(context),
            Self::Info(command) => command.run(context),
            Self::Login(command) => command.run(context),
            Self::Tls(command) => command.run(context),
            Self::Token(command) => command.run(context),
            Self::Down(command) => command.run(context),
            Self::Estimate(command) => command.run(context),
            Self::Plan(command) => command.run(context),
            Self::Learn(command) => command.run(context),
            Self::Allocate(command) => command.run(context),
            Self::Sim(command) => command.run(context),
            Self::Compare(command) => command.run(context),
            Self::Trace(command) => command.run(context),
            Self::Replay(command) => command.run(context),
            Self::Reproduce(command) => command.run(context),
            Self::Schema(command) => command.run(context),
            Self::Install(command) => command.run(context),
            Self::Uninstall(command) => command.run(context),
            Self::Doctor(command) => command.run(context),
            Self::Admin(command) => command.run(context),
            Self::Completions(command) => command.run(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_takes_the_global_options() {
        for args in [["warpyard", "ps", "--json"], ["warpyard", "--json", "ps"]] {
            assert!(Cli::try_parse_from(args).unwrap().global.json, "{args:?}");
        }
    }
}
