//! What is simulated: clusters written on one line, workloads made from a seed, and traces in CSV.

mod cluster_line;
mod generate;
mod openb;
mod trace;

pub use cluster_line::{BadCluster, cluster};
pub use generate::{Generator, Lengths};
pub use openb::{BadOpenb, OpenbNode, OpenbPod, openb_nodes, openb_pods};
pub use trace::{BadRow, TraceJob, read, write};
