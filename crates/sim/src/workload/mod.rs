//! What is simulated: clusters written on one line, workloads made from a seed, and traces in files of many formats.

mod cluster_line;
pub mod format;
mod generate;
mod job;
mod openb;
mod reading;

pub use cluster_line::{ClusterSpecError, MAX_DEVICES, MAX_PER_SERVER, cluster};
pub use generate::{Estimate, Generator, Graphs, Lengths, Shape};
pub use job::{TraceJob, TraceTask};
pub use openb::{OpenbError, OpenbNode, OpenbPod, openb_nodes, openb_pods};
pub use reading::{Location, ParsedTrace, RowError, RowProblem, TraceError};
