//! What the commands without a server share: reading the files they are given, finding what is asked for by name,
//! clusters and workloads to simulate, and saying how far a long computation is.

mod cluster;
mod costs;
mod file;
mod formats;
mod json;
mod load;
mod named;
mod outputs;
mod own;
mod progress;
mod shape;
mod simulate;
mod study;
mod tally;
mod throughputs;
mod trace;
mod workload;

#[cfg(test)]
pub(crate) use cluster::cluster_in;
pub(crate) use cluster::{cluster, cluster_schema};
pub(crate) use costs::Costs;
pub(crate) use file::{bad_file, keep, text_of};
pub(crate) use formats::{FORMATS, Open, read_text};
pub(crate) use json::parse;
pub(crate) use load::Load;
pub(crate) use named::{find, listed};
pub(crate) use outputs::{Outputs, keep_picture};
pub(crate) use own::{OWN, is_log, recorded};
pub(crate) use progress::Line;
pub(crate) use shape::Shape;
pub(crate) use simulate::{Bench, Ran, Wanted, kinds, policies, policies_of, policy};
pub(crate) use study::{meaning, study};
pub(crate) use tally::Tally;
pub(crate) use throughputs::Throughputs;
pub(crate) use trace::{Trace, read_trace, tell, told};
pub(crate) use workload::{Source, Workload};
