//! Simulations from the command line: the cluster, throughputs and prices to simulate with, the runs themselves with their
//! progress, and the reports, tables and plots made of them.

mod cluster;
mod costs;
mod outputs;
mod progress;
mod progress_line;
mod run;
mod study;
mod throughputs;

#[cfg(test)]
pub(crate) use cluster::cluster_in;
pub(crate) use cluster::{cluster, cluster_schema};
pub(crate) use costs::Costs;
pub(crate) use outputs::{Outputs, write_picture};
pub(crate) use progress::Progress;
pub(crate) use progress_line::ProgressLine;
pub(crate) use run::{
    Experiment, RunOptions, RunResult, gpu_types, parse_policies, parse_policy, policy_list,
};
pub(crate) use study::{meaning, study};
pub(crate) use throughputs::Throughputs;
