//! A cluster on one line: `4xV100:16GiB`, or `12xv100,12xp100,12xk80` in servers of 4 unless `/8` says otherwise.

use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};

/// Why a line describes no cluster.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ClusterSpecError {
    /// There is nothing in it.
    #[error("a cluster with no devices")]
    Empty,
    /// A group is not of the form `4xV100:16GiB/8`.
    #[error("'{0}' is not of the form 4xV100, 4xV100:16GiB or 4xV100:16GiB/8")]
    Group(String),
    /// A group of no devices.
    #[error("'{0}' has no devices")]
    None(String),
    /// Two servers cannot be told apart.
    #[error("there is a server '{0}' already; name each once, or say how many there are with count")]
    SameName(String),
    /// More devices than fit into memory.
    #[error("{asked} GPUs are more than can be simulated ({MAX_DEVICES})")]
    TooMany {
        /// How many were asked for.
        asked: u64,
    },
    /// More devices than a server can have.
    #[error("{0} GPUs are more than one server may have ({MAX_PER_SERVER})")]
    TooManyPerServer(usize),
    /// A size is none.
    #[error("'{0}' is not a size such as 16GiB")]
    Size(String),
}

/// The most GPUs of a simulated cluster; each takes a few hundred bytes in every copy of the state.
pub const MAX_DEVICES: u64 = 1_000_000;

/// The most GPUs of one server.
pub const MAX_PER_SERVER: usize = 10_000;

/// GPUs in a server where the line does not say.
const PER_SERVER: usize = 4;

/// What a server has beside its GPUs: enough never to matter where a trace does not speak of it.
const CPUS: u32 = 1_000_000;
const MEMORY: u64 = 1 << 50;

/// Reads a cluster.
///
/// ```
/// let servers = warpyard_sim::workload::cluster("12xV100:16GiB,2xk80/8").unwrap();
/// let sizes: Vec<_> = servers.iter().map(|s| s.devices.len()).collect();
/// assert_eq!(sizes, [4, 4, 4, 2]);
/// ```
pub fn cluster(line: &str) -> Result<Vec<WorkerInfo>, ClusterSpecError> {
    let (mut servers, mut devices) = (Vec::new(), 0u64);
    for group in line.split(',').map(str::trim).filter(|g| !g.is_empty()) {
        let bad = || ClusterSpecError::Group(group.to_owned());
        let (rest, per_server) = match group.split_once('/') {
            Some((rest, n)) => (rest, n.parse().ok().filter(|&n: &usize| n > 0).ok_or_else(bad)?),
            None => (group, PER_SERVER),
        };
        let (count, rest) = rest.split_once(['x', 'X']).ok_or_else(bad)?;
        let (kind, memory) = match rest.split_once(':') {
            Some((kind, memory)) => (kind, size(memory)?),
            None => (rest, usual_memory(rest)),
        };
        let count: usize = count.parse().map_err(|_| bad())?;
        if kind.is_empty() {
            return Err(bad());
        }
        if count == 0 {
            return Err(ClusterSpecError::None(group.to_owned()));
        }
        devices = devices.saturating_add(count as u64);
        if devices > MAX_DEVICES {
            return Err(ClusterSpecError::TooMany { asked: devices });
        }
        if count.min(per_server) > MAX_PER_SERVER {
            return Err(ClusterSpecError::TooManyPerServer(count.min(per_server)));
        }
        for first in (0..count).step_by(per_server) {
            let devices =
                (first..count.min(first + per_server)).map(|i| device(kind, i, memory, servers.len()));
            let (name, devices) = (format!("server{}", servers.len() + 1), devices.collect());
            servers.push(WorkerInfo { name, devices, cpus: CPUS, memory: MEMORY, ..WorkerInfo::default() });
        }
    }
    if servers.is_empty() { Err(ClusterSpecError::Empty) } else { Ok(servers) }
}

fn device(kind: &str, i: usize, memory: u64, server: usize) -> DeviceInfo {
    DeviceInfo {
        uuid: format!("GPU-{server}-{i}"),
        kind: kind.to_owned(),
        memory,
        budget: memory,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    }
}

/// The memory the common variant of a type has; any other is taken to have as much as the largest of these.
fn usual_memory(kind: &str) -> u64 {
    let gib = match kind.to_ascii_lowercase().as_str() {
        "k80" => 12,
        "p100" | "v100" | "t4" => 16,
        "a100" => 40,
        _ => 80,
    };
    gib << 30
}

fn size(text: &str) -> Result<u64, ClusterSpecError> {
    let bad = || ClusterSpecError::Size(text.to_owned());
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "GiB" | "G" => 1 << 30,
        "MiB" | "M" => 1 << 20,
        "GB" => 1_000_000_000,
        "MB" => 1_000_000,
        _ => return Err(bad()),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| *n > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_memory_is_refused_before_it_is_made() {
        let refused = |line: &str| cluster(line).unwrap_err().to_string();
        assert_eq!(refused("4294967295xV100"), "4294967295 GPUs are more than can be simulated (1000000)");
        assert_eq!(
            refused("600000xV100,600000xK80"),
            "1200000 GPUs are more than can be simulated (1000000)"
        );
        assert_eq!(refused("70000xV100/70000"), "70000 GPUs are more than one server may have (10000)");
        assert!(cluster("18446744073709551615xV100/18446744073709551615").is_err());
    }

    #[test]
    fn groups_fill_servers_of_their_own() {
        let servers = cluster("5xv100,1xK80:12GiB").unwrap();
        let kinds: Vec<_> = servers.iter().map(|s| (s.devices.len(), s.devices[0].kind.as_str())).collect();
        assert_eq!(kinds, [(4, "v100"), (1, "v100"), (1, "K80")]);
        let uuids: std::collections::BTreeSet<_> =
            servers.iter().flat_map(|s| s.devices.iter().map(|d| &d.uuid)).collect();
        assert_eq!(uuids.len(), 6, "no two devices have the same name");
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        assert_eq!(cluster(" "), Err(ClusterSpecError::Empty));
        for wrong in ["V100", "4x", "4xV100/0", "fourxV100"] {
            assert_eq!(cluster(wrong), Err(ClusterSpecError::Group(wrong.to_owned())), "{wrong}");
        }
        assert_eq!(cluster("4xV100,0xK80"), Err(ClusterSpecError::None("0xK80".to_owned())));
        assert_eq!(cluster("4xV100:16"), Err(ClusterSpecError::Size("16".to_owned())));
    }
}
