//! What AMD's compute driver (KFD) says in sysfs: its GPUs in ROCm's order, and who computes on them.

use std::fs;
use std::path::Path;

use super::{GpuProcess, ProcessKind};

/// A GPU as KFD knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KfdGpu {
    /// KFD's own number for it, which names its files.
    pub(super) id: u32,
    /// `domain:bus:device.function`.
    pub(super) pci: String,
    /// The chip's name, such as `aldebaran`.
    pub(super) chip: Option<String>,
}

/// The GPUs of KFD's topology in the order ROCm counts them.
pub(super) fn gpus(sys: &Path) -> Vec<KfdGpu> {
    let nodes = sys.join("class/kfd/kfd/topology/nodes");
    let mut numbers = numbered(&nodes);
    numbers.sort_unstable();
    numbers.into_iter().filter_map(|number| gpu(&nodes.join(number.to_string()))).collect()
}

fn gpu(node: &Path) -> Option<KfdGpu> {
    // A node of CPUs has the id 0.
    let id = number(&node.join("gpu_id")).filter(|id| *id != 0)?;
    let properties = fs::read_to_string(node.join("properties")).ok()?;
    let property = |name: &str| -> Option<u64> {
        let line = properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    let location = property("location_id")?;
    let domain = property("domain").unwrap_or(0);
    let pci =
        format!("{domain:04x}:{:02x}:{:02x}.{:x}", location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
    let chip = fs::read_to_string(node.join("name")).ok().map(|name| name.trim().to_owned());
    Some(KfdGpu { id: u32::try_from(id).ok()?, pci, chip: chip.filter(|name| !name.is_empty()) })
}

/// The processes on one of KFD's GPUs.
///
/// A process that opened the driver has a memory file for *every* GPU, so one that holds nothing and has no queue there
/// is not on it.
pub(super) fn processes(sys: &Path, gpu: u32) -> Vec<GpuProcess> {
    let all = sys.join("class/kfd/kfd/proc");
    let mut pids = numbered(&all);
    pids.sort_unstable();
    let on_it = |pid: u32| {
        let process = all.join(pid.to_string());
        let bytes = number(&process.join(format!("vram_{gpu}")));
        let queues = process.join("queues");
        let queued = || {
            numbered(&queues).iter().any(|q| number(&queues.join(format!("{q}/gpuid"))) == Some(gpu.into()))
        };
        (bytes.is_some_and(|bytes| bytes > 0) || queued()).then_some(GpuProcess {
            pid,
            bytes,
            kind: ProcessKind::Compute,
        })
    };
    pids.into_iter().filter_map(on_it).collect()
}

/// The entries of a directory whose names are numbers; none where there is no such directory.
fn numbered(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
