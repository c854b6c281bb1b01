//! The cluster to simulate: a line such as `12xV100:16GiB,2xK80/8`, or a TOML file with that line or its servers.

use super::{bad_file, text_of};
use crate::wrong::Wrong;
use serde::Deserialize;
use std::path::Path;
use warpyard_api::quantity::{ByteSize, MilliCpus};
use warpyard_core::event::WorkerInfo;
use warpyard_sim::workload::{self, BadCluster};

/// The file's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// A cluster on one line.
    gpus: Option<String>,
    /// Or server by server.
    #[serde(default, rename = "server")]
    servers: Vec<Server>,
}

/// One server, or several alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: Option<String>,
    gpus: String,
    #[serde(default = "one")]
    count: usize,
    cpus: Option<MilliCpus>,
    memory: Option<ByteSize>,
}

fn one() -> usize {
    1
}

/// The servers a line or a file describes.
pub(crate) fn cluster(given: &str) -> Result<Vec<WorkerInfo>, Wrong> {
    let path = Path::new(given);
    let named_as_file = path.extension().is_some_and(|extension| extension == "toml");
    if !(named_as_file || path.is_file()) {
        return workload::cluster(given).map_err(Wrong::BadCluster);
    }
    let file: File = toml::from_str(&text_of(given)?).map_err(|e| bad_file(given, e))?;
    servers(file).map_err(|e| bad_file(given, e))
}

fn servers(file: File) -> Result<Vec<WorkerInfo>, BadCluster> {
    let mut all = match &file.gpus {
        Some(line) => workload::cluster(line)?,
        None => Vec::new(),
    };
    for Server { name, gpus, count, cpus, memory } in file.servers {
        for copy in 1..=count {
            // Groups of a line fill servers of their own; here all of them are in one.
            let mut parts = workload::cluster(&gpus)?.into_iter();
            let mut server = parts.next().ok_or(BadCluster::Empty)?;
            server.devices.extend(parts.flat_map(|part| part.devices));
            server.name = match &name {
                Some(name) if count == 1 => name.clone(),
                Some(name) => format!("{name}-{copy}"),
                None => format!("server{}", all.len() + 1),
            };
            for (i, device) in server.devices.iter_mut().enumerate() {
                device.uuid = format!("GPU-{}-{i}", all.len());
            }
            server.cpus = cpus.map_or(server.cpus, |cpus| cpus.0);
            server.memory = memory.map_or(server.memory, |memory| memory.0);
            all.push(server);
        }
    }
    if all.is_empty() { Err(BadCluster::Empty) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<WorkerInfo>, BadCluster> {
        servers(toml::from_str(text).unwrap())
    }

    #[test]
    fn a_file_has_a_line_or_servers() {
        let line = read("gpus = '8xV100:16GiB'").unwrap();
        assert_eq!(line.iter().map(|s| s.devices.len()).collect::<Vec<_>>(), [4, 4]);
        let servers =
            read("[[server]]\nname = 'big'\ngpus = '6xV100,2xK80'\ncpus = 32\n[[server]]\ngpus = '1xT4'\ncount = 2")
                .unwrap();
        let names: Vec<_> = servers.iter().map(|s| (s.name.as_str(), s.devices.len())).collect();
        assert_eq!(names, [("big", 8), ("server2", 1), ("server3", 1)]);
        assert_eq!(servers[0].cpus, 32_000);
        let uuids: std::collections::BTreeSet<_> =
            servers.iter().flat_map(|s| s.devices.iter().map(|d| &d.uuid)).collect();
        assert_eq!(uuids.len(), 10, "no two devices have the same name");
        assert_eq!(read(""), Err(BadCluster::Empty));
    }
}
