//! Every command by name. What each does is in a file of its own under `commands`.

use crate::commands::{
    act, admin, allocate, attach, claim, compare, completions, doctor, down, gpus, history, info, install,
    learn, limits, login, logs, plan, policies, policy, priority, progress, ps, replay, reproduce, resume,
    retry, run, schema, show, sim, snapshot, submit, throughputs, trace, up, wait, why, workers,
};
use crate::context::Context;
use crate::exit::Exit;
use crate::lab;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  the work failed (`run` exits as its task did: its code, 128 + signal, 124 for a timeout,
     130 if it was cancelled, here or elsewhere)
  2  the request was wrong
  3  the server cannot be reached
  75 `progress` inside a task: it should save and exit, others wait for its GPUs

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

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print JSON, in the form scripts can rely on
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The server to talk to, such as http://gpu1:7700 [or WARPYARD_SERVER; else the one of the data directory]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Where the server keeps everything [or WARPYARD_DATA; else the user's state directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server and a worker on this machine
    Up(up::Up),
    /// Submit a job, follow its log and exit as it does
    Run(run::Run),
    /// Come back to a job that runs in a terminal (`run --pty`)
    Attach(attach::Attach),
    /// Submit a job and leave it to run
    Submit(submit::Submit),
    /// List jobs
    #[command(visible_alias = "ls")]
    Ps(ps::Ps),
    /// Show a job, its tasks and their attempts
    Show(show::Show),
    /// Compare the directory a job was submitted from with what it is now
    Snapshot(snapshot::Snapshot),
    /// Print a task's log
    Logs(logs::Logs),
    /// Say why a job waits and when it will likely start
    Why(why::Why),
    /// Wait for jobs to end; exits with 0 only if all succeeded
    Wait(wait::Wait),
    /// End jobs or tasks
    Cancel(act::Cancel),
    /// Run jobs or tasks again
    Retry(retry::Retry),
    /// Hold jobs back
    Hold(act::Hold),
    /// Let held jobs go on, or let a claim go
    Release(act::Release),
    /// Pause running tasks
    Pause(act::Pause),
    /// Let paused tasks go on, or a drained worker take tasks again
    #[command(after_help = resume::WHICH)]
    Resume(resume::Resume),
    /// Change how urgent jobs are
    Priority(priority::Priority),
    /// From inside a task: how many steps it has done; exits with 75 where the task should give way
    Progress(progress::Progress),
    /// How fast profiles run on types of GPU, as said and as measured
    Throughputs(throughputs::Throughputs),
    /// Wait for GPUs, then run a command here, or this shell, with just those
    Claim(claim::Claim),
    /// List claims; `release` lets one go
    Claims(claim::Claims),
    /// Let a claim last longer
    Extend(claim::Extend),
    /// Make a process that uses GPUs without a claim hold one
    Adopt(claim::Adopt),
    /// Show what you may have, and have
    Limits(limits::Limits),
    /// List GPUs and who is on them
    Gpus(gpus::Gpus),
    /// List workers
    Workers(workers::Workers),
    /// Let a worker finish what it has and give it no more
    Drain(workers::Drain),
    /// List policies
    Policies(policies::Policies),
    /// Show or change the policy in use
    Policy(policy::Policy),
    /// List attempts that ended, with what they used
    History(history::History),
    /// Say what the server is: its address, data, policy and load
    Info(info::Info),
    /// Print a link that lets you into the pages, once
    Login(login::Login),
    /// Stop the server; running tasks go on and are found again
    Down(down::Down),
    /// Plan a workflow on unlike machines: which task where, from when to when
    #[command(after_help = plan::algorithms())]
    Plan(plan::Plan),
    /// Train the network of the learned planner
    Learn(learn::Learn),
    /// Share GPUs of unlike types among jobs so that a goal is met
    #[command(after_help = allocate::goals())]
    Allocate(allocate::Allocate),
    /// Simulate a workload under a policy
    #[command(after_help = lab::policies())]
    #[command(mut_arg("cluster", |cluster| cluster.required(false).required_unless_present("faults")))]
    #[command(mut_arg("trace", |trace| trace.required_unless_present_any(["generate", "faults"])))]
    Sim(sim::Simulate),
    /// Simulate the same workloads under several policies
    #[command(after_help = lab::policies())]
    Compare(compare::Compare),
    /// Make traces to simulate, or look at them
    Trace(trace::Trace),
    /// Simulate this server's own history again, under other policies
    #[command(after_help = lab::policies())]
    Replay(replay::Replay),
    /// Compute published tables anew, ours beside theirs
    #[command(after_help = reproduce::tables())]
    Reproduce(reproduce::Reproduce),
    /// Print the form of a file as JSON Schema, or an example of it
    Schema(schema::Schema),
    /// Make warpyard a service: the program, a systemd unit, manual pages, completions
    Install(install::Install),
    /// Take back what `install` wrote
    Uninstall(install::Uninstall),
    /// Look the installation over: GPUs, permissions, disk, clock, claims
    Doctor(doctor::Doctor),
    /// Look after the server's own state
    Admin(admin::Admin),
    /// Print completions for a shell
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
            Self::Policies(command) => command.run(context),
            Self::Policy(command) => command.run(context),
            Self::History(command) => command.run(context),
            Self::Info(command) => command.run(context),
            Self::Login(command) => command.run(context),
            Self::Down(command) => command.run(context),
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
