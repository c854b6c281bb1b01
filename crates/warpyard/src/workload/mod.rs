//! Workloads of simulations: traces in files of every known format, a server's own log, and jobs generated from a seed.

mod formats;
mod generator;
mod load;
mod server_log;
mod source;
mod trace;

pub(crate) use formats::{FORMATS, ImportOptions, looks_like_any, read_text};
pub(crate) use generator::GeneratorOptions;
pub(crate) use load::Load;
pub(crate) use server_log::{SERVER_LOG, is_log, read_log};
pub(crate) use source::{Workload, WorkloadOptions};
pub(crate) use trace::{Trace, describe_bad_rows, print_notes, read_trace};
