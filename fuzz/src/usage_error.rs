//! Stand-in for the binary's `usage_error`: the errors its readers name.

use warpyard_sim::workload::ClusterSpecError;

#[derive(Debug)]
#[expect(dead_code, reason = "only printed")]
pub(crate) enum UsageError {
    BadCluster(ClusterSpecError),
    BadFile(Box<dyn std::error::Error + Send + Sync>),
    UnreadableFile(std::io::Error),
}
