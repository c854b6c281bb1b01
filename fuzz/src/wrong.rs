//! As much of the binary's `wrong` as its readers name.

use warpyard_sim::workload::ClusterSpecError;

#[derive(Debug)]
#[expect(dead_code, reason = "only printed")]
pub(crate) enum Wrong {
    BadCluster(ClusterSpecError),
    BadFile(Box<dyn std::error::Error + Send + Sync>),
    UnreadableFile(std::io::Error),
}
