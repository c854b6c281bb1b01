//! Device nodes of GPUs, as sysfs tells of them.

use std::fs;
use std::path::Path;

use crate::supervise::DeviceNode;

/// The nodes below `/dev/dri` of the PCI device with this directory: `cardN` and `renderDN`.
pub(super) fn drm_nodes(device: &Path) -> Vec<DeviceNode> {
    let entries = fs::read_dir(device.join("drm")).into_iter().flatten().flatten();
    let mut nodes: Vec<_> = entries.filter_map(|entry| numbers(&entry.path().join("dev"))).collect();
    nodes.sort_unstable();
    nodes
}

/// The numbers in a file such as `226:128`.
fn numbers(file: &Path) -> Option<DeviceNode> {
    let text = fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(DeviceNode { major: major.parse().ok()?, minor: minor.parse().ok()? })
}
